"""
Nothing is applied twice: a snapshot of another table is compared with the digests of what was applied,
and only differences reach the local server.
"""
import os

import pytest

from lib import data
from lib.compare import assert_equal_now, digest
from lib.process import wait_for

KEYS = 20_000
FEW = 20
SOUND = {"apply__audit_keys_per_second": 100_000}
MODES = {
    "commands": {},
    "hybrid": {"apply__mode": "hybrid", "apply__consent": True},
    "replica": {"apply__mode": "replica", "apply__consent": True},
}


def fill(primary):
    data.fill(primary, databases=(0, 3))
    data.fill_plain(primary, KEYS)
    data.fill_plain(primary, 500, database=9, prefix="nine:")


def restart(proxy):
    assert proxy.stop() == 0
    proxy.start()


def calls(server, command):
    with server.admin() as client:
        return client.info("commandstats").get(f"cmdstat_{command}", {"calls": 0})["calls"]


def wait_index(agent, state):
    return agent.wait_status(lambda status: status["index"]["state"] == state, f"the index is {state}")


def wait_handed_over(agent, epoch):
    """Warm with another table than the one of this epoch."""
    agent.wait_status(lambda status: status["epoch"] != epoch and status["state"] == "warm",
                      "warm with the other table", 60)


class Handover:
    """Counts what reaches the local server from now on, until it is level with another table."""

    def __init__(self, pair):
        self.pair = pair
        self.before = pair.agent.status()
        self.counts = {name: calls(pair.replica, name) for name in ("restore", "unlink", "scan")}

    def to_restarted(self):
        restart(self.pair.proxy)
        return self.level()

    def level(self):
        wait_handed_over(self.pair.agent, self.before["epoch"])
        assert_equal_now(self.pair.primary, self.pair.replica)
        self.status = self.pair.agent.status()
        for name in ("compared", "differing"):
            setattr(self, name, self.status[name] - self.before[name])
        return self

    def sent(self, command):
        return calls(self.pair.replica, command) - self.counts[command]

    def links(self):
        """How often the link began with all data, and how often it went on: since the handover began."""
        return tuple(self.pair.agent.status()["apply"].get(name, 0) - self.before["apply"].get(name, 0)
                     for name in ("full_syncs", "continuations"))


def pair_of(bed, mode="commands", **agent):
    pair = bed.pair(fill=fill, agent={**MODES[mode], **agent})
    assert_equal_now(pair.primary, pair.replica)
    wait_index(pair.agent, "sound")
    return pair


@pytest.mark.parametrize("mode", MODES)
def test_a_new_table_of_equal_keys_restores_none(bed, mode):
    pair = pair_of(bed, mode)
    index = pair.agent.status()["index"]
    assert KEYS < index["keys"] < KEYS * 2 and index["bytes"] < KEYS * 30, index
    handover = Handover(pair).to_restarted()
    assert handover.compared >= KEYS and handover.differing <= FEW, handover.status
    assert handover.sent("restore") <= FEW
    assert handover.links() == (0, 0) # mode replica: the link goes on
    assert handover.status["index"]["state"] == "sound", handover.status
    assert handover.status["resyncs"] == handover.before["resyncs"] + 1
    # The keys that were passed over are looked at soon: at 100 a second it would be minutes.
    pair.agent.wait_status(lambda status: status["proven_equal_s"] is not None, "all is proven", 60)
    # What follows is applied as ever, and a second handover too.
    with pair.primary.client() as client:
        client.set("key:1", "changed")
        client.delete("key:2")
    pair.settle()
    assert Handover(pair).to_restarted().sent("restore") <= FEW


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_only_what_changed_meanwhile_is_applied(bed, mode):
    pair = pair_of(bed, mode)
    handover = Handover(pair)
    assert pair.proxy.stop() == 0
    with pair.primary.client() as client:
        client.mset({f"key:{i}": "changed" for i in range(100)})
        client.delete(*[f"key:{i}" for i in range(1000, 1100)])
        client.expire("key:5000", 10_000)
        client.set("fresh", "a key")
    pair.proxy.start()
    handover.level()
    assert 102 <= handover.sent("restore") <= 102 + FEW
    assert handover.sent("unlink") > 0
    assert handover.status["keys_pruned"] - handover.before["keys_pruned"] >= 100
    assert handover.links() == (0, 0)
    # The keys that were deleted are not believed to be there.
    handover = Handover(pair)
    assert pair.proxy.stop() == 0
    with pair.primary.client() as client:
        client.mset({f"key:{i}": "back" for i in range(1000, 1100)})
    pair.proxy.start()
    assert handover.level().sent("restore") >= 100


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_another_proxy_of_the_same_primary_is_compared(bed, mode):
    pair = pair_of(bed, mode)
    other = bed.proxy(pair.primary, "other")
    other.wait_live()
    handover = Handover(pair)
    pair.agent.rpc("retarget", proxy=other.address)
    assert handover.level().sent("restore") <= FEW
    assert handover.compared >= KEYS


def test_a_replica_that_restarted_meanwhile_loads_all(bed):
    """Its run is another one: nothing that was known of its data is believed."""
    pair = pair_of(bed, "replica")
    handover = Handover(pair)
    assert pair.proxy.stop() == 0
    pair.replica.kill()
    pair.replica.restart()
    pair.proxy.start()
    handover.level()
    assert handover.links()[0] == 1 and handover.compared == 0


@pytest.mark.parametrize("keys, loads", [(50, 0), (1500, 1)])
def test_keys_that_a_replica_does_not_list(bed, keys, loads):
    """A replica deletes no key whose time is over, and lists none. Few of them may stay; many are loaded away."""
    pair = pair_of(bed, "replica")
    with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
        for i in range(keys):
            pipe.set(f"short:{i}", i, px=20_000)
        pipe.execute()
    pair.settle()
    handover = Handover(pair)
    assert pair.proxy.stop() == 0
    with pair.primary.client() as client: # it deletes them; the replica cannot
        client.delete(*[f"short:{i}" for i in range(keys)])
    with pair.replica.client() as client:
        wait_for(lambda: client.exists(*[f"short:{i}" for i in range(keys)]) == 0, "their time is over", 60)
    pair.proxy.start()
    wait_handed_over(pair.agent, handover.before["epoch"])
    with pair.primary.client() as one, pair.replica.client() as two:
        assert handover.links() == (loads, 0)
        assert two.dbsize() - one.dbsize() == (0 if loads else keys)
        assert set(two.scan_iter(count=5000)) == set(one.scan_iter(count=5000))
    if loads:
        assert_equal_now(pair.primary, pair.replica)


@pytest.mark.parametrize("breaks", ["link", "agent", "replica"])
def test_a_handover_of_a_replica_that_is_cut_off(bed, breaks):
    """Half of the values differ, and something breaks again and again while they are brought."""
    pair = pair_of(bed, "replica", apply__window_bytes=64 << 10)
    handover = Handover(pair)
    assert pair.proxy.stop() == 0
    with pair.primary.client() as client:
        for i in range(0, KEYS, 2):
            client.set(f"key:{i}", f"changed {i} " + "x" * 2000)
        client.delete(*[f"key:{i}" for i in range(1, 2000, 2)])
    pair.proxy.start()
    for _ in range(5):
        before = calls(pair.replica, "restore")
        wait_for(lambda: calls(pair.replica, "restore") > before or pair.agent.status()["state"] == "warm",
                 "values come", 60)
        if breaks == "link":
            pair.replica.command("CLIENT", "KILL", "TYPE", "master")
        elif breaks == "agent":
            pair.agent.kill()
            pair.agent.restart()
        else:
            pair.replica.kill()
            pair.replica.restart()
    pair.agent.wait_status(lambda status: status["epoch"] != handover.before["epoch"] and
                           status["state"] == "warm", "warm with the other table", 120)
    pair.settle()
    assert_equal_now(pair.primary, pair.replica)
    assert pair.agent.ctl("verify").returncode == 0


def test_a_replica_keeps_keys_that_the_brake_holds(bed):
    """The same consent as in the other modes, and the link goes on."""
    pair = pair_of(bed, "replica")
    handover = Handover(pair)
    assert pair.proxy.stop() == 0
    with pair.primary.client() as client:
        client.delete(*[f"key:{i}" for i in range(KEYS // 2)])
    pair.proxy.start()
    pair.agent.wait_state("held", timeout=60)
    with pair.replica.client() as client:
        assert client.get("key:7") is not None
    with pair.primary.client() as client: # what the log says passes
        client.set("said", "by the log")
    wait_for(lambda: pair.replica.client().get("said"), "the log goes on")
    pair.agent.ctl_ok("approve")
    handover.level()
    assert handover.links() == (0, 0)
    assert handover.status["keys_pruned"] - handover.before["keys_pruned"] >= KEYS // 2


def test_without_the_index_all_is_applied_again(bed):
    pair = bed.pair(fill=fill, agent={"apply__index": False})
    assert pair.agent.status()["index"] == {"state": "off", "keys": 0, "bytes": 0}
    handover = Handover(pair).to_restarted()
    assert handover.sent("restore") >= KEYS and handover.compared == 0


# ---- what happened to the local server without the agent ----

def writes(replica):
    with replica.client() as client:
        client.mset({f"key:{i}": "local" for i in range(50)})
        client.delete("key:100", "key:101")


def flushes(replica):
    with replica.client() as client:
        client.flushdb()


def swaps(replica):
    with replica.client() as client:
        client.swapdb(0, 9)


def resets_counts(replica):
    """The counts would have told of the write before it."""
    with replica.client() as client:
        client.mset({f"key:{i}": "local" for i in range(50)})
        client.config_resetstat()


def evicts(replica):
    with replica.client() as client:
        client.config_set("maxmemory-policy", "allkeys-random")
        client.config_set("maxmemory", client.info("memory")["used_memory"] - 300_000)
        wait_for(lambda: client.get("nothing") is None and client.info("stats")["evicted_keys"] > 0,
                 "keys are evicted", 30)
        client.config_set("maxmemory", 0)


def mended(agent):
    """Keys that the audit found: what a snapshot should have brought."""
    status = agent.status()
    return sum(status[f"audit_mended_{kind}"] for kind in ("different", "missing", "extra"))


@pytest.mark.parametrize("change", [writes, flushes, swaps, resets_counts, evicts])
@pytest.mark.parametrize("when", ["seen", "unseen"])
def test_local_changes_of_others_are_mended(bed, change, when):
    """Seen: the agent knew of it when the other table came. Unseen: both come within one look."""
    pair = pair_of(bed, apply__max_prune=1)
    if when == "unseen":
        assert pair.proxy.stop() == 0
    changes = len(pair.agent.rpc("history"))
    change(pair.replica)
    if when == "seen": # it may have been mended by now, too
        pair.agent.wait_status(lambda status: status["state"] != "warm" or status["index"]["state"] != "sound" or
                               len(pair.agent.rpc("history")) > changes, "it was seen", 30)
        assert pair.proxy.stop() == 0
    pair.proxy.start()
    pair.wait_equal(60)
    pair.settle()
    # Writes of others are the audit's to find. The rest comes with a snapshot that brings all, but for the few
    # keys that the audit came to before the agent looked at the server's counts.
    if change not in (writes, resets_counts):
        assert mended(pair.agent) < KEYS // 4, pair.agent.status()


def test_a_local_server_that_lost_its_data_gets_all_of_them(bed):
    pair = pair_of(bed)
    assert pair.proxy.stop() == 0
    pair.replica.kill()
    pair.replica.restart(keep_data=False)
    pair.proxy.start()
    pair.wait_equal(60)
    pair.settle()
    assert mended(pair.agent) < KEYS // 4, pair.agent.status()


def test_an_agent_that_starts_knows_nothing_and_believes_nothing(bed):
    pair = pair_of(bed)
    assert pair.agent.stop() == 0
    assert pair.proxy.stop() == 0
    with pair.replica.client() as client: # the agent cannot have seen it
        client.set("key:7", "local")
    pair.proxy.start()
    pair.agent.start()
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


def test_an_agent_that_resumes_learns_from_its_audit(bed):
    """Its index is built by the audit's first round, at a pace of its own."""
    pair = pair_of(bed)
    assert pair.agent.stop() == 0
    pair.agent.start()
    pair.agent.wait_warm()
    status = pair.agent.wait_status(lambda status: status["proven_equal_s"] is not None, "a round", 90)
    assert status["snapshots"] == 0 and status["index"]["state"] == "building", status
    assert status["index"]["keys"] >= KEYS, status
    handover = Handover(pair).to_restarted()
    assert handover.sent("restore") <= KEYS // 100
    assert handover.sent("scan") > 0 # it cannot know that it knows every key
    wait_index(pair.agent, "sound")


def test_a_doubt_ends_with_a_round_of_the_audit(bed):
    pair = pair_of(bed, **SOUND)
    before = pair.agent.status()["audit_causes"]
    writes(pair.replica)
    pair.agent.wait_status(lambda status: status["audit_causes"] > before, "the writes are seen", 30)
    pair.wait_equal(60)
    wait_index(pair.agent, "sound")
    assert Handover(pair).to_restarted().sent("restore") <= KEYS // 10


def test_what_no_audit_may_look_at_is_not_believed(bed):
    """An audit that is refused would never find what the compare passes over by mistake."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 500)
    replica.command("ACL", "SETUSER", "limited", "on", ">x", "~*", "&*", "+@all", "-dump")
    agent = bed.agent(bed.proxy(primary), replica, redis__username="limited",
                      redis__password_file=bed.file("password", "x\n"), **SOUND)
    agent.wait_warm()
    wait_index(agent, "doubted")
    replica.command("ACL", "SETUSER", "limited", "+dump")
    agent.wait_status(lambda status: status["index"]["state"] == "sound", "the audit has looked", 90)


def test_a_resync_of_the_operator_brings_all(bed):
    pair = pair_of(bed)
    before, snapshots = calls(pair.replica, "restore"), pair.agent.status()["snapshots"]
    pair.agent.rpc("resync")
    pair.agent.wait_status(lambda status: status["snapshots"] > snapshots and status["state"] == "warm",
                           "warm again", 60)
    assert calls(pair.replica, "restore") - before >= KEYS
    wait_index(pair.agent, "sound")


def test_keys_that_the_server_refuses_are_tried_again(bed):
    """A value beyond proto-max-bulk-len is quarantined. The next snapshot offers it again."""
    pair = bed.pair(fill=fill, replica_config={"proto-max-bulk-len": 8 << 20})
    with pair.primary.client() as client:
        client.set("large", os.urandom(12 << 20))
    pair.agent.wait_status(lambda status: status["quarantined"] > 0, "quarantined", 60)
    with pair.replica.client() as client:
        client.config_set("proto-max-bulk-len", 512 << 20)
    epoch = pair.agent.status()["epoch"]
    restart(pair.proxy)
    wait_handed_over(pair.agent, epoch)
    assert_equal_now(pair.primary, pair.replica)
    assert digest(pair.primary) == digest(pair.replica)
