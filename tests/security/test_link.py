"""The link of mode replica: the local server trusts any program at the agent's port, so it is told no secret of others."""
import os
import socket
import sys
import threading

import pytest
import redis

from lib import data
from lib.compare import assert_equal_now
from lib.daemon import free_port
from lib.liar import Liar
from lib.process import wait_for

pytestmark = pytest.mark.quick

SECRET = "the operators password"
SETTINGS = dict(apply__mode="replica", apply__consent=True)


def setting(server, name):
    answer = server.command("CONFIG", "GET", name)
    return dict(zip(answer[::2], answer[1::2]))[name.encode()].decode() if isinstance(answer, list) else answer[name]


def role(server):
    return server.command("ROLE")[0].decode()


def replica_with_masterauth(bed):
    primary, replica = bed.server("primary"), bed.server("replica", masterauth=SECRET)
    data.fill_plain(primary, 100)
    return bed.proxy(primary), primary, replica


def heard_at(port, replica):
    """What the server tells the one who listens at the dead agent's port."""
    with Liar(("127.0.0.1", port), {b"PING": b"+PONG\r\n"}) as liar:
        wait_for(lambda: role(replica) == "master" or len(liar.heard) > 1, "it says nothing", 30)
        return b" ".join(liar.heard_words())


@pytest.mark.parametrize("told", [False, True], ids=["without the file", "with the file"])
def test_the_operators_masterauth_never_leaves_the_server(bed, told):
    proxy, _, replica = replica_with_masterauth(bed)
    port = free_port()
    more = {"apply__replica__masterauth_file": bed.file("masterauth", SECRET + "\n")} if told else {}
    agent = bed.agent(proxy, replica, **SETTINGS, apply__replica__listen=f"tcp://127.0.0.1:{port}", **more)
    status = agent.wait_state("warm", "failed")
    agent.kill()
    heard = heard_at(port, replica)
    assert SECRET.encode() not in heard, heard
    if told:
        assert b"AUTH keywake/" in heard or b"keywake/" in heard, heard
    else:
        assert status["state"] == "failed" and "apply.replica.masterauth_file" in status["reason"], status
        assert role(replica) == "master" and setting(replica, "masterauth") == SECRET


def test_the_operators_masterauth_is_put_back(bed):
    proxy, primary, replica = replica_with_masterauth(bed)
    path = bed.file("masterauth", SECRET + "\n")
    agent = bed.agent(proxy, replica, **SETTINGS, apply__replica__masterauth_file=path)
    agent.wait_warm()
    assert setting(replica, "masterauth").startswith("keywake/")
    # An agent that was killed, and another one finds that a person has taken the server.
    agent.kill()
    replica.command("REPLICAOF", "NO", "ONE")
    agent.restart()
    agent.wait_state("failed")
    wait_for(lambda: setting(replica, "masterauth") == SECRET, "not put back to a promoted server")
    agent.ctl_ok("resync")
    agent.wait_warm()
    assert_equal_now(primary, replica)
    # One that lets it go itself.
    agent.ctl_ok("shutdown", "--promote")
    agent.popen.wait(30)
    assert role(replica) == "master" and setting(replica, "masterauth") == SECRET


def test_another_masterauth_than_the_files_is_left_alone(bed):
    proxy, _, replica = replica_with_masterauth(bed)
    agent = bed.agent(proxy, replica, **SETTINGS, apply__replica__masterauth_file=bed.file("masterauth", "another"))
    agent.wait_state("failed", reason="is not the password in apply.replica.masterauth_file")
    assert role(replica) == "master" and setting(replica, "masterauth") == SECRET
    assert SECRET not in agent.output()


HOLDER = """
import os, socket, sys
ours = socket.socket(socket.AF_UNIX)
ours.connect(sys.argv[1])
_, fds, _, _ = socket.recv_fds(ours, 1, 1)
if fds[0] != 3:
    os.dup2(fds[0], 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1", LISTEN_FDNAMES="link")
os.execv(sys.argv[2], sys.argv[2:])
"""


class Holder:
    """As systemd does: a socket that stays open while the agent is dead, passed to each one that starts."""

    def __init__(self, bed):
        self.held = socket.create_server(("127.0.0.1", 0))
        self.port = self.held.getsockname()[1]
        self.path = os.path.join(bed.directory, "holder")
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(self.path)
        self.door.listen()
        threading.Thread(target=self.pass_on, daemon=True).start()

    def pass_on(self):
        while True:
            try:
                client, _ = self.door.accept()
            except OSError:
                return
            with client:
                socket.send_fds(client, [b"x"], [self.held.fileno()])

    def close(self):
        self.door.close()
        self.held.close()


def bind(port):
    with socket.socket() as ours:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        ours.bind(("127.0.0.1", port))
        ours.listen()


def test_a_stranger_cannot_bind_the_link_port_of_a_dead_agent(bed, stranger):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 100)
    holder = Holder(bed)
    agent = bed.agent(bed.proxy(primary), replica, start=False, **SETTINGS, apply__replica__listen="systemd:link")
    agent.inside = (sys.executable, "-c", HOLDER, holder.path)
    agent.start()
    agent.wait_warm()
    assert agent.status()["apply"]["port"] == holder.port
    assert "any user of this host can bind" not in agent.output(), agent.tail()
    agent.kill()
    assert stranger.cannot(bind, holder.port)
    agent.restart()
    agent.wait_warm()
    assert agent.status()["apply"]["continuations"] == 1, agent.status()
    assert_equal_now(primary, replica)
    holder.close()


def test_a_socket_that_systemd_does_not_pass_is_told(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    agent = bed.agent(bed.proxy(primary), replica, **SETTINGS, apply__replica__listen="systemd:link")
    agent.wait_status(lambda status: "keywake-agent-link@.socket" in (status["reason"] or ""), "no reason")
    assert role(replica) == "master"


@pytest.mark.parametrize("mode,privileged,warned", [
    ("replica", False, True), ("replica", True, False), ("hybrid", False, False)])
def test_a_port_that_others_can_take_is_warned_of(bed, mode, privileged, warned):
    if privileged and os.geteuid() != 0:
        pytest.skip("only root can bind a privileged port")
    port = free_port(512, 1023) if privileged else 0
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 10)
    agent = bed.agent(bed.proxy(primary), replica, apply__mode=mode, apply__consent=True,
                      apply__replica__listen=f"tcp://127.0.0.1:{port}")
    agent.wait_warm()
    assert ("apply.replica.listen=systemd:link" in agent.output()) == warned, agent.tail()


def test_replies_with_passwords_do_not_stay_in_memory(bed):
    """CONFIG GET tells masterauth at each takeover."""
    if os.geteuid() != 0:
        pytest.skip("only root can read the memory of a process")
    proxy, _, replica = replica_with_masterauth(bed)
    agent = bed.agent(proxy, replica, **SETTINGS, apply__replica__masterauth_file=bed.file("masterauth", SECRET))
    agent.wait_warm()
    with redis.Redis(unix_socket_path=replica.socket) as client:
        mark = client.config_get("masterauth")["masterauth"]
    # The one in use, which it compares; the operator's, to be put back; no third copy of either stays.
    wait_for(lambda: occurrences(agent.pid, mark.encode()) <= 2, "copies of its own password stay")
    wait_for(lambda: occurrences(agent.pid, SECRET.encode()) <= 2, "copies of the operator's password stay")


def occurrences(pid, text):
    found = 0
    with open(f"/proc/{pid}/maps", encoding="ascii") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, rights = line.split()[:2]
            if "rw" not in rights or "kw-" in line:
                continue
            begin, end = (int(number, 16) for number in span.split("-"))
            if end - begin > 256 << 20:
                continue
            try:
                memory.seek(begin)
                found += memory.read(end - begin).count(text)
            except OSError:
                continue
    return found
