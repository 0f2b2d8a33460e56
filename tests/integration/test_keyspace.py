"""Commands that create, move and remove keys; each ends with both servers equal."""
import time

import pytest

from lib import compare, data
from lib.process import wait_for
from lib.server import FEED

pytestmark = [pytest.mark.sanitize, pytest.mark.feeds]

FAR_MS = 4102444800123 # 2100-01-01


@pytest.fixture
def pair(bed):
    return bed.pair()


def expiry_ms(server, key, database=0):
    return server.command("PEXPIRETIME", key, db=database)


def keys(server, database=0):
    with server.client(database) as client:
        return sorted(client.keys())


@pytest.mark.quick
@pytest.mark.core
def test_expiry_times_are_absolute(pair):
    with pair.primary.client() as client:
        client.set("in hours", 1, ex=7200)
        client.set("in a century", 1)
        client.pexpireat("in a century", FAR_MS)
        client.hset("hash", "f", 1)
        client.expire("hash", 5000)
    pair.settle()
    for key in ("in hours", "in a century", "hash"):
        assert expiry_ms(pair.primary, key) == expiry_ms(pair.replica, key) > 0


def test_an_expiry_changed_alone_is_seen(pair):
    with pair.primary.client() as client:
        client.set("key", 1, ex=5000)
        pair.settle()
        client.pexpireat("key", FAR_MS)
        pair.settle()
        assert expiry_ms(pair.replica, "key") == FAR_MS
        client.expire("key", 9999, xx=True)
    pair.settle()
    assert expiry_ms(pair.replica, "key") == expiry_ms(pair.primary, "key")


def test_persist_removes_the_expiry(pair):
    with pair.primary.client() as client:
        client.set("key", 1, ex=5000)
        pair.settle()
        client.persist("key")
    pair.settle()
    assert expiry_ms(pair.replica, "key") == -1


def test_an_expired_key_goes_away_on_the_replica(pair):
    with pair.primary.client() as client:
        client.set("short", 1, px=300)
        client.set("stays", 1)
        pair.agent.wait_warm()
    wait_for(lambda: keys(pair.replica) == [b"stays"], "the expired key stays on the replica")
    pair.wait_equal() # KEYS hides what is expired and not yet removed; the digest does not


def test_a_key_that_outlives_its_first_expiry(pair):
    """The expiry is moved away just before it passes: the replica must keep the key."""
    with pair.primary.client() as client:
        for i in range(50):
            client.set(f"key {i}", 1, px=250)
        pair.agent.wait_warm()
        for i in range(50):
            client.persist(f"key {i}")
        alive = client.dbsize()
    pair.settle()
    time.sleep(0.4)
    pair.wait_equal()
    with pair.replica.client() as client:
        assert client.dbsize() == alive


def test_expire_in_the_past_removes_the_key(pair):
    with pair.primary.client() as client:
        client.mset({"a": 1, "b": 1, "c": 1})
        pair.settle()
        client.expire("a", -1)
        client.pexpireat("b", 1)
    pair.settle()
    assert keys(pair.replica) == [b"c"]


def test_evicted_keys_go_away_on_the_replica(bed):
    pair = bed.pair(primary_config={"maxmemory": "6mb", "maxmemory-policy": "allkeys-lru",
                                    "repl-backlog-size": "64kb"}) # which counts, where the stream is followed
    with pair.primary.client() as client:
        for i in range(3000):
            client.set(f"key:{i}", b"x" * 4000)
        assert client.info("stats")["evicted_keys"] > 500
        client.config_set("maxmemory", 0) # else our own questions make it evict further
    pair.settle()
    assert keys(pair.primary) == keys(pair.replica)


@pytest.mark.quick
def test_rename(pair):
    with pair.primary.client() as client:
        client.mset({"a": 1, "b": 2, "c": 3, "d": 4})
        pair.settle()
        client.rename("a", "new")
        client.rename("b", "c")
        client.renamenx("d", "new")
    pair.settle()
    assert keys(pair.replica) == [b"c", b"d", b"new"]


def test_move_between_databases(pair):
    with pair.primary.client() as client:
        client.set("key", "value", ex=5000)
        client.move("key", 10)
    pair.settle()
    assert keys(pair.replica, 0) == [] and keys(pair.replica, 10) == [b"key"]
    assert expiry_ms(pair.replica, "key", 10) == expiry_ms(pair.primary, "key", 10)


def test_copy_also_between_databases(pair):
    with pair.primary.client() as client:
        client.rpush("list", *range(200))
        client.copy("list", "copy")
        client.copy("list", "list", destination_db=9)
        client.set("other", 1)
        client.copy("other", "copy", replace=True)
    pair.settle()
    assert keys(pair.replica, 9) == [b"list"]


def test_restore(pair):
    with pair.primary.client() as client:
        client.zadd("zset", {"a": 1, "b": 2})
        payload = client.dump("zset")
        client.restore("restored", 0, payload)
        client.restore("with ttl", FAR_MS, payload, absttl=True)
        client.restore("zset", 0, payload, replace=True)
    pair.settle()
    assert expiry_ms(pair.replica, "with ttl") == FAR_MS


def test_getex_and_getdel(pair):
    with pair.primary.client() as client:
        client.mset({"a": 1, "b": 1, "c": 1})
        client.getex("a", ex=5000)
        client.set("c", 1, ex=4000)
        client.getex("c", persist=True)
        client.getdel("b")
    pair.settle()
    assert expiry_ms(pair.replica, "a") > 0 and expiry_ms(pair.replica, "c") == -1
    assert keys(pair.replica) == [b"a", b"c"]


def test_store_commands(pair):
    with pair.primary.client() as client:
        client.rpush("numbers", 3, 1, 2)
        client.sort("numbers", store="sorted")
        client.sadd("s1", "a", "b")
        client.sadd("s2", "b", "c")
        client.sinterstore("inter", "s1", "s2")
        client.sunionstore("union", "s1", "s2")
        client.sdiffstore("diff", "s1", "s2")
        client.zadd("z1", {"a": 1, "b": 2})
        client.zunionstore("zunion", ["z1", "s1"])
        client.zrangestore("range", "z1", 0, 0)
        client.geoadd("geo", (13.4, 52.5, "Berlin"))
        client.geosearchstore("near", "geo", longitude=13, latitude=52, radius=200, unit="km")
        client.bitop("NOT", "inverted", "nothing")
        client.sort("missing", store="sorted 2")
    pair.settle()
    with pair.primary.client() as client: # an empty result removes the destination
        client.delete("s2")
        client.sinterstore("inter", "s1", "s2")
        client.sort("missing", store="sorted")
    pair.settle()
    assert b"inter" not in keys(pair.replica) and b"sorted" not in keys(pair.replica)


@pytest.mark.quick
@pytest.mark.core
def test_lua_and_multi(pair):
    with pair.primary.client() as client:
        client.eval("for i = 1, 100 do redis.call('SET', 'lua:' .. i, i) end; "
                    "redis.call('DEL', 'lua:7'); redis.call('SELECT', 9); "
                    "redis.call('RPUSH', 'list', 1, 2, 3)", 0)
        with client.pipeline(transaction=True) as pipe:
            pipe.set("multi", 1)
            pipe.incr("multi")
            pipe.rename("multi", "renamed")
            pipe.set("multi", "again")
            pipe.delete("lua:8")
            pipe.execute()
    pair.settle()
    assert keys(pair.replica, 9) == [b"list"]


def test_removing_the_last_element_removes_the_key(pair):
    with pair.primary.client() as client:
        client.rpush("list", 1)
        client.sadd("set", 1)
        client.zadd("zset", {"a": 1})
        client.hset("hash", "f", 1)
        client.sadd("moved from", "m")
        client.rpush("popped from", "e")
        pair.settle()
        client.lpop("list")
        client.srem("set", 1)
        client.zrem("zset", "a")
        client.hdel("hash", "f")
        client.smove("moved from", "moved to", "m")
        client.rpoplpush("popped from", "pushed to")
    pair.settle()
    assert keys(pair.replica) == [b"moved to", b"pushed to"]


def test_hash_fields_that_expire(bed, need_server):
    need_server("redis-trixie")
    pair = bed.pair("redis-trixie", "redis-trixie")
    with pair.primary.client() as client:
        client.hset("hash", mapping={"a": 1, "b": 2, "c": 3})
        client.execute_command("HPEXPIRE", "hash", 300, "FIELDS", 1, "a")
        client.execute_command("HEXPIRE", "hash", 5000, "FIELDS", 1, "b")
        client.hset("dies", "only", 1)
        client.execute_command("HPEXPIRE", "dies", 300, "FIELDS", 1, "only")
        pair.agent.wait_warm() # equal they need not be: a field may expire between two digests
        wait_for(lambda: client.execute_command("HLEN", "hash") == 2, "the field does not expire")
        client.execute_command("HPERSIST", "hash", "FIELDS", 1, "b")
    wait_for(lambda: keys(pair.replica) == [b"hash"], "the emptied hash stays on the replica")
    pair.wait_same()


@pytest.mark.parametrize("how", ["SYNC", "ASYNC"])
def test_flushdb_of_one_database(pair, how):
    for database in (0, 1, 10):
        with pair.primary.client(database) as client:
            client.mset({f"key {i}": i for i in range(100)})
    pair.settle()
    pair.primary.command("FLUSHDB", how, db=1)
    pair.wait_equal()
    assert compare.key_counts(pair.replica) == {0: 100, 10: 100}
    pair.settle()


@pytest.mark.quick
@pytest.mark.core
def test_flushall(pair):
    for database in (0, 1, 10):
        with pair.primary.client(database) as client:
            client.mset({f"key {i}": i for i in range(100)})
    pair.settle()
    pair.primary.command("FLUSHALL")
    pair.wait_equal()
    assert compare.key_counts(pair.replica) == {}
    pair.settle()


def test_writes_right_after_a_flush_survive_it(pair):
    """The flush must neither be lost nor take newer keys with it."""
    for turn in range(20):
        with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
            pipe.mset({f"old {turn}:{i}": i for i in range(50)})
            pipe.flushdb()
            pipe.mset({f"new {turn}:{i}": i for i in range(50)})
            pipe.execute()
    pair.wait_equal()
    with pair.replica.client() as client:
        assert client.dbsize() == 50
    pair.settle()


def test_flush_with_many_keys_in_flight(pair):
    data.fill_plain(pair.primary, 30_000)
    pair.primary.command("FLUSHALL")
    data.fill_plain(pair.primary, 100, prefix="after:")
    pair.wait_equal()
    with pair.replica.client() as client:
        assert client.dbsize() == 100


@pytest.mark.quick
@pytest.mark.core
def test_swapdb(pair):
    for database, word in ((0, "zero"), (9, "nine")):
        with pair.primary.client(database) as client:
            client.mset({f"{word} {i}": i for i in range(200)})
            client.set("both", word)
    pair.settle()
    pair.primary.command("SWAPDB", 0, 9)
    pair.wait_equal()
    assert pair.replica.command("GET", "both") == b"nine"
    pair.primary.command("SWAPDB", 0, 12)
    pair.wait_equal()
    assert sorted(compare.key_counts(pair.replica)) == [9, 12]
    if FEED == "notifications": # the stream tells it, and the table has both
        pair.proxy.wait_status(lambda status: status["reconciles_swapdb"] >= 1, "no swapdb counted")


def test_debug_reload(pair):
    data.fill(pair.primary, (0, 10))
    pair.settle()
    pair.primary.command("DEBUG", "RELOAD")
    with pair.primary.client() as client:
        client.set("after the reload", 1)
    pair.settle()
    pair.wait_same()


def test_a_key_written_and_removed_at_once(pair):
    """Values in flight must not overtake the removal."""
    with pair.primary.client() as client:
        for turn in range(200):
            with client.pipeline(transaction=False) as pipe:
                for i in range(20):
                    pipe.set(f"key {i}", b"v" * (turn * 7 % 3000))
                for i in range(0, 20, 2):
                    pipe.delete(f"key {i}")
                pipe.execute()
    pair.settle()
    with pair.replica.client() as client:
        assert client.dbsize() == 10


def test_types_that_change_under_one_name(pair):
    with pair.primary.client() as client:
        for turn in range(30):
            client.delete("key")
            (lambda: client.set("key", turn), lambda: client.rpush("key", turn),
             lambda: client.sadd("key", turn), lambda: client.hset("key", "f", turn),
             lambda: client.xadd("key", {"f": turn}))[turn % 5]()
    pair.settle()
