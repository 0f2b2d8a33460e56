"""keywakectl explain lag: two halves, the largest stage, and what is missing."""
import json

import pytest

from test_ctl import Daemon, agent, ctl, on_terminal, proxy  # noqa: F401 (fixtures)

PLAIN = {'NO_COLOR': '1'}
EPOCH = 2**60 + 1


def stage(name, p50=None, p99=None, samples=1000):
    none = p50 is None
    return {'stage': name, 'p50_us': p50, 'p99_us': p99, 'max_us': p99, 'samples': 0 if none else samples,
            'doc': f'what {name} is', 'remedy': f'mend {name}'}


def half(*stages, epoch=EPOCH):
    return {'epoch': epoch, 'window_s': 90.0, 'stages': list(stages)}


FIRST = half(stage('primary', 80, 300), stage('events', 0, 5), stage('wait', 20, 900_000),
             stage('fetch', 150, 700), stage('publish', 10, 40))
SECOND = half(stage('look', 400, 1500), stage('read', 30, 90), stage('apply', 70, 250))
NAMES = ['primary', 'events', 'wait', 'fetch', 'publish', 'look', 'read', 'apply']


@pytest.fixture
def both(agent, proxy):
    agent.answer('lag', SECOND)
    proxy.answer('lag', FIRST)
    agent.asked(), proxy.asked()
    return agent, proxy


def explain(daemon, *words, status=0):
    done = daemon.ctl('explain', 'lag', *words)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


def test_the_halves_are_shown_in_the_order_of_the_way(both):
    for one, other in (both, both[::-1]):
        told = explain(one, other.path)
        assert [row['stage'] for row in told['stages']] == NAMES
        assert [row['at'] for row in told['stages']] == ['proxy'] * 5 + ['agent'] * 3
        assert told['missing'] == '' and told['window_s'] == 90
        assert told['largest_p50'] == 'look' and told['remedy'] == 'mend look'
        assert told['largest_p99'] == 'wait'


def test_the_other_half_is_found_beside_the_first(both):
    for one in both:
        assert [row['stage'] for row in explain(one)['stages']] == NAMES


def test_a_neighbour_of_another_table_is_not_taken_for_the_other_half(both):
    agent, proxy = both
    proxy.answer('lag', {**FIRST, 'epoch': EPOCH + 1})
    told = explain(agent)
    assert [row['stage'] for row in told['stages']] == NAMES[5:]
    assert 'the stages of the proxy are not known here' in told['missing']
    assert f'keywakectl -s {agent.path} explain lag SOCKET' in told['missing']


def test_of_several_neighbours_one_must_be_named(both, tmp_path):
    agent, proxy = both
    second = Daemon(tmp_path / 'agent-2.sock', 'keywake-agent')
    try:
        second.answer('lag', SECOND)
        told = explain(proxy)
        assert len(told['stages']) == 5 and 'more than one agent' in told['missing']
        assert explain(proxy, agent.path)['missing'] == ''
    finally:
        second.end()


def test_a_named_half_that_does_not_belong_is_an_error(both, tmp_path):
    agent, proxy = both
    proxy.answer('lag', {**FIRST, 'epoch': EPOCH + 1})
    done = agent.ctl('explain', 'lag', proxy.path)
    assert done.returncode == 1 and 'does not read the table of this proxy' in done.stderr
    assert len(json.loads(done.stdout)['stages']) == 3
    done = agent.ctl('explain', 'lag', agent.path)
    assert done.returncode == 1 and 'name that of the proxy' in done.stderr
    done = agent.ctl('explain', 'lag', str(tmp_path / 'gone.sock'))
    assert done.returncode == 1 and 'gone.sock' in done.stderr


def test_reset_is_asked_of_those_that_are_shown(both, tmp_path):
    agent, proxy = both
    stranger = Daemon(tmp_path / 'stranger.sock', 'keywake-agent')
    try:
        stranger.answer('lag', {**SECOND, 'epoch': 1})
        stranger.asked()
        explain(agent, '--reset')
        assert ['lag', {'reset': True}] in agent.asked() and ['lag', {'reset': True}] in proxy.asked()
        assert stranger.asked() == [['lag', {}]]
    finally:
        stranger.end()


def test_a_terminal_gets_a_table_and_a_sentence(both):
    agent, proxy = both
    proxy.answer('lag', half(*FIRST['stages'][:2], stage('wait'), *FIRST['stages'][3:]))
    status, text = on_terminal(['-s', agent.path, 'explain', 'lag'], env=PLAIN)
    lines = text.replace('\r', '').splitlines()
    assert status == 0 and lines[0].split() == ['AT', 'STAGE', 'P50', 'P99', 'MAX', 'SAMPLES', 'DOC']
    assert lines[2].split()[:5] == ['proxy', 'events', '<', '1', 'µs']
    assert lines[3].split()[:5] == ['proxy', 'wait', 'none', 'none', 'none']
    assert 'Of the last 90.0 s' in text
    assert 'Largest: look, 400 µs: mend look' in text and 'Missing' not in text and '\x1b' not in text


def test_nothing_has_changed_yet(both):
    agent, proxy = both
    agent.answer('lag', half(stage('look'), stage('read'), stage('apply')))
    proxy.answer('lag', {**FIRST, 'epoch': 1})
    text = agent.ctl('explain', 'lag', '-o', 'table').stdout
    assert 'Nothing has changed meanwhile' in text and 'Missing: the stages of the proxy' in text
    assert explain(agent)['largest_p50'] is None
    proxy.answer('lag', half(FIRST['stages'][0], *map(stage, NAMES[1:5])))
    assert len(explain(agent)['stages']) == 8 and explain(agent)['largest_p50'] is None


def test_what_holds_changes_up_is_told_first(both):
    """A change that waits is in no figure, so these say nothing of it."""
    agent, proxy = both
    agent.answer('lag', {**half(stage('look'), stage('read'), stage('apply')), 'present': 'bootstrapping: a limit\x1b'})
    proxy.answer('lag', {**FIRST, 'present': ''})
    text = agent.ctl('explain', 'lag', '-o', 'table').stdout
    assert text.index(r'At present the agent is bootstrapping: a limit\x1b') < text.index('Of the last')
    assert explain(agent)['present'] == {'agent': 'bootstrapping: a limit\x1b'}
    proxy.answer('lag', half(*map(stage, NAMES[:5])))
    text = agent.ctl('explain', 'lag', '-o', 'table').stdout
    assert 'No change has passed through meanwhile' in text and 'Nothing has changed' not in text


def test_few_samples_have_no_tail(both):
    agent, proxy = both
    agent.answer('lag', half(stage('look', 5, 9_000_000, samples=3), *SECOND['stages'][1:]))
    told = explain(agent)
    assert told['largest_p99'] == 'wait'


def test_a_slow_stage_with_few_samples_is_still_the_largest(both):
    agent, proxy = both
    proxy.answer('lag', half(stage('primary', 80, 300), stage('events', 0, 5),
                             stage('wait', 900_000, 2_000_000, samples=8), *FIRST['stages'][3:]))
    told = explain(agent)
    assert told['largest_p50'] == told['largest_p99'] == 'wait'


def test_a_daemon_without_stages_says_where_to_ask(tmp_path):
    gateway = Daemon(tmp_path / 'gateway.sock', 'keywake-gateway')
    try:
        gateway.answer('lag', {'refuse': 'a gateway applies no changes: ask its proxy'})
        done = gateway.ctl('explain', 'lag')
        assert done.returncode == 2 and done.stderr == 'keywakectl: a gateway applies no changes: ask its proxy\n'
    finally:
        gateway.end()
