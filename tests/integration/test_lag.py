"""How far a replica is behind counts from the primary, not from the proxy's table."""
import re

import pytest

from lib import data, metrics
from lib.bed import Pair
from lib.process import wait_for

pytestmark = [pytest.mark.sanitize, pytest.mark.feeds]

RATE = 300
BURST = 20_000 # would take the proxy more than a minute: it is behind, however late this looks


def test_a_proxy_that_cannot_keep_up_shows_as_lag(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10),
                    proxy={"source__keys_per_second": RATE})
    with pair.primary.client() as client:
        with client.pipeline(transaction=False) as pipe:
            for i in range(BURST):
                pipe.rpush(f"burst:{i}", i) # the stream does not tell its value
            pipe.execute()
    behind = pair.agent.wait_state("lagging", reason="behind the primary")
    assert behind["lag_ms"] > 1000, behind
    with pair.replica.client() as client:
        assert client.dbsize() < BURST, "all of it is there: the test shows nothing"
    pair.proxy.ctl_ok("config", "set", "source.keys_per_second", "0")
    pair.settle()
    wait_for(lambda: pair.agent.status()["lag_ms"] == 0,
             lambda: f"still behind: {pair.agent.status()}")
    pair.agent.wait_state("warm")


@pytest.mark.quick
def test_what_changed_during_a_scan_is_not_warm_before_it_is_fetched(bed):
    """Between the end of a scan and the first barrier behind it nobody knows how far behind it is."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 3000)
    proxy = bed.proxy(primary, source__keys_per_second=1000)
    agent = bed.agent(proxy, replica)
    seen = []
    with primary.client() as client:
        for i in range(400): # some four seconds: until after the scan
            with client.pipeline(transaction=False) as pipe:
                for j in range(15):
                    pipe.set(f"new:{i * 15 + j}", j)
                pipe.execute()
            seen.append((agent.status()["state"], proxy.status()["dirty_keys"]))
    assert not [one for one in seen if one[0] == "warm" and one[1] > 2500], seen
    agent.wait_warm()
    Pair(primary, proxy, agent, replica).settle()


def lags(pair):
    """As the agent, its metric and its proxy tell it, in ms; those that are told now."""
    told = [pair.agent.status()["lag_ms"], metrics.value(pair.agent.rpc("metrics")["text"], "keywake_agent_behind_seconds") * 1000]
    if pair.proxy.alive:
        told.append(pair.proxy.rpc("agents.list")[0]["lag_ms"])
    return told


def assert_grows(pair, beyond_ms):
    """It is told, and never falls on its way there."""
    last = pair.agent.status()["lag_ms"]
    while last < beyond_ms:
        now = pair.agent.status()["lag_ms"]
        assert now >= last, f"it fell from {last} ms to {now} ms"
        last = now
    wait_for(lambda: min(lags(pair)) >= beyond_ms, lambda: f"not all tell it: {lags(pair)}")


@pytest.mark.parametrize("killed", ["primary", "proxy"])
def test_lag_grows_when_what_is_followed_dies(bed, killed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10))
    wait_for(lambda: pair.agent.status()["lag_ms"] == 0, "behind at rest")
    getattr(pair, killed).kill()
    assert_grows(pair, 2500)
    getattr(pair, killed).restart()
    pair.settle()
    wait_for(lambda: pair.agent.status()["lag_ms"] == 0, lambda: f"still behind: {pair.agent.status()}")


def test_a_lag_that_is_not_known_is_no_number(bed):
    """The first scan is not over, so the proxy does not know how fresh its table is."""
    primary = bed.server("primary")
    data.fill_plain(primary, 3000)
    proxy = bed.proxy(primary, source__keys_per_second=10)
    agent = bed.agent(proxy, bed.server("replica"))
    agent.wait_state("bootstrapping", reason="first scan")
    assert agent.status()["lag_ms"] is None
    assert "keywake_agent_behind_seconds NaN" in agent.rpc("metrics")["text"]
    wait_for(lambda: proxy.rpc("agents.list")[0]["state"] == "bootstrapping", "it has not reported")
    assert proxy.rpc("agents.list")[0]["lag_ms"] is None
    assert re.search(r"^keywake_proxy_agent_lag_seconds\{.*\} NaN$", proxy.rpc("metrics")["text"], re.M)
