"""A million keys, and what one more agent costs the primary."""
import time

import pytest

from lib import compare

pytestmark = pytest.mark.scale

KEYS = 1_000_000
# What the proxy asks of the primary all the time, agents or not.
PERIODIC = {"ping", "info", "config|get", "time", "client|setname", "client|id"}


def calls(server):
    with server.client() as client:
        return {name[8:]: fields["calls"] for name, fields in client.info("commandstats").items()}


def spent(before, after):
    """Commands called in between, less the INFO that asked."""
    found = {name: after[name] - before.get(name, 0) for name in after}
    found["info"] = found.get("info", 0) - 1
    return {name: count for name, count in found.items() if count > 0}


def test_one_more_agent_costs_the_primary_nothing(bed):
    primary = bed.server("primary")
    primary.command("DEBUG", "POPULATE", KEYS, "key", 100)
    start = time.monotonic()
    proxy = bed.proxy(primary, source__audit_keys_per_second=0) # else its SCAN and DUMP go on too
    proxy.wait_live(120)
    print(f"table complete after {time.monotonic() - start:.2f} s")
    start = time.monotonic()
    first = bed.agent(proxy, bed.server("replica"))
    first.wait_warm(120)
    print(f"first agent warm after {time.monotonic() - start:.2f} s")
    compare.assert_equal_now(primary, first.replica)

    before = calls(primary)
    start = time.monotonic()
    time.sleep(3)
    idle_seconds = time.monotonic() - start
    idle = spent(before, calls(primary))

    replica = bed.server("replica 2")
    before = calls(primary)
    start = time.monotonic()
    second = bed.agent(proxy, replica, name="agent-2")
    second.wait_warm(120)
    seconds = time.monotonic() - start
    bootstrap = spent(before, calls(primary))
    print(f"second agent warm after {seconds:.2f} s; commands idle {idle} in {idle_seconds:.1f} s, "
          f"during its bootstrap {bootstrap}")
    assert set(bootstrap) <= PERIODIC, bootstrap
    for name, count in bootstrap.items():
        usual = idle.get(name, 0) * seconds / idle_seconds
        assert count <= usual * 1.5 + 5, f"{name}: {count} calls, {usual:.0f} are usual"
    compare.assert_equal_now(primary, replica)


def test_idle_costs_next_to_nothing(bed):
    """Below 2 % of a core each, with a table of some size and default polling."""
    pair = bed.pair(fill=lambda primary: primary.command("DEBUG", "POPULATE", 100_000, "key", 100))
    time.sleep(1)
    shares = {pair.proxy.name: [], pair.agent.name: []}
    for _ in range(3): # the machine is shared: the quietest of three looks counts
        start = {daemon.name: daemon.cpu_seconds() for daemon in (pair.proxy, pair.agent)}
        time.sleep(4)
        for daemon in (pair.proxy, pair.agent):
            shares[daemon.name].append((daemon.cpu_seconds() - start[daemon.name]) / 4)
    shares = {name: min(found) for name, found in shares.items()}
    print(f"idle shares of a core: {shares}")
    assert max(shares.values()) < 0.02, shares


def test_64_agents_at_once(bed):
    """Discarding ones: what is looked at is the proxy, and that all of them get warm."""
    pair = bed.pair(fill=lambda primary: primary.command("DEBUG", "POPULATE", 20_000, "key", 100))
    replica = bed.server("idle")
    agents = [bed.agent(pair.proxy, replica, name=f"discard-{i}", apply__mode="discard",
                        log__level="warn") for i in range(63)]
    for agent in agents:
        agent.wait_state("warm", timeout=60)
    listed = pair.proxy.ctl_ok("agents")
    assert len(listed) == 64 and {entry["carrier"] for entry in listed} == {"shm"}, listed
    pair.settle()
