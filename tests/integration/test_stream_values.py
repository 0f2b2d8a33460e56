"""Values that follow from the ones before: sums, appended and overwritten strings, keys that move (source.feed=stream)."""
import random
import time

import redis

from lib.compare import wait_same
from lib.process import LENGTH, wait_for
from lib.workload import seed_of_run

STREAM = {"source__feed": "stream", "source__audit_keys_per_second": 0}
BATCH = 40             # commands in a pipeline
BATCHES = 150
KEYS = 30              # names in each of the databases
DATABASES = (0, 3)
SCRIPT = """
redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('APPEND', KEYS[2], ARGV[2])
if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('RENAME', KEYS[1], KEYS[3]) end
redis.call('SETRANGE', KEYS[2], 3, ARGV[2])
return redis.call('INCR', KEYS[3])
"""


class Changes:
    """Draws commands that need no fetch if the values before them are known."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def key(self):
        return f"key:{self.random.randrange(KEYS)}"

    def text(self):
        return self.random.choice([
            self.random.randrange(-300, 300), self.random.randrange(-2**31, 2**31), 2**62, "007", "",
            b"ab" * self.random.randrange(200), self.random.randbytes(self.random.randrange(300))])

    def command(self):
        key, other = self.key(), self.key()
        return self.random.choice([
            ("SET", key, self.random.randrange(-1000, 1000)), ("SET", key, self.text(), "EX", 100_000),
            ("SET", key, self.text(), "KEEPTTL"), ("INCRBYFLOAT", key, "0.25"),
            ("INCR", key), ("DECR", key), ("INCRBY", key, self.random.randrange(-2**33, 2**33)),
            ("DECRBY", key, self.random.randrange(300)), ("INCRBY", key, 2**62),
            ("APPEND", key, self.text()), ("SETRANGE", key, self.random.randrange(400), self.text()),
            ("RENAME", key, other), ("RENAMENX", key, other), ("COPY", key, other),
            ("COPY", key, other, "REPLACE"), ("COPY", key, other, "DB", self.random.choice(DATABASES), "REPLACE"),
            ("MOVE", key, self.random.choice(DATABASES)), ("EXPIRE", key, 200_000), ("PERSIST", key), ("DEL", key),
            ("EVAL", SCRIPT, 3, key, other, self.key(), self.random.randrange(100), self.text())])


def run(client, changes, count, transaction):
    """Many commands are refused: such a one is not in the stream."""
    with client.pipeline(transaction=transaction) as pipe:
        for _ in range(count):
            pipe.execute_command(*changes.command())
        for reply in pipe.execute(raise_on_error=False):
            assert not isinstance(reply, redis.exceptions.ConnectionError), reply


def fill(primary):
    """Values of all types that are copied as they are, half of them to expire."""
    for database in DATABASES:
        with primary.client(database) as client:
            for i in range(0, KEYS, 6):
                client.set(f"key:{i}", i)
                client.set(f"key:{i + 1}", "text " * i)
                client.rpush(f"key:{i + 2}", *range(1 + 100 * i))
                client.hset(f"key:{i + 3}", mapping={f"field {n}": n for n in range(1 + 50 * i)})
                client.zadd(f"key:{i + 4}", {f"member {n}": n / 3 for n in range(1 + 50 * i)})
                client.sadd(f"key:{i + 5}", *range(1 + 50 * i))
                client.expire(f"key:{i + i % 5}", 300_000)


def test_what_follows_from_known_values_is_not_fetched(bed, any_server):
    pair = bed.pair(any_server, any_server, fill=fill, proxy=STREAM, agent={"apply__audit_keys_per_second": 0})
    changes = Changes(seed_of_run())
    pair.primary.command("SET", "first", "the first value makes the proxy order both connections")
    pair.settle()
    before = pair.proxy.status()
    clients = [pair.primary.client(database) for database in DATABASES]
    for turn in range(int(BATCHES * LENGTH)):
        run(clients[turn % 2], changes, BATCH, transaction=turn % 3 == 0)
    for client in clients:
        client.close()
    pair.agent.wait_warm()
    wait_same(pair.primary, pair.replica)
    pair.agent.ctl_ok("verify")
    status = pair.proxy.status()
    values, fetches = (status[name] - before[name] for name in ("values", "fetches"))
    print(f"{values} values, {fetches} fetches")
    assert values > BATCHES * BATCH / 3, status
    assert fetches <= values / 100, status
    assert status["reconciles"] == 0, status


def break_one(client, turn):
    """One of the two connections of the proxy."""
    ours = sorted((line["name"], line["id"]) for line in client.client_list() if line["name"].startswith("keywake-proxy"))
    if ours:
        client.execute_command("CLIENT", "KILL", "ID", ours[turn % len(ours)][1])


def test_broken_connections_leave_nothing_behind(bed, any_server):
    """What was asked for, told or waiting when a connection broke. Neither audit mends it."""
    pair = bed.pair(any_server, any_server, fill=fill, proxy=STREAM, agent={"apply__audit_keys_per_second": 0})
    changes = Changes(seed_of_run())
    clients = [pair.primary.client(database) for database in DATABASES]
    for turn in range(int(BATCHES * LENGTH)):
        run(clients[turn % 2], changes, BATCH, transaction=turn % 3 == 0)
        if turn % 30 == 10:
            pair.proxy.wait_live()
        if turn % 30 == 29:
            break_one(clients[0], turn // 30)
        if turn % 5 == 4: # what has just been told meets what is being fetched
            clients[1].rpush(f"list:{turn}", turn)
            clients[1].rename(f"list:{turn}", f"key:{turn % KEYS}")
    for client in clients:
        client.close()
    pair.agent.wait_warm()
    wait_same(pair.primary, pair.replica)
    pair.agent.ctl_ok("verify")
    status = pair.proxy.status()
    print(f"{status['values']} values, {status['fetches']} fetches, {status['reconciles']} reconciles")
    assert status["values"] > 0, status


def is_taken(pair, client, name):
    """Is what is told of the key now in the table without a fetch?"""
    values = pair.proxy.status()["values"]
    client.set(name, 0)
    pair.settle()
    return pair.proxy.status()["values"] > values


def test_a_hot_counter_is_followed(bed, any_server):
    """Each change depends on the one before, and thousands of them come together."""
    pair = bed.pair(any_server, any_server, proxy=STREAM)
    with pair.primary.client() as client:
        wait_for(lambda: is_taken(pair, client, "counter"), "the counter is fetched for ever")
        before = pair.proxy.status()
        for _ in range(10):
            with client.pipeline(transaction=False) as pipe:
                for _ in range(1000):
                    pipe.incrby("counter", 3)
                pipe.execute()
        assert client.get("counter") == b"30000"
    pair.agent.wait_warm()
    wait_same(pair.primary, pair.replica)
    after = pair.proxy.status()
    assert after["fetches"] == before["fetches"], after
    assert after["values"] == before["values"] + 10_000, after


def test_a_key_that_comes_from_a_database_that_is_not_followed_is_fetched(bed):
    """The table has nothing of it, although the key exists."""
    pair = bed.pair(proxy={**STREAM, "source__databases": [0]})
    with pair.primary.client() as followed, pair.primary.client(3) as other, pair.replica.client() as replica:
        wait_for(lambda: is_taken(pair, followed, "key"), "the key is fetched for ever")
        for i in range(3):
            other.set(f"out:{i}", i, ex=100_000)
        other.execute_command("COPY", "out:0", "in:0", "DB", 0)
        other.move("out:1", 0)
        followed.move("key", 3)
        other.incr("key")
        other.move("key", 0)
        pair.agent.wait_warm()
        for name in ("in:0", "out:1", "key"):
            assert replica.get(name) == followed.get(name), name
            assert replica.execute_command("PEXPIRETIME", name) == followed.execute_command("PEXPIRETIME", name), name
        assert replica.exists("out:0", "out:2") == 0


def test_a_key_whose_time_was_over_is_no_base_of_a_value(bed, any_server):
    """A primary that loads its data leaves such keys out, and no DEL is in the stream. What comes next makes them anew."""
    pair = bed.pair(any_server, any_server, proxy=STREAM)
    pair.primary.command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for name, value in (("appended", "old"), ("summed", 5), ("written", "old"), ("kept", "old")):
        pair.primary.command("SET", name, value, "PX", 400)
    pair.settle()
    time.sleep(0.5)
    pair.primary.command("DEBUG", "RELOAD")
    pair.primary.command("APPEND", "appended", "new")
    pair.primary.command("INCRBY", "summed", 7)
    pair.primary.command("SETRANGE", "written", 1, "new")
    pair.primary.command("SET", "kept", "new", "KEEPTTL")
    wait_same(pair.primary, pair.replica, 10)
    assert pair.replica.command("GET", "appended") == b"new"
