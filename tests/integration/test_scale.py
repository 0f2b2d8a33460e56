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


# What an idle pair does in a second, at most. The agent: one READ each `poll.idle_us` (1500), and what the
# audit looks up; 65,000 bytes alone, 162,000 beside other jobs. The primary: 100 DUMPs of the proxy's audit,
# ten barriers, and what looks at it. The replica: DUMP and PEXPIRETIME of 100 keys of the agent's audit.
IDLE_MOST = {"reads": 700, "read_bytes": 300_000, "agent_wakes": 760, "proxy_wakes": 80,
             "primary_commands": 160, "replica_commands": 220}


def idle_counts(pair):
    """Everything that an idle pair does, as counts since it began."""
    status = pair.agent.status()
    commands = {}
    for word, server in (("primary", pair.primary), ("replica", pair.replica)):
        with server.client() as client:
            commands[word] = client.info("stats")["total_commands_processed"]
    return {"reads": status["reads"], "read_bytes": status["bytes_read"],
            "agent_wakes": pair.agent.wakes(), "proxy_wakes": pair.proxy.wakes(),
            "primary_commands": commands["primary"], "replica_commands": commands["replica"]}


@pytest.mark.quick
@pytest.mark.parametrize("http", (False, True), ids=("plain", "http"))
def test_idle_costs_next_to_nothing(bed, http):
    """With a table of some size and default polling: counted, as a share of a core is the machine's.
    An HTTP listener that nobody asks adds nothing."""
    daemons = {name: {"http__listen": f"unix://{bed.directory}/{name}.http"} if http else {} for name in ("proxy", "agent")}
    pair = bed.pair(fill=lambda primary: primary.command("DEBUG", "POPULATE", 100_000, "key", 100), **daemons)
    time.sleep(1)
    begin, before = time.monotonic(), idle_counts(pair) # if this test is held up, the time is longer than the counts'
    time.sleep(4)
    after, seconds = idle_counts(pair), time.monotonic() - begin
    found = {name: (after[name] - before[name]) / seconds for name in before}
    print(f"idle, in a second: { {name: round(count) for name, count in found.items()} }")
    assert found["reads"] > 0 and found["proxy_wakes"] > 0, found # it is alive
    assert all(found[name] <= most for name, most in IDLE_MOST.items()), (found, IDLE_MOST)


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
