"""A proxy that follows a replica claims nothing while that replica has lost its own primary."""
import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.daemon import free_port
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 5000


def size(server):
    with server.client() as client:
        return client.dbsize()


def link(server):
    with server.client() as client:
        return client.info("replication").get("master_link_status")


def test_a_replica_that_never_synchronised_is_not_followed(bed):
    middle = bed.server("middle", replicaof=("127.0.0.1", str(free_port())))
    proxy = bed.proxy(middle)
    proxy.wait_state("source_down", reason="its own primary")
    replica = bed.server("replica")
    data.fill_plain(replica, KEYS)
    agent = bed.agent(proxy, replica, apply__consent=True)
    assert agent.ctl("wait", "warm", "--timeout", 3).returncode != 0
    assert proxy.status()["state"] == "source_down"
    assert size(replica) == KEYS
    middle.command("REPLICAOF", "NO", "ONE")
    middle.command("SET", "own", 1)
    proxy.wait_live()


class Chain:
    """A primary, a replica of it, a proxy that follows the replica, an agent and its server."""

    def __init__(self, bed):
        self.first = bed.server("first", port=str(free_port()), bind="127.0.0.1")
        data.fill_plain(self.first, KEYS)
        self.first.command("SAVE")
        self.middle = bed.server(
            "middle", replicaof=("127.0.0.1", self.first.config["port"]))
        wait_for(lambda: link(self.middle) == "up", "the chain's link does not come up")
        self.proxy = bed.proxy(self.middle)
        self.last = bed.server("last")
        self.agent = bed.agent(self.proxy, self.last)
        self.agent.wait_warm()
        assert_equal_now(self.first, self.last)

    def cut(self):
        self.first.kill()
        self.proxy.wait_state("source_down", reason="its own primary")
        self.agent.wait_state("stalled")


@pytest.mark.quick
def test_a_link_that_breaks_and_comes_back(bed):
    chain = Chain(bed)
    chain.cut()
    chain.first.restart()
    with chain.first.client() as client:
        client.set("later", 1)
        wait_for(lambda: link(chain.middle) == "up", "the chain's link does not come up again", 60)
        assert client.wait(1, 30_000) == 1 # "up" does not say that the write has arrived
    chain.proxy.wait_live()
    chain.agent.wait_warm()
    assert_equal_now(chain.first, chain.last)
    assert chain.proxy.status()["reconciles"] > 0


def test_a_short_break_costs_no_reconcile(bed):
    chain = Chain(bed)
    before = chain.proxy.status()["reconciles"]
    with chain.first.client() as client:
        client.config_set("port", 0) # its replica cannot come back
        client.execute_command("CLIENT", "KILL", "TYPE", "replica")
        chain.proxy.wait_state("source_down", reason="its own primary")
        client.set("meanwhile", 1)
        client.config_set("port", chain.first.config["port"])
        assert client.wait(1, 50_000) == 1
    chain.proxy.wait_live()
    chain.agent.wait_warm()
    assert_equal_now(chain.first, chain.last)
    assert chain.proxy.status()["reconciles"] == before


def test_a_primary_at_the_top_that_came_back_empty_is_held(bed):
    chain = Chain(bed)
    chain.cut()
    chain.first.restart(keep_data=False)
    wait_for(lambda: size(chain.middle) == 0, "the chain's replica does not take the empty data", 60)
    chain.proxy.wait_state("held")
    assert size(chain.last) == KEYS
    chain.proxy.ctl_ok("approve")
    wait_for(lambda: size(chain.last) == 0, "the approval lets nothing go")


def test_a_promotion_that_goes_on_costs_no_scan(bed):
    """The same run, and its second id is the one that was followed: the feed missed nothing."""
    chain = Chain(bed)
    before = chain.proxy.status()
    chain.middle.command("REPLICAOF", "NO", "ONE")
    chain.middle.command("SET", "after the promotion", 1)
    after = chain.proxy.wait_status(
        lambda status: status["table"]["history"]["replid2"] == before["table"]["history"]["replid"],
        "the new history is not told")
    chain.agent.wait_warm()
    assert_equal_now(chain.middle, chain.last)
    assert chain.proxy.status()["reconciles"] == before["reconciles"]
    assert after["table"]["history"]["replid"] != before["table"]["history"]["replid"]
