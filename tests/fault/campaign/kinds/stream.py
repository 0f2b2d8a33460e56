"""Faults of the replication stream, for proxies with source.feed=stream."""
import contextlib
import signal

from . import kind
from .failover import identity_window
from .primary import BURST, cut_clients

SMALL = 16384    # bytes of a backlog, the least that servers have
DEFAULT = 1 << 20
CUTS = 5


def burst(field, fill):
    """More of the stream than a small backlog has. Every second key is gone again."""
    field.mark_primary()
    with contextlib.suppress(Exception), field.front.client(3, timeout=5) as client, \
            client.pipeline(transaction=False) as pipe:
        for number in range(BURST):
            pipe.set(f"burst:{number}", fill)
        for number in range(0, BURST, 2):
            pipe.delete(f"burst:{number}")
        pipe.execute()
    field.mark_primary()


@kind(feeds=("stream",))
def stream_cut(field, fault, chance):
    """It goes on where it ended, without a scan."""
    for _ in range(chance.randint(1, CUTS)):
        yield from cut_clients(field, field.primary, "TYPE", "replica")
        yield fault.lasts / CUTS


@kind(feeds=("stream",))
def stream_stalled(field, fault, chance):
    """The proxy stands still, and the backlog has all that it did not read."""
    yield from field.take(field.proxy)
    field.proxy.signal(signal.SIGSTOP)
    yield from cut_clients(field, field.primary, "TYPE", "replica")
    burst(field, "x")
    yield fault.lasts / 4
    field.proxy.signal(signal.SIGCONT)
    field.give(field.proxy)


@kind(feeds=("stream",))
def stream_beyond_the_backlog(field, fault, chance):
    """It is cut, and what it missed is nowhere any more."""
    yield from field.ask(field.primary, "CONFIG", "SET", "repl-backlog-size", SMALL)
    yield from field.take(field.proxy)
    field.proxy.signal(signal.SIGSTOP)
    yield from cut_clients(field, field.primary, "TYPE", "replica")
    burst(field, "y" * chance.choice((1, 100)))
    yield fault.lasts / 4
    field.proxy.signal(signal.SIGCONT)
    field.give(field.proxy)
    yield from field.ask(field.primary, "CONFIG", "SET", "repl-backlog-size", DEFAULT)


@kind(feeds=("stream",))
def stream_overrun(field, fault, chance):
    """The output buffer of the stream overflows while the proxy stands still: the server cuts it."""
    yield from field.ask(field.primary, "CONFIG", "SET", "repl-backlog-size", SMALL)
    yield from field.ask(field.primary, "CONFIG", "SET", "client-output-buffer-limit", "replica 32768 0 0")
    yield from field.take(field.proxy)
    field.proxy.signal(signal.SIGSTOP)
    burst(field, "z" * 100)
    yield fault.lasts / 4
    field.proxy.signal(signal.SIGCONT)
    field.give(field.proxy)
    yield from field.ask(field.primary, "CONFIG", "SET", "client-output-buffer-limit",
                         "replica 268435456 67108864 60")
    yield from field.ask(field.primary, "CONFIG", "SET", "repl-backlog-size", DEFAULT)


@kind(feeds=("stream",))
def stream_of_another_id(field, fault, chance):
    """The server takes another replication id, and goes on with its data and with its replicas."""
    identity_window(field)
    yield from field.ask(field.primary, "DEBUG", "CHANGE-REPL-ID")
    identity_window(field)
    if chance.random() < 0.5:
        yield from cut_clients(field, field.primary, "TYPE", "replica")
