"""How long until an empty replica is equal to its primary?"""
import time
from functools import partial

from core import cpu
from core.machine import touch_memory
from core.peers import peer
from core.row import AT_MOST, hold, make_row
from core.stage import (MODES, Stage, demand_equal, digest, fill, need_mode, seconds_until)

TITLE = "from start to equal, into an empty replica"
ABOUT = """\
- Native: REPLICAOF, diskless on both sides, no delay, swapdb, no compression.
- keywake: from the start of the agent until it says `warm`. Afterwards DEBUG DIGEST must be equal.
- The bare load: a program that has the primary's snapshot in memory plays the primary, and the clock runs from
  REPLICAOF to the first acknowledgement. That is the server's own work, which nothing can undercut: `of_load`.
- The bare client sends pipelined RESTOREs from its own memory.
- The copy program does one GET and one SET at a time. It is stopped after some seconds, and its time is
  estimated from the share that it copied.
- `cpu_s`: CPU seconds of all processes that take part: primary, replica, and forked children. On a busy
  machine it says more than the time.
"""
CARRIERS = ("shm", "tcp")
SPARE_BYTES = 512 << 20 # keys, tables, buffers
COPY_SECONDS = 8

# name, keys, bytes a value, mixed types, mode replica at most so many times native
DATA_SETS = [
    ("1 M x 100 B", 1_000_000, 100, False, 0.65),
    ("200 k x 4 KiB", 200_000, 4096, False, 0.6),
    ("256 x 3.66 MB", 256, 3_660_000, False, 0.75),
    ("400 k of all types", 400_000, 100, True, None),
]
QUICK = [
    ("10 k x 100 B", 10_000, 100, False, None),
    ("8 k of all types", 8_000, 100, True, None),
]
COMMANDS_BOUND = 1.1
LOAD_BOUND = 1.15


# Native shares the primary with our proxy, and is not to wait for its audit sweep.
QUIET = {"source__audit_keys_per_second": 0}


class Meter:
    """The clock, and the CPU seconds of these processes, from its making on."""

    def __init__(self, *processes):
        self.before = {process.pid: cpu.seconds(process.pid) for process in processes}
        self.begin = time.monotonic()

    def add(self, process):
        """One that has just been started."""
        self.before[process.pid] = 0

    def read(self):
        seconds = time.monotonic() - self.begin
        return {"seconds": seconds,
                "cpu_s": sum(cpu.seconds(pid) - before for pid, before in self.before.items())}


class Warmup:
    """One primary with its data set and proxy; each measurement brings an empty replica of its own."""

    def __init__(self, stage, keys, value_bytes, mix, primary_config=None):
        self.stage = stage
        self.bytes = keys * value_bytes
        self.primary = stage.primary(**(primary_config or {}))
        fill(self.primary, keys, value_bytes, mix)
        self.wanted = digest(self.primary)
        self.proxy = stage.proxy(self.primary, **QUIET)

    def empty(self):
        """
        A replica without data, and memory for it that the host has given out. Hosts take free memory back after some
        seconds. Without this, the side that needs most of it would pay for that.
        """
        touch_memory(3 * self.bytes + SPARE_BYTES)
        return self.stage.empty()

    def native(self):
        replica = self.empty()
        meter = Meter(self.primary, replica)
        try:
            seconds_until(self.stage.join_native(self.primary, replica), 300, what="native full sync")
            figures = meter.read()
            demand_equal(self.wanted, replica)
        finally:
            self.stage.end(replica)
        return figures

    def keywake(self, mode, via):
        need_mode(mode)
        replica = self.empty()
        meter = Meter(self.primary, self.proxy, replica)
        agent, warm = self.stage.start_agent(self.proxy, replica, mode, via)
        meter.add(agent)
        try:
            seconds_until(warm, 300, what=f"agent ({mode}, {via}) warm")
            figures = meter.read()
            demand_equal(self.wanted, replica)
        finally:
            self.stage.end(agent, replica)
        return figures

    def restore(self):
        replica = self.empty()
        try:
            return {"seconds": peer("peer-restore", self.primary.address, replica.address)["seconds"]}
        finally:
            self.stage.end(replica)

    def load(self):
        replica = self.empty()
        try:
            return {"seconds": peer("peer-feed", self.primary.address, replica.address)["seconds"]}
        finally:
            self.stage.end(replica)

    def copy(self):
        replica = self.empty()
        try:
            copied = peer("peer-copy", self.primary.address, replica.address,
                          "--seconds", COPY_SECONDS)
        finally:
            self.stage.end(replica)
        share = copied["copied"] / copied["keys"]
        return {"seconds": copied["seconds"] / share, "copied_share": share}

    def sides(self, mix):
        sides = {"native": self.native, "bare load": self.load, "bare RESTORE": self.restore}
        if not mix:
            sides["copy program"] = self.copy
        for mode in reversed(MODES):
            for via in CARRIERS:
                sides[f"{mode}, {via}"] = partial(self.keywake, mode, via)
        return sides


def rows_of(case, sides, replica_bound, judged):
    native, bare, load = sides["native"], sides["bare RESTORE"], sides["bare load"]
    for name, side in sides.items():
        row = make_row(case, side,
                       of_native=None if side is native else side.ratio(native, "seconds"),
                       of_load=side.ratio(load, "seconds") if name.startswith("replica") else None,
                       of_restore=side.ratio(bare, "seconds") if name.startswith("commands") else None)
        if judged and name == "replica, shm" and replica_bound:
            hold(hold(row, "of_native", AT_MOST, replica_bound), "of_load", AT_MOST, LOAD_BOUND)
        if judged and name == "commands, shm":
            hold(row, "of_restore", AT_MOST, COMMANDS_BOUND)
        yield row


def run(run):
    rows = []
    for case, keys, value_bytes, mix, bound in run.pick(DATA_SETS, QUICK):
        with Stage() as stage:
            warmup = Warmup(stage, keys, value_bytes, mix)
            sides = run.rounds(warmup.sides(mix))
        rows += rows_of(case, sides, bound, not run.quick)
    return rows
