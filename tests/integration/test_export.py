"""keywakectl export: a backup from the table that servers load, whole or not there at all."""
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import threading
import time

import pytest

from lib import data
from lib.compare import digest, differences
from lib.daemon import CTL
from lib.process import SLOW, wait_for
from lib.rpc import Rpc, RpcError
from lib.server import RDB_MAGIC, check_rdb

MIB = 1 << 20


def export(agent, path, **more):
    return agent.ctl_ok("export", path, **more)


def load(bed, path, binary="installed", name="loaded"):
    """A server of that version that starts from the file."""
    server = bed.server(name, binary, start=False)
    shutil.copy(path, os.path.join(server.directory, "dump.rdb"))
    return server.start()


def assert_sound(binary, path):
    status, text = check_rdb(binary, path)
    assert status == 0 and "checksum" in text.lower(), text


@pytest.fixture
def folder(bed):
    """For the files that are written: whatever else turns up in there is a leftover."""
    path = os.path.join(bed.directory, "backups")
    os.mkdir(path)
    return path


def as_from_a_terminal():
    """Tests run in the background have SIGINT ignored by their shell, and hand that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@contextlib.contextmanager
def stuck_export(agent):
    """An export to standard output that nobody reads: it stays under way."""
    with subprocess.Popen([CTL, "-s", agent.control, "export", "-"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          preexec_fn=as_from_a_terminal) as process:
        try:
            assert os.read(process.stdout.fileno(), 9).startswith(RDB_MAGIC)
            yield process
        finally:
            process.kill()


def ended(agent):
    """Is no export under way any more? (Another one would be refused.)"""
    with Rpc(agent.control) as rpc, contextlib.closing(Pipe()) as pipe:
        try:
            pipe.call(rpc)
        except RpcError as refused:
            assert "running already" in refused.message
            return False
        return True


class Pipe:
    """The method itself, without keywakectl."""

    def __init__(self):
        self.reading, self.writing = os.pipe()

    def call(self, rpc, fd=None):
        request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "export"}).encode() + b"\n"
        socket.send_fds(rpc.socket, [request], [self.writing if fd is None else fd])
        os.close(self.writing)
        self.writing = None
        self.bytes = b""
        while chunk := os.read(self.reading, MIB):
            self.bytes += chunk
        answer = rpc.receive()
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    def close(self):
        os.close(self.reading)
        if self.writing is not None:
            os.close(self.writing)


def test_every_type_and_database_is_loaded_equal(bed, any_server, folder):
    pair = bed.pair(any_server, any_server, fill=lambda server: data.fill(server, (0, 3, 15)))
    pair.settle()
    path = os.path.join(folder, "all.rdb")
    answer = export(pair.agent, path)
    assert_sound(any_server, path)
    loaded = load(bed, path, any_server)
    assert digest(loaded) == digest(pair.primary)
    assert differences(pair.primary, loaded) == []
    keys = sum(pair.primary.command("DBSIZE", db=database) for database in (0, 3, 15))
    assert answer["keys"] == keys and answer["one_moment"] is True
    assert answer["bytes"] == os.path.getsize(path) and answer["file"] == path
    assert answer["source"] == "live" and answer["fresh_us"] > 0


@pytest.mark.sanitize
def test_the_file_replaces_an_old_one_only_when_it_is_whole(bed, folder):
    pair = bed.pair(fill=data.fill)
    path, link = os.path.join(folder, "today.rdb"), os.path.join(bed.directory, "latest.rdb")
    with open(path, "w", encoding="utf-8") as old:
        old.write("what was there")
    os.chmod(path, 0o644)
    os.symlink(path, link)
    pair.settle()
    export(pair.agent, link)
    assert os.path.islink(link) and os.listdir(folder) == ["today.rdb"]
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert digest(load(bed, path)) == digest(pair.primary)
    pair.proxy.kill()
    pair.agent.wait_status(lambda status: status["depth"] == 0, "the agent does not notice")
    before = os.stat(path)
    assert pair.agent.ctl("export", path).returncode != 0
    assert os.stat(path) == before and os.listdir(folder) == ["today.rdb"]


@pytest.mark.sanitize
def test_an_empty_table_is_an_empty_file(bed, any_server, folder):
    pair = bed.pair(any_server, any_server)
    path = os.path.join(folder, "empty.rdb")
    assert export(pair.agent, path)["keys"] == 0
    assert_sound(any_server, path)
    assert load(bed, path, any_server).command("DBSIZE") == 0


@pytest.mark.sanitize
def test_only_keys_of_the_filter_are_in_it(bed, folder):
    primary, replica = bed.server("primary"), bed.server("replica")
    with primary.client() as client, primary.client(2) as other:
        for i in range(100):
            client.set(f"user:{i}", i)
            client.set(f"cart:{i}", i)
            other.set(f"user:{i}", i)
    agent = bed.agent(bed.proxy(primary), replica, filter__prefixes=["user:"],
                      filter__databases=[0])
    agent.wait_warm()
    path = os.path.join(folder, "users.rdb")
    assert export(agent, path)["keys"] == 100
    loaded = load(bed, path)
    assert loaded.command("DBSIZE") == 100 and loaded.command("DBSIZE", db=2) == 0
    assert loaded.command("GET", "user:42") == b"42"


@pytest.mark.quick
def test_the_stream_goes_to_standard_output(bed, carrier):
    pair = bed.pair(fill=data.fill, listen=(carrier,), via=carrier)
    pair.settle()
    path = os.path.join(bed.directory, "piped.rdb")
    with open(path, "wb") as output:
        done = subprocess.run([CTL, "-s", pair.agent.control, "export", "-"], stdout=output,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0, done
    assert b"keys" in done.stderr and b"as the table was when this began" in done.stderr
    assert_sound("installed", path)
    assert digest(load(bed, path)) == digest(pair.primary)


def test_the_primary_notices_nothing(bed, folder):
    # No streams, which are fetched again and again for their groups, and no audit sweep.
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 10_000),
                    proxy={"source__audit_keys_per_second": 0})
    pair.settle()

    def calls():
        with pair.primary.admin() as client:
            stats = client.info("commandstats")
        return {name: stats.get("cmdstat_" + name, {}).get("calls", 0)
                for name in ("dump", "scan", "pexpiretime", "get")}
    before = calls()
    for i in range(3):
        export(pair.agent, os.path.join(folder, f"{i}.rdb"))
    assert calls() == before


@pytest.mark.sanitize
@pytest.mark.parametrize("trouble", ["paused", "replica down", "primary down"])
def test_it_works_in_trouble(bed, folder, trouble):
    pair = bed.pair(fill=data.fill)
    pair.settle()
    expected = digest(pair.primary)
    if trouble == "paused":
        pair.agent.ctl_ok("pause")
    elif trouble == "replica down":
        pair.replica.kill()
        pair.agent.wait_status(lambda status: status["state"] != "warm", "does not notice")
    else:
        pair.primary.kill()
        pair.agent.wait_state("stalled", reason="cannot reach its primary") # it has seen what the proxy says
    path = os.path.join(folder, "trouble.rdb")
    answer = export(pair.agent, path)
    assert_sound("installed", path)
    assert digest(load(bed, path)) == expected
    if trouble == "primary down":
        assert answer["source"] == "source_down"


def rounds(server, stop, done, keys, length):
    """Every key gets the number of the round; done[0] is the last round that is through."""
    padding = os.urandom(length)
    with server.client() as client:
        while not stop.is_set():
            with client.pipeline(transaction=False) as pipe:
                for i in range(keys):
                    pipe.set(f"key:{i}", b"%d:" % (done[0] + 1) + padding)
                pipe.execute()
            done[0] += 1


@contextlib.contextmanager
def writing(server, keys, length=200):
    stop, done = threading.Event(), [0]
    thread = threading.Thread(target=rounds, args=(server, stop, done, keys, length))
    thread.start()
    try:
        wait_for(lambda: done[0] > 0, "nothing is written")
        yield done
    finally:
        stop.set()
        thread.join()


def assert_rounds(server, first, last, keys):
    """Each key once, with a value that it had between those rounds."""
    assert server.command("DBSIZE") == keys
    with server.client() as client:
        values = [int(value.split(b":")[0])
                  for value in client.mget([f"key:{i}" for i in range(keys)])]
    assert first <= min(values) and max(values) <= last, (first, min(values), max(values), last)


def test_a_file_written_under_load_is_loaded(bed, any_server, folder):
    keys = 5000
    pair = bed.pair(any_server, any_server)
    for turn in range(3):
        path = os.path.join(folder, f"{turn}.rdb")
        with writing(pair.primary, keys) as done:
            pair.agent.wait_warm()
            before = done[0]
            pair.agent.wait_warm()
            export(pair.agent, path)
            after = done[0] + 1
        assert_sound(any_server, path)
        loaded = load(bed, path, any_server, f"loaded-{turn}")
        assert_rounds(loaded, before, after, keys)
        loaded.kill()


def test_segments_that_vanish_are_read_where_they_went(bed, folder):
    """A reader that is slow beside a busy cleaner: every key is there all the same, and once."""
    keys = 10_000
    pair = bed.pair(proxy={"table__segment_bytes": "256KiB", "table__tombstone_seconds": 1})
    path = os.path.join(folder, "slow.rdb")
    with writing(pair.primary, keys, 2000) as done:
        before = done[0]
        pair.agent.wait_warm()
        with open(path, "wb") as output, subprocess.Popen(
                [CTL, "-s", pair.agent.control, "export", "-"], stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            output.write(process.stdout.read(100_000)) # it has begun, and stands still
            begun = done[0]
            wait_for(lambda: done[0] >= begun + 8, "too few rounds", 240)
            shutil.copyfileobj(process.stdout, output)
            said = process.stderr.read()
        assert process.returncode == 0, said
        after = done[0] + 1
    assert b"at some moment since" in said
    assert_sound("installed", path)
    assert_rounds(load(bed, path), before, after, keys)


def test_a_value_of_64_mib_goes_through(bed, folder):
    pair = bed.pair()
    with pair.primary.client() as client:
        client.set("large", os.urandom(MIB) * 64)
        client.set("small", 1)
    pair.settle()
    path = os.path.join(folder, "large.rdb")
    export(pair.agent, path)
    assert digest(load(bed, path)) == digest(pair.primary)


@pytest.mark.sanitize
def test_a_full_disk_is_told_and_leaves_nothing(bed):
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 40_000))
    pair.settle()
    folder = os.path.join(bed.directory, "small")
    os.mkdir(folder)
    script = (f"mount -t tmpfs -o size=1m none {folder} && echo old >{folder}/old.rdb && "
              f"{{ {CTL} -s {pair.agent.control} export {folder}/old.rdb; echo status $?; "
              f"ls -A {folder}; cat {folder}/old.rdb; }}")
    done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True,
                          text=True, timeout=60 * SLOW, check=False)
    assert done.stdout.split("\n")[:3] == ["status 1", "old.rdb", "old"], done
    assert "the disk is full" in done.stderr and "old.rdb" in done.stderr, done
    wait_for(lambda: ended(pair.agent), "the agent goes on though nobody reads")


@pytest.mark.sanitize
def test_interrupted_it_leaves_nothing(bed, folder):
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 100_000))
    pair.settle()
    with stuck_export(pair.agent) as process:
        process.send_signal(signal.SIGINT)
        assert process.wait(60 * SLOW) == -signal.SIGINT
    wait_for(lambda: ended(pair.agent), "the agent goes on though nobody reads")
    # To a file, while the agent stands still.
    pair.agent.signal(signal.SIGSTOP)
    with subprocess.Popen([CTL, "-s", pair.agent.control, "export", folder + "/file.rdb"],
                          stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          preexec_fn=as_from_a_terminal) as process:
        time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60 * SLOW) == -signal.SIGINT
    pair.agent.signal(signal.SIGCONT)
    assert os.listdir(folder) == []
    # It began with what it was asked for when it came to, and must give up by itself.
    wait_for(lambda: pair.agent.ctl("export", folder + "/file.rdb").returncode == 0,
             "the agent goes on though nobody waits for the file")
    assert_sound("installed", folder + "/file.rdb")


def test_where_a_file_cannot_be_without_a_name(bed, folder): # LeakSanitizer needs /proc itself
    """Without O_TMPFILE, or /proc to give the file its name: under a temporary one until it is whole."""
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 40_000))
    pair.settle()
    path = os.path.join(folder, "file.rdb")
    small = os.path.join(bed.directory, "small")
    os.mkdir(small)

    def run(script):
        return subprocess.run(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none /proc && {script}"],
                              capture_output=True, text=True, timeout=60 * SLOW, check=False)
    command = f"{CTL} -s {pair.agent.control} export"
    for _ in range(2): # a new file, and in place of one
        done = run(f"{command} {path}")
        assert done.returncode == 0 and os.listdir(folder) == ["file.rdb"], done
        assert_sound("installed", path)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    done = run(f"mount -t tmpfs -o size=1m none {small} && {{ {command} {small}/file.rdb; ls -A {small}; }}")
    assert "the disk is full" in done.stderr and done.stdout == "", done
    pair.agent.signal(signal.SIGSTOP)
    done = run(f"timeout -s INT 0.5 {command} {folder}/other.rdb")
    assert os.listdir(folder) == ["file.rdb"], done
    pair.agent.signal(signal.SIGCONT)


@pytest.mark.sanitize
def test_one_at_a_time(bed, folder):
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 100_000))
    pair.settle()
    with stuck_export(pair.agent):
        second = pair.agent.ctl("export", folder + "/second.rdb")
        assert second.returncode == 2 and "running already" in second.stderr, second
        assert os.listdir(folder) == []
        # What else the agent does goes on beside it.
        pair.primary.command("SET", "meanwhile", 1)
        pair.settle()
        pair.agent.ctl_ok("verify")
        pair.agent.ctl_ok("get", "meanwhile")
    wait_for(lambda: ended(pair.agent), "the agent goes on though nobody reads")
    export(pair.agent, folder + "/second.rdb")


@pytest.mark.sanitize
@pytest.mark.parametrize("end", ["SIGTERM", "SIGKILL"])
def test_an_agent_that_ends_meanwhile(bed, folder, end):
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 100_000))
    pair.settle()
    with stuck_export(pair.agent) as process:
        if end == "SIGTERM":
            assert pair.agent.stop() == 0
        else:
            pair.agent.kill()
        taken = len(process.stdout.read())
        assert process.wait(60 * SLOW) in (1, 2)
        assert b"keywakectl: " in process.stderr.read()
        assert 0 < taken < 100_000 * 100
    done = pair.agent.ctl("export", folder + "/file.rdb")
    assert done.returncode == 1 and os.listdir(folder) == [], done


@pytest.mark.sanitize
def test_a_table_that_is_not_complete_is_refused(bed, folder):
    proxy = bed.proxy(bed.server("missing", start=False))
    agent = bed.agent(proxy, bed.server("replica"))
    wait_for(lambda: "not complete" in agent.ctl("export", folder + "/file.rdb").stderr,
             "the table is not said to be incomplete")
    assert os.listdir(folder) == []


@pytest.mark.sanitize
def test_what_would_be_done_away_with_is_refused(bed, folder):
    pair = bed.pair()
    fifo = os.path.join(bed.directory, "fifo")
    os.mkfifo(fifo)
    for path, words in ((fifo, "no ordinary file"), ("/dev/null", "no ordinary file"),
                        (folder, "no ordinary file"), (folder + "/", "no name of a file"),
                        (folder + "/none/file.rdb", "no such folder"), ("", "no name of a file")):
        done = pair.agent.ctl("export", path)
        assert done.returncode == 1 and words in done.stderr, (path, done)
    assert stat.S_ISFIFO(os.stat(fifo).st_mode) and os.listdir(folder) == []
    with open(os.path.join(folder, "here.rdb"), "w", encoding="utf-8"):
        done = subprocess.run([CTL, "-s", pair.agent.control, "export", "here.rdb"], cwd=folder,
                              capture_output=True, text=True, check=False)
    assert done.returncode == 0 and json.loads(done.stdout)["file"] == folder + "/here.rdb"


@pytest.mark.sanitize
def test_the_method_wants_a_pipe(bed):
    pair = bed.pair(fill=data.fill)
    with pytest.raises(RpcError, match="SCM_RIGHTS"):
        pair.agent.rpc("export")
    with Rpc(pair.agent.control) as rpc, contextlib.closing(Pipe()) as pipe, \
            open(os.path.join(bed.directory, "file"), "wb") as file:
        with pytest.raises(RpcError, match="neither a pipe nor a socket"):
            pipe.call(rpc, file.fileno())
    # The wrong end of it: nothing can be written there.
    with Rpc(pair.agent.control) as rpc, contextlib.closing(Pipe()) as pipe:
        with pytest.raises(RpcError, match="export"):
            pipe.call(rpc, pipe.reading)
    with Rpc(pair.agent.control) as rpc, contextlib.closing(Pipe()) as pipe:
        assert pipe.call(rpc)["bytes"] == len(pipe.bytes) > 1000
