"""What do proxy and agent cost when nothing happens?"""
from functools import partial
import time

from core import cpu
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, seconds_until

TITLE = "CPU when nothing is written: proxy, agent and the primary itself, shares of a core"
# case, keys, bytes a value
CASES = [("10 k x 100 B", 10_000, 100), ("256 x 3.66 MB", 256, 3_660_000)]
FEEDS = ("notifications", "stream")
BOUND = 0.02


def shares(stage, run, feed, keys, value_bytes):
    primary = stage.primary()
    fill(primary, keys, value_bytes)
    proxy = stage.proxy(primary, source__feed=feed)
    agent, warm = stage.start_agent(proxy, stage.empty())
    seconds_until(warm, what="agent warm")
    time.sleep(run.pick(2, 0.2))
    processes = {"proxy": proxy, "agent": agent, "primary": primary}
    begin, before = time.monotonic(), {name: cpu.seconds(one.pid) for name, one in processes.items()}
    time.sleep(run.pick(10, 1))
    spent = time.monotonic() - begin
    return {f"{name}_share": (cpu.seconds(one.pid) - before[name]) / spent
            for name, one in processes.items()}


def measure(run, feed, keys, value_bytes):
    with Stage() as stage:
        return shares(stage, run, feed, keys, value_bytes)


def run(run):
    rows = []
    for case, keys, value_bytes in run.pick(CASES, CASES[:1]):
        sides = run.rounds({feed: partial(measure, run, feed, keys, value_bytes) for feed in FEEDS})
        for side in sides.values():
            row = make_row(case, side)
            for name in ("proxy", "agent", "primary"):
                hold(row, f"{name}_share", AT_MOST, BOUND)
            rows.append(row)
    return rows
