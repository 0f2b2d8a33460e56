"""A random mix of every write at full speed; equal when it stops."""
import os
import random
import time

import pytest

from lib.compare import assert_equal_now, wait_same
from lib.workload import Workload, seed_of_run

SECONDS = float(os.environ.get("KW_WORKLOAD_SECONDS", "60"))
pytestmark = [pytest.mark.long, pytest.mark.timeout(1200 + SECONDS)]


def restart_and_pause(agent, chance, seconds):
    """What an operator and fate do to an agent meanwhile."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        what = chance.choice(["pause", "kill", "stop", "nothing", "resync"])
        if what == "pause":
            agent.ctl_ok("pause")
            time.sleep(chance.uniform(0.1, 2))
            agent.ctl_ok("resume")
        elif what == "kill":
            agent.kill()
            time.sleep(chance.uniform(0, 1))
            agent.restart()
        elif what == "stop":
            assert agent.stop() == 0
            agent.restart()
        elif what == "resync":
            agent.ctl_ok("resync")
        time.sleep(chance.uniform(0.5, 3))


def test_every_write_for_a_minute(bed):
    """One agent, restarted, paused and resumed meanwhile."""
    seed = seed_of_run()
    pair = bed.pair()
    load = Workload(pair.primary, seed, wild=True).start()
    restart_and_pause(pair.agent, random.Random(seed), SECONDS)
    print(f"{load.stop()} commands, errors {load.errors}")
    pair.agent.wait_warm(120)
    pair.wait_same(60)


@pytest.mark.sanitize
@pytest.mark.quick
def test_two_agents_over_different_carriers(bed):
    seed = seed_of_run()
    primary = bed.server("primary")
    proxy = bed.proxy(primary, listen=("shm", "tcp"))
    agents = [bed.agent(proxy, bed.server(f"replica-{via}"), name=f"agent-{via}", via=via)
              for via in ("shm", "tcp")]
    load = Workload(primary, seed, wild=True).start()
    chance = random.Random(seed)
    restart_and_pause(agents[0], chance, SECONDS / 2)
    restart_and_pause(agents[1], chance, SECONDS / 2)
    print(f"{load.stop()} commands, errors {load.errors}")
    for agent in agents:
        agent.wait_warm(120)
        wait_same(primary, agent.replica, 60)


def test_a_small_table_is_cleaned_all_the_time(bed):
    """Segments so small that the cleaner never rests, under full load."""
    seed = seed_of_run()
    pair = bed.pair(proxy={"table__segment_bytes": "64KiB", "table__max_bytes": "64MiB"})
    load = Workload(pair.primary, seed).start()
    time.sleep(SECONDS / 3)
    print(f"{load.stop()} commands, errors {load.errors}")
    pair.agent.wait_warm(120)
    pair.wait_same(60)


@pytest.mark.sanitize
def test_warm_is_not_said_while_unequal(bed):
    """
    Whenever the writers stand still and the agent then claims to hold what was written so far, the
    digests are equal at that moment: not soon, now.
    """
    seed = seed_of_run()
    pair = bed.pair()
    load = Workload(pair.primary, seed, short_ttls=False, silent=False).start()
    for _ in range(int(max(3, SECONDS / 3))):
        time.sleep(0.5)
        load.rest()
        pair.agent.wait_warm()
        assert_equal_now(pair.primary, pair.replica)
        load.resume()
    load.stop()


def test_hot_keys_coalesce(bed):
    """One large key written all the time must not make the proxy fetch it each time."""
    pair = bed.pair()
    with pair.primary.client() as client:
        client.rpush("hot", *[b"x" * 100] * 10_000)
        pair.settle()
        before = pair.proxy.status()
        end = time.monotonic() + 5
        writes = 0
        while time.monotonic() < end:
            with client.pipeline(transaction=False) as pipe:
                for i in range(100):
                    pipe.lset("hot", i, b"y" * 100)
                pipe.execute()
            writes += 100
        after = pair.proxy.status()
    fetched = after["fetches"] - before["fetches"]
    assert fetched < writes / 20, f"{fetched} fetches for {writes} writes"
    pair.settle()
