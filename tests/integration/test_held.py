"""No mass deletion by inference: what the primary merely lacks stays, until somebody approves."""
import contextlib
import signal
import time

import pytest
import redis

from lib import data
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 5000


def fill(server, count=KEYS, prefix="key:"):
    data.fill_plain(server, count, prefix=prefix)


def backup(server):
    """What RESTORE needs of every key."""
    with server.client() as client:
        names = client.keys()
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.dump(name)
            return dict(zip(names, pipe.execute()))


def restore(server, payloads):
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for name, payload in payloads.items():
            pipe.restore(name, 0, payload)
        pipe.execute()


def size(server):
    with server.client() as client:
        return client.dbsize()


def come_back_empty(pair):
    pair.primary.kill()
    pair.primary.restart(keep_data=False)


def wait_held(pair):
    status = pair.proxy.wait_state("held", reason="keywakectl approve")
    assert (status["missing_keys"], status["missing_of"]) == (KEYS, KEYS), status
    return status


def assert_nothing_is_deleted(pair, seconds=2.0):
    """For so long: the replica is whole, and nobody says that it is warm."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert pair.proxy.status()["state"] == "held"
        assert size(pair.replica) == KEYS
        time.sleep(0.1)
        assert pair.agent.status()["state"] != "warm"
    pair.agent.wait_state("lagging", reason="holds") # on a busy machine it is stalled for a moment
    done = pair.agent.ctl("wait", "warm", "--timeout", 1)
    assert done.returncode == 3, done


@pytest.mark.quick
def test_a_primary_that_came_back_empty_empties_no_replica(bed):
    pair = bed.pair(fill=fill)
    come_back_empty(pair)
    wait_held(pair)
    pair.agent.wait_state("lagging", reason="holds")
    assert_nothing_is_deleted(pair)
    assert "keywake_proxy_held 1" in pair.proxy.rpc("metrics")["text"]
    assert f"keywake_proxy_missing_keys {KEYS}" in pair.proxy.rpc("metrics")["text"]
    with pair.primary.client() as client: # what is told goes on
        client.set("alone", 1)
    with pair.replica.client() as client:
        wait_for(lambda: client.get("alone") == b"1", "a change that was told does not arrive")
        assert client.dbsize() == KEYS + 1


def test_a_flush_that_the_server_counts_when_it_is_over_passes(bed, need_server):
    """Redis 8 tells a FLUSHDB when it begins, frees the keys in another thread, and counts it then."""
    need_server("redis-trixie")
    primary, replica = bed.server("primary", "redis-trixie"), bed.server("replica", "redis-trixie")
    data.fill_plain(primary, 150_000, prefix="key:")
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica)
    agent.wait_warm(60)
    with primary.client() as client, primary.client() as other:
        flush = client.connection_pool.get_connection("FLUSHDB")
        flush.send_command("FLUSHDB")
        other.set("after", 1)
        assert flush.read_response() in (b"OK", True)
        client.connection_pool.release(flush)
    with replica.client() as client:
        wait_for(lambda: client.dbsize() == 1 and client.get("after") == b"1",
                 "a flush that was counted late is held back")
    agent.wait_warm(60)
    assert proxy.status()["approvals"] == 0


def test_approve_lets_them_go_and_counts_once(bed):
    pair = bed.pair(fill=fill)
    done = pair.proxy.ctl("approve")
    assert done.returncode == 2 and "nothing waits" in done.stderr, done
    come_back_empty(pair)
    wait_held(pair)
    assert str(KEYS) in pair.proxy.ctl_ok("approve")["approved"]
    pair.settle()
    assert size(pair.replica) == 0
    assert "approved on the control socket" in pair.proxy.output()
    assert pair.proxy.status()["approvals"] == 1
    fill(pair.primary)
    pair.settle()
    come_back_empty(pair)
    wait_held(pair)
    assert_nothing_is_deleted(pair)


def test_keys_that_come_back_release_it(bed):
    pair = bed.pair(fill=fill)
    payloads = backup(pair.primary)
    come_back_empty(pair)
    wait_held(pair)
    restore(pair.primary, payloads)
    pair.proxy.wait_live()
    pair.settle()
    assert size(pair.replica) == KEYS


def test_a_primary_that_comes_back_with_its_data_releases_it(bed):
    pair = bed.pair(fill=fill)
    pair.primary.command("SAVE")
    with pair.primary.client() as client:
        client.set("lost with the crash", 1)
    pair.settle()
    pair.primary.kill()
    rdb = pair.primary.directory + "/dump.rdb"
    with open(rdb, "rb") as stream:
        kept = stream.read()
    pair.primary.restart(keep_data=False)
    pair.proxy.wait_state("held")
    pair.primary.kill()
    with open(rdb, "wb") as stream:
        stream.write(kept)
    pair.primary.start()
    pair.proxy.wait_live()
    pair.settle()
    assert size(pair.replica) == KEYS


@pytest.mark.parametrize("command", [("FLUSHALL",), ("FLUSHDB",), ("FLUSHALL", "ASYNC")])
def test_a_flush_that_is_told_passes_at_once(bed, command, any_server):
    """Also where DEBUG could have replaced all data, and where the server counts the call later (Redis 8)."""
    pair = bed.pair(any_server, any_server, fill=fill)
    pair.primary.command("DEBUG", "SLEEP", 0)
    pair.primary.command(*command)
    pair.settle()
    assert size(pair.replica) == 0
    assert "held:" not in pair.proxy.output()


def test_a_flush_and_other_keys_at_once_pass(bed):
    pair = bed.pair(fill=fill)
    with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
        pipe.flushdb()
        for number in range(KEYS):
            pipe.set(f"other:{number}", number)
        pipe.execute()
    pair.settle()
    assert size(pair.replica) == KEYS
    assert "held:" not in pair.proxy.output()


def disconnected(pair, *commands):
    """These run while the proxy hears nothing, on the same run of the primary."""
    pair.proxy.signal(signal.SIGSTOP)
    pair.primary.command("CLIENT", "KILL", "TYPE", "pubsub")
    pair.primary.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    for command in commands:
        with contextlib.suppress(redis.exceptions.ResponseError): # one is meant to be refused
            pair.primary.command(*command)
    pair.proxy.signal(signal.SIGCONT)


@pytest.mark.parametrize("command", [("FLUSHALL",), ("FLUSHDB",), ("SWAPDB", "0", "1")])
@pytest.mark.notifications
def test_a_flush_while_the_proxy_was_disconnected_passes(bed, command):
    """Only notifications miss it: the stream goes on where it was cut, and tells it without a reconcile."""
    pair = bed.pair(fill=fill)
    before = pair.proxy.status()["reconciles_connection"]
    disconnected(pair, command)
    pair.proxy.wait_status(lambda status: status["reconciles_connection"] > before, "no reconcile")
    pair.settle()
    assert size(pair.replica) == 0
    assert "held:" not in pair.proxy.output()


@pytest.mark.notifications
def test_a_flush_that_failed_explains_nothing(bed):
    """Only notifications miss these DELs: the stream goes on where it was cut, and tells them."""
    pair = bed.pair(fill=fill)
    disconnected(pair, ("FLUSHALL", "NONSENSE"), ("DEL", *(f"key:{i}" for i in range(KEYS))))
    wait_held(pair)


def test_a_flush_of_the_empty_primary_is_an_approval(bed, any_server):
    pair = bed.pair(any_server, any_server, fill=fill)
    come_back_empty(pair)
    wait_held(pair)
    pair.primary.command("FLUSHALL")
    pair.settle()
    assert size(pair.replica) == 0


def test_a_flush_in_the_midst_of_an_audit_is_no_loss(bed):
    """The audit's scan finds the keys gone before the flush is told."""
    primary = bed.server("primary")
    primary.command("SET", "stays", 1)
    proxy = bed.proxy(primary, source__audit_keys_per_second=20_000)
    for _ in range(6):
        data.fill_plain(primary, 30_000, database=9)
        proxy.wait_status(lambda status: status["keys"] == 30_001, "not in the table")
        audits = proxy.status()["reconciles_audit"]
        proxy.wait_status(lambda status: status["reconciles_audit"] > audits, "no audit")
        primary.command("FLUSHDB", db=9)
        proxy.wait_status(lambda status: status["keys"] == 1 and status["state"] == "live", "the flush is not seen")


@pytest.mark.parametrize("left", [False, True])
def test_a_flush_of_another_database_approves_nothing(bed, left):
    pair = bed.pair(fill=fill)
    come_back_empty(pair)
    wait_held(pair)
    if left: # the database is not quite empty
        pair.primary.command("SET", "key:1", "back")
    for _ in range(3): # whether the key of the other database was in the table or not
        pair.primary.command("SET", "other", 1, db=5)
        pair.primary.command("FLUSHDB", db=5)
        assert_nothing_is_deleted(pair, 1)


def test_few_keys_go_without_approval(bed):
    pair = bed.pair(fill=lambda server: fill(server, 999))
    come_back_empty(pair)
    pair.settle()
    assert size(pair.replica) == 0


def test_a_cache_may_lose_all_its_keys(bed):
    pair = bed.pair(fill=fill, proxy={"source__max_missing": 1})
    come_back_empty(pair)
    pair.settle()
    assert size(pair.replica) == 0


def test_the_share_can_be_changed_while_it_is_held(bed):
    pair = bed.pair(fill=fill)
    come_back_empty(pair)
    wait_held(pair)
    pair.proxy.ctl_ok("config", "set", "source.max_missing", "1")
    pair.settle()
    assert size(pair.replica) == 0


@pytest.mark.notifications
def test_keys_that_expired_meanwhile_are_not_missing(bed):
    """Only notifications miss that they expired: the stream has a DEL for each."""
    pair = bed.pair(fill=fill)
    with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(KEYS):
            pipe.set(f"soon:{number}", number, px=8000)
        pipe.execute()
    pair.agent.wait_warm() # not compared: on a slow machine they expire meanwhile
    before = pair.proxy.status()["reconciles_connection"]
    pair.proxy.signal(signal.SIGSTOP)
    pair.primary.command("CLIENT", "KILL", "TYPE", "pubsub")
    wait_for(lambda: size(pair.primary) == KEYS, "the keys do not expire", 30)
    pair.proxy.signal(signal.SIGCONT)
    pair.proxy.wait_status(lambda status: status["reconciles_connection"] > before, "no reconcile")
    pair.settle()
    assert "held:" not in pair.proxy.output()
