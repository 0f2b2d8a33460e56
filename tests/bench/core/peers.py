"""The yardsticks (tests/bench/peers) as child processes; each prints one JSON object."""
import json
import os
import subprocess

from lib.daemon import BUILD

PEERS = os.path.join(BUILD, "tests", "bench", "peers")
TABLES = os.path.join(BUILD, "tests", "bench")
TIMEOUT = 600


def path_of(name):
    return os.path.join(TABLES if name.startswith("table-") else PEERS, name)


class Peer:
    """One that runs beside us; finish() waits for it, stop() tells it that it is enough."""

    def __init__(self, name, *words):
        self.what = " ".join([name, *map(str, words)])
        self.process = subprocess.Popen([path_of(name), *map(str, words)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, timeout=TIMEOUT):
        """What it printed. Its input stays open: those without --seconds would run for ever."""
        try:
            self.process.wait(timeout)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        output, errors = self.process.communicate()
        if self.process.returncode != 0:
            raise RuntimeError(f"{self.what}: exit {self.process.returncode}: {errors.strip()}")
        return json.loads(output)

    def stop(self, timeout=30):
        """Close its input, which ends those that run without --seconds, and take what it printed."""
        self.process.stdin.close()
        self.process.stdin = None
        return self.finish(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


def peer(name, *words, timeout=TIMEOUT):
    with Peer(name, *words) as running:
        return running.finish(timeout)
