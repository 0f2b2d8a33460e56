"""Shells with the completion of keywakectl, each as a person has it."""
import os
import pty
import select
import shutil
import subprocess
import time

CTL = os.environ['KEYWAKECTL']
RUN = '/run/keywake'


def path_of(shell):
    found = shutil.which(shell)
    assert found, f'{shell} is missing: deploy/setup installs it'
    return found


def write_script(shell, folder, keys='', sockets=None):
    """Where the completion of that shell stands now; sockets: the folder that it finds these in."""
    text = subprocess.run([CTL, f'--completion={shell}', '-'], input=keys, capture_output=True, text=True,
                          check=True).stdout
    path = os.path.join(folder, f'keywakectl.{shell}')
    with open(path, 'w', encoding='utf-8') as file:
        file.write(text.replace(RUN, sockets) if sockets else text)
    return path


class Terminal:
    """An interactive shell on a terminal of its own: completion works nowhere else."""

    def __init__(self, argv, begin, home):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({'TERM': 'dumb', 'HOME': home, 'LC_ALL': 'C.UTF-8'})
            os.chdir(home)
            os.execv(argv[0], argv)
        self.shown = ''
        self.type(f'PS1=; {begin}; echo REA""DY\n')
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

    def run(self, typed):
        """What is shown after a line was typed, with the end of it."""
        self.type(f'\x15{typed}\n')
        self.type('echo DO""NE\n')
        self.wait('DONE')
        return self.shown

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def bash(script, home):
    """All that fits is shown at the first tab, and the terminal gets no other bytes than these."""
    settings = ('show-all-if-ambiguous on', 'page-completions off', 'completion-query-items 0', 'bell-style none',
                'enable-bracketed-paste off')
    begin = '; '.join(f"bind 'set {setting}'" for setting in settings)
    return Terminal([path_of('bash'), '--norc', '--noprofile', '-i'], f'{begin}; source {script}', home)


def zsh(script, home):
    return Terminal([path_of('zsh'), '-f', '-i'],
                    'autoload -U compinit; compinit -u -D; autoload +X _files; '
                    f'source {script}; compdef _keywakectl keywakectl', home)


def status(argv):
    return subprocess.run(argv, capture_output=True, check=False).returncode


def said(argv):
    """What a command that fails says."""
    done = subprocess.run(argv, text=True, capture_output=True, check=False)
    assert done.returncode == 1, done
    return done.stderr


def run(argv, home):
    """What a shell that is not interactive prints, in the folder home."""
    return subprocess.run([path_of(argv[0]), *argv[1:]], cwd=home, env={**os.environ, 'HOME': home}, text=True,
                          capture_output=True, check=True).stdout


def fish(script, typed, home):
    """All that fits, as fish would put it on the line."""
    done = run(['fish', '-N', '-c', f'source {script}; complete --escape -C $argv[1]', f'keywakectl {typed}'], home)
    return [line.split('\t')[0] for line in done.splitlines()]
