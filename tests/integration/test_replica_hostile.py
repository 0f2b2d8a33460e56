"""Apply mode `replica`, seen by an operator who does what operators do, and by what servers do to it."""
import os
import re
import socket
import time

import pytest
import redis

from lib import data
from lib.compare import assert_equal_now, digest, wait_same
from lib.cursor import wait_cursor
from lib.daemon import free_port
from lib.process import wait_for
from lib.server import MATRIX
from test_acl import PASSWORD, set_user

REPLICA = {"apply__mode": "replica", "apply__consent": True}
MIB = 1 << 20


@pytest.fixture(params=MATRIX)
def server(request, need_server):
    need_server(request.param)
    return request.param


def pair_of(bed, server="installed", agent=None, **options):
    return bed.pair(server, server, agent={**REPLICA, **(agent or {})}, **options)


def info(server):
    with server.admin() as client:
        return client.info("all")


def config(server, name):
    with server.admin() as client:
        return client.config_get(name)[name]


def write(server, key, value=1, db=0, **options):
    with server.client(db) as client:
        client.set(key, value, **options)


def no_error(replica):
    assert info(replica)["unexpected_error_replies"] == 0


# ---- what the servers do ----

def test_what_expires_is_gone_from_the_replica(bed, server):
    """A replica expires nothing by itself: it must be told, and counted by no DBSIZE then."""
    pair = pair_of(bed, server)
    for i in range(50):
        write(pair.primary, f"short:{i}", px=300 + i)
    write(pair.primary, "long", ex=1000)
    pair.agent.wait_warm() # equal they need not be yet: what expires is told to it afterwards
    wait_for(lambda: info(pair.replica)["db0"]["keys"] == 1, "expired keys stay", 20)
    wait_same(pair.primary, pair.replica)
    no_error(pair.replica)


def test_a_database_that_the_replica_does_not_have_does_not_end_it(bed, server):
    """A server that meets database 9 in an RDB while it has 4 ends there and then."""
    primary = bed.server("primary", server)
    replica = bed.server("replica", server, databases=4)
    write(primary, "here", db=9)
    write(primary, "there", db=1)
    write(replica, "old")
    agent = bed.agent(bed.proxy(primary), replica, **REPLICA)
    status = agent.wait_state("failed", "lagging", reason="database")
    assert replica.alive and status["state"] != "warm", status


def test_a_database_that_turns_up_later_is_not_lost_in_silence(bed, server):
    primary = bed.server("primary", server)
    replica = bed.server("replica", server, databases=4)
    write(primary, "there", db=1)
    agent = bed.agent(bed.proxy(primary), replica, **REPLICA)
    agent.wait_warm()
    write(primary, "elsewhere", db=9)
    write(primary, "there", 2, db=1)
    agent.wait_status(lambda status: status["state"] in ("failed", "lagging", "reconciling"),
                      "warm, though a key cannot be there")
    time.sleep(3)
    assert agent.status()["state"] != "warm" and replica.alive
    # It must not be in another database instead.
    assert sum(replica.command("EXISTS", "elsewhere", db=database) for database in range(4)) == 0


def test_large_values_at_first_and_later(bed, server):
    pair = pair_of(bed, server, fill=lambda primary: write(primary, "first", os.urandom(MIB) * 64))
    assert_equal_now(pair.primary, pair.replica)
    write(pair.primary, "later", os.urandom(MIB) * 64)
    with pair.primary.client() as client:
        for start in range(0, 100_000, 10_000):
            client.hset("hash", mapping={f"field:{i}": i for i in range(start, start + 10_000)})
    pair.agent.wait_warm(120)
    assert_equal_now(pair.primary, pair.replica)
    assert pair.agent.status()["apply"]["full_syncs"] == 1
    no_error(pair.replica)


def test_from_empty_and_back_to_empty(bed, server):
    pair = pair_of(bed, server)
    assert info(pair.replica)["role"] == "slave" and pair.replica.command("DBSIZE") == 0
    data.fill(pair.primary, (0, 15))
    pair.settle()
    pair.primary.command("FLUSHALL")
    time.sleep(0.5)
    pair.settle()
    assert pair.replica.command("DBSIZE") == pair.replica.command("DBSIZE", db=15) == 0
    data.fill(pair.primary, (7,))
    pair.settle()
    with pair.primary.client(7) as client:
        client.execute_command("SWAPDB", 7, 3)
    pair.wait_equal()
    pair.agent.wait_warm()
    wait_same(pair.primary, pair.replica)


def test_scripts_and_transactions_end_equal(bed, server):
    pair = pair_of(bed, server)
    script = ("for i = 1, 500 do redis.call('SET', 'script:' .. i, i) "
              "redis.call('INCR', 'counter') redis.call('LPUSH', 'list', i) end "
              "redis.call('RENAME', 'script:1', 'renamed') redis.call('DEL', 'script:2')")
    with pair.primary.client() as client:
        for turn in range(20):
            client.eval(script, 0)
            with client.pipeline(transaction=True) as pipe:
                for i in range(200):
                    pipe.set(f"multi:{i}", turn).expire(f"multi:{i}", 1000)
                pipe.delete("list").copy("multi:1", "copied", replace=True)
                pipe.execute()
    pair.settle()
    wait_same(pair.primary, pair.replica)
    no_error(pair.replica)


def test_a_native_replica_behind_the_replica(bed, server):
    """Chained: through restarts of the agent and full synchronisations of what lies before it."""
    pair = pair_of(bed, server, fill=data.fill, replica_config={"port": free_port()})
    chained = bed.server("chained", server)
    chained.command("REPLICAOF", "127.0.0.1", pair.replica.config["port"])

    def equal():
        return info(chained).get("master_link_status") == "up" and \
            digest(chained) == digest(pair.primary)
    wait_for(equal, "the chained replica is not equal", 30)
    for step in ("write", "restart", "kill", "resync"):
        if step == "restart":
            assert pair.agent.stop() == 0
            pair.agent.restart()
        elif step == "kill":
            pair.agent.kill()
            pair.agent.restart()
        elif step == "resync":
            pair.agent.ctl_ok("resync")
        data.fill(pair.primary, (len(step),))
        write(pair.primary, f"after {step}")
        pair.agent.wait_warm(60)
        wait_for(equal, f"after {step} the chained replica is not equal", 30)
    no_error(pair.replica)


def test_a_replica_that_keeps_an_aof(bed, server):
    pair = pair_of(bed, server, fill=data.fill, replica_config={"appendonly": "yes"})
    data.fill(pair.primary, (4,))
    pair.settle()
    wait_cursor(pair.agent)
    time.sleep(1.5) # fsync everysec
    pair.replica.kill()
    write(pair.primary, "meanwhile")
    pair.replica.start()
    pair.agent.wait_warm(60)
    assert_equal_now(pair.primary, pair.replica)


def test_a_silent_link_outlives_the_servers_patience(bed, server):
    pair = pair_of(bed, server, fill=data.fill, replica_config={"repl-timeout": 5})
    pair.settle()
    before = pair.agent.status()["apply"]
    pair.agent.ctl_ok("pause")
    time.sleep(8)
    fields = info(pair.replica)
    assert fields["master_link_status"] == "up" and fields["master_last_io_seconds_ago"] <= 5
    pair.agent.ctl_ok("resume")
    write(pair.primary, "after")
    pair.settle()
    after = pair.agent.status()["apply"]
    assert (after["full_syncs"], after["continuations"]) == \
        (before["full_syncs"], before["continuations"])


def test_a_replica_that_stands_still_under_load(bed):
    """What it does not take is not piled up, and it catches up."""
    pair = pair_of(bed, agent={"apply__window_bytes": "1MiB"})
    with pair.primary.client() as client:
        for turn in range(3):
            pair.replica.signal(19) # SIGSTOP
            for _ in range(20):
                with client.pipeline(transaction=False) as pipe:
                    for i in range(500):
                        pipe.set(f"key:{i}", os.urandom(2000))
                    pipe.execute()
            time.sleep(1)
            status = pair.agent.status()
            assert status["window_bytes_used"] <= 4 * MIB, status
            pair.replica.signal(18) # SIGCONT
    pair.agent.wait_warm(60)
    assert_equal_now(pair.primary, pair.replica)
    no_error(pair.replica)


def test_a_replica_without_room_is_not_called_warm(bed):
    """On the link a refusal is said to nobody: it must be found, and never taken for equality."""
    pair = pair_of(bed, replica_config={"maxmemory": "20mb", "replica-ignore-maxmemory": "no"})
    with pair.primary.client() as client:
        for i in range(40):
            client.set(f"large:{i}", os.urandom(MIB))
    deadline = time.monotonic() + 10
    wrong = 0
    while time.monotonic() < deadline:
        status = pair.agent.status()
        time.sleep(0.2)
        # What was equal a moment ago is warm for warm.lag_ms.
        lies = status["state"] == "warm" and digest(pair.primary) != digest(pair.replica)
        wrong = wrong + 1 if lies else 0
        assert wrong < 8, status
    pair.replica.command("CONFIG", "SET", "maxmemory", "0")
    pair.agent.wait_warm(90)
    assert_equal_now(pair.primary, pair.replica)


def test_flushes_in_a_row_raise_no_doubt(bed):
    """Counted by INFO on one connection, acknowledged on another: one may overtake the other."""
    pair = pair_of(bed, fill=data.fill)
    deadline = time.monotonic() + 8
    with pair.primary.client(3) as client:
        while time.monotonic() < deadline:
            for i in range(20):
                client.set("key", i)
                client.flushdb()
    pair.settle()
    assert pair.agent.status()["apply"]["full_syncs"] == 1, pair.agent.tail(30)


def test_what_is_passed_over_takes_room_too(bed):
    """Changes of a database that the server lacks have no bytes, and are not piled up either."""
    pair = pair_of(bed, agent={"apply__window_bytes": 65536}, replica_config={"databases": 4})
    write(pair.primary, "far", db=9)
    pair.agent.wait_status(lambda status: status["quarantined"] == 1, "no quarantine")
    pair.replica.signal(19) # SIGSTOP
    write(pair.primary, "near")
    pair.agent.wait_status(lambda status: status["lag_versions"] > 0, "the change is not seen")
    data.fill_plain(pair.primary, 100_000, database=9, length=10)
    pair.proxy.wait_status(lambda status: status["keys"] > 100_000, "not in the table")
    time.sleep(1)
    read = pair.agent.status()["records_read"]
    pair.replica.signal(18) # SIGCONT
    assert read < 50_000, read
    wait_for(lambda: pair.replica.command("GET", "near") == b"1", "it does not go on", 20)
    pair.primary.command("FLUSHDB", db=9)
    pair.proxy.wait_status(lambda status: status["keys"] < 10, "the flush is not seen")
    pair.agent.ctl_ok("resync") # more keys than quarantine knows by name
    pair.settle()


def test_no_room_is_made_for_what_the_filter_leaves_out(bed):
    """The table's count says nothing of how many keys pass the prefixes."""
    primary = bed.server("primary")
    # So that a table that was made too large stays so.
    replica = bed.server("replica", hz=1, activerehashing="no")
    data.fill_plain(primary, 200_000, length=10)
    data.fill_plain(primary, 10, prefix="user:")
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica, filter__prefixes=["user:"], **REPLICA)
    agent.wait_warm()
    tables = re.findall(r"table size: (\d+)", replica.command("DEBUG", "HTSTATS", 0).decode())
    assert replica.command("DBSIZE") == 10 and max(map(int, tables)) <= 1024, tables


# ---- what operators do ----

def test_info_taken_away_and_given_back(bed):
    """Blind to what the server refuses on the link, nothing may be called equal."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    user = set_user(replica, "replica-mode.acl")
    agent = bed.agent(bed.proxy(primary), replica, redis__username=user,
                      redis__password_file=bed.file("password", PASSWORD), **REPLICA)
    agent.wait_warm()
    replica.command("ACL", "SETUSER", user, "-info")
    write(primary, "meanwhile")
    agent.wait_state("failed", reason="+info")
    time.sleep(1)
    assert agent.status()["state"] == "failed"
    replica.command("ACL", "SETUSER", user, "+info")
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert agent.status()["apply"]["full_syncs"] == 1


def test_the_replicas_clients_cannot_write(bed):
    pair = pair_of(bed, agent={"apply.audit_keys_per_second": 0}) # it would mend it at once
    with pytest.raises(redis.exceptions.ReadOnlyError):
        pair.replica.command("SET", "foreign", 1)
    pair.replica.command("CONFIG", "SET", "replica-read-only", "no")
    pair.replica.command("SET", "foreign", 1)
    done = pair.agent.ctl("verify")
    assert done.returncode == 2 and "foreign" in done.stdout, done
    pair.agent.ctl_ok("resync")
    pair.agent.wait_status(lambda status: status["apply"]["full_syncs"] >= 2, "no full sync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


def test_inspections_work_as_in_other_modes(bed, server):
    pair = pair_of(bed, server, fill=data.fill)
    pair.settle()
    verified = pair.agent.ctl_ok("verify")
    assert verified["checked"] == verified["equal"] == pair.primary.command("DBSIZE"), verified
    assert pair.agent.ctl_ok("get", "int:1")["text"] == "1"
    path = os.path.join(bed.directory, "export.rdb")
    assert pair.agent.ctl_ok("export", path)["keys"] == verified["checked"]


def test_agents_of_different_modes_at_once(bed):
    primary = bed.server("primary")
    data.fill(primary, (0, 9))
    proxy = bed.proxy(primary, listen=("shm", "tcp"))
    replicas, agents = [], []
    for number, (via, settings) in enumerate((("shm", REPLICA), ("tcp", {}), ("tcp", REPLICA))):
        replicas.append(bed.server(f"replica-{number}"))
        agents.append(bed.agent(proxy, replicas[-1], f"agent-{number}", via=via, **settings))
    for turn in range(3):
        data.fill_plain(primary, 5000, seed=turn)
        primary.command("FLUSHDB", db=9)
        write(primary, "turn", turn, db=9)
        for agent, replica in zip(agents, replicas):
            agent.wait_warm()
            assert_equal_now(primary, replica)


def test_a_filter_holds_and_nothing_else_is_there(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    write(replica, "user:stale")
    write(replica, "other")
    for name in ("user:1", "cart:1"):
        write(primary, name)
        write(primary, name, db=2)
    agent = bed.agent(bed.proxy(primary), replica, filter__prefixes=["user:"],
                      filter__databases=[0], **REPLICA)
    agent.wait_warm()
    with replica.client() as client, replica.client(2) as other:
        assert client.keys() == [b"user:1"] and other.keys() == []
    write(primary, "cart:2")
    write(primary, "user:2")
    primary.command("FLUSHDB", db=2)
    agent.wait_warm()
    with replica.client() as client:
        assert sorted(client.keys()) == [b"user:1", b"user:2"]


def test_another_mode_afterwards_says_what_to_do(bed):
    """The server is still a replica of an agent that is no more: `commands` cannot write to it."""
    pair = pair_of(bed, fill=data.fill)
    pair.settle()
    assert pair.agent.stop() == 0
    agent = bed.agent(pair.proxy, pair.replica, "agent-2")
    reason = agent.wait_status(lambda status: status["state"] in ("failed", "connecting", "lagging")
                               and "REPLICAOF NO ONE" in status["reason"], "no remedy")["reason"]
    assert "replica" in reason
    pair.replica.command("REPLICAOF", "NO", "ONE")
    agent.wait_status(lambda status: status["state"] == "warm" or "consent" in status["reason"],
                      "it does not go on")


def test_persisted_configuration_does_not_lock_the_server_out(bed):
    """CONFIG REWRITE while attached, then the server alone, without us: it starts and serves."""
    conf = bed.file("replica.conf", "")
    pair = pair_of(bed, fill=data.fill)
    pair.settle()
    with pytest.raises(redis.exceptions.ResponseError):
        pair.replica.command("CONFIG", "REWRITE") # started without a file: as ever
    assert os.path.getsize(conf) == 0
    assert pair.agent.stop() == 0
    pair.replica.command("REPLICAOF", "NO", "ONE")
    pair.replica.command("SAVE")
    pair.replica.kill()
    pair.replica.restart()
    assert digest(pair.replica) == digest(pair.primary)
    assert info(pair.replica)["role"] == "master" and config(pair.replica, "masterauth") == ""


def test_garbage_on_the_listener_costs_nothing(bed):
    pair = pair_of(bed, fill=data.fill)
    port = pair.agent.status()["apply"]["port"]
    before = pair.agent.status()["apply"]
    lines = [b"*1\r\n$-1\r\n", b"*-1\r\n", b"*1\r\n$99999999999\r\n", b"$5\r\nhello\r\n", b"\r\n" * 5000,
             b"*2147483647\r\n", b"*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$20\r\n99999999999999999999\r\n",
             b"A" * (2 * MIB), bytes(range(256)) * 100]
    for line in lines * 5:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as stranger:
            try:
                stranger.sendall(line)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(65536):
                    pass
            except OSError: # hung up on in the midst of it
                pass
    write(pair.primary, "still")
    pair.settle()
    after = pair.agent.status()["apply"]
    assert after["full_syncs"] == before["full_syncs"]
    with open(f"/proc/{pair.agent.pid}/fd/0", "rb"):
        assert len(os.listdir(f"/proc/{pair.agent.pid}/fd")) < 60
