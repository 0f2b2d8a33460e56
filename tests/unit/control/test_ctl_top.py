"""keywakectl top: one table in a pipe; on a terminal a live one, keys, its size, and every end of it."""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import time

import pytest

from test_ctl import AGENT, CTL, Daemon, agent, ctl, on_terminal, proxy  # noqa: F401 (fixtures)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), *[os.pardir] * 2, 'integration'))
from lib.terminal import ENTER, LEAVE, PATIENCE, SGR, Terminal  # noqa: E402


TALKER = '''
import socket, sys
words = sys.stdin.buffer.read()
with socket.socket(socket.AF_UNIX) as listener:
    listener.bind(sys.argv[1])
    listener.listen()
    while True:
        client = listener.accept()[0]
        try:
            while True:
                client.sendall(words)
        except OSError:
            pass
'''


@pytest.fixture
def terminal():
    terminals = []

    def begin(*words, **more):
        terminals.append(Terminal(CTL, 'top', *words, **more))
        return terminals[-1]
    yield begin
    for each in terminals:
        each.close()


def session(number, name, state, lag):
    return {'id': number, 'name': name, 'role': 'agent', 'state': state, 'lag_ms': lag, 'applied': 100, 'bytes': None}


@pytest.fixture
def fleet(agent, proxy):
    proxy.answer('agents.list', [session(1, 'east', 'warm', 1.5), session(2, 'west', 'lagging', 70)])
    return agent, proxy


# ---- once ----


def test_one_table_in_a_pipe_is_json(fleet):
    agent, proxy = fleet
    done = ctl('top', proxy.path, agent.path, '--interval', '0.1')
    assert done.returncode == 0 and done.stdout.count('\n') == 1, done
    rows = json.loads(done.stdout)
    assert [(row['name'], row['kind'], row['state']) for row in rows] == [
        ('proxy', 'proxy', 'live'), ('west', 'agent', 'lagging'), ('east', 'agent', 'warm'), ('r1', 'agent', 'warm')]
    assert [row.get('of') for row in rows] == [None, 'proxy', 'proxy', None]
    assert rows[1]['lag_ms'] == 70 and rows[1]['bytes_per_second'] is None and rows[1]['records_per_second'] == 0
    assert rows[3]['socket'] == agent.path and rows[3]['bytes_per_second'] == 0
    assert ctl('-s', agent.path, 'top', '--interval', '0.1').stdout.count('"kind"') == 1
    environment = {**os.environ, 'KEYWAKE_SOCKET': agent.path}
    assert ctl('top', '--interval', '0.1', env=environment).stdout.count('"kind"') == 1


def test_an_agent_that_answers_for_itself_stands_once(fleet):
    agent, proxy = fleet
    proxy.answer('agents.list', [session(1, 'r1', 'warm', 1.5), session(2, 'r1', 'warm', 2.5),
                                 {**session(3, 'r1', 'serving', 1), 'role': 'gateway'}, session(4, 'r2', 'warm', 1)])
    words = ('top', proxy.path, agent.path, '--interval', '0.1')
    rows = json.loads(ctl(*words).stdout)
    shown = sorted((row['name'], row['kind'], row['socket'] == agent.path, row.get('of')) for row in rows)
    assert shown == [('proxy', 'proxy', False, None), ('r1', 'agent', False, 'proxy'), ('r1', 'agent', True, 'proxy'),
                     ('r1', 'gateway', False, 'proxy'), ('r2', 'agent', False, 'proxy')], 'one row for each that does'
    agent.end()
    rows = [row for row in json.loads(ctl(*words).stdout) if row['name'] == 'r1' and row['kind'] == 'agent']
    assert len(rows) == 2, 'what the proxy tells of it is all that there is'


def test_one_table_for_people(fleet):
    agent, proxy = fleet
    words = ['top', proxy.path, agent.path, '--once', '--interval', '0.1']
    done = ctl(*words, '-o', 'table')
    lines = done.stdout.splitlines()
    assert lines[0].split() == ['NAME', 'KIND', 'STATE', 'LAG', 'FRESH', 'RECORDS/S', 'BYTES/S', 'KEYS', 'CODE']
    assert [line.split()[0] for line in lines[1:]] == ['proxy', 'west', 'east', 'r1']
    assert lines[2].startswith('  west') and '70.0 ms' in lines[2] and '\x1b' not in done.stdout
    status, shown = on_terminal(words, columns=80, env={'NO_COLOR': '1'})
    assert status == 0 and '\x1b' not in shown and max(map(len, shown.replace('\r', '').splitlines())) < 80
    assert '\x1b[1;32mwarm\x1b[0m' in on_terminal(words)[1]
    status, shown = on_terminal(words[:3] + words[4:], env={'TERM': 'dumb'})
    assert status == 0 and '\x1b' not in shown and 'west' in shown


def test_states_are_whole_on_a_narrow_terminal(fleet):
    agent, proxy = fleet
    proxy.answer('agents.list', [session(number, f'replica-of-the-east-{number}', state, 12345.6)
                                 for number, state in enumerate(('bootstrapping', 'connecting', 'reconciling'))])
    agent.answer('status', {**AGENT, 'state': 'connecting', 'reason_code': 'proxy_not_understood', 'bytes_read': 1 << 40})
    for columns in (60, 80):
        shown = on_terminal(['top', proxy.path, agent.path, '--once', '--interval', '0.1'], columns=columns,
                            env={'NO_COLOR': '1'})[1]
        assert max(map(len, shown.replace('\r', '').splitlines())) < columns
        for state in ('bootstrapping', 'connecting', 'reconciling'):
            assert f' {state} ' in shown, shown


def test_one_that_does_not_answer_is_a_row_with_a_sentence(fleet, tmp_path):
    agent, proxy = fleet
    proxy.process.send_signal(signal.SIGSTOP)
    missing = str(tmp_path / 'gone.sock')
    done = ctl('top', missing, proxy.path, agent.path, '--interval', '0.1')
    rows = {row['name']: row for row in json.loads(done.stdout)}
    assert done.returncode == 0 and [row['state'] for row in rows.values()] == ['away', 'away', 'warm']
    assert 'there is no such socket' in rows['gone']['reason'] and rows['gone']['socket'] == missing
    assert re.search(r'has not answered for \d s', rows['proxy']['reason'])
    table = ctl('top', missing, '--interval', '0.1', '-o', 'table')
    assert table.returncode == 1 and re.match(r'    /.*there is no such socket', table.stdout.splitlines()[2])


def test_one_that_talks_without_an_answer_holds_nobody_up(agent, tmp_path):
    """Lines of JSON, or of nothing, for as long as they are read."""
    for words in (b'{"jsonrpc":"2.0","method":"event","params":{}}\n' * 1000, b'x' * 100_000):
        path = str(tmp_path / 'talker.sock')
        talker = subprocess.Popen([sys.executable, '-c', TALKER, path], stdin=subprocess.PIPE)
        talker.stdin.write(words)
        talker.stdin.close()
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        try:
            rows = {row['name']: row for row in json.loads(ctl('top', path, agent.path, '--interval', '0.1').stdout)}
        finally:
            talker.kill()
            talker.wait()
            os.unlink(path)
        assert rows['r1']['state'] == 'warm' and rows['talker']['state'] == 'away', rows


def test_what_cannot_be_is_refused(agent, tmp_path):
    for words, sentence in ((['--sort', 'lagg'], 'did you mean lag?'), (['--sort', '?'], 'no column ?'),
                            (['--interval', '0.01'], 'from 0.1 to 3600 seconds; given 0.01'),
                            (['--interval', '1e5'], 'from 0.1 to 3600'), (['--interval', 'x'], 'expected seconds'),
                            (['x'] * 65, 'unexpected argument')):
        done = ctl('top', *(words if len(words) > 2 else [agent.path, *words]))
        assert done.returncode == 1 and sentence in done.stderr, done.stderr
    assert agent.asked() == []


def test_names_of_others_cannot_steer_the_terminal(fleet):
    agent, proxy = fleet
    proxy.answer('agents.list', [session(1, 'x\x1b[2J\ny', 'w\x1b[31m', 1)])
    agent.answer('status', {**AGENT, 'state': 'failed', 'reason': 'evil \x1b]0;x\x07', 'reason_code': '\x1b'})
    done = ctl('top', proxy.path, agent.path, '--interval', '0.1', '-o', 'table')
    assert '\x1b' not in done.stdout and r'x\x1b[2J\x0ay' in done.stdout and r'evil \x1b]0;x\x07 [\x1b]' in done.stdout
    assert '\x1b' not in ctl('top', proxy.path, agent.path, '--interval', '0.1').stdout


# ---- live ----


def test_the_table_is_live_and_sorted_by_keys(fleet, terminal):
    agent, proxy = fleet
    top = terminal(proxy.path, agent.path, '--interval', '0.1')
    screen = top.wait_for('west')
    assert screen[0].startswith('keywakectl top') and '2 daemons' in screen[0] and 'by state' in screen[0]
    assert screen[-1].startswith('s/S sort')
    assert top.wait(lambda _: top.names() == ['proxy', 'west', 'east', 'r1'], 'the worst first')
    top.press(b'S' * 2)
    top.wait_for('by name')
    assert top.names() == ['proxy', 'east', 'west', 'r1']
    top.press(b'r')
    top.wait_for('by name, reversed')
    assert top.names() == ['proxy', 'west', 'east', 'r1'] or top.names() == ['r1', 'proxy', 'west', 'east']
    top.press(b'\x1b[C\x1b[C\x1b[Cr')
    top.wait(lambda screen: 'by lag ' in screen[0] + ' ', 'arrows do not choose')
    agent.answer('status', {**AGENT, 'lag_ms': 900})
    top.wait(lambda _: top.names() == ['r1', 'proxy', 'west', 'east'], 'it is not live')
    top.press(b'q')
    assert top.finish() == 0


ALONE = 'mount -t tmpfs none /run && mkdir /run/keywake && mount --bind "$1" /run/keywake && exec "$2" top --interval 0.1'


@pytest.mark.skipif(os.geteuid() != 0, reason='a /run of its own takes root')
def test_sockets_that_come_later_are_found(tmp_path):
    daemons = [Daemon(tmp_path / 'first.sock', 'keywake-agent')]
    daemons[0].answer('status', {**AGENT, 'name': 'first'})
    top = Terminal('unshare', '--mount', 'sh', '-c', ALONE, 'sh', str(tmp_path), CTL)
    try:
        top.wait_for('1 daemons')
        daemons.append(Daemon(tmp_path / 'second.sock', 'keywake-agent'))
        daemons[1].answer('status', {**AGENT, 'name': 'second'})
        top.wait(lambda screen: '2 daemons' in screen[0] and sorted(top.names()) == ['first', 'second'], 'it is not found')
        top.press(b'q')
        assert top.finish() == 0
    finally:
        top.close()
        for daemon in daemons:
            daemon.end()


def test_a_pause_freezes_the_table_and_asks_nobody(agent, terminal):
    top = terminal(agent.path, '--interval', '0.1')
    top.wait_for('r1')
    top.press(b' ')
    top.wait_for('PAUSED')
    agent.asked()
    agent.asked()  # what was sent before the pause has been answered by now
    agent.answer('status', {**AGENT, 'state': 'failed'})
    top.press(b'r')  # is drawn, and shows that a pause is no hang
    top.wait_for('reversed')
    assert agent.asked() == [] and 'warm' in '\n'.join(top.screen())
    top.press(b' ')
    top.wait_for('failed')


def test_daemons_that_hang_or_leave_never_freeze_it(fleet, terminal):
    agent, proxy = fleet
    top = terminal(proxy.path, agent.path, '--interval', '0.1')
    top.wait_for('west')
    proxy.process.send_signal(signal.SIGSTOP)
    top.wait_for('has not answered for')
    assert 'west' not in top.names() and '1 away' in top.screen()[0]
    agent.answer('status', {**AGENT, 'state': 'lagging', 'reason': 'paused by a person'})
    top.wait_for('paused by a person')
    proxy.process.send_signal(signal.SIGCONT)
    top.wait_for('west')
    proxy.end()
    top.wait_for('there is no such socket')
    assert top.names()[0] == 'proxy'
    proxy.start()
    proxy.answer('status', {'state': 'live', 'fresh_from_now_us': 0})
    proxy.answer('agents.list', [session(1, 'north', 'warm', 1)])
    top.wait_for('north')
    top.press(b'q')
    assert top.finish() == 0


def test_it_follows_the_size_of_the_terminal(fleet, terminal):
    agent, proxy = fleet
    proxy.answer('agents.list', [session(i, f'agent-{i:03}', 'warm', 1) for i in range(60)])
    top = terminal(proxy.path, agent.path, '--interval', '0.1', '--sort', 'name', lines=20, columns=100)
    top.wait_for('agent-010')
    assert len(top.screen()) == 20 and max(map(len, top.screen())) <= 100
    top.resize(10, 60)
    top.wait(lambda screen: len(screen) == 10 and max(map(len, screen)) <= 60, 'it keeps its size')
    assert 'NAME' in top.screen()[1]
    top.press(b'\x1b[6~')
    top.wait_for('agent-009')
    assert 'agent-000' not in top.names() and 'NAME' in top.screen()[1]
    top.press(b'G')
    top.wait_for('agent-059')
    top.press(b'g')
    top.wait_for('agent-001')
    for lines, columns in ((3, 20), (2, 500), (1, 1)):
        top.resize(lines, columns)
        top.press(b'r')
        top.wait(lambda screen: max(map(len, screen)) <= columns, 'too wide')
        assert top.process.poll() is None
    top.resize(40, 100)
    top.wait(lambda screen: len(screen) == 40, 'it stays small')


@pytest.mark.parametrize('number', [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT])
def test_the_terminal_is_given_back_at_each_signal(agent, terminal, number):
    top = terminal(agent.path)
    top.wait_for('r1')
    top.process.send_signal(number)
    assert top.finish() == -number


def test_ctrl_c_ends_it_and_ctrl_z_stops_it(agent, terminal):
    top = terminal(agent.path, '--interval', '0.1')
    top.wait_for('r1')
    top.press(b'\x1a')
    deadline = time.monotonic() + PATIENCE
    while top.output.count(LEAVE) == 0 and time.monotonic() < deadline:
        top.read(0.1)
    assert os.waitid(os.P_PID, top.process.pid, os.WSTOPPED | os.WNOWAIT).si_status == signal.SIGSTOP
    assert termios.tcgetattr(top.child) == top.before
    top.output = top.output.replace(LEAVE, b'', 1).replace(ENTER, b'', 1)
    top.process.send_signal(signal.SIGCONT)
    top.wait(lambda screen: ENTER in top.output, 'it does not come back')
    top.press(b's')
    top.wait_for('by lag')
    top.press(b'\x03')
    assert top.finish() == -signal.SIGINT


def test_a_terminal_that_goes_away_ends_it(agent, terminal):
    top = terminal(agent.path, '--interval', '0.1')
    top.wait_for('r1')
    os.close(top.parent)
    assert top.process.wait(PATIENCE) in (0, -signal.SIGHUP)
    top.parent = os.dup(top.child)  # for the end of the fixture


def test_colours_are_never_the_only_sign(agent, terminal):
    agent.answer('status', {**AGENT, 'state': 'failed', 'reason': 'keys of others'})
    top = terminal(agent.path)
    top.wait_for('failed')
    assert '\x1b[1;31mfailed\x1b[0m' in top.raw() and 'keys of others' in top.raw()
    plain = terminal(agent.path, NO_COLOR='1')
    plain.wait_for('failed')
    assert not SGR.search(plain.raw())


def test_without_a_keyboard_it_is_one_table(agent):
    parent, child = pty.openpty()
    done = subprocess.run([CTL, 'top', agent.path, '--interval', '0.1'], stdin=subprocess.DEVNULL, stdout=child,
                          stderr=child, timeout=PATIENCE, check=True, env={**os.environ, 'TERM': 'xterm'})
    shown = os.read(parent, 1 << 16)
    os.close(parent)
    os.close(child)
    assert done.returncode == 0 and b'r1' in shown and ENTER not in shown
