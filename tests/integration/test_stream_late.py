"""A replication stream that is behind the answers of its server (source.feed=stream)."""
import threading

from lib import data
from lib.forward import Forwarder
from lib.process import wait_for

STREAM = {"source__feed": "stream", "source__audit_keys_per_second": 0}
PIECE = 65536 # the forwarder hands back no more at a time


class Late:
    """A forwarder that can hand the stream back in pieces, each when it is told to."""

    def __init__(self, bed, server):
        self.pieces, self.flows = threading.Semaphore(0), threading.Event()
        self.came = 0
        self.flows.set()
        self.forwarder = Forwarder(bed.directory, lambda first: server.socket, may_return=self.may_return)

    def may_return(self, first):
        if b"-events" in first:
            self.came += 1
            if not self.flows.is_set():
                self.pieces.acquire() # pylint: disable=consider-using-with
        return True

    def hold(self):
        self.flows.clear()

    def give(self):
        """The next piece, which came already or comes."""
        self.pieces.release()

    def flow(self):
        """All that comes from now on, and what waits."""
        self.flows.set()
        self.pieces.release()

    def close(self):
        self.flow()
        self.forwarder.close()


def told(proxy):
    status = proxy.status()
    return status["values"] + status["fetches"]


def test_a_flush_that_is_told_late_is_in_its_place(bed):
    """FLUSHDB, SET and DEL are done when the first of them is told. None of them is asked about: each is told in turn."""
    primary = bed.server("primary", repl_ping_replica_period="3600")
    data.fill_plain(primary, 10)
    late = Late(bed, primary)
    try:
        proxy = bed.proxy(late.forwarder, **STREAM)
        gateway = bed.gateway(proxy)

        def is_taken():
            """Is what the stream tells of the key in the table without a fetch?"""
            values = proxy.status()["values"]
            client.set("key", "before")
            gateway.wait_fresh()
            return proxy.status()["values"] > values
        with primary.client() as client, gateway.client() as reader:
            gateway.wait_fresh()
            wait_for(is_taken, "the key is fetched for ever")
            late.hold()
            came = late.came
            client.flushdb()
            wait_for(lambda: late.came > came, "the flush does not come")
            client.set("key", "older")
            # A large value lies between, so that DEL comes in another piece. It is in another database.
            client.execute_command("SELECT", 3)
            client.set("large", "x" * 3 * PIECE)
            client.execute_command("SELECT", 0)
            client.delete("key")
            late.give()
            wait_for(lambda: reader.get("key") is None, "the flush is not told")
            before = told(proxy)
            late.give()
            wait_for(lambda: told(proxy) > before, "the next piece is not told")
            assert reader.get("key") in (b"older", None)
            late.flow()
            wait_for(lambda: told(proxy) >= before + 3, "the rest is not told")
            assert reader.get("key") is None
            assert proxy.status()["reconciles"] == 0
    finally:
        late.close()
