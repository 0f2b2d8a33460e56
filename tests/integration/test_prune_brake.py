"""Keys that only a table's silence would delete wait for the operator, beyond a share of them."""
import os

import pytest

from lib import data
from lib.bed import Pair
from lib.process import SLOW, wait_for
from lib.server import TOP

pytestmark = pytest.mark.sanitize

KEYS = 3000
MODES = ("commands", "replica", "hybrid")
SOME = 10 # keys of another data set
PASSING = 6000 # of short life, and more than the brake would let go
LIVE_MS = 12_000 # of keys that must be in the replica before they expire


def filled(bed, mode, fill=data.fill_plain, keys=KEYS, **agent):
    """A warm pair in this mode."""
    return bed.pair(fill=lambda server: fill(server, keys),
                    agent={"apply__mode": mode, "apply__consent": True, **agent})


def come_back_empty(pair, keys=0):
    """
    The primary is killed and comes back with nothing, or with only some keys, and so is the proxy:
    its own brake cannot know what there was.
    """
    pair.proxy.kill()
    pair.primary.kill()
    pair.primary.start()
    if keys:
        data.fill_plain(pair.primary, keys)
    pair.proxy.restart()
    pair.proxy.wait_live()


def held(pair):
    status = pair.agent.wait_state("held", reason="keywakectl approve", timeout=60)
    assert pair.replica.command("DBSIZE") == KEYS, status
    assert f"{KEYS}" in status["reason"] and "apply.max_prune" in status["reason"], status
    assert status["held"] > 1000 and status["held_of"] == KEYS, status
    return status


def metric(agent, name):
    lines = agent.ctl_ok("metrics")["text"].splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"keywake_agent_{name} ")))


@pytest.mark.parametrize("mode", MODES)
def test_a_primary_that_came_back_empty_deletes_nothing(bed, mode):
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    assert pair.agent.ctl("wait", "warm", "--timeout", 1).returncode == 3
    assert metric(pair.agent, "held") == KEYS
    # On a busy machine it is stalled for a moment.
    wait_for(lambda: metric(pair.agent, 'state{state="held"}') == 1, "the metrics do not say so")
    assert any("WARN" in line.upper() and "keywakectl approve" in line for line in
               pair.agent.output().splitlines()), pair.agent.tail()
    with pair.primary.client() as client:
        client.set("new", 1)
    answer = pair.agent.ctl_ok("approve")
    assert f"{KEYS}" in answer["approved"], answer
    pair.settle()
    assert pair.replica.command("DBSIZE") == 1
    assert "approved by the operator" in pair.agent.output()
    status = pair.agent.status()
    assert status["held"] == 0 and pair.agent.ctl("approve").returncode == 2, status


@pytest.mark.parametrize("mode", MODES)
def test_few_keys_that_go_by_inference_take_no_other_keys_along(bed, mode):
    """The proxy's own brake lets its few keys go: a flush of the database would be more than that."""
    pair = filled(bed, mode)
    come_back_empty(pair, 10)
    status = pair.agent.wait_state("held", timeout=60)
    kept = pair.replica.command("DBSIZE")
    assert kept == KEYS and status["held"] > KEYS - 100, status
    pair.primary.kill()
    pair.proxy.wait_state("source_down")
    pair.primary.restart(keep_data=False)
    pair.proxy.wait_status(lambda status: status["state"] == "live" and status["keys"] == 0,
                           "the ten keys stay")
    with pair.primary.client() as client:
        client.set("told", 1)
    if mode == "commands": # the others keep the server as it was until the snapshot is allowed
        wait_for(lambda: pair.replica.command("EXISTS", "told"), "changes go on")
    pair.agent.wait_state("held", timeout=60)
    assert pair.replica.command("DBSIZE") >= KEYS - 10, pair.agent.tail()


@pytest.mark.parametrize("mode", MODES)
def test_keys_that_come_back_release_it(bed, mode):
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    data.fill_plain(pair.primary, KEYS)
    pair.settle(timeout=120)
    status = pair.agent.status()
    assert status["held"] == 0 and status["holds"] == 1, status
    assert pair.replica.command("DBSIZE") == KEYS


@pytest.mark.parametrize("mode", MODES)
def test_the_finding_follows_what_came_back(bed, mode):
    """Not enough to release it: the operator must read, and approve, what would be deleted now."""
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    data.fill_plain(pair.primary, KEYS // 2)
    status = pair.agent.wait_status(
        lambda status: status["held"] < KEYS - 1000 and f"{status['held']} of {KEYS}" in status["reason"],
        "the finding is the old one", timeout=120)
    assert status["state"] == "held" and status["held"] > 1000, status
    assert pair.replica.command("DBSIZE") == KEYS and status["holds"] == 1, status


@pytest.mark.parametrize("mode", MODES)
def test_it_holds_across_restarts_of_agent_and_proxy(bed, mode):
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    pair.agent.kill()
    pair.agent.restart()
    held(pair)
    pair.proxy.kill()
    pair.agent.wait_state("connecting")
    pair.proxy.restart()
    held(pair)
    assert pair.agent.stop() == 0
    pair.agent.restart()
    held(pair)
    pair.agent.ctl_ok("approve")
    pair.settle()
    assert pair.replica.command("DBSIZE") == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_restarted_local_server_stays_held(bed, mode):
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    pair.replica.command("SAVE")
    pair.replica.kill()
    pair.agent.wait_state("connecting")
    pair.replica.restart()
    held(pair)


@pytest.mark.parametrize("mode", MODES)
def test_an_approval_is_for_one_finding(bed, mode):
    """What was approved of one table is not approved of the next one."""
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    pair.agent.rpc("pause")
    pair.agent.ctl_ok("approve")
    pair.proxy.kill()
    pair.agent.wait_state("connecting") # it was lagging before: paused
    pair.proxy.restart()
    pair.agent.rpc("resume")
    held(pair)


@pytest.mark.parametrize("mode", MODES)
def test_a_share_of_one_switches_it_off(bed, mode):
    pair = filled(bed, mode, apply__max_prune=1)
    come_back_empty(pair)
    pair.wait_same(60)
    assert pair.replica.command("DBSIZE") == 0
    assert pair.agent.status()["holds"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_share_that_is_raised_releases_it(bed, mode):
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    pair.agent.ctl_ok("config", "set", "apply.max_prune", 1)
    pair.wait_same(60)
    assert pair.replica.command("DBSIZE") == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_thousand_keys_may_always_go(bed, mode):
    pair = filled(bed, mode, keys=1000, apply__max_prune=0)
    come_back_empty(pair)
    pair.wait_same(60)
    assert pair.replica.command("DBSIZE") == 0
    assert pair.agent.status()["holds"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_a_share_of_the_keys_may_go(bed, mode):
    pair = filled(bed, mode, keys=10_000)
    come_back_empty(pair, 8_500)
    pair.wait_same(60)
    pair.settle()
    assert pair.replica.command("DBSIZE") == 8_500
    assert pair.agent.status()["holds"] == 0


@pytest.mark.parametrize("mode", MODES)
def test_more_than_the_share_is_told_apart_by_a_sample(bed, mode):
    """Far more keys than a sample has."""
    pair = filled(bed, mode, keys=20_000)
    come_back_empty(pair, 10_000)
    status = pair.agent.wait_state("held", timeout=60)
    assert 8_500 < status["held"] < 11_500 and status["held_of"] == 20_000, status
    assert pair.replica.command("DBSIZE") == 20_000
    data.fill_plain(pair.primary, 20_000)
    pair.settle(timeout=120)


@pytest.mark.parametrize("mode", MODES)
def test_what_the_primary_says_passes_at_once(bed, mode):
    """A flush, and deletes one by one, are no inference."""
    pair = filled(bed, mode)
    with pair.primary.client() as client:
        for start in range(0, 2000, 500):
            client.delete(*(f"key:{i}" for i in range(start, start + 500)))
    pair.settle()
    assert pair.replica.command("DBSIZE") == KEYS - 2000
    pair.primary.command("FLUSHALL")
    pair.settle()
    assert pair.replica.command("DBSIZE") == 0 and pair.agent.status()["holds"] == 0


def test_changes_go_on_while_a_prune_waits(bed):
    pair = filled(bed, "commands")
    come_back_empty(pair)
    held(pair)
    with pair.primary.client() as client:
        client.set("key:1", "new")
        client.set("other", "1")
    wait_for(lambda: pair.replica.command("GET", "other") == b"1" and
             pair.replica.command("GET", "key:1") == b"new", "the changes come")
    pair.primary.command("DEL", "key:1")
    wait_for(lambda: pair.replica.command("EXISTS", "key:1") == 0, "the delete comes")
    pair.agent.wait_state("held") # on a busy machine it is stalled for a moment
    pair.primary.command("FLUSHALL")
    pair.settle(timeout=120)
    assert pair.replica.command("DBSIZE") == 0, pair.agent.status()


def test_the_connection_to_the_server_may_break_while_a_prune_waits(bed):
    pair = filled(bed, "commands")
    come_back_empty(pair)
    held(pair)
    pair.replica.command("CLIENT", "KILL", "TYPE", "normal")
    with pair.primary.client() as client:
        client.set("other", 1)
    wait_for(lambda: pair.replica.command("EXISTS", "other") == 1, "changes go on")
    pair.agent.wait_state("held")
    pair.agent.ctl_ok("approve")
    pair.replica.command("CLIENT", "KILL", "TYPE", "normal")
    pair.settle(timeout=60)
    assert pair.replica.command("DBSIZE") == 1


@pytest.mark.parametrize("mode", MODES)
def test_a_paused_agent_keeps_the_finding(bed, mode):
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    pair.agent.ctl_ok("pause")
    pair.agent.wait_state("lagging", reason="paused")
    pair.agent.ctl_ok("resume")
    held(pair)
    pair.agent.ctl_ok("resync")
    held(pair)


@pytest.mark.parametrize("mode", MODES)
def test_another_proxy_may_be_followed_instead(bed, mode):
    """The way out when the empty proxy is the wrong one. It has another data set, so a person agrees to it."""
    pair = filled(bed, mode)
    keeper = bed.server("keeper")
    data.fill_plain(keeper, KEYS)
    other = bed.proxy(keeper, name="other")
    other.wait_live()
    come_back_empty(pair)
    held(pair)
    pair.agent.rpc("retarget", proxy=other.address)
    pair.agent.wait_state("failed", reason="another data set")
    pair.agent.ctl_ok("approve")
    pair.agent.wait_warm(60)
    pair.primary = keeper
    pair.settle()


def test_only_the_keys_that_are_followed_count(bed):
    """Keys of other prefixes and databases are neither deleted nor part of the share."""
    replica = bed.server("replica")
    data.fill_plain(replica, 20_000, prefix="others:")
    data.fill_plain(replica, 20_000, database=3)
    primary = bed.server("primary")
    data.fill_plain(primary, KEYS)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, filter__prefixes=["key:"], filter__databases=[0])
    agent.wait_warm()
    proxy.kill()
    primary.kill()
    primary.start()
    proxy.restart()
    status = agent.wait_state("held", timeout=60)
    assert status["held"] == KEYS and status["held_of"] == KEYS, status
    assert replica.command("DBSIZE") == 20_000 + KEYS
    data.fill_plain(primary, KEYS)
    agent.wait_warm(120)
    assert replica.command("DBSIZE") == 20_000 + KEYS


def test_consent_covers_the_data_that_it_was_given_for(bed):
    """The first claim of a server without our cursor: the operator said that its data may go."""
    replica = bed.server("replica")
    data.fill_plain(replica, KEYS, prefix="others:")
    primary = bed.server("primary")
    data.fill_plain(primary, 10)
    agent = bed.agent(bed.proxy(primary), replica, apply__consent=True)
    agent.wait_warm()
    assert replica.command("DBSIZE") == 10


def test_without_scan_the_numbers_of_keys_are_compared(bed):
    """Mode replica: a permission that is missing must not decide whether a server is emptied."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, KEYS)
    with open(os.path.join(TOP, "deploy", "acl", "replica-mode.acl"), encoding="utf-8") as stream:
        words = next(line for line in stream if line.startswith("user ")).split()[1:]
    replica.command("ACL", "SETUSER", *words, "-scan")
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, redis__username=words[0],
                      redis__password_file=bed.file("password", "change-me\n"),
                      apply__mode="replica", apply__consent=True)
    pair = Pair(primary, proxy, agent, replica)
    agent.wait_warm()
    come_back_empty(pair)
    held(pair)
    agent.ctl_ok("approve")
    agent.wait_warm(60)
    assert replica.command("DBSIZE") == 0


@pytest.mark.parametrize("mode", ["replica", "hybrid"])
def test_a_name_too_long_to_be_remembered_hides_no_other_keys(bed, mode):
    """The first one that a walk finds. Then the numbers of keys are compared."""
    def fill(primary, keys):
        primary.command("SET", "x" * (1 << 21), 1)
        data.fill_plain(primary, keys, database=1)
    pair = filled(bed, mode, fill=fill)
    come_back_empty(pair)
    status = pair.agent.wait_state("held", reason="keywakectl approve", timeout=60)
    assert status["held"] > 1000, status
    with pair.replica.client(1) as client:
        assert client.dbsize() == KEYS


def test_expired_keys_count_neither_as_kept_nor_as_deleted(bed):
    """A replica keeps them, and DBSIZE counts them, until its primary deletes them."""
    pair = filled(bed, "replica")
    pair.proxy.stop()
    pair.proxy.restart() # without keys of short life in its first scan
    with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
        for i in range(PASSING):
            pipe.set(f"passing:{i}", 1, px=int(LIVE_MS * SLOW))
        pipe.execute()
    wait_for(lambda: pair.replica.command("DBSIZE") == KEYS + PASSING, "the keys come")
    pair.proxy.kill()
    wait_for(lambda: pair.primary.command("DBSIZE") == KEYS, "the keys expire", 60)
    assert pair.replica.command("DBSIZE") == KEYS + PASSING
    pair.proxy.restart()
    pair.agent.wait_warm(60)
    assert pair.agent.status()["holds"] == 0 and pair.replica.command("DBSIZE") == KEYS


def test_consent_outlives_the_agent_that_it_was_given_to(bed):
    """Killed between its first claim and the prune: the next start knows what was agreed to."""
    replica = bed.server("replica")
    data.fill_plain(replica, KEYS, prefix="others:")
    replica.command("ACL", "SETUSER", "default", "-scan") # so it stays there
    primary = bed.server("primary")
    data.fill_plain(primary, 10)
    agent = bed.agent(bed.proxy(primary), replica, apply__consent=True)
    agent.wait_state("failed", reason="+scan")
    agent.kill()
    replica.command("ACL", "SETUSER", "default", "+scan")
    agent.restart()
    agent.wait_warm()
    assert replica.command("DBSIZE") == 10


def test_an_approval_outlives_the_agent_that_it_was_given_to(bed):
    """Killed in the midst of the prune: the next start deletes what is left of the finding."""
    pair = filled(bed, "commands")
    come_back_empty(pair)
    held(pair)
    pair.replica.command("ACL", "SETUSER", "default", "-scan") # so it stays there
    pair.agent.ctl_ok("approve")
    pair.agent.wait_state("failed", reason="+scan")
    pair.agent.kill()
    pair.replica.command("DEL", "key:1")
    pair.replica.command("ACL", "SETUSER", "default", "+scan")
    pair.agent.restart()
    pair.agent.wait_warm()
    assert pair.replica.command("DBSIZE") == 0
    # It was for that table alone: the primary's next death asks again.
    data.fill_plain(pair.primary, KEYS)
    wait_for(lambda: pair.replica.command("DBSIZE") == KEYS, "the keys do not arrive", 60, 0.2)
    pair.agent.wait_warm()
    come_back_empty(pair)
    held(pair)
