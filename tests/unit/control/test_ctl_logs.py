"""keywakectl logs: the last lines, those that come, levels, a slow reader, a restart."""
import json
import os
import re
import select
import signal
import subprocess
import time

import pytest

from test_ctl import CTL, agent, on_terminal  # noqa: F401 (fixture)

PATIENCE = 30
LINE = re.compile(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (\w+) +fake: (.*)')


class Follower:
    """keywakectl logs -f, its output line by line."""

    def __init__(self, path, *words):
        self.process = subprocess.Popen([CTL, '-s', path, 'logs', '-f', *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, bufsize=0)
        self.buffer = b''

    def line(self, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while b'\n' not in self.buffer:
            left = deadline - time.monotonic()
            assert left > 0 and select.select([self.process.stdout], [], [], left)[0], 'no line came'
            got = os.read(self.process.stdout.fileno(), 1 << 16)
            assert got, 'it ended: ' + self.process.stderr.read().decode()
            self.buffer += got
        line, self.buffer = self.buffer.split(b'\n', 1)
        return line.decode()

    def json(self):
        return json.loads(self.line())

    def end(self):
        self.process.terminate()
        return self.process.communicate(timeout=PATIENCE)[1].decode()


@pytest.fixture
def follow():
    followers = []

    def begin(*words):
        followers.append(Follower(*words))
        return followers[-1]
    yield begin
    for follower in followers:
        if follower.process.poll() is None:
            follower.process.kill()
        follower.process.communicate()


def log(daemon, text, level='info', count=1):
    daemon.call('fake.log', text=text, level=level, count=count)


def test_one_object_a_line_in_a_pipe(agent):
    log(agent, 'first')
    log(agent, 'second', 'warn')
    lines = [json.loads(line) for line in agent.ctl('logs').stdout.splitlines()]
    assert [(line['level'], line['where'], line['text']) for line in lines[-2:]] == [
        ('info', 'fake', 'first 0'), ('warn', 'fake', 'second 0')]
    assert lines[-1]['number'] == lines[-2]['number'] + 1
    assert abs(lines[-1]['at_us'] / 1e6 - time.time()) < 3600


def test_a_log_for_people_on_a_terminal(agent):
    log(agent, 'all is well')
    log(agent, 'something', 'error')
    for words, env in ((['logs'], {'NO_COLOR': '1'}), (['-o', 'table', 'logs'], {'TERM': 'dumb'})):
        status, shown = on_terminal(['-s', agent.path, *words], env=env)
        found = [LINE.fullmatch(line) for line in shown.replace('\r', '').splitlines()]
        assert status == 0 and all(found), shown
        assert [line.groups() for line in found[-2:]] == [('info', 'all is well 0'), ('error', 'something 0')]
    shown = on_terminal(['-s', agent.path, 'logs'])[1]
    assert '\x1b[1;31merror\x1b[0m fake: something 0' in shown
    assert LINE.match(agent.ctl('-o', 'table', 'logs').stdout.splitlines()[-1])


def test_how_many_and_which(agent):
    log(agent, 'many', count=150)
    log(agent, 'grave', 'error')
    assert len(agent.ctl('logs').stdout.splitlines()) == 100
    assert len(agent.ctl('logs', '-n', '7').stdout.splitlines()) == 7
    assert len(agent.ctl('logs', '-n', '1000').stdout.splitlines()) >= 151
    assert agent.ctl('logs', '-n', '0').stdout == ''
    line, = agent.ctl('logs', '--level', 'error').stdout.splitlines()
    assert json.loads(line)['text'] == 'grave 0'
    for words, sentence in ((['-n', 'few'], '-n: expected a whole number'), (['--level', 'loud'], 'trace; given loud'),
                            (['-n'], '-n needs a value'), (['-x'], 'unknown option -x')):
        done = agent.ctl('logs', *words)
        assert done.returncode == 1 and sentence in done.stderr, done.stderr


def test_what_a_line_says_cannot_steer_the_terminal(agent):
    log(agent, 'evil \x1b]0;x\x07\nforged \u202e')
    shown = on_terminal(['-s', agent.path, 'logs'], env={'NO_COLOR': '1'})[1]
    assert '\x1b' not in shown and '\x07' not in shown and '\u202e' not in shown
    assert r'evil \x1b]0;x\x07\x0aforged \xe2\x80\xae 0' in shown


def test_lines_are_followed_as_they_come(agent, follow):
    log(agent, 'before')
    follower = follow(agent.path, '-n', '1')
    assert follower.json()['text'] == 'before 0'
    for i in range(3):
        log(agent, f'turn {i}')
        assert follower.json()['text'] == f'turn {i} 0'
    log(agent, 'grave', 'error')
    quiet = follow(agent.path, '-n', '1', '--level', 'warn')
    assert quiet.json()['text'] == 'grave 0'
    log(agent, 'not this')
    log(agent, 'but this', 'warn')
    assert quiet.json()['text'] == 'but this 0'
    assert follower.end() == '' and follower.process.returncode == -signal.SIGTERM


def test_nothing_is_asked_while_nothing_comes(agent, follow):
    """One call waits in the daemon: it has no other work than the lines."""
    log(agent, 'it is there')
    follower = follow(agent.path, '-n', '1')
    follower.line()
    ticks = []
    for _ in range(2):
        with open(f'/proc/{agent.process.pid}/status', encoding='ascii') as stream:
            ticks.append(int(re.search(r'^voluntary_ctxt_switches:\s+(\d+)', stream.read(), re.M)[1]))
        if len(ticks) == 1:
            time.sleep(1)  # the length of the measurement
    assert ticks[1] - ticks[0] <= 5, ticks


def test_a_slow_reader_is_told_what_it_missed(agent, follow):
    """Stopped, as one whose output is not read. The daemon forgets lines, and goes on."""
    log(agent, 'it is there')
    follower = follow(agent.path, '-n', '1')
    first = follower.json()
    follower.process.send_signal(signal.SIGSTOP)
    log(agent, 'one that may be in the answer already')
    log(agent, 'flood', count=5000)
    follower.process.send_signal(signal.SIGCONT)
    seen, missed, line = 1, 0, first
    while line.get('text') != 'flood 4999':
        line = follower.json()
        missed += line.get('missed', 0)
        seen += 'text' in line
    assert missed >= 5000 - 1024 and line['number'] == first['number'] - 1 + seen + missed
    log(agent, 'and on')
    assert follower.json()['text'] == 'and on 0'


def test_gaps_are_sentences_for_people(agent, follow):
    log(agent, 'it is there')
    follower = follow(agent.path, '-n', '1', '-o', 'table')
    follower.line()
    follower.process.send_signal(signal.SIGSTOP)
    log(agent, 'in the answer')
    log(agent, 'flood', count=5000)
    follower.process.send_signal(signal.SIGCONT)
    while not re.fullmatch(r'\(\d+ lines of any level are missing here: the daemon has forgotten them\)',
                           follower.line()):
        pass


def test_a_restart_is_waited_for(agent, follow):
    follower = follow(agent.path)
    log(agent, 'before')
    while follower.json()['text'] != 'before 0':
        pass
    agent.end()
    agent.start()
    log(agent, 'after')
    while follower.json()['text'] != 'after 0':
        pass
    told = follower.end()
    assert 'the daemon was started again' in told and told.count('\n') <= 3, told


def test_a_daemon_that_stays_away_ends_it(agent, follow):
    follower = follow(agent.path)
    log(agent, 'before')
    follower.line()
    agent.end()
    assert follower.process.wait(PATIENCE) == 1
    assert 'there is no such socket' in follower.process.stderr.read().decode()
