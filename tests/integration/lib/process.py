"""One child process: started with its output in a file, ended by its pid, never left behind."""
import contextlib
import ctypes
import os
import signal
import subprocess
import time

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)

# Sanitizers and valgrind make everything slower; every deadline is multiplied by this.
SLOW = float(os.environ.get("KW_SLOW", "1"))
# Counts of what is repeated are multiplied by this: a long run by command, a sample in tests/run.
LENGTH = float(os.environ.get("KW_LENGTH", "1"))

SANITIZER_WORDS = ("ERROR: AddressSanitizer", "ERROR: LeakSanitizer", "runtime error:",
                   "WARNING: ThreadSanitizer")


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def wait_for(question, what, timeout=30.0, every=0.02):
    """Ask until the answer is true; an assertion that says what did not come to be."""
    deadline = time.monotonic() + timeout * SLOW
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"within {timeout * SLOW:.1f} s: {what() if callable(what) else what}")
        time.sleep(every)


def stat_fields(pid):
    """Of /proc/PID/stat, those after the name: the first is the state (man 5 proc)."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stream:
        return stream.read().rsplit(")", 1)[1].split()


def thread_states(pid):
    """A letter each (man 5 proc)."""
    states = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError): # it has ended
            states.append(stat_fields(f"{pid}/task/{thread}")[0])
    return states


class Process:
    """Started from the main thread only: the death signal follows the thread that forked."""

    outlives_us = False # deploy/demo --keep
    inside = ()         # words before its command line: of a network namespace

    def __init__(self, name, argv, log, env=None):
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log
        self.env = env
        self.popen = None

    def spawn(self):
        assert not self.alive, f"{self.name} is running already"
        with open(self.log, "ab") as output:
            output.write(f"--- {' '.join(self.argv)}\n".encode())
            output.flush()
            self.popen = subprocess.Popen(
                [*self.inside, *self.argv], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                env=dict(os.environ, **(self.env or {})), start_new_session=self.outlives_us,
                preexec_fn=None if self.outlives_us else die_with_parent)

    @property
    def pid(self):
        return self.popen.pid

    @property
    def alive(self):
        return self.popen is not None and self.popen.poll() is None

    def signal(self, number):
        """After SIGSTOP all of its threads stand still when this returns: one may be on another core."""
        self.popen.send_signal(number)
        if number == signal.SIGSTOP:
            wait_for(lambda: all(state in "TtZX" for state in thread_states(self.pid)), f"{self.name} does not stop")

    def kill(self):
        """SIGKILL: no last words."""
        if self.alive:
            self.popen.kill()
            self.popen.wait(60)

    def stop(self, timeout=30.0):
        """SIGTERM and the exit status; SIGKILL (and None) when it does not go by itself."""
        if self.popen is None:
            return 0
        if self.alive:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.terminate()
        try:
            return self.popen.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def wait_exit(self, timeout=60.0):
        return self.popen.wait(timeout * SLOW)

    def output(self):
        try:
            with open(self.log, "rb") as stream:
                return stream.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def tail(self, lines=60):
        return "\n".join(self.output().splitlines()[-lines:])

    def sanitizer_reports(self):
        return [line for line in self.output().splitlines()
                if any(word in line for word in SANITIZER_WORDS)]

    def wakes(self):
        """Times that one of its threads went to sleep of its own will: as often, it had been woken."""
        count = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            try:
                with open(f"/proc/{self.pid}/task/{thread}/status", encoding="ascii") as lines:
                    count += sum(int(line.split()[1]) for line in lines
                                 if line.startswith("voluntary_ctxt_switches"))
            except (FileNotFoundError, ProcessLookupError): # it has ended
                pass
        return count

    def cpu_seconds(self):
        fields = stat_fields(self.pid)
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
