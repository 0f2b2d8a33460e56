"""A full-screen program on a pseudo terminal: what stands on its screen, and how it leaves the terminal."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time

from .process import SLOW

PATIENCE = 60 * SLOW
ENTER, LEAVE = b'\x1b[?1049h', b'\x1b[?1049l'
SGR = re.compile(r'\x1b\[[0-9;]*m')


def printed(*words, lines=24, columns=80):
    """What a program that draws nothing has printed at its end, as lines without colours."""
    terminal = Terminal(*words, lines=lines, columns=columns)
    try:
        deadline = time.monotonic() + PATIENCE
        while terminal.process.poll() is None or select.select([terminal.parent], [], [], 0)[0]:
            assert time.monotonic() < deadline, terminal.output
            terminal.read(0.05)
        return SGR.sub('', terminal.output.decode()).replace('\r', '').splitlines()
    finally:
        terminal.close()


class Terminal:
    """It draws frames: each begins at the first line and ends with the last one, as keywakectl top does."""

    def __init__(self, *words, lines=30, columns=120, **env):
        self.parent, child = pty.openpty()
        self.child = child
        self.resize(lines, columns)
        self.before = termios.tcgetattr(child)
        environment = {'PATH': os.environ['PATH'], 'TERM': 'xterm', 'LC_ALL': 'C.UTF-8', **env}
        self.process = subprocess.Popen([*words], stdin=child, stdout=child, stderr=child,
                                        env=environment, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.output = b''

    def resize(self, lines, columns):
        fcntl.ioctl(self.parent, termios.TIOCSWINSZ, struct.pack('HHHH', lines, columns, 0, 0))

    def press(self, keys):
        os.write(self.parent, keys)

    def read(self, seconds):
        if select.select([self.parent], [], [], seconds)[0]:
            self.output += os.read(self.parent, 1 << 16)

    def raw(self):
        """The last frame that is whole: it ends where the next begins, or with the cut of its footer."""
        frames = self.output.split(b'\x1b[H')
        whole = [frame for frame in frames[1:] if re.search(rb'\x1b\[\d+;1H.*\x1b\[K', frame, re.S)
                 or b'\n' not in frame and b'\x1b[K' in frame]
        return whole[-1].decode() if whole else ''

    def screen(self):
        frame = SGR.sub('', self.raw()).replace('\x1b[K', '').replace('\x1b[J', '').replace('\r', '')
        return re.sub(r'\x1b\[\d+;1H', '', frame).split('\n')

    def wait(self, question, what):
        deadline = time.monotonic() + PATIENCE
        while not question(self.screen()):
            assert time.monotonic() < deadline, (what, self.screen())
            assert self.process.poll() is None, self.output
            self.read(0.1)
        return self.screen()

    def wait_for(self, text):
        return self.wait(lambda screen: text in '\n'.join(screen), text)

    def names(self):
        return [line.split()[0] for line in self.screen()[2:-1] if line.strip() and not line.startswith('    ')]

    def finish(self):
        """Its exit status; the terminal must be as it was."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read(0.05)
        while select.select([self.parent], [], [], 0)[0]:
            self.output += os.read(self.parent, 1 << 16)
        assert self.process.poll() is not None, 'it does not end'
        assert termios.tcgetattr(self.child) == self.before
        assert self.output.count(LEAVE) == self.output.count(ENTER) >= 1
        assert b'\x1b[?25h' in self.output.rsplit(ENTER)[-1] and b'\x1b[?7h' in self.output.rsplit(ENTER)[-1]
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.parent)
        os.close(self.child)
