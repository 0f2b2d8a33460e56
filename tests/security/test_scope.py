"""
A key that reads a part of the table, over tcp: what it may read and what not, by an attacker who asks for all of
the memory; and an agent with such a key, which must delete nothing that it cannot see.
"""
import pytest

from lib import wire
from lib.process import wait_for

SCOPE_OFFSET, SCOPE_BYTES = 1 << 62, 1 << 17
SCOPE = "databases=0 prefix=session: prefix=cart:"
FILTER = {"filter__databases": [0], "filter__prefixes": ["session:", "cart:"]}
STATUS_SCOPE = 6
MARK = b"nobody-else-may-read-this"


def digits(secret):
    return f"{secret:02x}" * 32


def line(key, secret, rules=""):
    return f"key {key} {digits(secret)} {rules}\n"


def fill(primary, start=0):
    """A third is in the scope; the rest is marked in name and value, in two databases."""
    for each in range(start, start + 200):
        primary.command("SET", f"session:{each}", f"value {each}")
        primary.command("SET", f"{MARK.decode()}:{each}", MARK * 3)
        primary.command("SET", f"session:{MARK.decode()}:{each}", MARK * 2, db=1)


def keyed(bed, rules=SCOPE, **settings):
    primary = bed.server("primary")
    fill(primary)
    return primary, bed.proxy(primary, listen=("shm", "tcp"), auth__secret_file="",
                              auth__keys_file=bed.file("keys", line("edge-1", 1, rules)), **settings)


def agent_of(bed, proxy, name="replica", via="tcp", **settings):
    return bed.agent(proxy, bed.server(name), name=name, via=via, auth__key_id="edge-1",
                     auth__secret_file=bed.file("secret", digits(1)), **settings)


def refused(agent, words):
    return agent.wait_status(lambda status: words in status["reason"], f"it is not refused: {words}")


def attacker(proxy):
    """A session of the scoped key, by hand."""
    address = proxy.listen["tcp"]
    connection = wire.dial(address)
    claims = wire.Claims("attacker", bytes.fromhex(digits(1)), key_id="edge-1")
    return wire.prove(connection, address, claims, wire.VERSIONS[3])


def number(data, at, size=8):
    return int.from_bytes(data[at:at + size], "little")


def directory_of(joined):
    """Where the directory stands, its segments and extents: (offset, bytes) of each."""
    superblock = joined.read(0, 128)
    at, length = number(superblock, 64), number(superblock, 72, 4)
    data = joined.read(at, length)
    segments, extents = number(data, 28, 4), number(data, 32, 4)
    first = 40 + 48 * segments
    return ((at, length), [(number(data, 40 + 48 * n + 8), number(data, 40 + 48 * n + 16)) for n in range(segments)],
            [(number(data, first + 32 * n), number(data, first + 32 * n + 8)) for n in range(extents)])


def pieces_of(joined, ranges):
    """Of each range its first 8 MiB, READ in pieces that begin and end within records: (offset, bytes)."""
    for offset, length in ranges:
        end = offset + min(length, 8 << 20)
        while offset < end:
            yield offset, joined.read(offset, min(end - offset, 999_983))
            offset += 999_983


@pytest.mark.quick
def test_a_scoped_key_reads_no_byte_beyond_its_scope(bed):
    primary, proxy = keyed(bed)
    for each in range(0, 200, 3): # keys and values that were there before, and their tombstones
        primary.command("DEL", f"{MARK.decode()}:{each}")
    proxy.wait_live()
    with attacker(proxy) as joined:
        assert joined.facts.scoped == 1
        text = joined.read(SCOPE_OFFSET, SCOPE_BYTES)
        assert sorted(text.rstrip(b"\0").split()) == sorted(SCOPE.encode().split())
        _, segments, extents = directory_of(joined)
        read = b"".join(piece for _, piece in pieces_of(joined, segments + extents))
    assert MARK not in read and b"nobody" not in read
    assert all(f"session:{each}".encode() in read for each in range(200))


@pytest.mark.quick
def test_a_scoped_key_cannot_ask_for_keys_by_their_hash(bed):
    """Index root, slots and what else is no segment and no directory: zeros."""
    _, proxy = keyed(bed)
    proxy.wait_live()
    with attacker(proxy) as joined:
        joined.read(SCOPE_OFFSET, SCOPE_BYTES)
        directory, segments, extents = directory_of(joined)
        shown = [(0, 128), (192, 256), directory, *segments]
        for at, piece in pieces_of(joined, extents):
            piece = bytearray(piece)
            for offset, length in shown:
                start, end = max(offset, at), min(offset + length, at + len(piece))
                if start < end:
                    piece[start - at:end - at] = bytes(end - start)
            assert not any(piece)


FUNCTION_LIBRARY = f"#!lua name=hidden\nredis.register_function('hidden', function() return '{MARK.decode()}' end)"


@pytest.mark.quick
def test_a_scoped_key_reads_no_function_library(bed):
    """No prefix is theirs. An agent with such a key leaves those of its server alone, and is warm without them."""
    primary, proxy = keyed(bed, source__functions=True)
    primary.command("FUNCTION", "LOAD", FUNCTION_LIBRARY)
    proxy.wait_status(lambda status: status["functions"]["libraries"] == 1, "the library is in the table")
    with attacker(proxy) as joined:
        joined.read(SCOPE_OFFSET, SCOPE_BYTES)
        _, segments, extents = directory_of(joined)
        read = b"".join(piece for _, piece in pieces_of(joined, segments + extents))
    assert MARK not in read and b"register_function" not in read
    agent = agent_of(bed, proxy, **FILTER)
    agent.replica.command("FUNCTION", "LOAD", FUNCTION_LIBRARY.replace("hidden", "local"))
    agent.wait_warm()
    assert agent.status()["functions"]["state"] == "hidden"
    assert b"local" in str(agent.replica.command("FUNCTION", "LIST")).encode()
    assert b"name=hidden" not in str(agent.replica.command("FUNCTION", "LIST", "WITHCODE")).encode()


@pytest.mark.quick
def test_who_does_not_ask_for_the_scope_reads_nothing(bed):
    """An agent that knows nothing of scopes would take what it cannot see for deleted."""
    _, proxy = keyed(bed)
    proxy.wait_live()
    with attacker(proxy) as joined:
        joined.ask(0, 128)
        assert joined.farewell() == STATUS_SCOPE
    wait_for(lambda: "did not ask what its key may read" in proxy.output(), proxy.output, 30)


@pytest.mark.quick
def test_a_scoped_agent_deletes_nothing_beyond_its_scope(bed):
    """It has its part, follows it, and leaves alone all local keys that the proxy hides from it."""
    primary, proxy = keyed(bed)
    agent = agent_of(bed, proxy, **FILTER)
    replica = agent.replica
    replica.command("SET", "own:1", "local")
    replica.command("SET", f"{MARK.decode()}:1", "local")
    agent.wait_warm()
    part = {f"session:{each}" for each in range(200)}
    wait_for(lambda: keys_of(replica) == part | {"own:1", f"{MARK.decode()}:1"}, lambda: keys_of(replica), 30)
    primary.command("DEL", "session:7")
    primary.command("SET", "cart:1", "added")
    fill(primary, 200)
    wait_for(lambda: replica.command("GET", "cart:1") == b"added" and
             replica.command("EXISTS", "session:7") == 0 and
             replica.command("GET", "session:399") == b"value 399", lambda: agent.status(), 30)
    agent.stop()
    replica.command("SET", "session:stale", "a prune must find it")
    proxy.stop()
    proxy.start() # another epoch: a snapshot, and then a prune
    agent.start()
    agent.wait_warm()
    wait_for(lambda: replica.command("EXISTS", "session:stale") == 0, lambda: agent.status(), 30)
    assert replica.command("GET", "own:1") == b"local"
    assert replica.command("GET", f"{MARK.decode()}:1") == b"local"
    assert replica.command("DBSIZE") == 399 + 1 + 2


def keys_of(server):
    return {key.decode() for key in server.command("KEYS", "*")}


@pytest.mark.parametrize("filters", [{}, {"filter__databases": [0, 1], "filter__prefixes": ["session:"]}],
                         ids=["none", "more"])
def test_an_agent_that_follows_more_than_its_key_is_told_what_to_set(bed, filters):
    _, proxy = keyed(bed)
    agent = agent_of(bed, proxy, start=False, **filters)
    agent.replica.command("SET", "own:1", "local")
    agent.start(wait=False)
    status = refused(agent, "set filter.databases and filter.prefixes")
    assert "prefix=session:" in status["reason"]
    assert keys_of(agent.replica) == {"own:1"}


def test_a_scope_that_was_narrowed_ends_the_session_and_deletes_nothing(bed):
    _, proxy = keyed(bed)
    agent = agent_of(bed, proxy, **FILTER)
    agent.wait_warm()
    bed.file("keys", line("edge-1", 1, "databases=0 prefix=cart:"))
    assert proxy.ctl_ok("config", "reload")["revoked"] == 1
    refused(agent, "set filter.databases and filter.prefixes")
    assert agent.replica.command("DBSIZE") == 200
    bed.file("keys", line("edge-1", 1, "databases=0"))
    proxy.ctl_ok("config", "reload")
    agent.wait_warm()
    assert agent.status()["snapshots"] == 1


def test_what_looks_keys_up_is_refused_to_a_scoped_key(bed):
    """get and verify need the index; export does not, and has the scope only."""
    _, proxy = keyed(bed)
    agent = agent_of(bed, proxy, **FILTER)
    agent.wait_warm()
    for command in (("get", "session:1"), ("verify",)):
        done = agent.ctl(*command)
        assert done.returncode != 0 and "may not look keys up" in done.stderr, done
    gateway = bed.gateway(proxy, via="tcp", start=False, auth__key_id="edge-1",
                          auth__secret_file=bed.file("gateway.secret", digits(1)))
    gateway.start(wait=False)
    wait_for(lambda: "which only agents over tcp" in gateway.output(), gateway.output, 30)
