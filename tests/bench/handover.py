"""How long until an agent is level with another proxy of the same primary, whose keys are all equal?"""
import time

from core import cpu
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, demand_equal, digest, fill, is_warm, seconds_until
from warmup import QUIET

TITLE = "from one proxy to another, with equal keys"
ABOUT = """\
- An agent in mode commands, warm, is sent from one proxy to another by `retarget`. Both have the same primary, so
  all keys are equal. `seconds`: until it says `warm` with the other table.
- With the digest index only differences reach the local server; without it (`apply.index=false`) every key does.
- `restores`: RESTORE calls of the local server (INFO commandstats). `server_cpu_s`, `agent_cpu_s`: CPU seconds.
"""


def restores(server):
    with server.admin() as client:
        return client.info("commandstats").get("cmdstat_restore", {"calls": 0})["calls"]


class Side:
    """An agent with a replica of its own, which goes to and fro between two proxies."""

    def __init__(self, stage, proxies, wanted, **settings):
        self.proxies, self.wanted, self.at = proxies, wanted, 0
        self.replica = stage.empty()
        self.agent, warm = stage.start_agent(proxies[0], self.replica, **settings)
        seconds_until(warm, 300, what="a warm agent")
        # What is known of an empty server's first snapshot is known once it is level.
        if settings.get("apply__index", True):
            seconds_until(lambda: self.agent.status()["index"]["state"] == "sound", what="an index")

    def go(self):
        self.at = 1 - self.at
        epoch, before = self.agent.status()["epoch"], restores(self.replica)
        spent = {process: cpu.seconds(process.pid) for process in (self.agent, self.replica)}
        begin = time.monotonic()
        self.agent.rpc("retarget", proxy=self.proxies[self.at].listen["shm"])
        seconds_until(lambda: self.agent.status()["epoch"] != epoch and is_warm(self.agent), 300,
                      what="warm with the other table")
        seconds = time.monotonic() - begin
        spent = {process: cpu.seconds(process.pid) - at for process, at in spent.items()}
        demand_equal(self.wanted, self.replica)
        return {"seconds": seconds, "restores": restores(self.replica) - before,
                "server_cpu_s": spent[self.replica], "agent_cpu_s": spent[self.agent]}


def run(run):
    with Stage() as stage:
        primary = stage.primary()
        fill(primary, run.keys)
        proxies = [stage.proxy(primary, **QUIET) for _ in range(2)]
        wanted = digest(primary)
        sides = run.rounds({
            "all is applied again": Side(stage, proxies, wanted, apply__index=False).go,
            "with the digest index": Side(stage, proxies, wanted).go})
    again, indexed = sides["all is applied again"], sides["with the digest index"]
    case = f"{run.keys:,} x 100 B"
    row = make_row(case, indexed, ratio=indexed.ratio(again, "seconds"))
    if not run.quick:
        hold(row, "restores", AT_MOST, 1000)
        hold(row, "seconds", AT_MOST, 0.5)
    return [make_row(case, again), row]
