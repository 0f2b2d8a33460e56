"""Clocks of its own for a server or a daemon, which a test can step (tests/preload/clock.c)."""
import os
import struct

from .daemon import BUILD

LIBRARY = os.path.join(BUILD, "tests", "preload", "kw-clock.so")


class Clock:
    """
    clock = Clock(bed)
    proxy = clock.drive(bed.proxy(primary, start=False)).start()
    clock.step(-3600) # from now on an hour back
    clock.advance(300) # so much more time has passed
    """

    def __init__(self, bed, name="clock"):
        self.path = os.path.join(bed.directory, name)
        with open(self.path, "wb") as stream:
            stream.write(struct.pack("=qq", 0, 0))
        self.advanced = 0

    def drive(self, process):
        """Before it starts: its wall clock is this one. Several processes may share one."""
        env = process.env or {}
        sanitizer = env.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
        process.env = {**env, "LD_PRELOAD": LIBRARY, "KW_CLOCK_FILE": self.path,
                       "ASAN_OPTIONS": sanitizer.lstrip(":")}
        return process

    def step(self, seconds):
        """So many seconds ahead of the host's clock from now on; negative: behind it."""
        with open(self.path, "r+b", buffering=0) as stream:
            stream.write(struct.pack("=q", int(seconds * 1e6)))

    def advance(self, seconds):
        """The monotonic clock: pauses and deadlines are over sooner by so many seconds."""
        self.advanced += seconds
        with open(self.path, "r+b", buffering=0) as stream:
            stream.seek(8)
            stream.write(struct.pack("=q", int(self.advanced * 1e6)))
