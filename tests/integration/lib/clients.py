"""Client libraries that are not Debian's."""
import os

import pytest

from lib.server import ONLY_INSTALLED, TOP


def node_modules():
    """Where tests/clients has put them; as with servers, a missing one is a failure."""
    folder = os.environ.get("KW_CLIENTS_DIR") or os.path.join(TOP, "build", "clients")
    if not os.path.isdir(os.path.join(folder, "node_modules")):
        if ONLY_INSTALLED:
            pytest.skip("KW_SERVERS=installed")
        pytest.fail("the clients of Node.js are not there: run tests/clients")
    return folder
