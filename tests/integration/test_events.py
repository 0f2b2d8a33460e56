"""Which commands write without an event: found by running each of them, not believed."""
import pytest

from lib.process import wait_for

# command: how to run it, after what. Keys: s string, n number, l list, u set, z sorted set, h hash,
# x stream (group g, consumer c), p HyperLogLog, b bitmap, v vector set, t with expiries; new: none.
# Words are split at blanks. Several: one of them must have changed something.
RUNS = {
    "append": "APPEND s more", "bitfield": "BITFIELD b SET u8 0 7", "bitop": "BITOP NOT new b",
    "blmove": "BLMOVE l new LEFT LEFT 1", "blmpop": "BLMPOP 1 1 l LEFT", "blpop": "BLPOP l 1",
    "brpop": "BRPOP l 1", "brpoplpush": "BRPOPLPUSH l new 1", "bzmpop": "BZMPOP 1 1 z MIN",
    "bzpopmax": "BZPOPMAX z 1", "bzpopmin": "BZPOPMIN z 1", "copy": "COPY s new", "decr": "DECR n",
    "decrby": "DECRBY n 2", "del": "DEL s", "delifeq": "DELIFEQ s text", "expire": "EXPIRE s 100",
    "expireat": "EXPIREAT s 4102444800", "flushall": "FLUSHALL", "flushdb": "FLUSHDB",
    "geoadd": "GEOADD new 13.3 38.1 Palermo", "georadius": "GEORADIUS geo 15 37 200 km STORE new",
    "georadiusbymember": "GEORADIUSBYMEMBER geo Palermo 200 km STORE new",
    "geosearchstore": "GEOSEARCHSTORE new geo FROMMEMBER Palermo BYRADIUS 200 km",
    "getdel": "GETDEL s", "getex": "GETEX s EX 100", "getset": "GETSET s other", "hdel": "HDEL h f",
    "hexpire": "HEXPIRE h 100 FIELDS 1 f", "hexpireat": "HEXPIREAT h 4102444800 FIELDS 1 f",
    "hgetdel": "HGETDEL h FIELDS 1 f", "hgetex": "HGETEX h EX 100 FIELDS 1 f",
    "hincrby": "HINCRBY h n 1", "hincrbyfloat": "HINCRBYFLOAT h n 1.5", "hmset": "HMSET h a b",
    "hpersist": "HPERSIST ht FIELDS 1 f", "hpexpire": "HPEXPIRE h 100000 FIELDS 1 f",
    "hpexpireat": "HPEXPIREAT h 4102444800000 FIELDS 1 f", "hset": "HSET h a b",
    "hsetex": "HSETEX h EX 100 FIELDS 1 f w", "hsetnx": "HSETNX h a b", "incr": "INCR n",
    "incrby": "INCRBY n 2", "incrbyfloat": "INCRBYFLOAT n 1.5", "linsert": "LINSERT l BEFORE a b",
    "lmove": "LMOVE l new LEFT LEFT", "lmpop": "LMPOP 1 l LEFT", "lpop": "LPOP l",
    "lpush": "LPUSH l x", "lpushx": "LPUSHX l x", "lrem": "LREM l 1 a", "lset": "LSET l 0 x",
    "ltrim": "LTRIM l 1 1", "move": "MOVE s 1", "mset": "MSET s 1 new 2",
    "msetex": "MSETEX 1 new 1 EX 100", "msetnx": "MSETNX new 1", "persist": "PERSIST t",
    "pexpire": "PEXPIRE s 100000", "pexpireat": "PEXPIREAT s 4102444800000", "pfadd": "PFADD p x y",
    "pfcount": "PFCOUNT p", "pfdebug": "PFDEBUG TODENSE p", "pfmerge": "PFMERGE new p",
    "psetex": "PSETEX new 100000 1", "rename": "RENAME s new", "renamenx": "RENAMENX s new",
    "rpop": "RPOP l", "rpoplpush": "RPOPLPUSH l new", "rpush": "RPUSH l x", "rpushx": "RPUSHX l x",
    "sadd": "SADD u x", "sdiffstore": "SDIFFSTORE new u", "set": "SET s other",
    "setbit": "SETBIT b 9 1", "setex": "SETEX new 100 1", "setnx": "SETNX new 1",
    "setrange": "SETRANGE s 2 xx", "sinterstore": "SINTERSTORE new u", "smove": "SMOVE u new a",
    "sort": "SORT l ALPHA STORE new", "spop": "SPOP u", "srem": "SREM u a",
    "sunionstore": "SUNIONSTORE new u", "swapdb": "SWAPDB 0 1", "unlink": "UNLINK s",
    "xack": "XACK x g 1-1", "xadd": "XADD x * a b", "xautoclaim": "XAUTOCLAIM x g d 0 0",
    "xclaim": "XCLAIM x g d 0 1-1", "xdel": "XDEL x 1-1", "xgroup|create": "XGROUP CREATE x k 0",
    "xgroup|createconsumer": "XGROUP CREATECONSUMER x g e",
    "xgroup|delconsumer": "XGROUP DELCONSUMER x g c", "xgroup|destroy": "XGROUP DESTROY x g",
    "xgroup|setid": "XGROUP SETID x g 0", "xreadgroup": "XREADGROUP GROUP g c STREAMS x >",
    "xsetid": "XSETID x 9-9", "xtrim": "XTRIM x MAXLEN 1", "zadd": "ZADD z 9 x",
    "zdiffstore": "ZDIFFSTORE new 1 z", "zincrby": "ZINCRBY z 1 a",
    "zinterstore": "ZINTERSTORE new 1 z", "zmpop": "ZMPOP 1 z MIN", "zpopmax": "ZPOPMAX z",
    "zpopmin": "ZPOPMIN z", "zrangestore": "ZRANGESTORE new z 0 -1", "zrem": "ZREM z a",
    "zremrangebylex": "ZREMRANGEBYLEX z - +", "zremrangebyrank": "ZREMRANGEBYRANK z 0 0",
    "zremrangebyscore": "ZREMRANGEBYSCORE z -inf +inf", "zunionstore": "ZUNIONSTORE new 1 z",
    "vadd": "VADD v VALUES 3 1 0 2 e", "vrem": "VREM v a", "vsetattr": "VSETATTR v a {}",
}

# RESTORE and RESTORE-ASKING take a payload, MIGRATE another server.
OTHERWISE = {"restore", "restore-asking", "migrate"}
# They write no keys.
NO_KEYS = {"function|delete", "function|flush", "function|load", "function|restore"}
# Cluster mode only, which keywake refuses.
CLUSTER = {"cluster|flushslot"}

# proxy/DESIGN.md and deploy/doc/limits.md say how each of them is found.
SILENT = {
    "flushall", "flushdb", # the tracking null: told for keys, but no event names them
    "swapdb", "pfcount", "pfdebug", "xack", "xautoclaim", "xclaim", "xreadgroup", "vadd", "vrem",
    "vsetattr",
}

FILL = [
    "SET s text", "SET n 5", "RPUSH l a b c", "SADD u a b c", "ZADD z 1 a 2 b", "HSET h f v n 1",
    "SETBIT b 7 1", "GEOADD geo 13.361389 38.115556 Palermo", "SET t 1 EX 5000", "PFADD p a b c",
    "XADD x 1-1 a b", "XADD x 2-1 a b", "XGROUP CREATE x g 0", "XGROUP CREATECONSUMER x g d",
    "XREADGROUP GROUP g c COUNT 1 STREAMS x >", "HSET ht f v",
]


def written_by(server):
    """The names of all commands that write, in lower case; those with subcommands as a|b."""
    names = set()

    def walk(infos):
        for info in infos:
            if b"write" in info[2]:
                names.add(info[0].decode().lower())
            walk(info[9] if len(info) > 9 else [])
    with server.client() as client:
        connection = client.connection_pool.get_connection("COMMAND")
        connection.send_command("COMMAND")
        walk(connection.read_response())
        client.connection_pool.release(connection)
    return names


class Listener:
    """What a subscriber of all key events hears."""

    def __init__(self, server):
        self.pubsub = server.client().pubsub()
        self.pubsub.psubscribe("__keyevent@*")
        wait_for(lambda: self.pubsub.get_message(timeout=1), "no answer to PSUBSCRIBE")

    def heard(self, client):
        """The keys that events name, after what this client did."""
        client.publish("__keyevent@end", "")
        heard = set()
        while True:
            message = self.pubsub.get_message(timeout=30)
            assert message, "the last event did not come"
            if message["channel"] == b"__keyevent@end":
                return heard
            heard.add(message["data"])


def prepared(client, name, known):
    client.flushall()
    for words in FILL:
        client.execute_command(*words.split())
    if "hpersist" in known:
        client.execute_command("HEXPIRE", "ht", 5000, "FIELDS", 1, "f")
    if "vadd" in known:
        client.execute_command(*"VADD v VALUES 3 1 2 3 a".split())
        client.execute_command(*"VADD v VALUES 3 3 2 1 b SETATTR {\"a\":1}".split())
    if name == "spop":
        client.sadd("u", *range(10))


def image(client):
    """All values of database 0, as bytes; and whether they have an expiry."""
    return {key: (client.dump(key), client.pttl(key) > 0) for key in client.keys()}


def test_the_commands_that_write_without_an_event_are_known(bed, any_server):
    server = bed.server("server", any_server, notify_keyspace_events="AE")
    known = written_by(server) | {"pfcount"}
    unknown = known - set(RUNS) - OTHERWISE - NO_KEYS - CLUSTER
    assert not unknown, f"new commands that write: say in RUNS how each is run: {sorted(unknown)}"
    listener = Listener(server)
    silent, idle = set(), set()
    with server.client() as client:
        client.response_callbacks.clear() # answers as they come
        for name in sorted(known & set(RUNS)):
            prepared(client, name, known)
            before = image(client)
            listener.heard(client)
            client.execute_command(*RUNS[name].split())
            heard, after = listener.heard(client), image(client)
            changed = {key for key in before.keys() | after.keys()
                       if before.get(key) != after.get(key)}
            if not changed:
                idle.add(name)
            elif changed - heard:
                silent.add(name)
    assert not idle, f"these did nothing, so they show nothing: {sorted(idle)}"
    assert silent == SILENT & known
