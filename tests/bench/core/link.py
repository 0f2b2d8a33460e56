"""
A slow link: two ends of one virtual cable, each of which sends at a bounded rate. One end is this
machine, the other a network namespace of our own, in which processes are started by its prefix.
"""
import os
import subprocess

from .rounds import NotBuilt

QUEUE_MS, BURST = 50, "128kb" # of the router: what waits in it, and what it sends at once


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class SlowLink:
    """address: of the far end, as this machine sees it; inside: words before a command line there."""

    def __init__(self, rate="100mbit"):
        self.rate = rate
        self.space = f"kw-bench-{os.getpid()}"
        self.ends = [f"kwb{os.getpid()}{side}" for side in "ab"]
        self.near, self.address = "10.78.0.1", "10.78.0.2"
        self.inside = ("ip", "netns", "exec", self.space)

    def limit(self, end, inside=()):
        subprocess.run([*inside, "tc", "qdisc", "add", "dev", end, "root", "tbf", "rate", self.rate,
                        "burst", BURST, "latency", f"{QUEUE_MS}ms"], check=True, capture_output=True)

    def __enter__(self):
        try:
            ip("netns", "add", self.space)
            ip("link", "add", self.ends[0], "type", "veth", "peer", "name", self.ends[1], "netns",
               self.space)
            ip("addr", "add", self.near + "/30", "dev", self.ends[0])
            ip("link", "set", self.ends[0], "up")
            ip("-n", self.space, "addr", "add", self.address + "/30", "dev", self.ends[1])
            ip("-n", self.space, "link", "set", self.ends[1], "up")
            ip("-n", self.space, "link", "set", "lo", "up")
            self.limit(self.ends[0])
            self.limit(self.ends[1], self.inside)
        except (OSError, subprocess.CalledProcessError) as failure:
            self.__exit__()
            raise NotBuilt(f"no network namespace with a slow link here: {failure} "
                           f"{getattr(failure, 'stderr', '') or ''}".strip()) from failure
        return self

    def __exit__(self, *_):
        for words in (("link", "del", self.ends[0]), ("netns", "del", self.space)):
            subprocess.run(["ip", *words], capture_output=True, check=False)
