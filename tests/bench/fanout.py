"""What does it cost the primary when replicas join?"""
from functools import partial
import time

from core import cores, cpu
from core.peers import Peer
from core.row import AT_MOST, hold, make_row
from core.stage import (Stage, best_mode, calls, catch_up, demand_equal, digest, fill,
                        seconds_until)

TITLE = "replicas joining: time, CPU and commands on the primary's side, and its latency meanwhile"
ABOUT = """\
- `cpu_s`: CPU seconds of the primary's processes while the replicas join, forked children included.
  For keywake its proxy counts too. What the same processes take in as much idle time is subtracted.
- `commands`: what the primary executed meanwhile, except PING, INFO and REPLCONF.
- `of_native`: keywake's CPU seconds over native's.
- Latency: one GET a millisecond beside 5,000 SETs a second, timed from when it was due.
- `worst_ratio`: the highest latency over that of the same servers while no replica joins.

In the part under load the replicas stand for other hosts. They and their agents leave one core to the
primary's host.
"""
COUNTS = (1, 2, 3, 8)
QUICK_COUNTS = (1, 2)
LOADED_COUNTS = (1, 3, 8)
JUDGED_COUNT = 3
LOAD_SETS_S = 5000
CPU_BOUND, WORST_BOUND = 0.01, 1.2
# What goes on all the time, or asks; none of it touches a key.
CLOCKWORK = {"ping", "info", "replconf", "config|get", "time", "client|setname", "client|id",
             "debug", "psync", "dbsize"}


class Group:
    """A primary with what stands beside it for replicas' sake."""

    def __init__(self, stage, keys):
        self.stage = stage
        self.primary = stage.primary()
        fill(self.primary, keys)
        self.wanted = digest(self.primary)
        self.members = [self.primary]
        self.agents = []
        self.prepare()
        self.idle_share = self.idle()

    def prepare(self):
        pass

    def cpu(self):
        return sum(cpu.seconds(member.pid) for member in self.members)

    def idle(self):
        begin, before = time.monotonic(), self.cpu()
        time.sleep(1)
        return (self.cpu() - before) / (time.monotonic() - begin)

    def join(self, replica):
        """The question that is true once the replica is equal."""
        return self.stage.join_native(self.primary, replica)

    def leave(self, replicas):
        self.stage.end(*replicas)

    def commands(self):
        return sum(count for name, count in calls(self.primary).items() if name not in CLOCKWORK)

    def join_all(self, replicas, at_once):
        questions = []
        for replica in replicas:
            questions.append(self.join(replica))
            if not at_once:
                seconds_until(questions[-1], what="a replica's joining")
        for question in questions:
            seconds_until(question, what="the replicas' joining")

    def measure(self, count, at_once):
        replicas = [self.stage.empty() for _ in range(count)]
        try:
            commands, before, begin = self.commands(), self.cpu(), time.monotonic()
            self.join_all(replicas, at_once)
            seconds = time.monotonic() - begin
            time.sleep(0.05) # a forked child is waited for
            figures = {"seconds": seconds, "commands": self.commands() - commands,
                       "cpu_s": max(0, self.cpu() - before
                                    - self.idle_share * (time.monotonic() - begin))}
            demand_equal(self.wanted, replicas[-1])
        finally:
            self.leave(replicas)
        return figures

    def probe(self, during):
        with Peer("peer-probe", self.primary.address) as probe:
            cores.allow(probe.process.pid, cores.ALL)
            during()
            found = probe.stop()
        return {f"{name}_ms": found[f"{name}_us"] / 1000 for name in ("p50", "p99", "max")}

    def joined_under_load(self, count, quiet_seconds, keys):
        """Latency with nobody joining, then with: the same load, the same servers."""
        with cores.other_hosts():
            return self.joining_elsewhere(count, quiet_seconds, keys)

    def joining_elsewhere(self, count, quiet_seconds, keys):
        replicas = [self.stage.empty() for _ in range(count)]
        try:
            with Peer("peer-load", self.primary.address, "--seconds", 0, "--connections", 4,
                      "--rate", LOAD_SETS_S, "--keys", keys) as load:
                cores.allow(load.process.pid, cores.ALL)
                time.sleep(0.3) # its keys are drawn
                quiet = self.probe(lambda: time.sleep(quiet_seconds))
                begin = time.monotonic()
                busy = self.probe(lambda: self.join_all(replicas, True))
                seconds = time.monotonic() - begin
                load.stop()
            catch_up(self.primary, replicas[-1], self.agents and self.agents[-1])
        finally:
            self.leave(replicas)
        return {"seconds": seconds, "quiet_p50_ms": quiet["p50_ms"], "p50_ms": busy["p50_ms"],
                "quiet_p99_ms": quiet["p99_ms"], "p99_ms": busy["p99_ms"],
                "quiet_max_ms": quiet["max_ms"], "max_ms": busy["max_ms"],
                "worst_ratio": busy["max_ms"] / quiet["max_ms"]}


class Keywake(Group):
    mode = "commands"

    def prepare(self):
        # Without the audit, whose SCAN and DUMP go on whoever joins.
        self.proxy = self.stage.proxy(self.primary, source__audit_keys_per_second=0)
        self.members.append(self.proxy)

    def join(self, replica):
        agent, warm = self.stage.start_agent(self.proxy, replica, self.mode)
        self.agents.append(agent)
        return warm

    def leave(self, replicas):
        self.stage.end(*self.agents, *replicas)
        self.agents = []


def quiet_rows(run, native, keywake, name):
    for count in run.pick(COUNTS, QUICK_COUNTS):
        for at_once in (True, False)[:1 if count == 1 else 2]:
            case = f"{count} {'at once' if at_once else 'one by one'}" if count > 1 else "1"
            sides = run.rounds({"native": partial(native.measure, count, at_once),
                                name: partial(keywake.measure, count, at_once)})
            yield make_row(case, sides["native"])
            row = make_row(case, sides[name], of_native=sides[name].ratio(sides["native"], "cpu_s"))
            yield hold(hold(row, "commands", AT_MOST, 0), "of_native", AT_MOST, CPU_BOUND)


def loaded_rows(run, native, keywake, name):
    for count in run.pick(LOADED_COUNTS, QUICK_COUNTS[:1]):
        quiet = run.pick(4, 1)
        sides = run.rounds({"native": partial(native.joined_under_load, count, quiet, run.keys),
                            name: partial(keywake.joined_under_load, count, quiet, run.keys)})
        for side in sides.values():
            row = {**make_row(f"{count} at once, under load", side), "part": "under load"}
            if count == JUDGED_COUNT and side.name == name:
                hold(row, "worst_ratio", AT_MOST, WORST_BOUND)
            yield row


def run(run):
    with Stage() as stage:
        native, keywake = Group(stage, run.keys), Keywake(stage, run.keys)
        keywake.mode = best_mode()
        name = f"keywake ({keywake.mode}, shm)"
        return [*quiet_rows(run, native, keywake, name), *loaded_rows(run, native, keywake, name)]
