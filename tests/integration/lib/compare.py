"""Are two servers equal? By DEBUG DIGEST, and by what the digest does not see."""
import itertools
import time

import redis

from .process import SLOW
from .server import DATABASES

SHOWN = 12 # differences named in a failure


def digest(server):
    return server.command("DEBUG", "DIGEST").decode()


def scan_all(client):
    return sorted(set(client.scan_iter(count=1000)))


def reap_expired(*servers):
    """
    Let servers delete what has expired. DEBUG DIGEST counts such keys until the server's own cycle
    meets them, which takes it minutes where few of many keys with a TTL have expired; SCAN deletes
    those that it passes.
    """
    for server in servers:
        for database in databases_in_use(server):
            with server.client(database) as client:
                for _ in client.scan_iter(count=10_000):
                    pass


def databases_in_use(server):
    with server.admin() as client:
        return sorted(int(name[2:]) for name in client.info("keyspace"))


def group_state(group):
    """What of a consumer group must be equal; times of last attention are not part of it."""
    pairs = dict(zip(group[::2], group[1::2]))
    consumers = sorted(
        (dict(zip(consumer[::2], consumer[1::2])) for consumer in pairs[b"consumers"]),
        key=lambda consumer: consumer[b"name"])
    return (pairs[b"name"], pairs[b"last-delivered-id"], pairs.get(b"entries-read"),
            [tuple(entry) for entry in pairs[b"pending"]],
            [(consumer[b"name"], [tuple(entry) for entry in consumer[b"pending"]])
             for consumer in consumers])


def stream_state(client, key):
    try:
        reply = raw(client, "XINFO", "STREAM", key, "FULL", "COUNT", "0")
    except redis.exceptions.ResponseError: # it expired since it was listed
        return None
    fields = dict(zip(reply[::2], reply[1::2]))
    return (fields[b"length"], fields[b"last-generated-id"], fields.get(b"max-deleted-entry-id"),
            fields.get(b"entries-added"), sorted(map(group_state, fields[b"groups"])))


def raw(client, *words):
    """A command's reply as it came: no callbacks of the client library."""
    connection = client.connection_pool.get_connection(words[0])
    try:
        connection.send_command(*words)
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


def database_state(server, database):
    """key -> (type, DIGEST-VALUE, PEXPIRETIME, what the digest leaves out) of one database."""
    with server.client(database) as client:
        state = {}
        keys = scan_all(client)
        for start in range(0, len(keys), 500):
            part = keys[start:start + 500]
            with client.pipeline(transaction=False) as pipe:
                for key in part:
                    pipe.execute_command("TYPE", key)
                    pipe.execute_command("DEBUG", "DIGEST-VALUE", key)
                    pipe.execute_command("PEXPIRETIME", key)
                replies = pipe.execute()
            for key, kind, value, expires in zip(part, *(replies[i::3] for i in range(3))):
                if kind == b"none":
                    continue
                more = stream_state(client, key) if kind == b"stream" else None
                state[key] = (kind, value[0], expires, more)
    return state


def scores(server, database, key):
    with server.client(database) as client:
        return client.zrange(key, 0, -1, withscores=True)


def full_state(server):
    return {database: database_state(server, database) for database in databases_in_use(server)}


def differences(primary, replica):
    """Sentences about what differs; empty when nothing does."""
    found = []
    left, right = full_state(primary), full_state(replica)
    for database in sorted(set(left) | set(right)):
        mine, other = left.get(database, {}), right.get(database, {})
        for key in sorted(set(mine) | set(other)):
            if mine.get(key) != other.get(key):
                # Versions of the server write a score's last digits differently into the digest.
                if primary.version != replica.version and mine.get(key, [0])[0] == b"zset" and \
                        scores(primary, database, key) == scores(replica, database, key):
                    continue
                found.append(f"db {database} key {key[:60]!r}: primary {mine.get(key)} "
                             f"replica {other.get(key)}")
    return found


def explain(primary, replica):
    found = differences(primary, replica)
    return "\n".join([f"{len(found)} keys differ"] + found[:SHOWN])


def assert_equal_now(primary, replica):
    left, right = digest(primary), digest(replica)
    if left != right:
        reap_expired(primary, replica)
        left, right = digest(primary), digest(replica)
    assert left == right, f"digests differ: {left} {right}\n{explain(primary, replica)}"


def only_hides_expired(primary, replica):
    """
    Is all that differs a key whose time is over? A replica of Redis hides it, and deletes it only when its
    primary says so. After a handover in mode replica nobody names such a key any more (agent/DESIGN.md).
    """
    with replica.admin() as client:
        if client.info("replication")["role"] != "slave":
            return False
    shown = 0
    for database in databases_in_use(replica):
        with replica.client(database) as client:
            shown += sum(1 for _ in client.scan_iter(count=10_000))
    return sum(key_counts(replica).values()) > shown and not differences(primary, replica)


def wait_equal(primary, replica, timeout=30.0):
    """Until the digests are equal (twice: an expiry may be about to pass through)."""
    deadline = time.monotonic() + timeout * SLOW
    equal = 0
    for attempt in itertools.count():
        equal = equal + 1 if digest(primary) == digest(replica) else 0
        if equal >= 2:
            return
        if attempt % 20 == 19:
            reap_expired(primary, replica)
            if only_hides_expired(primary, replica):
                return
        if time.monotonic() >= deadline:
            raise AssertionError(f"not equal within {timeout * SLOW:.0f} s ({attempt} looks):\n"
                                 + explain(primary, replica))
        time.sleep(0.05)


def wait_same(primary, replica, timeout=30.0):
    """Equal key by key, with TTLs and consumer groups, which the digest leaves out."""
    deadline = time.monotonic() + timeout * SLOW
    while True:
        found = differences(primary, replica)
        if not found:
            break
        if time.monotonic() >= deadline:
            raise AssertionError(f"not the same within {timeout * SLOW:.0f} s:\n"
                                 + "\n".join(found[:SHOWN]))
        time.sleep(0.1)
    if primary.version == replica.version:
        wait_equal(primary, replica, timeout)


def key_counts(server):
    with server.admin() as client:
        return {int(name[2:]): fields["keys"] for name, fields in client.info("keyspace").items()}


ALL_DATABASES = range(DATABASES)
