"""Apply mode `replica` where the local server is configured, loaded or treated in uncommon ways."""
import signal
import time

import pytest

from lib import data
from lib.compare import assert_equal_now, digest, wait_same
from lib.cursor import wait_cursor
from lib.process import SLOW, wait_for
from lib.server import MATRIX

REPLICA = {"apply__mode": "replica", "apply__consent": True}
# A server that takes its time over an RDB, and looks at its connections meanwhile.
SLOW_LOAD = {"key-load-delay": 100, "loading-process-events-interval-bytes": 2048}


def pair_of(bed, server="installed", agent=None, **options):
    return bed.pair(server, server, agent={**REPLICA, **(agent or {})}, **options)


def info(server):
    with server.admin() as client:
        return client.info("all")


def link(agent):
    return agent.status()["apply"]


def write(server, key, value=1, db=0, **options):
    with server.client(db) as client:
        client.set(key, value, **options)


@pytest.fixture(params=MATRIX)
def server(request, need_server):
    need_server(request.param)
    return request.param


def loading(bed, server="installed", keys=30_000, repl_timeout=60):
    """An agent whose server has begun to load a large snapshot, slowly; it held one old key."""
    primary = bed.server("primary", server)
    data.fill_plain(primary, keys)
    replica = bed.server("replica", server, repl_timeout=repl_timeout, **SLOW_LOAD)
    write(replica, "old")
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica, **REPLICA)
    wait_for(lambda: link(agent)["link"] in ("snapshot", "loading"), "no load", 20, 0.001)
    return primary, replica, agent


# ---- the load ----

def test_a_load_longer_than_every_patience(bed, server):
    """100 µs a key: seconds in which the server sends newlines only, with a repl-timeout of 4 s."""
    primary, replica, agent = loading(bed, server, 60_000, repl_timeout=4)
    write(primary, "written meanwhile")
    agent.wait_warm(90)
    assert_equal_now(primary, replica)
    assert link(agent)["full_syncs"] == 1, link(agent)


@pytest.mark.parametrize("act", ["pause", "resync", "stop", "sigstop", "client kill"])
def test_what_an_operator_does_during_the_load(bed, act):
    primary, replica, agent = loading(bed, repl_timeout=2)
    if act == "pause":
        agent.ctl_ok("pause")
        time.sleep(4)
        agent.ctl_ok("resume")
    elif act == "resync":
        agent.ctl_ok("resync")
    elif act == "stop":
        begun = time.monotonic()
        assert agent.stop() == 0
        assert time.monotonic() - begun < 15 * SLOW # an agent that ends has ten seconds
        agent.restart()
    elif act == "sigstop":
        agent.signal(signal.SIGSTOP)
        time.sleep(4)
        agent.signal(signal.SIGCONT)
    else:
        replica.command("CLIENT", "KILL", "TYPE", "master")
    write(primary, "written meanwhile")
    agent.wait_warm(60)
    assert_equal_now(primary, replica)
    assert replica.alive and info(replica)["unexpected_error_replies"] == 0


# ---- settings of the server ----

def test_a_server_that_began_with_swapdb_keeps_it(bed):
    pair = pair_of(bed, fill=data.fill, replica_config={"repl-diskless-load": "swapdb"})
    pair.settle()
    time.sleep(1)
    with pair.replica.admin() as client:
        assert client.config_get("repl-diskless-load")["repl-diskless-load"] == "swapdb"


def test_a_user_with_the_rights_of_the_other_mode_is_told(bed):
    """deploy/acl/replica.acl suffices for RESTORE: not for REPLICAOF and CONFIG SET."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    replica.command("ACL", "SETUSER", "keywake", "on", ">secret", "~*", "&*", "+@all",
                    "-replicaof", "-slaveof", "-config")
    agent = bed.agent(bed.proxy(primary), replica, redis__username="keywake",
                      redis__password_file=bed.file("password", "secret"), **REPLICA)
    reason = agent.wait_status(lambda status: status["state"] in ("failed", "lagging", "connecting")
                               and "NOPERM" in status["reason"].upper() or
                               "permission" in status["reason"].lower(),
                               "the missing right is not told")["reason"]
    assert "replicaof" in reason.lower() or "config" in reason.lower(), reason
    assert replica.alive and info(replica)["role"] == "master"


def test_payloads_too_new_never_reach_the_server(bed, need_server):
    need_server("redis-trixie")
    primary, replica = bed.server("primary", "redis-trixie"), bed.server("replica", "own")
    data.fill(primary)
    write(replica, "old")
    agent = bed.agent(bed.proxy(primary), replica, **REPLICA)
    reason = agent.wait_state("failed")["reason"]
    assert str(primary.rdb_version("float")) in reason and "10" in reason
    assert replica.alive and replica.command("GET", "old") == b"1"


@pytest.mark.parametrize("primary, replica", [
    ("own", "redis-trixie"), ("own", "valkey-trixie"), ("valkey-trixie", "redis-trixie"),
])
def test_between_versions(bed, need_server, primary, replica):
    for name in (primary, replica):
        need_server(name)
    pair = bed.pair(primary, replica, fill=lambda server: data.fill(server, (0, 5)), agent=REPLICA)
    data.fill(pair.primary, (9,))
    pair.agent.wait_warm()
    wait_same(pair.primary, pair.replica)
    assert info(pair.replica)["unexpected_error_replies"] == 0


# ---- what is done to the replica's data ----

def test_databases_swapped_on_a_writable_replica(bed):
    """replica-read-only no: the count of SWAPDB tells, and a snapshot mends it."""
    pair = pair_of(bed, fill=data.fill, replica_config={"replica-read-only": "no"})
    pair.settle()
    before = pair.agent.status()["apply"]["full_syncs"]
    pair.replica.command("SWAPDB", 0, 1)
    wait_for(lambda: pair.agent.status()["apply"]["full_syncs"] > before, "it goes unnoticed", 20)
    pair.wait_equal(60)
    assert pair.agent.ctl("verify").returncode == 0


def test_data_lost_by_a_restart_from_an_empty_disk(bed, server):
    pair = pair_of(bed, server, fill=data.fill)
    for _ in range(3):
        pair.replica.kill()
        pair.replica.restart(keep_data=False)
        pair.agent.wait_warm(60)
        assert_equal_now(pair.primary, pair.replica)


def test_an_old_file_of_another_life(bed):
    """The server comes back with an RDB of before, saved under the same epoch: older, not foreign."""
    pair = pair_of(bed, fill=data.fill)
    pair.settle()
    wait_cursor(pair.agent)
    pair.replica.command("SAVE")
    with pair.primary.client() as client:
        client.delete("list:1", "int:1")
        client.set("new", 1)
        client.set("raw:64", "other")
    pair.settle()
    wait_cursor(pair.agent)
    pair.replica.kill()
    pair.replica.restart()
    pair.agent.wait_warm(60)
    assert_equal_now(pair.primary, pair.replica)


def test_fields_that_expire(bed, need_server):
    need_server("redis-trixie")
    pair = pair_of(bed, "redis-trixie")
    with pair.primary.client() as client:
        for i in range(20):
            client.hset(f"hash:{i}", mapping={"stays": 1, "goes": 2})
            client.execute_command("HPEXPIRE", f"hash:{i}", 300, "FIELDS", 1, "goes")
            client.hset(f"all:{i}", mapping={"goes": 2})
            client.execute_command("HPEXPIRE", f"all:{i}", 300, "FIELDS", 1, "goes")
    pair.agent.wait_warm()
    wait_for(lambda: info(pair.primary)["db0"]["keys"] == 20, "the fields do not expire", 20)
    with pair.primary.client() as client:
        for i in range(20):
            client.hget(f"hash:{i}", "goes")
    pair.wait_same(30)
    assert info(pair.replica)["db0"]["keys"] == 20


# ---- whose replica? ----

def test_two_agents_at_one_server_do_not_fight(bed):
    """A mistake in the configuration: it may not become an endless row of full syncs."""
    pair = pair_of(bed, fill=data.fill)
    pair.settle()
    second = bed.agent(pair.proxy, pair.replica, "agent-2", **REPLICA)
    agents = [pair.agent, second]
    fights, since, begun = None, 0, time.monotonic()
    while fights is None or time.monotonic() - since < 4: # four seconds of peace
        count = sum(link(agent)["full_syncs"] + link(agent)["continuations"] for agent in agents)
        if count != fights:
            fights, since = count, time.monotonic()
        assert time.monotonic() - begun < 30 * SLOW, [agent.status()["reason"] for agent in agents]
        time.sleep(0.2)
    write(pair.primary, "still")
    wait_for(lambda: digest(pair.primary) == digest(pair.replica), "not equal", 20)
    wait_for(lambda: [agent.status()["state"] for agent in agents].count("warm") == 1,
             lambda: [agent.status() for agent in agents])


@pytest.mark.parametrize("mode", ["replica", "commands"])
def test_the_primary_itself_is_never_made_a_replica(bed, mode):
    """redis.address names the primary by mistake: its data must survive, and it stays a master."""
    primary = bed.server("primary")
    data.fill(primary)
    before = digest(primary)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, primary, **{**REPLICA, "apply__mode": mode})
    agent.wait_state("failed", reason="is the primary")
    time.sleep(1)
    assert info(primary)["role"] == "master" and digest(primary) == before, agent.status()


def test_a_chain_of_keywakes(bed):
    """A proxy that follows the replica of another keywake: events come from the link's commands."""
    pair = pair_of(bed, fill=data.fill)
    second = bed.proxy(pair.replica, "proxy-2")
    last = bed.server("last")
    agent = bed.agent(second, last, "agent-2")
    agent.wait_warm()
    data.fill(pair.primary, (2,))
    pair.settle()
    wait_for(lambda: digest(last) == digest(pair.primary), "the last one is not equal", 30)
    pair.agent.ctl_ok("resync")
    pair.agent.wait_warm()
    write(pair.primary, "after")
    pair.primary.command("FLUSHDB", db=2)
    wait_for(lambda: digest(last) == digest(pair.primary), "the last one is not equal", 60)
