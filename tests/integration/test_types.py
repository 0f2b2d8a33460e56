"""Every type, both sides of every encoding boundary, arrives as it is."""
import random

import pytest

from lib import data

DATABASES = (0, 9, 10, 15)


@pytest.mark.sanitize
@pytest.mark.core
def test_every_type_is_replicated_at_first_sight(bed, any_server):
    pair = bed.pair(any_server, any_server, fill=lambda primary: data.fill(primary, DATABASES))
    pair.settle()
    pair.wait_same()


@pytest.mark.sanitize
@pytest.mark.core
@pytest.mark.feeds
def test_every_type_is_replicated_while_attached(bed, any_server):
    pair = bed.pair(any_server, any_server)
    data.fill(pair.primary, DATABASES)
    pair.settle()
    pair.wait_same()


@pytest.mark.sanitize
@pytest.mark.quick
def test_every_type_travels_over_each_carrier(bed, carrier):
    pair = bed.pair(listen=(carrier,), via=carrier,
                    fill=lambda primary: data.fill(primary, DATABASES))
    data.fill(pair.primary, (1,))
    pair.settle()
    pair.wait_same()


def test_a_value_of_64_mib(bed, carrier):
    pair = bed.pair(listen=(carrier,), via=carrier, proxy={"table__segment_bytes": "16MiB"})
    with pair.primary.client() as client:
        client.set("huge", random.Random(1).randbytes(64 << 20))
        client.set("small", 1)
    pair.settle()
    with pair.primary.client() as client:
        client.append("huge", b"and one more byte")
    pair.settle()
    with pair.primary.client() as client:
        client.delete("huge")
    pair.settle()
    with pair.replica.client() as client:
        assert client.keys() == [b"small"]


def test_a_hash_of_100_000_fields(bed):
    def fill(primary):
        with primary.client() as client:
            for start in range(0, 100_000, 10_000):
                client.hset("hash", mapping={f"field {i}": f"value {i}"
                                             for i in range(start, start + 10_000)})
    pair = bed.pair(fill=fill)
    pair.settle()
    with pair.primary.client() as client:
        client.hdel("hash", *(f"field {i}" for i in range(0, 100_000, 3)))
        client.hset("hash", "one more", 1)
    pair.settle()


def test_a_large_collection_of_each_kind(bed):
    count = 50_000

    def fill(primary):
        with primary.client() as client, client.pipeline(transaction=False) as pipe:
            for i in range(count):
                pipe.rpush("list", f"element {i}")
                pipe.sadd("set", f"member {i}")
                pipe.zadd("zset", {f"member {i}": i})
                pipe.xadd("stream", {"n": i})
            pipe.execute()
    pair = bed.pair(fill=fill)
    pair.settle()
    with pair.primary.client() as client:
        client.lpop("list", 10)
        client.spop("set", 10)
        client.zpopmin("zset", 10)
        client.xtrim("stream", maxlen=count // 2, approximate=False)
    pair.settle()


def test_database_numbers_of_two_digits(bed):
    """Channel names of databases 1, 10 and 15 must not be taken for one another."""
    pair = bed.pair()
    for database in range(16):
        with pair.primary.client(database) as client:
            client.set("same key", database)
    pair.settle()
    with pair.primary.client(1) as client:
        client.delete("same key")
    with pair.primary.client(15) as client:
        client.set("same key", "changed")
    pair.settle()
    for database in range(16):
        with pair.replica.client(database) as client:
            expected = {1: None, 15: b"changed"}.get(database, str(database).encode())
            assert client.get("same key") == expected, database
