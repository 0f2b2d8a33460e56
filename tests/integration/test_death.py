"""Any process may be killed at any moment and started again: it carries on by itself."""
import itertools
import os
import random
import signal
import threading
import time

import pytest

from lib import compare, data
from lib.compare import assert_equal_now
from lib.daemon import wall
from lib.process import SLOW, wait_for
from lib.workload import Workload, seed_of_run

pytestmark = pytest.mark.sanitize

ROUNDS = int(os.environ.get("KW_DEATH_ROUNDS", "5"))


class Sampler:
    """
    Stops the writers now and then, from a thread; when the agent claims within a moment to hold what
    was written before, both servers must be equal then.
    """

    def __init__(self, pair, load):
        self.pair, self.load = pair, load
        self.samples = self.claims = 0
        self.failure = None
        self.stopped = threading.Event()
        self.quiet = threading.Lock() # held while the processes must be left alone
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        try:
            while not self.stopped.wait(0.7):
                with self.quiet:
                    self.sample()
        except Exception as failure: # told by stop()
            self.failure = failure

    def sample(self):
        self.samples += 1
        self.load.rest()
        try:
            since = wall()
            end = time.monotonic() + 1.5
            while time.monotonic() < end:
                if self.pair.agent.warm_since(since):
                    self.claims += 1
                    assert_equal_now(self.pair.primary, self.pair.replica)
                    return
                time.sleep(0.01)
        finally:
            self.load.resume()

    def stop(self):
        self.stopped.set()
        self.thread.join(60 * SLOW)
        assert not self.thread.is_alive(), "a comparison does not end"
        if self.failure:
            raise self.failure
        print(f"{self.claims} claims of {self.samples} samples")


# Of a primary that comes back from older data, or was flushed while the proxy was away, more keys
# can be gone than the brakes let pass. They are right to hold then; here nobody would approve.
NO_BRAKES = {"proxy": {"source__max_missing": 1}, "agent": {"apply__max_prune": 1}}


def run_with_deaths(bed, pair, die, **mix):
    """Load, sampler, `die` each round; then equal."""
    seed = seed_of_run()
    chance = random.Random(seed)
    load = Workload(pair.primary, seed, short_ttls=False, silent=False, **mix).start()
    sampler = Sampler(pair, load)
    for _ in range(ROUNDS):
        time.sleep(chance.uniform(0.2, 2))
        with sampler.quiet:
            die(chance)
    sampler.stop()
    load.stop()
    pair.agent.wait_warm(120)
    assert_equal_now(pair.primary, pair.replica)
    pair.wait_same()


def test_agent_killed(bed, carrier):
    pair = bed.pair(listen=(carrier,), via=carrier)

    def die(chance):
        pair.agent.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.agent.restart()
    run_with_deaths(bed, pair, die)


def test_proxy_killed(bed, carrier):
    pair = bed.pair(listen=(carrier,), via=carrier, **NO_BRAKES)

    def die(chance):
        pair.proxy.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.proxy.restart()
    run_with_deaths(bed, pair, die)


@pytest.mark.quick
@pytest.mark.core
def test_primary_killed_and_restarted_with_its_rdb(bed):
    pair = bed.pair(**NO_BRAKES)
    data.fill(pair.primary, (0, 10))

    def die(chance):
        pair.primary.command("SAVE")
        time.sleep(chance.uniform(0, 0.3)) # what is written now is lost, on both sides
        pair.primary.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.primary.restart()
    run_with_deaths(bed, pair, die)
    # Of two deaths in a row the proxy can see one. Of one that it was connected before, it sees that.
    before = pair.proxy.status()["reconciles"]
    die(random.Random(1))
    pair.proxy.wait_status(lambda status: status["reconciles"] > before, "no reconcile was counted")
    pair.settle()


def test_primary_killed_and_restarted_empty(bed):
    pair = bed.pair()
    data.fill(pair.primary)
    pair.settle()
    pair.primary.kill()
    pair.primary.restart(keep_data=False)
    with pair.primary.client() as client:
        client.set("alone", 1)
    pair.wait_equal()
    pair.settle()


def test_replica_killed_and_restarted_empty(bed):
    pair = bed.pair()

    def die(chance):
        pair.replica.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.replica.restart(keep_data=False)
    run_with_deaths(bed, pair, die)


def test_replica_killed_and_restarted_with_its_rdb(bed):
    pair = bed.pair()

    def die(chance):
        pair.replica.command("SAVE")
        time.sleep(chance.uniform(0, 0.3)) # applied after the save: must be applied again
        pair.replica.kill()
        time.sleep(chance.uniform(0, 0.5))
        pair.replica.restart()
    run_with_deaths(bed, pair, die)


def test_everything_killed_at_random(bed):
    pair = bed.pair(**NO_BRAKES)

    def die(chance):
        victims = chance.sample([pair.proxy, pair.agent, pair.primary, pair.replica],
                                chance.randint(1, 4))
        for server in (pair.primary, pair.replica):
            if server in victims and chance.random() < 0.7:
                server.command("SAVE")
        for victim in victims:
            victim.kill()
            time.sleep(chance.uniform(0, 0.2))
        for victim in victims:
            if victim in (pair.primary, pair.replica):
                victim.restart(keep_data=chance.random() < 0.7)
            else:
                victim.restart()
    run_with_deaths(bed, pair, die)


def test_agent_killed_in_the_middle_of_a_bootstrap(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 200_000)
    replica = bed.server("replica")
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica)
    for part in (20_000, 60_000, 120_000):
        wait_for(lambda part=part: sum(compare.key_counts(replica).values()) >= part,
                 "the bootstrap does not get on", 30, 0.002)
        agent.kill()
        agent.restart()
    agent.wait_warm()
    assert_equal_now(primary, replica)


def test_replica_saved_in_the_middle_of_a_bootstrap_and_killed(bed):
    """An RDB of half a bootstrap must be known as ours, and completed."""
    primary = bed.server("primary")
    data.fill_plain(primary, 200_000)
    replica = bed.server("replica")
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, replica)
    wait_for(lambda: sum(compare.key_counts(replica).values()) >= 50_000, "no bootstrap", 30, 0.002)
    replica.command("SAVE")
    replica.kill()
    replica.restart()
    with primary.client() as client:
        client.delete(*[f"key:{i}" for i in range(0, 200_000, 7)][:20_000])
    agent.wait_warm()
    assert_equal_now(primary, replica)


def test_proxy_killed_while_keys_were_deleted(bed):
    """Deletes nobody saw: the new table does not hold the keys, the replica must lose them."""
    pair = bed.pair(agent={"apply__max_prune": 1})
    data.fill_plain(pair.primary, 20_000)
    pair.settle()
    pair.proxy.kill()
    with pair.primary.client() as client:
        client.delete(*[f"key:{i}" for i in range(0, 20_000, 2)])
        client.set("made meanwhile", 1)
    pair.proxy.restart()
    pair.settle()
    with pair.replica.client() as client:
        assert client.dbsize() == 10_001


def test_agent_away_while_keys_were_deleted_and_the_table_cleaned(bed):
    """Longer away than tombstones are kept for: the cursor lapses, the replica is mended."""
    pair = bed.pair(proxy={"table__segment_bytes": "64KiB", "table__tombstone_seconds": 1},
                    agent={"apply__max_prune": 1})
    data.fill_plain(pair.primary, 20_000)
    pair.settle()
    pair.agent.kill()
    with pair.primary.client() as client:
        client.delete(*[f"key:{i}" for i in range(0, 20_000, 2)])
    turns = itertools.count()

    def has_floor():
        turn = next(turns)
        data.fill_plain(pair.primary, 10_000, prefix=f"churn {turn % 2}:", seed=turn)
        return turn >= 8 and pair.proxy.status()["table"]["tombstone_floor"] > 0
    wait_for(has_floor, "no floor", 60, 0.3)
    pair.agent.restart()
    pair.settle()
    assert pair.agent.status()["snapshots"] == 1


@pytest.mark.quick
@pytest.mark.core
def test_agent_that_was_away_reads_only_what_changed(bed):
    pair = bed.pair()
    data.fill_plain(pair.primary, 20_000)
    pair.settle()
    assert pair.agent.stop() == 0
    with pair.primary.client() as client:
        client.set("changed", 1)
    pair.agent.restart()
    pair.settle()
    status = pair.agent.status()
    assert status["keys_applied"] < 1000, status


@pytest.mark.quick
def test_hung_proxy_is_told_from_an_idle_one(bed):
    """Its memory still answers READs: only the heartbeat says that nobody is at home."""
    pair = bed.pair()
    pair.proxy.signal(signal.SIGSTOP)
    pair.agent.wait_state("stalled")
    with pair.primary.client() as client:
        client.set("unseen", 1)
    done = pair.agent.ctl("wait", "warm", "--timeout", 2)
    assert done.returncode == 3, done
    pair.proxy.signal(signal.SIGCONT)
    pair.settle()


def test_source_down_is_not_warm(bed):
    pair = bed.pair()
    pair.primary.kill()
    pair.agent.wait_state("stalled")
    pair.proxy.wait_status(lambda status: status["state"] in ("source_down", "connecting")
                           and status["reason"], "no reason is told")
    pair.primary.restart()
    pair.wait_equal()
    pair.settle()
