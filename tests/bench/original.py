"""The table of the original experiments, for what runs on one machine."""
from datetime import datetime
from functools import partial
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__": # in the guest; outside tests/bench/run has seen to it
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "integration")]

from core.guest import in_guest, leave_rows, start_proxy # noqa: E402
from core.link import SlowLink                           # noqa: E402
from core.peers import Peer, peer                        # noqa: E402
from core.row import make_row                            # noqa: E402
from core.rounds import NotBuilt                         # noqa: E402
from core.stage import (MODES, PRIMARY, Stage, demand_equal, digest, fill, missing_mode,
                        seconds_until)                   # noqa: E402
from lib.daemon import free_port                         # noqa: E402
from rdma import READ_BYTES, read_bw                     # noqa: E402
from warmup import QUIET                                 # noqa: E402

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
a file. Its time is split as the servers' logs tell it: `save_s` until the primary's file is written, `send_s`
until the replica has it, `load_s` until that is loaded.

`100 Mb/s`: one replica behind a link of that rate, as the router's was. It gets a tenth of the data, in 26
values, so that a round ends: ten times as long is what all of it would take. The rows of rdma are measured in
the guest with soft-RoCE, with 16 values of 1 MB; the guest's own SLAVEOF is beside them.

The links themselves, in MB/s: the disk (fio, 64 MiB in blocks of 1 MiB, past the cache), TCP on loopback
(iperf3), READs in the guest (ib_read_bw).
"""
KEYS, VALUE_BYTES = 256, 3_660_000
SLOW_KEYS = 26
COUNTS = (1, 2, 3)
GUEST_KEYS, GUEST_VALUE_BYTES = 16, 1_000_000


# What the servers' logs say when a part of SLAVEOF by disk is over.
SAVED, RECEIVED, LOADED = ("Background saving terminated with success", "Flushing old data",
                           "Finished with success")
WHEN = re.compile(r"(\d+ \w+ \d{4} \d\d:\d\d:\d\d\.\d+)")


def when_said(server, words):
    """Seconds since the epoch at which the server last said so."""
    said = [line for line in server.output().splitlines() if words in line]
    if not said:
        raise RuntimeError(f"{server.name} never said: {words}")
    return datetime.strptime(WHEN.search(said[-1]).group(1), "%d %b %Y %H:%M:%S.%f").timestamp()


class Experiment:
    def __init__(self, stage, primary, keys, value_bytes, proxy=None):
        self.stage = stage
        self.primary = primary
        fill(primary, keys, value_bytes)
        self.wanted = digest(primary)
        self.joined, self.begun = None, 0 # the first replica of the last measurement, and its time
        self.proxy = proxy(stage, primary) if proxy else stage.proxy(primary, **QUIET)

    def all_equal(self, count, begin_one):
        """begin_one(replica, more) -> the question that is true when it is done."""
        replicas, more = [self.stage.empty() for _ in range(count)], []
        try:
            begin, self.begun = time.monotonic(), time.time()
            questions = [begin_one(replica, more) for replica in replicas]
            for question in questions:
                seconds_until(question, 300, what="the replicas")
            seconds = time.monotonic() - begin
            demand_equal(self.wanted, replicas[-1])
            self.joined = replicas[0]
            return {"seconds": seconds}
        finally:
            self.stage.end(*more, *replicas)

    def source(self):
        return self.primary.address

    def join(self, replica, _):
        return self.stage.join_native(self.primary, replica)

    def native(self, count, diskless):
        self.primary.command("CONFIG", "SET", "repl-diskless-sync", "yes" if diskless else "no")
        def begin_one(replica, more):
            replica.command("CONFIG", "SET", "repl-diskless-load", "swapdb" if diskless else "disabled")
            return self.join(replica, more)
        figures = self.all_equal(count, begin_one)
        if not diskless and count == 1:
            figures.update(self.split())
        return figures

    def split(self):
        """Of the last SLAVEOF by disk: when the parts were over, as the servers logged it."""
        saved, received = when_said(self.primary, SAVED), when_said(self.joined, RECEIVED)
        loaded = when_said(self.joined, LOADED)
        return {"save_s": saved - self.begun, "send_s": received - saved, "load_s": loaded - received}

    def keywake(self, mode, via, count):
        def begin_one(replica, more):
            agent, warm = self.stage.start_agent(self.proxy, replica, mode, via)
            more.append(agent)
            return warm
        return self.all_equal(count, begin_one)

    def copies(self, count):
        running = []
        def begin_one(replica, _):
            running.append(Peer("peer-copy", self.source(), replica.address))
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

    def sides(self, count, carriers=("shm", "tcp")):
        yield "SLAVEOF, disk", partial(self.native, count, False)
        yield "SLAVEOF, diskless", partial(self.native, count, True)
        yield "copy program", partial(self.copies, count)
        for mode in MODES:
            if not missing_mode(mode):
                for via in carriers:
                    yield f"keywake ({mode}, {via})", partial(self.keywake, mode, via, count)
        for via in carriers:
            yield f"table read alone, {via}", partial(self.reads, via, count)


# ---- behind a slow link ----

class Far(Experiment):
    """Primary and proxy at the far end of the link; replicas, agents and whoever copies at this one."""

    def __init__(self, stage, link, keys, value_bytes):
        self.link, self.port = link, free_port()
        primary = stage.bed.server(stage.name("primary"), start=False, port=self.port,
                                   **{**PRIMARY, "bind": link.address, "protected-mode": "no"})
        primary.inside = link.inside
        super().__init__(stage, primary.start(), keys, value_bytes, self.start_proxy)

    def start_proxy(self, stage, primary):
        proxy = stage.bed.proxy(primary, listen=(), start=False, table__max_bytes="1GiB",
                                auth__allow_insecure=True, log__level="warn", **QUIET)
        proxy.listen["tcp"] = f"tcp://{self.link.address}:{free_port()}"
        proxy.settings["listen"] = list(proxy.listen.values())
        proxy.inside = self.link.inside
        proxy.start()
        proxy.wait_live()
        return proxy

    def source(self):
        return f"tcp://{self.link.address}:{self.port}"

    def join(self, replica, _):
        client = replica.client()
        client.execute_command("REPLICAOF", self.link.address, self.port)
        return lambda: client.info("replication")["master_link_status"] == "up"


def slow_sides(run):
    try:
        with SlowLink() as link, Stage() as stage:
            far = Far(stage, link, *run.pick((SLOW_KEYS, VALUE_BYTES), (4, 100_000)))
            return run.rounds(dict(far.sides(1, ("tcp",))))
    except NotBuilt as missing:
        def say():
            raise missing
        return run.rounds({"behind a slow link": say})


# ---- in the guest ----

def run_inside(run):
    with Stage() as stage:
        experiment = Experiment(stage, stage.primary(), GUEST_KEYS, GUEST_VALUE_BYTES, start_proxy)
        sides = dict(experiment.sides(1, ("tcp", "rdma")))
        sides["link: READ, ib_read_bw"] = lambda: read_bw(READ_BYTES * 200)
        return [make_row("in the guest", side) for side in run.rounds(sides).values()]


# ---- the links themselves ----

def need(program):
    if not shutil.which(program):
        raise NotBuilt(f"{program} is not installed: deploy/setup --bench")


def disk(how):
    need("fio")
    with tempfile.TemporaryDirectory(prefix="kw-fio-", dir="/var/tmp") as folder:
        done = subprocess.run(["fio", "--name=link", f"--rw={how}", "--bs=1M", "--size=64M", "--direct=1",
                               "--end_fsync=1", f"--directory={folder}", "--output-format=json"],
                              check=True, capture_output=True, text=True)
    job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
    return {"mb_s": job[how]["bw_bytes"] / 1e6}


def loopback(seconds):
    need("iperf3")
    port = str(free_port())
    with subprocess.Popen(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", port],
                          stdout=subprocess.DEVNULL) as server:
        try:
            for _ in range(50): # until it listens
                time.sleep(0.1)
                done = subprocess.run(["iperf3", "-c", "127.0.0.1", "-p", port, "-t", str(seconds), "-J"],
                                      capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    return {"mb_s": json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 8e6}
        finally:
            server.kill()
    raise RuntimeError(f"iperf3: {done.stdout[-300:]}")


def link_rows(run):
    sides = {"link: disk, write": partial(disk, "write"), "link: disk, read": partial(disk, "read"),
             "link: TCP on loopback": partial(loopback, run.pick(2, 1))}
    return [make_row("the links", side) for side in run.rounds(sides).values()]


def run(run):
    rows = {}

    def add(sides, label):
        for name, side in sides.items():
            row = make_row(name, side)
            row["side"] = label
            rows.setdefault(name, []).append(row)
    with Stage() as stage:
        experiment = Experiment(stage, stage.primary(), *run.pick((KEYS, VALUE_BYTES), (16, 100_000)))
        for count in run.pick(COUNTS, COUNTS[:2]):
            add(run.rounds(dict(experiment.sides(count))), f"{count} at once" if count > 1 else "1 replica")
    add(slow_sides(run), "1 replica, 100 Mb/s")
    found = [row for group in rows.values() for row in group] + link_rows(run)
    return found if run.quick else found + in_guest(__file__, run) # kv and rdma boot one each


if __name__ == "__main__":
    leave_rows(run_inside)
