"""A proxy that is restarted keeps its table: agents and gateways go on, and nothing is written twice."""
import array
import errno
import glob
import os
import re
import socket
import stat
import threading
import uuid

import pytest

from lib import compare
from lib.daemon import Proxy
from lib.process import wait_for

KEYS = 20_000
FD_BYTES = array.array("i").itemsize


class Manager:
    """What systemd does for a proxy: it keeps descriptors that it is given, and passes them on."""

    def __init__(self, directory):
        self.path = os.path.join(directory, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.kept = None
        self.forgotten = 0
        self.extended = 0
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            text, ancillary, _, _ = self.socket.recvmsg(4096, socket.CMSG_SPACE(4 * FD_BYTES))
            fds = array.array("i")
            for _, _, data in ancillary:
                fds.frombytes(data[:len(data) - len(data) % FD_BYTES])
            words = text.decode().split("\n")
            if "FDSTORE=1" in words and "FDNAME=keywake-table" in words:
                self.kept = fds.pop()
            if "FDSTOREREMOVE=1" in words and self.kept is not None:
                os.close(self.kept)
                self.kept = None
                self.forgotten += 1
            self.extended += any(word.startswith("EXTEND_TIMEOUT_USEC=") for word in words)
            for fd in fds: # a barrier ends when its pipe is closed
                os.close(fd)

    def start(self, proxy):
        """As descriptor 3, which the environment names with the process it is for."""
        proxy.env = {**(proxy.env or {}), "NOTIFY_SOCKET": self.path}
        proxy.wrapper = []
        if self.kept is not None:
            proxy.wrapper = ["sh", "-c", f"exec 3<>/proc/{os.getpid()}/fd/{self.kept}; LISTEN_PID=$$ "
                             'LISTEN_FDS=1 LISTEN_FDNAMES=keywake-table exec "$@"', "sh"]
        proxy.start()


class File:
    """Without systemd: table.keep_file."""

    def __init__(self):
        self.path = f"/dev/shm/kw-test-{uuid.uuid4().hex}"

    def start(self, proxy):
        proxy.settings["table.keep_file"] = self.path
        proxy.start()


def file_of(bed):
    """A proxy that ends leaves a file: so all of them end first."""
    keeper = File()
    yield keeper
    for daemon in bed.daemons:
        if isinstance(daemon, Proxy) and daemon.alive:
            stop(daemon)
    for path in glob.glob(keeper.path + "*"):
        os.unlink(path)


@pytest.fixture(params=["file", "store"])
def keeper(request, bed):
    if request.param == "file":
        yield from file_of(bed)
        return
    if os.geteuid() != 0:
        pytest.skip("only root can open another process's memory file for writing")
    yield Manager(bed.directory)


@pytest.fixture
def file(bed):
    yield from file_of(bed)


def fill(server):
    with server.client() as client:
        client.mset({f"key:{i}": f"value {i}" for i in range(KEYS)})
    with server.client(db=3) as client:
        client.mset({f"third:{i}": i for i in range(100)})


def restores(server):
    with server.admin() as client:
        return client.info("commandstats").get("cmdstat_restore", {"calls": 0})["calls"]


def stop(proxy):
    assert proxy.stop() == 0, proxy.tail()


@pytest.fixture
def kept(bed, keeper):
    """A primary, its proxy and an agent that is warm."""
    primary, replica = bed.server("primary"), bed.server("replica")
    fill(primary)
    proxy = bed.proxy(primary, start=False)
    keeper.start(proxy)
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    return primary, proxy, agent, replica


@pytest.mark.quick
@pytest.mark.core
def test_an_agent_goes_on_over_a_restart_of_its_proxy(kept, keeper):
    primary, proxy, agent, replica = kept
    before, restored = proxy.status(), restores(replica)
    snapshots = agent.output().count("snapshot of")
    stop(proxy)
    keeper.start(proxy)
    proxy.wait_live()
    agent.wait_warm()
    assert proxy.status()["epoch"] == before["epoch"], proxy.tail()
    assert restores(replica) == restored, "what was in the replica already was written again"
    assert agent.output().count("snapshot of") == snapshots
    compare.assert_equal_now(primary, replica)

    if not isinstance(keeper, File): # a thread of ours hears it
        wait_for(lambda: keeper.extended == 3, lambda: f"{keeper.extended} times, not at each start and end")

    stop(proxy)
    with primary.client() as client:
        client.mset({f"key:{i}": "changed" for i in range(70)})
        client.delete(*(f"key:{i}" for i in range(1000, 1900)))
        client.set("new", "one")
    keeper.start(proxy)
    agent.wait_warm()
    assert proxy.status()["epoch"] == before["epoch"], proxy.tail()
    assert restores(replica) <= restored + 71
    assert agent.output().count("snapshot of") == snapshots
    compare.assert_equal_now(primary, replica)


def test_a_gateway_goes_on_over_a_restart_of_its_proxy(bed, kept, keeper):
    _, proxy, _, _ = kept
    gateway = bed.gateway(proxy, gateway__max_staleness_ms=60_000)
    gateway.wait_fresh()
    epoch = gateway.status()["epoch"]
    stop(proxy)
    keeper.start(proxy)
    gateway.wait_fresh()
    assert gateway.status()["epoch"] == epoch
    with gateway.client() as client:
        assert client.get("key:77") == b"value 77"


def test_a_kept_table_is_confirmed_anew(bed, file):
    """Whose data they are is kept; that their server is the primary is not."""
    primary, replica = bed.server("primary"), bed.server("replica")
    fill(primary)
    proxy = bed.proxy(primary, start=False, authority__by="operator", authority__term=7)
    file.start(proxy)
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    before, restored = proxy.status()["epoch"], restores(replica)
    stop(proxy)
    proxy.settings["authority.term"] = 0
    file.start(proxy)
    proxy.wait_state("unconfirmed")
    stop(proxy)
    proxy.settings["authority.term"] = 8
    file.start(proxy)
    agent.wait_warm()
    assert proxy.status()["epoch"] == before and restores(replica) == restored


def shows(held, words):
    """Do these words stand in the memory file that was held since before?"""
    at = 0
    try:
        while True:
            at = os.lseek(held, at, os.SEEK_DATA)
            end = os.lseek(held, at, os.SEEK_HOLE)
            if words in os.pread(held, end - at, at):
                return True
            at = end
    except OSError as error:
        assert error.errno == errno.ENXIO, error # no more of it
    return False


@pytest.mark.quick
def test_a_mapping_of_a_withdrawn_key_ends_with_a_restart(bed):
    """Over shm an agent maps the memory that systemd holds: of what a revoked one has mapped nothing is written on."""
    if os.geteuid() != 0:
        pytest.skip("only root can open another process's memory file for writing")
    primary, store = bed.server("primary"), Manager(bed.directory)
    fill(primary)
    lines = [f"key {name} {digit * 32}\n" for name, digit in (("one", "1"), ("two", "2"))]
    proxy = bed.proxy(primary, start=False, listen=("shm",), auth__keys_file=bed.file("keys", "".join(lines)))

    def restart(change=lambda: None):
        """What is written after it stands in a memory that was held since before?"""
        stop(proxy)
        held = os.dup(store.kept)
        assert shows(held, b"value 19999")
        change()
        store.start(proxy)
        proxy.wait_live()
        assert proxy.status()["epoch"] == epoch, proxy.tail()
        primary.command("SET", "written", word := uuid.uuid4().hex)
        token = proxy.rpc("barrier")["token"]
        wait_for(lambda: proxy.rpc("barrier", token=token)["passed"], "what was written is not in the table")
        followed = shows(held, word.encode())
        assert followed == shows(held, b"value 19999")
        os.close(held)
        return followed

    store.start(proxy)
    proxy.wait_live()
    epoch = proxy.status()["epoch"]
    assert restart(), "nothing has changed: the memory stays"
    assert not restart(lambda: bed.file("keys", lines[0]))
    assert restart()
    # Revoked while it ran, and back at the start: what it mapped in between is not followed, either.
    proxy.ctl_ok("agents", "revoke", "one")
    assert not restart()


def test_a_killed_proxy_begins_a_new_table(kept, keeper):
    primary, proxy, agent, replica = kept
    before = proxy.status()["epoch"]
    proxy.kill()
    keeper.start(proxy)
    agent.wait_warm()
    assert proxy.status()["epoch"] != before
    # It was kept once, and the process that took it was killed: that is no clean end.
    second = proxy.status()["epoch"]
    stop(proxy)
    keeper.start(proxy)
    assert proxy.status()["epoch"] == second
    proxy.kill()
    keeper.start(proxy)
    agent.wait_warm()
    assert proxy.status()["epoch"] != second
    compare.assert_equal_now(primary, replica)


def test_deletions_without_a_reason_are_held_over_a_restart(kept, keeper):
    """The table of before says what a primary that came back empty should have."""
    primary, proxy, _, replica = kept
    stop(proxy)
    primary.command("FLUSHALL")
    keeper.start(proxy)
    proxy.wait_state("held")
    with replica.client() as client:
        assert client.dbsize() == KEYS
    stop(proxy) # and once more: a restart is no way around it
    keeper.start(proxy)
    proxy.wait_state("held")


@pytest.mark.parametrize("key, value", [("table.segment_bytes", "2MiB"), ("source.databases", [0, 3]),
                                        ("name", "another"), ("source.cursor_name", "other_cursor"),
                                        ("table.max_bytes", "8GiB")])
def test_a_table_of_other_settings_is_not_kept_and_the_key_is_named(bed, file, key, value):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, start=False)
    file.start(proxy)
    proxy.wait_live()
    before = proxy.status()["epoch"]
    stop(proxy)
    proxy.settings[key] = value
    file.start(proxy)
    proxy.wait_live()
    assert proxy.status()["epoch"] != before
    said = re.findall(r"the table that was kept is not used[^\n]*", proxy.output())
    assert len(said) == 1 and key in said[0], said


def test_a_sealed_table_is_kept_in_a_file(bed, file):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, start=False, table__seal=True)
    file.start(proxy)
    proxy.wait_live()
    before = proxy.status()["epoch"]
    stop(proxy)
    file.start(proxy)
    proxy.wait_live()
    assert proxy.status()["epoch"] == before


def give_away(path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, -1)


@pytest.mark.parametrize("change", [lambda path: os.chmod(path, 0o644), lambda path: os.link(path, path + ".second"),
                                    give_away], ids=["mode", "second name", "owner"])
def test_the_file_is_for_the_proxy_alone_and_taken_once(bed, file, change):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, start=False)
    file.start(proxy)
    proxy.wait_live()
    before = proxy.status()["epoch"]
    assert not os.path.exists(file.path) # while it runs, nothing could be found
    stop(proxy)
    found = os.lstat(file.path)
    assert stat.S_IMODE(found.st_mode) == 0o600 and found.st_uid == os.geteuid()
    change(file.path)
    file.start(proxy)
    assert "not a file that this proxy wrote" in proxy.output()
    assert proxy.status()["epoch"] != before
    proxy.wait_live()
    stop(proxy)
    assert "the table is not kept" in proxy.output() # another file has the name


def test_a_file_that_came_while_the_proxy_ran_is_not_the_next_ones(bed, file):
    """A process that copies for long ends after the next one has begun: its table is an old one."""
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, start=False)
    file.start(proxy)
    proxy.wait_live()
    stop(proxy)
    os.rename(file.path, file.path + ".late")
    file.start(proxy)
    second = proxy.status()["epoch"]
    proxy.wait_live()
    os.rename(file.path + ".late", file.path)
    stop(proxy)
    file.start(proxy)
    assert proxy.status()["epoch"] == second, proxy.tail()


def test_a_kept_table_sets_no_replica_back(bed, file):
    """It is of the time when its proxy ended; an agent that followed another one meanwhile has newer data."""
    primary, replica = bed.server("primary"), bed.server("replica")
    fill(primary)
    first = bed.proxy(primary, start=False)
    file.start(first)
    agent = bed.agent(first, replica)
    agent.wait_warm()
    kept = first.status()["epoch"]
    stop(first)
    second = bed.proxy(primary, "second")
    agent.rpc("retarget", proxy=second.address)
    with primary.client() as client:
        client.set("key:5", "changed")
        client.set("new", "one")
    agent.wait_status(lambda status: status["epoch"] != kept and status["state"] == "warm",
                      "warm with the other table", 60)
    first.settings["source.keys_per_second"] = KEYS // 5
    file.start(first)
    assert first.status()["epoch"] == kept, first.tail()
    agent.rpc("retarget", proxy=first.address)

    def is_back():
        with replica.client() as client:
            assert client.mget("key:5", "new") == [b"changed", b"one"], agent.tail()
        status = agent.status()
        return status["epoch"] == kept and status["state"] == "warm"

    wait_for(is_back, "the agent is not warm with the table that was kept", timeout=90)
    compare.assert_equal_now(primary, replica)


def test_a_start_that_fails_leaves_the_table_to_the_next_one(bed, file):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, start=False)
    file.start(proxy)
    proxy.wait_live()
    before = proxy.status()["epoch"]
    stop(proxy)
    listen = proxy.settings["listen"]
    proxy.settings["listen"] = ["shm:///no/such/folder/proxy.shm"]
    proxy.start(wait=False)
    assert proxy.wait_exit(60) != 0
    proxy.settings["listen"] = listen
    file.start(proxy)
    assert proxy.status()["epoch"] == before, proxy.tail()


def test_a_file_that_holds_no_table_is_left_alone(bed, file):
    """A name that was mistyped, with a file of the proxy's own user behind it."""
    with open(os.open(file.path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as stream:
        stream.write("a secret")
    proxy = bed.proxy(bed.server("primary"), start=False)
    file.start(proxy)
    proxy.wait_live()
    stop(proxy)
    with open(file.path, encoding="ascii") as stream:
        assert stream.read() == "a secret"
    assert "holds no table" in proxy.output(), proxy.tail()


def test_without_a_scan_nothing_is_kept(bed, file):
    primary = bed.server("primary")
    primary.kill()
    proxy = bed.proxy(primary, start=False)
    file.start(proxy)
    proxy.wait_state("source_down")
    stop(proxy)
    assert not os.path.exists(file.path)


def test_table_keep_false_keeps_nothing(bed, file):
    """Nor what a run before left: it would be an old one when table.keep is true again."""
    primary = bed.server("primary")
    proxy = bed.proxy(primary, start=False)
    file.start(proxy)
    proxy.wait_live()
    stop(proxy)
    assert os.path.exists(file.path)
    proxy.settings["table.keep"] = False
    file.start(proxy)
    assert not os.path.exists(file.path)
    proxy.wait_live()
    stop(proxy)
    assert not os.path.exists(file.path)


def test_a_disk_is_no_place_for_the_table(bed):
    primary = bed.server("primary")
    proxy = bed.proxy(primary, start=False, table__keep_file="/proc/kw-table")
    proxy.start(wait=False)
    assert proxy.wait_exit(30) == 2
    assert "table.keep_file" in proxy.output() and "tmpfs" in proxy.output()


def test_a_kept_table_is_complete_before_the_primary_is_reached(kept, keeper):
    """A gateway answers from it, and no agent takes it for warm."""
    primary, proxy, agent, _ = kept
    stop(proxy)
    with primary.admin() as client:
        client.save()
    primary.kill()
    keeper.start(proxy)
    proxy.wait_state("source_down")
    status = proxy.status()
    assert status["keys"] == KEYS + 100 and status["fresh_us"] == 0, status
    agent.wait_state("stalled")
    primary.restart()
    agent.wait_warm()
    wait_for(lambda: proxy.status()["fresh_us"] > 0, "the table does not get fresh")


def test_a_term_that_was_not_saved_is_not_lowered_by_a_restart(bed, file):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, start=False, authority__by="operator", authority__term=1)
    file.start(proxy)
    proxy.wait_live()
    proxy.rpc("config.set", path="authority.term", value=3)
    before = proxy.wait_status(lambda status: status["mandate"]["term"] == 3, "not confirmed")
    stop(proxy)
    file.start(proxy)
    status = proxy.wait_state("unconfirmed", reason="term 3 was the last one")
    assert status["epoch"] == before["epoch"] and status["keys"] == before["keys"]
    assert "term 3 was the last one" in proxy.output()
    proxy.rpc("config.set", path="authority.term", value=3)
    after = proxy.wait_status(lambda status: status["state"] == "live", "not live")
    assert after["mandate"]["term_version"] == before["mandate"]["term_version"]
