"""The replication stream of each server: its handshake, its commands, and strings encoded as it does."""
import os
import subprocess

from lib.daemon import BUILD
from lib.server import binary_path

PROGRAM = os.path.join(BUILD, "tests", "unit", "stream", "test_stream_servers")


def test_the_stream_of_each_server_is_understood(any_server):
    done = subprocess.run([PROGRAM, binary_path(any_server)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
