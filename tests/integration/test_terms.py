"""The fence: no mandate, no `warm`; and a table of a lower term than the data have is not followed.

The operator confirms the primary (authority.by=operator), so no sentinels are needed.
"""
import signal
import time

import pytest

from lib import data
from lib.compare import assert_equal_now, digest
from lib.daemon import MODES, free_port
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 1500


def confirm(proxy, term):
    proxy.rpc("config.set", path="authority.term", value=term)


def assert_never_warm(agent, lost, warm_lag=1.0):
    """Beyond the bound, until it has passed twice. The agent judges by the clock when it is asked."""
    bound = lost + 1.0 + warm_lag
    while (asked := time.monotonic()) < bound + 1.0 + warm_lag:
        state = agent.status()["state"]
        assert asked <= bound or state != "warm", f"warm {asked - lost:.3f} s after the loss of the mandate"
        time.sleep(0.02)


class Shard:
    """A primary and its replica, a proxy beside each; the primary is confirmed in term 1."""

    def __init__(self, bed):
        self.bed = bed
        port = free_port()
        self.first, self.second = bed.server("first", port=port), bed.server("second")
        data.fill_plain(self.first, KEYS)
        self.second.command("REPLICAOF", "127.0.0.1", port)
        self.wait_replicated()
        self.proxies = [self.proxy(server, term) for server, term in ((self.first, 1), (self.second, 0))]
        self.proxies[0].wait_live()
        self.proxies[1].wait_state("unconfirmed")

    def proxy(self, server, term):
        return self.bed.proxy(server, f"proxy-{server.name}", authority__by="operator", authority__term=term)

    def wait_replicated(self):
        wait_for(lambda: self.second.command("DBSIZE") == self.first.command("DBSIZE"), "the replica loads", 60)

    def fail_over(self, term):
        """What a failover does: the second one is the primary, and the first one does not know."""
        confirm(self.proxies[0], 0)
        self.second.command("REPLICAOF", "NO", "ONE")
        confirm(self.proxies[1], term)

    def listed(self, daemon):
        daemon.settings["proxy"] = [proxy.address for proxy in self.proxies]
        return daemon.start()

    def agent(self, mode="commands", **settings):
        replica = self.bed.server("local")
        agent = self.bed.agent(self.proxies[0], replica, start=False, **{**MODES[mode], **settings})
        self.listed(agent).wait_warm()
        return agent


@pytest.mark.parametrize("mode", [pytest.param("commands", marks=pytest.mark.quick), "replica", "hybrid"])
def test_a_failover_is_followed_and_lost_writes_are_gone(bed, mode):
    shard = Shard(bed)
    agent = shard.agent(mode)
    assert_equal_now(shard.first, agent.replica)
    shard.fail_over(2)
    # A client that was cut off with the old primary writes there still.
    shard.first.command("SET", "lost", 1)
    shard.second.command("SET", "key:1", "new")
    shard.second.command("SET", "kept", 1)
    agent.wait_status(lambda status: status["proxy"] == shard.proxies[1].address, "it does not go along", 60)
    agent.wait_warm()
    assert_equal_now(shard.second, agent.replica)
    assert agent.replica.command("EXISTS", "lost") == 0
    history = agent.status()["history"]
    assert history["data"]["term"] == history["table"]["term"] == 2, history
    assert history["table"]["mandate"] == "confirmed", history


def looked(shard, agent):
    """The agent knows where the old primary's history stood, of before what follows."""
    shard.first.command("SET", "of before", 1) # its offset is 0 until something is in its history
    agent.wait_status(lambda status: status["history"]["table"]["looked_offset"] > 0, "no look is told")


@pytest.mark.parametrize("mode", MODES)
def test_writes_that_the_replica_had_and_the_new_primary_has_not_are_counted(bed, mode):
    shard = Shard(bed)
    agent = shard.agent(mode)
    looked(shard, agent)
    # The new primary has none of these; the last one it writes itself.
    shard.second.command("REPLICAOF", "NO", "ONE")
    for words in (("SET", "lost", 1), ("SET", "key:1", "lost"), ("DEL", "key:2"), ("SET", "key:3", "lost")):
        shard.first.command(*words)
    agent.wait_warm()
    assert_equal_now(shard.first, agent.replica)
    shard.fail_over(2)
    shard.second.command("SET", "key:3", "new")
    shard.proxies[1].wait_live()
    agent.wait_status(lambda status: status["proxy"] == shard.proxies[1].address, "it does not go along", 60)
    agent.wait_warm()
    assert_equal_now(shard.second, agent.replica)
    status = agent.status()
    # `lost` goes, and key:1 and key:2 come back. key:3 counts only if the proxy read it before it was live.
    assert 3 <= status["rolled_back"] <= 4, status
    assert 'rolled back to the new primary\'s value: "key:1"' in agent.output()


def test_an_agent_that_was_behind_lost_nothing(bed):
    shard = Shard(bed)
    agent = shard.agent()
    looked(shard, agent)
    agent.ctl_ok("pause")
    for number in range(20):
        shard.first.command("SET", f"key:{number}", "late")
    wait_for(lambda: shard.second.command("GET", "key:19") == b"late", "the replica does not follow", 30)
    shard.proxies[1].wait_status(lambda status: status["dirty_keys"] == 0, "the second proxy is not level")
    shard.fail_over(2)
    shard.proxies[1].wait_live()
    agent.ctl_ok("resume")
    agent.wait_status(lambda status: status["proxy"] == shard.proxies[1].address, "it does not go along", 60)
    agent.wait_warm()
    assert_equal_now(shard.second, agent.replica)
    assert agent.status()["rolled_back"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_without_a_mandate_nothing_is_followed_and_nothing_is_warm(bed, mode):
    shard = Shard(bed)
    agent = shard.agent(mode)
    snapshots = agent.status()["snapshots"]
    confirm(shard.proxies[0], 0)
    assert_never_warm(agent, time.monotonic())
    agent.wait_state("stalled", reason="confirmed as the primary")
    before = digest(agent.replica)
    shard.first.command("SET", "late", 1)
    # The proxy has published again since: its heartbeat is what the agent sees.
    shard.proxies[0].wait_status(lambda status: status["dirty_keys"] > 0, "the key is not dirty")
    assert agent.status()["state"] == "stalled" and digest(agent.replica) == before
    confirm(shard.proxies[0], 1)
    agent.wait_warm()
    assert_equal_now(shard.first, agent.replica)
    assert agent.status()["snapshots"] == snapshots


def test_a_higher_term_of_the_same_proxy_is_written_first(bed):
    shard = Shard(bed)
    agent = shard.agent()
    snapshots = agent.status()["snapshots"]
    confirm(shard.proxies[0], 3)
    shard.first.command("SET", "third", 1)
    agent.wait_warm()
    assert agent.status()["history"]["data"]["term"] == 3
    assert agent.status()["snapshots"] == snapshots
    library = agent.replica.command("FUNCTION", "LIST", "WITHCODE")
    assert b" term=3@" in repr(library).encode()
    assert_equal_now(shard.first, agent.replica)


def test_a_deposed_primary_is_refused_by_an_agent_that_was_started_anew(bed):
    """Only the cursor knows by then. A person can approve it, for that term alone."""
    shard = Shard(bed)
    agent = shard.agent()
    shard.fail_over(2)
    agent.wait_status(lambda status: status["proxy"] == shard.proxies[1].address, "it does not go along", 60)
    agent.wait_warm()
    agent.kill()
    confirm(shard.proxies[1], 0)
    shard.first.command("SET", "lost", 1)
    confirm(shard.proxies[0], 1)
    agent.settings["proxy"] = shard.proxies[0].address
    agent.start()
    status = agent.wait_state("failed", reason="its server was deposed")
    assert "term 1" in status["reason"] and "term 2" in status["reason"], status
    assert agent.replica.command("EXISTS", "lost") == 0
    assert "deposed" in agent.ctl_ok("approve")["approved"]
    agent.wait_warm()
    assert_equal_now(shard.first, agent.replica)
    assert agent.status()["history"]["data"]["term"] == 1


def start_asking(proxy, by):
    """The proxy, started anew with this authority.by; none: the line was lost."""
    proxy.stop()
    for key in ("authority.by", "authority.term"):
        proxy.settings.pop(key, None)
    if by != "none":
        proxy.settings.update({"authority.by": by, "authority.term": 1})
    return proxy.start()


@pytest.mark.parametrize("mode", MODES)
def test_data_of_a_term_go_on_with_a_proxy_that_asks_nobody_only_after_an_approval(bed, mode):
    shard = Shard(bed)
    agent = shard.agent(mode)
    agent.stop()
    agent.settings["proxy"] = shard.proxies[0].address
    agent.start()
    agent.wait_warm()
    start_asking(shard.proxies[0], "none").wait_live()
    shard.first.command("SET", "unfenced", 1)
    status = agent.wait_state("failed", reason="authority.by")
    assert status["reason_code"] == "mandate_missing", status
    assert agent.replica.command("EXISTS", "unfenced") == 0
    # The line is back.
    start_asking(shard.proxies[0], "operator").wait_live()
    agent.wait_warm()
    assert_equal_now(shard.first, agent.replica)
    # Nobody shall be asked any more: it is said once, and an agent that starts later knows.
    start_asking(shard.proxies[0], "none").wait_live()
    agent.wait_state("failed", reason="authority.by")
    assert "asks nobody" in agent.ctl_ok("approve")["approved"]
    agent.wait_warm()
    agent.stop()
    shard.first.command("SET", "later", 1)
    agent.start()
    agent.wait_warm()
    assert_equal_now(shard.first, agent.replica)
    assert agent.status()["history"]["data"]["domain"] == ""


def test_of_a_list_a_proxy_that_asks_nobody_is_passed_over(bed):
    shard = Shard(bed)
    agent = shard.agent()
    start_asking(shard.proxies[1], "none").wait_live()
    confirm(shard.proxies[0], 0)
    agent.wait_state("stalled", reason="confirmed as the primary")
    agent.wait_status(lambda status: status["proxies"][1]["mandate"] == "none", "the other one is not looked at")
    time.sleep(1.5) # a better one would be followed after 0.3 s, and one more to get level
    assert agent.status()["proxy"] == shard.proxies[0].address
    confirm(shard.proxies[0], 1)
    agent.wait_warm()


def test_a_gateway_that_saw_a_mandate_serves_no_proxy_that_asks_nobody(bed):
    shard = Shard(bed)
    gateway = bed.gateway(shard.proxies[0], gateway__forward=True, redis__address=shard.first.address)
    gateway.wait_fresh()
    start_asking(shard.proxies[0], "none").wait_live()
    assert gateway.wait_state("stale", reason="authority.by")["reason_code"] == "mandate_missing"
    for words in (("GET", "key:1"), ("SET", "unfenced", 1)):
        with pytest.raises(Exception, match="(?i)masterdown"):
            gateway.client().execute_command(*words)
    assert shard.first.command("EXISTS", "unfenced") == 0
    start_asking(shard.proxies[0], "operator").wait_live()
    gateway.wait_fresh()


def test_a_proxy_that_is_stopped_makes_no_agent_warm(bed):
    shard = Shard(bed)
    agent = shard.agent()
    shard.proxies[0].popen.send_signal(signal.SIGSTOP)
    try:
        assert_never_warm(agent, time.monotonic())
        agent.wait_state("stalled", "connecting")
    finally:
        shard.proxies[0].popen.send_signal(signal.SIGCONT)
    agent.wait_warm()


def test_a_gateway_neither_answers_nor_forwards_without_a_mandate(bed):
    shard = Shard(bed)
    gateway = bed.gateway(shard.proxies[0], start=False, gateway__forward=True,
                          gateway__max_staleness_ms=60_000, redis__address=shard.first.address)
    shard.listed(gateway).wait_fresh()
    client = gateway.client()
    assert client.set("written", 1) and client.get("written") == b"1"
    shard.fail_over(2)
    gateway.wait_status(lambda status: status["proxy"] == shard.proxies[1].address, "it does not go along", 60)
    gateway.wait_fresh()
    # It is still told to forward to the first one, which is not the primary of this table.
    for words in (("SET", "lost", 1), ("INCR", "lost")):
        with pytest.raises(Exception, match="(?i)masterdown"):
            client.execute_command(*words)
    assert shard.first.command("EXISTS", "lost") == 0
    assert gateway.client().get("key:1") == shard.second.command("GET", "key:1")
    confirm(shard.proxies[1], 0)
    gateway.wait_state("stale", reason="not confirmed")
    for words in (("GET", "key:1"), ("SET", "lost", 1)):
        with pytest.raises(Exception, match="(?i)masterdown"):
            client.execute_command(*words)
    assert shard.first.command("EXISTS", "lost") == shard.second.command("EXISTS", "lost") == 0
