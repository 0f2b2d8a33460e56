"""deploy/demo in each of its ways: it ends with equal servers, says what it showed, and leaves nothing."""
import os
import re
import subprocess

import pytest

from lib.process import SLOW
from lib.server import TOP

SMALL = ("--keys", "2000", "--rate", "300")
SECONDS = 180
WAYS = {
    "": ("the proxy followed keyspace notifications",),
    "--carrier tcp": ("over tcp",),
    "--tls": ("rediss://127.0.0.1",),
    "--feed stream": ("the proxy followed the replication stream",),
    "--gateway": ("strings read and compared",),
    "--tls --gateway --feed stream": ("rediss://127.0.0.1", "the replication stream", "strings read and compared"),
    "--sentinel": ("the sentinels promoted", "its proxy stands by"),
    "--sentinel --tls": ("rediss://127.0.0.1", "the sentinels promoted", "its proxy stands by"),
}


def demo(*words):
    """The body of deploy/demo, without the setup before it."""
    return subprocess.run(["/usr/bin/python3", os.path.join(TOP, "deploy", "demo.py"), *words], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=SECONDS * SLOW, check=False)


@pytest.mark.parametrize("way", WAYS)
def test_it_ends_with_equal_servers(way):
    done = demo(*SMALL, *way.split())
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines().count("equal") == 1
    for words in WAYS[way]:
        assert words in done.stdout, done.stdout
    folder = re.search(r"in (/\S+?)[;\s]", done.stdout).group(1)
    assert not os.path.exists(folder)
    left = subprocess.run(["pgrep", "-fa", folder], capture_output=True, text=True, check=False).stdout
    assert not left


def test_what_does_not_go_together_is_said():
    for words in (("--sentinel", "--gateway"), ("--sentinel", "--keep"), ("--keys", "-1")):
        done = demo(*words)
        assert done.returncode == 2 and "usage" in done.stderr, done
