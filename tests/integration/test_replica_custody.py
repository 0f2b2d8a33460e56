"""Apply mode `replica`: what an agent must not forget of its server when it dies, or lets it go."""
import os
import shlex
import subprocess
import time

import pytest
import redis

from lib import data
from lib.compare import assert_equal_now
from lib.cursor import wait_cursor
from lib.daemon import free_port
from lib.process import wait_for
from lib.server import MATRIX
from test_replica_mode import in_the_load

pytestmark = pytest.mark.sanitize

SETTINGS = {"apply__mode": "replica", "apply__consent": True}


def replica_pair(bed, **options):
    return bed.pair("installed", "installed", fill=data.fill, agent=SETTINGS, **options)


def info(server):
    with server.admin() as client:
        return client.info("all")


def setting(server, name):
    with server.admin() as client:
        return client.config_get(name)[name]


def link(agent):
    return agent.status()["apply"]


def settled(pair):
    """Level, and a cursor that says so is in the server."""
    with pair.primary.client() as client:
        client.set("one more", 1)
    pair.settle()
    wait_cursor(pair.agent)


# ---- what comes along ----

def test_the_cursor_of_another_agent_does_not_come_along(bed):
    """It speaks of data that are replaced: its agent would resume upon them, if it came again."""
    primary, other, replica = (bed.server(name) for name in ("primary", "other", "replica"))
    data.fill(primary)
    data.fill_plain(other, 1000, prefix="other:")
    replica.command("FUNCTION", "LOAD", "#!lua name=mine\n"
                    "redis.register_function('hello', function() return 'world' end)")
    before = bed.agent(bed.proxy(other, "proxy-2"), replica, "agent-2", apply__cursor_name="second")
    before.wait_warm()
    other.command("SET", "one more", 1)
    before.wait_warm()
    wait_for(lambda: b"version=0" not in cursor(replica, "second")[0][-1], "no cursor")
    assert before.stop() == 0
    agent = bed.agent(bed.proxy(primary), replica, **SETTINGS)
    agent.wait_warm()
    assert not cursor(replica, "second") and cursor(replica, "mine") and cursor(replica)
    # The other one's turn again: not upon what it left, though the proxy's table is the same.
    assert agent.stop() == 0
    replica.command("REPLICAOF", "NO", "ONE")
    before.settings["apply.consent"] = True
    before.restart()
    before.wait_warm()
    assert_equal_now(other, replica)


# ---- refusals ----

def refuse(pair, key):
    """The primary's key is refused by the replica for want of memory, and acknowledged."""
    before = info(pair.replica)["unexpected_error_replies"]
    acknowledged = link(pair.agent)["acknowledged"]
    pair.replica.command("CONFIG", "SET", "maxmemory", "1")
    with pair.primary.client() as client:
        client.set(key, 1)
    wait_for(lambda: info(pair.replica)["unexpected_error_replies"] > before, "not refused",
             every=0.001)
    pair.replica.command("CONFIG", "SET", "maxmemory", "0")
    wait_for(lambda: link(pair.agent)["acknowledged"] > acknowledged, "not acknowledged", every=0.001)


def cursor(server, name="keywake_cursor"):
    return server.command("FUNCTION", "LIST", "LIBRARYNAME", name, "WITHCODE")


def write_and_see_the_cursor(pair):
    before = cursor(pair.replica)
    with pair.primary.client() as client:
        client.incr("accepted")
    wait_for(lambda: cursor(pair.replica) != before, "no cursor", every=0.001)


def test_a_refusal_is_not_forgotten_by_a_killed_agent(bed):
    """The acknowledgement counts it as done: killed at once when a cursor has followed."""
    pair = replica_pair(bed, replica_config={"replica_ignore_maxmemory": "no"})
    for turn in range(3):
        settled(pair)
        # One cursor now, so that the next is due in 200 ms, when there is memory again for it.
        write_and_see_the_cursor(pair)
        before = cursor(pair.replica)
        refuse(pair, f"refused:{turn}")
        until = time.monotonic() + 0.5
        while time.monotonic() < until and cursor(pair.replica) == before:
            pass
        pair.agent.kill()
        pair.agent.restart()
        pair.settle()
        assert_equal_now(pair.primary, pair.replica)


def test_no_warm_over_a_refusal_that_was_acknowledged(bed):
    """`wait warm` right behind it: what was refused without a word is not in the replica."""
    pair = replica_pair(bed, replica_config={"replica_ignore_maxmemory": "no"})
    for turn in range(3):
        settled(pair)
        # One cursor now: the question that comes with the next is 200 ms away.
        write_and_see_the_cursor(pair)
        refuse(pair, f"refused:{turn}")
        pair.settle()
    # On a busy machine the cursor may have been refused besides. The agent counts when it looks.
    wait_for(lambda: link(pair.agent)["refusals"] == info(pair.replica)["unexpected_error_replies"] >= 3,
             lambda: f"{link(pair.agent)}, the server {info(pair.replica)['unexpected_error_replies']}")


def test_a_refusal_while_the_link_is_down_is_not_written_off(bed):
    """The link breaks right behind the refusal: that it is being waited for forgives nothing."""
    pair = replica_pair(bed, replica_config={"replica_ignore_maxmemory": "no"})
    settled(pair)
    refuse(pair, "refused")
    # The server cannot come again before the agent has looked at it.
    secret = setting(pair.replica, "masterauth")
    pair.replica.command("CONFIG", "SET", "masterauth", "wrong")
    pair.replica.command("CLIENT", "KILL", "TYPE", "master")
    time.sleep(2.5)
    pair.replica.command("CONFIG", "SET", "masterauth", secret)
    pair.agent.wait_warm(60)
    pair.settle()
    assert_equal_now(pair.primary, pair.replica)


def test_no_refusal_no_full_sync(bed):
    """A server that refused commands long ago is continued all the same."""
    pair = replica_pair(bed, replica_config={"replica_ignore_maxmemory": "no"})
    settled(pair)
    refuse(pair, "refused")
    pair.agent.wait_status(lambda status: status["apply"]["full_syncs"] >= 2, "no full sync")
    settled(pair)
    pair.agent.kill()
    pair.agent.restart()
    pair.settle()
    assert link(pair.agent)["full_syncs"] == 0 and link(pair.agent)["continuations"] == 1
    assert_equal_now(pair.primary, pair.replica)


# ---- hands off ----

def test_a_server_sent_to_a_primary_without_a_password_gets_there(bed):
    """The failover that the agent stands aside for must not fail by the password that it set."""
    pair = replica_pair(bed)
    other = bed.server("other", port=free_port())
    other.command("SET", "of the other", 1)
    pair.replica.command("REPLICAOF", "127.0.0.1", other.config["port"])
    pair.agent.wait_state("failed", reason="sent to follow")
    wait_for(lambda: info(pair.replica)["master_link_status"] == "up", "it does not get there", 20)
    assert setting(pair.replica, "masterauth") == ""
    assert pair.replica.command("GET", "of the other") == b"1"
    pair.agent.rpc("resync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


def test_a_promoted_server_keeps_nothing_of_the_agent(bed):
    pair = replica_pair(bed)
    settled(pair)
    pair.agent.kill()
    pair.replica.command("REPLICAOF", "NO", "ONE")
    pair.agent.restart()
    pair.agent.wait_state("failed", reason="promoted")
    wait_for(lambda: setting(pair.replica, "masterauth") == "", "masterauth stays")
    assert setting(pair.replica, "repl-diskless-load") == "disabled"
    pair.agent.rpc("resync")
    pair.settle()
    assert_equal_now(pair.primary, pair.replica)


# ---- in other hands ----

@pytest.mark.parametrize("seen", ["seen", "unseen"])
def test_a_server_in_other_hands_is_left_alone_by_the_next_agent(bed, seen):
    """Its new primary's data have replaced the cursor: that it follows somebody must suffice."""
    pair = replica_pair(bed)
    settled(pair)
    other = bed.server("other", port=free_port())
    other.command("SET", "of the other", 1)
    if seen == "unseen":
        pair.agent.kill()
        pair.replica.command("CONFIG", "SET", "masterauth", "")
    pair.replica.command("REPLICAOF", "127.0.0.1", other.config["port"])
    if seen == "seen":
        pair.agent.wait_state("failed", reason="sent to follow")
    wait_for(lambda: info(pair.replica)["master_link_status"] == "up", "it does not get there", 20)
    pair.agent.kill()
    pair.agent.restart()
    pair.agent.wait_state("failed", reason="made to follow")
    time.sleep(1.5)
    fields = info(pair.replica)
    assert str(fields["master_port"]) == str(other.config["port"])
    assert fields["master_link_status"] == "up"
    assert pair.replica.command("GET", "of the other") == b"1"
    pair.agent.ctl_ok("resync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)
    # It was agreed to: neither death nor restart makes it doubtful again.
    wait_cursor(pair.agent)
    pair.agent.kill()
    pair.agent.restart()
    pair.settle()
    assert link(pair.agent)["continuations"] == 1


def test_an_agent_killed_in_the_first_load_is_no_other_hand(bed):
    """The server then waits for a dead agent, by the replication id of before."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 100_000)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica, **SETTINGS)
    for _ in range(3):
        wait_for(lambda: info(replica)["role"] == "slave", "not taken", 20, 0.001)
        agent.kill()
        agent.restart()
    agent.wait_warm(60)
    assert_equal_now(primary, replica)


@pytest.mark.parametrize("mode", ["replica", "hybrid"])
def test_promoted_when_its_load_was_given_up(bed, mode):
    """The primary's side is gone in mid-load, and the server with its data of before is all there is."""
    primary = bed.server("primary")
    replica = bed.server("replica", **{"key-load-delay": 100,
                                       "loading-process-events-interval-bytes": 2048})
    data.fill_plain(primary, 30_000, length=1000)
    replica.command("SET", "old", 1)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica, **{**SETTINGS, "apply__mode": mode},
                      apply__window_bytes=65536)
    wait_for(lambda: link(agent)["link"] == "snapshot", "no snapshot", 20, 0.001)
    proxy.kill()
    wait_for(lambda: link(agent)["link"] == "off", "the load goes on")

    def promoted():
        try:
            return replica.command("REPLICAOF", "NO", "ONE")
        except redis.exceptions.BusyLoadingError:
            return False
    wait_for(promoted, "it cannot be promoted")
    replica.command("SET", "after the failover", 1)
    time.sleep(1.5)
    proxy.restart()
    agent.wait_state("failed", reason="promoted")
    time.sleep(1.5)
    assert replica.command("GET", "old") == replica.command("GET", "after the failover") == b"1"
    assert info(replica)["role"] == "master" and setting(replica, "masterauth") == ""
    agent.ctl_ok("resync")
    agent.wait_warm()
    assert_equal_now(primary, replica)


# ---- restarted, and perhaps promoted before, while no agent ran ----


@pytest.fixture(params=MATRIX)
def server(request, need_server):
    need_server(request.param)
    return request.param


def led(bed, server, **config):
    """Led until its agent was killed."""
    pair = bed.pair(server, server, fill=data.fill, agent=SETTINGS, replica_config=config)
    settled(pair)
    pair.agent.kill()
    return pair


def restart(server):
    server.kill()
    server.restart()


@pytest.mark.parametrize("long_ago", [False, True])
def test_promoted_and_restarted_while_no_agent_ran(bed, server, long_ago):
    """Its RDB was saved under an id that is no agent's: somebody's failover, and its data count."""
    pair = led(bed, server, repl_backlog_ttl=1)
    pair.replica.command("REPLICAOF", "NO", "ONE")
    if long_ago: # the server forgets whose it was
        wait_for(lambda: str(info(pair.replica)["master_replid2"]).strip("0") == "", "it remembers", 20)
    pair.replica.command("SET", "after the failover", 1)
    pair.replica.command("SAVE")
    restart(pair.replica)
    for _ in range(2):
        pair.agent.restart()
        pair.agent.wait_state("failed", reason="promoted")
        time.sleep(1.2)
        assert info(pair.replica)["role"] == "master"
        assert pair.replica.command("GET", "after the failover") == b"1"
        pair.agent.kill()
    pair.agent.restart()
    pair.agent.wait_state("failed", reason="promoted")
    pair.agent.ctl_ok("resync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


@pytest.mark.parametrize("saved", ["when led", "without an agent", "at the end", "twice started"])
def test_restarted_while_no_agent_ran(bed, server, saved):
    """Nothing was done to it: it is taken again without a word."""
    pair = led(bed, server)
    if saved == "when led":
        pair.agent.restart()
        settled(pair)
        pair.replica.command("SAVE")
        pair.agent.kill()
    elif saved == "at the end":
        pair.replica.command("CONFIG", "SET", "save", "3600 1")
        pair.replica.stop()
    else:
        pair.replica.command("SAVE")
    restart(pair.replica)
    if saved == "twice started":
        restart(pair.replica)
    pair.agent.restart()
    pair.settle()
    assert info(pair.replica)["role"] == "slave"


def test_restarted_twice_and_saved_in_between_before_its_agent(bed, server):
    """The RDB's id is the server's own by then; the agent saw it take that one."""
    pair = led(bed, server)
    pair.agent.restart()
    settled(pair)
    pair.replica.command("SAVE")
    pair.agent.ctl_ok("pause") # it looks on, and does not make it a replica again at once
    for _ in range(3):
        restart(pair.replica)
        run = info(pair.replica)["run_id"]
        # Seen, and looked at: while it loads its RDB nobody knows its id.
        pair.agent.wait_status(lambda status: status["local"]["run_id"] == run
                               and status["reason"] == "paused", "the agent does not see it", 20)
        assert info(pair.replica)["role"] == "master"
        pair.replica.command("SAVE")
    restart(pair.replica)
    pair.agent.ctl_ok("resume")
    pair.settle()
    assert info(pair.replica)["role"] == "slave"


def test_promoted_and_restarted_at_once_under_its_agents_eyes(bed, server):
    """A failover by script, faster than the agent looks: what it made is not undone."""
    pair = led(bed, server)
    pair.agent.restart()
    settled(pair)
    pair.replica.command("REPLICAOF", "NO", "ONE")
    pair.replica.command("SET", "after the failover", 1)
    pair.replica.command("SAVE")
    restart(pair.replica)
    pair.agent.wait_state("failed", reason="promoted")
    time.sleep(1.2)
    assert info(pair.replica)["role"] == "master"
    assert pair.replica.command("GET", "after the failover") == b"1"


def test_restarted_from_an_aof_while_no_agent_ran(bed):
    pair = led(bed, "installed", appendonly="yes")
    time.sleep(1.5) # fsync everysec
    restart(pair.replica)
    pair.agent.restart()
    pair.settle()
    assert info(pair.replica)["role"] == "slave"


def saved(server):
    try:
        return server.command("SAVE")
    except redis.exceptions.BusyLoadingError:
        return False


def test_saved_in_a_load_that_was_given_up(bed):
    """It goes by the id of before until the load is done, so its RDB says that it was led."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 20_000), agent=SETTINGS,
                    replica_config={"key-load-delay": 100,
                                    "loading-process-events-interval-bytes": 2048})
    settled(pair)
    pair.agent.ctl_ok("resync")
    wait_for(lambda: in_the_load(pair.agent), "no load", 20, 0.001)
    pair.agent.kill()
    wait_for(lambda: saved(pair.replica), "still loading", 20)
    restart(pair.replica)
    pair.agent.restart()
    pair.settle()


# ---- what cannot be led ----

MODULE = r"""
#define SHOWN __attribute__((visibility("default")))
int SHOWN RedisModule_OnLoad(void *context, void **argv, int argc)
{
	int (*find)(const char *, void *) = ((int (**)(const char *, void *))context)[0];
	void (*introduce)(void *, const char *, int, int);

	(void)argv, (void)argc;
	if (find("RedisModule_SetModuleAttribs", (void *)&introduce))
		return 1;
	introduce(context, "plain", 1, 1);
	return 0;
}
"""


def test_a_server_with_a_module_that_cannot_load_beside_its_data_is_refused(bed):
    """It would skip swapdb without a word, and load by way of its dump.rdb."""
    primary = bed.server("primary")
    data.fill(primary)
    library = bed.file("plain.so", "")
    subprocess.run([*shlex.split(os.environ.get("CC", "cc")), "-shared", "-fPIC", "-x", "c", "-o", library, "-"],
                   input=MODULE, text=True, check=True)
    os.chmod(library, 0o755)
    replica = bed.server("replica", loadmodule=library, enable_module_command="local")
    replica.command("SET", "old", 1)
    agent = bed.agent(bed.proxy(primary), replica, **SETTINGS)
    agent.wait_state("failed", reason="module plain")
    assert info(replica)["role"] == "master" and setting(replica, "masterauth") == ""
    assert replica.command("GET", "old") == b"1"
    replica.command("MODULE", "UNLOAD", "plain")
    agent.wait_warm()
    assert_equal_now(primary, replica)
