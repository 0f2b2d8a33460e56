"""Fixtures: one bed a test; its logs are shown when the test fails."""
import os

import pytest

from lib.bed import Bed
from lib.daemon import AGENT, CTL, PROXY, RDMA_HOST
from lib.server import ONLY_INSTALLED, OPTIONAL, REQUIRED, ServerMissing, binary_path


def pytest_sessionstart(session):
    for program in (PROXY, AGENT, CTL):
        if not os.access(program, os.X_OK):
            raise pytest.UsageError(f"{program} is not there: run deploy/setup, or set KW_BUILD")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    bed = getattr(item, "kw_bed", None)
    if bed and report.failed:
        for name, text in bed.logs():
            report.sections.append((f"log of {name}", text))


@pytest.fixture
def bed(request):
    bed = Bed()
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
    if name == "installed":
        return
    try:
        binary_path(name)
    except ServerMissing as missing:
        if ONLY_INSTALLED:
            pytest.skip("KW_SERVERS=installed")
        if name in OPTIONAL:
            pytest.skip(str(missing))
        pytest.fail(str(missing))


@pytest.fixture
def need_server():
    return have_or_skip


@pytest.fixture(params=["installed", *[name for name in REQUIRED if "bullseye" not in name],
                        *OPTIONAL])
def any_server(request):
    """Every server that keywake supports and this machine has."""
    have_or_skip(request.param)
    return request.param


@pytest.fixture(params=["shm", "tcp"] + (["rdma"] if RDMA_HOST else []))
def carrier(request):
    return request.param
