"""Wherever an event may have been missed, a reconcile follows, and the status counts it."""
import signal
import time

import pytest

from lib import data
from lib.daemon import free_port
from lib.process import wait_for

pytestmark = pytest.mark.sanitize


def flags(server):
    return server.command("CONFIG", "GET", "notify-keyspace-events")[1].decode()


def clients(server):
    with server.client() as client:
        return client.client_list()


def events_connection(server):
    """The proxy's, over either feed."""
    found = [entry for entry in clients(server) if entry["name"] == "keywake-proxy-events"]
    assert len(found) == 1, clients(server)
    return found[0]


def counter(pair, name):
    return pair.proxy.status()[name]


def wait_counter(pair, name, above, timeout=30.0):
    pair.proxy.wait_status(lambda status: status[name] > above, f"{name} stays at {above}", timeout)


@pytest.mark.notifications
def test_flags_are_merged_with_the_users(bed):
    pair = bed.pair(primary_config={"notify-keyspace-events": "Kx"})
    assert {"K", "E"} <= set(flags(pair.primary)), flags(pair.primary)
    assert "A" in flags(pair.primary)
    pair.settle()


@pytest.mark.notifications
def test_reads_of_missing_keys_cost_no_fetch(bed):
    """With flag m each raises an event, also our own DUMP of a key that is gone: one would be for ever."""
    pair = bed.pair(fill=data.fill, primary_config={"notify-keyspace-events": "Em"},
                    proxy={"source__audit_keys_per_second": 0})
    with pair.primary.client() as client:
        client.delete("list:1", "hash:1")
        pair.settle()
        before = counter(pair, "fetches")
        for number in range(1000):
            client.get(f"missing {number}")
        client.set("there", 1)
    pair.settle()
    assert counter(pair, "fetches") - before <= 5
    assert "m" in flags(pair.primary)


@pytest.mark.parametrize("left", ["", "K$", "Ex"])
@pytest.mark.notifications
def test_notifications_switched_off_behind_our_back(bed, left):
    pair = bed.pair(fill=data.fill)
    before = counter(pair, "reconciles_flags")
    pair.primary.command("CONFIG", "SET", "notify-keyspace-events", left)
    with pair.primary.client() as client:
        client.set("unseen", 1)
        client.delete("list:1")
        client.hset("hash:1", "more", 1)
    wait_counter(pair, "reconciles_flags", before)
    pair.wait_same()
    assert {"A", "E"} <= set(flags(pair.primary)), flags(pair.primary)
    with pair.primary.client() as client:
        client.set("seen again", 1)
    pair.settle()


@pytest.mark.parametrize("left", ["", "Kx"])
@pytest.mark.notifications
def test_notifications_taken_away_and_put_back_between_two_looks(bed, left):
    pair = bed.pair(fill=data.fill)
    before = counter(pair, "reconciles_flags")
    # In one piece, which the server executes before it hears anybody else: nobody looks in between.
    with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
        pipe.config_set("notify-keyspace-events", left)
        pipe.set("unseen", 1)
        pipe.delete("list:1")
        pipe.hset("hash:1", "more", 1)
        pipe.config_set("notify-keyspace-events", "AE")
        pipe.execute()
    wait_counter(pair, "reconciles_flags", before)
    pair.wait_same()
    pair.settle()


def test_settings_of_others_do_not_cost_reconciles(bed):
    """One CONFIG SET cannot take flags away and put them back; what reads is not counted at all."""
    pair = bed.pair(fill=data.fill)
    before = counter(pair, "reconciles")
    with pair.primary.client() as client:
        for samples in (6, 7):
            client.config_set("maxmemory-samples", samples)
            for _ in range(20):
                client.config_get("*")
            time.sleep(2.5)
    assert counter(pair, "reconciles") == before
    pair.settle()


@pytest.mark.quick
@pytest.mark.core
@pytest.mark.notifications
def test_events_connection_killed(bed):
    """The stream goes on where it was killed: test_stream.py."""
    pair = bed.pair(fill=data.fill)
    for turn in range(3):
        before = counter(pair, "reconciles_connection")
        with pair.primary.client() as client, client.pipeline(transaction=True) as pipe:
            pipe.client_kill_filter(_id=events_connection(pair.primary)["id"])
            pipe.set("unseen", turn)
            pipe.delete(f"raw:{[1, 20, 21][turn]}")
            pipe.execute()
        wait_counter(pair, "reconciles_connection", before)
        pair.settle()
        wait_for(lambda: [e for e in clients(pair.primary) if int(e["psub"]) > 0], "not subscribed")


def test_data_connection_killed(bed):
    pair = bed.pair(fill=data.fill)
    own = events_connection(pair.primary)
    for entry in clients(pair.primary):
        if entry["id"] != own["id"] and entry["name"].startswith("keywake"):
            pair.primary.command("CLIENT", "KILL", "ID", entry["id"])
    with pair.primary.client() as client:
        client.set("after", 1)
    pair.settle()


@pytest.mark.notifications
def test_output_buffer_overrun(bed):
    """The proxy does not read for a while: the server drops its events and the connection."""
    pair = bed.pair(primary_config={"client-output-buffer-limit": "pubsub 65536 0 0"})
    data.fill_plain(pair.primary, 2000)
    pair.settle()
    before = counter(pair, "reconciles_connection")
    pair.proxy.signal(signal.SIGSTOP)
    data.fill_plain(pair.primary, 60_000, prefix="burst:")
    with pair.primary.client() as client:
        client.delete(*[f"key:{i}" for i in range(0, 2000, 2)])
        assert not [entry for entry in client.client_list() if int(entry["psub"]) > 0]
    pair.proxy.signal(signal.SIGCONT)
    wait_counter(pair, "reconciles_connection", before)
    pair.settle()
    with pair.replica.client() as client:
        assert client.dbsize() == 61_000


def test_a_primary_that_stands_still(bed):
    pair = bed.pair()
    data.fill_plain(pair.primary, 1000)
    pair.settle()
    pair.primary.command("DEBUG", "SLEEP", "2")
    with pair.primary.client() as client:
        client.set("after", 1)
    pair.settle()


def test_primary_becomes_a_replica_of_another(bed):
    """A full resync replaces the keyspace without one event."""
    pair = bed.pair(fill=data.fill, primary_config={"repl-diskless-sync-delay": "0"})
    pair.settle()
    before = counter(pair, "reconciles")
    other = bed.server("other", repl_diskless_sync_delay="0")
    data.fill_plain(other, 500)
    # A replica needs a TCP address of its primary.
    port = free_port()
    other.command("CONFIG", "SET", "port", port)
    pair.primary.command("REPLICAOF", "127.0.0.1", port)
    wait_for(lambda: pair.primary.command("DBSIZE") == 500, "no full resync", 30)
    wait_counter(pair, "reconciles", before)
    pair.wait_equal()
    pair.primary.command("REPLICAOF", "NO", "ONE")
    with pair.primary.client() as client:
        client.set("own again", 1)
    pair.wait_equal()
    pair.settle()


def test_the_operator_may_doubt_too(bed):
    pair = bed.pair(fill=data.fill)
    before = pair.proxy.status()
    pair.proxy.ctl_ok("reconcile")
    pair.proxy.wait_status(lambda status: status["reconciles_asked"] > before["reconciles_asked"]
                           and status["state"] == "live", "no reconcile was made")
    after = pair.proxy.status()
    assert after["version"] == before["version"], "a reconcile of equal data published something"
    pair.settle()


def test_the_audit_mends_what_nobody_saw(bed):
    """DEBUG POPULATE over existing keys raises nothing at all."""
    pair = bed.pair(proxy={"source__audit_keys_per_second": 5000})
    pair.primary.command("DEBUG", "POPULATE", 1000, "key", 100)
    pair.wait_equal(30)


@pytest.mark.quick
def test_table_full_and_back(bed):
    pair = bed.pair(proxy={"table__max_bytes": "16MiB", "table__segment_bytes": "256KiB"})
    data.fill_plain(pair.primary, 400, length=100_000)
    status = pair.proxy.wait_state("table_full")
    assert "max_bytes" in status["reason"], status
    pair.agent.wait_state("lagging", reason="full")
    with pair.primary.client() as client: # deletes still go through
        client.delete(*[f"key:{i}" for i in range(300)])
    pair.proxy.wait_state("live")
    pair.settle()
    data.fill_plain(pair.primary, 200, length=100_000, prefix="more:")
    pair.proxy.wait_state("table_full")
    pair.proxy.ctl_ok("config", "set", "table.max_bytes", "64MiB")
    pair.proxy.wait_state("live")
    pair.settle()


def test_warm_is_not_said_while_keys_wait_for_room(bed):
    """Room appears: only when the last key that waited has arrived is all well again."""
    pair = bed.pair(proxy={"table__max_bytes": "16MiB", "table__segment_bytes": "256KiB"})
    data.fill_plain(pair.primary, 400, length=100_000)
    pair.agent.wait_state("lagging", reason="full")
    survivors = [f"key:{i}" for i in range(300, 400)]
    with pair.primary.client() as left, pair.replica.client() as right:
        left.delete(*[f"key:{i}" for i in range(300)])
        end = time.monotonic() + 3
        while time.monotonic() < end:
            if pair.agent.status()["state"] == "warm":
                assert right.exists(*survivors) == len(survivors), "warm with keys missing"
    pair.settle()


def test_limits_on_the_primary_are_kept(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 6000)
    start = time.monotonic() # it may have begun before it first answers
    proxy = bed.proxy(primary, source__keys_per_second=2000)
    proxy.wait_live()
    seconds = time.monotonic() - start
    assert seconds > 1.8, f"6000 keys at 2000 a second in {seconds:.2f} s"
    proxy.ctl_ok("config", "set", "source.keys_per_second", "0")
    assert proxy.ctl_ok("config", "get", "source.keys_per_second") in (0, {"value": 0},
                                                                      {"source.keys_per_second": 0})
