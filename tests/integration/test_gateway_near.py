"""The gateway's near cache: what it saves, and that nothing old is ever told from it."""
import threading
import time

import pytest
import redis

from lib.process import SLOW, wait_for

NEAR = {"gateway__cache_bytes": "4MiB"}


def told(client, key):
    """The value, or the refusal while the table is being read anew."""
    try:
        return client.get(key)
    except (redis.exceptions.ResponseError, redis.exceptions.BusyLoadingError) as error:
        return error


def warm_up(gateway, keys):
    """Until each of the keys is kept near."""
    client = gateway.client()

    def asked():
        before = gateway.status()["near_hits"]
        for key in keys:
            told(client, key)
        return gateway.status()["near_hits"] - before >= len(keys)
    wait_for(asked, lambda: f"not all is kept near: {gateway.status()}", 30)
    return client


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
@pytest.mark.quick
def test_hits_take_no_reads_and_are_counted(bed, carrier):
    keys = [f"key-{i}" for i in range(100)]
    _, _, gateway = bed.served(fill=lambda primary: [primary.command("SET", key, key) for key in keys],
                               listen=(carrier,), via=carrier, gateway__coherence_ms=1000, **NEAR)
    client = warm_up(gateway, keys)
    before = gateway.status()
    for _ in range(100):
        assert client.mget(keys) == [key.encode() for key in keys]
    after = gateway.status()
    assert after["near_hits"] - before["near_hits"] >= 9_000, (before, after)
    by_table = sum(after[name] - before[name] for name in ("found_by_place", "found_by_slots"))
    assert by_table <= 1_000, (before, after)
    assert after["near_entries"] >= 100 and 0 < after["near_bytes"] <= 4 << 20


def test_without_bytes_nothing_is_kept(bed):
    _, _, gateway = bed.served(fill=lambda primary: primary.command("SET", "key", "value"))
    client = gateway.client()
    for _ in range(50):
        assert client.get("key") == b"value"
    status = gateway.status()
    assert status["near_hits"] == status["near_entries"] == status["near_bytes"] == 0


@pytest.mark.parametrize("words", [("FLUSHDB",), ("FLUSHALL",), ("SWAPDB", "0", "1"), ("DEL",), ("SET",)])
def test_what_changed_is_not_told_from_near(bed, words):
    keys = [f"key-{i}" for i in range(20)]
    primary, _, gateway = bed.served(
        fill=lambda primary: [primary.command("SET", key, "old") for key in keys], **NEAR)
    client = warm_up(gateway, keys)
    if words == ("DEL",):
        primary.command("DEL", *keys)
    elif words == ("SET",):
        for key in keys:
            primary.command("SET", key, "new")
    else:
        primary.command(*words)
    if words[0] == "SWAPDB": # raises no event: the proxy notices at its next look
        wait_for(lambda: told(client, keys[0]) is None, "the swap is not noticed", 30)
    gateway.wait_fresh()
    assert client.mget(keys) == [b"new" if words == ("SET",) else None] * len(keys)
    if words != ("SET",):
        assert gateway.status()["near_entries"] == 0
    assert gateway.status()["near_invalidated"] >= len(keys)


def test_a_hot_key_never_goes_back_and_is_never_older_than_fresh(bed):
    """A value is the microsecond of its writing; what fresh_us covers must be visible."""
    primary, _, gateway = bed.served(fill=lambda primary: primary.command("SET", "hot", "0"), **NEAR)
    stop, done = threading.Event(), [(0, 0)] # (when it was acknowledged, value), both ascending

    def write():
        with primary.client() as client:
            while not stop.is_set():
                value = time.time_ns() // 1000
                client.set("hot", value)
                done.append((time.time_ns() // 1000, value))
                time.sleep(0.002)
    writer = threading.Thread(target=write)
    writer.start()
    try:
        client, last = gateway.client(), 0
        end = time.monotonic() + 3 * SLOW
        while time.monotonic() < end:
            fresh = gateway.status()["fresh_us"]
            least = next(value for when, value in reversed(done) if when <= fresh)
            written = []
            for _ in range(50):
                written.append(int(client.get("hot")))
            assert written == sorted(written) and written[0] >= last, (last, written)
            last = written[-1]
            assert written[0] >= least, (written[0], least, fresh)
    finally:
        stop.set()
        writer.join()
    assert gateway.status()["near_hits"] > 0


def test_another_table_and_a_proxy_that_stands_still_are_noticed(bed):
    primary, proxy, gateway = bed.served(fill=lambda primary: primary.command("SET", "key", "old"), **NEAR)
    client = warm_up(gateway, ["key"])
    proxy.kill()
    primary.command("SET", "key", "new")
    wait_for(lambda: gateway.status()["near_entries"] == 0, "kept without a connection", 20)
    proxy.restart()
    wait_for(lambda: told(client, "key") == b"new", lambda: f"not served again: {gateway.status()}", 30)
    warm_up(gateway, ["key"])
