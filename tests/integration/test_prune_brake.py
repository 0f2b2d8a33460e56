"""Keys that only a table's silence would delete wait for the operator, beyond a share of them."""
import pytest

from lib import data
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 3000
MODES = ("commands", "replica", "hybrid")
SOME = 10 # keys of another data set


def filled(bed, mode, fill=data.fill_plain, keys=KEYS, **agent):
    """A warm pair in this mode."""
    return bed.pair(fill=lambda server: fill(server, keys),
                    agent={"apply__mode": mode, "apply__consent": True, **agent})


def come_back_empty(pair, keys=0):
    """
    The primary is killed and comes back with nothing, or with only some keys, and so is the proxy:
    its own brake cannot know what there was.
    """
    pair.proxy.kill()
    pair.primary.kill()
    pair.primary.start()
    if keys:
        data.fill_plain(pair.primary, keys)
    pair.proxy.restart()
    pair.proxy.wait_live()


def held(pair):
    status = pair.agent.wait_state("held", reason="keywakectl approve", timeout=60)
    assert pair.replica.command("DBSIZE") == KEYS, status
    assert f"{KEYS}" in status["reason"] and "apply.max_prune" in status["reason"], status
    assert status["held"] > 1000 and status["held_of"] == KEYS, status
    return status


def metric(agent, name):
    lines = agent.ctl_ok("metrics")["text"].splitlines()
    return float(next(line.split()[1] for line in lines if line.startswith(f"keywake_agent_{name} ")))


@pytest.mark.parametrize("mode", MODES)
def test_a_primary_that_came_back_empty_deletes_nothing(bed, mode):
    pair = filled(bed, mode)
    come_back_empty(pair)
    held(pair)
    assert pair.agent.ctl("wait", "warm", "--timeout", 1).returncode == 3
    assert metric(pair.agent, "held") == KEYS and metric(pair.agent, "state") == 7
    assert any("WARN" in line.upper() and "keywakectl approve" in line for line in
               pair.agent.tail(1000).splitlines()), pair.agent.tail()
    with pair.primary.client() as client:
        client.set("new", 1)
    answer = pair.agent.ctl_ok("approve")
    assert f"{KEYS}" in answer["approved"], answer
    pair.settle()
    assert pair.replica.command("DBSIZE") == 1
    assert "approved by the operator" in pair.agent.tail(1000)
    status = pair.agent.status()
    assert status["held"] == 0 and pair.agent.ctl("approve").returncode == 2, status
