"""Faults of the network: the links between servers and daemons, through the forwarder."""
from . import kind
from .replica import side_of


def changed(field, name, mode, seconds, ms=0):
    field.links.change(name, mode, ms)
    yield seconds
    field.links.heal(name)


def replica_link(field, chance):
    return f"replica{field.sides.index(side_of(field, chance))}"


def table_link(field):
    return [name for name in field.links.names if name.startswith("table")][0]


@kind(needs=("link primary",))
def primary_link_cut(field, fault, chance):
    yield from changed(field, "primary", "cut", chance.choice((0, fault.lasts)))


@kind(needs=("link primary",))
def primary_link_black_hole(field, fault, chance):
    yield from changed(field, "primary", "hole", fault.lasts)


@kind(needs=("link primary",))
def primary_link_slow(field, fault, chance):
    yield from changed(field, "primary", "delay", fault.lasts, chance.choice((5, 50, 300)))


@kind(needs=("link replica",))
def replica_link_cut(field, fault, chance):
    yield from changed(field, replica_link(field, chance), "cut", chance.choice((0, fault.lasts)))


@kind(needs=("link replica",))
def replica_link_black_hole(field, fault, chance):
    yield from changed(field, replica_link(field, chance), "hole", fault.lasts)


@kind(needs=("link replica",))
def replica_link_slow(field, fault, chance):
    yield from changed(field, replica_link(field, chance), "delay", fault.lasts,
                       chance.choice((5, 50, 300)))


@kind(needs=("link table", "tcp"))
def table_link_cut(field, fault, chance):
    yield from changed(field, table_link(field), "cut", chance.choice((0, fault.lasts)))


@kind(needs=("link table", "tcp"))
def table_link_black_hole(field, fault, chance):
    yield from changed(field, table_link(field), "hole", fault.lasts)


@kind(needs=("link table", "tcp"))
def table_link_slow(field, fault, chance):
    yield from changed(field, table_link(field), "delay", fault.lasts, chance.choice((5, 50, 300)))
