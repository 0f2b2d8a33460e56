"""
Two guests, and the network between them swallows everything, one way or both: nothing may hang, each
side says what is wrong, and when it lifts the replica becomes equal by itself.
"""
import contextlib
import os
import subprocess
import time
import xmlrpc.client

import pytest
import redis

from lib import compare
from lib.daemon import secret_file
from lib.process import wait_for
from lib.server import binary_version
from lib.workload import Workload, seed_of_run

FAR = os.environ.get("KW_FAR", "") # address:port of the far guest's ear
HOLE = "tc qdisc add dev eth0 root netem loss 100%"
LIFT = "tc qdisc del dev eth0 root"


class FarServer:
    """The primary there, as the comparisons want it."""

    def __init__(self, host):
        self.host = host
        self.kind, self.version = binary_version("installed")

    def client(self, db=0, timeout=60, **options):
        return redis.Redis(host=self.host, port=6379, db=db, socket_timeout=timeout, **options)

    def admin(self, db=0, timeout=60):
        return self.client(db, timeout)

    def command(self, *words, db=0):
        with self.client(db) as client:
            return client.execute_command(*words)


class FarProxy:
    """The proxy there, as far as an agent of the bed needs to know it."""

    def __init__(self, far):
        self.listen = {"rdma": far.proxy_address()}
        self.settings = {}


class Net:
    """What joins the guests: `near` swallows what leaves here (requests), `far` what comes back."""

    def __init__(self, far):
        self.far = far

    @contextlib.contextmanager
    def hole(self, near=True, far=True):
        if near:
            subprocess.run(["/bin/sh", "-c", HOLE], check=True)
        if far:
            self.order(HOLE)
        try:
            yield
        finally:
            if near:
                subprocess.run(["/bin/sh", "-c", LIFT], check=True)
            if far:
                self.order(LIFT)

    def order(self, line):
        status, text = self.far.shell(line)
        assert status == 0, text


class World:
    """A primary and its proxy there; a replica and its agent here."""

    def __init__(self, bed):
        self.far = xmlrpc.client.ServerProxy(f"http://{FAR}", allow_none=True)
        wait_for(self.far_answers, "the far guest does not answer", 60, 0.5)
        self.net = Net(self.far)
        self.primary = FarServer(FAR.split(":")[0])
        self.primary.command("FLUSHALL")
        with self.primary.client() as client:
            client.mset({f"key:{i}": "x" * (i % 300) for i in range(2000)})
        self.replica = bed.server("replica")
        self.agent = bed.agent(FarProxy(self.far), self.replica, via="rdma", start=False,
                               auth__secret_file=secret_file(bed.directory))

    def far_answers(self):
        try:
            return self.far.proxy_address()
        except OSError:
            return False

    def write(self, key):
        with self.primary.client() as client:
            client.set(key, key)

    def settle(self):
        self.agent.wait_warm(60)
        compare.assert_equal_now(self.primary, self.replica)


@pytest.fixture
def world(bed):
    return World(bed)


def expect_noticed(world, began):
    """The agent is not warm any more, and says that its proxy cannot be reached."""
    status = world.agent.wait_state("connecting", "stalled", timeout=20)
    assert status["reason"], status
    print(f"noticed after {time.monotonic() - began:.1f} s: {status['reason']}")


@pytest.mark.parametrize("near, far", [(True, True), (True, False), (False, True)],
                         ids=["both", "requests", "answers"])
def test_while_idle(world, near, far):
    world.agent.start()
    world.settle()
    with world.net.hole(near, far):
        began = time.monotonic()
        expect_noticed(world, began)
        world.write("written meanwhile")
        assert world.agent.status()["state"] != "warm"
        # The proxy has nobody left, without having been told.
        wait_for(lambda: world.far.agents() == [],
                 lambda: "the proxy keeps the session:\n" + world.far.proxy_log(), 40, 0.5)
    world.settle()


def test_while_reading(world):
    """In the middle of a load, thrice; each time it finds back to its cursor and catches up."""
    world.agent.start()
    world.settle()
    load = Workload(world.primary, seed_of_run(), pace=500, short_ttls=False).start()
    for _ in range(3):
        time.sleep(2)
        with world.net.hole():
            expect_noticed(world, time.monotonic())
        world.agent.wait_state("warm", "lagging", timeout=40)
    load.stop()
    world.settle()
    assert world.agent.status()["snapshots"] <= 2, "it began anew instead of going on"


def test_while_bootstrapping(world):
    with world.primary.client() as client:
        for part in range(20):
            client.mset({f"large:{part}:{i}": os.urandom(50_000) for i in range(20)})
    world.agent.start()
    wait_for(lambda: (world.agent.try_status() or {}).get("bytes_read", 0) > 1_000_000,
             "no bootstrap", 30, 0.01)
    with world.net.hole():
        expect_noticed(world, time.monotonic())
    world.settle()


def test_while_connecting(world):
    with world.net.hole():
        world.agent.start()
        status = world.agent.wait_status(
            lambda status: status["state"] == "connecting" and status["reason"], "no reason", 30)
        print(status["reason"])
        time.sleep(8) # a deadline passes, and another one
        assert world.agent.status()["state"] == "connecting"
        assert world.replica.command("DBSIZE") == 0
    world.settle()


def test_a_moment_of_it_is_only_a_delay(world):
    """Below what the retries last: the connection holds."""
    world.agent.settings["rdma.ack_timeout"] = 18 # 1 s a try, where such moments are usual
    world.agent.settings["remote.read_timeout_ms"] = 20000
    world.agent.start()
    world.settle()
    for _ in range(5): # on a busy machine a moment can last longer than the retries do
        epoch, connected = world.agent.status()["epoch"], world.agent.output().count("READs in flight")
        begin = time.monotonic()
        with world.net.hole():
            time.sleep(0.5)
        if time.monotonic() - begin < 2.5:
            break
        world.settle()
    else:
        raise AssertionError("this machine is too slow for a moment of half a second")
    world.write("after the moment")
    world.settle()
    assert world.agent.status()["epoch"] == epoch
    assert world.agent.output().count("READs in flight") == connected, world.agent.tail()
