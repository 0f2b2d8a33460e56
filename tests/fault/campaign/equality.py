"""Are a primary at rest and a replica equal? Without waiting, and without what the contract leaves open."""
import time

from lib.compare import (SHOWN, databases_in_use, differences, digest, full_state, reap_expired,
                         scan_all)
from lib.data import has_field_ttl
from lib.server import binary_version

TRIES = 3
BETWEEN = 0.1      # seconds, between tries: a key that expires may be on its way
EXPIRY_MS = 3000   # around its expiry, either side may still have a key


class Difference:
    def __init__(self, database, key, mine, other):
        self.database, self.key, self.mine, self.other = database, key, mine, other

    def __str__(self):
        return (f"db {self.database} key {self.key[:60]!r}: primary {shorter(self.mine)} "
                f"replica {shorter(self.other)}")

    def expiring(self, now_ms):
        """Its end is now, on a side that still has it."""
        return any(state and 0 < state[2] < now_ms + EXPIRY_MS for state in (self.mine, self.other))

    def silent(self):
        """What commands change that raise no event: groups of streams, caches of HyperLogLogs."""
        kinds = {state[0] for state in (self.mine, self.other) if state}
        return kinds == {b"stream"} or self.key.startswith(b"p:")

    def idle_consumers(self):
        """Only consumers that XREADGROUP made and that read nothing: the replication stream has none of them."""
        return bool(self.mine and self.other and self.mine[0] == b"stream"
                    and without_idle(self.mine) == without_idle(self.other))


def lasting_fields(server, database, key, timed, until_ms):
    """What a reader sees of a hash, but for fields that are over, or soon will be: either side may have those."""
    with server.client(database) as client:
        fields = client.hgetall(key)
        ends = client.execute_command("HPEXPIRETIME", key, "FIELDS", len(fields), *fields) if timed and fields else []
        over = {field for field, end in zip(fields, ends) if 0 <= end < until_ms}
        return {field: value for field, value in fields.items() if field not in over}, sorted(
            (field, end) for field, end in zip(fields, ends) if field not in over)


def same_fields(primary, replica, one, now_ms):
    """The digest of a hash has fields that are over, until the server removes them. Of the last one goes the hash."""
    there = [state for state in (one.mine, one.other) if state]
    if {(state[0], state[2]) for state in there} != {(b"hash", there[0][2])}:
        return False
    timed = has_field_ttl(primary) and has_field_ttl(replica)
    mine, other = (lasting_fields(server, one.database, one.key, timed, now_ms + EXPIRY_MS)
                   for server in (primary, replica))
    return mine == other


def without_cache(value):
    """A HyperLogLog without the count that PFCOUNT keeps in it: bytes 8 to 15."""
    return value[:8] + value[16:] if value and value.startswith(b"HYLL") else value


def same_but_cache(primary, replica, one):
    """PFCOUNT of a client of a replica changes what the key caches. That is in no stream: native replicas lack it."""
    if not one.mine or not one.other or one.mine[0] != b"string" or one.mine[2] != one.other[2]:
        return False
    with primary.client(one.database) as here, replica.client(one.database) as there:
        return without_cache(here.get(one.key)) == without_cache(there.get(one.key))


def without_idle(state):
    kind, digest_value, expires, (*fields, groups) = state
    return (kind, digest_value, expires, fields,
            [(*of_group, [(name, pending) for name, pending in consumers if pending])
             for *of_group, consumers in groups])


def shorter(state):
    return "has none" if state is None else repr(state)[:160]


def all_differences(primary, replica):
    left, right = full_state(primary), full_state(replica)
    for database in sorted(set(left) | set(right)):
        mine, other = left.get(database, {}), right.get(database, {})
        for key in sorted(set(mine) | set(other)):
            if mine.get(key) != other.get(key):
                yield Difference(database, key, mine.get(key), other.get(key))


def keys_of(server):
    names = set()
    for database in databases_in_use(server):
        with server.client(database) as client:
            names.update((database, name) for name in scan_all(client))
    return names


def lacking(primary, replica):
    """How many keys of the replica the primary lacks, and how many the replica has."""
    here = keys_of(replica)
    return len(here - keys_of(primary)), len(here)


def same_version(primary, replica):
    return binary_version(primary.binary) == binary_version(replica.binary)


def found(primary, replica, plan, silent):
    """What differs at this moment. silent: commands without an event count as not yet arrived."""
    def counts(one):
        return not (one.expiring(now_ms) or silent and one.silent() or streamed and one.idle_consumers()
                    or streamed and was_replica and same_but_cache(primary, replica, one)
                    or same_fields(primary, replica, one, now_ms))
    streamed = plan.feed == "stream"
    was_replica = any(fault.kind == "primary-demoted-and-promoted" for fault in plan.faults)
    if same_version(primary, replica):
        for _ in range(TRIES):
            if digest(primary) == digest(replica):
                return []
            reap_expired(primary, replica)
            time.sleep(BETWEEN / 2)
        now_ms = time.time() * 1000
        return [one for one in all_differences(primary, replica) if counts(one)]
    texts = differences(primary, replica)
    if not texts:
        return []
    now_ms = time.time() * 1000
    named = [one for one in all_differences(primary, replica) if counts(one)]
    return [one for one in named if any(text.startswith(f"db {one.database} key {one.key[:60]!r}:")
                                        for text in texts)]


def explain(found_differences):
    return "\n".join([f"{len(found_differences)} keys differ"]
                     + [str(one) for one in found_differences[:SHOWN]])
