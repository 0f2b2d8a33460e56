"""keywake-gateway: Redis clients read the table, and get what the primary would answer."""
import collections
import random
import resource
import signal
import socket
import threading
import time

import pytest
import redis

from lib import data
from lib.process import SLOW, wait_for
from lib.resp import Raw, elements

# What a reply is about, by the type of the key. Words after the key.
ANY = [("TYPE",), ("EXISTS",), ("PEXPIRETIME",), ("EXPIRETIME",), ("DUMP",)]
QUESTIONS = {
    b"string": [("GET",), ("STRLEN",), ("GETRANGE", 1, -2), ("GETBIT", 7), ("BITCOUNT",), ("MGET",), ("HGET", "f")],
    b"list": [("LLEN",), ("LRANGE", 0, -1), ("LINDEX", -1), ("LPOS", "5"), ("GET",)],
    b"set": [("SCARD",), ("SMEMBERS",), ("SISMEMBER", "m1"), ("SMISMEMBER", "1", "m2"), ("GET",)],
    b"hash": [("HLEN",), ("HGETALL",), ("HKEYS",), ("HVALS",), ("HGET", "f1"), ("HMGET", "f1", "no", "f2"),
              ("HEXISTS", "f"), ("HSTRLEN", "f1")],
    b"zset": [("ZCARD",), ("ZRANGE", 0, -1), ("ZRANGE", 0, -1, "WITHSCORES"), ("ZSCORE", "m1"), ("ZRANK", "m2"),
              ("ZCOUNT", "-inf", "+inf"), ("ZREVRANGE", 0, 3), ("ZRANGEBYSCORE", 1, 3), ("ZMSCORE", "m1", "no")],
    b"stream": [("GET",)],
}
UNORDERED = {"SMEMBERS", "HGETALL", "HKEYS", "HVALS"}


def same(command, ours, theirs, kind):
    """Sets and hashes have an order only in the server's memory."""
    if command == "DUMP": # a hash table's order too
        return kind in (b"set", b"hash", b"zset") or ours == theirs
    if command not in UNORDERED or ours[:1] not in b"*%~":
        return ours == theirs
    return (ours.split(b"\r\n")[0] == theirs.split(b"\r\n")[0]
            and collections.Counter(elements(ours)) == collections.Counter(elements(theirs)))


def compare_all(primary, gateway, database, version):
    """How many replies were compared."""
    compared = 0
    with Raw(primary.socket) as theirs, Raw(gateway.socket) as ours:
        for connection in (theirs, ours):
            connection.ask("SELECT", database)
            if version == 3:
                assert connection.ask("HELLO", 3).startswith(b"%")
        keys = primary.client(database).keys() + [b"no such key"]
        for key in keys:
            kind = primary.client(database).type(key)
            for words in ANY + QUESTIONS.get(kind, [("GET",)]):
                asked = (words[0], key, *words[1:])
                right, given = theirs.ask(*asked), ours.ask(*asked)
                assert same(words[0], given, right, kind), (asked, right[:200], given[:200])
                compared += 1
    return compared


@pytest.mark.quick
@pytest.mark.sanitize
def test_every_type_is_answered_as_the_primary_answers(bed, any_server):
    primary, _, gateway = bed.served(any_server, fill=lambda server: data.fill(server, (0, 3)))
    for database in (0, 3):
        assert compare_all(primary, gateway, database, 2) > 700


def test_every_type_is_answered_in_resp_3(bed):
    primary, _, gateway = bed.served(fill=data.fill)
    assert compare_all(primary, gateway, 0, 3) > 700


FAR_MS = 4102444800123 # in 2100
FIELD_TIMES = [(key, "FIELDS", *words)
               for key in ("small", "large", "plain", "string", "none")
               for words in ((1, "a"), (4, "a", "b", "c", "none"), (2, "b", "b"), (0,), (-1, "a"), (2, "a"), (1, "a", "b"),
                             ("x", "a"), (1,))] + [("small", "FIELD", 1, "a"), ("small", 1, "a"), ("small",)]


def same_times(ours, theirs, slack):
    if slack == 0 or theirs[:1] != b"*":
        return ours == theirs
    ours, theirs = ([int(line[1:]) for line in reply.split(b"\r\n")[1:-1]] for reply in (ours, theirs))
    return len(ours) == len(theirs) and all(
        one == other or (one > 0 and other > 0 and abs(one - other) <= slack) for one, other in zip(ours, theirs))


@pytest.mark.parametrize("server", ["redis-sid", "valkey-sid"])
@pytest.mark.parametrize("version", [2, 3])
def test_times_of_fields_are_answered_as_by_servers_that_have_them(bed, server, version):
    def fill(primary):
        client = primary.client()
        client.hset("small", mapping={"a": 1, "b": 2, "c": 3})
        client.hset("large", mapping={**{f"f{i}": "x" * 70 for i in range(600)}, "a": 1, "b": 2, "c": 3})
        client.hset("plain", mapping={"a": 1, "b": 2, "c": 3})
        client.set("string", "v")
        for key in ("small", "large"):
            client.execute_command("HPEXPIREAT", key, FAR_MS, "FIELDS", 1, "a")
            client.execute_command("HEXPIREAT", key, FAR_MS // 1000, "FIELDS", 1, "b")
    primary, _, gateway = bed.served(server, fill=fill)
    differ = []
    with Raw(primary.socket) as theirs, Raw(gateway.socket) as ours:
        for connection in (theirs, ours):
            connection.ask("HELLO", version)
        for words in FIELD_TIMES:
            for command in ("HEXPIRETIME", "HPEXPIRETIME", "HTTL", "HPTTL"):
                began = time.monotonic()
                right, given = theirs.ask(command, *words), ours.ask(command, *words)
                took = time.monotonic() - began # time goes on between the two
                slack = {"HTTL": took + 2 * SLOW, "HPTTL": 1000 * took + 2000 * SLOW}.get(command, 0)
                if not same_times(given, right, slack):
                    differ.append((command, words, given, right))
    assert not differ, "\n".join(map(str, differ))


@pytest.mark.quick
@pytest.mark.sanitize
def test_redis_py_reads_over_each_carrier(bed, carrier):
    primary, _, gateway = bed.served(listen=(carrier,), via=carrier)
    with primary.client() as client:
        client.mset({f"k{i}": f"v{i}" for i in range(1000)})
        client.hset("h", mapping={"a": 1, "b": 2})
        client.zadd("z", {"one": 1, "two": 2.5})
        client.delete("k7")
    gateway.wait_fresh()
    with gateway.client() as client:
        assert client.ping()
        assert client.get("k1") == b"v1" and client.get("k7") is None
        assert client.mget([f"k{i}" for i in range(1000)]) == [
            None if i == 7 else b"v%d" % i for i in range(1000)]
        assert client.exists(*(f"k{i}" for i in range(1000))) == 999
        assert client.hgetall("h") == {b"a": b"1", b"b": b"2"}
        assert client.zrange("z", 0, -1, withscores=True) == [(b"one", 1.0), (b"two", 2.5)]
        with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
            client.get("h")
        with client.pipeline(transaction=False) as pipe:
            for i in range(5000):
                pipe.get(f"k{i % 1000}")
                if i % 100 == 0:
                    pipe.ping()
            replies = [reply for reply in pipe.execute() if reply is not True]
        assert replies == [None if i % 1000 == 7 else b"v%d" % (i % 1000) for i in range(5000)]


def answer_of(gateway, key):
    try:
        return gateway.client().get(key)
    except (redis.exceptions.ResponseError, redis.exceptions.BusyLoadingError) as error:
        return error


@pytest.mark.quick
def test_databases_and_flushes_are_told_apart(bed):
    primary, _, gateway = bed.served()
    for database in (0, 1):
        primary.client(database).mset({f"k{i}": f"{database}:{i}" for i in range(200)})
    gateway.wait_fresh()
    for _ in range(2): # the second time by remembered places
        for database in (0, 1):
            assert gateway.client(database).mget([f"k{i}" for i in range(200)]) == [
                f"{database}:{i}".encode() for i in range(200)]
    primary.client(1).flushdb()
    gateway.wait_fresh()
    assert gateway.client(1).mget([f"k{i}" for i in range(200)]) == [None] * 200
    assert gateway.client(0).get("k5") == b"0:5"
    primary.client(0).swapdb(0, 1) # silent: no event tells of it
    # Once it is noticed, the age of the table is unknown until all keys were looked at.
    wait_for(lambda: answer_of(gateway, "k5") is None, "SWAPDB is not seen", 30)
    gateway.wait_fresh()
    assert gateway.client(1).get("k5") == b"0:5"
    assert gateway.status()["found_by_place"] > 100


@pytest.mark.quick
def test_a_primary_that_stops_is_served_until_the_limit(bed):
    limit = 1.5
    primary, _, gateway = bed.served(gateway__max_staleness_ms=int(limit * 1000))
    primary.client().set("k", "v")
    gateway.wait_fresh()
    client = gateway.client()
    wait_for(lambda: answer_of(gateway, "k") == b"v", "it is not served")
    primary.signal(signal.SIGSTOP)
    stopped = time.time() # not before it: until then the table gets fresh
    served = []

    def refused():
        try:
            began = time.time()
            assert client.get("k") == b"v" and client.get("none") is None
            served.append(began)
        except redis.exceptions.ResponseError as error:
            return str(error)
        return None
    sentence = wait_for(refused, "a table that grows old is served for ever", 30)
    assert sentence.startswith("MASTERDOWN") and "old" in sentence, sentence
    # The table's age is counted from its fresh_us, which is at most as late as the stop.
    assert max(served, default=stopped) - stopped < limit + 0.2
    assert gateway.wait_state("stale")["refused_stale"] > 0
    primary.signal(signal.SIGCONT)
    wait_for(lambda: answer_of(gateway, "k") == b"v", "it is not served again", 30)


def class_of(error):
    """The class of an error reply, as redis-py tells it."""
    if isinstance(error, redis.exceptions.BusyLoadingError):
        return "LOADING"
    return str(error).rpartition("caused error: ")[2].split()[0]


class Counter:
    """A key that only grows: its writer notes when each value was acknowledged."""

    def __init__(self, primary, key="counter", batch=1):
        self.client, self.key, self.batch = primary.client(), key, batch
        self.done = [(0.0, 0)] # (wall clock, value), both ascending
        self.ends = threading.Event()
        self.thread = threading.Thread(target=self.write)

    def __enter__(self):
        self.client.set(self.key, 0)
        self.thread.start()
        return self

    def __exit__(self, *exc):
        self.ends.set()
        self.thread.join()

    def write(self):
        while not self.ends.is_set():
            with self.client.pipeline(transaction=False) as pipe:
                for _ in range(self.batch):
                    pipe.incr(self.key)
                value = pipe.execute()[-1]
            self.done.append((time.time(), value))

    def least(self, moment):
        """The value that was there at this moment, at least."""
        for when, value in reversed(self.done):
            if when <= moment:
                return value
        return 0


@pytest.mark.quick
def test_a_hot_key_never_goes_back_and_is_never_older_than_fresh(bed):
    primary, _, gateway = bed.served()
    with Counter(primary, batch=50) as counter:
        gateway.wait_fresh()
        client, last, seen, ends = gateway.client(), 0, 0, time.monotonic() + 5
        # For so long, and until there was enough to see.
        while (now := time.monotonic()) < ends or (min(seen, last) <= 500 and now < ends + 60 * SLOW):
            fresh = gateway.status()["fresh_us"] / 1e6
            least = counter.least(fresh)
            for _ in range(200):
                value = int(client.get("counter"))
                assert value >= last, f"{value} after {last}"
                assert value >= least, f"{value}: {least} was there before fresh_us"
                last, seen = value, seen + 1
    assert seen > 500 and last > 500
    assert gateway.status()["refused_try_again"] == 0


@pytest.mark.quick
def test_a_proxy_that_dies_under_load_leaves_no_wrong_answer(bed):
    limit = 0.8
    primary, proxy, gateway = bed.served(gateway__max_staleness_ms=int(limit * 1000))
    primary.client().mset({f"k{i}": f"v{i}" for i in range(500)})
    gateway.wait_fresh()
    errors, good, wrong, ends = collections.Counter(), [0], [], threading.Event()

    def read(counter, seed):
        client, last, source = gateway.client(), 0, random.Random(seed)
        while not ends.is_set():
            began = time.time()
            i = source.randrange(500)
            try:
                with client.pipeline(transaction=False) as pipe:
                    value, stable = pipe.get("counter").get(f"k{i}").execute()
            except (redis.exceptions.ResponseError, redis.exceptions.BusyLoadingError) as error:
                errors[class_of(error)] += 1
                last = 0 # another epoch may begin with what its scan found
                time.sleep(0.001)
                continue
            if value is None or stable != b"v%d" % i:
                wrong.append((value, stable, i))
                return
            if int(value) < max(last, counter.least(began - limit - 0.2)):
                wrong.append((int(value), last, counter.least(began - limit - 0.2)))
                return
            last, good[0] = int(value), good[0] + 1

    with Counter(primary) as counter:
        gateway.wait_fresh()
        readers = [threading.Thread(target=read, args=(counter, seed)) for seed in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(3):
            before = good[0]
            wait_for(lambda before=before: good[0] > before + 100 or wrong, "nothing is served", 30)
            proxy.kill()
            wait_for(lambda: errors["MASTERDOWN"] > 0 or wrong, "the loss of the proxy is not told", 30)
            errors.clear()
            proxy.restart()
            gateway.wait_serving()
        ends.set()
        for reader in readers:
            reader.join()
    assert not wrong, wrong
    assert set(errors) <= {"MASTERDOWN", "LOADING", "TRYAGAIN"}, errors


@pytest.mark.quick
def test_an_expired_key_is_never_served(bed):
    primary, _, gateway = bed.served()
    writer, client = primary.client(), gateway.client()
    served = late = 0
    for i in range(60):
        key, life_ms = f"k{i}", 50 if served or i < 10 else min(5000, 50 << i - 10) # a busy machine takes longer
        writer.set(key, "v", px=life_ms)
        ends = time.time() + life_ms / 1000 # the primary's clock when it executed the SET was earlier
        deadline = time.monotonic() + 10 * SLOW
        while time.monotonic() < deadline:
            began = time.time()
            value = client.get(key)
            if value is not None:
                error = gateway.status()["clock_error_us"] if began > ends else 0
                assert began <= ends + (error or 0) / 1e6, f"{key}: {(began - ends) * 1000:.1f} ms after its end"
                served += 1
            elif began > ends:
                late += 1
                break
    assert late == 60 and served > 0


def memory_of(process):
    with open(f"/proc/{process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


@pytest.mark.quick
def test_slow_clients_stop_no_other_and_memory_is_bounded(bed):
    primary, _, gateway = bed.served(gateway__output_timeout_ms=4000)
    primary.client().set("large", b"x" * 50_000)
    primary.client().set("small", "v")
    gateway.wait_fresh()
    before, slow = memory_of(gateway), []
    for _ in range(200):
        connection = Raw(gateway.socket)
        connection.socket.setblocking(False)
        try:
            connection.socket.send(b"GET large\r\n" * 500) # 25 MB of replies each, never read
        except BlockingIOError:
            pass
        slow.append(connection)
    client = gateway.client()
    for _ in range(200):
        assert client.get("small") == b"v"
    # 200 * (gateway.max_output_bytes and one window of replies)
    assert memory_of(gateway) - before < 200 * 1_200_000
    gateway.wait_status(lambda status: status["clients_closed"]["slow"] == 200, "slow clients stay")
    assert client.get("small") == b"v"
    for connection in slow:
        connection.socket.close()


def try_connect(gateway):
    """None: the queue of connections is full at the moment."""
    try:
        return Raw(gateway.socket)
    except BlockingIOError:
        return None


@pytest.mark.long
def test_ten_thousand_clients_of_which_a_thousand_are_slow(bed):
    clients, slow = 10_000, 1_000
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit[1] < clients + 1000:
        pytest.skip(f"only {limit[1]} descriptors are allowed here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (clients + 1000, limit[1]))
    primary, _, gateway = bed.served(gateway__output_timeout_ms=600_000) # so that none is slow before all have come
    primary.client().set("large", b"x" * 20_000)
    primary.client().mset({f"k{i}": f"v{i}" for i in range(1000)})
    gateway.wait_fresh()
    before, connections = memory_of(gateway), []
    try:
        for i in range(clients):
            connection = wait_for(lambda: try_connect(gateway), "the gateway lets no client in", 60)
            if i < slow:
                connection.socket.sendall(b"GET large\r\n" * 100) # 2 MB of replies each, never read
            connections.append(connection)
        served = connections[slow:]
        for i, connection in enumerate(served):
            connection.send("GET", f"k{i % 1000}")
        for i, connection in enumerate(served):
            value = f"v{i % 1000}".encode()
            assert connection.reply() == b"$%d\r\n%s\r\n" % (len(value), value)
        status = gateway.status()
        assert status["clients"] == clients and status["clients_closed"]["slow"] == 0
        # What slow clients were begun, and a few kilobytes of each of the others.
        assert memory_of(gateway) - before < slow * 1_000_000 + clients * 8_000
    finally:
        for connection in connections:
            connection.socket.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    gateway.wait_status(lambda status: status["clients"] == 0, "clients that left are counted")


def wait_long(gateway, requests):
    """A connection with so many requests that none ends before the barrier at their head."""
    connection = Raw(gateway.socket)
    for _ in range(4): # until the gateway knows that its replies are small
        assert connection.ask("PING") == b"+PONG\r\n"
    connection.socket.sendall(b"KEYWAKE.BARRIER 60000\r\n" + b"PING\r\n" * (requests - 1))
    return connection


def under_way(gateway):
    name = "keywake_gateway_requests_under_way "
    lines = gateway.rpc("metrics")["text"].splitlines()
    return next(int(line[len(name):]) for line in lines if line.startswith(name))


def test_clients_whose_requests_wait_long_stop_no_other(bed):
    primary, _, gateway = bed.served()
    primary.client().set("k", "v")
    gateway.wait_fresh()
    primary.signal(signal.SIGSTOP) # no barrier is passed
    waiting = [wait_long(gateway, 128) for _ in range(65536 // 128)]
    wait_for(lambda: under_way(gateway) >= 65536, "fewer requests wait")
    with Raw(gateway.socket, timeout=20) as other:
        other.socket.sendall(b"PING\r\n" * 100)
        assert [other.reply() for _ in range(100)] == [b"+PONG\r\n"] * 100
        assert other.ask("GET", "k")[:1] in b"$-"
    primary.signal(signal.SIGCONT)
    for connection in waiting:
        assert connection.reply() == b"+OK\r\n"
        connection.socket.close()


def timers(port):
    """Of the connections of this port's end: what the kernel waits for."""
    with open("/proc/net/tcp", encoding="ascii") as table:
        rows = [line.split() for line in table.readlines()[1:]]
    return [row[5].split(":")[0] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "01"]


def test_a_tcp_client_whose_host_is_gone_does_not_keep_its_place(bed):
    _, _, gateway = bed.served()
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=20) as client:
        client.sendall(b"PING\r\n")
        assert client.recv(100) == b"+PONG\r\n"
        keepalive = "02" # after the client's kernel has acknowledged the reply
        wait_for(lambda: timers(gateway.port) == [keepalive], lambda: timers(gateway.port))


def test_one_client_too_many_is_told_so(bed):
    _, _, gateway = bed.served(gateway__max_clients=3)
    clients = [Raw(gateway.socket) for _ in range(3)]
    for connection in clients:
        assert connection.ask("PING") == b"+PONG\r\n"
    with Raw(gateway.socket) as fourth:
        assert fourth.reply() == b"-ERR max number of clients reached\r\n"
        with pytest.raises(EOFError):
            fourth.reply()
    clients.pop().socket.close()
    gateway.wait_status(lambda status: status["clients"] == 2, "a client that left is counted")
    with Raw(gateway.socket) as fourth:
        assert fourth.ask("PING") == b"+PONG\r\n"


NO_REQUESTS = {
    "a word above 512 MiB": b"*1\r\n$536870913\r\n",
    "more than a million words": b"*1048577\r\n",
    "no length": b"*1\r\n!3\r\nfoo\r\n",
    "a line without an end": b"x" * 70_000,
    "more than max_input_bytes": b"*2\r\n$3\r\nGET\r\n$20000000\r\n" + b"x" * 17_000_000,
}


@pytest.mark.parametrize("what", NO_REQUESTS)
def test_what_is_no_request_ends_the_connection(bed, what):
    sent = NO_REQUESTS[what]
    _, _, gateway = bed.served()
    with Raw(gateway.socket) as connection:
        try:
            connection.socket.sendall(b"PING\r\n" + sent)
        except (BrokenPipeError, ConnectionResetError):
            pass
        assert connection.reply() == b"+PONG\r\n"
        assert connection.reply().startswith(b"-ERR Protocol error")
        with pytest.raises((EOFError, ConnectionResetError)):
            connection.reply()
    with Raw(gateway.socket) as other:
        assert other.ask("PING") == b"+PONG\r\n"


@pytest.mark.quick
def test_an_incomplete_table_says_loading(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 20_000)
    gateway = bed.gateway(bed.proxy(primary))
    client, said = gateway.client(), set()
    for _ in range(100_000):
        try:
            assert client.get("key:19999") is not None
            break
        except (redis.exceptions.ResponseError, redis.exceptions.BusyLoadingError) as error:
            said.add(class_of(error))
    assert said <= {"LOADING", "MASTERDOWN"}, said


@pytest.mark.quick
def test_another_proxy_is_followed_when_a_person_says_so(bed):
    servers = [bed.server(name) for name in ("one", "two")]
    for server in servers:
        server.client().set("k", server.name)
    proxies = [bed.proxy(server, f"proxy-{server.name}") for server in servers]
    gateway = bed.gateway(proxies[0])
    gateway.wait_fresh()
    client = gateway.client()
    for _ in range(2): # the second time by its remembered place
        assert client.get("k") == b"one"
    wrong = gateway.ctl("retarget", "nonsense")
    assert wrong.returncode == 2 and "nonsense" in wrong.stderr
    assert client.get("k") == b"one"
    address = proxies[1].address
    assert gateway.ctl_ok("retarget", address) == {"proxy": address}
    gateway.wait_fresh()
    assert client.get("k") == b"two"


def test_it_ends_well_with_clients_in_the_middle_of_their_requests(bed):
    primary, _, gateway = bed.served()
    primary.client().mset({f"k{i}": "v" * 1000 for i in range(500)})
    gateway.wait_fresh()
    ends = threading.Event()

    def ask():
        client = gateway.client()
        while not ends.is_set():
            try:
                client.mget([f"k{i}" for i in range(500)])
            except (redis.exceptions.RedisError, OSError):
                return
    askers = [threading.Thread(target=ask) for _ in range(4)]
    for asker in askers:
        asker.start()
    gateway.wait_status(lambda status: status["gets"] > 5000, "nothing is asked")
    assert gateway.stop() == 0
    ends.set()
    for asker in askers:
        asker.join()
