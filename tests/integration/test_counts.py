"""
CONFIG RESETSTAT on the replica's server: its counts do not tell any more what others did since the
agent's last look. The agent must not take that for nothing.
"""
import contextlib
import signal

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

RATE = "apply.audit_keys_per_second"
KEYS = 20_000 # the steady walk of one key a second does not meet those that differ
MODES = {
    "commands": {},
    "hybrid": {"apply.mode": "hybrid", "apply.consent": True},
    "replica": {"apply.mode": "replica", "apply.consent": True},
}


@pytest.fixture(params=[1, 0], ids=["audit", "no audit"])
def rate(request):
    return {RATE: request.param}


def warm_pair(bed, agent):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS), agent=agent,
                    replica_config={"replica-read-only": "no"})
    pair.settle()
    return pair


@contextlib.contextmanager
def between_two_looks(agent):
    """The agent stands still meanwhile, but not so long that it doubts itself."""
    agent.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        agent.signal(signal.SIGCONT)


def wait_mended(pair):
    """The next claim to be warm holds."""
    pair.agent.wait_status(lambda status: status["audit_causes"] > 0, "the reset is not seen")
    pair.agent.wait_warm()
    assert pair.replica.command("DBSIZE") == pair.primary.command("DBSIZE")
    assert_equal_now(pair.primary, pair.replica)


def test_evictions_are_not_hidden_by_a_reset_of_the_counts(bed, rate):
    """And maxmemory is lifted before the agent looks again: nothing tells that keys were evicted."""
    pair = warm_pair(bed, rate)
    replica = pair.replica
    with between_two_looks(pair.agent):
        replica.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
        used = replica.command("INFO", "memory")["used_memory"]
        replica.command("CONFIG", "SET", "maxmemory", int(used * 0.95))
        wait_for(lambda: replica.command("INFO", "stats")["evicted_keys"] > 0, "nothing is evicted")
        replica.command("CONFIG", "SET", "maxmemory", 0)
        replica.command("CONFIG", "RESETSTAT")
        assert replica.command("INFO", "stats")["evicted_keys"] == 0
        assert replica.command("DBSIZE") < KEYS
    wait_mended(pair)


def harm(replica, *words):
    with replica.client() as client:
        client.set("key:1", "of another client")
        client.delete("key:2")
        client.execute_command("CONFIG", "RESETSTAT")
        if words:
            client.execute_command(*words)


@pytest.mark.parametrize("mode", MODES)
def test_writes_of_others_are_not_hidden_by_a_reset_of_the_counts(bed, rate, mode):
    pair = warm_pair(bed, MODES[mode] | rate)
    with between_two_looks(pair.agent):
        harm(pair.replica)
    wait_mended(pair)


def test_writes_are_not_hidden_by_a_reset_and_a_lost_connection(bed, rate):
    """The server is looked at anew, and its cursor says as many writes of others as the counts do."""
    pair = warm_pair(bed, rate)
    with between_two_looks(pair.agent):
        harm(pair.replica, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    wait_mended(pair)
