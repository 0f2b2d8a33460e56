"""Both daemons end on SIGTERM without a byte lost or a handle left, under valgrind."""
import re
import shutil

import pytest

from lib import data
from lib.process import wait_for

pytestmark = pytest.mark.valgrind

VALGRIND = ["valgrind", "--quiet", "--leak-check=full", "--show-leak-kinds=all",
            "--errors-for-leak-kinds=definite,indirect,possible", "--error-exitcode=96",
            "--track-fds=yes", "--child-silent-after-fork=yes"]
START_SECONDS = 60
OPEN_DESCRIPTOR = re.compile(r"(Open (?:file descriptor|AF_\w+ socket)[^\n]*)\n==\d+==\s+([^\n]*)")


def start(daemon):
    daemon.start(wait=False)
    wait_for(daemon.answers, lambda: f"{daemon.name} does not answer:\n{daemon.tail()}", START_SECONDS)
    return daemon


def end_clean(daemon):
    status = daemon.stop(60)
    assert status == 0, f"{daemon.name}: exit {status}\n{daemon.tail(80)}"
    assert "ERROR SUMMARY" not in daemon.output()
    # An open descriptor is told with the place that opened it, or as inherited, in the next line.
    leaked = [line for line, origin in OPEN_DESCRIPTOR.findall(daemon.output())
              if "inherited" not in origin]
    assert not leaked, leaked


@pytest.fixture
def watched(bed):
    assert shutil.which("valgrind"), "valgrind is not there: run deploy/setup"

    def make(carrier, replica_config=None):
        primary, replica = bed.server("primary"), bed.server("replica", **(replica_config or {}))
        data.fill(primary, (0, 10))
        proxy = start(bed.proxy(primary, start=False, listen=(carrier,), wrapper=VALGRIND))
        agent = start(bed.agent(proxy, replica, start=False, via=carrier, wrapper=VALGRIND))
        return primary, proxy, agent, replica
    return make


@pytest.mark.parametrize("carrier", [pytest.param("shm", marks=pytest.mark.quick), "tcp"])
def test_shutdown_while_warm(watched, carrier):
    primary, proxy, agent, _ = watched(carrier)
    agent.wait_warm(180)
    data.fill(primary, (1,))
    primary.command("FLUSHDB", db=10)
    agent.wait_warm(180)
    end_clean(agent)
    end_clean(proxy)


def test_shutdown_while_bootstrapping(watched):
    _, proxy, agent, _ = watched("shm")
    end_clean(agent)
    end_clean(proxy)


def test_shutdown_while_the_servers_are_down(watched):
    primary, proxy, agent, replica = watched("tcp")
    agent.wait_warm(180)
    primary.kill()
    replica.kill()
    proxy.wait_state("source_down", "connecting", timeout=60)
    end_clean(proxy)
    end_clean(agent)
