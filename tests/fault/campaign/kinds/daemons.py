"""Faults of proxy and agents: their processes, and what an operator does to them."""
import contextlib

from lib.rpc import Rpc, RpcError

from . import kind
from .primary import stopped
from .replica import side_of
from ..field import TICK, NotInjected

GONE_SECONDS = 10.0


def call(field, daemon, method, **params):
    """A method of the control socket, if the daemon can be reached."""
    for _ in range(100):
        if not field.held(daemon) and daemon.alive:
            try:
                with Rpc(daemon.control, timeout=2) as rpc:
                    return rpc.call(method, **params)
            except RpcError as error:
                raise NotInjected(f"{method}: {error}") from error
            except (OSError, ValueError):
                pass
        yield 2 * TICK
    raise NotInjected(f"{daemon.name} does not take {method}")


def kill_and_start(field, daemon, seconds):
    yield from field.take(daemon)
    field.may_be_dead.add(daemon)
    daemon.kill()
    yield seconds
    field.start_again(daemon)
    field.give(daemon)


def hears(daemon):
    """Until it has come so far that it knows SIGTERM."""
    for _ in range(int(GONE_SECONDS / TICK)):
        if daemon.try_status():
            return
        yield TICK


def end_and_start(field, daemon, seconds):
    """In good order, by SIGTERM: it must end well, whatever else goes on."""
    yield from field.take(daemon)
    yield from hears(daemon)
    field.may_be_dead.add(daemon)
    daemon.popen.terminate()
    for _ in range(int(GONE_SECONDS / TICK)):
        if not daemon.alive:
            break
        yield TICK
    if daemon.alive:
        field.complaints.append(f"{daemon.name}: SIGTERM did not end it within {GONE_SECONDS:.0f} s")
        daemon.kill()
    elif daemon.popen.returncode != 0:
        field.complaints.append(f"{daemon.name}: SIGTERM ended in status {daemon.popen.returncode}")
    yield seconds
    field.start_again(daemon)
    field.give(daemon)


@kind()
def proxy_kill(field, fault, chance):
    yield from kill_and_start(field, field.proxy, chance.choice((0, fault.lasts)))


@kind()
def proxy_restart(field, fault, chance):
    yield from end_and_start(field, field.proxy, chance.choice((0, fault.lasts)))


@kind()
def proxy_stop(field, fault, chance):
    yield from stopped(field, field.proxy, fault.lasts)


@kind()
def agent_kill(field, fault, chance):
    yield from kill_and_start(field, side_of(field, chance).agent, chance.choice((0, fault.lasts)))


@kind()
def agent_restart(field, fault, chance):
    yield from end_and_start(field, side_of(field, chance).agent, chance.choice((0, fault.lasts)))


@kind()
def agent_stop(field, fault, chance):
    yield from stopped(field, side_of(field, chance).agent, fault.lasts)


@kind()
def everything_killed(field, fault, chance):
    """Proxy and agents at once."""
    daemons = [field.proxy, *(side.agent for side in field.sides)]
    for daemon in daemons:
        yield from field.take(daemon)
        field.may_be_dead.add(daemon)
        daemon.kill()
    yield fault.lasts / 2
    for daemon in daemons:
        field.start_again(daemon)
        field.give(daemon)


@kind(modes=("commands",))
def agent_twice(field, fault, chance):
    """A second instance of an agent is started while the first one runs, by mistake."""
    side = side_of(field, chance)
    if side.second:
        raise NotInjected("there is a second instance already")
    yield from field.take(side.agent)
    side.second = field.bed.agent(field.proxy, side.replica, name=side.agent.name + "-again",
                                  via="shm", start=False, **field.plan.agent)
    for key in ("redis.username", "redis.password_file"):
        if key in side.agent.settings:
            side.second.settings[key] = side.agent.settings[key]
    side.second.start(wait=False)
    field.give(side.agent)
    yield fault.lasts
    field.may_be_dead.add(side.second)
    if chance.random() < 0.5:
        side.second.kill()
    else:
        yield from hears(side.second)
        side.second.popen.terminate()
        while side.second.alive:
            yield TICK
    side.second = None


@kind()
def agent_pause(field, fault, chance):
    agent = side_of(field, chance).agent
    yield from call(field, agent, "pause")
    yield fault.lasts
    for _ in range(20): # one that was started again meanwhile is not paused any more
        with contextlib.suppress(NotInjected):
            yield from call(field, agent, "resume")
            return
    raise NotInjected(f"{agent.name} cannot be resumed")


@kind()
def agent_resync(field, fault, chance):
    for _ in range(chance.randint(1, 2)):
        yield from call(field, side_of(field, chance).agent, "resync")
        yield fault.lasts / 2


@kind()
def agent_retarget(field, fault, chance):
    """It follows the same table by the other carrier for a while."""
    agent = side_of(field, chance).agent
    other = "tcp" if field.proxy.listen["shm"] == agent.settings["proxy"] else "shm"
    yield from call(field, agent, "retarget", proxy=field.proxy.listen[other])
    yield fault.lasts
    yield from call(field, agent, "retarget", proxy=agent.settings["proxy"])


@kind(needs=("sibling",))
def agent_changes_proxies(field, fault, chance):
    """It follows another proxy of the same primary for a while: the same data, another table."""
    agent = side_of(field, chance).agent
    yield from call(field, agent, "retarget", proxy=field.sibling.listen["shm"])
    yield fault.lasts
    yield from call(field, agent, "retarget", proxy=agent.settings["proxy"])


def is_warm(daemon):
    """Until it is; its data are its own primary's then."""
    for _ in range(int(GONE_SECONDS / TICK)):
        if (daemon.try_status() or {}).get("state") == "warm":
            return
        yield TICK
    raise NotInjected(f"{daemon.name} does not become warm")


@kind(needs=("foreign",))
def agent_misdirected(field, fault, chance):
    """
    By mistake it is told to follow the proxy of another primary, for a while. A server that holds data
    of the right one must keep them; an empty one could be claimed, so the server is left alone.
    """
    side = side_of(field, chance)
    yield from field.take(side.replica)
    yield from is_warm(side.agent)
    yield from call(field, side.agent, "retarget", proxy=field.foreign.listen["shm"])
    yield fault.lasts
    for _ in range(20): # one that was started again meanwhile follows its own proxy
        with contextlib.suppress(NotInjected):
            yield from call(field, side.agent, "retarget", proxy=side.agent.settings["proxy"])
            break
    field.give(side.replica)


@kind()
def agent_disconnected(field, fault, chance):
    for entry in (yield from call(field, field.proxy, "agents.list")):
        with contextlib.suppress(NotInjected):
            yield from call(field, field.proxy, "agents.disconnect", id=entry["id"])


@kind()
def proxy_reconcile(field, fault, chance):
    for _ in range(chance.randint(1, 2)):
        yield from call(field, field.proxy, "reconcile")
        yield fault.lasts / 2


@kind()
def proxy_slowed(field, fault, chance):
    """Fetching is limited for a while, by a live change."""
    yield from call(field, field.proxy, "config.set", path="source.keys_per_second",
                    value=chance.choice((200, 1000)))
    yield fault.lasts
    yield from call(field, field.proxy, "config.set", path="source.keys_per_second", value=0)
