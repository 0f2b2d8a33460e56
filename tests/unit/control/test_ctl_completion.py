"""keywakectl --completion=… in the shells themselves: what a person gets who presses the tab key."""
import os
import pty
import select
import shutil
import subprocess
import time

import pytest

CTL = os.environ['KEYWAKECTL']
KEYS = 'redis.address (text; required)\n    The primary.\n\npoll.idle_us (integer)\n'

# What is typed, and how the one word that fits goes on.
TYPED = [
    ('sta', 'status'),
    ('-s /x wait wa', 'warm'),
    ('wait warm --time', '--timeout'),
    ('config rel', 'reload'),
    ('config get redis.add', 'redis.address'),
    ('-o pro', 'prometheus'),
    ('agents rev', 'revoke'),
    ('logs --level w', 'warn'),
    ('top --sort la', 'lag'),
    ('log deb', 'debug'),
]


@pytest.fixture(name='script', params=('zsh', 'fish'))
def a_script(request, tmp_path):
    """Its path, and the shell."""
    shell = shutil.which(request.param)
    assert shell, f'{request.param} is missing: deploy/setup installs it'
    path = tmp_path / 'keywakectl'
    with open(path, 'w', encoding='utf-8') as file:
        subprocess.run([CTL, f'--completion={request.param}', '-'], input=KEYS, stdout=file, text=True, check=True)
    return str(path), shell


class Zsh:
    """Interactive, on a terminal of its own: compadd works nowhere else."""

    def __init__(self, shell, path, home):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({'TERM': 'dumb', 'HOME': home, 'LC_ALL': 'C.UTF-8'})
            os.execv(shell, [shell, '-f', '-i'])
        self.shown = ''
        self.type(f'PS1=; autoload -U compinit; compinit -u -D; autoload +X _files; source {path}; '
                  'compdef _keywakectl keywakectl; print REA""DY\n')
        self.wait('READY')

    def type(self, text):
        self.shown = ''
        os.write(self.fd, text.encode())

    def wait(self, words):
        deadline = time.monotonic() + 60
        while words not in self.shown:
            assert time.monotonic() < deadline, f'{words} is not there: {self.shown!r}'
            if select.select([self.fd], [], [], 1)[0]:
                self.shown += os.read(self.fd, 65536).decode(errors='replace').replace('\a', '')

    def complete(self, typed, word):
        self.type(f'\x15keywakectl {typed}\t')
        self.wait(word)

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_each_word_is_completed(script, tmp_path):
    path, shell = script
    if shell.endswith('fish'):
        for typed, word in TYPED:
            done = subprocess.run([shell, '-N', '-c', f'source {path}; complete -C "keywakectl {typed}"'], text=True,
                                  env={**os.environ, 'HOME': str(tmp_path)}, capture_output=True, check=True)
            assert [line.split('\t')[0] for line in done.stdout.splitlines()] == [word], (typed, done)
        return
    zsh = Zsh(shell, path, str(tmp_path))
    try:
        for typed, word in TYPED:
            zsh.complete(typed, word)
    finally:
        zsh.close()
