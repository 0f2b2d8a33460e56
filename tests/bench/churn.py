"""What do long overwrites do to the proxy's memory, its CPU and the lag?"""
import contextlib
from functools import partial
import time

from core import cpu
from core.peers import Peer
from core.rounds import NotBuilt
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, behind_s, catch_up, fill, seconds_until, settle
from memory import allowed_bytes

TITLE = "overwriting everything again and again: the table's memory, the cleaner, the lag"
ABOUT = """\
A steady load overwrites keys, by a Zipf law and uniformly in turn. Each phase writes values of another
length. An agent follows over shm.

- `of_allowed`: the proxy's resident memory over 1.25 x live payload + 48 bytes a key, both at their highest.
- `moved`: bytes that the cleaner copied for each byte written.
- `behind`: how old the replica is at most, by the agent's own word each tenth of a second.
- `huge pages`: with `table.huge_pages`, out of a pool that is made for the time of the measurement (root). Resident
  memory does not count these.
- `cleaner_share`: the cleaner's part of the proxy's CPU time, by the proxy's own clock (`cleaner_us`).
"""
RATE = 50_000
POOL = "/proc/sys/vm/nr_hugepages"
POOL_PAGES = 1024 # of 2 MiB
PHASES = [(100, False), (140, True), (60, False), (100, True)] # bytes a value, zipfian


def pool_pages():
    with open(POOL, encoding="ascii") as stream:
        return int(stream.read())


def set_pool(pages):
    with open(POOL, "w", encoding="ascii") as stream: # a write at its beginning alone counts
        stream.write(str(pages))


@contextlib.contextmanager
def pool(wanted):
    """Pages of 2 MiB for the table, if they are wanted."""
    if not wanted:
        yield {}
        return
    try:
        before = pool_pages()
        set_pool(POOL_PAGES)
    except OSError as failure:
        raise NotBuilt(f"no pool of huge pages can be made: {failure}") from failure
    try:
        if pool_pages() < POOL_PAGES:
            raise NotBuilt(f"the system has {pool_pages()} huge pages, and {POOL_PAGES} are wanted")
        yield {"table__huge_pages": True, "table__max_bytes": "1GiB"}
    finally:
        set_pool(before)


class Watch:
    """Looks at proxy and agent while a load runs."""

    def __init__(self, proxy, agent):
        self.proxy, self.agent = proxy, agent
        self.behind = []
        self.allowed = self.resident = 0 # the highest so far

    def look_until(self, ended):
        next_memory = 0
        while not ended():
            if time.monotonic() >= next_memory:
                next_memory = time.monotonic() + 1
                self.resident = max(self.resident, cpu.resident_bytes(self.proxy.pid))
                self.allowed = max(self.allowed, allowed_bytes(self.proxy.status()))
            self.behind.append(behind_s(self.agent))
            time.sleep(0.1)

    def figures(self):
        behind = sorted(self.behind)
        return {"resident_bytes": self.resident, "of_allowed": self.resident / self.allowed,
                "behind_p50_s": behind[len(behind) // 2], "behind_max_s": behind[-1]}


def overwrite(run, primary, watch, seconds, value_bytes, zipf):
    with Peer("peer-load", primary.address, "--seconds", seconds, "--keys", run.keys, "--pipeline", 16,
              "--connections", 8, "--rate", RATE, "--value-bytes", value_bytes,
              *(["--zipf"] if zipf else [])) as load:
        watch.look_until(lambda: load.process.poll() is not None)
        return load.finish()["sets"]


def measure(run, feed, huge):
    seconds = run.pick(1.5 * run.seconds, 0.5)
    with pool(huge) as settings, Stage() as stage:
        primary, replica = stage.primary(), stage.empty()
        fill(primary, run.keys)
        proxy = stage.proxy(primary, source__feed=feed, **settings)
        agent, warm = stage.start_agent(proxy, replica)
        seconds_until(warm, what="agent warm")
        settle(primary, replica)
        before, spent = proxy.status()["table"], cpu.seconds(proxy.pid)
        watch = Watch(proxy, agent)
        sets = sum(overwrite(run, primary, watch, seconds, *phase) for phase in PHASES)
        equal = catch_up(primary, replica, agent)
        after, spent = proxy.status()["table"], cpu.seconds(proxy.pid) - spent
        moved, written, cleaner_us = [after[key] - before[key] for key in
                                      ("cleaned_bytes", "written_bytes", "cleaner_us")]
        figures = {"sets_s": sets / len(PHASES) / seconds, "overwrites": sets / run.keys,
                   **watch.figures(), "utilisation": after["utilisation"],
                   "moved": moved / max(1, written), "equal_s": equal,
                   "proxy_cpu_s": spent, "cleaner_share": cleaner_us / 1e6 / spent}
        stage.end(agent)
        return figures


def run(run):
    kinds = {f"{feed}{', huge pages' if huge else ''}": partial(measure, run, feed, huge)
             for feed in ("notifications", "stream") for huge in (False, True)}
    rows = []
    for name, side in run.rounds(kinds).items():
        row = make_row(f"{run.keys:,} keys, {RATE:,} SETs/s", side)
        if "huge" not in name:
            hold(row, "of_allowed", AT_MOST, 1.0)
        rows.append(hold(row, "cleaner_share", AT_MOST, 0.1))
    return rows
