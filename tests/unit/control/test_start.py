"""What the daemons say before they run: a wrong word, secrets that cannot be used, a start that fails."""
import os
import signal
import socket
import subprocess

import pytest

PROXY, AGENT, GATEWAY = os.environ['DAEMONS'].split(':')
NEEDED = {PROXY: ['redis.address=unix:///nowhere', 'listen=shm:///nowhere/x'],
          AGENT: ['redis.address=unix:///nowhere', 'proxy=shm:///nowhere/x'],
          GATEWAY: ['proxy=shm:///nowhere/x', 'gateway.resp=unix:///nowhere/r']}


def words_of(program, settings):
    return [word for setting in [*NEEDED[program], *settings] for word in ('--set', setting)]


def check(program, *settings):
    return subprocess.run([program, '--check-config', *words_of(program, settings)], capture_output=True, text=True,
                          timeout=30, check=False)


def file(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize('setting, sentence', [
    ('apply.mode=replcia', 'did you mean replica?'), ('apply.mode=hibrid', 'did you mean hybrid?'),
    ('log.level=wran', 'did you mean warn?'), ('apply.mode=xyz', 'expected one of commands|replica|hybrid|discard')])
def test_an_unknown_word_suggests_one(setting, sentence):
    done = check(AGENT, setting)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr
    assert ('did you mean' in done.stderr) == ('did you mean' in sentence)


SECRET = 'a secret of more than sixteen bytes\n'


@pytest.mark.parametrize('program', [PROXY, AGENT])
def test_each_secret_that_cannot_be_used_is_named_and_counts(program, tmp_path):
    good, empty = file(tmp_path / 'good', SECRET), file(tmp_path / 'empty', '\n')
    done = check(program, f'redis.password_file={good}', f'auth.secret_file={good}')
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.endswith(': the configuration is complete and valid\n')
    done = check(program, f'redis.password_file={tmp_path}/gone', f'auth.secret_file={empty}',
                 f'http.listen=unix://{tmp_path}/http', f"http.secret_file={file(tmp_path / 'open', 'x', 0o644)}")
    said = done.stderr.splitlines()
    assert done.returncode == 2 and len(said) == 3, done
    assert f'redis.password_file: cannot open the secret file {tmp_path}/gone' in done.stderr
    assert 'auth.secret_file: ' in done.stderr and 'is empty' in done.stderr and 'chmod' in done.stderr
    assert '3 files that cannot be used; the daemon would not start' in done.stdout


@pytest.mark.parametrize('program', [PROXY, AGENT, GATEWAY])
@pytest.mark.parametrize('text, mode, says', [('short\n', 0o600, 'at least 16'), (SECRET, 0o620, 'chmod g-w'),
                                              (SECRET, 0o604, 'chmod o-rwx')])
def test_a_shared_secret_is_judged_as_the_start_does(program, tmp_path, text, mode, says):
    done = check(program, f"auth.secret_file={file(tmp_path / 'secret', text, mode)}")
    assert done.returncode == 2 and says in done.stderr and done.stderr.count('\n') == 1, done


def test_a_file_of_keys_or_users_is_opened_too(tmp_path):
    wrong, short = file(tmp_path / 'wrong', 'no such line\n'), file(tmp_path / 'short', 'short\n')
    done = check(PROXY, f'auth.keys_file={wrong}', f'auth.secret_file={short}')
    assert done.returncode == 2 and f'the file of keys {wrong}' in done.stderr and f'{short}' in done.stderr, done
    done = check(GATEWAY, f'gateway.users_file={wrong}')
    assert done.returncode == 2 and 'gateway.users_file' in done.stderr, done
    done = check(AGENT, 'auth.key_id=edge', f'auth.secret_file={short}')
    assert done.returncode == 2 and f'{short}' in done.stderr, done


def openssl(*words):
    subprocess.run(['openssl', *map(str, words)], stdin=subprocess.DEVNULL, capture_output=True, check=True)


def certificate(folder, name, days):
    """(certificate, key), the paths of two files."""
    cert, key = folder / f'{name}.pem', folder / f'{name}.key'
    openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key,
            '-out', folder / 'request', '-subj', f'/CN={name}')
    openssl('x509', '-req', '-in', folder / 'request', '-signkey', key, '-days', days, '-out', cert)
    key.chmod(0o600)
    return cert, key


@pytest.mark.parametrize('program, group, address', [
    (PROXY, 'redis.tls', 'redis.address=rediss://127.0.0.1:1'), (PROXY, 'tls', 'listen=tcp+tls://127.0.0.1:1'),
    (PROXY, 'sentinel.tls', 'sentinel.addresses=rediss://127.0.0.1:1'),
    (AGENT, 'redis.tls', 'redis.address=rediss://127.0.0.1:1'), (AGENT, 'tls', 'proxy=tcp+tls://127.0.0.1:1'),
    (GATEWAY, 'tls', 'proxy=tcp+tls://127.0.0.1:1'), (GATEWAY, 'gateway.tls', 'gateway.resp=tls://127.0.0.1:1')])
def test_certificates_that_are_missing_or_bad_count(program, group, address, tmp_path):
    cert, key = certificate(tmp_path, 'good', 1)
    old, old_key = certificate(tmp_path, 'old', -1)
    base = [address, 'auth.allow_insecure=true']
    if group == 'sentinel.tls':
        base += ['authority.by=sentinel', 'sentinel.name=x']
    if group == 'gateway.tls':
        base += ['gateway.allow_insecure=true']
    done = check(program, *base, f'{group}.cert={cert}', f'{group}.key={key}')
    if 'this build' in done.stderr:
        pytest.skip('built without TLS')
    assert (done.returncode, done.stderr) == (0, ''), done
    for files, says in (((tmp_path / 'gone', key), 'cannot open'), ((key, key), 'good.key'), ((cert, old_key), 'old.key'),
                        ((old, old_key), 'ran out'), ((cert, file(tmp_path / 'shut', key.read_text(), 0o644)), 'chmod o-rwx')):
        done = check(program, *base, f'{group}.cert={files[0]}', f'{group}.key={files[1]}')
        assert done.returncode == 2 and group in done.stderr and says in done.stderr, (files, done)


def test_all_that_is_wrong_is_told_at_once(tmp_path):
    """Keys of two files, the environment, the command line, a key that is missing, and files."""
    (tmp_path / 'd').mkdir()
    file(tmp_path / 'd' / 'a.json', '{"apply": {"mode": "replcia"}}')
    file(tmp_path / 'd' / 'b.json', '{ not JSON')
    main = file(tmp_path / 'agent.json', f'''// all of this is wrong
        {{"redis": {{"adress": "unix:///x", "password_file": "{tmp_path}/gone"}}, "include": ["d/*.json", "gone.json"],
          "auth": {{"secret_file": "{tmp_path}/none"}}, "poll": {{"idle_us": -1}},}}''')
    done = subprocess.run([AGENT, '--config', main, '--set', 'warm.lag_ms=0', '--check-config'], capture_output=True,
                          text=True, timeout=30, check=False, env={**os.environ, 'KEYWAKE_POLL_BUSY': 'perhaps'})
    assert done.returncode == 2, done
    for sentence in (f'{main}: unknown key redis.adress', f'{main}: poll.idle_us: -1 is too small',
                     'd/a.json: apply.mode: expected one of', 'd/b.json: line 1, column 5: not JSON',
                     f'{main}: include: cannot open the configuration file {tmp_path}/gone.json',
                     'KEYWAKE_POLL_BUSY in the environment: poll.busy', '--set: warm.lag_ms: 0 is too small',
                     'redis.address is missing', 'proxy is missing', f'redis.password_file: cannot open the secret file {tmp_path}/gone',
                     f'auth.secret_file: cannot open the secret file {tmp_path}/none'):
        assert sum(sentence in line for line in done.stderr.splitlines()) == 1, (sentence, done.stderr)
    assert len(done.stderr.splitlines()) == 11, done.stderr
    assert done.stdout == f'{main}: 9 mistakes, 2 files that cannot be used; the daemon would not start\n'


def failing(program, tmp_path, env):
    taken = socket.socket()
    taken.bind(('127.0.0.1', 0))
    taken.listen()
    words = [word for setting in NEEDED[program] + [
        f'control.socket={tmp_path}/ctl', f'listen=tcp://127.0.0.1:{taken.getsockname()[1]}',
        'auth.allow_insecure=true'] for word in ('--set', setting)]
    return taken, subprocess.Popen([program, *words], stderr=subprocess.PIPE, text=True, env={**os.environ, **env})


def test_a_start_that_fails_is_not_tried_each_second_by_a_service_manager(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / 'notify'))
        taken, daemon = failing(PROXY, tmp_path, {'NOTIFY_SOCKET': str(tmp_path / 'notify')})
        lines = []
        while not any('ends in 10 s' in line for line in lines):
            lines.append(daemon.stderr.readline())
            assert lines[-1], lines
        assert any('another process listens there' in line for line in lines), lines
        assert daemon.poll() is None
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(timeout=30) == 1
        taken.close()


def test_without_a_service_manager_it_ends_at_once(tmp_path):
    taken, daemon = failing(PROXY, tmp_path, {'NOTIFY_SOCKET': ''})
    _, said = daemon.communicate(timeout=60)
    assert daemon.returncode == 1 and 'ends in' not in said, said
    taken.close()
