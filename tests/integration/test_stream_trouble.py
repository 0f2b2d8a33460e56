"""What can go wrong around the replication stream as a feed (source.feed=stream and auto)."""
import threading

import pytest
import redis

from lib import data
from lib.clock import Clock
from lib.compare import wait_same
from lib.forward import Forwarder
from lib.ports import free_port
from lib.process import wait_for

STREAM = {"source__feed": "stream"}


def test_an_orderly_shutdown_is_not_waited_for(bed, any_server):
    """Since 7.0 a primary waits until its replicas have acknowledged. A reader never does."""
    primary = bed.server("primary", any_server)
    if primary.version >= (7, 0, 0):
        primary.command("CONFIG", "SET", "shutdown-timeout", 3600)
    data.fill_plain(primary, 100)
    proxy = bed.proxy(primary, **STREAM)
    proxy.wait_live()
    primary.command("SET", "key", 1)
    primary.popen.terminate()
    primary.popen.wait(120)
    wait_for(lambda: proxy.status()["state"] == "source_down", "nobody noticed")


def test_two_servers_behind_one_address_are_not_taken_for_one(bed):
    """Values of one and changes of the other. Both have the same history, so PSYNC goes on."""
    first = bed.server("first", port=str(free_port()), bind="127.0.0.1", tls=False)
    data.fill_plain(first, 100)
    second = bed.server("second", replicaof=("127.0.0.1", first.config["port"]), tls=False)
    second.wait_replicates()
    second.command("REPLICAOF", "NO", "ONE")
    forwarder = Forwarder(bed.directory,
                          lambda begin: second.socket if b"-events" in begin else first.socket)
    try:
        proxy = bed.proxy(forwarder, **STREAM)
        wait_for(lambda: "another server" in proxy.status()["reason"], "two servers are taken for one")
        assert proxy.status()["state"] == "source_down", proxy.status()
    finally:
        forwarder.close()


def test_a_replica_that_takes_writes_of_its_own_is_refused(bed):
    first = bed.server("first", port=str(free_port()), bind="127.0.0.1", tls=False)
    replica = bed.server("writable", replicaof=("127.0.0.1", first.config["port"]), replica_read_only="no", tls=False)
    replica.wait_replicates()
    assert "replica-read-only" in bed.proxy(replica, **STREAM).wait_state("source_down")["reason"]


def test_client_pause_does_not_stop_reading(bed):
    """The stream goes on without a SELECT, and PUBLISH, which tells the database, waits for the pause."""
    primary = bed.server("primary")
    data.fill_plain(primary, 100)
    proxy = bed.proxy(primary, **STREAM)
    proxy.wait_live()
    proxy.stop()
    primary.command("CLIENT", "PAUSE", 600_000, "WRITE")
    proxy.restart()
    proxy.wait_live()
    before = proxy.status()["fresh_us"]
    wait_for(lambda: proxy.status()["fresh_us"] > before, "nothing is fresh during a pause")
    primary.command("CLIENT", "UNPAUSE")


def data_connection(server):
    with server.client() as client:
        return next(line["id"] for line in client.client_list() if line["name"] == "keywake-proxy-data")


def test_a_pause_does_not_stop_reading_while_the_database_is_asked_for(bed):
    """The first command comes without a SELECT, and right after it a pause, for which PUBLISH waits."""
    pair = bed.pair(proxy=STREAM, fill=lambda primary: data.fill_plain(primary, 100))
    pair.primary.command("SET", "key:0", "after the SELECT that the first stream began with")
    pair.settle()
    pair.proxy.stop()
    pair.proxy.restart()
    pair.proxy.wait_live()
    connection = data_connection(pair.primary)
    with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
        pipe.set("key:1", "new").execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        pipe.execute()
    pair.settle()
    assert data_connection(pair.primary) == connection, "it was given up, because PUBLISH was not answered there"
    pair.primary.command("CLIENT", "UNPAUSE")
    pair.primary.command("SET", "key:2", "after the pause")
    pair.settle()
    assert pair.proxy.status()["reconciles"] == 0, pair.proxy.status()


def has(server, key):
    """False also while it loads what its primary sent."""
    try:
        return server.command("EXISTS", key) == 1
    except redis.exceptions.BusyLoadingError:
        return False


def failover_state(server):
    return server.command("INFO", "replication")["master_failover_state"]


@pytest.mark.parametrize("written", [False, True], ids=["untouched", "written"])
def test_failover_does_not_choose_a_reader(bed, any_server, written):
    """The proxy is the only replica that the primary knows. At offset 0 its ACK 0 would be all data."""
    primary = bed.server("primary", any_server)
    data.fill_plain(primary, 100)
    proxy = bed.proxy(primary, **STREAM)
    proxy.wait_live()
    if written:
        primary.command("SET", "key", 1)
    else:
        wait_for(lambda: primary.command("INFO", "replication")["master_repl_offset"] > 0,
                 "the offset is 0, which is what the proxy acknowledges")
    primary.command("FAILOVER")
    assert "FAILOVER" in proxy.wait_state("source_down")["reason"]
    assert failover_state(primary) == "waiting-for-sync"
    assert primary.command("INFO", "replication")["connected_slaves"] == 0
    primary.command("FAILOVER", "ABORT")
    proxy.wait_live()
    primary.command("SET", "key", "after it")


def test_failover_to_a_native_replica(bed, any_server):
    """The proxy stays at the server that is the new replica, and follows what the new primary writes."""
    first = bed.server("first", any_server, port=str(free_port()), bind="127.0.0.1", tls=False)
    data.fill(first, (0, 10))
    second = bed.server("second", any_server, port=str(free_port()), bind="127.0.0.1",
                        replicaof=("127.0.0.1", first.config["port"]), tls=False)
    proxy = bed.proxy(first, **STREAM)
    last = bed.server("last", any_server)
    agent = bed.agent(proxy, last)
    agent.wait_warm()
    wait_for(lambda: second.command("INFO", "replication")["master_link_status"] == "up", "no native replica")
    first.command("FAILOVER")
    wait_for(lambda: second.command("ROLE")[0] in (b"master", "master"), "no failover", 60)
    second.command("SET", "after the failover", 1)
    wait_for(lambda: has(first, "after the failover"), "the old primary does not follow", 60)
    agent.wait_warm()
    wait_same(first, last)


def test_the_control_socket_is_served_while_a_command_has_many_keys(bed):
    """It is told over many turns of the loop: the table is seen on its way."""
    keys = 300_000
    primary = bed.server("primary")
    proxy = bed.proxy(primary, **STREAM, source__audit_keys_per_second=0)
    proxy.wait_live()
    primary.command("EVAL", f"for i=1,{keys} do redis.call('SET','key:'..i,i) end", 0)
    wait_for(lambda: proxy.status()["keys"] == keys, "the keys do not come", 300)
    killer = threading.Thread(target=primary.command, args=("UNLINK", *(f"key:{i}" for i in range(1, keys + 1))))
    killer.start()
    seen = set()
    wait_for(lambda: seen.add(keys_now := proxy.status()["keys"]) or keys_now == 0, "the keys stay", 300)
    killer.join()
    assert len(seen) > 3, seen
    assert proxy.status()["reconciles"] == 0, proxy.status()


def test_a_stream_that_breaks_while_a_command_has_many_keys(bed):
    """The part that was not told comes with the next stream: from the backlog, without a scan."""
    keys = 300_000
    pair = bed.pair(primary_config={"repl_backlog_size": 64 << 20}, proxy={**STREAM, "source__audit_keys_per_second": 0})
    pair.primary.command("EVAL", f"for i=1,{keys} do redis.call('SET','key:'..i,i) end", 0)
    wait_for(lambda: pair.proxy.status()["keys"] == keys, "the keys do not come", 300)
    with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
        pipe.unlink(*(f"key:{i}" for i in range(keys)))
        pipe.set("last", 1)
        pipe.execute_command("CLIENT", "KILL", "TYPE", "replica")
        pipe.execute()
    pair.settle(300)
    status = pair.proxy.status()
    assert status["keys"] == 2 and status["reconciles"] == 0, status # key:300000 and last


def lose_beyond_the_backlog(primary):
    """More than a backlog of 16 KiB holds, in the moment in which the stream is cut."""
    with primary.client() as client, client.pipeline(transaction=True) as pipe:
        pipe.execute_command("CLIENT", "KILL", "TYPE", "replica")
        for _ in range(40):
            pipe.set("big", "x" * 20_000)
        pipe.delete("key:1")
        pipe.execute()
    primary.command("SET", "behind", 1) # the backlog is cut when something is added


def test_a_gap_beyond_the_backlog_is_a_reconcile(bed, any_server):
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill_plain(primary, 100), proxy=STREAM,
                    primary_config={"repl_backlog_size": 16384})
    pair.primary.command("SET", "key:0", "new")
    pair.settle()
    lose_beyond_the_backlog(pair.primary)
    wait_for(lambda: pair.proxy.status()["reconciles_connection"] == 1, "no reconcile after a gap")
    pair.settle()
    assert pair.proxy.status()["feed"]["kind"] == "stream", pair.proxy.status()


def test_a_stream_that_stands_still_is_not_warm(bed):
    """The server answers on the data connection, and is further than the stream."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 100)
    flows = threading.Event()
    flows.set()
    forwarder = Forwarder(bed.directory, lambda first: primary.socket,
                          may_return=lambda first: b"-events" not in first or flows.wait())
    clock = Clock(bed)
    try:
        proxy = clock.drive(bed.proxy(forwarder, start=False, **STREAM)).start()
        agent = bed.agent(proxy, replica)
        agent.wait_warm()
        flows.clear()
        primary.command("SET", "key:1", "told late")
        assert agent.ctl("wait", "warm", "--timeout", 3).returncode != 0
        wait_for(lambda: agent.status()["state"] != "warm", "a replica that lacks a write is called warm")
        assert proxy.wait_state("stalled")["reason_code"] == "primary_silent"
        # For half a minute that the clock leaves out.
        clock.advance(31)
        assert "stands still" in proxy.wait_state("source_down")["reason"]
        flows.set()
        agent.wait_warm()
        wait_same(primary, replica)
        assert proxy.status()["reconciles"] == 0, proxy.status()
    finally:
        flows.set()
        forwarder.close()


def test_a_service_address_that_moves_to_the_promoted_replica(bed, any_server):
    """Another run, and another replication id: all is compared."""
    first = bed.server("first", any_server, port=str(free_port()), bind="127.0.0.1", tls=False)
    data.fill(first, (0, 10))
    second = bed.server("second", any_server, replicaof=("127.0.0.1", first.config["port"]), tls=False)
    second.wait_replicates()
    forwarder = Forwarder(bed.directory, lambda begin: first.socket)
    try:
        proxy = bed.proxy(forwarder, **STREAM)
        last = bed.server("last", any_server)
        agent = bed.agent(proxy, last)
        agent.wait_warm()
        first.command("SET", "on both", 1)
        wait_for(lambda: has(second, "on both"), "the native replica does not follow", 60)
        forwarder.choose = lambda begin: second.socket
        first.kill()
        second.command("REPLICAOF", "NO", "ONE")
        second.command("SET", "after the failover", 1)
        wait_for(lambda: proxy.status()["reconciles_identity"] == 1, "another server is not noticed", 60)
        agent.wait_warm()
        wait_same(second, last)
        assert proxy.status()["feed"]["kind"] == "stream", proxy.status()
    finally:
        forwarder.close()


def test_a_primary_that_restarts_is_compared(bed, any_server):
    """With its data, but what it wrote last was not saved: the key goes from the table, too."""
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill_plain(primary, 100), proxy=STREAM)
    pair.primary.command("SAVE")
    pair.primary.command("SET", "lost", 1)
    pair.settle()
    pair.primary.kill()
    pair.primary.restart()
    wait_for(lambda: pair.proxy.status()["reconciles_identity"] == 1, "another run is not noticed", 60)
    pair.settle()
    assert pair.replica.command("EXISTS", "lost") == 0
    pair.primary.command("SET", "key:1", "after the restart")
    pair.settle()
    status = pair.proxy.status()
    assert status["feed"]["kind"] == "stream" and status["reconciles"] == 1, status


def test_a_delete_of_more_keys_than_are_kept_of_a_command_is_no_loss(bed):
    """The last keys of it are not read. It explains all the same why they are gone."""
    kept = 1 << 20 # words: COMMAND_WORDS in feed/stream/replication.c
    primary = bed.server("primary")
    data.fill_plain(primary, 3000)
    proxy = bed.proxy(primary, **STREAM, source__audit_keys_per_second=0)
    proxy.wait_live()
    primary.command("UNLINK", *["x"] * kept, *(f"key:{i}" for i in range(3000)))
    wait_for(lambda: proxy.status()["keys"] == 0, "keys that were deleted stay", 120)
    status = proxy.wait_live()
    assert status["reconciles_command"] == 1, status
    assert not [change for change in proxy.rpc("history") if change["state"] == "held"]


def test_a_command_under_another_name_is_looked_for_in_every_database(bed, any_server):
    """With rename-command the stream has the new name, which no list has. It changes databases that are not selected."""
    primary = bed.server("primary", any_server, rename_command=("SWAPDB", "swapx"))
    for database in (3, 4):
        with primary.client(db=database) as client:
            client.mset({f"of {database}:{number}": number for number in range(50)})
    replica = bed.server("replica", any_server)
    proxy = bed.proxy(primary, **STREAM, source__audit_keys_per_second=0)
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    primary.command("SET", "in", "database 0")
    primary.command("swapx", 3, 4)
    wait_same(primary, replica, 20)
    assert proxy.status()["reconciles_command"] > 0
