"""What one who reads the log by `logs -f` costs the daemon. Not under sanitizers: they keep what was freed."""
import json
import re
import signal
import subprocess

from lib import data
from lib.daemon import CTL, wall
from lib.process import SLOW
from lib.rpc import Rpc

SECONDS = 60 * SLOW
LINES = 3000


def resident_kib(daemon):
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as stream:
        return int(re.search(r"^RssAnon:\s+(\d+)", stream.read(), re.M)[1])


def test_a_stopped_reader_of_the_log_costs_the_daemon_nothing(bed):
    """The daemon holds one answer for it, and the ring is as large as ever: its memory does not grow."""
    agent = bed.pair(fill=lambda server: data.fill_plain(server, 10)).agent
    with subprocess.Popen([CTL, "-s", agent.control, "logs", "-f"], stdout=subprocess.PIPE) as reader, \
            Rpc(agent.control) as rpc:
        try:
            assert reader.stdout.readline()
            reader.send_signal(signal.SIGSTOP)
            begin, before = rpc.call("log.lines", count=1)["last"], resident_kib(agent)
            deadline = wall() + SECONDS
            while rpc.call("log.lines", count=1)["last"] < begin + LINES:
                assert wall() < deadline
                rpc.call("pause")
                rpc.call("resume")
            assert resident_kib(agent) - before < 8 << 10
            reader.send_signal(signal.SIGCONT)
            while "missed" not in json.loads(reader.stdout.readline()):
                pass
        finally:
            reader.kill()
