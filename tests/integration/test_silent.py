"""Writes that raise no event: they arrive all the same, a little later."""
import time

import pytest

from lib.compare import differences
from lib.data import fill_plain
from lib.process import wait_for

pytestmark = [pytest.mark.sanitize, pytest.mark.feeds]

SILENT_SECONDS = 30.0 # INFO is asked once a second, then the streams are fetched at a modest rate


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


@pytest.fixture(params=["commands", "replica", "hybrid"])
def vectors(bed, need_server, request):
    """Redis 8.0.6 with vector sets in two databases, and some thousand other keys."""
    need_server("redis-sid")

    def fill(primary):
        fill_plain(primary, 5000)
        for database in (0, 3):
            for i in range(20):
                primary.command("VADD", "vectors", "VALUES", 3, i, 1, 2, f"e{i}", db=database)
    return bed.pair("redis-sid", "redis-sid", fill=fill,
                    agent={"apply__mode": request.param, "apply__consent": True})


def element(server, name, db=0, key="vectors"):
    return (server.command("VEMB", key, name, db=db), server.command("VGETATTR", key, name, db=db),
            server.command("VCARD", key, db=db))


def same_element(pair, name, **where):
    return element(pair.primary, name, **where) == element(pair.replica, name, **where)


def test_vector_sets_are_replicated(vectors):
    """They raise no event at all: VADD, VREM and VSETATTR, on keys that the table knows."""
    assert same_element(vectors, "e5") and same_element(vectors, "e5", db=3)
    vectors.primary.command("VADD", "vectors", "VALUES", 3, 9, 9, 1, "e5")
    vectors.primary.command("VSETATTR", "vectors", "e6", '{"colour":"red"}', db=3)
    vectors.primary.command("VREM", "vectors", "e7")
    for name, db in (("e5", 0), ("e6", 3), ("e7", 0)):
        wait_for(lambda: same_element(vectors, name, db=db), f"{name} is not the same", SILENT_SECONDS)
    assert vectors.agent.status()["quarantined"] == 0


def test_a_new_vector_set_is_found(vectors):
    vectors.agent.wait_warm()
    vectors.primary.command("VADD", "new", "VALUES", 3, 1, 2, 3, "first", db=7)
    wait_for(lambda: same_element(vectors, "first", db=7, key="new"), "it did not come", SILENT_SECONDS)
    assert vectors.proxy.status()["reconciles"] == 0
    vectors.primary.command("VREM", "new", "first", db=7) # the last element: the key is gone
    wait_for(lambda: not vectors.replica.command("EXISTS", "new", db=7), "it stayed", SILENT_SECONDS)


def test_the_audit_leaves_a_vector_set_alone(vectors):
    """A server writes one that was restored in another order: it would be mended for ever."""
    vectors.agent.ctl_ok("config", "set", "apply.audit_keys_per_second", 100_000)
    rounds = vectors.agent.status()["audit_rounds"]
    vectors.agent.wait_status(lambda s: s["audit_rounds"] > rounds + 1, "no round of the audit is over")
    assert vectors.agent.status()["audit_found_different"] == 0
    vectors.agent.wait_warm()


def values(server, db):
    with server.client(db) as client:
        return [client.get(f"key:{i}") for i in range(50)]


def test_wait_warm_covers_swapdb(bed):
    """It raises no event, and the databases have the same keys: only a look can tell."""
    pair = bed.pair(fill=lambda primary: [fill_plain(primary, 2000, database, seed=database + 1)
                                          for database in (0, 1)])
    for _ in range(4):
        pair.primary.command("SWAPDB", 0, 1)
        pair.agent.wait_warm()
        for db in (0, 1):
            assert values(pair.replica, db) == values(pair.primary, db)


def test_wait_warm_covers_silent_commands(pair):
    with pair.primary.client() as client:
        for i in range(8):
            client.xreadgroup("group", "alice", {"stream": ">"}, count=5)
            pair.agent.wait_warm()
            assert pending(pair.replica) == 5 * (i + 1)


def test_wait_live_covers_silent_commands(pair):
    with pair.primary.client() as client:
        for _ in range(4):
            before = pair.proxy.status()["version"]
            client.xreadgroup("group", "alice", {"stream": ">"}, count=5)
            pair.proxy.ctl_ok("wait", "live", "--timeout", 60)
            assert pair.proxy.status()["version"] > before


def test_wait_warm_covers_a_new_vector_set(vectors):
    for i in range(5):
        vectors.primary.command("VADD", f"new {i}", "VALUES", 3, 1, 2, 3, "first")
        vectors.agent.wait_warm()
        assert same_element(vectors, "first", key=f"new {i}")


def looks(server):
    """How often anybody has asked INFO commandstats, roughly: calls of INFO."""
    return int(server.command("INFO", "commandstats")["cmdstat_info"]["calls"])


def test_barriers_that_nobody_asked_for_cost_no_look(pair):
    """One look a second of four INFOs; one for each `wait warm`."""
    pair.agent.wait_warm()
    before, begun = looks(pair.primary), time.monotonic()
    version = pair.proxy.status()["fresh_us"]
    pair.proxy.wait_status(lambda s: s["fresh_us"] > version + 3_000_000, "no barriers passed")
    seconds = time.monotonic() - begun
    assert looks(pair.primary) - before <= 4 * (seconds + 2) + 10 * seconds, seconds
