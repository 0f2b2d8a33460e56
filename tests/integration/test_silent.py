"""Writes that raise no event: they arrive all the same, a little later."""
import pytest

from lib.compare import differences
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

SILENT_SECONDS = 15.0 # INFO is asked once a second, then the streams are fetched at a modest rate


@pytest.fixture
def pair(bed):
    def fill(primary):
        with primary.client() as client:
            for i in range(200):
                client.xadd("stream", {"n": i}, id=f"{i + 1}-1")
            client.xgroup_create("stream", "group", id="0")
            client.xgroup_createconsumer("stream", "group", "alice")
            client.xgroup_createconsumer("stream", "group", "bob")
    pair = bed.pair(fill=fill)
    pair.wait_same()
    return pair


def wait_groups(pair):
    """Groups, consumers and pending entries equal."""
    wait_for(lambda: not differences(pair.primary, pair.replica),
             lambda: "\n".join(differences(pair.primary, pair.replica)), SILENT_SECONDS, 0.2)


def pending(server):
    return server.command("XPENDING", "stream", "group")["pending"]


def test_xreadgroup_by_a_known_consumer(pair):
    with pair.primary.client() as client:
        client.xreadgroup("group", "alice", {"stream": ">"}, count=20)
    wait_groups(pair)
    assert pending(pair.replica) == 20


def test_xreadgroup_by_a_new_consumer(pair):
    with pair.primary.client() as client:
        client.xreadgroup("group", "carol", {"stream": ">"}, count=20)
    wait_groups(pair)
    assert pending(pair.replica) == 20


def test_xreadgroup_noack_moves_the_group(pair):
    with pair.primary.client() as client:
        client.xreadgroup("group", "alice", {"stream": ">"}, count=50, noack=True)
    wait_groups(pair)


@pytest.mark.quick
def test_xack(pair):
    with pair.primary.client() as client:
        client.xreadgroup("group", "alice", {"stream": ">"}, count=20)
        wait_groups(pair)
        client.xack("stream", "group", *(f"{i}-1" for i in range(1, 11)))
    wait_groups(pair)
    assert pending(pair.replica) == 10


def test_xclaim(pair):
    with pair.primary.client() as client:
        client.xreadgroup("group", "alice", {"stream": ">"}, count=20)
        wait_groups(pair)
        client.xclaim("stream", "group", "bob", 0, ["1-1", "2-1", "3-1"])
    wait_groups(pair)


def test_xautoclaim(pair):
    with pair.primary.client() as client:
        client.xreadgroup("group", "alice", {"stream": ">"}, count=20)
        wait_groups(pair)
        client.xautoclaim("stream", "group", "bob", 0, "0-0", count=7)
    wait_groups(pair)


def test_silent_writes_inside_multi_and_lua(pair):
    with pair.primary.client() as client:
        with client.pipeline(transaction=True) as pipe:
            pipe.xreadgroup("group", "alice", {"stream": ">"}, count=5)
            pipe.xack("stream", "group", "1-1")
            pipe.execute()
        client.eval("redis.call('XREADGROUP', 'GROUP', 'group', 'bob', 'COUNT', 3, 'STREAMS', "
                    "KEYS[1], '>')", 1, "stream")
    wait_groups(pair)
    assert pending(pair.replica) == 7


def test_a_stream_made_while_attached_is_watched_too(pair):
    with pair.primary.client(10) as client:
        client.xadd("late", {"a": 1}, id="1-1")
        client.xgroup_create("late", "g", id="0")
        client.xgroup_createconsumer("late", "g", "c")
        wait_groups(pair)
        client.xreadgroup("g", "c", {"late": ">"})
        wait_groups(pair)
        client.xack("late", "g", "1-1")
    wait_groups(pair)


def test_pfcount_rewrites_its_cache(pair):
    with pair.primary.client() as client:
        client.pfadd("hll", *range(5000))
        pair.settle()
        client.pfcount("hll")
    pair.wait_equal(SILENT_SECONDS)


def test_statistics_reset_hides_nothing(pair):
    """CONFIG RESETSTAT turns the counters back that silent writes are found by."""
    with pair.primary.client() as client:
        client.xreadgroup("group", "alice", {"stream": ">"}, count=20)
        wait_groups(pair)
        client.xack("stream", "group", "1-1")
        client.config_resetstat()
        client.xack("stream", "group", "2-1")
    wait_groups(pair)
