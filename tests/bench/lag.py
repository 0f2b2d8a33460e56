"""How long after a write is it on the replica?"""
from functools import partial
import time

from core import cpu
from core.peers import peer
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, missing_mode, need_mode, proxy_knows, seconds_until, settle

TITLE = "from a write to its being visible on the replica"
ABOUT = """\
Writes of 100 bytes go out in bursts of a millisecond. The replica's own keyspace notification shows each
arrival. It is timed against the moment when its burst went to the primary. Each of keywake's sides names its
apply mode and its feed (`source.feed`).

The bare subscriber reads the primary's own notifications: no follower of events can be earlier.

- `end_ms`: from the last write to the last arrival.
- `never`: keys that did not come at all. This must be 0.
- `proxy_cores`, `agent_cores`: CPU time of the daemons meanwhile, as a share of a core.
"""
FEEDS = ("notifications", "stream")
# case, writes a second, keys, drawn at random, bounds in ms for mode commands by feed: (median, 99th), end
CASES = [
    ("20 /s", 20, 1000, False, {}, None),
    ("1 k/s", 1000, 100_000, False, {}, None),
    ("10 k/s", 10_000, 100_000, False, {"notifications": (0.3, 0.9), "stream": (0.25, 0.8)}, None),
    ("50 k/s over 1 M keys", 50_000, 1_000_000, True, {"notifications": (0.9, 2), "stream": (0.6, 1.5)}, 1000),
]
QUICK = [("2 k/s", 2000, 10_000, False, {}, None)]
DRAIN_MS = 10_000
KEYS_BEFORE = 10_000 # with which both sides begin


def cores(processes, work):
    """What work() returns, and what share of a core each process took meanwhile."""
    begin, before = time.monotonic(), {name: cpu.seconds(one.pid) for name, one in processes.items()}
    found = work()
    spent = time.monotonic() - begin
    return {**found, **{f"{name}_cores": (cpu.seconds(one.pid) - before[name]) / spent
                        for name, one in processes.items()}}


def measured(run, primary, replica, rate, keys, uniform):
    found = peer("peer-lag", primary.address, replica.address, "--rate", rate, "--keys", keys,
                 "--seconds", run.seconds, "--drain-ms", DRAIN_MS, *(["--uniform"] if uniform else []))
    figures = {f"{name}_ms": found[f"{name}_us"] / 1000 for name in ("p50", "p99", "max", "end")}
    figures["writes_s"] = found["written"] / run.seconds
    figures["never"] = found["owed"]
    if found["owed"]:
        raise RuntimeError(f"{found['owed']} of {found['written']} writes had not arrived "
                           f"{DRAIN_MS / 1000:.0f} s after the last; others: {figures}")
    return figures


def native(run, rate, keys, uniform):
    with Stage() as stage:
        primary, replica = stage.primary(), stage.empty()
        fill(primary, KEYS_BEFORE)
        seconds_until(stage.join_native(primary, replica), what="native full sync")
        settle(primary, replica)
        return measured(run, primary, replica, rate, keys, uniform)


def subscriber(run, rate, keys, uniform):
    with Stage() as stage:
        primary = stage.primary()
        fill(primary, KEYS_BEFORE)
        return measured(run, primary, primary, rate, keys, uniform)


def keywake(run, mode, feed, rate, keys, uniform):
    need_mode(mode)
    # Version 0.1 has one feed, and no key for it: the same bench can measure it.
    settings = {"source__feed": feed} if proxy_knows("source.feed") else {}
    with Stage() as stage:
        primary, replica = stage.primary(), stage.empty()
        fill(primary, KEYS_BEFORE)
        proxy = stage.proxy(primary, **settings)
        agent, warm = stage.start_agent(proxy, replica, mode)
        seconds_until(warm, what="agent warm")
        settle(primary, replica)
        figures = cores({"proxy": proxy, "agent": agent},
                        lambda: measured(run, primary, replica, rate, keys, uniform))
        seconds_until(warm, 10, what="agent warm after the load")
        stage.end(agent)
        return figures


def kinds():
    """Each of keywake's sides: (mode, feed)."""
    # With a link of its own to the server, mode `replica` has other figures than `commands`.
    modes = ["commands"] + ([] if missing_mode("replica") else ["replica"])
    feeds = FEEDS if proxy_knows("source.feed") else FEEDS[:1]
    return [(mode, feed) for mode in modes for feed in feeds]


def side_name(mode, feed):
    return f"{mode}, {feed}"


def hold_bounds(row, bounds, end):
    """The bounds are for mode commands, each feed's own."""
    for feed, (median, late) in bounds.items():
        if row["side"] == side_name("commands", feed):
            hold(hold(row, "p50_ms", AT_MOST, median), "p99_ms", AT_MOST, late)
    if end and row["side"].startswith("commands"):
        hold(row, "end_ms", AT_MOST, end)
    return row


def run(run):
    rows = []
    for case, rate, keys, uniform, bounds, end in run.pick(CASES, QUICK):
        sides = {"native": partial(native, run, rate, keys, uniform),
                 "bare subscriber": partial(subscriber, run, rate, keys, uniform)}
        sides.update({side_name(mode, feed): partial(keywake, run, mode, feed, rate, keys, uniform)
                      for mode, feed in kinds()})
        rows += [hold_bounds(make_row(case, side), bounds, end) for side in run.rounds(sides).values()]
    return rows
