"""Reading over rdma, on real verbs: in a guest with soft-RoCE (tests/rdma), held against perftest."""
import math
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__": # in the guest; outside tests/bench/run has seen to it
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "integration")]

from core.guest import ADDRESS, in_guest, leave_rows, start_proxy # noqa: E402
from core.peers import peer                                       # noqa: E402
from core.row import AT_LEAST, AT_MOST, hold, make_row            # noqa: E402
from core.stage import Stage, fill                                # noqa: E402

TITLE = "the table read over rdma, in a guest, and how soon a small change is seen"
ABOUT = """\
Soft-RoCE in a QEMU guest without KVM. The figures mean nothing; their ratios do.

- Bulk: `table-read`, which verifies every record, against `ib_read_bw` with as large READs and as many in
  flight, and against the same table over tcp.
- Small changes: `table-look` times each against a bare READ of the superblock. Both use the same connection
  within the same milliseconds.
- `free`: the tail is looked at first, by one READ. `plain`: the superblock first.
- `age`: from publication to the apply queue, with polls back to back.
- `vain`: a look that finds nothing, which is the poll interval then.
"""
BULK_SHARE, ROUND_TRIPS = 0.9, 1.3
READ_BYTES, DEPTH, PASSES = 65536, 16, 3
TABLE = {"keys": 192, "value_bytes": 262_144}
QUICK = {"keys": 16, "value_bytes": 262_144}
LOOKS, LOOK_SECONDS, WRITE_PAUSE = 200, 10, 0.01
DEVICE = "rxe0"

WRITER = """
import itertools, socket, sys, time
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
for number in itertools.count():
    connection.sendall(b"SET small:%d %032d\\r\\n" % (number % 10, number))
    connection.recv(64)
    time.sleep(float(sys.argv[2]))
"""


# ---- perftest: the same verbs and nothing behind them ----

def perftest(program, *words):
    """The columns of its one line of results."""
    argv = [program, "-d", DEVICE, "-F", *map(str, words)]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(20): # until the server listens
                time.sleep(0.3)
                done = subprocess.run([*argv, ADDRESS], capture_output=True, text=True, check=False,
                                      timeout=60)
                if done.returncode == 0:
                    break
            else:
                raise RuntimeError(f"{program}: {(done.stderr or done.stdout).strip()[-300:]}")
        finally:
            server.kill()
    size = str(words[words.index("-s") + 1])
    for line in done.stdout.splitlines():
        if line.split()[:1] == [size]:
            return line.split()
    raise RuntimeError(f"{program} printed no result: {done.stdout[-300:]}")


def read_bw(size):
    columns = perftest("ib_read_bw", "-s", READ_BYTES, "-o", DEPTH, "-n", max(size // READ_BYTES, 100))
    return {"mb_s": float(columns[3]) * 1.048576}


def latency(program, *words, size=128):
    """Microseconds of one operation, by one of perftest's programs that wait for each."""
    columns = perftest(program, *words, "-s", size, "-n", 1000)
    typical, average = float(columns[4]), float(columns[5])
    return typical if math.isfinite(typical) else average # it does print inf at times


def read_lat():
    return {"bare_us": latency("ib_read_lat", "-e")}


# ---- ours ----

def table_read(address):
    found = peer("table-read", address, "--depth", DEPTH, "--passes", PASSES)
    return {"mb_s": found["bytes"] / statistics.median(found["seconds"]) / 1e6}


def table_look(address):
    found = peer("table-look", address, "--looks", LOOKS, "--seconds", LOOK_SECONDS)
    middle = {name: samples.get("p50") for name, samples in found.items()}
    if None in middle.values():
        raise RuntimeError(f"table-look saw too few changes: {found}")
    figures = {f"{name}_us": value for name, value in middle.items()}
    for way in ("free", "plain"):
        figures[f"{way}_of_bare"] = middle[way] / middle["bare"]
    figures["age_of_bound"] = middle["age"] / (ROUND_TRIPS * middle["bare"] + middle["vain"])
    return figures


def bulk_rows(run, stage, primary, proxy):
    table = run.pick(TABLE, QUICK)
    fill(primary, **table)
    proxy.wait_status(lambda status: status["keys"] >= table["keys"] and status["dirty_keys"] == 0,
                      "the table is not filled", 60)
    size = peer("table-read", proxy.listen["tcp"])["bytes"]
    case = f"{size / 1e6:.0f} MB, READs of 64 KiB, {DEPTH} in flight"
    sides = run.rounds({"ib_read_bw": lambda: read_bw(size),
                        "table, rdma": lambda: table_read(proxy.listen["rdma"]),
                        "table, tcp": lambda: table_read(proxy.listen["tcp"])})
    bare, ours, tcp = (sides[name] for name in ("ib_read_bw", "table, rdma", "table, tcp"))
    row = hold(make_row(case, ours, of_peer=ours.ratio(bare, "mb_s")), "of_peer", AT_LEAST, BULK_SHARE)
    return [make_row(case, bare), row, make_row(case, tcp, of_peer=tcp.ratio(bare, "mb_s"))]


def look_rows(run, primary, proxy):
    path = primary.address.removeprefix("unix://")
    with subprocess.Popen([sys.executable, "-c", WRITER, path, str(WRITE_PAUSE)]) as writer:
        try:
            sides = run.rounds({"ib_read_lat, events": read_lat,
                                "looks, rdma": lambda: table_look(proxy.listen["rdma"]),
                                "looks, tcp": lambda: table_look(proxy.listen["tcp"])})
        finally:
            writer.kill()
    case = f"a write each {WRITE_PAUSE * 1000:.0f} ms"
    rows = [make_row(case, side) for side in sides.values()]
    for row in rows[1:]:
        hold(row, "free_of_bare", AT_MOST, ROUND_TRIPS)
    hold(rows[1], "age_of_bound", AT_MOST, 1.0)
    return rows


def run_inside(run):
    with Stage() as stage:
        primary = stage.primary()
        proxy = start_proxy(stage, primary)
        rows = look_rows(run, primary, proxy)
        return rows + bulk_rows(run, stage, primary, proxy)


def run(run):
    """From outside: the whole in one guest."""
    return in_guest(__file__, run)


if __name__ == "__main__":
    leave_rows(run_inside)
