"""How long until an agent is level with another table of the same primary, whose keys are all equal?"""
import os
import time

from core import cpu
from core.row import AT_MOST, hold, make_row
from core.rounds import NotBuilt
from core.stage import Stage, demand_equal, digest, fill, is_warm, seconds_until
from warmup import QUIET

TITLE = "to another proxy, and over a restart of the same one, with equal keys"
ABOUT = """\
- *Another proxy*: an agent in mode commands, warm, is sent from one proxy to another by `retarget`. Both have the
  same primary, so all keys are equal. `seconds`: until it says `warm` with the other table.
- With the digest index only differences reach the local server; without it (`apply.index=false`) every key does.
- *A restart*: the proxy ends cleanly and is started again, with `table.keep_file` on a tmpfs. `seconds`: from the new
  process to a live proxy and a warm agent. `keys`: records that the agent applied, and `proxy_cpu_s` is the new
  process's.
- *Version 0.1*: programs of that version, from the build that `KW_OLD` names. It knows no `retarget`: its agent is
  ended, and started again at the other proxy. `seconds`: from the new process to `warm`.
- `restores`: RESTORE calls of the local server (INFO commandstats). `server_cpu_s`, `agent_cpu_s`: CPU seconds.
"""
TMPFS = "/dev/shm"
LONG = 300


def restores(server):
    with server.admin() as client:
        return client.info("commandstats").get("cmdstat_restore", {"calls": 0})["calls"]


class Side:
    """An agent and a replica of its own; go() gives it another table, and says what that took."""

    def __init__(self, replica, agent, warm, wanted):
        self.replica, self.agent, self.wanted = replica, agent, wanted
        seconds_until(warm, LONG, what="a warm agent")

    def measure(self, act, level, fresh=()):
        """fresh: processes that begin within act, so that all of their time counts."""
        known = [process for process in (self.agent, self.replica) if process not in fresh]
        before = restores(self.replica)
        spent = {process: cpu.seconds(process.pid) for process in known}
        begin = act()
        seconds_until(level, LONG, what="warm with the other table")
        seconds = time.monotonic() - begin
        used = {process: cpu.seconds(process.pid) - spent.get(process, 0) for process in (*known, *fresh)}
        demand_equal(self.wanted, self.replica)
        return {"seconds": seconds, "restores": restores(self.replica) - before,
                "server_cpu_s": used[self.replica], "agent_cpu_s": used[self.agent]}, used


class AnotherProxy(Side):
    """To and fro between two proxies."""

    def __init__(self, stage, proxies, wanted, **settings):
        replica = stage.empty()
        super().__init__(replica, *stage.start_agent(proxies[0], replica, **settings), wanted)
        self.proxies, self.at = proxies, 0
        # What is known of an empty server's first snapshot is known once it is level.
        if settings.get("apply__index", True):
            seconds_until(lambda: self.agent.status()["index"]["state"] == "sound", what="an index")

    def act(self):
        self.at = 1 - self.at
        begin = time.monotonic()
        self.agent.rpc("retarget", proxy=self.proxies[self.at].listen["shm"])
        return begin

    def go(self):
        epoch = self.agent.status()["epoch"]
        figures, _ = self.measure(
            self.act, lambda: self.agent.status()["epoch"] != epoch and is_warm(self.agent))
        return figures


class Restart(Side):
    """The proxy ends, and comes back with the table that it kept."""

    def __init__(self, stage, primary, wanted):
        self.path = os.path.join(TMPFS, f"keywake-bench-{os.getpid()}")
        self.proxy = stage.proxy(primary, table__keep_file=self.path, **QUIET)
        replica = stage.empty()
        super().__init__(replica, *stage.start_agent(self.proxy, replica), wanted)

    def act(self):
        status = self.proxy.stop()
        if status != 0:
            raise RuntimeError(f"the proxy ended with {status}")
        begin = time.monotonic()
        self.proxy.start(wait=False)
        return begin

    def level(self):
        status = self.proxy.try_status()
        return bool(status) and status["state"] == "live" and is_warm(self.agent)

    def go(self):
        epoch, applied = self.agent.status()["epoch"], self.agent.status()["keys_applied"]
        figures, used = self.measure(self.act, self.level, fresh=(self.proxy,))
        if self.agent.status()["epoch"] != epoch:
            raise RuntimeError("the table was not kept")
        return {**figures, "keys": self.agent.status()["keys_applied"] - applied, "proxy_cpu_s": used[self.proxy]}

    def close(self):
        if self.proxy.alive:
            self.proxy.stop()
        if os.path.exists(self.path):
            os.unlink(self.path)


class Old(Side):
    """Version 0.1, which applies every key of another table."""

    def __init__(self, stage, primary, wanted):
        self.folder, self.stage = os.environ.get("KW_OLD"), stage
        if not self.folder:
            raise NotBuilt("KW_OLD names no build of version 0.1")
        self.proxies = [self.proxy(primary) for _ in range(2)]
        self.at = 0
        replica = stage.empty()
        agent = stage.bed.agent(self.proxies[0], replica, name=stage.name("old-agent"), via="shm", start=False,
                                log__level="warn")
        agent.program = os.path.join(self.folder, "agent", "keywake-agent")
        agent.start()
        super().__init__(replica, agent, lambda: is_warm(agent), wanted)

    def proxy(self, primary):
        proxy = self.stage.bed.proxy(primary, name=self.stage.name("old-proxy"), start=False, listen=("shm",),
                                     log__level="warn", table__max_bytes="3GiB")
        proxy.program = os.path.join(self.folder, "proxy", "keywake-proxy")
        proxy.start()
        proxy.wait_live(LONG)
        return proxy

    def act(self):
        self.at = 1 - self.at
        self.agent.stop()
        self.agent.settings["proxy"] = self.proxies[self.at].listen["shm"]
        begin = time.monotonic()
        self.agent.start(wait=False)
        return begin

    def level(self):
        status = self.agent.try_status()
        return bool(status) and status["epoch"] != self.epoch and status["state"] == "warm"

    def go(self):
        self.epoch = self.agent.status()["epoch"]
        figures, _ = self.measure(self.act, self.level, fresh=(self.agent,))
        return figures


class Lazy:
    """A side that is set up in its first round, so that one that cannot be is told as such."""

    def __init__(self, make):
        self.make, self.side = make, None

    def go(self):
        if not self.side:
            self.side = self.make()
        return self.side.go()


def run(run):
    with Stage() as stage:
        primary = stage.primary()
        fill(primary, run.keys)
        proxies = [stage.proxy(primary, **QUIET) for _ in range(2)]
        wanted = digest(primary)
        restart = Restart(stage, primary, wanted)
        try:
            sides = run.rounds({
                "all is applied again": AnotherProxy(stage, proxies, wanted, apply__index=False).go,
                "with the digest index": AnotherProxy(stage, proxies, wanted).go,
                "a restart of the proxy": restart.go,
                "version 0.1": Lazy(lambda: Old(stage, primary, wanted)).go})
        finally:
            restart.close()
    again = sides["all is applied again"]
    case = f"{run.keys:,} x 100 B"
    rows = [make_row(case, sides["version 0.1"]), make_row(case, again)]
    for name in ("with the digest index", "a restart of the proxy"):
        row = make_row(case, sides[name], ratio=sides[name].ratio(again, "seconds"))
        if not run.quick:
            hold(row, "restores", AT_MOST, 1000)
        rows.append(row)
    if not run.quick:
        hold(rows[2], "seconds", AT_MOST, 0.5)
        hold(rows[3], "keys", AT_MOST, 0)
    return rows
