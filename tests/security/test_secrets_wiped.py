"""Secrets leave memory when they are no longer needed, and no core file has them or the data."""
import hashlib
import os
import resource
import signal

import pytest

from lib import dump
from lib.process import wait_for
from lib.resp import Raw

PASSWORD = "unguessable-7391-of-the-server"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can read another process's memory")


@pytest.fixture
def guarded(bed):
    """Servers that want a password, and a file with it."""
    servers = [bed.server(name, requirepass=PASSWORD) for name in ("primary", "replica")]
    return *servers, bed.file("password", PASSWORD + "\n")


def copies(daemon):
    return dump.places(daemon.pid, PASSWORD.encode())


def wait_places(daemon, needle, count):
    """Until so many copies are left: a connection may be logging in, or may be going, at the moment."""
    def places():
        return dump.places(daemon.pid, needle.encode())
    wait_for(lambda: len(places()) == count, lambda: f"{daemon.name}: not {count}: {places()}")


def test_the_proxy_keeps_one_copy_of_its_password(bed, guarded):
    """It is needed for the next connection. Sent commands, buffers and files that were read hold none."""
    primary, _, file = guarded
    proxy = bed.proxy(primary, redis__password_file=file)
    proxy.wait_live()
    wait_places(proxy, PASSWORD, 1)


def test_the_agent_keeps_one_copy_of_its_password(bed, guarded):
    primary, replica, file = guarded
    proxy = bed.proxy(primary, redis__password_file=file)
    agent = bed.agent(proxy, replica, redis__password_file=file)
    agent.wait_warm()
    wait_places(agent, PASSWORD, 1)


OLD, NEW = "the-secret-before-4711-abcdef", "the-secret-after-0815-abcdef-0"


def test_a_replaced_secret_is_nowhere_in_memory(bed):
    """In the proxy and in the agent, after both were told to read their files again."""
    file = bed.file("shared", OLD + "\n")
    proxy = bed.proxy(bed.server("primary"), auth__secret_file=file)
    agent = bed.agent(proxy, bed.server("replica"), auth__secret_file=file)
    agent.wait_warm()
    for daemon in (proxy, agent):
        assert dump.places(daemon.pid, OLD.encode()), "it must be found while it is in use"
    bed.file("shared", NEW + "\n")
    for daemon in (proxy, agent):
        daemon.ctl_ok("config", "reload")
    agent.wait_warm()
    for daemon in (proxy, agent):
        wait_places(daemon, OLD, 0)


@pytest.mark.parametrize("end", ["replaced", "withdrawn", "refused"])
def test_a_key_of_the_file_of_keys_is_nowhere_in_memory_after_a_reload(bed, end):
    """Neither its digits nor its bytes, nor the larger part of either. `refused`: a reload that failed leaves none."""
    digits, others = (hashlib.sha256(word).hexdigest() for word in (b"the key that goes", b"the key that stays"))
    needles = [digits.encode(), digits.encode()[16:], bytes.fromhex(digits), bytes.fromhex(digits)[8:]]
    lines = f"key edge-2 {others}\n"
    before = lines if end == "refused" else lines + f"key edge-1 {digits}\n"
    primary = bed.server("primary")
    proxy = bed.proxy(primary, auth__secret_file="", auth__keys_file=bed.file("keys", before))
    agent = bed.agent(proxy, bed.server("replica"), auth__key_id="edge-1" if end == "replaced" else "edge-2",
                      auth__secret_file=bed.file("own", digits if end == "replaced" else others))
    agent.wait_warm()
    if end != "refused":
        assert dump.places(proxy.pid, bytes.fromhex(digits)), "it must be found while it is in use"
    after = {"replaced": lines + f"key edge-1 {others[::-1]}\n", "withdrawn": lines,
             "refused": lines + f"key edge-1 {digits}\nkey edge-1 {digits} no-such-rule=1\n"}[end]
    bed.file("keys", after)
    bed.file("own", others[::-1] if end == "replaced" else others)
    assert proxy.ctl("config", "reload").returncode == (2 if end == "refused" else 0)
    agent.ctl_ok("config", "reload")
    agent.wait_warm()
    for daemon in (proxy, agent):
        for needle in needles:
            wait_for(lambda daemon=daemon, needle=needle: not dump.places(daemon.pid, needle),
                     lambda daemon=daemon, needle=needle: f"{daemon.name}: {dump.places(daemon.pid, needle)}")


def test_a_new_password_of_a_server_is_taken_up_by_a_reload(bed, guarded):
    """The next connections log in with it, data go on, and the old one is nowhere in memory."""
    primary, replica, file = guarded
    proxy = bed.proxy(primary, redis__password_file=file)
    agent = bed.agent(proxy, replica, redis__password_file=file)
    agent.wait_warm()
    bed.file("password", NEW + "\n")
    for server in (primary, replica):
        server.client(password=PASSWORD).config_set("requirepass", NEW)
    for daemon in (proxy, agent):
        daemon.ctl_ok("config", "reload")
    for server in (primary, replica):
        for kind in ("normal", "pubsub"):
            server.client(password=NEW).client_kill_filter(_type=kind, skipme=True)
    primary.client(password=NEW).set("after", "the change")
    proxy.wait_live()
    agent.wait_warm()
    assert replica.client(password=NEW).get("after") == b"the change"
    for daemon in (proxy, agent):
        wait_places(daemon, PASSWORD, 0)
        wait_places(daemon, NEW, 1)


def test_a_gateway_wipes_what_its_clients_log_in_with(bed):
    """Of users that are let in, and of those that are not. Nothing is asked of the client afterwards."""
    users = f"user app on >{PASSWORD} ~* +@all\n"
    gateway = bed.gateway(bed.proxy(bed.server("primary")), gateway__users_file=bed.file("users", users))
    gateway.wait_fresh()
    bed.file("users", "")
    wrong = "wrong-" + PASSWORD[::-1]
    with Raw(gateway.socket) as client:
        assert client.ask("AUTH", "app", PASSWORD) == b"+OK\r\n"
        assert client.ask("AUTH", "app", wrong).startswith(b"-WRONGPASS")
        client.socket.sendall(f"AUTH app {wrong}\r\n".encode())
        assert client.reply().startswith(b"-WRONGPASS")
        assert client.ask("HELLO", "3", "AUTH", "app", wrong).startswith(b"-WRONGPASS")
        for password in (PASSWORD, wrong):
            wait_places(gateway, password, 0)


@pytest.mark.parametrize("tail", ["", "\r\n$1\r\n"], ids=["the end is missing", "a word is missing"])
def test_a_gateway_wipes_a_login_that_was_broken_off(bed, tail):
    """The client goes away in the middle of it: its buffer is used for the next client, and is not cleared by that."""
    gateway = bed.gateway(bed.proxy(bed.server("primary")))
    gateway.wait_fresh()
    with Raw(gateway.socket) as client:
        assert client.ask("PING") == b"+PONG\r\n"
        client.socket.sendall(f"*4\r\n$4\r\nAUTH\r\n$3\r\napp\r\n${len(PASSWORD)}\r\n{PASSWORD}{tail}".encode())
        wait_for(lambda: copies(gateway), "it must be found while it is there", 30)
    wait_for(lambda: gateway.status()["clients"] == 0, lambda: gateway.status(), 30)
    wait_places(gateway, PASSWORD, 0)


def test_a_stranger_of_the_same_user_cannot_look_into_a_daemon(bed, stranger):
    """Two daemons of one user: neither can attach to the other, read its memory, or open its files."""
    bed_proxy = bed.proxy(bed.server("primary"), start=False)
    bed_proxy.directory = stranger.home
    bed_proxy.control = os.path.join(stranger.home, "proxy.ctl")
    bed_proxy.settings.update({"control.socket": bed_proxy.control, "listen": [f"shm://{stranger.home}/t.shm"]})
    os.chmod(bed.directory, 0o711)
    stranger.become(bed_proxy).start()
    for name in ("mem", "environ", "maps", "fd/0"):
        assert stranger.cannot(read_some, f"/proc/{bed_proxy.pid}/{name}"), name


def read_some(path):
    with open(path, "rb", buffering=0) as stream:
        stream.read(1)


def test_the_table_is_in_no_core_file(bed):
    pair = bed.pair()
    pair.settle()
    for daemon in (pair.proxy, pair.agent):
        flags = dump.in_core_file(daemon.pid, "memfd:keywake-table")
        assert flags and all("dd" in each for each in flags), (daemon.name, flags)


def test_a_daemon_that_dies_leaves_no_core_file(bed):
    proxy = bed.proxy(bed.server("primary"), start=False)
    proxy.start()
    with open("/proc/sys/kernel/core_pattern", encoding="ascii") as stream:
        if stream.read().strip() != "core":
            pytest.skip("core files of this host go elsewhere")
    most = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(proxy.pid, resource.RLIMIT_CORE, most)
    folder = os.readlink(f"/proc/{proxy.pid}/cwd")
    before = set(os.listdir(folder))
    os.kill(proxy.pid, signal.SIGSEGV)
    wait_for(lambda: not proxy.alive, "it lives on")
    cores = {name for name in set(os.listdir(folder)) - before if name.startswith("core")}
    for name in cores:
        os.remove(os.path.join(folder, name))
    assert not cores
