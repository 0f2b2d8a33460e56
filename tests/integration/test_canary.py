"""source.canary_key: which flags it proves, and that it is written to no server that must not be written to."""
import time

import pytest
import redis

from lib import data
from lib.daemon import free_port
from lib.process import SLOW, wait_for
from test_switchover import Pair, Writers

# The replication stream needs no flags.
pytestmark = pytest.mark.notifications

EVERY_S = 10
TRUST = {"source__flags": "trust", "source__canary_key": "canary"}


def sets(server):
    """Calls of SET, ever: each proof begins and ends with one."""
    with server.client() as client:
        return client.info("commandstats").get("cmdstat_set", {}).get("calls", 0)


def proven(status):
    return status["flags"] == "trusted, proven"


def test_a_fence_and_the_key_do_not_hold_each_other_up(bed):
    """No write of the proxy's own waits at a paused server, so nothing waits after it; and none comes later."""
    primary = bed.server("primary", notify_keyspace_events="AE")
    data.fill_plain(primary, 100)
    proxy = bed.proxy(primary, **TRUST)
    proxy.wait_status(proven, "the flags are not proven")
    proxy.ctl_ok("fence", 300)
    written, began = sets(primary), time.monotonic()
    while time.monotonic() - began < EVERY_S + 2: # one would be due
        proxy.ctl_ok("wait", "live", "--timeout", 5 * SLOW)
        time.sleep(0.5)
    with primary.client(timeout=0.3) as client, pytest.raises(redis.exceptions.TimeoutError):
        client.set("written", 0) # it holds
    assert sets(primary) == written and primary.command("EXISTS", "canary") == 0
    proxy.ctl_ok("fence", 0)
    with primary.client(timeout=30) as client:
        client.set("written", 1)
    wait_for(lambda: sets(primary) > written + 1, "the key is not written any more", 3 * EVERY_S)
    proxy.wait_status(proven, "the flags are not proven again")


def test_writes_that_another_pause_holds_back_are_given_up(bed):
    """The proxy does not know of that pause. What it waits for must not come when the pause has ended."""
    primary = bed.server("primary", notify_keyspace_events="AE")
    proxy = bed.proxy(primary, **TRUST)
    proxy.wait_status(proven, "the flags are not proven")
    with primary.client() as client:
        client.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
        written = sets(primary)
        wait_for(lambda: any("canary" in one["name"] for one in client.client_list()), "none waits", 3 * EVERY_S)
        proxy.ctl_ok("wait", "live", "--timeout", 5 * SLOW)
        proxy.ctl_ok("fence", 300)
        wait_for(lambda: not any("canary" in one["name"] for one in client.client_list()), "one still waits", 5)
        client.execute_command("CLIENT", "UNPAUSE")
        assert sets(primary) == written
        proxy.ctl_ok("fence", 0)


class TrustingPair(Pair):
    """Both proxies trust the flags, and have a key to prove them."""

    def __init__(self, bed, **settings):
        server, bed.server = bed.server, lambda name, *words, **config: server(
            name, *words, **{"notify_keyspace_events": "AE", **config})
        super().__init__(bed, **settings)

    def daemon(self, daemon, file):
        if daemon.name in ("old", "new"):
            daemon.settings.update({key.replace("__", "."): value for key, value in TRUST.items()})
        return super().daemon(daemon, file)


def test_a_switchover_with_such_a_key_loses_nothing(bed):
    pair = TrustingPair(bed)
    pair.old.wait_status(proven, "the flags are not proven")
    writers = Writers(pair.first)
    report = pair.run()
    writers.stop()
    assert report["state"] == "retargeted", report
    assert writers.lost(pair.second) == []
    written, began = sets(pair.first), time.monotonic()
    pair.check_switched()
    pair.new.wait_status(proven, "the new primary's flags are not proven", 60)
    wait_for(lambda: time.monotonic() - began > EVERY_S + 2, "", 60)
    assert sets(pair.first) == written, "it is written to the old primary"


def test_the_server_of_a_standby_is_not_written_to(bed):
    """It is the agent's server: a write there is one of another client, and the agent has to mend it."""
    pair = TrustingPair(bed, others=())
    pair.old.wait_status(proven, "the flags are not proven")
    began = time.time()
    before, until = sets(pair.second), time.monotonic() + 2 * EVERY_S + 2
    while time.monotonic() < until:
        assert pair.second.command("EXISTS", "canary") == 0
        time.sleep(0.2)
    assert sets(pair.second) == before
    assert "foreign_writes" not in [change["reason_code"] for change in pair.agent.rpc("history")
                                    if change["at_us"] > began * 1e6]
    status = pair.new.status()
    assert status["state"] == "unconfirmed" and status["flags"] == "trusted, unproven", status
    assert status["flags_proven"] == [] and len(status["flags_unproven"]) == 8, status


@pytest.mark.parametrize("writable", ["no", "yes"])
def test_a_replica_is_not_written_to(bed, writable):
    primary = bed.server("primary", port=free_port(), bind="127.0.0.1")
    replica = bed.server("following", notify_keyspace_events="AE", replicaof=("127.0.0.1", primary.config["port"]),
                         replica_read_only="no" if writable == "yes" else "yes")
    proxy = bed.proxy(replica, **TRUST)
    proxy.wait_live()
    until = time.monotonic() + EVERY_S + 2
    before = sets(replica)
    while time.monotonic() < until:
        assert replica.command("EXISTS", "canary") == 0
        time.sleep(0.2)
    assert sets(replica) == before
    status = proxy.status()
    assert status["state"] == "live" and status["flags"] == "trusted, unproven", status
    assert "may not write source.canary_key" not in proxy.output()


def test_each_class_of_events_is_proved_by_itself(bed):
    primary = bed.server("primary", notify_keyspace_events="AE")
    proxy = bed.proxy(primary, **TRUST)
    status = proxy.wait_status(proven, "the flags are not proven")
    assert status["flags_unproven"] == [] and status["flags_proven"] == [
        "string", "generic", "list", "set", "hash", "sorted set", "stream", "expired"]


@pytest.mark.parametrize("flags,lacking", [
    ("E$", "generic (g), list (l), set (s), hash (h), sorted set (z), stream (t), expired (x)"),
    ("Eg$lszxted", "hash (h)"),
    ("Eg$lshzted", "expired (x)"),
])
def test_a_class_without_events_is_found(bed, flags, lacking):
    """Otherwise its changes would never be told, and the proxy would be live all the same."""
    primary = bed.server("primary", notify_keyspace_events=flags)
    proxy = bed.proxy(primary, **TRUST)
    status = proxy.wait_state("source_down", reason="source.canary_key", timeout=60)
    assert lacking in status["reason"] and "notify-keyspace-events AE" in status["reason"], status
    assert not proven(status)
    primary.command("CONFIG", "SET", "notify-keyspace-events", "AE")
    proxy.wait_live()
    proxy.wait_status(proven, "they are not proven", 60)


def test_a_user_who_may_not_write_all_of_it_is_told_at_once(bed):
    primary = bed.server("primary", notify_keyspace_events="AE")
    proxy = bed.proxy(primary, **TRUST)
    primary.command("ACL", "SETUSER", "default", "-rpush", "-xadd")
    wait_for(lambda: "ACL SETUSER default +rpush +xadd" in proxy.output(), proxy.tail, 3 * EVERY_S)
    status = proxy.wait_status(lambda status: status["flags_unproven"] == ["list", "stream"], "others lack", 5 * EVERY_S)
    assert status["state"] == "live" and status["flags"] == "trusted, unproven", status
    primary.command("ACL", "SETUSER", "default", "+rpush", "+xadd")
    proxy.wait_status(proven, "they are not proven", 3 * EVERY_S)
    assert primary.command("EXISTS", "canary") == 0
