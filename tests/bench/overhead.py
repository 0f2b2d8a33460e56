"""How much of its throughput does the primary keep?"""
from contextlib import ExitStack
from functools import partial

from core import cpu
from core.peers import Peer, peer
from core.row import AT_LEAST, AT_MOST, hold, make_row
from core.rounds import NotBuilt
from core.stage import (Stage, behind_s, catch_up, fill, proxy_knows, seconds_until, settle)

TITLE = "the primary's throughput alone, with a native replica, with keywake (commands, shm), over each feed"
ABOUT = """\
Fifty connections send SETs of 100 bytes as fast as the primary takes them. The load, the followers and
the replicas share this machine's cores.

- `kept`: the share of the throughput that the primary has alone, in the same round.
- `notified`: a side with keyspace notifications on and one subscriber that only reads them. A follower
  of events can leave no more than this.
- `unpaced`: keywake with `source.primary_share` 1.
- `stream`: keywake with `source.feed` stream. `no replica`: the proxy alone, without agent and server.
- `of_native`: kept, over what native replication keeps in the same round.
- `table_...`, `replica_...`: from the reply to a SET until the table, or the replica, has that value. It is
  taken in a second load of the same kind, with a probe each 10 ms, because probes take time from the others.
- `behind_s`: at the end of the load, the agent's own word for how old the replica is at most.
- `equal_s`: from the end of the load until the replica holds all of it. DEBUG DIGEST must then be the
  same on both, or the side has failed.
- `..._cores`: CPU seconds a second while the load runs. `..._us`: CPU microseconds for each SET.
- `follower`: keywake's proxy, or the subscriber.
- `kept_cpu`: the primary's CPU time of a SET alone, over that of this side. It is what would be kept if
  all the others had cores of their own.
"""
# name, what peer-load is told, the share that keywake must leave
CASES = [
    ("pipeline 16, uniform", ["--pipeline", 16], 0.55),
    ("pipeline 16, zipfian", ["--pipeline", 16, "--zipf"], 0.65),
    ("pipeline 1, uniform", ["--pipeline", 1], 0.90),
    ("pipeline 1, zipfian", ["--pipeline", 1, "--zipf"], None),
]
EQUAL_SECONDS = 60
BEHIND_PATIENCE = 60 # a probe gives up by itself before
RESTING_US = 200_000 # between an agent's looks, while other sides are measured
OF_NATIVE = {"stream": 0.85, "stream, no replica": 0.95} # what each must leave, of what native does
REPLICA_MS = 50 # behind, where it has a core: of two it hardly has one
ROLES = ("primary", "load", "follower", "agent", "replica")
CPU_FIGURES = [f"{role}_{unit}" for unit in ("cores", "us") for role in ROLES]


def cpu_figures(found, spent):
    """A second's and a SET's part of the CPU seconds that were spent under the load."""
    figures = {f"{role}_cores": cpu_s / found["seconds"] for role, cpu_s in spent.items()}
    figures.update({f"{role}_us": cpu_s / found["sets"] * 1e6 for role, cpu_s in spent.items()})
    return figures


class Side:
    """A primary with its follower, if any; it stays for all cases, idle while others are measured."""

    missing = "" # why it cannot be measured

    def __init__(self, stage, keys):
        self.keys = keys
        self.stage = stage
        self.primary = stage.primary()
        self.replica = self.agent = self.follower = None
        fill(self.primary, keys)

    def cpu(self):
        """CPU seconds so far of those that are there, but for the load, which tells its own."""
        there = {role: getattr(self, role) for role in ROLES if role != "load"}
        return {role: cpu.seconds(process.pid) for role, process in there.items() if process}

    def load(self, seconds, words):
        """What peer-load found, and the CPU seconds of everybody meanwhile."""
        before = self.cpu()
        found = peer("peer-load", self.primary.address, "--seconds", seconds, "--keys", self.keys, *words)
        spent = {role: total - before[role] for role, total in self.cpu().items()}
        return found, {**spent, "load": found["cpu_s"]}

    def probes(self):
        """The name of each place that is looked at, and what looks at it."""
        if self.replica:
            yield "replica", ("peer-behind", self.primary.address, self.replica.address)

    def behind(self, seconds, words):
        """How far behind the primary those are that follow it, while it is under load."""
        figures = {}
        with ExitStack() as stack:
            looks = {name: stack.enter_context(Peer(*words, "--seconds", seconds)) for name, words in self.probes()}
            if looks:
                self.load(seconds, words)
            for name, look in looks.items():
                found = look.finish(BEHIND_PATIENCE)
                figures.update({f"{name}_p50_ms": found["p50_us"] / 1000, f"{name}_p99_ms": found["p99_us"] / 1000})
        return figures

    def measure(self, seconds, words):
        found, spent = self.load(seconds, words)
        figures = {"sets_s": found["sets_s"], "batch_p50_ms": found["p50_us"] / 1000,
                   "batch_p99_ms": found["p99_us"] / 1000, **cpu_figures(found, spent),
                   **self.behind(seconds, words)}
        if self.agent:
            figures["behind_s"] = behind_s(self.agent)
        if self.replica:
            figures["equal_s"] = catch_up(self.primary, self.replica, self.agent, EQUAL_SECONDS)
        return figures


class Native(Side):
    def __init__(self, stage, keys):
        super().__init__(stage, keys)
        self.replica = stage.empty()
        seconds_until(stage.join_native(self.primary, self.replica), what="native full sync")
        settle(self.primary, self.replica)


class Notified(Side):
    def __init__(self, stage, keys):
        super().__init__(stage, keys)
        self.primary.command("CONFIG", "SET", "notify-keyspace-events", "AE")

    def measure(self, seconds, words):
        with Peer("peer-listen", self.primary.address) as listener:
            self.follower = listener.process
            figures = super().measure(seconds, words)
            listener.stop()
        return figures


class Proxied(Side):
    """The proxy alone."""

    settings = {} # of the proxy

    def __init__(self, stage, keys):
        super().__init__(stage, keys)
        self.follower = stage.proxy(self.primary, **self.settings)

    def probes(self):
        yield from super().probes()
        if "shm" in self.follower.listen:
            yield "table", ("table-behind", self.follower.listen["shm"], self.primary.address)


class Keywake(Proxied):
    def __init__(self, stage, keys):
        super().__init__(stage, keys)
        self.replica = stage.empty()
        self.agent, warm = stage.start_agent(self.follower, self.replica)
        seconds_until(warm, what="agent warm")
        settle(self.primary, self.replica)
        self.idle_us = self.agent.ctl_ok("config", "get", "poll.idle_us")
        self.look_every(RESTING_US)

    def look_every(self, us):
        self.agent.ctl_ok("config", "set", "poll.idle_us", us)

    def measure(self, seconds, words):
        self.look_every(self.idle_us)
        try:
            return super().measure(seconds, words)
        finally:
            self.look_every(RESTING_US)


class Unpaced(Keywake):
    settings = {"source__primary_share": 1}

    def __init__(self, stage, keys):
        if not proxy_knows("source.primary_share"):
            self.missing = "this version's proxy has no source.primary_share"
            return
        super().__init__(stage, keys)

    def measure(self, seconds, words):
        if self.missing:
            raise NotBuilt(self.missing)
        return super().measure(seconds, words)


class Stream(Keywake):
    settings = {"source__feed": "stream"}


class StreamAlone(Proxied):
    settings = Stream.settings


def without(row, figures):
    return {**row, "figures": {key: value for key, value in row["figures"].items()
                               if key not in figures}}


def case_rows(case, sides, bound):
    alone, native = sides["alone"], sides["native"]
    for name, side in sides.items():
        kept = None if side is alone else side.ratio(alone, "sets_s")
        of_native = None if side in (alone, native) else side.ratio(native, "sets_s")
        row = without(make_row(case, side, kept=kept, of_native=of_native), CPU_FIGURES)
        if name in OF_NATIVE:
            hold(row, "of_native", AT_LEAST, OF_NATIVE[name])
            hold(hold(row, "table_p50_ms", AT_MOST, 2), "table_p99_ms", AT_MOST, 20)
            if "replica_p50_ms" in row["figures"]:
                hold(row, "replica_p50_ms", AT_MOST, REPLICA_MS)
        if name == "keywake" and bound:
            hold(row, "kept", AT_LEAST, bound)
        yield row


def cpu_rows(case, sides):
    """Who took the cores: a table of its own; a side that failed is told in the other."""
    alone = sides["alone"]
    for side in (side for side in sides.values() if side.state == "measured"):
        kept = None if side is alone else alone.ratio(side, "primary_us")
        figures = side.figures()
        figures = {key: figures[key] for key in CPU_FIGURES if key in figures}
        yield {**make_row(case, side), "part": "cpu",
               "figures": {**figures, **({"kept_cpu": kept} if kept else {})}}


def run(run):
    kinds = {"alone": Side, "native": Native, "notified": Notified, "keywake": Keywake,
             "keywake, unpaced": Unpaced, "stream": Stream, "stream, no replica": StreamAlone}
    rows, cpus = [], []
    with ExitStack() as stack:
        subjects = {name: kind(stack.enter_context(Stage()), run.keys)
                    for name, kind in kinds.items()}
        for case, words, bound in run.pick(CASES, CASES[1:2]):
            sides = run.rounds({name: partial(subject.measure, run.seconds, words)
                                for name, subject in subjects.items()})
            rows += case_rows(case, sides, bound)
            cpus += cpu_rows(case, sides)
    return rows + cpus
