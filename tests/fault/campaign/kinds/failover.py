"""Faults of roles: another server becomes the primary, or the primary follows another for a while."""
from . import LOOKS, kind
from ..field import NotInjected


def follow(field, server, other):
    yield from field.ask(server, "REPLICAOF", "127.0.0.1", other.config["port"])


def promote(field, server):
    yield from field.ask(server, "REPLICAOF", "NO", "ONE")


def identity_window(field):
    """A full resync raises no event; role and history are seen at the next look."""
    field.blind(2 * field.plan.proxy["source.watch_interval_ms"] / 1000 + LOOKS)


@kind(needs=("standby",), holds=True)
def primary_demoted_and_promoted(field, fault, chance):
    """It becomes a replica of its standby, gets its data, and is promoted again."""
    old, other = field.primary, field.standby
    yield from field.take(other)
    identity_window(field)
    field.mark_primary()
    yield from promote(field, other)
    yield from follow(field, old, other)
    yield fault.lasts
    identity_window(field)
    yield from promote(field, old)
    yield from follow(field, other, old)
    field.mark_primary()
    identity_window(field)
    field.give(other)


def fail_over(field, fault, turn):
    """The standby is promoted, and clients go there. The old primary follows it."""
    old, new = field.primary, field.standby
    if field.held(old) or field.held(new):
        raise NotInjected("another fault holds the servers")
    yield from field.take(new)
    field.mark_primary()
    identity_window(field)
    yield from promote(field, new)
    field.front.turn(new)
    field.primary, field.standby = new, old
    yield from field.ask(old, "REPLICAOF", "127.0.0.1", new.config["port"])
    turn()
    yield from field.ask(old, "CLIENT", "KILL", "TYPE", "normal")
    yield from field.ask(old, "CLIENT", "KILL", "TYPE", "pubsub")
    field.mark_primary()
    identity_window(field)
    field.give(new)
    yield fault.lasts


@kind(needs=("standby",), holds=True)
def failover_by_address(field, fault, chance):
    """The address leads to the new primary from now on; the proxy knows nothing."""
    yield from fail_over(field, fault, lambda: None)


@kind(needs=("standby",), holds=True)
def failover_by_configuration(field, fault, chance):
    """The proxy is restarted with the new primary's address."""
    def turn():
        field.proxy.settings["redis.address"] = "unix://" + field.primary.socket
        field.may_be_dead.add(field.proxy)
        field.proxy.kill()
        field.start_again(field.proxy)
    yield from field.take(field.proxy)
    try:
        yield from fail_over(field, fault, turn)
    finally:
        field.give(field.proxy)
