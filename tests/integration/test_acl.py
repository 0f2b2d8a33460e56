"""The ACL lines we publish are enough, and a missing permission is named."""
import os
import time

import pytest

from lib import data
from lib.compare import wait_same
from lib.process import wait_for
from lib.server import MATRIX, TOP

ACLS = os.path.join(TOP, "deploy", "acl")
PASSWORD = "change-me"

# deploy/acl/primary-stream.acl is in test_stream.py.
pytestmark = [pytest.mark.sanitize, pytest.mark.notifications]


def acl_words(file):
    """The one user line of a published file."""
    with open(os.path.join(ACLS, file), encoding="utf-8") as stream:
        lines = [line for line in stream.read().splitlines() if line.startswith("user ")]
    assert len(lines) == 1, file
    return lines[0].split()[1:]


def set_user(server, file, *changes):
    """Without what the server is too old to know, as the file says."""
    words = [word for word in acl_words(file) if word != "+client|no-touch" or server.version >= (7, 2, 0)]
    server.command("ACL", "SETUSER", *words, *changes)
    return words[0]


def guarded_pair(bed, proxy_changes=(), agent_changes=()):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary, (0, 10))
    proxy_user = set_user(primary, "primary-config.acl", *proxy_changes)
    agent_user = set_user(replica, "replica.acl", *agent_changes)
    password = bed.file("password", PASSWORD + "\n")
    proxy = bed.proxy(primary, redis__username=proxy_user, redis__password_file=password)
    agent = bed.agent(proxy, replica, redis__username=agent_user, redis__password_file=password)
    return primary, proxy, agent, replica


def primary_acl(primary):
    if primary.version < (7, 0, 0):
        return "primary-6.acl"
    return "primary-7.2.acl" if primary.version >= (7, 2, 0) else "primary.acl"


# A user of this file follows the primary with these settings.
FOLLOWING = {
    "trust": dict(source__flags="trust"),
    "check": dict(source__flags="check"),
    "set": {},
}


@pytest.mark.parametrize("flags", FOLLOWING)
@pytest.mark.parametrize("server", MATRIX)
def test_the_published_acls_are_enough(bed, server, flags, need_server):
    need_server(server)
    primary = bed.server("primary", server, **({} if flags == "set" else {"notify_keyspace_events": "AE"}))
    replica = bed.server("replica", server)
    data.fill(primary, (0, 10))
    password = bed.file("password", PASSWORD + "\n")
    if flags == "trust":
        user = set_user(primary, primary_acl(primary))
    else:
        more = ("+client|no-touch",) if primary.version >= (7, 2, 0) else ()
        less = ("-config|set",) if flags == "check" else ()
        user = set_user(primary, "primary-config.acl", *more, *less)
    proxy = bed.proxy(primary, redis__username=user, redis__password_file=password, **FOLLOWING[flags])
    agent = bed.agent(proxy, replica, redis__username=set_user(replica, "replica.acl"),
                      redis__password_file=password)
    agent.wait_warm()
    with primary.client() as client:
        client.set("more", 1, ex=5000)
        client.delete("list:1")
        client.execute_command("FLUSHDB")
        client.xadd("stream", {"a": 1})
        client.xgroup_create("stream", "g", id="0")
        client.xreadgroup("g", "c", {"stream": ">"})
    wait_same(primary, replica)
    for one in (primary, replica):
        assert not one.command("ACL", "LOG"), one.command("ACL", "LOG")


def test_a_user_of_version_0_1_needs_no_new_setting(bed):
    """It has +config|get and +config|set, and the default of source.flags is what 0.1 did."""
    primary, proxy, agent, replica = guarded_pair(bed)
    agent.wait_warm()
    assert b"A" in primary.command("CONFIG", "GET", "notify-keyspace-events")[1]
    wait_same(primary, replica)
    assert proxy.rpc("config.get", path="source.flags") == "set"


def test_without_config_the_sentence_names_both_remedies(bed):
    """The published line with the default: a new installation that forgot source.flags."""
    primary = bed.server("primary")
    password = bed.file("password", PASSWORD + "\n")
    proxy = bed.proxy(primary, redis__username=set_user(primary, primary_acl(primary)),
                      redis__password_file=password)
    reason = proxy.wait_state("source_down")["reason"]
    assert "source.flags=trust" in reason and "+config|get" in reason, reason


def idle_seconds(server):
    with server.client() as client:
        return min(client.object("IDLETIME", f"key:{i}") for i in range(100))


@pytest.mark.parametrize("server", MATRIX[1:]) # CLIENT NO-TOUCH: from 7.2 on
def test_a_scan_does_not_count_as_use_of_the_keys(bed, server, need_server):
    """Eviction by LRU goes by idle times."""
    need_server(server)
    primary = bed.server("primary", server)
    data.fill_plain(primary, 100)
    wait_for(lambda: idle_seconds(primary) >= 3, "the keys are not idle")
    bed.proxy(primary).wait_live()
    assert idle_seconds(primary) >= 3


def test_a_user_that_may_not_leave_keys_untouched_is_told_and_goes_on(bed, need_server):
    need_server("redis-trixie")
    primary = bed.server("primary", "redis-trixie")
    password = bed.file("password", PASSWORD + "\n")
    proxy = bed.proxy(primary, redis__username=set_user(primary, "primary-config.acl"),
                      redis__password_file=password)
    proxy.wait_live()
    wait_for(lambda: "+client|no-touch" in proxy.output(), "the log names no permission")


@pytest.mark.parametrize("taken", ["-dump", "-scan", "-psubscribe", "-client|tracking",
                                   "resetchannels", "-info", "-config|get"])
def test_a_permission_missing_on_the_primary_is_named(bed, taken):
    primary, proxy, agent, _ = guarded_pair(bed, proxy_changes=(taken,))
    status = proxy.wait_state("source_down", timeout=30)
    reason = status["reason"].lower()
    assert "keywake-proxy" in reason or "acl" in reason, status
    word = "channel" if taken == "resetchannels" else taken[1:].split("|")[0]
    assert word in reason, status
    assert agent.status()["state"] != "warm"
    set_user(primary, "primary-config.acl") # mended while it runs
    proxy.wait_live()
    agent.wait_warm()


@pytest.mark.parametrize("dryrun", [False, True])
def test_all_that_is_missing_on_the_primary_is_named_at_once(bed, dryrun):
    """One sentence, and the one line that it gives mends all of it."""
    lacks = ("-scan", "-dump", "-psubscribe", "-client|tracking", "-config|get")
    primary, proxy, agent, _ = guarded_pair(bed, proxy_changes=lacks + (("+acl|dryrun",) if dryrun else ()))
    reason = proxy.wait_state("source_down", timeout=30)["reason"]
    for lack in lacks:
        assert "+" + lack[1:] in reason, reason
    assert ("+subscribe" in reason) is not dryrun, reason
    words = reason[reason.index("ACL SETUSER"):].replace("'", "").split()
    primary.command(*words)
    proxy.wait_live()
    agent.wait_warm()


def test_without_config_set_the_flags_must_be_there(bed):
    primary, proxy, agent, _ = guarded_pair(bed, proxy_changes=("-config|set",))
    status = proxy.wait_state("source_down", timeout=30)
    assert "notify-keyspace-events" in status["reason"], status
    primary.command("CONFIG", "SET", "notify-keyspace-events", "AE")
    proxy.wait_live()
    agent.wait_warm()


@pytest.mark.parametrize("taken", ["-restore", "-unlink", "-info", "-select"])
def test_a_permission_missing_on_the_replica_is_named(bed, taken):
    primary, _, agent, replica = guarded_pair(bed, agent_changes=(taken,))
    with primary.client() as client, replica.client() as copy:
        client.set("key", 1)
        if taken == "-unlink": # what never reached the replica needs no UNLINK
            wait_for(lambda: copy.exists("list:1"), "list:1 never reached the replica")
        client.delete("list:1")
    status = agent.wait_status(
        lambda status: status["state"] != "warm" and taken[1:] in (status["reason"] or "").lower(),
        f"no reason that names {taken}")
    assert status["state"] in ("failed", "lagging", "connecting", "bootstrapping"), status
    set_user(replica, "replica.acl")
    agent.wait_warm()


MODES = { # how an agent is given less than it needs: what a trial finds, and what only DRYRUN tells
    "commands": ("replica.acl", ("-select", "-scan", "-dump", "-client|list", "-function|load"),
                 ("-restore", "-unlink", "-flushdb")),
    "replica": ("replica-mode.acl", ("-scan", "-client|setname", "-function|list", "-config|set"),
                ("-replicaof", "-function|dump")),
}


@pytest.mark.parametrize("dryrun", [False, True])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("server", ["installed", "valkey-trixie"])
def test_all_that_is_missing_on_the_replica_is_named_at_once(bed, server, mode, dryrun, need_server):
    """One sentence, and the one line that it gives mends all of it."""
    need_server(server)
    primary, replica = bed.server("primary", server), bed.server("replica", server)
    data.fill_plain(primary, 100)
    file, tried, asked = MODES[mode]
    user = set_user(replica, file, *tried, *asked, *(("+acl|dryrun",) if dryrun else ()))
    agent = bed.agent(bed.proxy(primary), replica, apply__mode=mode, apply__consent=True,
                      redis__username=user, redis__password_file=bed.file("password", PASSWORD + "\n"))
    reason = agent.wait_status(lambda status: "ACL SETUSER" in (status["reason"] or ""),
                               "no line that mends it")["reason"]
    lacks, line = reason.split("ACL SETUSER")
    for lack in tried + asked:
        assert "+" + lack[1:] in line.split(), reason
    for lack in tried + (asked if dryrun else ()):
        assert "+" + lack[1:] in lacks, reason
    replica.command("ACL", "SETUSER", *line.split())
    agent.wait_warm()
    wait_same(primary, replica)


def test_a_permission_that_is_taken_later_is_named_with_all_others(bed):
    """No trial finds it, and the connection goes on."""
    primary, _, agent, replica = guarded_pair(bed)
    agent.wait_warm()
    replica.command("ACL", "SETUSER", "keywake-agent", "-restore", "-scan")
    primary.command("SET", "more", 1)
    reason = agent.wait_state("failed", reason="ACL SETUSER")["reason"]
    line = reason.split("ACL SETUSER")[1].split()
    assert "+restore" in line and "+scan" in line, reason
    replica.command("ACL", "SETUSER", *line)
    agent.wait_warm()
    wait_same(primary, replica)


def test_a_permission_that_only_a_reconcile_needs_is_named(bed):
    """Stale keys that cannot be looked for: whoever asks is told what is missing, and for whom."""
    primary, _, agent, replica = guarded_pair(bed, agent_changes=("-scan",))
    agent.wait_warm()
    replica.command("SET", "stale", 1)
    agent.ctl_ok("resync")
    agent.wait_state("failed", reason="lacks +scan")
    said = agent.output().count("cannot be deleted")
    time.sleep(2.5)
    assert agent.status()["state"] == "failed"
    assert agent.output().count("(trying again)") <= 1 <= said, agent.tail()
    set_user(replica, "replica.acl")
    agent.wait_warm()
    wait_same(primary, replica)


@pytest.mark.quick
def test_a_permission_that_only_a_flush_of_prefixes_needs_is_named(bed):
    """No server that is loading: only a person can mend it."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 100)
    password = bed.file("password", PASSWORD + "\n")
    user = set_user(replica, "replica.acl")
    agent = bed.agent(bed.proxy(primary), replica, redis__username=user,
                      redis__password_file=password, filter__prefixes=["key:"])
    agent.wait_warm()
    replica.command("ACL", "SETUSER", user, "-scan")
    # ASYNC, because Redis 8 counts others late (feed/notify/flush.h), and their keys go one by one.
    primary.command("FLUSHALL", "ASYNC")
    agent.wait_state("failed", reason="+scan")
    replica.command("ACL", "SETUSER", user, "+scan")
    agent.wait_warm()
    assert replica.command("DBSIZE") == 0


def test_a_wrong_password_is_named(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    user = set_user(primary, "primary.acl")
    wrong = bed.file("password", "not this one")
    proxy = bed.proxy(primary, redis__username=user, redis__password_file=wrong)
    status = proxy.wait_state("source_down", "connecting", reason="password")
    assert "not this one" not in status["reason"] + proxy.output()
    agent = bed.agent(proxy, replica, redis__username="nobody", redis__password_file=wrong)
    agent.wait_status(lambda status: "password" in (status["reason"] or "").lower(), "no reason")


def test_a_password_without_a_user(bed):
    """requirepass, the old way."""
    pair_config = {"requirepass": "sesame"}
    primary, replica = (bed.server(name, **pair_config) for name in ("primary", "replica"))
    password = bed.file("password", "sesame\n")
    proxy = bed.proxy(primary, redis__password_file=password)
    agent = bed.agent(proxy, replica, redis__password_file=password)
    with primary.client(password="sesame") as client:
        client.set("key", 1)
        agent.wait_warm()
    with replica.client(password="sesame") as client:
        assert client.get("key") == b"1"


def test_a_password_file_others_may_read_is_refused(bed):
    primary = bed.server("primary")
    loose = bed.file("password", "sesame", mode=0o644)
    proxy = bed.proxy(primary, start=False, redis__password_file=loose)
    proxy.start(wait=False)
    assert proxy.wait_exit() == 2
    assert "chmod" in proxy.output()


@pytest.mark.parametrize("server", MATRIX)
def test_the_canary_line_is_enough_and_writes_one_key(bed, server, need_server):
    need_server(server)
    primary = bed.server("primary", server, notify_keyspace_events="AE")
    user = set_user(primary, "primary-canary.acl")
    proxy = bed.proxy(primary, source__flags="trust", source__canary_key="keywake:canary",
                      redis__username=user, redis__password_file=bed.file("password", PASSWORD + "\n"))
    proxy.wait_status(lambda status: status["flags"] == "trusted, proven", "they are not proven", 60)
    assert not primary.command("ACL", "LOG"), primary.command("ACL", "LOG")
    for write in (["SET", "keywake:canary2", 1], ["DEL", "other"], ["XADD", "other", "*", "f", 1]):
        assert b"permissions" in primary.command("ACL", "DRYRUN", user, *write), write


def test_the_switchover_line_is_enough_for_the_fence(bed):
    primary = bed.server("primary")
    set_user(primary, "primary-switchover.acl", "+config|get", "+config|set")
    proxy = bed.proxy(primary, redis__username="keywake-proxy",
                      redis__password_file=bed.file("password", PASSWORD + "\n"))
    proxy.wait_live()
    proxy.ctl_ok("fence", 1000)
    proxy.ctl_ok("fence", 0)
    assert primary.client().set("written", 1)
    primary.command("ACL", "SETUSER", "keywake-proxy", "-client|pause")
    assert "+client|pause" in proxy.ctl("fence", 1).stderr
