"""Faults of the primary: its process, its data, its notifications, its limits."""
import contextlib
import os
import shutil
import signal
import socket
import time

import redis

from lib.process import SLOW

from . import SILENT_SECONDS, kind
from ..field import PATIENCE, TICK, NotInjected
from ..load import DATABASES

LOOPS = 30_000_000 # of a script in a second, more or less
WARM_SECONDS = 6.0 # for the replicas to have what the primary then loses
HELD_SECONDS = 4.0 # for a brake to hold after the data are gone
BURST = 5000 # keys whose events overrun an output buffer


def forget_data(server):
    """Its RDB and AOF are gone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(server.directory, "dump.rdb"))
    shutil.rmtree(os.path.join(server.directory, "appendonlydir"), ignore_errors=True)


def send_only(server, *words):
    """A command whose answer is not waited for; the connection, to be closed later."""
    end = socket.socket(socket.AF_UNIX)
    end.settimeout(5)
    end.connect(server.socket)
    parts = [str(word).encode() for word in words]
    end.sendall(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part)
                                                   for part in parts))
    return end


def restart(field, server, down, mark, keep_data=True):
    """Killed, and started again. The caller holds the server."""
    mark()
    field.may_be_dead.add(server)
    server.kill()
    yield down
    if not keep_data:
        forget_data(server)
    field.start_again(server)
    yield from field.up(server)
    mark()


def killed(field, server, chance, mark, saved_before, keep_data=True):
    """saved_before: seconds between its last RDB and its death; None: it saves nothing."""
    yield from field.take(server)
    if saved_before is not None:
        yield from field.ask(server, "SAVE")
        yield saved_before
    yield from restart(field, server, chance.uniform(0, 0.4), mark, keep_data)
    field.give(server)


def stopped(field, process, seconds):
    yield from field.take(process)
    process.signal(signal.SIGSTOP)
    yield seconds
    process.signal(signal.SIGCONT)
    field.give(process)


def slept(field, server, seconds):
    """DEBUG SLEEP: the server is alive and answers nobody."""
    yield from field.take(server)
    with contextlib.closing(send_only(server, "DEBUG", "SLEEP", f"{seconds:.2f}")):
        yield seconds
        yield from field.up(server)
    field.give(server)


def busied(field, server, seconds, script=""):
    """A script that answers BUSY to the others for a while."""
    yield from field.take(server)
    yield from field.ask(server, "CONFIG", "SET", "busy-reply-threshold", 50)
    # TIME stands still within a script of newer servers, so it counts.
    text = f"for i = 1, {int(seconds * LOOPS)} do local square = i * i end {script}"
    with contextlib.closing(send_only(server, "EVAL", text, 0)):
        yield seconds
        yield from field.up(server)
    field.give(server)


def cut_clients(field, server, *filters):
    """CLIENT KILL. ask() gets its answer although SKIPME is the default: only others are killed."""
    yield from field.ask(server, "CLIENT", "KILL", *filters)


def names_of(field, server, prefix):
    listed = yield from field.ask(server, "CLIENT", "LIST")
    entries = [dict(word.split("=", 1) for word in line.split() if "=" in word)
               for line in listed.decode("utf-8", "replace").splitlines()]
    return [entry["id"] for entry in entries if entry.get("name", "").startswith(prefix)]


@kind(holds=True)
def primary_kill_saved(field, fault, chance):
    yield from killed(field, field.primary, chance, field.mark_primary, 0)


@kind(holds=True)
def primary_kill_older(field, fault, chance):
    yield from killed(field, field.primary, chance, field.mark_primary, fault.lasts)


def all_warm(field, seconds=WARM_SECONDS):
    """Until the replicas have what the primary has, or for so long."""
    for _ in range(int(seconds / TICK)):
        for side in field.sides:
            if not side.was_warm and not field.held(side.agent):
                side.was_warm = (side.agent.try_status() or {}).get("state") == "warm"
        if all(side.was_warm for side in field.sides):
            return
        yield TICK


def said_held(field, daemon, who):
    """Until its brake holds: a round in which it does not has not tried it."""
    for _ in range(int(HELD_SECONDS / TICK)):
        if not field.held(daemon) and (daemon.try_status() or {}).get("state") == "held":
            field.count(f"held_by_{who}")
            return
        yield TICK


def lost_data(field, server, with_proxy):
    """Killed, and started without data; the proxy that knew of them, too. The caller holds both."""
    field.count_fill()
    field.mark_primary()
    if with_proxy:
        field.may_be_dead.add(field.proxy)
        field.proxy.kill()
    yield from restart(field, server, 0.1, field.mark_primary, keep_data=False)
    if with_proxy:
        field.start_again(field.proxy)


@kind(holds=True, brake=True)
def primary_kill_empty(field, fault, chance):
    """Mostly when the replicas have its data: the brake must keep them."""
    yield from all_warm(field, chance.choice((0, WARM_SECONDS, WARM_SECONDS)))
    yield from field.take(field.primary)
    yield from lost_data(field, field.primary, with_proxy=False)
    field.give(field.primary)
    yield from said_held(field, field.proxy, "proxy")


@kind(holds=True, brake=True)
def primary_and_proxy_killed_empty(field, fault, chance):
    """Only the agents know then what there was: their brake must keep it."""
    yield from all_warm(field)
    yield from field.take(field.proxy)
    yield from field.take(field.primary)
    yield from lost_data(field, field.primary, with_proxy=True)
    field.give(field.proxy)
    field.give(field.primary)
    for side in field.sides:
        yield from said_held(field, side.agent, "agent")


def empty_for_a_while(field, with_proxy, daemons):
    """It comes back empty, and later with the data that it saved: the brakes let go by themselves."""
    server = field.primary
    rdb, aside = (os.path.join(server.directory, name) for name in ("dump.rdb", "aside.rdb"))
    yield from all_warm(field)
    if with_proxy:
        yield from field.take(field.proxy)
    yield from field.take(server)
    yield from field.ask(server, "SAVE")
    if server.config["appendonly"] == "yes": # which would count for more than an RDB file
        yield from field.ask(server, "CONFIG", "SET", "appendonly", "no")
        server.config["appendonly"] = "no"
    os.replace(rdb, aside)
    yield from lost_data(field, server, with_proxy)
    if with_proxy:
        field.give(field.proxy)
    for daemon, who in daemons:
        yield from said_held(field, daemon, who)
    for side in field.sides:
        if not field.held(side.replica):
            with contextlib.suppress(redis.exceptions.RedisError):
                field.check_fill(side)
    field.mark_primary()
    field.may_be_dead.add(server)
    server.kill()
    os.replace(aside, rdb)
    field.start_again(server)
    yield from field.up(server)
    field.mark_primary()
    field.give(server)
    field.count("came_back")


@kind(brake=True)
def primary_empty_for_a_while(field, fault, chance):
    """The proxy's brake must let go when the keys come back. Nobody approves."""
    yield from empty_for_a_while(field, False, [(field.proxy, "proxy")])


@kind(brake=True)
def primary_and_proxy_empty_for_a_while(field, fault, chance):
    """The agents' brakes must let go when the keys come back. Nobody approves."""
    yield from empty_for_a_while(field, True, [(side.agent, "agent") for side in field.sides])


@kind(holds=True)
def primary_shutdown(field, fault, chance):
    """In good order, with its data."""
    server = field.primary
    yield from field.take(server)
    field.mark_primary()
    field.may_be_dead.add(server)
    deadline = time.monotonic() + PATIENCE * SLOW
    while server.alive and time.monotonic() < deadline: # with a full disk it stays
        with contextlib.suppress(OSError), contextlib.closing(send_only(server, "SHUTDOWN", "SAVE")):
            yield 0.2
        yield TICK
    if server.alive:
        field.may_be_dead.discard(server)
        raise NotInjected("it does not end")
    yield chance.uniform(0, 0.3)
    field.start_again(server)
    yield from field.up(server)
    field.mark_primary()
    field.give(server)


@kind()
def primary_stop(field, fault, chance):
    yield from stopped(field, field.primary, fault.lasts)


@kind()
def primary_sleep(field, fault, chance):
    yield from slept(field, field.primary, fault.lasts)


@kind()
def primary_busy(field, fault, chance):
    field.mark_primary()
    yield from busied(field, field.primary, min(fault.lasts, 0.8),
                      "return redis.call('SET', 's:1', 'by a long script')")
    field.mark_primary()


@kind(holds=True, deletes=True)
def primary_flushdb(field, fault, chance):
    how = chance.choice(((), ("ASYNC",), ("SYNC",)))
    field.mark_primary()
    yield from field.ask(field.primary, "FLUSHDB", *how, db=chance.choice(DATABASES))
    field.mark_primary()


@kind(holds=True, deletes=True)
def primary_flushall(field, fault, chance):
    field.mark_primary()
    yield from field.ask(field.primary, "FLUSHALL", *chance.choice(((), ("ASYNC",))))
    field.mark_primary()


@kind(holds=True, deletes=True)
def primary_swapdb(field, fault, chance):
    """Keys move. If the proxy is away meanwhile, only their absence tells that they left their places."""
    field.blind(SILENT_SECONDS, state_only=True)
    for _ in range(chance.choice((1, 1, 2))):
        yield from field.ask(field.primary, "SWAPDB", *chance.sample(DATABASES, 2))
        field.blind(SILENT_SECONDS, state_only=True)
        yield fault.lasts / 4


@kind()
def primary_reload(field, fault, chance):
    yield from field.take(field.primary)
    yield from field.ask(field.primary, "DEBUG", "RELOAD")
    field.give(field.primary)


@kind()
def primary_resetstat(field, fault, chance):
    for _ in range(chance.randint(1, 3)):
        yield from field.ask(field.primary, "CONFIG", "RESETSTAT")
        yield fault.lasts / 3


def flags_window(field):
    """limits.md: found at the latest two looks later; until then an agent may say warm."""
    field.blind(2 * field.plan.proxy["source.watch_interval_ms"] / 1000 + 2)


@kind(feeds=("notifications",))
def flags_away(field, fault, chance):
    """The proxy gives them back itself."""
    flags_window(field)
    yield from field.ask(field.primary, "CONFIG", "SET", "notify-keyspace-events",
                         chance.choice(("", "Kx", "E$", "Ex")))
    flags_window(field)


@kind(feeds=("notifications",))
def flags_away_and_back(field, fault, chance):
    flags_window(field)
    yield from field.ask(field.primary, "CONFIG", "SET", "notify-keyspace-events",
                         chance.choice(("", "Kx", "E$")))
    yield chance.choice((0, 0.01, 0.05))
    yield from field.ask(field.primary, "CONFIG", "SET", "notify-keyspace-events", "AE")
    flags_window(field)


@kind(feeds=("notifications",))
def flags_more(field, fault, chance):
    """Another client wants more events, also those that change nothing."""
    flags_window(field)
    yield from field.ask(field.primary, "CONFIG", "SET", "notify-keyspace-events",
                         chance.choice(("AKE", "AEm", "AKEmn")))
    flags_window(field)


@kind()
def events_connection_killed(field, fault, chance):
    for one in (yield from names_of(field, field.primary, "keywake-proxy-events")):
        yield from cut_clients(field, field.primary, "ID", one)


@kind()
def data_connection_killed(field, fault, chance):
    for one in (yield from names_of(field, field.primary, "keywake-proxy-data")):
        yield from cut_clients(field, field.primary, "ID", one)


@kind()
def primary_clients_killed(field, fault, chance):
    yield from cut_clients(field, field.primary, "TYPE", chance.choice(("normal", "pubsub")))


@kind(feeds=("notifications",))
def events_overrun(field, fault, chance):
    """The output buffer of the events overflows while the proxy stands still."""
    yield from field.ask(field.primary, "CONFIG", "SET", "client-output-buffer-limit",
                         "pubsub 32768 0 0")
    yield from field.take(field.proxy)
    field.proxy.signal(signal.SIGSTOP)
    field.mark_primary()
    with contextlib.suppress(Exception), field.front.client(3, timeout=5) as client, \
            client.pipeline(transaction=False) as pipe:
        for number in range(BURST):
            pipe.set(f"burst:{number}", number)
        for number in range(0, BURST, 2):
            pipe.delete(f"burst:{number}")
        pipe.execute()
    field.mark_primary()
    yield fault.lasts / 4
    field.proxy.signal(signal.SIGCONT)
    field.give(field.proxy)
    yield from field.ask(field.primary, "CONFIG", "SET", "client-output-buffer-limit",
                         "pubsub 33554432 8388608 60")


@kind(holds=True, deletes=True)
def primary_maxmemory(field, fault, chance):
    """It evicts, or refuses writes."""
    memory = yield from field.ask(field.primary, "INFO", "memory")
    policy = chance.choice(("noeviction", "allkeys-random", "allkeys-lru", "volatile-ttl"))
    field.mark_primary()
    yield from field.ask(field.primary, "CONFIG", "SET", "maxmemory-policy", policy)
    yield from field.ask(field.primary, "CONFIG", "SET", "maxmemory", int(memory["used_memory"] * 0.95))
    yield fault.lasts
    yield from field.ask(field.primary, "CONFIG", "SET", "maxmemory", 0)
    field.mark_primary()


@kind(needs=("users",))
def primary_permissions(field, fault, chance):
    feeds = {"notifications": ("-psubscribe", "-config|get"), "stream": ("-psync", "-role")}
    taken = chance.choice(("-dump", "-scan", "-info", "-@all", "off", *feeds[field.plan.feed]))
    yield from field.ask(field.primary, "ACL", "SETUSER", "keywake", taken)
    if chance.random() < 0.5:
        yield from cut_clients(field, field.primary, "USER", "keywake")
    yield fault.lasts
    yield from field.ask(field.primary, "ACL", "SETUSER", "keywake", "on", "+@all", "~*", "&*")
