"""How far a replica is behind counts from the primary, not from the proxy's table."""
import pytest

from lib import data
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

RATE = 300
BURST = 2000 # takes the proxy some seven seconds


def test_a_proxy_that_cannot_keep_up_shows_as_lag(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10),
                    proxy={"source__keys_per_second": RATE})
    with pair.primary.client() as client:
        with client.pipeline(transaction=False) as pipe:
            for i in range(BURST):
                pipe.set(f"burst:{i}", i)
            pipe.execute()
    wait_for(lambda: pair.agent.status()["state"] == "lagging",
             lambda: f"never lagging: {pair.agent.status()}", 5)
    behind = pair.agent.status()
    assert "behind the primary" in behind["reason"], behind
    assert behind["lag_ms"] > 1000, behind
    with pair.replica.client() as client:
        assert client.dbsize() < BURST, "all of it is there: the test shows nothing"
    pair.settle()
    wait_for(lambda: pair.agent.status()["lag_ms"] == 0,
             lambda: f"still behind: {pair.agent.status()}", 5)
    assert pair.agent.status()["state"] == "warm"
