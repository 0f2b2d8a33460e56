"""
Agents, gateways and proxies of two versions that differ in the handshake or in the layout of the table: each end says
which of the two is to be upgraded, touches nothing, and goes on by itself when that is done.
"""
import os

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.daemon import BUILD
from lib.process import wait_for

KEYS = 300
WARNINGS = 20 # of a daemon that tries for some seconds


@pytest.fixture(params=["handshake", "layout"])
def kind(request):
    return request.param


def of_the_next_version(daemon, kind):
    daemon.program = os.path.join(BUILD, "tests", "neighbours", f"{os.path.basename(type(daemon).program)}-{kind}")
    return daemon


def upgraded(daemon, kind):
    """Or taken back: the program of the other version, with the same configuration."""
    daemon.stop()
    if daemon.program == type(daemon).program:
        of_the_next_version(daemon, kind)
    else:
        del daemon.program
    return daemon.start()


def begin(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, KEYS)
    return primary, bed.proxy(primary, listen=("shm", "tcp"), start=False)


def says(proxy, words):
    wait_for(lambda: words in proxy.output(), lambda: f"it does not say {words!r}: {proxy.tail()}", 30)
    told = [line for line in proxy.output().splitlines() if words in line and " warn " in line]
    assert len(told) < WARNINGS, told


@pytest.mark.parametrize("via", ["shm", "tcp"])
def test_an_agent_that_meets_a_later_proxy_is_to_be_upgraded(bed, kind, via):
    primary, proxy = begin(bed)
    of_the_next_version(proxy, kind).start().wait_live()
    agent = bed.agent(proxy, bed.server("replica"), via=via)
    gateway = bed.gateway(proxy, via=via)
    assert "upgrade this agent" in agent.wait_state("failed", reason=kind)["reason"]
    gateway.wait_state("failed", reason="upgrade this agent")
    assert agent.replica.command("DBSIZE") == 0
    says(proxy, "upgrade that agent")
    for daemon in (agent, gateway):
        upgraded(daemon, kind)
    agent.wait_warm()
    gateway.wait_fresh()
    assert_equal_now(primary, agent.replica)


def test_a_proxy_that_meets_a_later_agent_is_to_be_upgraded(bed, kind):
    primary, proxy = begin(bed)
    proxy.start().wait_live()
    agent = of_the_next_version(bed.agent(proxy, bed.server("replica"), start=False), kind).start()
    assert "upgrade the proxy" in agent.wait_state("failed", reason=kind)["reason"]
    assert agent.replica.command("DBSIZE") == 0
    says(proxy, "upgrade this proxy")
    upgraded(proxy, kind)
    agent.wait_warm()
    assert_equal_now(primary, agent.replica)
