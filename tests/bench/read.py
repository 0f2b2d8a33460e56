"""How fast is the table read, without applying anything?"""
from functools import partial
import statistics

from core.peers import peer
from core.row import AT_LEAST, hold, make_row
from core.stage import Stage, fill

TITLE = "the whole table read and verified, against bare memory and a bare socket"
ABOUT = """\
`table-read` is the agent's own carrier and reader; nothing is applied. Its peers move as many bytes as the
table has, and look at none of them.

- memcpy: out of a fresh mapping of a memory file, in chunks of 128 KiB, by one thread.
- tcp: a connection over loopback.

Over shm two threads copy a READ if a core is free, so it can be faster than memcpy. With one core, the table
of short values comes at half of memcpy's speed.

tcp+tls stands beside tcp (`of tcp`). The proxy encrypts in one thread and the reader decrypts in another, so each
needs a core. What the bound holds is GB for each CPU second of the proxy.
"""
CASES = [("1 M x 100 B", 1_000_000, 100), ("200 k x 4 KiB", 200_000, 4096),
         ("256 x 3.66 MB", 256, 3_660_000)]
QUICK = [("20 k x 100 B", 20_000, 100)]
MEMCPY_SHARE, TCP_GB_S, TLS_GB_CPU_S = 0.7, 1.5, 1.2
PASSES = 3
PEERS = {"shm": ("memcpy", "memory"), "tcp": ("bare socket", "socket")}


def speed(found):
    seconds = statistics.median(found["seconds"])
    return {"seconds": seconds, "gb_s": found["bytes"] / seconds / 1e9, "read_bytes": found["bytes"]}


def read_table(address):
    return speed(peer("table-read", address, "--passes", PASSES))


def read_with_cost(proxy, via):
    """The same, and GB for each CPU second of the proxy, unless too few bytes were read to tell."""
    before = proxy.cpu_seconds()
    found = read_table(proxy.listen[via])
    spent = proxy.cpu_seconds() - before
    if spent > 0.1:
        found["gb_cpu_s"] = found["read_bytes"] * PASSES / spent / 1e9
    return found


def move(kind, size):
    return speed(peer("peer-bulk", kind, "--bytes", size, "--passes", PASSES))


def sides_of(proxy):
    size = peer("table-read", proxy.listen["shm"])["bytes"]
    for via, (name, kind) in PEERS.items():
        yield name, partial(move, kind, size)
        yield f"table, {via}", partial(read_table, proxy.listen[via])
    yield "table, tcp+tls", partial(read_with_cost, proxy, "tcp+tls")


def run(run):
    rows = []
    for case, keys, value_bytes in run.pick(CASES, QUICK):
        with Stage() as stage:
            primary = stage.primary()
            fill(primary, keys, value_bytes)
            sides = run.rounds(dict(sides_of(stage.tls_proxy(primary))))
        for via, (name, _) in PEERS.items():
            bare, table = sides[name], sides[f"table, {via}"]
            row = make_row(case, table, of_peer=table.ratio(bare, "gb_s"))
            if via == "shm":
                hold(row, "of_peer", AT_LEAST, MEMCPY_SHARE)
            else:
                hold(row, "gb_s", AT_LEAST, TCP_GB_S)
            rows += [make_row(case, bare), row]
        secure = sides["table, tcp+tls"]
        row = make_row(case, secure, of_tcp=secure.ratio(sides["table, tcp"], "gb_s"))
        hold(row, "gb_cpu_s", AT_LEAST, TLS_GB_CPU_S)
        rows.append(row)
    return rows
