"""What can go wrong around the replication stream as a feed (source.feed=stream and auto)."""
from lib import data
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
    wait_for(lambda: first.command("WAIT", 1, 100) == 1, "the native replica does not follow")
    second.command("REPLICAOF", "NO", "ONE")
    forwarder = Forwarder(bed.directory,
                          lambda begin: second.socket if b"-events" in begin else first.socket)
    try:
        proxy = bed.proxy(forwarder, **STREAM)
        wait_for(lambda: "another server" in proxy.status()["reason"], "two servers are taken for one")
        assert proxy.status()["state"] == "source_down", proxy.status()
    finally:
        forwarder.close()
