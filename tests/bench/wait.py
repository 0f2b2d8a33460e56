"""How long does a barrier take?"""
from functools import partial
import statistics
import time

from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, seconds_until, settle
from lib.rpc import Rpc

TITLE = "a barrier: until the replica is known to have what was written before"
ABOUT = """\
A key is set at the primary, and then the barrier is asked for, on a connection that stands. Native: WAIT 1. keywake:
`barrier` on the agent's control socket, as `keywakectl wait warm` does it. Each of keywake's sides names its feed and
its carrier. Barriers come a third of a second apart, or in a row.
"""
SIDES = [("stream", "shm"), ("stream", "tcp"), ("notifications", "shm")]
# case, pause before each, how many, the bound on the median by the stream over shm in ms
CASES = [("apart", 0.3, 30, 2), ("in a row", 0, 200, 5)]
WAIT_MS = 1000


def measured(client, barrier, pause, count):
    times = []
    for number in range(count):
        time.sleep(pause)
        client.set("barrier", number)
        begin = time.monotonic()
        barrier()
        times.append((time.monotonic() - begin) * 1000)
    times.sort()
    return {"p50_ms": statistics.median(times), "p90_ms": times[count * 9 // 10], "max_ms": times[-1]}


def native(run, pause, count):
    with Stage() as stage:
        primary, replica = stage.primary(), stage.empty()
        fill(primary, 1000)
        seconds_until(stage.join_native(primary, replica), what="native full sync")
        settle(primary, replica)
        with primary.client() as client:
            def barrier():
                if client.wait(1, WAIT_MS) != 1:
                    raise RuntimeError("WAIT was not answered")
            return measured(client, barrier, pause, count)


def keywake(run, feed, carrier, pause, count):
    with Stage() as stage:
        primary, replica = stage.primary(), stage.empty()
        fill(primary, 1000)
        proxy = stage.proxy(primary, source__feed=feed)
        agent, warm = stage.start_agent(proxy, replica, via=carrier)
        seconds_until(warm, what="agent warm")
        with primary.client() as client, Rpc(agent.control) as rpc:
            def barrier():
                answer = {"token": 0, "passed": False}
                while not answer["passed"]:
                    answer = rpc.call("barrier", token=answer["token"], wait_ms=WAIT_MS)
            return measured(client, barrier, pause, count)


def run(run):
    rows = []
    for case, pause, count, bound in run.pick(CASES, [("in a row", 0, 5, None)]):
        sides = {"native": partial(native, run, pause, count)}
        sides.update({f"{feed}, {carrier}": partial(keywake, run, feed, carrier, pause, count)
                      for feed, carrier in SIDES})
        for side in run.rounds(sides).values():
            row = make_row(case, side)
            if bound and side.name == "stream, shm":
                hold(row, "p50_ms", AT_MOST, bound)
            rows.append(row)
    return rows
