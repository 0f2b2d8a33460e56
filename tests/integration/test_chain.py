"""A proxy that follows a replica claims nothing while that replica has lost its own primary."""
import signal
import time

import pytest

from lib import data
from lib.clock import Clock
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


# As limits.md says: an idle primary sends a sign of life each second, and that is not too old for an agent.
PING, WARM_MS = "1", 3000


class Chain:
    """
    A primary, replicas of it one after the other, a proxy that follows the last of them, an agent and its
    server. clock: of that replica.
    """

    def __init__(self, bed, replicas=1, clock=None):
        self.first = above = bed.server("first", port=str(free_port()), bind="127.0.0.1", repl_ping_replica_period=PING)
        data.fill_plain(self.first, KEYS)
        self.first.command("SAVE")
        for number in range(replicas):
            self.middle = bed.server(f"middle {number}", start=False, port=str(free_port()), bind="127.0.0.1",
                                     replicaof=("127.0.0.1", above.config["port"]))
            if clock and number == replicas - 1:
                clock.drive(self.middle)
            above = self.middle.start()
            wait_for(lambda: link(self.middle) == "up", "the chain's link does not come up")
        self.proxy = bed.proxy(self.middle)
        self.last = bed.server("last")
        self.agent = bed.agent(self.proxy, self.last, warm__lag_ms=WARM_MS)
        self.agent.wait_warm()
        assert_equal_now(self.first, self.last)

    def age(self):
        """Seconds since the moment up to which the table is known to have what the followed server's primary did."""
        return time.time() - self.proxy.status()["fresh_us"] / 1e6

    def cut(self):
        self.first.kill()
        self.proxy.wait_state("source_down", reason="its own primary")
        self.agent.wait_state("stalled")


@pytest.mark.quick
@pytest.mark.either
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


@pytest.mark.either
def test_a_primary_that_falls_silent_is_noticed(bed):
    """
    Two replicas further down, too. All links stay up meanwhile: a server gives its primary up only after
    repl-timeout.
    """
    clock = Clock(bed)
    chain = Chain(bed, replicas=2, clock=clock)
    before = chain.proxy.status()["reconciles"]
    time.sleep(3) # nothing is written
    assert not [change for change in chain.agent.rpc("history") if change["state"] == "lagging"
                and change["at_us"] > (time.time() - 3) * 1e6], chain.agent.rpc("history")
    chain.first.signal(signal.SIGSTOP)
    stopped = time.time()
    chain.agent.wait_state("lagging")
    assert chain.age() > WARM_MS / 1000
    assert chain.proxy.status()["fresh_us"] / 1e6 < stopped
    clock.step(20) # of the replica, which counts the seconds
    chain.proxy.wait_state("source_down", reason="nothing has come from its own primary")
    chain.agent.wait_state("stalled")
    assert link(chain.middle) == "up"
    chain.first.signal(signal.SIGCONT)
    chain.first.command("SET", "later", 1)
    wait_for(lambda: chain.last.command("EXISTS", "later"), "the chain does not go on", 60)
    chain.agent.wait_warm()
    assert_equal_now(chain.first, chain.last)
    assert chain.proxy.status()["reconciles"] == before


def test_writes_tell_that_the_chain_holds(bed):
    """Without any PING: the table is as fresh as beside a primary."""
    chain = Chain(bed)
    chain.first.command("CONFIG", "SET", "repl-ping-replica-period", 3600)
    ages = []
    for number in range(30):
        chain.first.command("SET", "key", number)
        time.sleep(0.1)
        ages.append(chain.age())
    assert sorted(ages)[len(ages) // 2] < 1, ages


@pytest.mark.either
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


@pytest.mark.either
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
