"""Faults of the machine: wall clocks that step, a full disk, no memory."""
import os
import resource

from . import LOOK, LOOKS, audited, hides_jumps, kind
from .replica import side_of
from ..field import NotInjected, PATIENCE, TICK

SHADOW_BYTES = 1 << 40 # of address space has only a process with a sanitizer
STEPS_S = (-86400, -3600, -5, 5, 3600)


def stepped(field, name, seconds, lasts):
    field.tell(f"the clock of {name} steps by {seconds} s")
    field.machines[name].step(seconds)
    yield lasts
    field.machines[name].step(0)


@kind(needs=("machines",))
def clock_of_the_proxy(field, fault, chance):
    yield from stepped(field, "proxy", chance.choice(STEPS_S), fault.lasts)


@kind(needs=("machines",))
def clock_of_the_agent(field, fault, chance):
    yield from stepped(field, side_of(field, chance).agent.name, chance.choice(STEPS_S), fault.lasts)


@kind(needs=("machines",))
def clock_of_the_primary(field, fault, chance):
    """Forward, its keys expire; the replica must lose the same ones."""
    field.mark_primary()
    yield from stepped(field, field.primary.name, chance.choice(STEPS_S), fault.lasts)
    field.mark_primary()


@kind(needs=("machines",), remedy="clock")
def clock_of_the_replica(field, fault, chance):
    """
    Forward, keys expire there that live on the primary. A jump is seen within a second, if it lasts so long
    and nobody hangs.
    """
    side = side_of(field, chance)
    seconds = chance.choice(STEPS_S)
    seen = seconds < 0 or audited(field.plan) > 0 and not hides_jumps(field.plan)
    field.blind(fault.lasts + LOOK + LOOKS if seen else 3600, side)
    field.mark_replica(side)
    yield from stepped(field, side.replica.name, seconds, fault.lasts)
    field.mark_replica(side)


def disk_full(field, server, lasts):
    """RDB and AOF cannot be written. With a save point the server refuses writes then."""
    yield from field.ask(server, "CONFIG", "SET", "save", "3600 1000000000")
    field.machines[server.name].fill_disk(True)
    yield from field.ask(server, "BGSAVE")
    yield lasts
    field.machines[server.name].fill_disk(False)
    yield from field.ask(server, "CONFIG", "SET", "save", "") # without one, it takes writes again


@kind(needs=("machines",))
def primary_disk_full(field, fault, chance):
    yield from disk_full(field, field.primary, fault.lasts)


@kind(needs=("machines",))
def replica_disk_full(field, fault, chance):
    yield from disk_full(field, side_of(field, chance).replica, fault.lasts)


def address_space(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as stream:
        return int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def answered(field, daemon):
    """Until it answers, or has ended."""
    for _ in range(int(PATIENCE / TICK)):
        if not daemon.alive or daemon.try_status():
            return
        yield TICK


@kind(dies=True)
def proxy_out_of_memory(field, fault, chance):
    """Its address space is bounded. It may end; then it is started again, as systemd would."""
    proxy = field.proxy
    yield from field.take(proxy)
    if not proxy.alive:
        raise NotInjected("another fault has ended it")
    if address_space(proxy) > SHADOW_BYTES:
        raise NotInjected("a sanitizer takes all addresses")
    field.may_be_dead.add(proxy)
    limit = address_space(proxy) + chance.choice((0, 1, 8)) * (1 << 20)
    resource.prlimit(proxy.pid, resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    for _ in range(int(fault.lasts / TICK)):
        if not proxy.alive:
            break
        yield TICK
    if proxy.alive:
        resource.prlimit(proxy.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        yield from answered(field, proxy) # it may be about to end
    if proxy.alive:
        field.may_be_dead.discard(proxy)
    else:
        field.tell(f"the proxy ended without memory, status {proxy.popen.returncode}")
        field.start_again(proxy)
    field.give(proxy)
