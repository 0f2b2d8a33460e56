"""Apply mode `hybrid`: bootstrap as a primary would, then go on by commands."""
import random
import time

import pytest

from lib import data
from lib.compare import assert_equal_now, wait_same
from lib.cursor import wait_cursor
from lib.process import wait_for
from lib.server import MATRIX
from lib.workload import Workload, seed_of_run

pytestmark = pytest.mark.sanitize

SETTINGS = {"apply__mode": "hybrid", "apply__consent": True}


def info(server):
    with server.admin() as client:
        return client.info("all")


def setting(server, name):
    with server.admin() as client:
        return client.config_get(name)[name]


@pytest.fixture(params=MATRIX)
def server(request, need_server):
    need_server(request.param)
    return request.param


def test_handed_over_to_commands(bed, server):
    pair = bed.pair(server, server, fill=data.fill, agent=SETTINGS)
    assert_equal_now(pair.primary, pair.replica)
    fields = info(pair.replica)
    assert fields["role"] == "master"
    assert setting(pair.replica, "masterauth") == ""
    assert setting(pair.replica, "repl-diskless-load") == "disabled"
    apply = pair.agent.status()["apply"]
    assert apply["full_syncs"] == 1 and apply["link"] == "handed over", apply
    with pair.replica.client(15) as client:
        client.set("a key of others", 1) # writable
        client.delete("a key of others")
    data.fill(pair.primary, (3, 10))
    with pair.primary.client(0) as client:
        client.flushdb()
        client.set("after", 1)
    pair.settle()
    wait_same(pair.primary, pair.replica)


def test_a_mix_of_everything_from_the_start(bed, server):
    """Written to while the RDB is loaded: what changed meanwhile waits for the hand-over.

    XREADGROUP can make a consumer of which the replication stream has nothing: an audit finds it."""
    primary, replica = bed.server("primary", server), bed.server("replica", server)
    data.fill_plain(primary, 100_000)
    proxy = bed.proxy(primary, source__audit_keys_per_second=20_000)
    proxy.wait_live()
    load = Workload(primary, seed_of_run(), wild=True).start()
    agent = bed.agent(proxy, replica, **SETTINGS)
    time.sleep(4)
    load.stop()
    agent.wait_warm(60)
    wait_same(primary, replica)
    assert info(replica)["role"] == "master"


@pytest.mark.quick
@pytest.mark.core
def test_restarts_go_on_by_commands(bed):
    pair = bed.pair(fill=data.fill, agent=SETTINGS)
    with pair.primary.client() as client:
        client.set("one more", 1)
    pair.settle()
    wait_cursor(pair.agent)
    pair.agent.kill()
    with pair.primary.client() as client:
        client.set("meanwhile", 1)
    pair.agent.restart()
    pair.settle()
    status = pair.agent.status()
    assert status["snapshots"] == 0 and status["apply"]["full_syncs"] == 0, status


def test_a_later_reconcile_merges(bed):
    pair = bed.pair(fill=data.fill, agent=SETTINGS)
    with pair.replica.client() as client:
        client.set("stale", 1)
    pair.agent.rpc("resync")
    wait_for(lambda: pair.replica.client().exists("stale") == 0, "not pruned", 20)
    pair.settle()
    assert pair.agent.status()["apply"]["full_syncs"] == 1
    assert info(pair.replica)["role"] == "master"


def test_the_replica_emptied_is_bootstrapped_again(bed):
    pair = bed.pair(fill=data.fill, agent=SETTINGS)
    pair.replica.kill()
    pair.replica.restart(keep_data=False)
    pair.wait_equal()
    pair.settle()
    assert pair.agent.status()["apply"]["full_syncs"] == 2


def test_without_consent_nothing_is_touched(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    agent = bed.agent(bed.proxy(primary), replica, apply__mode="hybrid")
    agent.wait_state("failed", reason="apply.consent=true")
    assert info(replica)["role"] == "master"


def test_everything_killed_at_random(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 50_000)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **SETTINGS)
    chance = random.Random(seed_of_run())
    load = Workload(primary, seed_of_run(), short_ttls=False, silent=False).start()
    for _ in range(8):
        time.sleep(chance.uniform(0, 0.6))
        victims = chance.sample([proxy, agent, replica], chance.randint(1, 3))
        for victim in victims:
            victim.kill()
            time.sleep(chance.uniform(0, 0.2))
        for victim in victims:
            if victim is replica:
                victim.restart(keep_data=False)
            else:
                victim.restart()
    load.stop()
    agent.wait_warm(120)
    assert_equal_now(primary, replica)
    assert info(replica)["role"] == "master"
