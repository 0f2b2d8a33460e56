"""How long after a write is it on the replica?"""
from functools import partial

from core.peers import peer
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, missing_mode, need_mode, seconds_until, settle

TITLE = "from a write to its being visible on the replica"
ABOUT = """\
Writes of 100 bytes go out in bursts of a millisecond. The replica's own keyspace notification shows each
arrival. It is timed against the moment when its burst went to the primary.

- `end_ms`: from the last write to the last arrival.
- `never`: keys that did not come at all. This must be 0.
"""
# case, writes a second, keys, drawn at random, bounds in ms: (median, 99th), end
CASES = [
    ("1 k/s", 1000, 100_000, False, None, None),
    ("10 k/s", 10_000, 100_000, False, (0.7, 4), None),
    ("50 k/s over 1 M keys", 50_000, 1_000_000, True, None, 1000),
]
QUICK = [("2 k/s", 2000, 10_000, False, None, None)]
DRAIN_MS = 10_000
KEYS_BEFORE = 10_000 # with which both sides begin


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


def keywake(run, mode, rate, keys, uniform):
    need_mode(mode)
    with Stage() as stage:
        primary, replica = stage.primary(), stage.empty()
        fill(primary, KEYS_BEFORE)
        agent, warm = stage.start_agent(stage.proxy(primary), replica, mode)
        seconds_until(warm, what="agent warm")
        settle(primary, replica)
        figures = measured(run, primary, replica, rate, keys, uniform)
        seconds_until(warm, 10, what="agent warm after the load")
        stage.end(agent)
        return figures


def run(run):
    rows = []
    # With a link of its own to the server, mode `replica` has other figures than `commands`.
    modes = ["commands"] + ([] if missing_mode("replica") else ["replica"])
    for case, rate, keys, uniform, bounds, end in run.pick(CASES, QUICK):
        sides = {"native": partial(native, run, rate, keys, uniform)}
        sides.update({mode: partial(keywake, run, mode, rate, keys, uniform) for mode in modes})
        for name, side in run.rounds(sides).items():
            row = make_row(case, side)
            if name == "commands" and bounds:
                hold(hold(row, "p50_ms", AT_MOST, bounds[0]), "p99_ms", AT_MOST, bounds[1])
            if name == "commands" and end:
                hold(row, "end_ms", AT_MOST, end)
            rows.append(row)
    return rows
