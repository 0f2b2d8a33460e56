"""
keywake-gateway and unmodified clients: what each library reads from it is what it reads from the primary.

KW_LENGTH=25 makes it 100 000 keys and 10^7 gets; unset, a sample.
"""
import json
import os
import re
import statistics
import subprocess
import time

import pytest

from lib import data
from lib.clients import node_modules
from lib.process import LENGTH, SLOW, wait_for
from lib.resp import Raw

KEYS = int(4000 * LENGTH / SLOW)
GETS = int(400_000 * LENGTH / SLOW)


@pytest.fixture
def served(bed):
    """A primary with all types, its gateway, and the reads that give each key whole."""
    reads = []
    primary, _, gateway = bed.served(fill=lambda server: reads.extend(data.many(server.client(), KEYS)))
    path = bed.file("reads", "".join(json.dumps(read) + "\n" for read in reads))
    return primary, gateway, reads, path


def plain(command, reply):
    if isinstance(reply, dict):
        return sorted(reply.items())
    return sorted(reply) if command in data.UNORDERED else reply


def read_by_redis_py(client, reads):
    for at in range(0, len(reads), 500):
        some = reads[at:at + 500]
        with client.pipeline(transaction=False) as pipe:
            for words in some:
                pipe.execute_command(*words)
            yield from (plain(words[0], reply) for words, reply in zip(some, pipe.execute()))


def test_redis_py_reads_every_key_as_from_the_primary(served):
    primary, gateway, reads, _ = served
    right, given = (read_by_redis_py(server.client(), reads) for server in (primary, gateway))
    compared = 0
    for words, wanted, got in zip(reads, right, given):
        assert got == wanted, words
        compared += 1
    assert compared == KEYS
    assert gateway.status()["values"] >= KEYS


def output_of(*words, stdin=None):
    done = subprocess.run(words, stdin=stdin, capture_output=True, check=False, timeout=600 * SLOW)
    assert done.returncode == 0, done.stderr[-1000:]
    return done.stdout.split(b"\n")


# Options of each library for a server's unix socket.
NODE = {
    "ioredis": ("ioredis", lambda path: {"path": path}),
    "redis-2": ("redis", lambda path: {"socket": {"path": path}, "RESP": 2}),
    "redis-3": ("redis", lambda path: {"socket": {"path": path}, "RESP": 3}),
}


@pytest.mark.parametrize("how", NODE)
def test_clients_of_node_read_every_key_as_from_the_primary(served, how):
    primary, gateway, reads, path = served
    library, options = NODE[how]
    right, given = (
        output_of("node", os.path.join(os.path.dirname(__file__), "node", "whole.js"), node_modules(), library,
                  json.dumps(options(server.socket)), path)
        for server in (primary, gateway))
    assert len(right) == KEYS + 1
    for words, wanted, got in zip(reads, right, given):
        assert got == wanted, words
    assert gateway.status()["values"] >= KEYS


def read_by_redis_cli(server, reads, path):
    """redis-cli is hiredis: a line for each element, and a line of our own after each reply."""
    with open(path, "w", encoding="utf-8") as lines:
        for words in reads:
            lines.write(" ".join(f'"{word}"' for word in words) + "\nECHO ----\n")
    with open(path, "rb") as lines:
        text = b"\n".join(output_of("redis-cli", "-s", server.socket, stdin=lines))
    return [(sorted(part) if words[0] in data.UNORDERED else part)
            for words, part in zip(reads, (part.split(b"\n") for part in text.split(b"\n----\n")))]


def test_redis_cli_reads_every_key_as_from_the_primary(served):
    primary, gateway, reads, path = served
    right, given = (read_by_redis_cli(server, reads, path) for server in (primary, gateway))
    assert len(right) == len(given) == KEYS
    for words, wanted, got in zip(reads, right, given):
        assert got == wanted, words
    assert gateway.status()["values"] >= KEYS


# ---- what the primary sees of it ----

def commands(primary):
    """Calls of each command that the primary has executed."""
    return {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in primary.client().info("commandstats").items()}


def test_gets_cost_the_primary_no_command(bed):
    primary, _, gateway = bed.served(proxy={"source__audit_keys_per_second": 0}, fill=lambda server: server.client().mset(
        {f"key:{i:012}": f"value {i}" for i in range(10_000)}))
    begin, before = time.monotonic(), commands(primary)
    output_of("redis-benchmark", "-s", gateway.socket, "-q", "-t", "get", "-P", "64", "-c", "20",
              "-n", str(GETS), "-r", "10000")
    after = commands(primary)
    seconds = time.monotonic() - begin
    assert gateway.status()["values"] >= GETS
    more = {name: calls - before.get(name, 0) for name, calls in after.items() if calls != before.get(name, 0)}
    # The proxy's own looks: a barrier ten times a second, and what it watches once a second.
    assert not {"get", "mget", "dump", "scan", "exists", "type"} & set(more), more
    assert sum(more.values()) < 60 * (seconds + 1), (more, seconds)


# ---- how soon what was near is forgotten ----

@pytest.mark.alone
@pytest.mark.parametrize("command", ["FLUSHDB", "FLUSHALL", "UNLINK"])
def test_near_values_are_forgotten_within_coherence_ms(bed, command):
    """From the primary's reply on, a client asks without a pause until the old value is gone."""
    limit = 0.010
    primary, _, gateway = bed.served(gateway__cache_bytes="4MiB", gateway__coherence_ms=int(limit * 1000))

    def lateness(there, here):
        late = []
        for i in range(15):
            there.ask("SET", "key", i)
            hits = gateway.status()["near_hits"]
            wait_for(lambda: here.ask("GET", "key").endswith(b"\r\n%d\r\n" % i) and gateway.status()["near_hits"] > hits,
                     "the value is not kept near")
            assert re.match(rb"\+OK|:1", there.ask(*([command, "key"] if command == "UNLINK" else [command])))
            gone = time.monotonic()
            while here.ask("GET", "key") != b"$-1\r\n":
                pass
            late.append(time.monotonic() - gone)
        return late
    rows = []
    with Raw(primary.socket) as there, Raw(gateway.socket) as here:
        # One row in which the machine had time for the gateway shows it: a later one would be late in each row.
        wait_for(lambda: rows.append(lateness(there, here)) or statistics.median(rows[-1]) <= limit * SLOW,
                 lambda: [[f"{seconds * 1000:.1f} ms" for seconds in late] for late in rows], 60)
