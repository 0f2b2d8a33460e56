"""Which servers go together, and how those that do not are told."""
import time

import pytest

from lib import data
from lib.compare import digest, wait_same
from lib.server import Server, binary_path
from lib.workload import Workload, seed_of_run


@pytest.mark.sanitize
def test_a_payload_newer_than_the_replica_accepts_is_told_at_start(bed, need_server):
    need_server("redis-trixie")
    primary, replica = bed.server("primary", "redis-trixie"), bed.server("replica", "own")
    accepted = 10 if replica.version < (7, 2, 0) else 11
    if replica.version >= (7, 4, 0): # it takes what Redis 8.0 writes; this one does not
        need_server("valkey-trixie")
        replica = bed.server("older", "valkey-trixie")
    data.fill(primary)
    agent = bed.agent(bed.proxy(primary), replica)
    reason = agent.wait_state("failed")["reason"]
    assert str(primary.rdb_version("float")) in reason and str(accepted) in reason, reason # both RDB versions
    assert replica.command("DBSIZE") == 0


def test_valkey_9_into_redis_is_told_at_start(bed, need_server):
    need_server("valkey-sid")
    primary, replica = bed.server("primary", "valkey-sid"), bed.server("replica", "own")
    data.fill(primary)
    agent = bed.agent(bed.proxy(primary), replica)
    assert str(primary.rdb_version("float")) in agent.wait_state("failed")["reason"]


def test_redis_12_into_valkey_9_is_told_at_start(bed, need_server):
    need_server("valkey-sid")
    need_server("redis-trixie")
    primary, replica = bed.server("primary", "redis-trixie"), bed.server("replica", "valkey-sid")
    data.fill(primary)
    agent = bed.agent(bed.proxy(primary), replica)
    assert str(primary.rdb_version("float")) in agent.wait_state("failed")["reason"]


@pytest.mark.parametrize("primary, replica", [
    ("own", "redis-trixie"), ("own", "valkey-trixie"),
    ("valkey-trixie", "redis-trixie"), ("own", "valkey-sid"),
])
def test_an_older_primary_and_a_newer_replica(bed, need_server, primary, replica):
    for name in (primary, replica):
        need_server(name)
    pair = bed.pair(primary, replica, fill=data.fill)
    with pair.primary.client() as client:
        client.set("more", 1)
    pair.agent.wait_warm()
    wait_same(pair.primary, pair.replica)


def test_a_random_mix_on_every_server(bed, any_server):
    seed = seed_of_run()
    pair = bed.pair(any_server, any_server)
    load = Workload(pair.primary, seed, wild=True).start()
    time.sleep(5)
    load.stop()
    pair.agent.wait_warm(120)
    pair.wait_same(60)


def test_a_server_too_old_is_refused(bed, need_server):
    need_server("redis-bullseye")
    old, new = bed.server("old", "redis-bullseye"), bed.server("new")
    proxy = bed.proxy(old)
    version = ".".join(map(str, old.version)) # Debian's updates may raise it
    status = proxy.wait_state("source_down", "connecting", reason=version)
    assert "6.2" in status["reason"], status
    fine = bed.proxy(new, name="proxy-2")
    agent = bed.agent(fine, old)
    assert "6.2" in agent.wait_state("failed", reason=version)["reason"]
    assert old.command("DBSIZE") == 0


def test_a_sentinel_is_refused(bed):
    sentinel = Server(bed.directory, "sentinel")
    sentinel.config = {"port": "0", "unixsocket": sentinel.socket, "dir": sentinel.directory}
    conf = bed.file("sentinel.conf", "".join(f"{k} {v}\n" for k, v in sentinel.config.items()))
    sentinel.argv = [binary_path("installed"), conf, "--sentinel"]
    bed.servers.append(sentinel)
    sentinel.spawn()
    proxy = bed.proxy(sentinel)
    proxy.wait_state("source_down", "connecting", reason="sentinel")


def test_something_that_is_no_server_is_told(bed):
    proxy = bed.proxy(bed.server("missing", start=False))
    assert proxy.wait_state("source_down", "connecting", reason="missing.sock")["reason"]


def test_digest_is_defined_on_empty_servers(bed):
    """The comparison itself: two empty servers are equal, one key makes them differ."""
    left, right = bed.server("left"), bed.server("right")
    assert digest(left) == digest(right)
    left.command("SET", "key", 1)
    assert digest(left) != digest(right)
