"""What can go wrong around the replication stream as a feed (source.feed=stream and auto)."""
from lib import data
from lib.forward import Forwarder
from lib.ports import free_port
from lib.process import wait_for

STREAM = {"source__feed": "stream"}
AUTO = {"source__feed": "auto"}


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
    wait_feed(bed.proxy(replica, "auto", **AUTO), "notifications")


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


def wait_feed(proxy, kind):
    wait_for(lambda: proxy.status()["feed"]["kind"] == kind and proxy.status()["state"] == "live",
             f"the feed is not {kind}", 60)


def test_auto_goes_on_where_something_between_does_not_let_psync_through(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 100)
    forwarder = Forwarder(bed.directory, lambda begin: primary.socket, lambda bytes: b"PSYNC" not in bytes)
    try:
        wait_feed(bed.proxy(forwarder, **AUTO), "notifications")
    finally:
        forwarder.close()


def test_auto_knows_which_server_the_other_feed_followed(bed):
    """The stream at one server, notifications at another, the stream at the first one again."""
    servers = [bed.server("first"), bed.server("second")]
    for server in servers:
        data.fill_plain(server, 100)
    servers[0].command("SET", "only", "here")
    forwarder = Forwarder(bed.directory, lambda begin: servers[0].socket)

    def lead_to(server):
        forwarder.choose = lambda begin: server.socket
        for one in servers:
            for kind in ("normal", "pubsub", "replica"):
                one.command("CLIENT", "KILL", "TYPE", kind)

    try:
        proxy = bed.proxy(forwarder, **AUTO)
        wait_feed(proxy, "stream")
        servers[0].command("CONFIG", "SET", "min-replicas-to-write", 1)
        wait_feed(proxy, "notifications")
        lead_to(servers[1])
        wait_for(lambda: proxy.status()["reconciles_identity"] == 1, "the second server is not noticed")
        wait_feed(proxy, "notifications")
        servers[0].command("CONFIG", "SET", "min-replicas-to-write", 0)
        lead_to(servers[0])
        wait_feed(proxy, "stream")
        assert proxy.status()["reconciles_identity"] == 2, proxy.status()
    finally:
        forwarder.close()
