"""Over shm an agent at rest sleeps until the proxy wakes it: it looks seldom, and hears at once."""
import time

import pytest

from lib import data, metrics
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

LOOKS_AWAKE = 660 # a second, by poll.idle_us
SECONDS = 3


def looks(agent):
    return metrics.value(agent.rpc("metrics")["text"], "keywake_agent_reads_total")


def wakes(agent):
    return metrics.value(agent.rpc("metrics")["text"], "keywake_agent_wakes_total")


def looks_a_second(agent):
    begin, before = time.monotonic(), looks(agent)
    time.sleep(SECONDS)
    return (looks(agent) - before) / (time.monotonic() - begin)


@pytest.mark.quick
def test_at_rest_an_agent_over_shm_looks_a_tenth_as_often(bed):
    # The audit reads, too, and goes on without end.
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), listen=("shm",), via="shm",
                    agent={"apply__audit_keys_per_second": 0})
    wait_for(lambda: looks_a_second(pair.agent) < LOOKS_AWAKE / 10, "the agent looks all the time", timeout=60)


def test_changes_that_come_singly_wake_it(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), listen=("shm",), via="shm")
    before = wakes(pair.agent)
    with pair.primary.client() as primary, pair.replica.client() as replica:
        for i in range(20):
            primary.set("single", i)
            wait_for(lambda: replica.get("single") == str(i).encode(), "the change does not come")
            time.sleep(0.05)
    assert wakes(pair.agent) - before >= 10
    pair.settle()


def test_between_bursts_it_sleeps_and_looks_no_more_often_than_they_come(bed):
    """An agent that looked by itself all the time would look six times from one burst to the next."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), listen=("shm",), via="shm",
                    agent={"apply__audit_keys_per_second": 0})
    with pair.primary.client() as primary:
        before, heard, bursts = looks(pair.agent), wakes(pair.agent), 0
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            primary.set("burst", bursts)
            bursts += 1
            time.sleep(0.002)
    assert wakes(pair.agent) - heard > bursts / 2
    assert looks(pair.agent) - before < 6 * bursts
    pair.settle()


def test_tickets_of_others_do_not_wake_it(bed):
    """Each barrier that somebody waits for publishes two numbers, and there can be hundreds of them a second."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), listen=("shm",), via="shm",
                    proxy={"source__feed": "stream"}, agent={"apply__audit_keys_per_second": 0})
    pair.settle()
    wait_for(lambda: looks_a_second(pair.agent) < LOOKS_AWAKE / 10, "the agent does not come to rest", timeout=60)
    before, passed = wakes(pair.agent), 0
    for _ in range(60):
        token = pair.proxy.rpc("barrier")["token"]
        wait_for(lambda: pair.proxy.rpc("barrier", token=token, wait_ms=1000)["passed"], "the barrier does not pass")
        passed += 1
    assert passed == 60 and wakes(pair.agent) - before < 10
    pair.agent.ctl_ok("wait", "warm") # its own wake it


def test_over_tcp_nobody_sleeps(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), listen=("tcp",), via="tcp")
    time.sleep(1)
    assert wakes(pair.agent) == 0
