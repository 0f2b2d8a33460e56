"""Apply mode `replica`: how a load, a link and an agent end, and what is left in the server then."""
import datetime
import os
import re
import resource
import signal
import socket
import time

import pytest
import redis

from lib import data
from lib.busy import Busy
from lib.compare import assert_equal_now
from lib.cursor import wait_cursor
from lib.process import SLOW, wait_for
from lib.server import MATRIX

REPLICA = {"apply__mode": "replica", "apply__consent": True}
# A server that takes its time over an RDB, and looks at its connections meanwhile.
SLOW_LOAD = {"key-load-delay": 100, "loading-process-events-interval-bytes": 2048}


def link(agent):
    return agent.status()["apply"]


def setting(server, name):
    with server.admin() as client:
        return client.config_get(name)[name]


def wait_answer(server, timeout=10):
    """Within that time, and with the data of before; what was sent of the others is discarded first."""
    def answers():
        try:
            with server.client(timeout=timeout) as client:
                return client.get("old") == b"1"
        except redis.exceptions.BusyLoadingError:
            return False
    wait_for(answers, "the server is held up", timeout)


def seconds_to_end(agent):
    """As the agent's log has it: this test may be held up meanwhile."""
    begin, end = (datetime.datetime.fromisoformat(re.findall(rf"^(\S+)Z debug .*{words}", agent.output(), re.M)[-1])
                  for words in ("running -> draining", "leaving -> closing"))
    return (end - begin).total_seconds()


def in_mid_snapshot(bed, keys=60_000, length=1000, **agent):
    """The records come as fast as a slow server loads them, so most are still to be read."""
    primary, replica = bed.server("primary"), bed.server("replica", **SLOW_LOAD)
    data.fill_plain(primary, keys, length=length)
    with replica.client() as client:
        client.set("old", 1)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    follower = bed.agent(proxy, replica, **{**REPLICA, "apply__window_bytes": 65536, **agent})
    wait_for(lambda: link(follower)["link"] == "snapshot", "no snapshot", 20, 0.001)
    return primary, replica, follower


# ---- the load ----

def test_a_pause_in_mid_snapshot_leaves_the_server_its_data(bed):
    primary, replica, agent = in_mid_snapshot(bed)
    time.sleep(0.3)
    agent.ctl_ok("pause")
    wait_for(lambda: link(agent)["link"] == "off", "the load goes on")
    time.sleep(1)
    wait_answer(replica)
    assert link(agent)["link"] == "off" and agent.status()["state"] != "warm"
    agent.ctl_ok("resume")
    agent.wait_warm(90)
    assert_equal_now(primary, replica)


# ---- the end of the agent ----

@pytest.mark.alone
@pytest.mark.parametrize("ending", ["stay", "promote"])
def test_an_agent_that_ends_in_mid_snapshot_puts_the_setting_back(bed, ending):
    _, replica, agent = in_mid_snapshot(bed, apply__on_shutdown=ending)
    time.sleep(0.3)
    assert agent.stop() == 0
    assert seconds_to_end(agent) < 4, "it waits for what cannot come"
    wait_answer(replica)
    assert setting(replica, "repl-diskless-load") == "disabled"


@pytest.mark.alone
def test_an_agent_that_ends_in_the_load_puts_the_setting_back(bed):
    """All is sent, and the server takes some seconds with it; settings it takes only afterwards."""
    primary, replica = bed.server("primary"), bed.server("replica", **SLOW_LOAD)
    data.fill_plain(primary, 12_000)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica, **REPLICA, apply__window_bytes="64MiB")
    # A load that was over before this looked is begun again.
    wait_for(lambda: link(agent)["link"] == "loading" or link(agent)["link"] == "online" and agent.rpc("resync") is None,
             "no load", 20, 0.001)
    assert agent.stop() == 0
    assert seconds_to_end(agent) < 4.5, "it waits for what cannot come"
    assert setting(replica, "repl-diskless-load") == "disabled"
    agent.restart()
    agent.wait_warm(60)
    assert_equal_now(primary, replica)


def test_an_agent_that_cannot_drain_promotes_all_the_same(bed):
    """The server is stopped for longer than the drain lasts, and comes to."""
    pair = bed.pair(fill=data.fill, agent={**REPLICA, "apply__on_shutdown": "promote"})
    pair.replica.signal(signal.SIGSTOP)
    with pair.primary.client() as client:
        client.set("late", 1)
    pair.agent.wait_status(lambda status: status["lag_versions"] > 0, "the change is not seen")
    pair.agent.signal(signal.SIGTERM)
    wait_for(lambda: "saving -> leaving" in pair.agent.output(), "the drain does not end", 20)
    time.sleep(1)
    assert pair.agent.alive, "it did not wait for the answers"
    pair.replica.signal(signal.SIGCONT)
    assert pair.agent.wait_exit() == 0
    with pair.replica.admin() as client:
        assert client.info("replication")["role"] == "master"
    assert setting(pair.replica, "masterauth") == ""


# ---- promoted by command ----

@pytest.mark.parametrize("binary", MATRIX)
def test_promoted_by_command(bed, need_server, binary):
    """A failover by an operator's word: a service manager that starts the agent again undoes it not."""
    need_server(binary)
    pair = bed.pair(binary, binary, fill=data.fill, agent=REPLICA)
    pair.agent.ctl_ok("shutdown", "--promote")
    assert pair.agent.wait_exit() == 0
    with pair.replica.admin() as client:
        assert client.info("replication")["role"] == "master"
    assert setting(pair.replica, "masterauth") == ""
    assert setting(pair.replica, "repl-diskless-load") == "disabled"
    assert_equal_now(pair.primary, pair.replica)
    pair.replica.command("SET", "after the failover", 1)
    for _ in range(2):
        pair.agent.restart()
        pair.agent.wait_state("failed", reason="promoted")
        time.sleep(1.2)
        assert pair.replica.command("GET", "after the failover") == b"1"
        pair.agent.kill()
    pair.agent.restart()
    pair.agent.ctl_ok("resync")
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


def test_promoted_by_command_without_primary_and_proxy(bed):
    """As in a failover: the primary is gone, the proxy with it, and the link has just broken."""
    pair = bed.pair(fill=data.fill, agent=REPLICA)
    pair.proxy.kill()
    pair.replica.command("CONFIG", "SET", "masterauth", "wrong") # it does not come again
    pair.replica.command("CLIENT", "KILL", "TYPE", "master")
    wait_for(lambda: link(pair.agent)["link"] == "waiting", "the link holds")
    pair.agent.ctl_ok("shutdown", "--promote")
    assert pair.agent.wait_exit() == 0
    with pair.replica.admin() as client:
        assert client.info("replication")["role"] == "master"
    assert_equal_now(pair.primary, pair.replica)


def test_promoted_by_command_while_a_script_runs(bed):
    """BUSY is no answer to a failover: it is asked for again, and the settings go with it."""
    pair = bed.pair(fill=data.fill, agent=REPLICA)
    wait_cursor(pair.agent) # with nothing left to drain there is as much time as otherwise
    with Busy(pair.replica):
        pair.agent.ctl_ok("shutdown", "--promote")
        time.sleep(6) # beyond what the drain may take, or the rest alone
        assert pair.agent.alive
    assert pair.agent.wait_exit() == 0
    assert pair.replica.command("ROLE")[0] == b"master"
    assert setting(pair.replica, "masterauth") == ""
    assert setting(pair.replica, "repl-diskless-load") == "disabled"
    pair.agent.restart()
    pair.agent.wait_state("failed", reason="promoted")


@pytest.mark.parametrize("mode", ["commands", "hybrid"])
def test_nothing_to_promote(bed, mode):
    pair = bed.pair(fill=data.fill, agent={**REPLICA, "apply__mode": mode})
    for daemon, sentence in ((pair.agent, "nothing was done"), (pair.proxy, "promote")):
        done = daemon.ctl("shutdown", "--promote")
        assert done.returncode == 2 and sentence in done.stderr, done
        assert daemon.alive
    pair.settle()


def test_what_is_not_whole_is_not_promoted(bed):
    _, replica, agent = in_mid_snapshot(bed)
    done = agent.ctl("shutdown", "--promote")
    assert done.returncode == 2 and "nothing was done" in done.stderr, done
    assert agent.alive
    agent.ctl_ok("pause") # and the server is done with it soon


# ---- strangers ----

def test_strangers_do_not_shut_the_server_out(bed):
    """As many as are let in, and none of them goes."""
    pair = bed.pair(fill=data.fill, agent=REPLICA)
    port = link(pair.agent)["port"]
    guests = [socket.create_connection(("127.0.0.1", port)) for _ in range(8)]
    pair.replica.command("CLIENT", "KILL", "TYPE", "master")
    pair.agent.wait_status(lambda status: status["apply"]["continuations"] == 1,
                           "the server is shut out", 8)
    for guest in guests:
        guest.close()
    pair.settle()


def test_a_stranger_that_keeps_talking_is_sent_away(bed):
    pair = bed.pair(fill=data.fill, agent=REPLICA)
    with socket.create_connection(("127.0.0.1", link(pair.agent)["port"])) as guest:
        guest.settimeout(0.5)
        begun = time.monotonic()
        with pytest.raises((ConnectionError, EOFError)):
            while time.monotonic() - begun < 30 * SLOW:
                guest.sendall(b"\n")
                try:
                    if guest.recv(100) == b"":
                        raise EOFError
                except TimeoutError:
                    pass
    pair.settle()


def descriptors_at_rest(daemon):
    """Once the connections that asked are closed: the same in a row of looks."""
    seen = []

    def at_rest():
        seen.append({int(name) for name in os.listdir(f"/proc/{daemon.pid}/fd")})
        return len(seen) > 15 and seen[-1] if all(one == seen[-1] for one in seen[-15:]) else None
    return wait_for(at_rest, "its descriptors come and go")


def test_no_descriptor_left_is_no_reason_to_spin(bed):
    pair = bed.pair(fill=data.fill, agent=REPLICA)
    port = link(pair.agent)["port"]
    used = descriptors_at_rest(pair.agent)
    lowest = min(set(range(len(used) + 1)) - used)
    limits = resource.prlimit(pair.agent.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pair.agent.pid, resource.RLIMIT_NOFILE, (lowest, limits[1]))
    with socket.create_connection(("127.0.0.1", port)):
        wait_for(lambda: "nobody can be let in" in pair.agent.output(), "it does not say so")
        begun, before = time.monotonic(), pair.agent.cpu_seconds()
        time.sleep(2)
        spent, seconds = pair.agent.cpu_seconds() - before, time.monotonic() - begun
    resource.prlimit(pair.agent.pid, resource.RLIMIT_NOFILE, limits)
    assert spent < 0.3 * seconds, f"{spent} s of CPU in {seconds} s"
    pair.replica.command("CLIENT", "KILL", "TYPE", "master")
    pair.agent.wait_status(lambda status: status["apply"]["continuations"] == 1, "no link again")
    pair.settle()


# ---- quarantine ----

@pytest.mark.parametrize("mend", ["DEL high", "FLUSHDB", "FLUSHALL"])
def test_a_key_leaves_quarantine_when_the_primary_gives_it_up(bed, mend):
    """The server has four databases, the key was in the tenth."""
    pair = bed.pair(agent=REPLICA, replica_config={"databases": 4})
    pair.primary.command("SET", "high", 1, db=10)
    pair.agent.wait_status(lambda status: status["quarantined"] == 1, "nothing is quarantined")
    pair.primary.command(*mend.split(), db=10)
    pair.settle()
    assert pair.agent.status()["quarantined"] == 0
