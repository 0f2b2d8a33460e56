"""Fixtures: one bed a test; its logs are shown when the test fails. And the turns of several workers."""
import os
import shutil
import tempfile
import zlib

import pytest

from lib.bed import Bed
from lib.daemon import AGENT, CTL, GATEWAY, PROXY, RDMA_HOST
from lib.server import MATRIX, ONLY_INSTALLED, ServerMissing, binary_path
from lib.turns import turn

TURNS = "kw_turns" # the folder by which the workers of a run (pytest -n) keep out of each other's way


def pytest_sessionstart(session):
    for program in (PROXY, AGENT, GATEWAY, CTL):
        if not os.access(program, os.X_OK):
            raise pytest.UsageError(f"{program} is not there: run deploy/setup, or set KW_BUILD")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """The one that hands out the tests, before it starts a worker."""
    if not hasattr(node.config, TURNS):
        folder = tempfile.mkdtemp(prefix="kw-turns-")
        setattr(node.config, TURNS, folder)
        node.config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    node.workerinput[TURNS] = getattr(node.config, TURNS)


def in_sample(item):
    """KW_SAMPLE=N/M draws each M-th test, by its name; the others are drawn by another N."""
    number, parts = map(int, os.environ.get("KW_SAMPLE", "0/1").split("/"))
    return zlib.crc32(item.nodeid.encode()) % parts == number


def pytest_collection_modifyitems(config, items):
    """The long ones first and those that run alone last, so that no worker is left waiting for long."""
    left_out = [item for item in items if not in_sample(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if in_sample(item)]
    items.sort(key=lambda item: (item.get_closest_marker("alone") is not None,
                                 item.get_closest_marker("long") is None))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    folder = getattr(item.config, "workerinput", {}).get(TURNS)
    if folder is None: # one after the other anyway
        yield
        return
    with turn(folder, item.get_closest_marker("alone") is not None):
        yield


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    bed = getattr(item, "kw_bed", None)
    if bed and report.failed:
        for name, text in bed.logs():
            report.sections.append((f"log of {name}", text))


# Tests side by side leave a primary short of a core. A proxy that spares it then makes each of them wait,
# at 3 % of its time, for what is not the test's subject.
UNPACED = {"source__primary_share": 1}
# Tests that are not about the age of the table allow much of it, for the same reason.
PATIENT = {"gateway__max_staleness_ms": 60_000}


# What a test is about that only notifications miss, or need.
NOTIFICATIONS = {"source__feed": "notifications"}


@pytest.fixture
def bed(request):
    proxies = {} if request.node.get_closest_marker("paced") else UNPACED
    if request.node.get_closest_marker("notifications"):
        proxies = {**proxies, **NOTIFICATIONS}
    bed = Bed(proxies=proxies, gateways=PATIENT)
    request.node.kw_bed = bed
    yield bed
    complaints = bed.close()
    if not complaints:
        bed.remove()
    assert not complaints, "\n".join(complaints)


def have_or_skip(name):
    """
    A required server that is missing is a failure, so that a machine without a network cannot
    pass by leaving tests out; only KW_SERVERS=installed leaves them out, and says so.
    """
    if name in ("installed", "own"):
        return
    try:
        binary_path(name)
    except ServerMissing as missing:
        if ONLY_INSTALLED:
            pytest.skip("KW_SERVERS=installed")
        pytest.fail(str(missing))


@pytest.fixture
def need_server():
    return have_or_skip


@pytest.fixture(params=MATRIX)
def any_server(request):
    """Every server that keywake supports and this machine has."""
    have_or_skip(request.param)
    return request.param


@pytest.fixture(params=["shm", "tcp"] + (["rdma"] if RDMA_HOST else []))
def carrier(request):
    return request.param
