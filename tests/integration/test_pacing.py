"""source.primary_share: a primary that others want is left to them, one that nobody wants is used."""
import os
import subprocess
import time

import pytest

from lib.compare import wait_same
from lib.process import wait_for

# Shares of a core are measured here, and somebody takes all of one.
pytestmark = [pytest.mark.alone, pytest.mark.paced]

KEYS = 20_000
# No feed says the whole value of a hash: each key that changed must be fetched.
WRITE = ["HSET", "key:__rand_int__", "field", "x" * 100]


class Hammer:
    """Clients that take whatever the primary gives."""

    def __init__(self, primary, count=1):
        self.popens = [subprocess.Popen(
            ["redis-benchmark", "-s", primary.socket, "-q", "-n", "2000000000", "-r", str(KEYS), "-P", "16", *WRITE],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(count)]

    def stop(self):
        for popen in self.popens:
            popen.kill()
            popen.wait()


@pytest.fixture
def hammered(bed):
    """A pair under a load that never ends by itself."""
    pair = bed.pair(proxy={"log__level": "info"}, agent={"log__level": "info"})
    hammer = Hammer(pair.primary)
    yield pair, hammer
    hammer.stop()


def pace(proxy):
    return proxy.status()["pace"]


def holds_back_to(proxy, share):
    now = pace(proxy)
    return now["holding_back"] and now["taken"] < share * now["primary_busy"]


def set_share(proxy, share):
    proxy.rpc("config.set", path="source.primary_share", value=share)


def test_the_share_binds_under_load_and_ends_with_it(hammered):
    pair, hammer = hammered
    wait_for(lambda: holds_back_to(pair.proxy, 0.5), "the pace never holds back under load", 30)
    assert pace(pair.proxy)["target"] == 0.03
    pair.proxy.wait_live()
    hammer.stop()
    pair.agent.wait_warm(60)
    pair.wait_same(30)
    wait_for(lambda: not pace(pair.proxy)["holding_back"], "held back without a load")


def test_the_share_can_be_changed_under_load(hammered):
    pair, hammer = hammered
    wait_for(lambda: pace(pair.proxy)["holding_back"], "the pace never holds back under load", 30)
    set_share(pair.proxy, 0.02)
    assert pace(pair.proxy)["target"] == 0.02
    wait_for(lambda: pace(pair.proxy)["allowed"] <= 0.03, "a smaller share is not held")
    set_share(pair.proxy, 1)
    wait_for(lambda: not pace(pair.proxy)["holding_back"] and pace(pair.proxy)["allowed"] == 1,
             "held back by a share of 1")
    hammer.stop()
    pair.agent.wait_warm(60)
    pair.wait_same(30)


@pytest.fixture
def crowded(bed):
    """A primary that shares a core with its clients: it never gets enough of it to be busy."""
    pair = bed.pair(proxy={"log__level": "info"}, agent={"log__level": "info"})
    core = {min(os.sched_getaffinity(0))}
    hammer = Hammer(pair.primary, 3)
    for pid in [pair.primary.pid, *(popen.pid for popen in hammer.popens)]:
        os.sched_setaffinity(pid, core)
    yield pair
    hammer.stop()


def test_a_primary_short_of_a_core_is_not_fetched_from_beyond_the_share(crowded):
    def held():
        now = pace(crowded.proxy)
        return (now["holding_back"] and now["primary_busy"] < 0.9 and now["primary_waiting"] > 0.1 and
                now["taken"] < 0.5 * now["primary_busy"])
    wait_for(held, "a primary that waits for a core is not seen as saturated", 30)


def test_freshness_goes_on_while_it_holds_back(hammered):
    """The barrier ends under a load that never does; how far behind it is can be seen."""
    pair, hammer = hammered
    wait_for(lambda: pace(pair.proxy)["holding_back"], "the pace never holds back under load", 30)
    begin = time.time() * 1e6
    wait_for(lambda: pair.proxy.status()["fresh_us"] > begin, "no barrier ends under load", 60)
    assert pair.proxy.status()["dirty_keys"] <= KEYS
    hammer.stop()
    pair.settle()


def test_a_first_scan_under_load_ends_equal(bed):
    """The scan is held to the share as well, and its end needs no end of the load."""
    primary = bed.server("primary")
    hammer = Hammer(primary)
    try:
        wait_for(lambda: primary.command("DBSIZE") > KEYS / 2, "no load", 30)
        proxy = bed.proxy(primary, log__level="info", source__primary_share=0.05)
        wait_for(lambda: pace(proxy)["holding_back"], "the first scan is not held back", 30)
        proxy.wait_live(120)
    finally:
        hammer.stop()
    replica = bed.server("replica")
    agent = bed.agent(proxy, replica, log__level="info")
    agent.wait_warm(60)
    wait_same(primary, replica, 30)


@pytest.mark.parametrize("share", [0, 0.001, 1.5, "much"])
def test_a_share_that_is_none_is_refused(bed, share):
    proxy = bed.proxy(bed.server("primary"))
    done = proxy.ctl("config", "set", "source.primary_share", str(share))
    assert done.returncode == 2
    assert pace(proxy)["target"] == 0.03
