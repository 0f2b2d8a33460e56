"""One agent writes to a server. A second one says so and writes nothing, until the first is gone."""
import os
import signal
import time

import pytest

from lib import data
from lib.compare import assert_equal_now, digest
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 200
TAKEN = "agent %s on "
WRITES = "writes to this server"

# The settings of each apply mode with which it may begin.
MODES = {
    "commands": {"apply__consent": True},
    "replica": {"apply__mode": "replica", "apply__consent": True},
    "hybrid": {"apply__mode": "hybrid", "apply__consent": True},
}


class Two:
    """Two primaries, each with its proxy, and one replica that both agents are given."""

    def __init__(self, bed, **replica_config):
        self.bed = bed
        self.one, self.other = bed.server("one"), bed.server("other")
        self.replica = bed.server("replica", **replica_config)
        data.fill_plain(self.one, KEYS, prefix="one:")
        data.fill_plain(self.other, KEYS, prefix="other:")
        self.proxies = {"first": bed.proxy(self.one, "proxy-1"),
                        "second": bed.proxy(self.other, "proxy-2")}

    def agent(self, name, **settings):
        # Their data sets differ, and here it is the lease alone that keeps them apart.
        return self.bed.agent(self.proxies[name], self.replica, name,
                              **{"apply__foreign": "follow", **settings})


def prefixes(server):
    with server.client() as client:
        return {key.split(b":")[0] for key in client.scan_iter(count=1000)}


def wait_refused(agent, by, timeout=30.0):
    status = agent.wait_state("failed", reason=WRITES, timeout=timeout)
    assert TAKEN % by in status["reason"] and "redis.address" in status["reason"], status


def looks(server):
    with server.admin() as client:
        return client.info("commandstats")["cmdstat_info"]["calls"]


def wait_looks(server, count):
    """Until the agents have asked so often: the time that passes is theirs."""
    goal = looks(server) + count * 2 # our own question counts too
    wait_for(lambda: looks(server) >= goal, "the agents do not look", 60, 0.2)


@pytest.mark.parametrize("first, second", [
    ("commands", "commands"), ("replica", "commands"), ("commands", "replica"), ("replica", "replica"),
    ("hybrid", "hybrid"), ("hybrid", "commands"),
])
def test_a_second_agent_says_so_and_writes_nothing(bed, first, second):
    two = Two(bed)
    one = two.agent("first", **MODES[first])
    one.wait_warm()
    before = digest(two.replica)
    other = two.agent("second", **MODES[second])
    wait_refused(other, "first")
    wait_looks(two.replica, 6)
    assert other.status()["state"] == "failed" and other.status()["keys_applied"] == 0
    one.wait_state("warm") # on a busy machine it lags for a moment
    assert digest(two.replica) == before
    two.one.command("SET", "one:more", 1)
    one.wait_warm()
    assert_equal_now(two.one, two.replica)
    assert other.output().count(f"warn  local: {TAKEN % 'first'}") == 1, other.tail() # not each second


@pytest.mark.parametrize("settings", [{"apply__cursor_name": "second"}, {"apply__cursor_store": "key"}])
def test_an_agent_with_another_cursor_is_noticed(bed, settings):
    two = Two(bed)
    one = two.agent("first")
    one.wait_warm()
    other = two.agent("second", apply__consent=True, **settings)
    wait_refused(other, "first")
    assert prefixes(two.replica) == {b"one"}


@pytest.mark.parametrize("end", ["stop", "kill"])
@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_the_next_agent_follows_at_once(bed, mode, end):
    two = Two(bed)
    one = two.agent("first", **MODES[mode])
    one.wait_warm()
    other = two.agent("second", **MODES["commands" if mode == "commands" else "replica"])
    wait_refused(other, "first")
    (one.stop if end == "stop" else one.kill)()
    other.wait_warm()
    assert_equal_now(two.other, two.replica)
    one.start(wait=False)
    wait_refused(one, "second")


def test_a_killed_agent_takes_over_from_itself_without_waiting(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS))
    for _ in range(3):
        pair.agent.kill()
        pair.primary.command("INCR", "count")
        pair.agent.restart()
        pair.settle()
        assert WRITES not in pair.agent.output(), pair.agent.tail()


def test_two_agents_that_start_at_once_do_not_both_write(bed):
    two = Two(bed)
    agents = [two.bed.agent(two.proxies[name], two.replica, name, start=False, apply__consent=True,
                            apply__foreign="follow")
              for name in ("first", "second")]
    for turn in range(4):
        for agent in agents[::1 if turn % 2 else -1]:
            agent.start(wait=False)

        def decided():
            states = [(agent.try_status() or {}).get("state") for agent in agents]
            return states if sorted(map(str, states)) == ["failed", "warm"] else None
        states = wait_for(decided, lambda: [agent.try_status() for agent in agents], 60)
        winner = states.index("warm")
        assert prefixes(two.replica) == {[b"one", b"other"][winner]}
        assert agents[winner].status()["resyncs"] == 0
        for agent in agents:
            assert agent.stop() == 0


def limited(two, *rules):
    """The settings of a user without some permissions."""
    two.replica.command("ACL", "SETUSER", "limited", "on", ">x", "~*", "+@all", *rules)
    return {"redis__username": "limited", "redis__password_file": two.bed.file("password", "x\n")}


@pytest.mark.parametrize("mode, rules", [("commands", ()), ("replica", ()),
                                         ("commands", ("-client|kill",))])
def test_a_holder_that_hung_for_too_long_has_lost_its_lease(bed, mode, rules):
    two = Two(bed)
    user = limited(two, *rules) if rules else {}
    one = two.agent("first", **MODES[mode], **user)
    one.wait_warm()
    other = two.agent("second", **MODES[mode], **user)
    wait_refused(other, "first")
    os.kill(one.pid, signal.SIGSTOP)
    try:
        two.one.command("SET", "one:while it hung", 1) # what it has still to write
        other.wait_warm(timeout=90)
    finally:
        os.kill(one.pid, signal.SIGCONT)
    wait_refused(one, "second")
    two.one.command("SET", "one:after it hung", 1)
    wait_looks(two.replica, 6)
    assert_equal_now(two.other, two.replica)
    assert one.status()["state"] == "failed"
    other.wait_state("warm") # on a busy machine it lags for a moment


def test_a_lost_connection_does_not_cost_the_lease(bed):
    two = Two(bed)
    one = two.agent("first")
    one.wait_warm()
    for _ in range(5):
        reconnects = one.status()["local_reconnects"]
        two.replica.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        one.wait_status(lambda status: status["local_reconnects"] > reconnects
                        and status["state"] == "warm", "not warm again")
    assert WRITES not in one.output() and one.status()["resyncs"] == 0


def test_an_agent_without_the_permission_says_so_once_and_goes_on(bed):
    two = Two(bed)
    one = two.agent("first", **limited(two, "-client|list"))
    one.wait_warm()
    for _ in range(2):
        two.replica.command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_looks(two.replica, 2)
        one.wait_warm()
    assert one.output().count("the local server denies commands") == 1, one.tail()
    assert one.output().count("lacks +client|list") == 1, one.tail()


@pytest.mark.parametrize("store", ["function", "key"])
def test_without_the_permission_the_last_one_to_sign_the_cursor_writes(bed, store):
    two = Two(bed)
    settings = {"apply__consent": True, "apply__cursor_store": store, **limited(two, "-client|list")}
    one = two.agent("first", **settings)
    one.wait_warm()
    other = two.agent("second", **settings)
    wait_refused(one, "second")
    other.wait_warm()
    wait_looks(two.replica, 6)
    status = one.wait_state("failed") # between two tries
    assert "+client|list" in status["reason"] and "restart" in status["reason"], status
    other.ctl_ok("resync") # what the first one still wrote before it noticed
    other.wait_warm()
    two.one.command("SET", "one:more", 1)
    wait_looks(two.replica, 6)
    assert prefixes(two.replica) - {b"keywake_cursor"} == {b"other"}
