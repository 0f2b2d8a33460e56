"""Faults of the local server: its process, its data, other clients, its limits."""
from . import LOOK, LOOKS, hides_evictions, hides_writes, kind
from .primary import (busied, cut_clients, killed, names_of, restart, slept, stopped)
from ..field import TICK
from ..load import DATABASES

GONE_SECONDS = 5.0
WRITABLE = ("commands", "hybrid")


def side_of(field, chance):
    return chance.choice(field.sides)


def gone(daemon):
    """Asked to end in good order, and given some time for it."""
    daemon.popen.terminate()
    for _ in range(int(GONE_SECONDS / TICK)):
        if not daemon.alive:
            return
        yield TICK


def marker(field, side):
    return lambda: field.mark_replica(side)


@kind(deletes=True)
def replica_kill_saved(field, fault, chance):
    side = side_of(field, chance)
    yield from killed(field, side.replica, chance, marker(field, side), 0)


@kind(deletes=True)
def replica_kill_older(field, fault, chance):
    side = side_of(field, chance)
    yield from killed(field, side.replica, chance, marker(field, side), fault.lasts)


@kind(deletes=True)
def replica_replaced_by_empty(field, fault, chance):
    side = side_of(field, chance)
    yield from killed(field, side.replica, chance, marker(field, side), None, keep_data=False)


@kind(deletes=True)
def replica_and_agent_killed(field, fault, chance):
    """Nobody watches while the server comes back with older data."""
    side = side_of(field, chance)
    yield from field.take(side.agent)
    yield from field.take(side.replica)
    yield from field.ask(side.replica, "SAVE")
    yield fault.lasts / 2
    field.may_be_dead.add(side.agent)
    side.agent.kill()
    yield from restart(field, side.replica, 0.1, marker(field, side))
    field.start_again(side.agent)
    field.give(side.replica)
    field.give(side.agent)


@kind()
def replica_stop(field, fault, chance):
    yield from stopped(field, side_of(field, chance).replica, fault.lasts)


@kind()
def replica_sleep(field, fault, chance):
    yield from slept(field, side_of(field, chance).replica, fault.lasts)


@kind()
def replica_busy(field, fault, chance):
    yield from busied(field, side_of(field, chance).replica, min(fault.lasts, 0.8))


@kind()
def replica_reload(field, fault, chance):
    side = side_of(field, chance)
    yield from field.take(side.replica)
    yield from field.ask(side.replica, "DEBUG", "RELOAD")
    field.give(side.replica)


@kind()
def replica_resetstat(field, fault, chance):
    for _ in range(chance.randint(1, 3)):
        yield from field.ask(side_of(field, chance).replica, "CONFIG", "RESETSTAT")
        yield fault.lasts / 3


@kind(modes=WRITABLE, deletes=True)
def replica_flushed(field, fault, chance):
    """limits.md: the agent finds a flush within a second while it runs. No restart hides it before."""
    side = side_of(field, chance)
    yield from field.take(side.replica)
    field.blind(LOOK + LOOKS, side)
    words = chance.choice((("FLUSHALL",), ("FLUSHDB",), ("FLUSHALL", "ASYNC")))
    field.mark_replica(side)
    yield from field.ask(side.replica, *words, db=chance.choice(DATABASES))
    field.mark_replica(side)
    field.blind(LOOK + LOOKS, side)


def foreign_writes(field, side, chance, count):
    """Commands of another client that change the replica's data."""
    for number in range(count):
        words = chance.choice((("SET", f"s:{chance.randrange(60)}", "by another client"),
                               ("DEL", f"fill:{chance.randrange(2000)}"),
                               ("SET", f"foreign:{number}", 1),
                               ("PEXPIRE", f"z:{chance.randrange(60)}", 100)))
        # Found within a second, unless a restart or RESETSTAT clears the counts that tell.
        field.blind(3600 if hides_writes(field.plan) else LOOK + LOOKS, side)
        field.mark_replica(side)
        yield from field.ask(side.replica, *words, db=chance.choice(DATABASES))
        field.mark_replica(side)
        yield 0


@kind(modes=WRITABLE, deletes=True, remedy="written")
def replica_written(field, fault, chance):
    """Other clients write to the replica. The agent finds that, and undoes it."""
    side = side_of(field, chance)
    for _ in range(4):
        yield from foreign_writes(field, side, chance, chance.randint(1, 5))
        yield fault.lasts / 4
    yield from foreign_writes(field, side, chance, 1)


@kind(modes=WRITABLE, deletes=True, remedy="written")
def replica_written_without_agent(field, fault, chance):
    """The agent ends, other clients write, and it starts again: it must not go on as if nothing was."""
    side = side_of(field, chance)
    yield from field.take(side.agent)
    field.may_be_dead.add(side.agent)
    if chance.random() < 0.5:
        yield from gone(side.agent)
    side.agent.kill()
    yield from foreign_writes(field, side, chance, chance.randint(1, 10))
    yield fault.lasts / 2
    field.start_again(side.agent)
    field.give(side.agent)


@kind()
def replica_out_of_memory(field, fault, chance):
    """It refuses writes: nothing may be missing after that."""
    side = side_of(field, chance)
    memory = yield from field.ask(side.replica, "INFO", "memory")
    yield from field.ask(side.replica, "CONFIG", "SET", "maxmemory", memory["used_memory"] + 4096)
    yield fault.lasts
    yield from field.ask(side.replica, "CONFIG", "SET", "maxmemory", 0)


@kind(modes=WRITABLE, deletes=True, remedy="evicted")
def replica_evicts(field, fault, chance):
    """limits.md: the agent notices within a second, unless no agent runs when RESETSTAT clears the count."""
    side = side_of(field, chance)
    field.blind(3600 if hides_evictions(field.plan) else LOOK + LOOKS, side)
    memory = yield from field.ask(side.replica, "INFO", "memory")
    field.mark_replica(side)
    yield from field.ask(side.replica, "CONFIG", "SET", "maxmemory-policy",
                         chance.choice(("allkeys-random", "allkeys-lru", "volatile-random")))
    field.blind(fault.lasts + LOOK + LOOKS, side)
    yield from field.ask(side.replica, "CONFIG", "SET", "maxmemory", int(memory["used_memory"] * 0.95))
    yield fault.lasts
    yield from field.ask(side.replica, "CONFIG", "SET", "maxmemory", 0)
    yield from field.ask(side.replica, "CONFIG", "SET", "maxmemory-policy", "noeviction")
    field.mark_replica(side)
    field.blind(LOOK + LOOKS, side)


@kind()
def agent_connections_killed(field, fault, chance):
    side = side_of(field, chance)
    for one in (yield from names_of(field, side.replica, "keywake")):
        yield from cut_clients(field, side.replica, "ID", one)


@kind(modes=("replica",))
def replica_link_killed(field, fault, chance):
    side = side_of(field, chance)
    for _ in range(chance.randint(1, 3)):
        yield from cut_clients(field, side.replica, "TYPE", "master")
        yield fault.lasts / 3


@kind(modes=("replica",), remedy="resync")
def replica_promoted(field, fault, chance):
    """A person promotes it. The agent leaves it alone from then on, until resync."""
    side = side_of(field, chance)
    yield from field.ask(side.replica, "REPLICAOF", "NO", "ONE")
    yield fault.lasts


@kind(needs=("users",))
def replica_permissions(field, fault, chance):
    side = side_of(field, chance)
    taken = chance.choice(("-restore", "-unlink", "-info", "-function", "-@all", "off"))
    yield from field.ask(side.replica, "ACL", "SETUSER", "keywake", taken)
    if chance.random() < 0.5:
        yield from cut_clients(field, side.replica, "USER", "keywake")
    yield fault.lasts
    yield from field.ask(side.replica, "ACL", "SETUSER", "keywake", "on", "+@all", "~*", "&*")
