"""
Attacks on real daemons. The fixtures are those of tests/integration; tests/security/lib adds the attackers.

    KW_SECURITY_BUILD=DIR    attack the programs of another build, such as version 0.1
"""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
INTEGRATION = os.path.join(os.path.dirname(HERE), "integration")
sys.path.insert(0, INTEGRATION)
if os.environ.get("KW_SECURITY_BUILD"):
    os.environ["KW_BUILD"] = os.environ["KW_SECURITY_BUILD"]

import lib  # pylint: disable=wrong-import-position

# One package of two folders: `from lib.bed import Bed`, `from lib.relay import Relay`.
lib.__path__.append(os.path.join(HERE, "lib"))

import importlib.util  # pylint: disable=wrong-import-position

from lib import stranger as strangers  # pylint: disable=wrong-import-position
from lib.daemon import AGENT, CTL, PROXY  # pylint: disable=wrong-import-position


def integration_conftest():
    spec = importlib.util.spec_from_file_location("integration_conftest", os.path.join(INTEGRATION, "conftest.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


THEIRS = integration_conftest()
pytest_configure_node = THEIRS.pytest_configure_node
pytest_collection_modifyitems = THEIRS.pytest_collection_modifyitems
pytest_runtest_protocol = THEIRS.pytest_runtest_protocol
pytest_runtest_makereport = THEIRS.pytest_runtest_makereport
bed = THEIRS.bed
need_server = THEIRS.need_server
any_server = THEIRS.any_server


def pytest_sessionstart(session):
    for program in (PROXY, AGENT, CTL): # version 0.1 has no gateway
        if not os.access(program, os.X_OK):
            raise pytest.UsageError(f"{program} is not there: run deploy/setup, or set KW_SECURITY_BUILD")


@pytest.fixture
def stranger():
    """Another user of this host, of none of keywake's groups. It has a folder of its own."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    with strangers.Stranger() as another:
        yield another
