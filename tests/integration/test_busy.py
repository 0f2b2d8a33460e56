"""A primary that answers -BUSY is waited for; databases that cannot be replicated are named."""
import contextlib
import threading

import pytest
import redis

from lib import data
from lib.process import SLOW

pytestmark = pytest.mark.sanitize

PRIMARY = {"lua-time-limit": "50", "databases": "70000"}
LOOP = "local i = 0 while true do i = i + 1 end"
LOOPS = int(9_000_000 * SLOW) # some seconds: a proxy that is held up for one of them sees it all the same
# Writes first: such a script cannot be killed, so it ends by itself.
WRITES = """
for i = 1, 2000 do redis.call('set', 'script:' .. i, i) end
redis.call('pexpire', 'script:7', 600000)
local from = tonumber(ARGV[1])
for i = 1, from do redis.call('get', 'script:1') end
return 1
"""


@contextlib.contextmanager
def script(server, text, *arguments):
    """It runs, and the server answers -BUSY."""
    def run():
        with server.client() as client, contextlib.suppress(redis.exceptions.RedisError):
            client.eval(text, 0, *arguments)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield thread
    finally:
        while thread.is_alive():
            with server.client() as client, contextlib.suppress(redis.exceptions.RedisError):
                client.script_kill()
            thread.join(0.1)


def is_busy(status):
    return status["state"] == "source_down" and "(BUSY)" in status["reason"]


def reconciles(pair):
    return pair.proxy.status()["reconciles"]


def data_connection(server):
    """The proxy's connections, by their ids: another id is another connection."""
    with server.client() as client:
        return sorted(entry["id"] for entry in client.client_list() if "proxy" in entry["name"])


@pytest.mark.parametrize("busy", [
    {}, {"source__audit_keys_per_second": 1000000}], ids=["at rest", "during an audit"])
def test_a_long_script_costs_neither_the_connection_nor_a_scan(bed, busy):
    pair = bed.pair(fill=data.fill, primary_config=PRIMARY, proxy=busy)
    before, links = reconciles(pair), data_connection(pair.primary)
    for _ in range(2):
        with script(pair.primary, LOOP):
            pair.proxy.wait_status(is_busy, "the script is not told")
            pair.agent.wait_status(lambda status: status["state"] != "warm", "the agent stays warm")
        pair.settle()
    assert reconciles(pair) == before
    assert data_connection(pair.primary) == links


def test_keys_that_a_long_script_wrote_arrive(bed):
    """Their fetches are asked while it runs, in two databases: each key is read from its own."""
    pair = bed.pair(fill=data.fill, primary_config=PRIMARY)
    before = reconciles(pair)
    with pair.primary.client(db=3) as three:
        three.set("script:7", "of database 3")
        with script(pair.primary, WRITES, LOOPS) as thread:
            pair.proxy.wait_passed("source_down", reason="(BUSY)")
            thread.join(120 * SLOW)
        three.set("script:8", "of database 3")
    pair.settle()
    pair.wait_same()
    assert reconciles(pair) == before


def test_a_proxy_that_starts_meanwhile_waits(bed):
    primary = bed.server("primary", **PRIMARY)
    data.fill(primary)
    replica = bed.server("replica")
    with script(primary, LOOP):
        with primary.client() as client:
            def refused(_=None):
                try:
                    return client.ping() is None
                except redis.exceptions.ResponseError:
                    return True
            while not refused():
                pass
        proxy = bed.proxy(primary)
        proxy.wait_status(lambda status: "BUSY" in status["reason"], "the script is not told")
    bed.agent(proxy, replica).wait_warm()


def test_a_primary_that_dies_while_it_is_busy_condemns_no_key(bed):
    pair = bed.pair(fill=data.fill, primary_config=PRIMARY)
    with script(pair.primary, LOOP):
        pair.proxy.wait_status(is_busy, "the script is not told")
        pair.primary.kill()
    pair.primary.start()
    pair.proxy.wait_status(lambda status: status["state"] == "live", "it is not followed again")
    assert pair.proxy.status()["unreadable"] == 0


def test_a_database_that_cannot_be_replicated_is_named(bed):
    pair = bed.pair(primary_config=PRIMARY, proxy={"source__audit_keys_per_second": 1000000})
    with pair.primary.client(db=66000) as client:
        client.set("key", 1)
        status = pair.proxy.wait_status(lambda status: status["state"] == "table_full", "it is live")
        assert "database 66000" in status["reason"] and "source.databases" in status["reason"], status
        pair.agent.wait_status(lambda status: status["state"] != "warm", "the agent stays warm")
        client.delete("key")
    pair.settle()


def test_a_database_that_is_left_out_is_no_trouble(bed):
    primary = bed.server("primary", **PRIMARY)
    with primary.client(db=66000) as client:
        client.set("key", 1)
    proxy = bed.proxy(primary, source__databases=[0])
    bed.agent(proxy, bed.server("replica")).wait_warm()
    assert proxy.status()["state"] == "live"
