"""What it costs to register the table anew after a key was withdrawn: in a guest with soft-RoCE (tests/rdma)."""
import contextlib
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__": # in the guest; outside tests/bench/run has seen to it
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "integration")]

from core.guest import ADDRESS, in_guest, leave_rows # noqa: E402
from core.row import AT_MOST, hold, make_row         # noqa: E402
from core.stage import Stage, fill                   # noqa: E402
from lib.daemon import free_port                     # noqa: E402
from lib.process import wait_for                     # noqa: E402
from rdma import WRITER, WRITE_PAUSE                 # noqa: E402

TITLE = "the table registered anew over rdma, and what an agent notices of it"
ABOUT = """\
Soft-RoCE in a QEMU guest without KVM: the times of a NIC are others, and shorter. A key is withdrawn while a client
writes each 10 ms.

- `new_ms`: registering the whole table once more, in a thread of the proxy's pool, by its own log. `gib_s` is that
  for a GiB.
- `look_max_ms`: the longest time between a publication and the agent's look that found it. `read_max_ms`: from there
  until it was read.
- `refused`: READs and connections of the agent that failed.
"""
SECONDS, QUICK_SECONDS = 8, 4 # of a side; the earlier rkeys go 3 s after the new ones are there
VALUE_BYTES = 262_144
TABLES = (200, 800) # values
QUICK = (20,)
NEW = re.compile(r"and (\d+) MiB were registered anew in (\d+) ms: the earlier rkeys open nothing")


@contextlib.contextmanager
def writes(primary):
    path = primary.address.removeprefix("unix://")
    with subprocess.Popen([sys.executable, "-c", WRITER, path, str(WRITE_PAUSE)]) as writer:
        try:
            yield
        finally:
            writer.kill()


def watched(agent, seconds):
    """What the agent meets within that time."""
    before = agent.status()
    agent.ctl_ok("explain", "lag", "--reset")
    time.sleep(seconds)
    rows = {row["stage"]: row for row in agent.ctl_ok("explain", "lag")["stages"]}
    after = agent.status()
    refused = after["reconnects"] - before["reconnects"]
    refused += sum(after["rdma_faults"].values()) - sum(before["rdma_faults"].values())
    return {"look_ms": rows["look"]["p50_us"] / 1e3, "look_max_ms": rows["look"]["max_us"] / 1e3,
            "read_max_ms": rows["read"]["max_us"] / 1e3, "refused": refused}


class Withdrawal:
    """The keys of a proxy, which are withdrawn one after the other."""

    def __init__(self, stage, count):
        self.names = [f"key{number}" for number in range(count)]
        lines = [f"key {name} {number:064x}\n" for number, name in enumerate([*self.names, "stays"], 1)]
        self.file = stage.bed.file("keys", "".join(lines))
        self.secret = stage.bed.file("stays.secret", lines[-1].split()[2])

    def one(self, proxy, agent, seconds):
        told = len(NEW.findall(proxy.output()))
        proxy.ctl_ok("agents", "revoke", self.names.pop())
        figures = watched(agent, seconds)
        wait_for(lambda: len(NEW.findall(proxy.output())) > told, "the earlier rkeys do not go", 60)
        mib, milliseconds = map(int, NEW.findall(proxy.output())[-1])
        return {"new_ms": milliseconds, "mib": mib, "gib_s": milliseconds / mib * 1.024, **figures}


def table_rows(run, values):
    seconds = run.pick(SECONDS, QUICK_SECONDS)
    with Stage() as stage:
        primary = stage.primary()
        keys = Withdrawal(stage, run.count + 1)
        fill(primary, values, VALUE_BYTES)
        proxy = stage.bed.proxy(primary, listen=("shm",), start=False, log__level="info",
                                table__max_bytes="512MiB", auth__secret_file="", auth__keys_file=keys.file)
        proxy.listen["rdma"] = f"rdma://{ADDRESS}:{free_port()}"
        proxy.settings["listen"] = list(proxy.listen.values())
        proxy.start()
        proxy.wait_live(600)
        # The values are for the table alone: the guest is small.
        agent = stage.bed.agent(proxy, stage.empty(), via="rdma", auth__key_id="stays", filter__prefixes=["small:"],
                                auth__secret_file=keys.secret, log__level="warn")
        agent.wait_warm(600)
        with writes(primary):
            sides = run.rounds({"at rest": lambda: watched(agent, seconds),
                                "a key withdrawn": lambda: keys.one(proxy, agent, seconds)})
    rows = [make_row(f"{values:,} values of 256 KiB", side) for side in sides.values()]
    hold(rows[1], "refused", AT_MOST, 0)
    return rows


def run_inside(run):
    return [row for values in run.pick(TABLES, QUICK) for row in table_rows(run, values)]


def run(run):
    """From outside: the whole in one guest."""
    return in_guest(__file__, run, 1500)


if __name__ == "__main__":
    leave_rows(run_inside)
