"""keywake-gateway: memcached clients read the table, by clients of other people and by hand."""
import collections
import random
import signal
import socket
import subprocess
import threading
import time

import pylibmc
import pymemcache
import pytest
from memcache import Client as PythonMemcached
from pymemcache.client.base import Client as Pymemcache

from lib import data
from lib.daemon import free_port
from lib.memcached import Raw, in_base64
from lib.process import wait_for

READ_ONLY = b"SERVER_ERROR this gateway only reads: send writes to the primary\r\n"
NO_STRING = b"SERVER_ERROR the key holds no string: read it by a Redis client\r\n"
KEY_MAX = 250


class Served:
    """A primary, its proxy, and a gateway that memcached clients reach by a unix socket and by TCP."""

    def __init__(self, bed, *primary, **settings):
        port = free_port()
        self.path = bed.directory + "/memcached"
        self.host = ("127.0.0.1", port)
        self.name = f"127.0.0.1:{port}"
        listen = [f"unix://{self.path}", f"tcp://{self.name}"]
        self.primary, self.proxy, self.gateway = bed.served(*primary, gateway__memcached=listen, **settings)

    def raw(self):
        return Raw(self.path)

    def pymemcache(self, **options):
        return Pymemcache(self.host, timeout=60, connect_timeout=60, **options)


@pytest.fixture
def served(bed):
    return Served(bed)


def fill_strings(primary, count, database=0, seed=1):
    """Values of all encodings: numbers, short and long ones, some that LZF compresses, some binary."""
    source, kept = random.Random(seed), {}
    for i in range(count):
        kind = i % 8
        if kind == 0:
            value = b"%d" % source.randrange(-2**63, 2**63)
        elif kind == 1:
            value = b"%d" % source.randrange(300)
        elif kind == 2:
            value = b"x" * source.randrange(500)
        elif kind == 3:
            value = b"\r\nEND\r\nVALUE k 0 1\r\n" * source.randrange(3)
        else:
            value = source.randbytes(source.randrange(120))
        kept[b"key:%d" % i] = value
    kept[b"large"] = source.randbytes(3_000_000)
    kept[b"large and the same"] = b"y" * 1_000_000
    client, names = primary.client(database), list(kept)
    for at in range(0, len(names), 1000):
        client.mset({name: kept[name] for name in names[at:at + 1000]})
    return {key: value for key, value in kept.items() if b" " not in key}


def chunks(names, size):
    return (names[at:at + size] for at in range(0, len(names), size))


# ---- each client reads what the primary holds ----

@pytest.mark.quick
@pytest.mark.sanitize
def test_every_string_is_read_by_text_and_by_meta_requests(bed):
    served = Served(bed, fill=data.fill)
    client, compared = served.primary.client(), 0
    with served.raw() as raw:
        for key in client.keys() + [b"no such key"]:
            if not 0 < len(key) <= KEY_MAX * 3 // 4: # base64 has 4 characters for 3 bytes
                continue
            right = client.get(key) if client.type(key) in (b"string", b"none") else None
            before = client.ttl(key)
            by_base64 = raw.ask(b"mg %s b v k s f t\r\n" % in_base64(key))
            plain = all(byte > 32 and byte != 127 for byte in key)
            by_text = raw.ask(b"get %s\r\n" % key) if plain else None
            if client.type(key) not in (b"string", b"none"):
                assert by_base64 == NO_STRING and by_text in (None, NO_STRING), key
            elif right is None:
                assert by_base64 == b"EN k%s b\r\n" % in_base64(key) and by_text in (None, b"END\r\n")
            else:
                said = b"VA %d k%s b s%d f0 t" % (len(right), in_base64(key), len(right))
                assert by_base64.startswith(said) and by_base64.endswith(b"\r\n%s\r\n" % right), key
                ttl = int(by_base64[len(said):].split(b"\r\n")[0])
                assert client.ttl(key) - 1 <= ttl <= before + 1
                assert by_text in (None, b"VALUE %s 0 %d\r\n%s\r\nEND\r\n" % (key, len(right), right))
            compared += 1
    assert compared > 100


def test_pymemcache_reads_a_hundred_thousand_keys(served):
    kept = fill_strings(served.primary, 100_000)
    served.gateway.wait_fresh()
    client, names = served.pymemcache(), list(kept)
    random.Random(2).shuffle(names)
    # Lines of 10 000 keys are far longer than a line that is kept whole.
    for size in (10_000, 100):
        for some in chunks(names[:None if size > 1000 else 20_000], size):
            found = client.get_many([*some, b"nothing"])
            assert len(found) == len(some) and all(found[name] == kept[name] for name in some)
    for name in names[:2000]:
        assert client.get(name) == kept[name]
        value, cas = client.gets(name)
        assert value == kept[name] and int(cas) > 0
    assert client.get("nothing") is None and client.get(b"large") == kept[b"large"]


@pytest.mark.quick
def test_python_memcached_reads_every_key(served):
    kept = fill_strings(served.primary, 10_000)
    served.gateway.wait_fresh()
    client = PythonMemcached([served.name], socket_timeout=60)
    names = [name.decode() for name in kept if len(kept[name]) < 1_000_000]
    for some in chunks(names, 500):
        found = client.get_multi([*some, "nothing"])
        assert len(found) == len(some) and all(found[name] == kept[name.encode()] for name in some)
    assert all(client.get(name) == kept[name.encode()] for name in names[:500])
    assert client.get("nothing") is None and client.set("key:1", "x") is False
    assert int(client.get_stats()[0][1]["curr_items"]) == served.primary.client().dbsize()


@pytest.mark.quick
def test_pylibmc_reads_every_key(served):
    kept = fill_strings(served.primary, 10_000)
    served.gateway.wait_fresh()
    client = pylibmc.Client([served.name])
    names = [name.decode() for name in kept]
    for some in chunks(names, 1000):
        found = client.get_multi([*some, "nothing"])
        assert len(found) == len(some) and all(found[name] == kept[name.encode()] for name in some)
    assert all(client.get(name) == kept[name.encode()] for name in names[:500])
    assert client.get("nothing") is None
    with pytest.raises(pylibmc.Error):
        client.set("key:1", "x")


@pytest.mark.quick
def test_meta_requests_are_pipelined(served):
    kept = fill_strings(served.primary, 10_000)
    served.gateway.wait_fresh()
    names = list(kept)
    with served.raw() as raw:
        for some in chunks(names, 1000):
            wanted = [name for pair in zip(some, [b"nothing"] * len(some)) for name in pair]
            sender = threading.Thread(target=raw.send, args=(
                b"".join(b"mg %s v k q O%d\r\n" % (name, i) for i, name in enumerate(wanted)) + b"mn\r\n",))
            sender.start()
            for i, name in enumerate(wanted):
                if name != b"nothing":
                    value = kept[name]
                    assert raw.reply() == b"VA %d k%s O%d\r\n%s\r\n" % (len(value), name, i, value)
            assert raw.reply() == b"MN\r\n"
            sender.join()


def test_the_programs_of_libmemcached_read(served):
    kept = fill_strings(served.primary, 100)
    served.gateway.wait_fresh()
    names = [name for name in kept if len(kept[name]) < 1_000_000][:50]

    def run(program, *words):
        return subprocess.run([program, f"--servers={served.name}", *words], stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60, check=False)
    for name in names:
        done = run("memccat", name.decode())
        assert done.returncode == 0 and done.stdout == kept[name] + b"\n", (name, done)
    assert run("memcping").returncode == 0
    assert b"curr_items: 102" in run("memcstat").stdout


# ---- what is not served ----

@pytest.mark.quick
def test_binary_clients_are_refused_at_once(served):
    with served.raw() as raw:
        raw.send(b"\x80\x0a\0\0\0\0\0\0\0\0\0\0kw!?\0\0\0\0\0\0\0\0")
        head = raw.stream.read(24)
        assert head[:2] == b"\x81\x0a" and head[6:8] == b"\0\x81" and head[12:16] == b"kw!?"
        assert raw.stream.read() == b"Unknown command"
    began = time.monotonic()
    done = subprocess.run(["memccat", "--binary", f"--servers={served.name}", "k"], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60, check=False)
    assert done.returncode != 0 and not done.stdout
    try: # it takes any error for a miss
        assert pylibmc.Client([served.name], binary=True).get("k") is None
    except pylibmc.Error:
        pass
    assert time.monotonic() - began < 20 # none of them waits for a timeout of its own


@pytest.mark.quick
def test_writes_are_refused_and_nothing_is_written(served):
    served.primary.client().set("k", "v")
    served.gateway.wait_fresh()
    before = served.gateway.status()["requests_refused"]
    client = served.pymemcache()
    for write in (lambda: client.set("k", "x", noreply=False), lambda: client.delete("k", noreply=False),
                  lambda: client.incr("k", 1), lambda: client.touch("k", 1, noreply=False),
                  lambda: client.cas("k", "x", "1", noreply=False)):
        with pytest.raises(pymemcache.exceptions.MemcacheServerError, match="only reads"):
            write()
        assert client.get("k") == b"v"
    with pytest.raises(pymemcache.exceptions.MemcacheClientError, match="flush_all not allowed"):
        client.flush_all(noreply=False)
    client.set("k", "x") # noreply: nobody is told
    assert client.get("k") == b"v"
    with served.raw() as raw:
        assert raw.ask(b"gat 10 k\r\n") == READ_ONLY and raw.ask(b"ms k 3 T0\r\nabc\r\n") == READ_ONLY
        assert raw.ask(b"md k q\r\n") == READ_ONLY and raw.ask(b"mg k v T10\r\n").startswith(b"SERVER_ERROR")
        assert raw.ask(b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n"
    assert served.primary.client().get("k") == b"v"
    assert served.gateway.status()["requests_refused"] - before == 10


@pytest.mark.quick
def test_a_data_block_is_not_kept(served):
    megabyte = b"get k\r\n" * 150_000
    with served.raw() as raw:
        assert raw.ask(b"mn\r\n") == b"MN\r\n"
        before = memory_of(served.gateway)
        raw.send(b"set k 0 0 %d\r\n" % (200 * len(megabyte)))
        for _ in range(200):
            raw.send(megabyte)
        assert raw.ask(b"\r\n") == READ_ONLY and raw.ask(b"mn\r\n") == b"MN\r\n"
        assert memory_of(served.gateway) - before < 20_000_000


BAD = {
    "a line without an end": (b"x" * 9000, b"CLIENT_ERROR line too long\r\n"),
    "a key without an end": (b"get " + b"k" * 9000, b"CLIENT_ERROR line too long\r\n"),
    "a web browser": (b"GET / HTTP/1.1\r\nHost: k\r\n\r\n", b""),
}


@pytest.mark.parametrize("what", BAD)
def test_what_is_no_request_ends_the_connection(served, what):
    sent, said = BAD[what]
    with served.raw() as raw:
        raw.send(b"mn\r\n" + sent)
        assert raw.line() == b"MN\r\n"
        assert raw.stream.read() == said
    with served.raw() as raw:
        assert raw.ask(b"mn\r\n") == b"MN\r\n"


@pytest.mark.quick
def test_bad_keys_are_refused_and_the_connection_goes_on(served):
    bad = b"CLIENT_ERROR bad command line format\r\n"
    with served.raw() as raw:
        for request in (b"get %s\r\n" % (b"k" * 251), b"get k k\x01\r\n", b"mg k\tk v\r\n", b"mg %s v\r\n" % (b"k" * 251)):
            assert raw.ask(request) == bad
        assert raw.ask(b"get %s\r\n" % (b"k" * 250)) == b"END\r\n"


@pytest.mark.quick
def test_one_client_too_many_is_told_so(bed):
    served = Served(bed, gateway__max_clients=2)
    with served.raw() as one, served.raw() as two:
        assert one.ask(b"mn\r\n") == two.ask(b"mn\r\n") == b"MN\r\n"
        with served.raw() as third:
            assert third.stream.read() == b"SERVER_ERROR max number of clients reached\r\n"


def test_an_address_that_other_hosts_reach_is_warned_of(bed):
    proxy = bed.proxy(bed.server("primary"))
    for name, host, warned in (("near", "127.0.0.1", False), ("far", "0.0.0.0", True)):
        gateway = bed.gateway(proxy, name, gateway__memcached=[f"tcp://{host}:{free_port()}"])
        gateway.wait_serving()
        assert ("is open to other hosts" in gateway.tail()) == warned


# ---- what is promised ----

@pytest.mark.quick
@pytest.mark.sanitize
def test_the_configured_database_is_read(bed):
    served = Served(bed, gateway__memcached_database=3)
    for database in (0, 3):
        served.primary.client(database).set("k", f"of {database}")
    served.gateway.wait_fresh()
    client = served.pymemcache()
    assert client.get("k") == b"of 3"
    served.primary.client(3).flushdb()
    served.gateway.wait_fresh()
    assert client.get("k") is None
    served.primary.client().swapdb(0, 3) # raises no event: the proxy finds it by looking, and then compares

    def exchanged():
        try:
            return client.get("k") == b"of 0"
        except pymemcache.exceptions.MemcacheServerError as error:
            assert error.args[0].startswith(b"stale: ")
            return False
    wait_for(exchanged, "the databases' exchange is not seen", 60)


@pytest.mark.quick
def test_the_cas_grows_with_each_change(served):
    writer, client, last = served.primary.client(), served.pymemcache(), 0
    for i in range(20):
        writer.set("k", i)
        served.gateway.wait_fresh()
        value, cas = client.gets("k")
        assert value == b"%d" % i and int(cas) > last
        assert client.gets("k") == (value, cas)
        last = int(cas)


@pytest.mark.quick
def test_an_expired_key_is_never_served(served):
    writer, client, seen = served.primary.client(), served.pymemcache(), 0
    for i in range(60):
        life_ms = 50 if seen or i < 10 else min(5000, 50 << i - 10) # a busy machine takes longer
        writer.set(f"k{i}", "v", px=life_ms)
        ends = time.time() + life_ms / 1000 # the primary executed it before this
        while True:
            began = time.time()
            value = client.get(f"k{i}")
            if value is None and began > ends:
                break
            if value is not None and began > ends:
                error = (served.gateway.status()["clock_error_us"] or 0) / 1e6
                assert began <= ends + error, f"{(began - ends) * 1000:.1f} ms after its end"
            seen += value is not None
    assert seen > 0


@pytest.mark.quick
def test_one_key_that_is_no_string_ends_a_get_of_many(bed):
    """Keys whose place is remembered are answered before those that are looked for."""
    served = Served(bed, listen=("tcp",), via="tcp")
    writer, names = served.primary.client(), [b"k%d" % i for i in range(100)]
    writer.mset({name: b"v" for name in names})
    for i in range(50):
        writer.rpush(f"list{i}", "x")
    served.gateway.wait_fresh()
    with served.raw() as raw:
        for _ in range(2):
            assert raw.ask(b"get %s\r\n" % b" ".join(names)).count(b"VALUE") == 100
        for i in range(50):
            raw.send(b"get k0 list%d %s\r\nmn\r\n" % (i, b" ".join(names)))
            reply = raw.reply()
            assert reply.endswith(NO_STRING) and reply.count(b"VALUE") <= 1, reply[-200:]
            assert raw.reply() == b"MN\r\n"
    client = served.pymemcache()
    with pytest.raises(pymemcache.exceptions.MemcacheServerError, match="no string"):
        client.get_many([*names, b"list1", *names])
    assert len(client.get_many(names)) == 100


def memory_of(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


@pytest.mark.quick
def test_slow_clients_stop_no_other_and_memory_is_bounded(bed):
    served = Served(bed, gateway__output_timeout_ms=4000)
    served.primary.client().set("large", b"x" * 50_000)
    served.primary.client().set("small", "v")
    served.gateway.wait_fresh()
    before, slow = memory_of(served.gateway), []
    for i in range(100):
        raw = served.raw()
        raw.socket.setblocking(False)
        # 25 MB of replies each, never read: 500 requests, or one line
        raw.send(b"get large\r\n" * 500 if i % 2 else b"get" + b" large" * 500 + b"\r\n")
        slow.append(raw)
    client = served.pymemcache()
    for _ in range(200):
        assert client.get("small") == b"v"
    # 100 * (gateway.max_output_bytes and one window of replies)
    assert memory_of(served.gateway) - before < 100 * 1_200_000
    served.gateway.wait_status(lambda status: status["clients_closed"]["slow"] == 100, "slow clients stay")
    assert client.get("small") == b"v"
    for raw in slow:
        raw.socket.close()


@pytest.mark.quick
def test_a_primary_that_stops_is_served_until_the_limit(bed):
    limit = 1.5
    served = Served(bed, gateway__max_staleness_ms=int(limit * 1000))
    served.primary.client().set("k", "v")
    served.gateway.wait_fresh()
    with served.raw() as raw:
        wait_for(lambda: raw.ask(b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n", "it is not served")
        served.primary.signal(signal.SIGSTOP)
        stopped = time.time() # not before it: until then the table gets fresh
        last = [stopped]

        def refused():
            began = time.time()
            reply = raw.ask(b"get k nothing\r\n")
            if reply != b"VALUE k 0 1\r\nv\r\nEND\r\n":
                return reply
            last[0] = began
            return None
        reply = wait_for(refused, "a table that grows old is served for ever", 30)
        assert reply.startswith(b"SERVER_ERROR stale: ") and reply.count(b"\r\n") == 1, reply
        assert last[0] - stopped < limit + 0.2
        for request in (b"get nothing\r\n", b"mg nothing v q\r\n", b"mg k\r\n", b"me nothing\r\n"):
            assert raw.ask(request).startswith(b"SERVER_ERROR stale: ")
        served.primary.signal(signal.SIGCONT)
        wait_for(lambda: raw.ask(b"get k\r\n") == b"VALUE k 0 1\r\nv\r\nEND\r\n", "it is not served again", 30)


@pytest.mark.quick
def test_a_proxy_that_dies_under_load_leaves_no_wrong_miss(bed):
    served = Served(bed)
    served.primary.client().mset({f"k{i}": f"v{i}" for i in range(500)})
    served.gateway.wait_fresh()
    errors, good, wrong, ends = collections.Counter(), [0], [], threading.Event()

    def read(seed):
        source, client = random.Random(seed), served.pymemcache()
        while not ends.is_set():
            names = [f"k{source.randrange(500)}" for _ in range(source.choice((1, 1, 10, 100)))]
            try:
                found = client.get_many(names) if len(names) > 1 else {names[0]: client.get(names[0])}
            except pymemcache.exceptions.MemcacheServerError as error:
                errors[error.args[0].split(b":")[0]] += 1
                time.sleep(0.001)
                continue
            missing = [name for name in names if found.get(name) != b"v" + name[1:].encode()]
            if missing:
                wrong.append((missing[:3], [found.get(name) for name in missing[:3]]))
                return
            good[0] += 1

    readers = [threading.Thread(target=read, args=(seed,)) for seed in range(3)]
    for reader in readers:
        reader.start()
    for _ in range(3):
        before = good[0]
        wait_for(lambda before=before: good[0] > before + 100 or wrong, "nothing is served", 30)
        served.proxy.kill()
        wait_for(lambda: errors[b"lost"] + errors[b"stale"] > 0 or wrong, "the loss of the proxy is not told", 30)
        errors.clear()
        served.proxy.restart()
        served.gateway.wait_serving()
    ends.set()
    for reader in readers:
        reader.join()
    assert not wrong, wrong
    assert set(errors) <= {b"lost", b"stale", b"loading", b"try again"}, errors


@pytest.mark.quick
def test_an_incomplete_table_says_loading(bed):
    primary, path = bed.server("primary"), bed.directory + "/memcached"
    data.fill_plain(primary, 20_000)
    primary.signal(signal.SIGSTOP) # until something was said
    bed.gateway(bed.proxy(primary), gateway__memcached=[f"unix://{path}"])
    said = collections.Counter()
    with Raw(path) as raw:
        for _ in range(100_000):
            reply = raw.ask(b"get key:19999 key:0\r\n")
            if reply.startswith(b"SERVER_ERROR "):
                said[reply.split(b" ")[1]] += 1
                primary.signal(signal.SIGCONT)
                continue
            assert reply.count(b"VALUE") == 2 and reply.endswith(b"END\r\n"), reply
            break
    assert said and set(said) <= {b"loading:", b"lost:", b"stale:"}, said


def test_tcp_clients_that_come_and_go_leave_nothing(served):
    served.primary.client().set("k", "v")
    served.gateway.wait_fresh()
    for i in range(300):
        with socket.create_connection(served.host, timeout=60) as connection:
            if i % 2: # a part of a request
                connection.sendall(b"get k\r\nset k 0 0 100\r\n"[:1 + i % 20])
                continue
            connection.sendall(b"get k k k\r\n" * 100)
            if i % 4: # gone in the middle of its replies
                connection.recv(10)
    served.gateway.wait_status(lambda status: status["clients"] == 0, "clients that left are counted")
    assert served.pymemcache().get("k") == b"v"
