"""keywakectl end to end: exit statuses, JSON when piped, tables on a terminal, waiting."""
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import termios
import time

import pytest

CTL = os.environ['KEYWAKECTL']
FAKE = os.environ['FAKE_DAEMON']
PATIENCE = 60
AGENT = {'state': 'warm', 'reason': '', 'name': 'r1', 'epoch': 77, 'applied_version': 1234567,
         'head_version': 1234567, 'lag_versions': 0, 'lag_ms': 0.4, 'bytes_read': 5 << 20,
         'progress': 1, 'fresh_from_now_us': 0, 'clock_skew_us': 0, 'novelty_bytes': 2048}


class Daemon:
    def __init__(self, path, program):
        self.path, self.program = str(path), program
        self.start()

    def start(self):
        self.process = subprocess.Popen([FAKE, self.path, self.program])
        deadline = time.time() + PATIENCE
        while not os.path.exists(self.path):
            assert time.time() < deadline, f'{self.path} does not come'
            time.sleep(0.01)

    def call(self, name, **params):
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.path)
            request = {'jsonrpc': '2.0', 'id': 1, 'method': name, 'params': params}
            client.sendall(json.dumps(request).encode() + b'\n')
            return json.loads(client.makefile().readline())['result']

    def answer(self, method, result):
        self.call('fake.answer', method=method, result=result)

    def asked(self):
        return self.call('fake.asked')

    def ctl(self, *words, **more):
        return ctl('-s', self.path, *words, **more)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if os.path.exists(self.path):
            os.unlink(self.path)


def ctl(*words, timeout=PATIENCE, **more):
    return subprocess.run([CTL, *words], capture_output=True, text=True, timeout=timeout, **more)


@pytest.fixture
def agent(tmp_path):
    daemon = Daemon(tmp_path / 'agent.sock', 'keywake-agent')
    daemon.answer('status', AGENT)
    yield daemon
    daemon.end()


@pytest.fixture
def proxy(tmp_path):
    daemon = Daemon(tmp_path / 'proxy.sock', 'keywake-proxy')
    daemon.answer('status', {'state': 'live', 'fresh_from_now_us': 0, 'dirty_keys': 0, 'agents': 2,
                             'table': {'live_bytes': 1 << 30, 'utilisation': 0.5}})
    yield daemon
    daemon.end()


def on_terminal(words, until_exit=True, send=None, env=None, seconds=PATIENCE, columns=200):
    """Run on a pseudo terminal; returns (exit status, everything it wrote)."""
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack('HHHH', 50, columns, 0, 0))
        os.environ.update({'TERM': 'xterm', 'LC_ALL': 'C.UTF-8', **(env or {})})
        os.execv(CTL, [CTL, *words])
    output, deadline, sent = b'', time.time() + seconds, False
    while time.time() < deadline:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                got = os.read(fd, 65536)
            except OSError:
                break
            if not got:
                break
            output += got
        if send and not sent and send[0] in output:
            os.kill(pid, send[1])
            sent = True
    _, status = os.waitpid(pid, 0)
    os.close(fd)
    return status, output.decode()


def test_status_is_json_when_piped(agent):
    done = agent.ctl('status')
    assert done.returncode == 0
    assert done.stdout.count('\n') == 1
    assert json.loads(done.stdout)['applied_version'] == 1234567


def test_status_is_for_people_on_a_terminal(agent):
    status, text = on_terminal(['-s', agent.path, 'status', '--all'])
    assert status == 0
    assert 'keywake-agent' in text and 'r1' in text and '000000000000004d' in text
    assert '\x1b[1;32mwarm\x1b[0m' in text
    assert '1,234,567' in text and '400 µs' in text and '5.0 MiB' in text
    assert 'novelty_bytes' in text and '2.0 KiB' in text
    assert re.search(r'fresh_us +[\d.]+ .*s ago', text)


def test_moments_are_told_from_durations(agent):
    now = int(time.time() * 1e6)
    agent.answer('status', {'state': 'warm', 'begun_us': now - 5_000_000, 'lag_us': 5_000_000,
                            'faults': {}, 'reason': ''})
    _, text = on_terminal(['-s', agent.path, 'status', '--all'])
    assert re.search(r'begun_us +\d+\.\d s ago', text) and re.search(r'lag_us +5\.0 s\r', text)
    assert 'faults' not in text and 'reason' not in text


def test_no_color_is_honoured_and_json_can_be_forced(agent):
    _, text = on_terminal(['-s', agent.path, 'status'], env={'NO_COLOR': '1'})
    assert '\x1b[' not in text
    _, text = on_terminal(['-s', agent.path, '--json', 'status'])
    assert json.loads(text)['state'] == 'warm'


def test_what_a_daemon_says_cannot_steer_the_terminal(agent):
    agent.answer('status', {'state': 'failed', 'reason': 'evil \x1b]0;x\x07 reason', 'x\x1b': 1})
    _, text = on_terminal(['-s', agent.path, 'status'])
    assert '\x1b]' not in text and '\\x1b]0;x\\x07' in text


def test_control_characters_above_ascii_cannot_steer_it_either(agent):
    agent.answer('status', {'state': 'failed', 'reason': 'evil \x9b31m reasön',
                            'keys': [{'key': '\x9b31m\x7f ä'}]})
    _, text = on_terminal(['-s', agent.path, 'status', '--all'])
    assert '\x9b' not in text and '\x7f' not in text
    assert 'evil \\xc2\\x9b31m reasön' in text and '\\xc2\\x9b31m\\x7f ä' in text


def test_agents_is_a_table(proxy):
    rows = [{'id': 1, 'name': 'replica-one', 'carrier': 'shm', 'peer': 'pid 7', 'state': 'warm',
             'passed': 10, 'applied': 10, 'lag_ms': 1.5, 'reads': None, 'bytes': None, 'depth': 16,
             'connected_us': int(time.time() * 1e6) - 7200_000_000},
            {'id': 12, 'name': 'b', 'carrier': 'tcp', 'peer': '10.0.0.1:9', 'state': 'stalled',
             'passed': 10, 'applied': 9, 'lag_ms': 1500, 'reads': 12345, 'bytes': 1 << 31,
             'depth': 16, 'connected_us': 0}]
    proxy.answer('agents.list', rows)
    assert json.loads(proxy.ctl('agents').stdout) == rows
    _, text = on_terminal(['-s', proxy.path, 'agents'], env={'NO_COLOR': '1'})
    lines = text.splitlines()
    assert lines[0].split()[:6] == ['ID', 'NAME', 'STATE', 'LAG', 'APPLIED', 'BYTES']
    assert lines[1].index('replica-one') == lines[2].index('b ')
    assert '2 h 0 min ago' in lines[1] and '2.0 GiB' in lines[2] and '12,345' in lines[2]
    proxy.answer('agents.list', [])
    assert 'no agent' in on_terminal(['-s', proxy.path, 'agents'])[1]


def test_wait_warm_returns_once_fresh(agent):
    started = time.time()
    done = agent.ctl('wait', 'warm', '--timeout', '50')
    assert done.returncode == 0, done.stderr
    assert time.time() - started < 45
    assert json.loads(done.stdout)['state'] == 'warm'


def test_wait_warm_is_not_content_with_an_old_warm(agent):
    """Warm, but what is applied is two seconds old: not what was asked for, until it is."""
    agent.answer('status', {**AGENT, 'fresh_from_now_us': -1_500_000})
    started = time.time()
    assert agent.ctl('wait', 'warm', '--timeout', '50').returncode == 0
    assert 1.4 < time.time() - started < 45
    agent.answer('status', {**AGENT, 'fresh_from_now_us': -10**9})
    done = agent.ctl('wait', 'warm', '--timeout=2')
    assert done.returncode == 3
    assert 'written before this command started' in done.stderr


def test_wait_warm_knows_that_clocks_differ(agent):
    """The proxy's clock is an hour ahead: its moments count for less by that much."""
    skew = 3600 * 10**6
    agent.answer('status', {**AGENT, 'fresh_from_now_us': skew - 10**9, 'clock_skew_us': skew})
    assert agent.ctl('wait', 'warm', '--timeout', '0.3').returncode == 3
    agent.answer('status', {**AGENT, 'fresh_from_now_us': skew, 'clock_skew_us': skew})
    assert agent.ctl('wait', 'warm', '--timeout', '50').returncode == 0


def answers(path, answer, words):
    """What keywakectl with these words asks of a daemon that answers so, and how it ends."""
    asked = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client = subprocess.Popen([CTL, '-s', path, *words], stdout=subprocess.PIPE, text=True)
        link, _ = listener.accept()
        with link, link.makefile() as lines:
            for line in lines:
                request = json.loads(line)
                asked.append(request)
                link.sendall(json.dumps({'jsonrpc': '2.0', 'id': request['id'], **answer(request)}).encode() + b'\n')
        client.communicate(timeout=PATIENCE)
    return asked, client.returncode


@pytest.mark.parametrize('can_wait', [True, False])
def test_wait_lets_the_daemon_answer_when_it_has_passed(tmp_path, can_wait):
    """One that keeps its answer back is asked for the barrier once, and one of before again and again."""
    def answer(request):
        params = request.get('params', {})
        if request['method'] == 'version':
            return {'result': {'program': 'keywake-agent'}}
        if request['method'] == 'status':
            return {'result': AGENT}
        if not can_wait and 'wait_ms' in params:
            return {'error': {'code': -32602, 'message': 'barrier has no parameter wait_ms'}}
        times.append(params)
        return {'result': {'token': 5, 'passed': can_wait or len(times) == 4}}
    times = []
    asked, status = answers(str(tmp_path / 'agent.sock'), answer, ['wait', 'warm', '--timeout', '50'])
    assert status == 0
    assert len(times) == (1 if can_wait else 4)
    assert [params['token'] for params in times] == [0, 5, 5, 5][:len(times)]
    assert all(('wait_ms' in params) == can_wait for params in times)
    assert len([one for one in asked if 'wait_ms' in one.get('params', {})]) == 1


def test_wait_times_out_with_state_and_reason(agent):
    agent.answer('status', {'state': 'stalled', 'reason': 'the proxy hangs'})
    done = agent.ctl('wait', 'warm', '--timeout', '2')
    assert done.returncode == 3
    assert 'stalled: the proxy hangs' in done.stderr
    assert done.stdout == ''


def test_wait_outlives_a_restart(agent):
    agent.answer('status', {'state': 'bootstrapping'})
    waiting = subprocess.Popen([CTL, '-s', agent.path, 'wait', 'warm', '--timeout', '50'],
                               stdout=subprocess.PIPE, text=True)
    time.sleep(0.3)
    agent.end()
    time.sleep(0.3)
    agent.start()
    agent.answer('status', AGENT)
    out, _ = waiting.communicate(timeout=PATIENCE)
    assert waiting.returncode == 0
    assert json.loads(out)['state'] == 'warm'


def test_wait_without_daemon_times_out(tmp_path):
    done = ctl('-s', str(tmp_path / 'none'), 'wait', 'warm', '--timeout', '0.3')
    assert done.returncode == 3
    assert 'no such socket' in done.stderr


def test_wait_for_the_other_daemon_is_refused(agent, proxy):
    assert 'keywake-proxy answers' in proxy.ctl('wait', 'warm').stderr
    assert agent.ctl('wait', 'live').returncode == 1
    assert proxy.ctl('wait', 'live', '--timeout', '50').returncode == 0


def test_wait_draws_on_a_terminal_and_cleans_up(agent):
    agent.answer('status', {'state': 'bootstrapping', 'progress': 0.5})
    status, text = on_terminal(['-s', agent.path, 'wait', 'warm'],
                               send=(b'%', signal.SIGINT))
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT
    assert '█' in text and ' 50 %' in text
    assert text.rstrip().endswith('\x1b[?25h')


def test_watch_is_one_json_a_line_when_piped(agent):
    done = agent.ctl('watch', '--count', '3', '--interval', '0.05')
    assert done.returncode == 0
    assert [json.loads(line)['state'] for line in done.stdout.splitlines()] == ['warm'] * 3


def test_watch_makes_up_for_no_missed_looks(agent):
    watch = subprocess.Popen([CTL, '-s', agent.path, 'watch', '--interval', '0.2'],
                             stdout=subprocess.PIPE)
    watch.stdout.readline()
    watch.send_signal(signal.SIGSTOP)
    time.sleep(3)
    started = time.time()  # not later: this test may be held up
    watch.send_signal(signal.SIGCONT)
    for _ in range(7):
        watch.stdout.readline()
    # The first of them may be late, and one was under way.
    assert time.time() - started > 0.6
    watch.kill()
    watch.communicate()


def test_watch_refreshes_a_line_on_a_terminal(agent):
    agent.answer('status', {'state': 'bootstrapping', 'progress': 0.25})
    status, text = on_terminal(['-s', agent.path, 'watch', '--count', '2', '--interval', '0.1'],
                               env={'LC_ALL': 'C'})
    assert status == 0 and '#######-' in text and ' 25 %' in text
    agent.answer('status', AGENT)
    status, text = on_terminal(['-s', agent.path, 'watch', '--count', '2', '--interval', '0.1'])
    assert 'warm  lag 400 µs  behind 0' in text
    assert text.count('\r\x1b[K') == 2 and text.endswith('\x1b[?25h\r\n')


def test_calls_carry_their_parameters(agent, proxy):
    agent.answer('get', {'version': 7})
    assert agent.ctl('get', '--db', '3', '--', '-key').returncode == 0
    assert agent.ctl('get', 'user:1').returncode == 0
    assert agent.ctl('config', 'get').returncode == 0
    assert agent.ctl('config', 'get', 'log.level').returncode == 0
    assert agent.ctl('config', 'set', 'poll.idle_us', '50').returncode == 0
    assert agent.ctl('config', 'set', 'log.level', 'debug').returncode == 0
    for word in ('pause', 'resume', 'resync', 'approve'):
        assert agent.ctl(word).returncode == 0
    assert agent.ctl('config', 'reload').returncode == 0
    assert agent.asked() == [
        ['get', {'key': '-key', 'database': 3}], ['get', {'key': 'user:1'}],
        ['config.get', {}], ['config.get', {'path': 'log.level'}],
        ['config.set', {'path': 'poll.idle_us', 'value': 50}],
        ['config.set', {'path': 'log.level', 'value': 'debug'}],
        ['pause', {}], ['resume', {}], ['resync', {}], ['approve', {}],
        ['config.reload', {}]]
    assert proxy.ctl('reconcile').returncode == 0
    assert proxy.ctl('disconnect', '12').returncode == 0
    assert proxy.asked() == [['reconcile', {}], ['agents.disconnect', {'id': 12}]]


def test_verify_tells_differences_by_its_exit_status(agent):
    agent.answer('verify', {'checked': 100, 'different': 0, 'missing': 0, 'extra': 0})
    assert agent.ctl('verify', '--sample', '100').returncode == 0
    assert agent.asked() == [['verify', {'sample': 100}]]
    agent.answer('verify', {'checked': 100, 'different': 0, 'missing': 1, 'extra': 0})
    done = agent.ctl('verify')
    assert done.returncode == 2
    assert json.loads(done.stdout)['missing'] == 1 and 'differ' in done.stderr
    for extra, status in (({'count': 2, 'keys': ['a']}, 2), ({'count': 0, 'keys': []}, 0),
                          (['a'], 2), ([], 0)):
        agent.answer('verify', {'checked': 100, 'extra': extra})
        assert agent.ctl('verify').returncode == status


def test_refused_is_2_with_the_daemons_sentence(agent, proxy):
    agent.answer('pause', {'refuse': 'paused already'})
    done = agent.ctl('pause')
    assert (done.returncode, done.stderr) == (2, 'keywakectl: paused already\n')
    assert agent.ctl('log', 'loud').returncode == 2
    assert agent.ctl('log', 'debug').returncode == 0


def test_usage_and_transport_are_1(agent, tmp_path):
    gone = str(tmp_path / 'gone.sock')
    for words, sentence in [
            ([], 'which command?'), (['statsu'], 'did you mean status?'),
            (['wait', 'wram'], 'did you mean wait warm?'), (['wait'], 'wait warm'),
            (['config'], 'config get'), (['get'], 'get needs KEY'),
            (['status', 'x'], 'unexpected argument x'),
            (['status', '--timeout', '1'], 'status has no option --timeout'),
            (['wait', 'warm', '--timeout', 'soon'], 'expected seconds'),
            (['wait', 'warm', '--timeout'], 'needs a value'),
            (['wait', 'warm', '--timout', '1'], 'did you mean --timeout?'),
            (['verify', '--sample', '-1'], 'whole number'), (['disconnect', 'a'], 'whole number'),
            (['watch', '--count', '0'], 'above 0'),
            (['shutdown', '--promote=yes'], 'takes no value'),
            (['shutdown', '--promote', 'yes'], 'unexpected argument'),
            (['status', '--promote'], 'has no option --promote'),
            (['-s', gone, 'status'], 'no such socket'), (['-s', '', 'status'], 'path is empty'),
            (['-s'], 'needs the path')]:
        done = agent.ctl(*words)
        assert (done.returncode, done.stdout) == (1, ''), words
        assert sentence in done.stderr, done.stderr
    assert agent.asked() == []


def test_a_daemon_that_hangs_is_not_waited_for(agent, tmp_path):
    agent.process.send_signal(signal.SIGSTOP)
    target = tmp_path / 'dump.rdb'
    waiting = [subprocess.Popen([CTL, '-s', agent.path, *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
               for words in (['verify'], ['export', str(target)])]
    for one in waiting:
        out, words = one.communicate(timeout=60)
        assert (one.returncode, out) == (3, '')
        assert words == f'keywakectl: {agent.path}: the daemon hangs: it answers nothing for 10 s\n'
    assert not target.exists()


def test_what_takes_its_time_is_waited_for_while_the_daemon_answers(tmp_path):
    path = str(tmp_path / 'agent.sock')
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client = subprocess.Popen([CTL, '-s', path, 'verify'], stdout=subprocess.PIPE, text=True)
        slow, _ = listener.accept()
        verify = json.loads(slow.makefile().readline())
        for _ in range(2):
            other, _ = listener.accept()
            with other:
                request = json.loads(other.makefile().readline())
                assert request['method'] == 'version'
                answer = {'jsonrpc': '2.0', 'id': request['id'], 'result': {}}
                other.sendall(json.dumps(answer).encode() + b'\n')
        answer = {'jsonrpc': '2.0', 'id': verify['id'], 'result': {'checked': 7}}
        slow.sendall(json.dumps(answer).encode() + b'\n')
        out, _ = client.communicate(timeout=PATIENCE)
        slow.close()
    assert client.returncode == 0 and json.loads(out) == {'checked': 7}


def crowd(path):
    """As many as may wait to be let in."""
    waiting = []
    for _ in range(50):
        waiting.append(socket.socket(socket.AF_UNIX))
        waiting[-1].setblocking(False)
        if waiting[-1].connect_ex(path):
            break
    return waiting


def begin_verify(listener, path):
    listener.bind(path)
    listener.listen(0)
    client = subprocess.Popen([CTL, '-s', path, 'verify'], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
    connection, _ = listener.accept()
    return client, connection, json.loads(connection.makefile().readline())['id']


def answer_one(connection, number, result):
    answer = {'jsonrpc': '2.0', 'id': number, 'result': result}
    connection.sendall(json.dumps(answer).encode() + b'\n')


def test_a_crowd_at_the_door_ends_no_verify_unless_it_stays(tmp_path):
    passing, staying = str(tmp_path / 'passing.sock'), str(tmp_path / 'staying.sock')
    with socket.socket(socket.AF_UNIX) as door, socket.socket(socket.AF_UNIX) as shut:
        client, connection, number = begin_verify(door, passing)
        hanging, silent, _ = begin_verify(shut, staying)
        crowds = crowd(passing), crowd(staying)
        time.sleep(4)  # the daemons are looked after when they are silent for 2 s
        assert client.poll() is None and hanging.poll() is None
        for one in crowds[0]:
            one.close()
        while True:
            other, _ = door.accept()
            words = other.makefile().readline()
            if words:  # and not one of the crowd
                answer_one(other, json.loads(words)['id'], {})
                break
        answer_one(connection, number, {'checked': 7})
        out, _ = client.communicate(timeout=60)
        assert client.returncode == 0 and json.loads(out) == {'checked': 7}
        out, words = hanging.communicate(timeout=60)
        assert hanging.returncode == 3 and 'the daemon hangs: it lets nobody in' in words
        for one in [connection, silent, other, *crowds[1]]:
            one.close()


def test_a_daemon_that_lets_nobody_in_hangs(tmp_path):
    path = str(tmp_path / 'agent.sock')
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        waiting = crowd(path)
        done = ctl('-s', path, 'status')
        assert done.returncode == 1 and 'the daemon hangs: it lets nobody in' in done.stderr
        for one in waiting:
            one.close()


def test_socket_comes_from_the_environment_too(agent):
    done = ctl('status', env={**os.environ, 'KEYWAKE_SOCKET': agent.path})
    assert json.loads(done.stdout)['state'] == 'warm'


def test_help_covers_every_command():
    help_text = ctl('--help')
    assert help_text.returncode == 0
    for name in ('status', 'agents', 'watch', 'wait warm', 'wait live', 'get', 'verify', 'resync',
                 'approve', 'reconcile', 'pause', 'resume', 'disconnect', 'retarget', 'config get', 'config set',
                 'config reload', 'log', 'methods', 'version', 'shutdown'):
        assert name in help_text.stdout
        done = ctl(*name.split(), '--help')
        assert done.returncode == 0 and 'Example:\n  keywakectl' in done.stdout
    assert 'wait warm' in ctl('wait', '--help').stdout
    assert re.match(r'keywakectl \d+\.\d+', ctl('--version').stdout)
    assert '*wait live*' in ctl('--scdoc').stdout


def test_completion_offers_words_and_options():
    script = ctl('--completion').stdout

    def complete(*words):
        line = ' '.join(f"'{word}'" for word in ('keywakectl', *words))
        probe = (f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words)}; _keywakectl; '
                 'echo "${COMPREPLY[@]}"')
        return subprocess.run(['bash', '-c', probe], capture_output=True, text=True,
                              check=True).stdout.split()

    assert complete('sta') == ['status']
    assert complete('-s', 'x', 'wait', '') == ['warm', 'live']
    assert complete('config', 'r') == ['reload']
    assert complete('wait', 'warm', '--t') == ['--timeout']
    assert complete('shutdown', '--p') == ['--promote']
    assert 'agents' in complete('') and 'wait' in complete('')
    assert complete('-o', '') == ['table', 'json', 'prometheus']
    assert complete('agents', 'r') == ['revoke'] and complete('log', 'de') == ['debug']
    assert complete('logs', '--level', 'w') == ['warn'] and complete('top', '--sort', 'l') == ['lag']
    assert '-f' in complete('logs', '-') and '--once' in complete('top', '--')


def test_completion_knows_the_keys_of_the_daemons():
    listing = 'In the environment …\n\nredis.address (text; required)\n    The primary (see x).\n\npoll.idle_us (integer)\n'
    for shell in ('bash', 'zsh', 'fish'):
        script = subprocess.run([CTL, f'--completion={shell}', '-'], input=listing * 2, capture_output=True, text=True,
                                check=True).stdout
        for word in ('redis.address', 'poll.idle_us', 'status', 'warm', 'revoke', 'timeout', 'prometheus', '/run/keywake'):
            assert word in script, (shell, word)
        assert 'environment' not in script
        if shutil.which(shell):
            subprocess.run([shell, '-n'], input=script, text=True, check=True, capture_output=True)
    assert ctl('--completion=csh').returncode == 1


def test_methods_and_version(agent):
    names = [method['name'] for method in json.loads(agent.ctl('methods').stdout)]
    assert 'status' in names and 'rpc.methods' in names
    assert 'get key [database]' in re.sub(r'\x1b\[\d*m', '',
                                          on_terminal(['-s', agent.path, 'methods'])[1])
    assert json.loads(agent.ctl('version').stdout)['program'] == 'keywake-agent'


def test_an_export_answered_before_its_last_bytes_is_whole(tmp_path):
    """The agent's answer and the pipe are two ways: the end of what came well is in the pipe."""
    path, target = str(tmp_path / 'agent.sock'), tmp_path / 'dump.rdb'
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        client = subprocess.Popen([CTL, '-s', path, '--json', 'export', str(target)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        connection, _ = listener.accept()
        with connection:
            line, pipes, _, _ = socket.recv_fds(connection, 65536, 1)
            os.write(pipes[0], b'first, ')
            answer = {'jsonrpc': '2.0', 'id': json.loads(line)['id'],
                      'result': {'keys': 1, 'bytes': 11}}
            connection.sendall(json.dumps(answer).encode() + b'\n')
            time.sleep(1)
            os.write(pipes[0], b'last')
            os.close(pipes[0])
            _, words = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, words
    assert target.read_bytes() == b'first, last'


def test_an_option_without_a_value_is_sent(agent):
    assert '[--promote]' in ctl('shutdown', '--help').stdout
    assert agent.ctl('shutdown', '--promote').returncode == 0
    assert agent.process.wait(timeout=PATIENCE) == 0


def test_shutdown_ends_the_daemon(agent):
    assert agent.ctl('shutdown').returncode == 0
    assert agent.process.wait(timeout=PATIENCE) == 0
    assert not os.path.exists(agent.path)
