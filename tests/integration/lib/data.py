"""Data of every type, on both sides of every encoding boundary."""
import random

BINARY = bytes(range(256))


def has_field_ttl(server):
    """HEXPIRE: Redis 7.4 and Valkey 9."""
    return server.version >= ((9, 0, 0) if server.kind == "valkey" else (7, 4, 0))


def strings(client):
    client.set(b"", b"the empty key")
    client.set(b"empty value", b"")
    client.set(BINARY, BINARY)
    client.set(b"k" * 65536, b"a long key")
    client.set("crlf\r\n$3\r\nfoo", "\r\n*1\r\n$4\r\nPING\r\n")
    for number in (0, -1, 1, 9999, 10000, 2**31 - 1, 2**31, 2**63 - 1, -2**63):
        client.set(f"int:{number}", number)
    for length in (1, 20, 21, 43, 44, 45, 46, 63, 64, 255, 256, 16383, 16384, 1 << 20):
        client.set(f"raw:{length}", random.Random(length).randbytes(length))
        client.set(f"same:{length}", b"x" * length) # LZF compresses this
    client.append("appended", b"abc")
    client.append("appended", BINARY)
    client.setrange("sparse", 100_000, b"end")
    client.set("float", "3.25")
    client.incrbyfloat("float", "0.5")


def bitmaps(client):
    client.setbit("bitmap:small", 7, 1)
    client.setbit("bitmap:large", 8_000_000, 1)
    client.bitfield("bitmap:field").set("u8", "#3", 200).incrby("i5", 100, 1).execute()
    client.bitop("XOR", "bitmap:xor", "bitmap:small", "bitmap:large")


def lists(client):
    for count in (1, 2, 127, 128, 129, 511, 512, 513, 5000):
        client.rpush(f"list:{count}", *range(count))
    client.rpush("list:large element", b"e" * 8191, b"e" * 8192, b"e" * 8193, b"e" * 300_000)
    client.rpush("list:binary", b"", BINARY, b"\0", b"-1", b"12345678901234567890")
    client.rpush("list:shrunk", *range(3000))
    client.ltrim("list:shrunk", 10, 20)


def sets(client):
    for count in (1, 127, 128, 129, 511, 512, 513, 3000):
        client.sadd(f"set:int:{count}", *range(count))
        client.sadd(f"set:text:{count}", *(f"m{i}" for i in range(count)))
    client.sadd("set:int16", 1, 32767, -32768)
    client.sadd("set:int32", 1, 2**31 - 1)
    client.sadd("set:int64", 1, 2**63 - 1)
    client.sadd("set:length 64", b"x" * 64)
    client.sadd("set:length 65", b"x" * 65)
    client.sadd("set:mixed", 1, "two", b"", BINARY)


def sorted_sets(client):
    for count in (1, 127, 128, 129, 1000):
        client.zadd(f"zset:{count}", {f"m{i}": i * 0.5 for i in range(count)})
    client.zadd("zset:scores", {"inf": "inf", "-inf": "-inf", "zero": 0, "-zero": "-0.0",
                                "third": 1 / 3, "large": 1.7e308, "tiny": 5e-324, "int": 2**53})
    client.zadd("zset:length 64", {b"x" * 64: 1})
    client.zadd("zset:length 65", {b"x" * 65: 1})
    client.zadd("zset:binary", {b"": 1, BINARY: 2})
    client.geoadd("geo", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"))


def hashes(client):
    for count in (1, 127, 128, 129, 511, 512, 513, 2000):
        client.hset(f"hash:{count}", mapping={f"f{i}": i for i in range(count)})
    for length in (63, 64, 65):
        client.hset(f"hash:length {length}", mapping={b"f" * length: b"v" * length})
    client.hset("hash:binary", mapping={b"": b"", BINARY: BINARY})
    client.hincrbyfloat("hash:float", "f", 1.5)


def field_ttls(client):
    client.hset("hash:field ttl", mapping={"stays": 1, "goes late": 2, "goes later": 3})
    client.execute_command("HPEXPIREAT", "hash:field ttl", 4102444800000, "FIELDS", 1, "goes late")
    client.execute_command("HPEXPIREAT", "hash:field ttl", 4102444900000, "FIELDS", 1, "goes later")


def streams(client):
    for count in (1, 99, 100, 101, 1000):
        with client.pipeline(transaction=False) as pipe:
            for i in range(count):
                pipe.xadd(f"stream:{count}", {"n": i, "text": f"value {i}"}, id=f"{i + 1}-{i % 3}")
            pipe.execute()
    client.xadd("stream:binary", {b"\0": BINARY, b"": b""}, id="5-5")
    client.xadd("stream:emptied", {"a": 1}, id="7-7")
    client.xdel("stream:emptied", "7-7")
    client.xtrim("stream:1000", maxlen=137, approximate=False)
    client.xdel("stream:101", "50-1", "51-2")
    client.xgroup_create("stream:100", "readers", id="0")
    client.xreadgroup("readers", "alice", {"stream:100": ">"}, count=10)
    client.xreadgroup("readers", "bob", {"stream:100": ">"}, count=5)
    client.xack("stream:100", "readers", "1-0", "2-1", "11-1")
    client.xgroup_create("stream:100", "late", id="$")
    client.xgroup_createconsumer("stream:100", "late", "idle consumer")
    client.xgroup_create("stream:no entries", "waiting", id="$", mkstream=True)


def hyperloglogs(client):
    client.pfadd("hll:sparse", *range(100))
    client.pfadd("hll:dense", *range(20_000))
    client.pfadd("hll:empty")
    client.pfmerge("hll:merged", "hll:sparse", "hll:dense")


def expiries(client):
    for kind, make in (("string", lambda key: client.set(key, 1)),
                       ("list", lambda key: client.rpush(key, 1)),
                       ("hash", lambda key: client.hset(key, "f", 1)),
                       ("stream", lambda key: client.xadd(key, {"f": 1}))):
        make(f"ttl:{kind}")
        client.pexpireat(f"ttl:{kind}", 4102444800123)
    client.set("ttl:removed", 1, ex=100_000)
    client.persist("ttl:removed")


EVERY_TYPE = {
    "strings": strings, "bitmaps": bitmaps, "lists": lists, "sets": sets,
    "sorted sets": sorted_sets, "hashes": hashes, "streams": streams,
    "hyperloglogs": hyperloglogs, "expiries": expiries,
}


def fill(server, databases=(0,)):
    """All of the above in each of the databases."""
    for database in databases:
        with server.client(database) as client:
            for make in EVERY_TYPE.values():
                make(client)
            if has_field_ttl(server):
                field_ttls(client)


def fill_plain(server, keys, database=0, length=100, prefix="key:", seed=1):
    """Many strings that differ, by pipelined SETs; other ones with another seed."""
    source = random.Random(seed)
    with server.client(database) as client:
        for start in range(0, keys, 5000):
            with client.pipeline(transaction=False) as pipe:
                for i in range(start, min(start + 5000, keys)):
                    pipe.set(f"{prefix}{i}", source.randbytes(length))
                pipe.execute()


def many(client, count, seed=1):
    """
    So many keys of the six types, on both sides of the boundaries of their encodings, most of them small.
    Returns (command, key, further words…) that reads each of them whole.
    """
    dice = random.Random(seed)
    reads, pipe = [], client.pipeline(transaction=False)
    for i in range(count):
        key = f"{dice.choice(('user', 'cart', 'page'))}:{i}"
        size = dice.choice((1, 2, 3, 5, 8, 20)) if dice.random() < 0.99 else dice.choice((127, 128, 129, 512, 513))
        make, *read = WHOLE[i % len(WHOLE)]
        make(pipe, key, size, dice)
        reads.append((read[0], key, *read[1:]))
        if i % 1000 == 999:
            pipe.execute()
    pipe.execute()
    return reads


def word(dice, most=70):
    """Of ASCII: node-redis garbles a character that comes in two pieces, whatever server sends it."""
    return dice.choice((str(dice.randrange(1 << dice.choice((7, 15, 31, 62)))), "x" * dice.randrange(most),
                        f"{dice.random():.6f}"))


# How a key is made, and the command that reads it whole.
WHOLE = [
    (lambda pipe, key, size, dice: pipe.set(key, word(dice, 40 * size)), "GET"),
    (lambda pipe, key, size, dice: pipe.rpush(key, *(word(dice) for _ in range(size))), "LRANGE", "0", "-1"),
    (lambda pipe, key, size, dice: pipe.sadd(key, *(dice.randrange(1 << 40) for _ in range(size))), "SMEMBERS"),
    (lambda pipe, key, size, dice: pipe.sadd(key, *(word(dice) for _ in range(size))), "SMEMBERS"),
    (lambda pipe, key, size, dice: pipe.hset(key, mapping={f"f{j}": word(dice) for j in range(size)}), "HGETALL"),
    (lambda pipe, key, size, dice: pipe.zadd(key, {f"m{j}": dice.choice((j, dice.random(), 1e300))
                                                   for j in range(size)}), "ZRANGE", "0", "-1", "WITHSCORES"),
    (lambda pipe, key, size, dice: [pipe.xadd(key, {"a": word(dice), "b": j}, id=f"{j + 1}-{j % 2}")
                                    for j in range(size)], "XRANGE", "-", "+"),
]
UNORDERED = {"SMEMBERS", "HGETALL"} # an order of their own in the server's memory
