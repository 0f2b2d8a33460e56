"""The table of the original experiments, for what runs on one machine."""
from functools import partial
import time

from core.peers import Peer, peer
from core.row import make_row
from core.stage import MODES, Stage, demand_equal, digest, fill, missing_mode, seconds_until
from warmup import QUIET

TITLE = "the original experiments' table: 937 MB in 256 values, 1, 2 and 3 replicas at once"
ABOUT = """\
The experiments that keywake grew out of had two hosts, with 40 Gb/s InfiniBand and Ethernet. For one
replica they took, in seconds:

- SLAVEOF: 97.2 through a 100 Mb/s router, 24.1 over Ethernet and over RoCE.
- The copy program: 6.8 / 2.9 / 2.6.
- A program that reads a mapping table by RDMA READ: 2.8, of which reading alone is 1.0.

With 1, 2, 3 replicas at once: SLAVEOF through the router 98 / 174 / 260, over RoCE 21 / 27 / 27. The copy
program took 2.6 / 2.6 / 2.7. The table read over RDMA did not change.

Here primary and replicas share one machine and its cores. So more replicas at once take longer, whatever
feeds them. There is no wire but loopback. `SLAVEOF, disk` is the SLAVEOF of then: the data set goes through
a file.
"""
KEYS, VALUE_BYTES = 256, 3_660_000
COUNTS = (1, 2, 3)


class Experiment:
    def __init__(self, stage, keys, value_bytes):
        self.stage = stage
        self.primary = stage.primary()
        fill(self.primary, keys, value_bytes)
        self.wanted = digest(self.primary)
        self.proxy = stage.proxy(self.primary, **QUIET)

    def all_equal(self, count, begin_one, check=True):
        """begin_one(replica) -> the question that is true when it is done."""
        replicas, more = [self.stage.empty() for _ in range(count)], []
        try:
            begin = time.monotonic()
            questions = [begin_one(replica, more) for replica in replicas]
            for question in questions:
                seconds_until(question, 300, what="the replicas")
            seconds = time.monotonic() - begin
            if check:
                demand_equal(self.wanted, replicas[-1])
        finally:
            self.stage.end(*more, *replicas)
        return {"seconds": seconds}

    def native(self, count, diskless):
        self.primary.command("CONFIG", "SET", "repl-diskless-sync", "yes" if diskless else "no")
        return self.all_equal(count, lambda replica, _: self.stage.join_native(self.primary, replica))

    def keywake(self, mode, via, count):
        def begin_one(replica, more):
            agent, warm = self.stage.start_agent(self.proxy, replica, mode, via)
            more.append(agent)
            return warm
        return self.all_equal(count, begin_one)

    def copies(self, count):
        running = []
        def begin_one(replica, _):
            running.append(Peer("peer-copy", self.primary.address, replica.address))
            process = running[-1].process
            return lambda: process.poll() is not None
        try:
            figures = self.all_equal(count, begin_one)
            for copy in running:
                copy.finish()
            return figures
        finally:
            for copy in running:
                copy.__exit__()

    def reads(self, via, count):
        """The table read and verified, applied to nothing."""
        words = ("table-read", self.proxy.listen[via])
        if count == 1:
            return {"seconds": peer(*words)["seconds"][0]}
        running = [Peer(*words) for _ in range(count)]
        try:
            return {"seconds": max(reader.finish()["seconds"][0] for reader in running)}
        finally:
            for reader in running:
                reader.__exit__()

    def sides(self, count):
        yield "SLAVEOF, disk", partial(self.native, count, False)
        yield "SLAVEOF, diskless", partial(self.native, count, True)
        yield "copy program", partial(self.copies, count)
        for mode in MODES:
            if not missing_mode(mode):
                for via in ("shm", "tcp"):
                    yield f"keywake ({mode}, {via})", partial(self.keywake, mode, via, count)
        for via in ("shm", "tcp"):
            yield f"table read alone, {via}", partial(self.reads, via, count)


def run(run):
    rows = {}
    with Stage() as stage:
        experiment = Experiment(stage, *run.pick((KEYS, VALUE_BYTES), (16, 100_000)))
        for count in run.pick(COUNTS, COUNTS[:2]):
            for name, side in run.rounds(dict(experiment.sides(count))).items():
                row = make_row(name, side)
                row["side"] = f"{count} at once" if count > 1 else "1 replica"
                rows.setdefault(name, []).append(row)
    return [row for group in rows.values() for row in group]
