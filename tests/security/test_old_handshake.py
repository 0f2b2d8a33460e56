"""
Version 0.1 at the other end: its handshake can be relayed, so neither side talks it. Both say so, and the replica
keeps its data. The bytes are those that programs of version 0.1 sent.

    KW_OLD=DIR    a build of version 0.1: the same with its programs
"""
import os
import re
import socket
import threading

import pytest

from lib import data, wire
from lib.compare import assert_equal_now
from lib.daemon import secret_file
from lib.process import wait_for

pytestmark = pytest.mark.quick

HELLO = bytes.fromhex("4b57483101007000 0200 01 06 10000000"
                      "a344af55770cfc3e7c7459275842158b072f23f5662cd37658096251bef9463e") + b"edge-1".ljust(64, b"\0")
# To a HELLO of this version.
REFUSE = bytes.fromhex("4b57483105001000 0100 0200 00000000")

TO_PROXY = "the proxy is of version 0.1, whose handshake can be relayed: upgrade the proxy"
TO_AGENT = "it is of version 0.1, whose handshake can be relayed: upgrade it"


class OldProxy:
    """Answers every HELLO as a proxy of version 0.1 does."""

    def __init__(self, address):
        self.listener = wire.listen(address)
        self.hellos = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        while True:
            try:
                agent, _ = self.listener.accept()
            except OSError: # closed
                return
            with agent:
                try:
                    self.hellos.append(wire.receive_message(agent))
                    agent.sendall(REFUSE)
                    agent.recv(1)
                except (OSError, wire.Ended):
                    pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(10)


def old(program):
    folder = os.environ.get("KW_OLD")
    if not folder:
        pytest.skip("KW_OLD names no build of version 0.1")
    return os.path.join(folder, program)


def become_old(daemon, program):
    """A daemon that was not started yet, with the program of version 0.1."""
    daemon.program = old(program)
    return daemon


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_an_agent_of_version_0_1_is_told_and_named(bed, carrier):
    proxy = bed.proxy(bed.server("primary"), listen=("shm", "tcp"))
    proxy.wait_live()
    with wire.dial(proxy.listen[carrier]) as agent:
        agent.sendall(HELLO)
        refusal = wire.receive_message(agent)
        assert refusal == wire.refuse(1, version=3), refusal.hex()
        assert agent.recv(1) == b"" # and nothing after it
    wait_for(lambda: f"refused agent edge-1: {TO_AGENT}" in proxy.output(), "the proxy does not name it")
    assert proxy.ctl_ok("agents") == []


def test_many_agents_of_version_0_1_do_not_fill_the_log(bed):
    proxy = bed.proxy(bed.server("primary"), listen=("tcp",))
    proxy.wait_live()
    for _ in range(300):
        with wire.dial(proxy.listen["tcp"]) as agent:
            agent.sendall(HELLO)
            assert wire.type_of(wire.receive_message(agent)) == wire.REFUSE
    metrics = proxy.ctl_ok("metrics")
    lines = [line for line in proxy.output().splitlines() if TO_AGENT in line and " warn " in line]
    assert 0 < len(lines) < 150, (len(lines), metrics)


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_a_proxy_of_version_0_1_is_named_and_the_replica_keeps_its_data(bed, carrier):
    """The agent was upgraded first. It waits, and goes on when the proxy is upgraded, too."""
    pair = bed.pair(listen=("shm", "tcp"), via=carrier, fill=lambda primary: data.fill_plain(primary, 300))
    keys = pair.replica.command("DBSIZE")
    assert pair.proxy.stop() == 0
    with OldProxy(pair.proxy.listen[carrier]) as proxy:
        status = pair.agent.wait_status(lambda status: TO_PROXY in (status["reason"] or ""),
                                        "no reason that names the version")
        assert status["state"] not in ("warm", "bootstrapping")
        wait_for(lambda: len(proxy.hellos) >= 6, "it does not try again", 60)
        assert pair.replica.command("DBSIZE") == keys
        for hello in proxy.hellos:
            assert len(hello) == 192 and hello[8:10] == b"\3\0"
        # It says so once, not at each try.
        said = [line for line in pair.agent.output().splitlines()
                if TO_PROXY in line and re.search(r" (info|warn|error) ", line)]
        assert 1 <= len(said) <= 2, said
    if carrier == "shm":
        os.unlink(wire.endpoint(pair.proxy.listen["shm"]))
    pair.proxy.start()
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)
    assert pair.agent.status()["snapshots"] == 2 # of the new table


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_an_agent_that_is_of_version_0_1_says_so(bed, carrier):
    proxy = bed.proxy(bed.server("primary"), listen=("shm", "tcp"))
    proxy.wait_live()
    agent = become_old(bed.agent(proxy, bed.server("replica"), via=carrier, start=False), "agent/keywake-agent")
    agent.start()
    agent.wait_status(lambda status: "its table has layout version 3, this agent reads 2: upgrade the older one"
                      in (status["reason"] or ""), "version 0.1 does not say why")
    wait_for(lambda: f"refused agent agent: {TO_AGENT}" in proxy.output(), "the proxy does not name it")
    lines = [line for line in proxy.output().splitlines() if TO_AGENT in line and " warn " in line]
    assert len(lines) < 20, lines


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_a_proxy_that_is_of_version_0_1_says_so(bed, carrier):
    proxy = bed.proxy(bed.server("primary"), listen=("shm", "tcp"), start=False,
                      auth__secret_file=secret_file(bed.directory))
    become_old(proxy, "proxy/keywake-proxy").start()
    agent = bed.agent(proxy, bed.server("replica"), via=carrier)
    agent.wait_status(lambda status: TO_PROXY in (status["reason"] or ""), "no reason that names the version")
    wait_for(lambda: "the agent reads layout version 3, this table has 2: upgrade the older one" in proxy.output(),
             "version 0.1 does not say why")
