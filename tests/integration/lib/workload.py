"""A random mix of every kind of write, repeatable by its seed."""
import os
import random
import threading
import time

import redis

BATCH = 40          # commands in one pipeline
KEYS = 60           # names of each type and database
OUTAGE_SLEEP = 0.02 # between tries while the server is down


def seed_of_run():
    seed = int(os.environ.get("KW_SEED") or random.SystemRandom().randrange(1 << 31))
    print(f"workload seed {seed} (repeat with KW_SEED={seed})")
    return seed


class Mix:
    """Draws commands. Names carry their type, so that most commands meet the type they expect."""

    def __init__(self, seed, short_ttls=True, databases=(0, 3, 9, 10, 15), wild=False, silent=True):
        """
        short_ttls: keys that expire soon. wild: whole databases are flushed and swapped. silent: also
        commands that change values without an event; they arrive later than `wait warm` promises.
        """
        self.random = random.Random(seed)
        self.short_ttls = short_ttls
        self.databases = databases
        self.wild = wild
        self.silent = silent
        self.makers = [getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")]

    def key(self, kind):
        return f"{kind}:{self.random.randrange(KEYS)}"

    def any_key(self):
        return self.key(self.random.choice(["s", "l", "t", "z", "h", "x", "p", "b", "g"]))

    def value(self):
        roll = self.random.random()
        if roll < 0.4:
            return self.random.randrange(100_000)
        if roll < 0.97:
            return self.random.randbytes(self.random.randrange(200))
        return self.random.randbytes(self.random.randrange(40_000))

    def members(self, low=1, high=8):
        return [f"m{self.random.randrange(300)}" for _ in range(self.random.randint(low, high))]

    def ttl_ms(self):
        if self.short_ttls and self.random.random() < 0.5:
            return self.random.randrange(1, 400)
        return self.random.randrange(10**8, 10**9)

    def pick(self, *choices):
        return self.random.choice(choices)

    def do_string(self):
        key = self.key("s")
        return self.pick(
            ("SET", key, self.value()), ("SET", key, self.value(), "PX", self.ttl_ms()),
            ("SET", key, self.value(), "KEEPTTL"), ("SET", key, self.value(), "NX"),
            ("APPEND", key, self.value()), ("SETRANGE", key, self.random.randrange(300), "patch"),
            ("GETSET", key, self.value()), ("GETDEL", key), ("GETEX", key, "PX", self.ttl_ms()),
            ("GETEX", key, "PERSIST"), ("MSET", key, 1, self.key("s"), self.value()))

    def do_number(self):
        key = self.key("n")
        return self.pick(("INCR", key), ("DECRBY", key, 7), ("INCRBYFLOAT", key, "0.25"),
                         ("SET", key, self.random.randrange(1000)))

    def do_bitmap(self):
        key = self.key("b")
        return self.pick(("SETBIT", key, self.random.randrange(5000), 1),
                         ("SETBIT", key, self.random.randrange(5000), 0),
                         ("BITFIELD", key, "SET", "u8", self.random.randrange(400), 77),
                         ("BITOP", "OR", self.key("b"), key, self.key("b")))

    def do_list(self):
        key = self.key("l")
        return self.pick(
            ("RPUSH", key, *self.members()), ("LPUSH", key, self.value()), ("LPOP", key),
            ("RPOP", key, 4), ("LREM", key, 0, f"m{self.random.randrange(300)}"),
            ("LSET", key, 0, self.value()), ("LTRIM", key, 0, 40), ("LINSERT", key, "BEFORE", "m1", "new"),
            ("LMOVE", key, self.key("l"), "LEFT", "RIGHT"), ("RPOPLPUSH", key, self.key("l")))

    def do_set(self):
        key = self.key("t")
        return self.pick(
            ("SADD", key, *self.members()), ("SADD", key, self.random.randrange(500)),
            ("SREM", key, *self.members()), ("SPOP", key), ("SPOP", key, 5),
            ("SMOVE", key, self.key("t"), f"m{self.random.randrange(300)}"),
            ("SINTERSTORE", key, self.key("t"), self.key("t")),
            ("SUNIONSTORE", key, self.key("t"), self.key("t")),
            ("SDIFFSTORE", key, self.key("t"), self.key("t")))

    def do_sorted_set(self):
        key = self.key("z")
        member = f"m{self.random.randrange(300)}"
        return self.pick(
            ("ZADD", key, self.random.random(), member), ("ZINCRBY", key, 1.5, member),
            ("ZADD", key, self.random.randrange(100), member, 5, "five"), ("ZREM", key, member),
            ("ZPOPMIN", key), ("ZPOPMAX", key, 3), ("ZREMRANGEBYRANK", key, 20, -1),
            ("ZUNIONSTORE", key, 2, self.key("z"), self.key("z")),
            ("ZINTERSTORE", key, 2, self.key("z"), self.key("z")),
            ("ZRANGESTORE", key, self.key("z"), 0, 9))

    def do_hash(self):
        key = self.key("h")
        return self.pick(
            ("HSET", key, f"f{self.random.randrange(200)}", self.value()),
            ("HSET", key, "a", 1, "b", 2, "c", self.value()), ("HINCRBY", key, "count", 3),
            ("HDEL", key, *(f"f{self.random.randrange(200)}" for _ in range(5))),
            ("HDEL", key, "a", "b", "c", "count"), ("HSETNX", key, "a", "once"))

    def do_stream(self):
        key = self.key("x")
        return self.pick(
            ("XADD", key, "*", "f", self.value()), ("XADD", key, "MAXLEN", 50, "*", "g", self.value()),
            ("XTRIM", key, "MAXLEN", 10), ("XGROUP", "CREATE", key, "g1", "0", "MKSTREAM"),
            ("XREADGROUP", "GROUP", "g1", self.pick("c1", "c2"), "COUNT", 5, "STREAMS", key, ">"),
            ("XGROUP", "SETID", key, "g1", "0"), ("XGROUP", "DESTROY", key, "g1"),
            ("XAUTOCLAIM", key, "g1", "c2", 0, "0-0", "COUNT", 2))

    def do_hyperloglog(self):
        key = self.key("p")
        return self.pick(("PFADD", key, *self.members()), ("PFADD", key, self.random.randrange(10**6)),
                         ("PFMERGE", key, self.key("p"), self.key("p")),
                         ("PFCOUNT", key) if self.silent else ("TOUCH", key))

    def do_geo(self):
        key = self.key("g")
        longitude, latitude = self.random.uniform(-179, 179), self.random.uniform(-80, 80)
        return self.pick(("GEOADD", key, longitude, latitude, f"m{self.random.randrange(50)}"),
                         ("GEOSEARCHSTORE", self.key("g"), key, "FROMLONLAT", 0, 0, "BYRADIUS",
                          9000, "km"))

    def do_keyspace(self):
        key = self.any_key()
        kind = key.split(":")[0]
        return self.pick(
            ("DEL", key), ("UNLINK", key, self.any_key()), ("PEXPIRE", key, self.ttl_ms()),
            ("PERSIST", key), ("RENAME", key, self.key(kind)), ("RENAMENX", key, self.key(kind)),
            ("COPY", key, self.key(kind), "REPLACE"), ("COPY", key, self.key(kind), "DB",
                                                       self.pick(*self.databases), "REPLACE"),
            ("MOVE", key, self.pick(*self.databases)), ("PEXPIREAT", key, 1),
            ("SORT", self.key("t"), "ALPHA", "STORE", self.key("l")), ("TOUCH", key))

    def do_script(self):
        if self.random.random() < 0.5:
            return ("EVAL", "for i, key in ipairs(KEYS) do redis.call('SET', key, ARGV[1] .. i) end "
                    "return redis.call('DEL', KEYS[1])", 3, self.key("s"), self.key("s"),
                    self.key("s"), self.random.randrange(1000))
        return ("EVAL", "redis.call('LPUSH', KEYS[1], ARGV[1]); redis.call('EXPIRE', KEYS[1], 100000)"
                "; return redis.call('LLEN', KEYS[1])", 1, self.key("l"), self.value())

    def wild_command(self):
        """Commands that touch whole databases."""
        return self.pick(("FLUSHDB",), ("FLUSHDB", "ASYNC"),
                         ("SWAPDB", self.pick(*self.databases), self.pick(*self.databases)))

    def command(self):
        return self.random.choice(self.makers)()

    def batch(self):
        """(database, in MULTI?, commands)"""
        commands = [self.command() for _ in range(BATCH)]
        if self.wild and self.random.random() < 0.004:
            commands[self.random.randrange(BATCH)] = self.wild_command()
        return self.random.choice(self.databases), self.random.random() < 0.2, commands


class Workload:
    """
    Runs a mix in a thread until stopped, at full speed or at a pace (commands a second); survives a
    server that goes away.
    """

    def __init__(self, server, seed, pace=None, **mix):
        self.server = server
        self.pace = pace
        self.mix = Mix(seed, **mix)
        self.commands = 0
        self.errors = {}
        self.failure = None
        self.resting = threading.Event() # the thread stands still
        self.go = threading.Event()
        self.turn = threading.Lock() # held while `resting` follows from `go`
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        self.go.set()
        self.thread.start()
        return self

    def rest(self):
        """Stand still: every write sent has been answered (or its connection was lost)."""
        self.go.clear()
        assert self.resting.wait(60), "the workload does not come to rest"

    def resume(self):
        with self.turn:
            self.resting.clear()
            self.go.set()

    def stop(self):
        self.stopped.set()
        self.go.set()
        self.thread.join(60)
        assert not self.thread.is_alive(), "the workload does not end"
        if self.failure:
            raise self.failure
        return self.commands

    def run(self):
        clients = {}
        due = time.monotonic()
        try:
            while not self.stopped.is_set():
                with self.turn:
                    if not self.go.is_set():
                        self.resting.set()
                if self.resting.is_set():
                    self.go.wait(0.2)
                    continue
                database, transaction, commands = self.mix.batch()
                if database not in clients:
                    clients[database] = self.server.client(database)
                self.send(clients[database], transaction, commands)
                if self.pace:
                    due = max(due + BATCH / self.pace, time.monotonic() - 1)
                    time.sleep(max(0, due - time.monotonic()))
        except Exception as failure: # told by stop()
            self.failure = failure
        finally:
            self.resting.set()
            for client in clients.values():
                client.close()

    def send(self, client, transaction, commands):
        try:
            with client.pipeline(transaction=transaction) as pipe:
                for command in commands:
                    pipe.execute_command(*command)
                replies = pipe.execute(raise_on_error=False)
        except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError,
                redis.exceptions.BusyLoadingError):
            time.sleep(OUTAGE_SLEEP)
            return
        except redis.exceptions.ResponseError as error: # EXECABORT
            self.count_error(error)
            return
        self.commands += len(commands)
        for reply in replies:
            if isinstance(reply, Exception):
                self.count_error(reply)

    def count_error(self, error):
        word = str(error).split(" ", 1)[0]
        self.errors[word] = self.errors.get(word, 0) + 1
