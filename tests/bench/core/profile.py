"""What share of a process's CPU time is spent in a function and what it calls: perf, sampling."""
import os
import shutil
import signal
import subprocess

HERTZ = 199
ENOUGH = 100 # samples; fewer say nothing


class Profile:
    """Samples the stacks of a process while it is open; without perf (package linux-perf) none."""

    def __init__(self, pid, directory):
        self.path = os.path.join(directory, f"perf-{pid}.data")
        self.perf = shutil.which("perf")
        self.process = self.perf and subprocess.Popen(
            [self.perf, "record", "--call-graph", "dwarf,4096", "-F", str(HERTZ), "-p", str(pid),
             "-o", self.path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGINT) # it writes its file then
            self.process.wait(30)

    def share(self, function):
        """After it was closed. None: there is no perf, it may not look, or it saw too little."""
        if not self.perf or not os.path.exists(self.path):
            return None
        done = subprocess.run([self.perf, "script", "-i", self.path, "-F", "ip,sym"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        samples = [sample for sample in done.stdout.split("\n\n") if sample.strip()]
        if len(samples) < ENOUGH:
            return None
        return sum(function in sample for sample in samples) / len(samples)
