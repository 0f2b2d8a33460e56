"""Apply mode `replica`: the agent acts as the primary of its local server."""
import random
import socket
import time

import pytest
import redis

from lib import compare, data
from lib.compare import assert_equal_now, wait_same
from lib.cursor import wait_cursor
from lib.daemon import free_port
from lib.process import wait_for
from lib.server import MATRIX
from lib.workload import Workload, seed_of_run
from test_acl import PASSWORD, set_user

pytestmark = pytest.mark.sanitize

SETTINGS = {"apply__mode": "replica", "apply__consent": True}

@pytest.fixture(params=MATRIX)
def server(request, need_server):
    need_server(request.param)
    return request.param


def replica_pair(bed, server="installed", fill=data.fill, agent=None, **options):
    return bed.pair(server, server, fill=fill, agent={**SETTINGS, **(agent or {})}, **options)


def info(server):
    with server.admin() as client:
        return client.info("all")


def setting(server, name):
    with server.admin() as client:
        return client.config_get(name)[name]


def link(agent):
    return agent.status()["apply"]


@pytest.mark.core
def test_bootstrap_and_changes(bed, server):
    pair = replica_pair(bed, server)
    assert_equal_now(pair.primary, pair.replica)
    wait_same(pair.primary, pair.replica)
    data.fill(pair.primary, (3, 10))
    with pair.primary.client() as client:
        client.delete("list:1", "set:mixed")
        client.set("expiring", 1, px=300)
        client.set("staying", 1, ex=5000)
    pair.agent.wait_warm() # equal they need not be yet: what expires here is told to it afterwards
    wait_same(pair.primary, pair.replica)
    with pair.primary.client(3) as client:
        client.flushdb()
        client.set("after", 1)
    time.sleep(0.5)
    pair.settle()
    wait_same(pair.primary, pair.replica)
    fields = info(pair.replica)
    assert fields["role"] == "slave" and fields["master_link_status"] == "up"
    assert fields["unexpected_error_replies"] == 0
    apply = link(pair.agent)
    assert apply["mode"] == "replica" and apply["link"] == "online" and apply["full_syncs"] == 1
    assert pair.agent.status()["snapshots"] == 1


def test_a_mix_of_everything(bed, server):
    pair = replica_pair(bed, server)
    load = Workload(pair.primary, seed_of_run(), wild=True, short_ttls=True).start()
    time.sleep(4)
    load.stop()
    pair.agent.wait_warm(60)
    pair.wait_same()
    assert info(pair.replica)["unexpected_error_replies"] == 0
    assert link(pair.agent)["refusals"] == 0


def test_the_servers_functions_are_carried_along(bed, server):
    primary, replica = bed.server("primary", server), bed.server("replica", server)
    replica.command("FUNCTION", "LOAD", "#!lua name=mine\n"
                    "redis.register_function('hello', function() return 'world' end)")
    data.fill(primary)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **SETTINGS)
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert replica.command("FUNCTION", "LIST", "LIBRARYNAME", "mine")
    agent.rpc("resync")
    agent.wait_status(lambda status: status["apply"]["full_syncs"] == 2, "no second sync")
    agent.wait_warm()
    assert replica.command("FUNCTION", "LIST", "LIBRARYNAME", "mine")


def test_without_consent_nothing_is_touched(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    with replica.client() as client:
        client.set("precious", 1)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, apply__mode="replica")
    status = agent.wait_state("failed", reason="apply.consent=true")
    assert "1 keys" in status["reason"], status
    assert info(replica)["role"] == "master" and info(replica)["db0"]["keys"] == 1
    assert setting(replica, "masterauth") == ""


def test_the_published_acl_is_enough(bed, server):
    primary, replica = bed.server("primary", server), bed.server("replica", server)
    data.fill(primary, (0, 10))
    password = bed.file("password", PASSWORD + "\n")
    user = set_user(replica, "replica-mode.acl")
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, redis__username=user, redis__password_file=password,
                      **SETTINGS, apply__on_shutdown="promote")
    agent.wait_warm()
    data.fill(primary, (3,))
    agent.wait_warm()
    wait_same(primary, replica)
    wait_cursor(agent)
    agent.kill()
    agent.restart()
    agent.wait_warm()
    assert link(agent)["continuations"] == 1
    assert agent.ctl("verify").returncode == 0
    assert agent.stop() == 0
    assert info(replica)["role"] == "master"


def test_a_missing_permission_is_named(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    password = bed.file("password", PASSWORD + "\n")
    user = set_user(replica, "replica-mode.acl", "-config|set")
    agent = bed.agent(bed.proxy(primary), replica, redis__username=user,
                      redis__password_file=password, **SETTINGS)
    agent.wait_state("failed", reason="+config|set")
    # Nothing half done: still a master, with its settings of before.
    assert info(replica)["role"] == "master" and setting(replica, "masterauth") == ""


def test_settings_are_put_back(bed, server):
    pair = replica_pair(bed, server)
    before = "disabled"
    wait_for(lambda: setting(pair.replica, "repl-diskless-load") == before,
             "repl-diskless-load is not put back")
    assert setting(pair.replica, "masterauth").startswith(f"keywake/{before}/")
    # An agent that was killed in the midst of a load left it so; the next one knows.
    pair.agent.kill()
    pair.replica.command("CONFIG", "SET", "repl-diskless-load", "swapdb")
    pair.agent.restart()
    pair.settle()
    wait_for(lambda: setting(pair.replica, "repl-diskless-load") == before,
             "repl-diskless-load is not put back")


def test_a_server_that_serves_no_stale_data(bed, server):
    """It answers MASTERDOWN while its link is down, to questions about the cursor too."""
    pair = replica_pair(bed, server, replica_config={"replica_serve_stale_data": "no"})
    for turn in range(2):
        wait_cursor(pair.agent)
        pair.agent.kill()
        with pair.primary.client() as client:
            client.set("turn", turn)
        pair.agent.restart()
        pair.settle()
        assert link(pair.agent)["continuations"] == 1
    pair.agent.rpc("resync")
    pair.agent.wait_status(lambda status: status["apply"]["full_syncs"] == 1, "no full sync")
    pair.settle()
    assert setting(pair.replica, "replica-serve-stale-data") == "no"


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHDB", "SWAPDB 0 1"])
def test_a_writable_replica_flushed_by_somebody(bed, command):
    pair = replica_pair(bed, replica_config={"replica_read_only": "no"})
    pair.replica.command(*command.split()) # at once: nothing may be believed unseen
    pair.agent.wait_status(lambda status: status["apply"]["full_syncs"] == 2, "no full sync")
    pair.settle()


# ---- deaths ----

def under_load(pair, die, rounds=4, **mix):
    chance = random.Random(seed_of_run())
    load = Workload(pair.primary, seed_of_run(), short_ttls=False, silent=False, **mix).start()
    for _ in range(rounds):
        time.sleep(chance.uniform(0.2, 1.2))
        die(chance)
    time.sleep(0.5)
    load.stop()
    pair.agent.wait_warm(120)
    assert_equal_now(pair.primary, pair.replica)
    pair.wait_same()


def test_agent_killed_continues_without_a_full_sync(bed, server):
    pair = replica_pair(bed, server)
    wait_cursor(pair.agent)
    pair.agent.kill()
    with pair.primary.client() as client:
        client.set("meanwhile", 1)
        client.delete("list:1")
    pair.agent.restart()
    pair.settle()
    apply = link(pair.agent)
    assert apply["full_syncs"] == 0 and apply["continuations"] == 1, apply
    assert pair.agent.status()["snapshots"] == 0
    wait_same(pair.primary, pair.replica)


@pytest.mark.quick
@pytest.mark.core
def test_agent_stopped_and_started_continues(bed):
    pair = replica_pair(bed)
    assert pair.agent.stop() == 0
    assert info(pair.replica)["role"] == "slave"
    with pair.primary.client() as client:
        client.set("meanwhile", 1)
    pair.agent.restart()
    pair.settle()
    apply = link(pair.agent)
    assert apply["full_syncs"] == 0 and apply["continuations"] == 1, apply


def test_agent_killed_under_load(bed, server):
    pair = replica_pair(bed, server)

    def die(chance):
        pair.agent.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.agent.restart()
    under_load(pair, die)
    assert info(pair.replica)["unexpected_error_replies"] == 0


def save(server):
    """
    While it follows. What it saves when nobody leads it looks like a failover's to an agent that had
    no time to look before the next restart, and is left alone.
    """
    try:
        return info(server)["role"] == "slave" and server.command("SAVE")
    except redis.exceptions.BusyLoadingError:
        return False


def test_replica_killed_under_load(bed, server):
    pair = replica_pair(bed, server)

    def die(chance):
        keep = chance.random() < 0.5 and save(pair.replica)
        pair.replica.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.replica.restart(keep_data=keep)
    under_load(pair, die)


def test_replica_with_replicaof_in_its_configuration_killed(bed):
    """It comes back as a replica from its RDB, at an older offset: the cursor in it decides."""
    pair = replica_pair(bed)
    with pair.primary.client() as client:
        client.set("before the save", 1)
    pair.settle()
    wait_cursor(pair.agent)
    port = link(pair.agent)["port"]
    secret = setting(pair.replica, "masterauth")
    pair.replica.command("SAVE")
    with pair.primary.client() as client:
        client.set("after the save", 1)
    pair.settle()
    pair.replica.kill()
    pair.replica.config.update({"replicaof": f"127.0.0.1 {port}", "masterauth": secret})
    pair.replica.restart()
    pair.wait_equal()
    pair.settle()


def test_proxy_killed_under_load(bed):
    pair = replica_pair(bed)

    def die(chance):
        pair.proxy.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.proxy.restart()
    under_load(pair, die)


def test_everything_killed_at_random(bed):
    pair = replica_pair(bed)

    def die(chance):
        victims = chance.sample([pair.proxy, pair.agent, pair.replica], chance.randint(1, 3))
        for victim in victims:
            victim.kill()
            time.sleep(chance.uniform(0, 0.2))
        for victim in victims:
            if victim is pair.replica:
                victim.restart(keep_data=False)
            else:
                victim.restart()
    under_load(pair, die)


def test_a_broken_link_is_continued_byte_for_byte(bed, server):
    pair = replica_pair(bed, server)

    def die(chance):
        pair.replica.command("CLIENT", "KILL", "TYPE", "master")
    under_load(pair, die)
    apply = link(pair.agent)
    assert apply["full_syncs"] == 1 and apply["continuations"] >= 1, apply


def in_the_load(agent):
    """Is its server in the midst of one? One that was over before this looked is begun again."""
    if link(agent)["link"] == "online":
        agent.rpc("resync")
    return link(agent)["link"] in ("snapshot", "loading")


@pytest.mark.parametrize("victim", ["agent", "proxy", "replica"])
def test_killed_in_the_midst_of_the_load(bed, victim):
    """With swapdb the server keeps its old data until the new are there."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 200_000)
    with replica.client() as client:
        client.set("old", 1)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica, **SETTINGS)
    wait_for(lambda: in_the_load(agent), "no load", 20, 0.001)
    {"agent": agent, "proxy": proxy, "replica": replica}[victim].kill()
    if victim == "agent":
        def settled():
            try:
                return info(replica)["loading"] == 0 and info(replica).get("async_loading", 0) == 0
            except redis.exceptions.BusyLoadingError:
                return False
        wait_for(settled, "still loading", 20)
        keys = info(replica)["db0"]["keys"]
        assert keys in (1, 200_000), keys
    {"agent": agent, "proxy": proxy, "replica": replica}[victim].restart()
    agent.wait_warm(60)
    assert_equal_now(primary, replica)


# ---- whose server is it? ----

def test_a_former_replica_of_somebody_with_a_password(bed, server):
    """The migration path: its masterauth is never used for the link, and is put back."""
    primary = bed.server("primary", server, port=0)
    data.fill(primary)
    former = bed.server("former", server, port=free_port())
    former.command("SET", "of the former", 1)
    former.command("CONFIG", "SET", "requirepass", "s3cret")
    replica = bed.server("replica", server, masterauth="s3cret")
    replica.command("REPLICAOF", "127.0.0.1", former.config["port"])
    wait_for(lambda: info(replica).get("master_link_status") == "up", "no native replication", 20)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **SETTINGS,
                      apply__replica__masterauth_file=bed.file("masterauth", "s3cret\n"))
    agent.wait_state("failed", reason="made to follow")
    assert replica.command("GET", "of the former") == b"1"
    agent.ctl_ok("resync")
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert setting(replica, "masterauth").startswith("keywake/")
    wait_cursor(agent)
    agent.kill()
    agent.restart()
    agent.wait_warm()
    assert link(agent)["continuations"] == 1


def test_strangers_are_refused(bed):
    pair = replica_pair(bed)
    port = link(pair.agent)["port"]
    greeting = b"*1\r\n$4\r\nPING\r\n*3\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n"
    for words, answer in ((b"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n", b"-NOAUTH"),
                          (greeting, b"-NOAUTH"),
                          (b"*2\r\n$4\r\nAUTH\r\n$5\r\nguess\r\n", b"-WRONGPASS"),
                          (b"GET / HTTP/1.1\r\n\r\n", b""), (b"*99999\r\n", b"")):
        with socket.create_connection(("127.0.0.1", port), timeout=60) as stranger:
            stranger.sendall(words)
            heard = b""
            while part := stranger.recv(1000):
                heard += part
            assert answer in heard and b"FULLRESYNC" not in heard, (words, heard)
    with pair.primary.client() as client:
        client.set("still", "followed")
    pair.settle()
    assert link(pair.agent)["full_syncs"] == 1


def test_a_stranger_speaking_to_many_ports_holds_nothing_up(bed):
    pair = replica_pair(bed)
    port = link(pair.agent)["port"]
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    pair.replica.command("CLIENT", "KILL", "TYPE", "master")
    with pair.primary.client() as client:
        client.set("still", "followed")
    pair.agent.wait_warm(60)
    pair.settle()
    for connection in silent:
        connection.close()


def test_a_promoted_server_is_left_alone(bed, server):
    """An operator's failover: what is written there since must not be replaced."""
    pair = replica_pair(bed, server)
    with pair.primary.client() as client:
        client.set("one more", 1) # so that a cursor of a known position is there
    pair.settle()
    wait_cursor(pair.agent)
    pair.replica.command("REPLICAOF", "NO", "ONE")
    pair.agent.wait_state("failed", reason="promoted")
    with pair.replica.client() as client:
        client.set("written after the failover", 1)
    time.sleep(1.5)
    assert pair.agent.status()["state"] == "failed"
    pair.agent.kill()
    pair.agent.restart()
    pair.agent.wait_state("failed", reason="promoted")
    pair.replica.command("SAVE")
    pair.replica.kill()
    pair.replica.restart()
    pair.agent.wait_state("failed", reason="promoted")
    with pair.replica.client() as client:
        assert client.get("written after the failover") == b"1"
    pair.agent.rpc("resync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


def test_a_server_sent_to_somebody_else_is_left_alone(bed):
    pair = replica_pair(bed)
    other = bed.server("other", port=free_port())
    pair.replica.command("REPLICAOF", "127.0.0.1", other.config["port"])
    pair.agent.wait_state("failed", reason="sent to follow")
    time.sleep(1.5)
    assert str(info(pair.replica)["master_port"]) == str(other.config["port"])
    pair.agent.rpc("resync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)
    assert link(pair.agent)["full_syncs"] == 2


def test_promoted_while_no_agent_looked_and_sent_elsewhere(bed):
    """Its new primary does not answer: what was written there since must not be replaced."""
    pair = replica_pair(bed)
    with pair.primary.client() as client:
        client.set("one more", 1) # so that a cursor of a known position is there
    pair.settle()
    wait_cursor(pair.agent)
    pair.agent.kill()
    pair.replica.command("REPLICAOF", "NO", "ONE")
    with pair.replica.client() as client:
        client.set("foreign", 1)
    pair.replica.command("REPLICAOF", "127.0.0.1", "1")
    pair.agent.restart()
    pair.agent.wait_state("failed", reason="made to follow")
    assert pair.replica.command("GET", "foreign") == b"1"
    pair.agent.ctl_ok("resync")
    pair.agent.wait_warm()
    assert link(pair.agent)["full_syncs"] == 1
    assert_equal_now(pair.primary, pair.replica)


def test_on_shutdown_promote(bed, server):
    pair = replica_pair(bed, server, agent={"apply__on_shutdown": "promote"})
    assert pair.agent.stop() == 0
    fields = info(pair.replica)
    assert fields["role"] == "master"
    assert setting(pair.replica, "masterauth") == ""
    with pair.replica.client() as client:
        client.set("writable", 1)
    pair.agent.restart()
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


@pytest.mark.quick
def test_promoted_on_demand(bed):
    pair = replica_pair(bed)
    pair.agent.ctl_ok("config", "set", "apply.on_shutdown", "promote")
    pair.agent.ctl_ok("shutdown")
    wait_for(lambda: not pair.agent.alive, "the agent does not end")
    assert info(pair.replica)["role"] == "master"
    assert_equal_now(pair.primary, pair.replica)


def test_a_database_that_the_server_has_not_behind_a_restart(bed):
    """An agent that continues knows the server's databases before anything is sent."""
    primary, replica = bed.server("primary"), bed.server("replica", databases=4)
    data.fill(primary)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **SETTINGS)
    agent.wait_warm()
    wait_cursor(agent)
    agent.kill()
    with primary.client(9) as client:
        client.set("far", 1)
    with primary.client(0) as client:
        client.set("near", 1)
    agent.restart()
    agent.wait_state("lagging", reason="no database 9")
    wait_for(lambda: replica.command("GET", "near") == b"1", "database 0 is not followed", 20)
    assert link(agent)["continuations"] == 1
    assert replica.command("GET", "far") is None
    assert info(replica)["unexpected_error_replies"] == 0


def test_mode_commands_says_what_a_replica_of_an_agent_is(bed):
    pair = replica_pair(bed)
    assert pair.agent.stop() == 0
    pair.agent.settings["apply.mode"] = "commands"
    pair.agent.restart()
    pair.agent.wait_state("failed", reason="REPLICAOF NO ONE")
    pair.replica.command("REPLICAOF", "NO", "ONE")
    pair.settle()


# ---- what must not reach the server ----

def test_a_database_that_the_server_has_not(bed):
    """SELECT would fail without a word and the rest go elsewhere; an RDB would stop the server."""
    primary = bed.server("primary")
    data.fill(primary, (0, 9))
    replica = bed.server("replica", databases=4)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **SETTINGS)
    agent.wait_state("lagging", reason="no database 9")
    with primary.client(9) as client:
        client.set("more", 1)
    with primary.client(0) as client:
        client.set("more", 2)
    wait_for(lambda: replica.client().get("more") == b"2", "database 0 is not followed", 20)
    assert set(compare.key_counts(replica)) == {0}
    assert replica.alive and info(replica)["unexpected_error_replies"] == 0


def test_refused_commands_lead_to_a_full_sync_and_an_alarm(bed):
    """maxmemory that holds for a replica too: RESTORE fails on the link, where nobody answers."""
    pair = replica_pair(bed, replica_config={"replica_ignore_maxmemory": "no"})
    pair.replica.command("CONFIG", "SET", "maxmemory", "1")
    for turn in range(60):
        with pair.primary.client() as client:
            client.set(f"more:{turn}", "x" * 1000)
        if link(pair.agent)["refusals"] > 0 and link(pair.agent)["full_syncs"] >= 3:
            break
        time.sleep(0.5)
    assert link(pair.agent)["refusals"] > 0
    pair.replica.command("CONFIG", "SET", "maxmemory", "0")
    pair.agent.rpc("resync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)
