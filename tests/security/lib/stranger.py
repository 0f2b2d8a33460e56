"""
Another user of the host. A test runs functions and daemons as this user; that takes root.

    stranger.run(os.listdir, "/etc/keywake")    the function's value, or the exception that it raised
    stranger.become(daemon)                     a daemon of lib/daemon.py runs as this user when it starts
"""
import ctypes
import os
import pickle
import shutil
import signal
import subprocess
import tempfile

from .process import LIBC, PR_SET_PDEATHSIG

NOBODY = 65534 # the overflow uid: what a process of another user namespace looks like
SOMEBODY = 64123 # a uid that no user of this host has


class Stranger:
    def __init__(self, uid=SOMEBODY):
        self.uid = uid
        self.home = tempfile.mkdtemp(prefix="kw-stranger-", dir="/tmp")
        os.chown(self.home, uid, uid)
        os.chmod(self.home, 0o755)

    def file(self, name, text="", mode=0o600):
        """A file of the stranger's own."""
        path = os.path.join(self.home, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chown(path, self.uid, self.uid)
        os.chmod(path, mode)
        return path

    def run(self, function, *args, **named):
        """In a process of the stranger's; what it returns or raises must survive pickle."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            self.in_child(theirs, function, args, named)
        os.close(theirs)
        with os.fdopen(ours, "rb") as stream:
            told = stream.read()
        os.waitpid(child, 0)
        assert told, "the stranger's process died"
        good, value = pickle.loads(told)
        if good:
            return value
        raise value

    def in_child(self, pipe, function, args, named):
        """Never returns: no fixture of the parent's is closed twice."""
        try:
            give_up_root(self.uid)
            outcome = (True, function(*args, **named))
        except BaseException as raised: # pylint: disable=broad-except
            outcome = (False, raised)
        try:
            told = pickle.dumps(outcome)
        except Exception as unfit: # pylint: disable=broad-except
            told = pickle.dumps((False, RuntimeError(f"{outcome[1]!r}: {unfit}")))
        with os.fdopen(pipe, "wb") as stream:
            stream.write(told)
        os._exit(0)

    def cannot(self, function, *args):
        """Is it denied to the stranger? Any OSError is a no."""
        try:
            self.run(function, *args)
            return False
        except OSError:
            return True

    def become(self, daemon):
        """This daemon, not started yet, will run as the stranger, from a copy that the stranger may read."""
        program = os.path.join(self.home, os.path.basename(daemon.program))
        if not os.path.exists(program):
            shutil.copy(daemon.program, program)
            os.chmod(program, 0o755)
        daemon.program = program
        daemon.inside = ("setpriv", f"--reuid={self.uid}", f"--regid={self.uid}", "--clear-groups",
                         "--pdeathsig=KILL")
        return daemon

    def spawn(self, *argv, **options):
        """A program of the stranger's: a subprocess.Popen."""
        return subprocess.Popen(argv, user=self.uid, group=self.uid, extra_groups=[], cwd=self.home, **options)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.home, ignore_errors=True)


def give_up_root(uid):
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    # After the change of user: the kernel forgets the death signal with it.
    LIBC.prctl(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
