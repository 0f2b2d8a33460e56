"""The test bed of tests/integration, for tests that run in a guest with an RDMA device."""
import importlib.util
import os
import signal
import sys

import pytest

TEST_SECONDS = 150 # for one test: the guest's own deadline would hide which one it was, and its logs

INTEGRATION = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
                           "integration")
sys.path.insert(0, INTEGRATION)

spec = importlib.util.spec_from_file_location("integration_conftest",
                                              os.path.join(INTEGRATION, "conftest.py"))
shared = importlib.util.module_from_spec(spec)
spec.loader.exec_module(shared)

bed = shared.bed
pytest_sessionstart = shared.pytest_sessionstart
pytest_runtest_makereport = shared.pytest_runtest_makereport


def on_alarm(number, frame):
    del number, frame
    raise AssertionError(f"not over within {TEST_SECONDS} s")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    del item
    signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(TEST_SECONDS)
    yield
    signal.alarm(0)
