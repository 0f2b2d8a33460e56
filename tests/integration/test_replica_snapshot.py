"""Apply mode `replica`: the ways in which a snapshot is given up, while the server keeps what it had."""
import random
import resource
import signal
import threading
import time

import pytest
import redis

from lib import data
from lib.compare import assert_equal_now
from lib.process import SLOW, wait_for
from lib.rpc import Rpc

pytestmark = pytest.mark.sanitize

REPLICA = {"apply__mode": "replica", "apply__consent": True}
# A server that takes its time over an RDB, and looks at its connections meanwhile.
SLOW_LOAD = {"key-load-delay": 100, "loading-process-events-interval-bytes": 2048}
# Little to spare, so that the cleaner has work to do.
TIGHT = {"table__max_bytes": "96MiB", "table__segment_bytes": "1MiB"}
KEYS = 40_000
LENGTH = 1000
LOST = "cleaned away before the snapshot came to it"
OVERTAKEN = "in a row were overtaken"


def link(agent):
    return agent.status()["apply"]


def wait_answer(server, timeout=10):
    """Within that time, and with the data of before; what was sent of the others is discarded first."""
    def answers():
        try:
            with server.client(timeout=timeout) as client:
                return client.get("old") == b"1"
        except redis.exceptions.BusyLoadingError:
            return False
    wait_for(answers, "the server is held up", timeout)


def in_mid_snapshot(bed, proxy=None, server="installed", **agent):
    """The records come as fast as a slow server loads them, so most are still to be read."""
    primary, replica = bed.server("primary", server), bed.server("replica", server, **SLOW_LOAD)
    data.fill_plain(primary, KEYS, length=LENGTH)
    replica.command("SET", "old", 1)
    follower = bed.proxy(primary, **(proxy or {}))
    follower.wait_live()
    agent = bed.agent(follower, replica, **{**REPLICA, "apply__window_bytes": 65536, **agent})
    wait_for(lambda: link(agent)["link"] == "snapshot", "no snapshot", 20, 0.001)
    return primary, replica, follower, agent


class Overwriting:
    """The same keys with other values, over and over: segments are cleaned behind it."""

    def __init__(self, server):
        self.server, self.stopped = server, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        source = random.Random(7)
        with self.server.client() as client:
            while not self.stopped.is_set():
                with client.pipeline(transaction=False) as pipe:
                    for i in source.sample(range(KEYS), 500):
                        pipe.set(f"key:{i}", source.randbytes(LENGTH))
                    pipe.execute()

    def stop(self):
        self.stopped.set()
        self.thread.join(30)


def size(server):
    try:
        return server.command("DBSIZE")
    except redis.exceptions.BusyLoadingError:
        return None


def said_or_again(agent, status, words):
    """Has the agent said so? A writer that was too slow for one snapshot overtakes the next one."""
    if words in agent.output():
        return True
    if status["apply"]["link"] == "online":
        agent.rpc("resync")
    return False


def test_a_snapshot_that_lost_a_segment_replaces_nothing(bed):
    """What the cleaner took away before it was read comes with the tail: too late for who reads."""
    primary, replica, _, agent = in_mid_snapshot(bed, TIGHT)
    writer = Overwriting(primary)
    seen = set()

    def given_up(status):
        seen.add(size(replica))
        return said_or_again(agent, status, LOST)

    try:
        agent.wait_status(given_up, "no snapshot is given up", 60)
    finally:
        writer.stop()
    deadline = time.monotonic() + 60 * SLOW
    while KEYS not in seen and time.monotonic() < deadline:
        seen.add(size(replica))
    assert seen - {None} == {1, KEYS}, seen
    agent.wait_warm(60)
    assert_equal_now(primary, replica)


def test_a_primary_that_overtakes_every_snapshot_ends_none_for_ever(bed):
    """Some are given up; then one is taken as it is, and not called warm before it is whole."""
    primary, replica, _, agent = in_mid_snapshot(bed, TIGHT)
    writer = Overwriting(primary)
    try:
        agent.wait_status(lambda status: said_or_again(agent, status, OVERTAKEN)
                          and status["apply"]["link"] == "online", "no end", 120)
        while (status := agent.status())["state"] != "warm" and status["lag_versions"] > 0:
            if size(replica) == KEYS:
                break
        assert size(replica) == KEYS or status["state"] != "warm", status
    finally:
        writer.stop()
    agent.wait_warm(60)
    assert_equal_now(primary, replica)


def test_a_proxy_lost_before_the_server_has_connected(bed):
    """The server is told to follow, and what it would be sent is gone: it must not wait for that."""
    pair = bed.pair(fill=data.fill, agent=REPLICA)
    pair.replica.command("CONFIG", "SET", "replica-read-only", "no")
    pair.replica.command("SET", "old", 1)
    limits = resource.prlimit(pair.agent.pid, resource.RLIMIT_NOFILE)
    with Rpc(pair.agent.control) as rpc:
        rpc.call("version") # it is let in itself
        # Nobody is let in for want of descriptors: the server waits to be.
        resource.prlimit(pair.agent.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
        rpc.call("resync")
        wait_for(lambda: rpc.call("status")["apply"]["link"] == "waiting", "not told to follow")
        pair.proxy.kill()
        wait_for(lambda: rpc.call("status")["state"] == "connecting", "the proxy is not missed")
        resource.prlimit(pair.agent.pid, resource.RLIMIT_NOFILE, limits)
        wait_for(lambda: rpc.call("status")["apply"]["full_syncs"] == 2, "it does not come")
    wait_answer(pair.replica)
    wait_for(lambda: link(pair.agent)["link"] == "off", "it holds on to the server")
    assert pair.agent.status()["state"] != "warm"
    pair.proxy.restart()
    pair.settle()


def test_a_primary_upgraded_in_mid_snapshot(bed, need_server):
    """What comes now would not be loaded: the server is told so at once, not left waiting for it."""
    need_server("redis-trixie")
    # It comes back with other data each time: they may go.
    primary, replica, _, agent = in_mid_snapshot(bed, {"source__max_missing": 1}, "own")
    primary.kill()
    primary.binary = "redis-trixie"
    primary.restart()
    data.fill(primary)
    agent.wait_state("failed", reason="RDB version")
    wait_answer(replica)
    wait_for(lambda: link(agent)["link"] == "off", "it holds on to the server")
    primary.kill()
    primary.binary = "own"
    primary.restart()
    data.fill(primary)
    agent.wait_warm(60)
    assert_equal_now(primary, replica)


def test_a_proxy_that_answers_no_more_holds_no_load_up(bed):
    """Nothing is read, and no deadline of a READ says so: ten seconds are enough."""
    primary, replica, proxy, agent = in_mid_snapshot(
        bed, {"listen": ("tcp",)}, via="tcp", remote__read_timeout_ms=60_000)
    proxy.signal(signal.SIGSTOP)
    wait_for(lambda: link(agent)["link"] == "off", "the load goes on", 25)
    wait_answer(replica)
    # Nor is another one begun before the proxy comes to.
    time.sleep(2)
    assert link(agent)["link"] == "off" and link(agent)["full_syncs"] == 1
    assert agent.status()["state"] != "warm"
    proxy.signal(signal.SIGCONT)
    agent.wait_warm(60)
    assert_equal_now(primary, replica)
