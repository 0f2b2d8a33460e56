"""What keywakectl prints: its formats, what fits a terminal, numbers, and words for nothing."""
import json
import re
import threading
import time

import pytest

from test_ctl import Daemon, agent, ctl, on_terminal, proxy  # noqa: F401 (fixtures)

TEXT = ('# HELP keywake_agent_warm 1 while warm\n# TYPE keywake_agent_warm gauge\nkeywake_agent_warm 1\n'
        'keywake_agent_state{state="a b"} 0\n')
PLAIN = {'NO_COLOR': '1'}


def lines_of(text):
    return text.replace('\r', '').splitlines()


def test_metrics_are_text_wherever_they_go(agent):
    agent.answer('metrics', {'text': TEXT})
    assert agent.ctl('metrics').stdout == TEXT
    assert agent.ctl('metrics', '-o', 'prometheus').stdout == TEXT
    status, shown = on_terminal(['-s', agent.path, 'metrics'])
    assert status == 0 and shown.replace('\r', '') == TEXT
    assert json.loads(agent.ctl('--json', 'metrics').stdout) == {'text': TEXT}
    rows = [line.split('  ') for line in agent.ctl('-o', 'table', 'metrics').stdout.splitlines()]
    assert [cells[0] for cells in rows] == ['METRIC', 'keywake_agent_warm', 'keywake_agent_state{state="a b"}']
    assert rows[2][-1] == '0'


def test_each_command_prints_the_format_that_is_asked_for(agent, proxy):
    agent.answer('metrics', {'text': TEXT})
    proxy.answer('metrics', {'text': TEXT})
    proxy.answer('agents.list', [{'id': 1, 'name': 'r', 'state': 'warm'}])
    assert 'keywake-agent r1: warm' in agent.ctl('status', '-o', 'table').stdout
    assert json.loads(agent.ctl('status', '--output=json').stdout)['state'] == 'warm'
    assert agent.ctl('status', '-o', 'prometheus').stdout == TEXT
    assert proxy.ctl('agents', '-o', 'table').stdout.split() == ['ID', 'NAME', 'STATE', '1', 'r', 'warm']
    assert proxy.ctl('agents', '-o', 'prometheus').stdout == TEXT
    shown = on_terminal(['-s', agent.path, '-o', 'json', 'status'])[1]
    assert json.loads(shown)['state'] == 'warm'
    watched = agent.ctl('watch', '-o', 'table', '--count', '2', '--interval', '0').stdout
    assert watched.count('\n') == 2 and watched.startswith('warm  lag') and '\x1b' not in watched


def test_a_format_that_there_is_not_is_refused(agent):
    for words, sentence in ((['-o', 'yaml', 'status'], 'expected table, json or prometheus'),
                            (['-o', 'jsn', 'status'], 'did you mean json?'),
                            (['status', '-o'], '-o needs a format'),
                            (['pause', '-o', 'prometheus'], 'pause has no figures')):
        done = agent.ctl(*words)
        assert (done.returncode, done.stdout) == (1, '') and sentence in done.stderr, done.stderr
    assert agent.asked() == []


def commands():
    """The words of each command, with something for each argument that it needs."""
    for name in re.findall(r'^  ([a-z]+(?: [a-z]+)?)(?=[ \[])', ctl('--help').stdout.split('Options:')[0], re.M):
        usage = ctl(*name.split(), '--help').stdout.splitlines()[0].split(name, 1)[1]
        yield name, name.split() + ['1' for word in re.sub(r'\[[^]]*\]', '', usage).split()]


def test_figures_are_there_or_refused_with_the_names_of_those_that_have_them(agent):
    having = {'status', 'agents', 'metrics'}
    assert '-o prometheus goes with status, agents and metrics.' in ctl('--help').stdout
    assert len(dict(commands())) > 25
    for name, words in commands():
        told = 'With -o prometheus' in ctl(*name.split(), '--help').stdout
        assert told == (name in having), name
        if name in having:
            continue
        done = agent.ctl(*words, '-o', 'prometheus')
        assert (done.returncode, done.stdout) == (1, ''), (name, done)
        assert f'{name} has no figures: -o prometheus goes with status, agents and metrics' in done.stderr
    assert agent.asked() == []


def test_a_command_is_at_the_wrong_daemon_in_every_format(agent, proxy):
    agent.answer('metrics', {'text': TEXT})
    agent.answer('agents.list', {'refuse': 'there is no method agents.list'})
    for output in ('table', 'json', 'prometheus'):
        done = agent.ctl('agents', '-o', output)
        assert (done.returncode, done.stdout) == (2, ''), done
        assert 'agents is for a proxy, and keywake-agent answers on ' in done.stderr


def test_large_numbers_keep_all_their_digits(agent):
    large = 2**53 + 1
    agent.answer('status', {'state': 'warm', 'version': large, 'exact': 2**53, 'epoch': 77,
                            'deep': [{'offset': -large}]})
    told = json.loads(agent.ctl('status').stdout)
    assert told['version'] == str(large) and told['exact'] == 2**53
    assert told['deep'][0]['offset'] == str(-large) and told['epoch'] == '000000000000004d'
    shown = on_terminal(['-s', agent.path, 'status', '--all'], env=PLAIN)[1]
    assert re.search(rf'version +{large}\r', shown) and re.search(r'epoch +000000000000004d\r', shown)
    assert '9,007,199,254,740,992' in shown


def test_nothing_is_a_word_and_not_a_number(agent):
    agent.answer('status', {'state': 'warm', 'lag_ms': 0, 'lag_p99_us': 0, 'fresh_us': 0, 'proven_equal_s': None,
                            'bytes': 0, 'reads': None, 'connected_us': 0, 'passed': None, 'age_s': -1.0})
    shown = on_terminal(['-s', agent.path, 'status', '--all'], env=PLAIN)[1]
    assert dict(line.split() for line in lines_of(shown)[1:] if len(line.split()) == 2) == {
        'lag_ms': 'none', 'lag_p99_us': 'none', 'fresh_us': 'unknown', 'proven_equal_s': 'never', 'reads': 'unknown',
        'connected_us': 'never', 'passed': 'none', 'age_s': 'never'}
    assert re.search(r'bytes +0 B\r', shown) and '0 µs' not in shown


def test_less_than_a_second_is_no_zero(agent):
    agent.answer('status', {'state': 'warm', 'proven_equal_s': 0, 'uptime_s': 0, 'since_s': 0.0, 'local': {'keys': 1}})
    shown = on_terminal(['-s', agent.path, 'status', '--all'], env=PLAIN)[1]
    assert re.search(r'proven_equal_s +< 1 s\r', shown) and re.search(r'uptime_s +< 1 s\r', shown)
    assert 'each key within the last < 1 s' in on_terminal(['-s', agent.path, 'status'], env=PLAIN)[1]


def told(text):
    """Without line ends and spaces: a text that was broken reads as before."""
    return ''.join(text.split())


@pytest.mark.parametrize('columns', [40, 60, 80, 100, 300])
def test_a_table_fits_the_terminal_and_nothing_is_lost(proxy, columns):
    rows = [{'id': 1, 'name': 'replica-' + 'x' * 60, 'carrier': 'shm', 'peer': 'pid 7 of ' + 'ä' * 30, 'state': 'bootstrapping',
             'passed': 10, 'lag_ms': 1.5, 'reads': 123456, 'depth': 16, 'key': '', 'wire_bytes': None}]
    proxy.answer('agents.list', rows)
    shown = on_terminal(['-s', proxy.path, 'agents'], env=PLAIN, columns=columns)[1]
    lines = lines_of(shown)
    assert max(len(line) for line in lines) < columns
    assert lines[0].startswith('ID  NAME') and '…' not in shown and 'left out' not in shown
    for whole in ('bootstrapping', '1.5 ms', '123,456', 'shm'):
        assert any(whole in line for line in lines), (whole, shown)
    whole = ''.join(line.split('  ')[0] + line for line in lines)
    assert whole.count('x') >= 60 and whole.count('ä') >= 30
    assert 'KEY' not in lines[0]
    assert (len(lines) == 2) == (columns == 300)


def test_columns_without_room_stand_below_their_row_with_their_names(proxy):
    proxy.answer('agents.list', [{'id': number, 'name': f'r{number}', 'state': 'warm', 'lag_ms': 1, 'applied': 1234567890,
                                  'bytes': 5 << 30, 'carrier': 'tcp+tls', 'peer': '10.0.0.7:41822', 'passed': 1234567890,
                                  'depth': 16, 'reads': 99} for number in (1, 2)])
    lines = lines_of(on_terminal(['-s', proxy.path, 'agents'], env=PLAIN, columns=80)[1])
    assert lines[0].split() == ['ID', 'NAME', 'STATE', 'LAG', 'APPLIED', 'BYTES', 'CARRIER', 'PEER']
    assert lines[2] == lines[4] == '    passed 1,234,567,890  depth 16  reads 99'


@pytest.mark.parametrize('columns', [60, 80])
def test_times_states_and_codes_are_never_cut(agent, columns):
    reason = 'the server holds keys that this agent did not write, and nobody said that they may go: ' * 3
    agent.answer('history', [{'at_us': 1700000000_000000, 'state': 'bootstrapping', 'reason_code': 'proxy_not_understood',
                              'reason': reason}])
    shown = on_terminal(['-s', agent.path, 'history'], env=PLAIN, columns=columns)[1]
    lines = lines_of(shown)
    assert max(map(len, lines)) < columns and '…' not in shown
    assert lines[1].startswith('2023-11-14 22:13:20Z') and 'bootstrapping' in lines[1]
    assert 'proxy_not_understood' in shown and told(reason) in told(shown)


def test_lists_have_rows_of_their_own(proxy):
    proxy.answer('status', {'state': 'live', 'listeners': [{'address': 'shm:///a', 'state': 'listening', 'reason': ''},
                                                          {'address': 'tcp://b', 'state': 'waiting', 'reason': 'taken'}],
                            'quarantine': [], 'names': ['a', 'b'], 'pace': {'taken': 0.000285889, 'target': 0.03}})
    lines = lines_of(on_terminal(['-s', proxy.path, 'status', '--all'], env=PLAIN, columns=80)[1])
    at = lines.index('  listeners')
    assert [line.split() for line in lines[at + 1:at + 4]] == [
        ['ADDRESS', 'STATE', 'REASON'], ['shm:///a', 'listening'], ['tcp://b', 'waiting', 'taken']]
    assert lines[at + 1].startswith('    ADDRESS')
    pairs = dict(re.split(r'  +', line.strip(), maxsplit=1) for line in lines if len(re.split(r'  +', line.strip())) == 2)
    assert pairs['quarantine'] == 'none' and pairs['names'] == 'a, b'
    assert pairs['taken'] == '0.029 %' and pairs['target'] == '3.0 %'


def test_an_answer_of_any_depth_is_shown(agent):
    deep = {}
    for _ in range(300): # as deep as Python's json goes
        deep = {'in': deep, 'list': [[deep]]} if not deep else {'in': deep}
    agent.answer('status', {'state': 'warm', 'deep': deep})
    status, shown = on_terminal(['-s', agent.path, 'status', '--all'], env=PLAIN)
    assert status == 0 and 'deep' in shown


def test_status_begins_with_what_matters(agent):
    since = int(time.time() * 1e6) - 7200_000_000
    agent.answer('status', {'state': 'failed', 'reason': 'keys of others', 'reason_code': 'no_consent', 'name': 'r1',
                            'grade': 'bad', 'remedy': 'Check that you may lose them, then --set apply.consent=true for one start.',
                            'since_us': since, 'lag_ms': 1.5, 'fresh_us': 0, 'local': {'keys': 1234, 'address': 'unix:///r', 'version': ''},
                            'proxy': 'tcp://a:1', 'transport': 'tcp', 'quarantined': 0, 'proven_equal_s': None, 'mode': 'commands',
                            **{f'figure_{number}': number for number in range(80)}})
    lines = lines_of(on_terminal(['-s', agent.path, 'status'], env=PLAIN, columns=80)[1])
    assert len(lines) < 16 and lines[0] == 'keywake-agent r1: failed' and lines[1] == '  keys of others [no_consent]'
    fields = dict(line.strip().split('  ', 1) for line in lines[2:-1] if '  ' in line.strip())
    assert 'apply.consent=true' in ' '.join(lines) and fields['do'].strip().startswith('Check that you may lose them')
    assert fields['since'].strip().endswith('Z, for 2 h 0 min')
    assert {name: fields[name].strip() for name in ('lag', 'fresh', 'keys', 'proxy', 'server', 'audit')} == {
        'lag': '1.5 ms', 'fresh': 'unknown', 'keys': '1,234', 'proxy': 'tcp://a:1 (tcp)', 'server': 'unix:///r',
        'audit': 'never'}
    assert lines[-1] == '  (every figure: keywakectl status --all)'
    lines = lines_of(on_terminal(['-s', agent.path, 'status', '--all'], env=PLAIN, columns=80)[1])
    assert lines[0] == 'keywake-agent r1: failed' and sum('figure_' in line for line in lines) == 80
    assert len(json.loads(agent.ctl('status').stdout)) == len(json.loads(agent.ctl('status', '--all').stdout)) >= 80


def test_status_of_an_earlier_daemon_is_shown(agent):
    """It tells no remedy, and not since when."""
    status, shown = on_terminal(['-s', agent.path, 'status'], env=PLAIN)
    assert status == 0 and 'keywake-agent r1: warm' in shown and 'since' not in shown


def test_history_is_a_log_for_people_and_in_the_same_order_in_a_pipe(agent):
    """The daemon tells the newest first."""
    changes = [{'at_us': 1700000060_000000, 'state': 'warm', 'reason_code': 'none', 'reason': ''},
               {'at_us': 1700000000_000000, 'state': 'failed', 'reason_code': 'no_consent', 'reason': 'keys of others'}]
    agent.answer('history', changes)
    assert json.loads(agent.ctl('history').stdout) == changes[::-1]
    assert json.loads(agent.ctl('history', '--count', '1').stdout) == changes[:1]
    lines = agent.ctl('history', '-o', 'table').stdout.splitlines()
    assert lines[0].split() == ['AT', 'LASTED', 'STATE', 'CODE', 'REASON']
    assert re.match(r'2023-11-14 22:13:20Z  60\.0 s +failed  no_consent  keys of others$', lines[1]), lines[1]
    assert re.match(r'2023-11-14 22:14:20Z  \d+ d \d+ h +warm +none', lines[2])
    assert len(agent.ctl('history', '-o', 'table', '--count', '1').stdout.splitlines()) == 2
    agent.answer('history', [])
    assert 'nothing has happened' in agent.ctl('history', '-o', 'table').stdout
    assert 'whole number' in agent.ctl('history', '--count', 'few').stderr


def test_a_pipe_is_never_cut(agent, proxy):
    proxy.answer('agents.list', [{'id': 1, 'name': 'x' * 200, 'state': 'warm'}])
    assert 'x' * 200 in proxy.ctl('agents', '-o', 'table', env={'COLUMNS': '40', 'PATH': '/usr/bin'}).stdout


def test_a_command_at_the_wrong_daemon_says_where_to_run_it(agent, proxy):
    for daemon, words, sentence in (
            (proxy, ['verify'], 'verify is for an agent, and keywake-proxy answers on '),
            (proxy, ['resync'], 'run keywakectl -s /run/keywake/agent-NAME.sock resync'),
            (agent, ['fence', '3'], 'run keywakectl -s /run/keywake/proxy-NAME.sock fence')):
        daemon.answer(words[0], {'refuse': f'there is no method {words[0]}'})
        done = daemon.ctl(*words)
        assert done.returncode == 2 and sentence in done.stderr, done.stderr
    agent.answer('pause', {'refuse': 'paused already'})
    assert agent.ctl('pause').stderr == 'keywakectl: paused already\n'


def test_colour_is_for_terminals_and_never_the_only_sign(agent):
    assert '\x1b[' in on_terminal(['-s', agent.path, 'status'])[1]
    for env in ({'NO_COLOR': '1'}, {'TERM': 'dumb'}):
        shown = on_terminal(['-s', agent.path, 'status'], env=env)[1]
        assert '\x1b[' not in shown and ': warm' in shown
    assert '\x1b[' not in agent.ctl('status', '-o', 'table').stdout


class Meanwhile:
    """Something is done again and again while the block runs."""

    def __init__(self, step):
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, args=(step,))

    def run(self, step):
        number = 0
        while not self.ended.wait(0.05):
            step(number)
            number += 1

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


RATE_AND_REST = re.compile(r'\d+ %  [\d.]+ \S+( \d+ s)? left  [\d,]+ keys/s  [\d.]+ [KM]iB/s')


def test_a_wait_says_how_fast_it_goes_and_how_long_the_rest_takes(agent):
    def step(number):
        agent.answer('status', {'state': 'bootstrapping' if number < 40 else 'warm', 'progress': min(number * 0.02, 0.9),
                                'keys_applied': number * 1000, 'bytes_read': number << 17, 'fresh_from_now_us': 10**9})
    step(0)
    with Meanwhile(step):
        status, shown = on_terminal(['-s', agent.path, 'wait', 'warm'])
    assert status == 0 and RATE_AND_REST.search(shown), shown


def test_a_verify_says_how_fast_it_goes_and_how_long_the_rest_takes(agent):
    agent.answer('verify', {'after_ms': 2500, 'different': 0})
    with Meanwhile(lambda number: agent.call('fake.event', kind='verify', params={
            'keys': number * 1000, 'bytes': number << 17, 'progress': min(number * 0.01, 0.9)})):
        status, shown = on_terminal(['-s', agent.path, 'verify'])
        piped = agent.ctl('verify')
    assert status == 0 and RATE_AND_REST.search(shown), shown
    assert shown.count('\x1b[?25l') == shown.count('\x1b[?25h') == 1
    assert piped.returncode == 0 and piped.stderr == ''
