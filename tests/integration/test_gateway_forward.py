"""keywake-gateway with gateway.forward: what goes on to the primary, in which order, and what is said if it cannot."""
import os
import random
import re
import signal
import statistics
import threading
import time

import pytest
import redis

from lib.process import LENGTH, SLOW, wait_for
from lib.resp import Raw, encode
from lib.server import TOP

pytestmark = pytest.mark.sanitize

ACL = os.path.join(TOP, "deploy", "acl", "gateway.acl")


def forwarding(bed, primary="installed", proxy=None, **settings):
    """A primary, its proxy, and a gateway that serves and forwards."""
    first = bed.server("primary", primary)
    follower = bed.proxy(first, **(proxy or {}))
    gateway = bed.gateway(follower, gateway__forward=True, redis__address=first.address, **settings)
    gateway.wait_fresh()
    return first, follower, gateway


def bulk(value):
    value = value if isinstance(value, bytes) else str(value).encode()
    return b"$%d\r\n%s\r\n" % (len(value), value)


# ---- replies ----

# Each gives the same reply however often it is asked, in this order.
SAME = [("SET", "k", "v"), ("SET", "k", "v", "GET"), ("HSET", "h", "a", 1, "b", 2), ("HGETALL", "h"),
        ("ZADD", "z", 1, "one"), ("ZRANGE", "z", 0, -1, "WITHSCORES"), ("KEYS", "*z*"), ("DBSIZE",),
        ("SCAN", 0, "COUNT", 1000, "MATCH", "z"), ("SORT", "no"), ("EXISTS", "k", "no"), ("INCR", "k"),
        ("EVAL", "return {redis.call('get', KEYS[1]), 1.5, false, {ok='fine'}}", 1, "k"), ("SADD", "one", "m"),
        ("OBJECT", "ENCODING", "k"), ("SET", "k"), ("GETRANGE", "k", 0, "x"), ("MSET", "a\r\nb", b"\x00\xff"),
        ("MGET", "a\r\nb", "h", "k"), ("SUNION", "no", "nor"), ("SUNION", "one", "no"), ("SETRANGE", "big", 200000, "x"),
        ("GET", "big"), ("XREAD", "STREAMS", "s", "0"), ("EVAL", "return redis.error_reply('OWN words')", 0)]


def compare_replies(primary, gateway, hello=None):
    with Raw(primary.socket) as theirs, Raw(gateway.socket) as ours:
        for words in ([("HELLO", hello)] if hello else []):
            assert not theirs.ask(*words).startswith(b"-")
            assert not ours.ask(*words).startswith(b"-")
        for words in SAME: # once, so that the second time finds the same
            theirs.ask(*words)
        for words in SAME:
            right, given = theirs.ask(*words), ours.ask(*words)
            assert given == right, (words, right[:200], given[:200])


@pytest.mark.quick
def test_replies_are_the_primarys_own(bed, any_server):
    primary, _, gateway = forwarding(bed, any_server)
    compare_replies(primary, gateway)


@pytest.mark.quick
def test_maps_of_the_primary_come_as_maps_in_resp_3(bed):
    primary, _, gateway = forwarding(bed)
    compare_replies(primary, gateway, hello=3)
    with Raw(gateway.socket) as client:
        client.ask("HELLO", 3)
        assert client.ask("HSET", "map", "f", "v") in (b":1\r\n", b":0\r\n")
        assert client.ask("HGETALL", "map") == b"%1\r\n" + bulk("f") + bulk("v")
        client.ask("XADD", "s", "1-1", "f", "v")
        assert client.ask("XINFO", "STREAM", "s").startswith(b"%")
        assert client.ask("GET", "none") == b"_\r\n"
        client.ask("HELLO", 2)
        assert client.ask("XINFO", "STREAM", "s").startswith(b"*")


REFUSED = {
    "can wait": [("BLPOP", "k", 0), ("WAIT", 1, 0), ("XREAD", "BLOCK", 0, "STREAMS", "s", "$"), ("bzpopmin", "z", 0)],
    "state of a connection": [("MULTI",), ("EXEC",), ("WATCH", "k"), ("DISCARD",)],
    "messages do not pass": [("SUBSCRIBE", "c"), ("PSUBSCRIBE", "*"), ("MONITOR",)],
    "administers a server": [("SHUTDOWN", "NOSAVE"), ("DEBUG", "SLEEP", 0), ("REPLICAOF", "NO", "ONE"), ("SYNC",),
                             ("PSYNC", "?", -1), ("SCRIPT", "FLUSH"), ("FUNCTION", "FLUSH"), ("SAVE",)],
    "no event tells": [("SWAPDB", 0, 1)],
}


@pytest.mark.quick
def test_what_is_refused_says_why(bed):
    primary, _, gateway = forwarding(bed)
    calls = primary.client().info("commandstats")
    with Raw(gateway.socket) as client:
        for why, requests in REFUSED.items():
            for words in requests:
                reply = client.ask(*words).decode()
                assert reply.startswith("-ERR ") and why in reply, (words, reply)
                assert words[0].lower() in reply.lower() and "the primary itself" in reply
        assert client.ask("FROBNICATE", 1).startswith(b"-")
        assert client.ask("PING") == b"+PONG\r\n"
    added = {name for name in primary.client().info("commandstats") if name not in calls}
    refused = {words[0].lower() for requests in REFUSED.values() for words in requests}
    assert not {name.split("_")[1].split("|")[0] for name in added} & refused


# ---- order ----

def ask_pipelined(client, requests):
    client.socket.sendall(b"".join(encode(words) for words in requests))
    return [client.reply() for _ in requests]


def test_a_pipeline_of_reads_and_writes_takes_effect_in_its_order(bed):
    """What each reply must be is known: nobody else writes. Reads of the table, writes, and other databases, mixed."""
    _, _, gateway = forwarding(bed)
    random.seed(5)
    model = {database: {} for database in range(3)}
    with Raw(gateway.socket, timeout=60 * SLOW) as client:
        database = 0
        for batch in range(int(400 / SLOW)):
            requests, replies = [], []
            for _ in range(random.choice((1, 5, 100))):
                key, data = f"k{random.randrange(6)}", model[database]
                kind = random.choice(("GET", "GET", "GET", "SET", "INCR", "MGET", "EXISTS", "STRLEN", "SELECT", "DEL", "KEYS"))
                if kind == "GET":
                    requests.append(("GET", key))
                    replies.append(bulk(data[key]) if key in data else b"$-1\r\n")
                elif kind == "SET":
                    data[key] = random.randrange(10**9)
                    requests.append(("SET", key, data[key]))
                    replies.append(b"+OK\r\n")
                elif kind == "INCR":
                    data[key] = data.get(key, 0) + 1
                    requests.append(("INCR", key))
                    replies.append(b":%d\r\n" % data[key])
                elif kind == "MGET":
                    keys = [f"k{i}" for i in range(6)]
                    requests.append(("MGET", *keys))
                    replies.append(b"*6\r\n" + b"".join(bulk(data[k]) if k in data else b"$-1\r\n" for k in keys))
                elif kind == "EXISTS":
                    requests.append(("EXISTS", key, "k0", key))
                    replies.append(b":%d\r\n" % (2 * (key in data) + ("k0" in data)))
                elif kind == "STRLEN":
                    requests.append(("STRLEN", key))
                    replies.append(b":%d\r\n" % len(str(data.get(key, ""))))
                elif kind == "DEL":
                    requests.append(("DEL", key))
                    replies.append(b":%d\r\n" % (data.pop(key, None) is not None))
                elif kind == "KEYS":
                    requests.append(("EVAL", "return #redis.call('keys', '*')", 0))
                    replies.append(b":%d\r\n" % len(data))
                else:
                    database = random.randrange(3)
                    requests.append(("SELECT", database))
                    replies.append(b"+OK\r\n")
            assert ask_pipelined(client, requests) == replies, batch
            if batch % 40 == 0:
                time.sleep(0.5) # the table catches up: reads come from it again
    status = gateway.status()
    assert status["values"] > 0 and status["requests_forwarded"] > 0


@pytest.mark.quick
@pytest.mark.core
def test_the_order_holds_across_databases(bed):
    """Each database has a connection of its own to the primary: the next one waits for the one before."""
    _, _, gateway = forwarding(bed)
    busy = ("EVAL", "for i = 1, 3000 do end return 1", 0)
    with Raw(gateway.socket, timeout=60 * SLOW) as client:
        for _ in range(int(200 / SLOW)):
            replies = ask_pipelined(client, [("SELECT", 0), *[busy] * 30, ("SET", "m", 1), ("MOVE", "m", 1),
                                             ("SELECT", 1), ("DEL", "m"), ("SELECT", 0), ("EXISTS", "m")])
            assert replies[-5:] == [b":1\r\n", b"+OK\r\n", b":1\r\n", b"+OK\r\n", b":0\r\n"]


def pause_now_and_then(process, stop):
    while not stop.wait(0.3):
        process.signal(signal.SIGSTOP)
        stop.wait(random.choice((0.02, 0.2, 0.6)))
        process.signal(signal.SIGCONT)


@pytest.mark.long
@pytest.mark.parametrize("cache", ["no near values", "near values"])
def test_a_client_reads_its_own_writes_while_the_proxy_is_paused_now_and_then(bed, cache):
    """One connection's SET is seen by its next GET, tens of thousands of times, from table and primary."""
    _, proxy, gateway = forwarding(bed, gateway__max_staleness_ms=10000,
                                   gateway__cache_bytes="0" if cache == "no near values" else "16MiB")
    stop, failures = threading.Event(), []
    wanted = int(40_000 * LENGTH / SLOW)

    def ping_pong(name, rounds):
        with Raw(gateway.socket, timeout=60 * SLOW) as client:
            for i in range(rounds):
                replies = ask_pipelined(client, [("SET", name, i), ("GET", name)])
                if replies != [b"+OK\r\n", bulk(i)]:
                    failures.append((name, i, replies))
                    return

    def linger(name, until):
        """Reads after one write, until the table has answered and on: none may be older."""
        with Raw(gateway.socket, timeout=60 * SLOW) as client:
            i = 0
            while not failures and is_on(until):
                i += 1
                client.ask("SET", name, i)
                end = time.monotonic() + random.choice((0, 0.05, 0.15, 0.3, 0.45, 0.7))
                while True:
                    reply = client.ask("GET", name)
                    if reply != bulk(i):
                        failures.append((name, i, reply))
                        return
                    if time.monotonic() > end:
                        break

    def is_on(until):
        """For so long, and until the table was read often enough."""
        now = time.monotonic()
        return now < until or (now < until + 100 * SLOW and gateway.status()["values"] <= 500)

    pauser = threading.Thread(target=pause_now_and_then, args=(proxy, stop))
    pauser.start()
    until = time.monotonic() + 20
    threads = [threading.Thread(target=ping_pong, args=(f"p{i}", wanted // 4)) for i in range(4)]
    threads += [threading.Thread(target=linger, args=(f"l{i}", until)) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    pauser.join()
    assert not failures, failures[:3]
    status = gateway.status()
    assert status["requests_forwarded"] >= 2 * wanted
    assert status["values"] > 500 # the table was read, too


# ---- barriers ----

@pytest.mark.quick
def test_after_a_barrier_reads_see_what_others_wrote_before_it(bed):
    primary, proxy, gateway = forwarding(bed, gateway__max_staleness_ms=10000)
    with Raw(gateway.socket, timeout=60 * SLOW) as client, primary.client() as other:
        for i in range(20):
            other.set("k", i)
            assert ask_pipelined(client, [("KEYWAKE.BARRIER", 20000), ("GET", "k")]) == [b"+OK\r\n", bulk(i)]
        assert gateway.status()["values"] >= 20 # from the table, not from the primary
        proxy.signal(signal.SIGSTOP)
        other.set("k", "later")
        replies = ask_pipelined(client, [("KEYWAKE.BARRIER", 50), ("PING",)])
        assert replies[0].startswith(b"-TRYAGAIN") and b"50 ms" in replies[0] and replies[1] == b"+PONG\r\n"
        proxy.signal(signal.SIGCONT)
        assert ask_pipelined(client, [("KEYWAKE.BARRIER", 20000), ("GET", "k")]) == [b"+OK\r\n", bulk("later")]
        for words in [("KEYWAKE.BARRIER",), ("KEYWAKE.BARRIER", "soon"), ("keywake.barrier", 1, 2),
                      ("KEYWAKE.BARRIER", 60001)]:
            assert client.ask(*words).startswith(b"-ERR")


@pytest.mark.quick
def test_a_barrier_needs_no_forwarding(bed):
    primary, _, gateway = bed.served()
    with Raw(gateway.socket, timeout=60 * SLOW) as client:
        primary.client().set("k", "v")
        assert client.ask("KEYWAKE.BARRIER", 20000) == b"+OK\r\n"
        assert client.ask("GET", "k") == bulk("v")
        gone = Raw(gateway.socket)
        gone.send("KEYWAKE.BARRIER", 60000) # a client that does not wait for it
        gone.socket.close()


# ---- what is lost, and what stands in ----

def test_a_connection_that_is_lost_in_mid_flight_says_what_may_have_been_executed(bed):
    """Each INCR that was answered counts; one that says `not executed` never does; the others may."""
    primary, _, gateway = forwarding(bed)
    stop, ends = threading.Event(), {"answered": 0, "perhaps": 0, "not": 0}
    lock, strange = threading.Lock(), []

    def count():
        with Raw(gateway.socket, timeout=60 * SLOW) as client:
            while not stop.is_set():
                for reply in ask_pipelined(client, [("INCR", "n")] * 50):
                    kind = ("answered" if reply.startswith(b":") else
                            "perhaps" if reply.startswith(b"-IOERR this request may have been executed") else
                            "not" if re.match(rb"-(MASTERDOWN|TRYAGAIN) .*not executed", reply) else None)
                    with lock:
                        if kind is None:
                            strange.append(reply)
                        else:
                            ends[kind] += 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()

    def was_lost():
        return ends["perhaps"] + ends["not"] > 0 and gateway.status()["forward_connections"] > 3
    turns = 0
    while turns < 25 or (turns < 600 and not was_lost()):
        turns += 1
        time.sleep(0.1)
        victims = [int(c["id"]) for c in primary.client().client_list() if c["name"].startswith("keywake-gateway:")]
        for victim in victims:
            try:
                primary.command("CLIENT", "KILL", "ID", victim)
            except redis.exceptions.ResponseError:
                pass # it was gone already
    stop.set()
    for thread in threads:
        thread.join()
    assert not strange, strange[:3]
    done = int(primary.client().get("n"))
    assert ends["answered"] <= done <= ends["answered"] + ends["perhaps"], (ends, done)
    assert ends["answered"] > 0 and ends["perhaps"] + ends["not"] > 0
    status = gateway.status()
    assert status["forwards_perhaps_executed"] == ends["perhaps"] and status["forward_connections"] > 3


def test_a_killed_primary_is_said_at_once_and_used_again(bed):
    primary, _, gateway = forwarding(bed, gateway__max_staleness_ms=60000)
    with Raw(gateway.socket, timeout=60 * SLOW) as client, Raw(gateway.socket, timeout=60 * SLOW) as reader:
        assert client.ask("SET", "k", "v") == b"+OK\r\n"
        gateway.wait_fresh()
        before = gateway.status()["requests_forwarded"]
        client.send("EVAL", "while true do end", 0)
        gateway.wait_status(lambda status: status["requests_forwarded"] > before, "it is not in flight")
        primary.kill()
        reply = client.reply()
        assert reply.startswith(b"-IOERR this request may have been executed"), reply
        took = []
        for _ in range(20):
            begun = time.monotonic()
            reply = client.ask("SET", "k", "w")
            took.append(time.monotonic() - begun)
            assert reply.startswith(b"-MASTERDOWN") and b"not executed" in reply and \
                primary.address.removeprefix("unix://").encode() in reply
        assert statistics.median(took) < 1 * SLOW, took
        assert reader.ask("GET", "k") == bulk("v") # it has not written: the table is enough

        def is_dialled():
            """A request does that, once a pause is over: after those of above, on a fast machine."""
            assert client.ask("SET", "k", "w").startswith(b"-MASTERDOWN")
            return "connect" in gateway.status()["forward"]
        wait_for(is_dialled, lambda: f"it is not dialled again: {gateway.status()['forward']}")
        primary.restart()
        wait_for(lambda: client.ask("SET", "k", "x") == b"+OK\r\n", "the primary is not used again", 30)
        assert client.ask("GET", "k") == bulk("x")
        assert gateway.status()["forward"] == "ready"


@pytest.mark.quick
def test_reads_that_the_table_cannot_answer_go_to_the_primary(bed):
    primary, proxy, gateway = forwarding(bed)
    with primary.client() as other:
        other.mset({f"k{i}": i for i in range(300)})
        other.rpush("list", "a")
    with Raw(gateway.socket, timeout=60 * SLOW) as client:
        gateway.wait_fresh()
        proxy.kill() # lost
        gateway.wait_state("connecting", "stale")
        with primary.client() as other:
            other.set("k1", "after")
        assert client.ask("GET", "k1") == bulk("after")
        assert client.ask("GET", "none") == b"$-1\r\n"
        assert client.ask("GET", "list").startswith(b"-WRONGTYPE")
        assert client.ask("MGET", *(f"k{i}" for i in range(300)), "list", "none") == (
            b"*302\r\n" + b"".join(bulk("after" if i == 1 else i) for i in range(300)) + b"$-1\r\n$-1\r\n")
        assert client.ask("EXISTS", *(f"k{i}" for i in range(300)), "none", "k0") == b":301\r\n"
        assert ask_pipelined(client, [("SET", "k2", "x"), ("GET", "k2"), ("EXISTS", "k2")]) == [
            b"+OK\r\n", bulk("x"), b":1\r\n"]
        primary.kill() # neither of them
        for words in [("GET", "k1"), ("EXISTS", "k1", "k2"), ("SET", "k1", "v")]:
            assert client.ask(*words).startswith((b"-MASTERDOWN", b"-IOERR")), words
        assert client.ask("PING") == b"+PONG\r\n"


@pytest.mark.quick
def test_databases_are_told_apart(bed):
    primary, _, gateway = forwarding(bed)
    with Raw(gateway.socket) as client:
        requests = []
        for database in (0, 5, 15):
            requests += [("SELECT", database), ("SET", "where", database), ("EVAL", "return redis.call('keys','*')", 0)]
        assert ask_pipelined(client, requests) == [b"+OK\r\n", b"+OK\r\n", b"*1\r\n" + bulk("where")] * 3
        assert ask_pipelined(client, [("SELECT", 5), ("GET", "where"), ("SCAN", 0)]) == [
            b"+OK\r\n", bulk(5), b"*2\r\n" + bulk(0) + b"*1\r\n" + bulk("where")]
        # One that the primary does not have: nothing is executed in another one.
        assert client.ask("SELECT", 16) in (b"+OK\r\n", b"-ERR DB index is out of range\r\n")
        if client.ask("SET", "where", 16) != b"+OK\r\n":
            assert b"SELECT 16" in client.ask("SET", "where", 16)
        assert client.ask("SELECT", 0) == b"+OK\r\n" and client.ask("SET", "a", 1) == b"+OK\r\n"
        assert gateway.status()["forward"] == "ready"
    for database in (0, 5, 15):
        assert primary.client(database).get("where") == str(database).encode() or database == 5


@pytest.mark.quick
def test_many_clients_share_a_few_connections(bed):
    primary, _, gateway = forwarding(bed)
    clients = [Raw(gateway.socket, timeout=60 * SLOW) for _ in range(200)]
    for round_ in range(5):
        for i, client in enumerate(clients):
            client.socket.sendall(encode(("SET", f"c{i}", round_)) + encode(("GET", f"c{i}")) * 2)
        for i, client in enumerate(clients):
            assert [client.reply() for _ in range(3)] == [b"+OK\r\n", bulk(round_), bulk(round_)]
    names = [c["name"] for c in primary.client().client_list()]
    assert names.count("keywake-gateway:gateway") == 1
    for client in clients[::2]: # gone with requests in flight
        client.socket.sendall(encode(("EVAL", "return redis.call('incr', 'n')", 0)) * 20)
        client.socket.close()
    with primary.client() as other:
        wait_for(lambda: int(other.get("n") or 0) > 0, "nothing came", 20)
    assert clients[1].ask("GET", "c1") == bulk(4)


# ---- permissions on the primary ----

def acl_words():
    with open(ACL, encoding="utf-8") as stream:
        lines = [line for line in stream.read().splitlines() if line.startswith("user ")]
    assert len(lines) == 1
    return lines[0].split()[1:]


def forwarded_names():
    """The commands that the gateway forwards, from its table."""
    with open(os.path.join(TOP, "agent", "gateway", "forward", "commands.c"), encoding="utf-8") as stream:
        text = stream.read()
    names = []
    for table in ("reads", "writes"):
        found = re.search(r"\b%s\[\] = \{(.*?)\};" % table, text, re.S).group(1)
        names += re.findall(r'"([^"]+)"', found)
    assert len(names) > 150
    return names


@pytest.mark.quick
def test_the_published_acl_is_enough_and_allows_no_more(bed, any_server):
    primary = bed.server("primary", any_server)
    user = acl_words()[0]
    primary.command("ACL", "SETUSER", *acl_words())
    proxy = bed.proxy(primary)
    password = bed.file("password", "change-me\n")
    gateway = bed.gateway(proxy, gateway__forward=True, redis__address=primary.address, redis__username=user,
                          redis__password_file=password)
    gateway.wait_fresh()
    compare_replies(primary, gateway)
    compare_replies(primary, gateway, hello=3)
    with Raw(gateway.socket) as client:
        assert client.ask("SELECT", 7) == b"+OK\r\n" and client.ask("SET", "k", "v") == b"+OK\r\n"
    with primary.client() as admin:
        known = {name.lower(): facts for name, facts in admin.command().items()}
        for name in set(forwarded_names()) & set(known):
            if name.startswith("v"):
                continue # vector sets: the file says why
            words = ["1"] * (abs(known[name]["arity"]) - 1)
            said = admin.execute_command("ACL", "DRYRUN", user, name, *words)
            assert b"no permissions to run" not in said, (name, said)
        for words in [("CONFIG", "SET", "maxmemory", 1), ("SHUTDOWN",), ("BLPOP", "k", 0), ("SWAPDB", 0, 1),
                      ("REPLICAOF", "NO", "ONE"), ("SUBSCRIBE", "c"), ("MONITOR",), ("DEBUG", "SLEEP", 0),
                      ("FUNCTION", "FLUSH"), ("SCRIPT", "FLUSH"), ("MIGRATE", "h", 1, "k", 0, 1), ("MULTI",)]:
            said = admin.execute_command("ACL", "DRYRUN", user, *words)
            assert b"no permissions to run" in said, (words, said)


@pytest.mark.quick
def test_a_password_that_is_refused_is_named_with_its_key(bed):
    primary = bed.server("primary")
    proxy = bed.proxy(primary)
    password = bed.file("password", "wrong\n")
    gateway = bed.gateway(proxy, gateway__forward=True, redis__address=primary.address, redis__username="nobody",
                          redis__password_file=password)
    gateway.wait_fresh()
    with Raw(gateway.socket) as client:
        reply = client.ask("SET", "k", "v")
        assert reply.startswith(b"-MASTERDOWN this request was not executed") and b"redis.password_file" in reply
        assert client.ask("GET", "k") == b"$-1\r\n" # the table answers as before
    assert "redis.password_file" in gateway.status()["forward"]


def test_a_client_that_asks_for_large_replies_and_reads_none_costs_bounded_memory(bed):
    """What the primary answers is held once a few times max_output_bytes, not a hundred times."""
    primary, _, gateway = forwarding(bed, gateway__max_output_bytes="2MiB")
    primary.client().set("large", "x" * 1000000)
    with Raw(gateway.socket, timeout=60 * SLOW) as client:
        requests = [("EVAL", "return redis.call('get', 'large')", 0)] * 120
        for words in requests[:20]: # one after the other: they do not make it forget how large replies are
            client.ask(*words)
        client.socket.sendall(b"".join(encode(words) for words in requests))
        with primary.client() as other:
            wait_for(lambda: other.info("commandstats")["cmdstat_eval"]["calls"]
                     == gateway.status()["requests_forwarded"] > 20, "the primary is not asked", 30)
            # For a replica, and so for a proxy by the stream, the server counts what it keeps of the stream for all.
            wait_for(lambda: not any(int(c["omem"]) for c in other.client_list() if "S" not in c["flags"]),
                     "its replies are not read", 30)
        for _ in requests:
            assert len(client.reply()) == 1000000 + len(b"$1000000\r\n\r\n")
        assert peak_bytes(gateway.popen.pid) < 60e6 * (8 if SLOW > 1 else 1)


def peak_bytes(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as stream:
        return int(re.search(r"VmHWM:\s*(\d+) kB", stream.read()).group(1)) * 1024


@pytest.mark.quick
def test_nothing_is_forwarded_to_a_server_that_the_proxy_does_not_read(bed):
    """A write would go to one server, and its client's reads to the table of another."""
    primary, stranger = bed.server("primary"), bed.server("stranger")
    primary.client().set("k", "table")
    gateway = bed.gateway(bed.proxy(primary), gateway__forward=True, redis__address=stranger.address)
    gateway.wait_fresh()
    with Raw(gateway.socket) as client:
        for _ in range(3):
            for words in (("SET", "k", "w"), ("DBSIZE",), ("EVAL", "return redis.call('set', 'k', 'w')", 0)):
                reply = client.ask(*words)
                assert reply.startswith(b"-MASTERDOWN this request was not executed: "), reply
                assert b"another server" in reply
            assert client.ask("GET", "k") == bulk("table")
    assert stranger.client().dbsize() == 0
    assert "another server" in gateway.status()["forward"]
    # Once the table is of that server, it gets what is forwarded.
    second = bed.proxy(stranger, "second")
    gateway.rpc("retarget", proxy=second.address)
    gateway.wait_fresh()
    with Raw(gateway.socket) as client:
        wait_for(lambda: client.ask("SET", "k", "w") == b"+OK\r\n", "it is still another server")
        assert client.ask("GET", "k") == bulk("w")


def test_a_primary_that_was_restarted_gets_requests_once_the_proxy_reads_it_again(bed):
    primary, _, gateway = forwarding(bed)
    with Raw(gateway.socket) as client:
        assert client.ask("SET", "k", "v") == b"+OK\r\n"
        primary.kill()
        primary.start()
        wait_for(lambda: client.ask("SET", "k", "v") == b"+OK\r\n", "the primary is not used again", 30)
