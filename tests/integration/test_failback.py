"""What other clients wrote to the replica is never kept under `warm`: a failover and back, and less."""
import time

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.cursor import wait_cursor
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 300
OTHERS = "other clients wrote"

MODES = {
    "commands": {},
    "hybrid": {"apply__mode": "hybrid", "apply__consent": True},
    "key": {"apply__cursor_store": "key"},
}


def standing_pair(bed, mode="commands", **replica_config):
    """A pair whose cursor covers all that was written."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS), agent=MODES[mode],
                    replica_config=replica_config)
    pair.primary.command("SET", "one more", 1) # so that mode hybrid writes a cursor by commands
    pair.agent.wait_warm()
    wait_cursor(pair.agent, "key" if mode == "key" else "function")
    return pair


def write_as_clients_do(server):
    """100 keys changed, 100 deleted, 300 added, at once: the size of no database shrinks."""
    with server.client() as client:
        keys = sorted(key for key in client.scan_iter(count=1000) if key.startswith(b"key:"))
        pipeline = client.pipeline(transaction=True) # no look of an agent finds a part of it
        for key in keys[:100]:
            pipeline.set(key, "changed")
        for key in keys[100:200]:
            pipeline.delete(key)
        for number in range(300):
            pipeline.set(f"extra:{number}", 1)
        pipeline.execute()


def foreign_writes(agent):
    return agent.status()["foreign_writes"]


def restart(server):
    server.kill()
    server.restart()


def assert_verified(pair):
    if pair.agent.settings.get("apply.cursor_store") != "key": # the digest sees that key
        assert_equal_now(pair.primary, pair.replica)
    verdict = pair.agent.ctl("verify")
    assert verdict.returncode == 0, verdict.stdout


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_writes_while_no_agent_ran_are_found(bed, mode, end):
    pair = standing_pair(bed, mode)
    getattr(pair.agent, end)()
    write_as_clients_do(pair.replica)
    pair.agent.restart()
    pair.agent.wait_warm()
    assert_verified(pair)
    assert OTHERS in pair.agent.output(), pair.agent.tail()


@pytest.mark.parametrize("how", [
    ("EVAL", "redis.call('set', 'key:1', 'script')", 0),
    ("RESTORE", "stray", 0, b"\x00\x01x\x0b\x00\x0c\x90\x1c\xd5\xc1\xb6\x11\x5e"),
    ("RENAME", "one more", "key:1"),
    ("DEL", "one more"),
], ids=lambda words: words[0])
def test_one_write_across_a_restart_of_the_server_is_found(bed, how):
    pair = standing_pair(bed, appendonly="yes")
    assert pair.agent.stop() == 0
    restart(pair.replica)
    if how[0] == "RESTORE":
        pair.replica.command("SET", "stray", 1)
        payload = pair.replica.command("DUMP", "stray")
        pair.replica.command("DEL", "stray")
        restart(pair.replica) # the counts of these are gone
        how = ("RESTORE", "stray", 0, payload)
    pair.replica.command(*how)
    pair.agent.restart()
    pair.agent.wait_warm()
    assert_verified(pair)
    assert OTHERS in pair.agent.output(), pair.agent.tail()


@pytest.mark.parametrize("mode", ["commands", "hybrid"])
def test_what_agents_use_too_is_found_after_a_clean_end(bed, mode):
    pair = standing_pair(bed, mode)
    assert pair.agent.stop() == 0
    pair.replica.command("UNLINK", "key:7")
    pair.agent.restart()
    pair.agent.wait_warm()
    assert_verified(pair)
    assert OTHERS in pair.agent.output(), pair.agent.tail()


@pytest.mark.parametrize("mode", list(MODES))
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_an_agent_alone_resumes_as_before(bed, mode, end):
    """No false alarm: neither of its own commands, nor of those that only read."""
    pair = standing_pair(bed, mode)
    for _ in range(3):
        with pair.primary.client() as client:
            client.set("a", 1)
            client.delete("key:1")
            client.set("short", 1, px=20) # it expires by itself
            client.execute_command("SELECT", 1)
            client.set("b", 1)
            client.flushdb()
        with pair.replica.client() as client: # readers are welcome
            client.get("a")
            client.execute_command("SORT", "nothing")
            client.execute_command("GETEX", "a")
            client.eval("return redis.call('get', 'a')", 0)
        pair.agent.wait_warm()
        wait_cursor(pair.agent, "key" if mode == "key" else "function")
        getattr(pair.agent, end)()
        pair.agent.restart()
        pair.agent.wait_warm()
        status = pair.agent.status()
        assert status["snapshots"] == 0 and status["foreign_writes"] == 0, pair.agent.tail()
    assert_verified(pair)


def test_a_replayed_aof_is_no_write_of_others(bed, any_server):
    pair = bed.pair(any_server, any_server, fill=data.fill, replica_config={"appendonly": "yes"})
    with pair.primary.client() as client:
        client.eval("redis.call('set', 'x', 1) redis.call('set', 'y', 1)", 0)
        client.pipeline(transaction=True).set("m", 1).incr("n").execute()
    pair.agent.wait_warm()
    wait_cursor(pair.agent)
    for agent_runs in (True, False):
        if not agent_runs:
            pair.agent.stop()
        restart(pair.replica)
        if not agent_runs:
            pair.agent.restart()
        pair.agent.wait_warm()
        wait_cursor(pair.agent)
        status = pair.agent.status()
        assert status["resyncs"] == 0 and status["foreign_writes"] == 0, pair.agent.tail()
    assert status["snapshots"] == 0


@pytest.mark.parametrize("audit", [0, 100])
@pytest.mark.parametrize("mode", ["commands", "hybrid", "key"])
def test_a_client_that_writes_while_the_agent_runs_is_named_and_mended(bed, mode, audit):
    """By an audit; by a reconcile if that is switched off."""
    pair = standing_pair(bed, mode)
    pair.agent.ctl_ok("config", "set", "apply.audit_keys_per_second", audit)
    before = pair.agent.status()["snapshots"]
    write_as_clients_do(pair.replica)
    change = pair.agent.wait_passed("lagging", reason=OTHERS)
    assert "stop them" in change["reason"] and foreign_writes(pair.agent) > 0, change
    pair.agent.wait_warm()
    assert_verified(pair)
    status = pair.agent.status()
    assert status["foreign_writes"] == 500 and (status["snapshots"] > before) == (audit == 0), status
    assert pair.agent.output().count("other clients write to the local server") == 1


def test_a_client_that_goes_on_writing_keeps_the_agent_from_warm(bed):
    pair = standing_pair(bed)
    seen, wrote = foreign_writes(pair.agent), [time.monotonic()]

    def wrote_and_seen(goal):
        before, wrote[0] = wrote[0], time.monotonic()
        pair.replica.command("SET", "stray", 1)
        status = pair.agent.status()
        steady = time.monotonic() - before < 0.3 # after a pause of ours, it may be warm
        return status if steady and status["foreign_writes"] >= goal else None
    wait_for(lambda: wrote_and_seen(seen + 5), "not seen", 30)
    for _ in range(4):
        goal = foreign_writes(pair.agent) + 20
        status = wait_for(lambda goal=goal: wrote_and_seen(goal), "not seen", 30)
        assert status["state"] != "warm", status
    pair.agent.wait_warm()
    assert_verified(pair)


def test_what_others_wrote_is_not_forgotten_by_a_killed_agent(bed):
    """The agent has seen it, and wrote a cursor since: it does not speak for these keys."""
    pair = standing_pair(bed)
    pair.replica.command("SET", "stray", 1)
    pair.agent.wait_passed("lagging", reason=OTHERS)
    pair.primary.command("SET", "another", 1)
    wait_for(lambda: pair.replica.command("GET", "another"), "not applied")
    pair.agent.kill()
    pair.agent.restart()
    pair.agent.wait_warm()
    assert_verified(pair)


def test_a_writable_replica_is_watched_too(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS),
                    agent={"apply__mode": "replica", "apply__consent": True},
                    replica_config={"replica_read_only": "no"})
    pair.replica.command("SET", "stray", 1)
    pair.agent.wait_passed("lagging", reason=OTHERS)
    pair.agent.wait_warm()
    assert_verified(pair)


def test_counts_that_begin_anew_are_no_writes(bed):
    """Neither is the fall of a count a write, nor does it hide the next one."""
    pair = standing_pair(bed)
    write_as_clients_do(pair.replica)
    pair.agent.wait_passed("lagging", reason=OTHERS)
    pair.agent.wait_warm()
    resyncs = pair.agent.status()["resyncs"]
    assert foreign_writes(pair.agent) == 500
    with pair.replica.admin() as client:
        for _ in range(3):
            client.config_resetstat()
            wait_for(lambda: client.info("commandstats").get("cmdstat_info", {}).get("calls", 0)
                     > 20, "nobody looks", 20, 0.2)
        assert foreign_writes(pair.agent) == 500 and pair.agent.status()["resyncs"] == resyncs
        pair.agent.wait_warm()
        client.set("stray", 1)
    wait_for(lambda: foreign_writes(pair.agent) == 501, lambda: pair.agent.status(), 20)
    pair.agent.wait_warm()
    assert_verified(pair)


@pytest.mark.parametrize("settings, database", [
    ({"filter__prefixes": ["key:"]}, 0),
    ({"filter__databases": [0]}, 1),
], ids=["prefixes", "databases"])
def test_others_may_write_what_an_agent_does_not_follow(bed, settings, database):
    """The server's counts do not tell which keys were written: with a filter they prove nothing."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS), agent=settings)
    pair.agent.wait_warm()
    with pair.replica.client(database) as client, pair.replica.admin() as admin:
        def looks():
            return admin.info("commandstats")["cmdstat_info"]["calls"]
        goal = looks() + 12 # every second one is ours
        while looks() < goal:
            client.set("of another service", 1)
            status = pair.agent.status()
            assert OTHERS not in status["reason"] and status["foreign_writes"] == 0, status
            time.sleep(0.2)
        pair.agent.wait_warm()
        assert not [change for change in pair.agent.rpc("history") if OTHERS in change["reason"]]
        pair.agent.stop()
        client.set("of another service", 2)
        pair.agent.restart()
        pair.agent.wait_warm()
        assert client.get("of another service") == b"2"
