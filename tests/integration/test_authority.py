"""Whose data: an agent goes on with the data set that it has, and asks before it takes another."""
import pytest

from lib import data
from lib.compare import assert_equal_now, digest
from lib.cursor import cursor_words, wait_cursor
from lib.daemon import MODES, free_port
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 1500 # more than the brake on deletions lets pass by itself
FOREIGN = "this table follows another data set"


def info(server):
    with server.admin() as client:
        return client.info("replication")


class Two:
    """Two primaries with data of their own, each with its proxy, and a replica of the first."""

    def __init__(self, bed, mode="commands", **agent):
        self.bed = bed
        self.ours, self.foreign = bed.server("ours"), bed.server("foreign")
        self.replica = bed.server("replica")
        data.fill_plain(self.ours, KEYS, prefix="ours:")
        data.fill_plain(self.foreign, KEYS, prefix="foreign:")
        self.proxy = bed.proxy(self.ours, "proxy-ours")
        self.wrong = bed.proxy(self.foreign, "proxy-foreign")
        self.wrong.wait_live()
        self.agent = bed.agent(self.proxy, self.replica, **{**MODES[mode], **agent})
        self.agent.wait_warm()
        assert_equal_now(self.ours, self.replica)

    def point_at(self, proxy):
        """What an operator does with the configuration: stop, another address, start."""
        assert self.agent.stop() == 0
        self.agent.settings["proxy"] = proxy.address
        self.agent.start()

    def retarget(self, proxy):
        self.agent.rpc("retarget", proxy=proxy.address)


def wait_refused(two):
    status = two.agent.wait_state("failed", reason=FOREIGN)
    for words in (two.proxy.status()["table"]["history"]["replid"][:8],
                  two.wrong.status()["table"]["history"]["replid"][:8], "keywakectl approve"):
        assert words in status["reason"], status["reason"]
    assert status["history"]["relation"] == "foreign", status["history"]
    return status


def wait_looks(server, count):
    """Until an agent has asked so often: the time that passes is its own."""
    def looks():
        with server.admin() as client:
            return client.info("commandstats")["cmdstat_info"]["calls"]
    goal = looks() + count * 2 # our own question counts too
    wait_for(lambda: looks() >= goal, "the agent does not look", 60, 0.2)


@pytest.mark.parametrize("mode, settings", [
    ("commands", {}), ("commands", {"apply__consent": True}), ("replica", {}), ("hybrid", {}),
])
def test_a_wrong_source_touches_nothing(bed, mode, settings):
    two = Two(bed, mode, **settings)
    before = digest(two.replica)
    two.point_at(two.wrong)
    wait_refused(two)
    wait_looks(two.replica, 4)
    status = wait_refused(two)
    assert digest(two.replica) == before
    assert status["keys_pruned"] == status["keys_applied"] == 0, status
    two.point_at(two.proxy)
    two.ours.command("SET", "ours:later", 1)
    two.agent.wait_warm()
    assert_equal_now(two.ours, two.replica)


@pytest.mark.parametrize("mode", ["commands", "replica", "hybrid"])
def test_a_running_agent_that_is_sent_elsewhere_touches_nothing(bed, mode):
    two = Two(bed, mode)
    before, applied = digest(two.replica), two.agent.status()["keys_applied"]
    snapshots = two.agent.status()["snapshots"]
    two.retarget(two.wrong)
    wait_refused(two)
    wait_looks(two.replica, 4)
    assert digest(two.replica) == before
    assert wait_refused(two)["keys_applied"] == applied
    # Back again: it goes on from its position, without a snapshot.
    two.retarget(two.proxy)
    two.ours.command("SET", "ours:later", 1)
    two.agent.wait_warm()
    assert_equal_now(two.ours, two.replica)
    assert two.agent.status()["snapshots"] == snapshots


def test_a_refused_agent_keeps_no_other_from_the_server(bed):
    """The next agent has the right proxy, and the one that was sent elsewhere still runs."""
    two = Two(bed)
    two.retarget(two.wrong)
    wait_refused(two)
    right = bed.agent(two.proxy, two.replica, "right", apply__consent=True)
    right.wait_warm()
    two.ours.command("SET", "ours:later", 1)
    right.wait_warm()
    assert_equal_now(two.ours, two.replica)
    wait_refused(two)
    # Back again: the server has another agent now, and that is the reason.
    two.retarget(two.proxy)
    two.agent.wait_state("failed", reason="agent right on ")
    assert right.stop() == 0
    two.agent.wait_warm()
    assert_equal_now(two.ours, two.replica)


@pytest.mark.parametrize("mode", ["replica", "hybrid"])
def test_a_refused_agent_that_does_not_lead_the_server_keeps_no_other_from_it(bed, mode):
    """It would make the server its replica, and is refused before that: there is no link to go on."""
    two = Two(bed)
    two.ours.command("SET", "ours:later", 1)
    two.agent.wait_warm()
    wait_cursor(two.agent)
    two.agent.settings.update({key.replace("__", "."): value for key, value in MODES[mode].items()})
    two.point_at(two.wrong)
    wait_refused(two)
    right = bed.agent(two.proxy, two.replica, "right")
    right.wait_warm()
    two.ours.command("SET", "ours:last", 1)
    right.wait_warm()
    assert_equal_now(two.ours, two.replica)
    assert right.stop() == 0
    two.retarget(two.proxy)
    two.agent.wait_warm()
    assert_equal_now(two.ours, two.replica)


def test_an_agent_that_is_sent_back_notices_what_another_wrote_meanwhile(bed):
    """The next agent replaced all data and ended: the position of the first one is worth nothing."""
    two = Two(bed)
    two.retarget(two.wrong)
    wait_refused(two)
    other = bed.agent(two.wrong, two.replica, "other", apply__consent=True,
                      apply__foreign="follow", apply__max_prune=1)
    other.wait_warm()
    assert_equal_now(two.foreign, two.replica)
    assert other.stop() == 0
    two.retarget(two.proxy)
    ours = info(two.ours)["master_replid"][:8]
    two.agent.wait_state("failed", reason=f"{FOREIGN}: it has history {ours}")
    assert_equal_now(two.foreign, two.replica)
    two.agent.ctl_ok("approve")
    two.agent.wait_warm()
    assert_equal_now(two.ours, two.replica)


def test_the_proxy_behind_the_address_is_replaced(bed):
    two = Two(bed)
    before = digest(two.replica)
    two.proxy.stop()
    two.wrong.stop()
    two.wrong.settings["listen"] = two.proxy.settings["listen"]
    two.wrong.start()
    two.wrong.wait_live()
    two.agent.wait_state("failed", reason=FOREIGN)
    wait_looks(two.replica, 4)
    assert digest(two.replica) == before
    assert two.agent.status()["history"]["table"]["replid"] == info(two.foreign)["master_replid"]


@pytest.mark.parametrize("mode", ["commands", "replica", "hybrid"])
def test_one_approval_lets_it_go_on(bed, mode):
    two = Two(bed, mode)
    two.point_at(two.wrong)
    wait_refused(two)
    approved = two.agent.ctl_ok("approve")
    assert FOREIGN in approved["approved"]
    two.agent.wait_warm()
    assert_equal_now(two.foreign, two.replica)
    # The data are of that history now: nothing is asked again.
    two.point_at(two.wrong)
    two.agent.wait_warm()
    two.retarget(two.proxy)
    two.agent.wait_state("failed", reason=FOREIGN)
    assert_equal_now(two.foreign, two.replica)


def test_an_approval_at_run_time_and_back(bed):
    two = Two(bed)
    for proxy, primary in ((two.wrong, two.foreign), (two.proxy, two.ours)):
        two.retarget(proxy)
        two.agent.wait_state("failed", reason=FOREIGN)
        two.agent.ctl_ok("approve")
        two.agent.wait_warm()
        assert_equal_now(primary, two.replica)
    assert two.agent.output().count("approved by the operator") == 2


def test_an_agent_without_a_server_follows_any_table(bed):
    """It has no data that could be of another history."""
    two = Two(bed)
    agent = bed.agent(two.proxy, two.replica, "discard", apply__mode="discard")
    agent.wait_warm()
    agent.rpc("retarget", proxy=two.wrong.address)
    wait_for(lambda: agent.status()["snapshots"] == 2, "the other table is not read", 60, 0.2)
    agent.wait_warm()


def test_an_approval_is_for_one_table(bed):
    two = Two(bed)
    third = bed.server("third")
    data.fill_plain(third, KEYS, prefix="third:")
    other = bed.proxy(third, "proxy-third")
    two.retarget(two.wrong)
    wait_refused(two)
    two.agent.rpc("pause")
    two.agent.ctl_ok("approve")
    two.retarget(other)
    two.agent.wait_status(lambda status: status["history"]["table"]["proxy_name"]
                          == other.status()["table"]["history"]["proxy_name"], "not there yet")
    two.agent.rpc("resume")
    two.agent.wait_state("failed", reason=f"{FOREIGN}: it has history {info(third)['master_replid'][:8]}")
    assert_equal_now(two.ours, two.replica)


def test_nothing_waits_for_approval(bed):
    two = Two(bed)
    done = two.agent.ctl("approve")
    assert done.returncode == 2 and "nothing waits" in done.stderr, done


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_foreign_tables_may_be_followed_by_configuration(bed, mode):
    # The brake on deletions is another question, with a key of its own.
    two = Two(bed, mode, apply__foreign="follow", apply__max_prune=1)
    two.point_at(two.wrong)
    two.agent.wait_warm()
    assert_equal_now(two.foreign, two.replica)
    two.retarget(two.proxy)
    two.agent.wait_warm()
    assert_equal_now(two.ours, two.replica)


# ---- histories that move without a hand ----

@pytest.mark.parametrize("mode", ["commands", "replica"])
@pytest.mark.parametrize("kept_in", ["aof", "rdb"])
def test_a_restarted_primary_goes_on_without_a_hand(bed, kept_in, mode):
    config = {"appendonly": "yes"} if kept_in == "aof" else {}
    pair = bed.pair(primary_config=config, agent=MODES[mode],
                    fill=lambda primary: data.fill_plain(primary, KEYS))
    before = info(pair.primary)["master_replid"]
    if kept_in == "rdb":
        pair.primary.command("SAVE")
    pair.primary.kill()
    pair.primary.restart()
    pair.primary.command("SET", "after", 1)
    assert info(pair.primary)["master_replid"] != before
    pair.settle()
    assert FOREIGN not in pair.agent.output()
    now = info(pair.primary)["master_replid"]
    pair.proxy.wait_status(lambda status: status["table"]["history"]["replid"] == now, "the table is of before")
    pair.agent.wait_status(lambda status: status["history"]["data"]["replid"] == now, "the data are of before")
    wait_for(lambda: cursor_words(pair.replica).get("replid") == now, "the cursor does not say so")
    # An agent that was away meanwhile goes on, too.
    pair.agent.stop()
    pair.primary.kill()
    pair.primary.restart()
    pair.proxy.wait_live()
    pair.agent.start()
    pair.settle()


class Failover:
    """A primary and its replica, a proxy beside each, and an agent that follows the primary."""

    def __init__(self, bed, mode):
        self.bed = bed
        port = free_port()
        self.first = bed.server("first", port=port)
        data.fill_plain(self.first, KEYS)
        self.second = bed.server("second")
        self.second.command("REPLICAOF", "127.0.0.1", port)
        wait_for(lambda: info(self.second)["master_link_status"] == "up", "it does not follow")
        self.one, self.other = bed.proxy(self.first, "proxy-1"), bed.proxy(self.second, "proxy-2")
        self.replica = bed.server("replica")
        self.agent = bed.agent(self.one, self.replica, **MODES[mode])
        self.agent.wait_warm()

    def promote(self):
        self.first.command("WAIT", 1, 10_000)
        self.first.kill()
        self.second.command("REPLICAOF", "NO", "ONE")
        self.second.command("SET", "after the failover", 1)
        self.agent.rpc("retarget", proxy=self.other.address)


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_a_failover_goes_on_without_a_hand(bed, mode):
    parts = Failover(bed, mode)
    replid = info(parts.first)["master_replid"]
    parts.promote()
    parts.agent.wait_warm()
    assert_equal_now(parts.second, parts.replica)
    assert FOREIGN not in parts.agent.output()
    # The proxy looks once a second: until then the table has the history of before.
    history = parts.agent.wait_status(lambda status: status["history"]["data"]["replid2"] == replid,
                                      "not linked")["history"]
    assert history["data"]["proxy_name"] == parts.other.status()["table"]["history"]["proxy_name"]
    # The primary of before comes back with what it had: that is not the data set any more.
    before = digest(parts.replica)
    parts.first.restart()
    parts.first.command("SET", "old", 1)
    parts.one.wait_state("live", "held")
    parts.agent.rpc("retarget", proxy=parts.one.address)
    parts.agent.wait_state("failed", reason=FOREIGN)
    assert digest(parts.replica) == before


def test_an_agent_that_slept_through_a_failover_goes_on(bed):
    parts = Failover(bed, "commands")
    parts.agent.stop()
    parts.first.kill()
    parts.second.command("REPLICAOF", "NO", "ONE")
    parts.second.command("SET", "after the failover", 1)
    parts.agent.settings["proxy"] = parts.other.address
    parts.agent.start()
    parts.agent.wait_warm()
    assert_equal_now(parts.second, parts.replica)
    assert parts.agent.status()["history"]["relation"] in ("same", "linked")


def test_a_promotion_under_the_same_proxy_moves_the_cursor(bed):
    parts = Failover(bed, "commands")
    parts.agent.rpc("retarget", proxy=parts.other.address)
    parts.agent.wait_warm()
    replid = info(parts.first)["master_replid"]
    parts.second.command("REPLICAOF", "NO", "ONE")
    parts.second.command("SET", "after the promotion", 1)
    now = info(parts.second)["master_replid"]
    assert now != replid
    parts.agent.wait_status(lambda status: status["history"]["data"]["replid"] == now, "not moved")
    parts.agent.wait_warm()
    assert_equal_now(parts.second, parts.replica)
    wait_for(lambda: cursor_words(parts.replica).get("replid2") == replid, "the cursor is of before")


# ---- upgrades ----

def cursor_of_version_1(server):
    """What an agent of before would have left: the same position, and nothing of the history."""
    words = cursor_words(server)
    text = " ".join(f"{name}={words[name]}" for name in
                    ("epoch", "version", "run_id", "flushes", "held", "refused", "evicted", "filter",
                     "quarantined") if name in words)
    server.command("FUNCTION", "LOAD", "REPLACE", "#!lua name=keywake_cursor\n"
                   "redis.register_function{function_name='keywake_cursor', flags={'no-writes'},\n"
                   f"callback=function() return 'keywake-cursor 1 {text}' end}}\n")


def test_a_cursor_of_version_1_is_resumed_from(bed):
    two = Two(bed)
    two.agent.stop()
    cursor_of_version_1(two.replica)
    two.ours.command("SET", "ours:later", 1)
    two.agent.start()
    two.agent.wait_warm()
    assert_equal_now(two.ours, two.replica)
    status = two.agent.status()
    assert status["snapshots"] == 0, status
    assert two.agent.output().count("does not say whose data") == 1, two.agent.tail()
    wait_for(lambda: cursor_words(two.replica).get("replid") == info(two.ours)["master_replid"],
             "the cursor does not say so")


def test_the_identity_of_a_proxy_is_its_name(bed):
    one = bed.server("one")
    names = {}
    for name, settings in (("a", {}), ("b", {"name": "east"}), ("c", {"name": "west"}),
                           ("d", {"name": "east"})):
        proxy = bed.proxy(one, name, start=False)
        proxy.settings.update(settings)
        proxy.start().wait_live()
        names[name] = proxy.status()["table"]["history"]
        proxy.kill()
        proxy.restart()
        assert proxy.status()["table"]["history"]["proxy"] == names[name]["proxy"]
    assert names["a"]["proxy_name"].endswith(one.address)
    assert names["b"]["proxy_name"] == "east" and names["b"]["proxy"] == names["d"]["proxy"]
    assert len({names[name]["proxy"] for name in "abc"}) == 3


def test_a_server_without_memory_keeps_its_data_until_the_claim_is_written(bed):
    """Its old cursor would say that the data of both sets are those of before."""
    two = Two(bed)
    two.agent.wait_warm()
    before = digest(two.replica)
    two.replica.command("CONFIG", "SET", "maxmemory", 1)
    two.retarget(two.wrong)
    wait_refused(two)
    two.agent.ctl_ok("approve")
    two.agent.wait_status(lambda status: "cursor cannot be written" in status["reason"],
                          "the claim is not refused")
    wait_looks(two.replica, 3)
    assert digest(two.replica) == before
    two.replica.command("CONFIG", "SET", "maxmemory", 0)
    two.agent.wait_warm()
    assert_equal_now(two.foreign, two.replica)
