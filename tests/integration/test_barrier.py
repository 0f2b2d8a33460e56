"""`keywakectl wait`: how long it takes until a barrier has passed."""
import time

import pytest

from lib import data
from lib.process import wait_for

WAITS = 20
STEP = 0.1 # of the proxy's heartbeat, and of source.fresh_interval_ms


def seconds(action):
    begin = time.monotonic()
    for _ in range(WAITS):
        action()
    return time.monotonic() - begin


@pytest.mark.parametrize("name", ["shm", "tcp"])
def test_waits_in_a_row_do_not_wait_for_a_heartbeat(bed, name):
    """
    Each of them begins while another barrier might be under way. Beside them another command of keywakectl is
    timed. By notifications the budget of looks ends such a row sooner: source/ticket.h.
    """
    pair = bed.pair(listen=(name,), via=name, fill=lambda primary: data.fill_plain(primary, 100),
                    proxy={"source__feed": "stream"})

    def after_a_write(daemon, *words):
        pair.primary.command("INCR", "counter")
        daemon.ctl_ok(*words)
    for _ in range(5): # on a busy machine
        base = seconds(lambda: after_a_write(pair.agent, "status"))
        warm = seconds(lambda: after_a_write(pair.agent, "wait", "warm"))
        live = seconds(lambda: after_a_write(pair.proxy, "wait", "live"))
        print(f"{WAITS} times: status {base:.2f} s, wait warm {warm:.2f} s, wait live {live:.2f} s")
        if max(warm, live) < 2 * base + WAITS * STEP / 2:
            break
    else:
        pytest.fail(f"{WAITS} waits take {warm:.2f} and {live:.2f} s, and asking for the status {base:.2f} s")
    pair.settle()
    assert pair.replica.command("GET", "counter") == pair.primary.command("GET", "counter")


def test_a_token_that_no_barrier_can_reach_is_replaced(bed):
    """It is older than half of all numbers, or a mistake. Neither its client nor others may wait in vain."""
    proxy = bed.proxy(bed.server("primary"), source__feed="stream")
    proxy.wait_live()
    for away in (1000, 20000, 32000):
        issued = proxy.rpc("barrier")["token"]
        epoch, number = issued >> 16, issued & 0xffff
        lost = epoch << 16 | (number + away) % 2**16
        token = proxy.rpc("barrier", token=lost)["token"]
        assert token != lost
        wait_for(lambda: proxy.rpc("barrier", token=token)["passed"], "the token that replaces it does not pass")
        assert proxy.rpc("barrier", token=issued)["passed"]
        begin = time.monotonic()
        while not proxy.rpc("barrier", token=lost, wait_ms=1000)["passed"]: # it waits, and ends
            assert time.monotonic() - begin < 60
        another = proxy.rpc("barrier")["token"]
        wait_for(lambda: proxy.rpc("barrier", token=another)["passed"], "another client's token does not pass")
