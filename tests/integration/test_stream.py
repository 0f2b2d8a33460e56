"""The replication stream: understood as each server sends it, and followed by a proxy (source.feed=stream)."""
import os
import subprocess
import threading
import time

import pytest

from lib import data
from lib.compare import wait_same
from lib.daemon import BUILD
from lib.ports import free_port
from lib.process import wait_for
from lib.server import TOP, binary_path
from lib.workload import Workload, seed_of_run

PROGRAM = os.path.join(BUILD, "tests", "unit", "stream", "test_stream_servers")
STREAM = {"source__feed": "stream"}
PASSWORD = "change-me"
WORKLOAD_SECONDS = 3


def test_the_stream_of_each_server_is_understood(any_server):
    done = subprocess.run([PROGRAM, binary_path(any_server)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def acl_words():
    with open(os.path.join(TOP, "deploy", "acl", "primary-stream.acl"), encoding="utf-8") as stream:
        return next(line for line in stream.read().splitlines() if line.startswith("user ")).split()[1:]


def streams(server):
    """The names of the connections that the server counts as replicas."""
    with server.client() as client:
        return [line["name"] for line in client.client_list(_type="replica")]


def test_a_random_workload_arrives(bed, any_server):
    """By values of the stream as well. Nothing else would mend a wrong one: neither audit runs."""
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill(primary, (0, 10)),
                    proxy={**STREAM, "source__audit_keys_per_second": 0},
                    agent={"apply__audit_keys_per_second": 0})
    status = pair.proxy.status()
    assert status["feed"]["kind"] == "stream" and status["flags"] == "not used", status
    assert streams(pair.primary) == ["keywake-proxy-events"]
    load = Workload(pair.primary, seed_of_run()).start()
    time.sleep(WORKLOAD_SECONDS)
    load.stop()
    pair.agent.wait_warm()
    pair.wait_equal(60) # some keys expire at this very moment
    pair.agent.ctl_ok("verify")
    with pair.primary.client() as client:
        assert client.config_get("notify-keyspace-events")["notify-keyspace-events"] == ""
    status = pair.proxy.status()
    print(f"{status['values']} values, {status['fetches']} fetches")
    assert status["values"] > 0 and status["reconciles"] == 0, status


def test_whole_values_are_not_fetched(bed, any_server):
    """Once the first scan is over: each kind of command that says the whole value."""
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill_plain(primary, 100),
                    proxy={**STREAM, "source__audit_keys_per_second": 0})
    with pair.primary.client() as client:
        client.set("key:0", "the first value makes the proxy order both connections")
        pair.settle()
        before = pair.proxy.status()
        for i in range(50):
            client.set(f"key:{i}", i)
            client.set(f"new:{i}", "x" * i * 20, ex=5000)
            client.mset({f"pair:{i}": 1, f"other:{i}": b"\0\xff"})
            client.getset(f"key:{i}", "again")
            client.psetex(f"old:{i}", 10_000_000, "v")
            client.expire(f"key:{i}", 1000)
            client.persist(f"new:{i}")
            client.getdel(f"pair:{i}")
            client.delete(f"other:{i}")
            with client.pipeline(transaction=True) as pipe:
                pipe.set("both:1", i).set("both:2", i)
                pipe.execute()
    pair.wait_equal()
    status = pair.proxy.status()
    assert status["values"] >= before["values"] + 50 * 12, status
    assert status["fetches"] == before["fetches"], (before, status)


def test_a_flush_beside_writers_costs_no_scan(bed, any_server):
    """Its database has keys again at once. Replicas lose the old ones, and have the new ones."""
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill_plain(primary, 1000),
                    proxy={**STREAM, "source__audit_keys_per_second": 0})
    with pair.primary.client() as client:
        client.set("key:0", "the first value makes the proxy order both connections")
        pair.settle()
        for turn, flush in enumerate(("FLUSHDB", "FLUSHALL", "FLUSHDB") * 3):
            with client.pipeline(transaction=turn % 2) as pipe:
                for i in range(500):
                    pipe.set(f"before:{i}", turn)
                pipe.execute_command(flush)
                for i in range(50):
                    pipe.set(f"after:{turn}:{i}", turn)
                pipe.execute()
            pair.settle()
            assert pair.replica.command("DBSIZE") == 50
    pair.wait_equal()
    assert pair.proxy.status()["reconciles"] == 0, pair.proxy.status()


def test_flushes_without_an_end_hold_no_barrier_up(bed):
    """A client fills and flushes a database in a loop, beside a large one. Barriers pass meanwhile."""
    keys, stop = 300_000, threading.Event()
    pair = bed.pair(fill=lambda primary: primary.command("DEBUG", "POPULATE", keys, "key", 10),
                    proxy={**STREAM, "source__audit_keys_per_second": 0})

    def flush():
        with pair.primary.client(9) as client, client.pipeline(transaction=False) as pipe:
            while not stop.is_set():
                for _ in range(100):
                    pipe.set("x", 1).flushdb()
                pipe.execute()

    flushing = threading.Thread(target=flush)
    flushing.start()
    try:
        time.sleep(1) # what may be walked at once is spent
        for turn in range(10):
            pair.primary.command("SET", "turn", turn)
            pair.agent.wait_warm(10)
            assert pair.replica.command("GET", "turn") == str(turn).encode()
    finally:
        stop.set()
        flushing.join()
    pair.wait_equal()


def test_databases_that_are_swapped_cost_no_scan(bed, any_server):
    """All types, also in one transaction with writes. The count of SWAPDB in INFO adds no doubt later."""
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill(primary, (0, 10)),
                    proxy={**STREAM, "source__audit_keys_per_second": 0, "source__watch_interval_ms": 200})
    with pair.primary.client() as client:
        client.set("first", "the first value makes the proxy order both connections")
        pair.settle()
        for turn, other in enumerate((10, 3, 10, 15)):
            with client.pipeline(transaction=turn % 2) as pipe:
                pipe.execute_command("SWAPDB", 0, other)
                pipe.set("turn", turn).set(f"only:{turn}", turn)
                pipe.execute()
            pair.settle()
            assert pair.replica.command("GET", "turn") == str(turn).encode()
    pair.wait_equal()
    time.sleep(1)
    assert pair.proxy.status()["reconciles"] == 0, pair.proxy.status()


def test_what_was_missed_in_the_backlog_costs_no_scan(bed, any_server):
    """The stream is cut while keys change, again and again."""
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill(primary, (0, 10)), proxy=STREAM)
    with pair.primary.client() as client:
        for turn in range(5):
            with client.pipeline(transaction=False) as pipe:
                pipe.execute_command("CLIENT", "KILL", "TYPE", "replica")
                for i in range(100):
                    pipe.set(f"key:{i}", f"turn {turn}")
                pipe.delete(f"key:{turn}")
                pipe.execute()
            pair.settle()
    pair.wait_equal()
    status = pair.proxy.status()
    assert status["reconciles"] == 0 and status["feed"]["kind"] == "stream", status


def test_a_proxy_that_starts_again_learns_the_database(bed, any_server):
    """The backlog goes on without a SELECT. A key is not looked for in all sixteen databases."""
    primary = bed.server("primary", any_server)
    data.fill_plain(primary, 100)
    proxy = bed.proxy(primary, **STREAM)
    proxy.wait_live()
    proxy.stop()
    proxy.restart()
    proxy.wait_live()

    def cost(count):
        """Of so many changes, in keys that are fetched or taken from the stream."""
        def taken(status):
            return status["fetches"] + status["values"] - before["fetches"] - before["values"]
        before = proxy.status()
        with primary.client() as client:
            for i in range(count):
                client.set(f"key:{i}", os.urandom(8))
        return taken(proxy.wait_status(lambda status: status["dirty_keys"] == 0 and taken(status) >= count, "not taken"))
    # With the first changes it asks for the database, and they are looked for in all until that is told.
    wait_for(lambda: cost(1) == 1, "a key is looked for in all databases")
    assert cost(100) < 120, "keys are fetched from other databases"


def test_the_published_acl_is_enough(bed, any_server):
    primary, replica = bed.server("primary", any_server), bed.server("replica", any_server)
    words = [word for word in acl_words()
             if word != "+client|no-touch" or primary.version >= (7, 2, 0)]
    primary.command("ACL", "SETUSER", *words)
    data.fill(primary, (0, 10))
    proxy = bed.proxy(primary, redis__username=words[0],
                      redis__password_file=bed.file("password", PASSWORD + "\n"), **STREAM)
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    with primary.client() as client:
        client.set("more", 1, ex=5000)
        client.flushdb()
        client.set("again", 1)
    agent.wait_warm()
    assert not primary.command("ACL", "LOG"), primary.command("ACL", "LOG")


@pytest.mark.parametrize("taken", ["-psync", "-replconf", "-role", "-command", "-ping"])
def test_a_permission_that_is_missing_is_named_and_auto_goes_on(bed, taken):
    primary = bed.server("primary")
    words = [word for word in acl_words() if word != "+client|no-touch"]
    primary.command("ACL", "SETUSER", *words, taken)
    password = bed.file("password", PASSWORD + "\n")
    proxy = bed.proxy(primary, redis__username=words[0], redis__password_file=password, **STREAM)
    reason = proxy.wait_state("source_down")["reason"]
    assert taken[1:] in reason.lower(), reason
    proxy.stop()
    primary.command("ACL", "SETUSER", words[0], "allchannels", "+@pubsub", "+client", "+config|get", "+config|set")
    proxy = bed.proxy(primary, "auto", redis__username=words[0], redis__password_file=password, source__feed="auto")
    status = proxy.wait_live()
    assert status["feed"]["kind"] == "notifications", status
    assert taken[1:] in status["feed"]["reason"].lower(), status
    assert status["flags"] == "checked", status


def test_a_proxy_on_a_replica(bed):
    """Its stream is that of its own primary. A promotion ends the connection, and nothing is missed."""
    first = bed.server("first", port=str(free_port()), bind="127.0.0.1", tls=False, repl_ping_replica_period="1")
    data.fill(first, (0, 10))
    middle = bed.server("middle", replicaof=("127.0.0.1", first.config["port"]), tls=False)
    middle.wait_replicates()
    proxy = bed.proxy(middle, **STREAM)
    last = bed.server("last")
    agent = bed.agent(proxy, last, warm__lag_ms=3000)
    agent.wait_warm()
    first.command("SET", "later", 1)
    wait_same(first, last)
    middle.command("REPLICAOF", "NO", "ONE")
    middle.command("SET", "after the promotion", 1)
    agent.wait_warm()
    wait_same(middle, last)
    assert proxy.status()["reconciles"] == 0, proxy.status()


def test_a_proxy_on_a_replica_of_long_learns_the_database(bed, any_server):
    """Its stream told the SELECT long ago, and a replica puts no PUBLISH of its own into it."""
    first = bed.server("first", any_server, port=str(free_port()), bind="127.0.0.1", tls=False,
                       repl_ping_replica_period="1")
    middle = bed.server("middle", any_server, replicaof=("127.0.0.1", first.config["port"]), tls=False)
    middle.wait_replicates()
    with first.client(3) as client:
        client.mset({f"key:{i}": "old" for i in range(100)})
        wait_for(lambda: middle.command("EXISTS", "key:99", db=3), "the middle server does not follow")
        proxy = bed.proxy(middle, source__audit_keys_per_second=0, **STREAM)
        last = bed.server("last", any_server)
        agent = bed.agent(proxy, last, warm__lag_ms=3000)
        agent.wait_warm()
        forks = middle.command("INFO", "stats")["total_forks"]

        def cost():
            """Fetches for a hundred changes that reached the replica, and values that were taken for them."""
            before = proxy.status()
            with client.pipeline(transaction=False) as pipe:
                for i in range(100):
                    pipe.set(f"key:{i}", os.urandom(8))
                pipe.execute()
            wait_for(lambda: last.command("GET", "key:99", db=3) == client.get("key:99"), "the last write does not come")
            after = proxy.wait_status(lambda status: status["dirty_keys"] == 0, "keys stay dirty")
            return after["fetches"] - before["fetches"], after["values"] - before["values"]
        assert cost() == (1600, 0) # in each of the databases
        wait_for(lambda: cost() == (0, 100), "a key is looked for in all databases", 60)
    assert middle.command("INFO", "stats")["total_forks"] == forks + 1
    agent.wait_warm()
    wait_same(first, last)
    assert proxy.status()["reconciles"] == 0, proxy.status()


TO_REPLICA, TO_PRIMARY = ("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE")
BETWEEN = ("SET", "between", "1")


@pytest.mark.parametrize("commands", [
    # Redis' own suite has this one (unit/multi).
    [("MULTI",), BETWEEN, TO_REPLICA, ("EXEC",), TO_PRIMARY],
    [("CONFIG", "SET", "replica-read-only", "no"), TO_REPLICA, BETWEEN, TO_PRIMARY],
], ids=["in a transaction", "writable"])
def test_a_primary_that_was_a_replica_for_a_moment_is_compared(bed, any_server, commands):
    """What it wrote meanwhile is in no stream, although the stream seems to go on where it ended."""
    pair = bed.pair(any_server, any_server, proxy={**STREAM, "source__audit_keys_per_second": 0},
                    agent={"apply__audit_keys_per_second": 0})
    with pair.primary.client() as client:
        client.set("before", 1)
        pair.settle()
        with client.pipeline(transaction=False) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            pipe.set("after", 1)
            pipe.execute()
    pair.settle()
    assert pair.proxy.status()["reconciles"] == 1, pair.proxy.status()


def test_wait_counts_only_replicas_that_hold_data(bed):
    pair = bed.pair(proxy=STREAM)
    with pair.primary.client() as client: # WAIT is about the writes of its own connection
        client.set("key", 1)
        pair.settle()
        assert client.wait(1, 100) == 0
