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


@pytest.mark.parametrize('program', [PROXY, AGENT])
def test_each_secret_that_cannot_be_used_is_named(program, tmp_path):
    good, empty = file(tmp_path / 'good', 'secret\n'), file(tmp_path / 'empty', '\n')
    done = check(program, f'redis.password_file={good}', f'auth.secret_file={good}')
    assert (done.returncode, done.stderr) == (0, '')
    done = check(program, f'redis.password_file={tmp_path}/gone', f'auth.secret_file={empty}',
                 f'http.listen=unix://{tmp_path}/http', f"http.secret_file={file(tmp_path / 'open', 'x', 0o644)}")
    said = done.stderr.splitlines()
    assert len(said) == 3 and all('at this moment: ' in line for line in said), said
    assert 'redis.password_file' in done.stderr and f'{tmp_path}/gone' in done.stderr
    assert 'is empty' in done.stderr and 'chmod' in done.stderr


def test_a_file_of_keys_or_users_is_opened_too(tmp_path):
    wrong = file(tmp_path / 'wrong', 'no such line\n')
    assert f'{wrong}' in check(PROXY, f'auth.keys_file={wrong}').stderr
    assert 'gateway.users_file' in check(GATEWAY, f'gateway.users_file={wrong}').stderr


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
    _, said = daemon.communicate(timeout=9)
    assert daemon.returncode == 1 and 'ends in' not in said, said
    taken.close()
