"""keywakectl top and logs over real daemons: figures that are theirs, and trouble as it comes."""
import json
import os
import re
import select
import signal
import subprocess
import threading

import pytest

from lib import data
from lib.daemon import CTL
from lib.process import SLOW, stat_fields, wait_for
from lib.terminal import Terminal

pytestmark = pytest.mark.sanitize

SECONDS = 60 * SLOW


def top(*daemons, status=0):
    done = subprocess.run([CTL, "top", *(daemon.control for daemon in daemons), "--interval", "0.5", "-o", "json"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == status, done
    return json.loads(done.stdout)


class Writes:
    """Keys are written for as long as the block runs."""

    def __init__(self, server):
        self.server, self.ended = server, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        with self.server.client() as client:
            number = 0
            while not self.ended.wait(0.01):
                client.set(f"written:{number % 100}", "x" * 1000)
                number += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()


@pytest.fixture
def fleet(bed):
    """A proxy, an agent and a gateway."""
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 500))
    pair.gateway = bed.gateway(pair.proxy, gateway__max_staleness_ms=60_000)
    pair.gateway.wait_fresh()
    return pair


@pytest.fixture
def screen(fleet):
    shown = Terminal(CTL, "top", fleet.proxy.control, fleet.agent.control, fleet.gateway.control,
                     "--interval", "0.2", columns=140)
    yield shown
    shown.close()


def test_one_table_of_a_fleet_has_its_figures(fleet):
    def look():
        """The rows, once all who write have a rate. An agent knows its keys by INFO, a second later."""
        rows = top(fleet.proxy, fleet.agent, fleet.gateway)
        return all(row["records_per_second"] and row.get("keys", 1) for row in rows
                   if row["kind"] != "gateway") and rows

    with Writes(fleet.primary):
        rows = wait_for(look, "a figure stays 0", 60)
    own = {row["kind"]: row for row in rows if "of" not in row}
    below = {row["kind"]: row for row in rows if "of" in row}
    assert sorted(own) == ["proxy"] and sorted(below) == ["agent", "gateway"], "each of them stands once"
    own.update(below)
    assert own["proxy"]["state"] == "live" and own["agent"]["name"] == "agent"
    assert {kind: row["grade"] for kind, row in own.items()} == dict.fromkeys(own, "good")
    assert own["proxy"]["keys"] >= 500 and own["agent"]["keys"] >= 500 and "keys" not in own["gateway"]
    assert own["proxy"]["bytes_per_second"] > 0 and own["agent"]["bytes_per_second"] > 0
    assert all(0 <= own[kind]["fresh_ms"] < SECONDS * 1000 for kind in own), own
    assert 0 <= own["agent"]["lag_ms"] < SECONDS * 1000 and "lag_ms" not in own["proxy"]
    assert {kind: row["of"] for kind, row in below.items()} == {"agent": "proxy", "gateway": "proxy"}
    assert own["agent"]["socket"] == fleet.agent.control and own["gateway"]["socket"] == fleet.gateway.control
    # What only the proxy tells of them.
    told = [row for row in top(fleet.proxy) if "of" in row]
    assert sorted(row["kind"] for row in told) == ["agent", "gateway"]
    assert all(row["socket"] == fleet.proxy.control for row in told)


def test_daemons_of_every_state_on_a_live_table(fleet, screen):
    screen.wait_for("serving")
    # On a busy machine another one is in trouble for a moment, and stands first.
    screen.wait(lambda lines: screen.names()[:1] == ["proxy"] and "3 daemons" in lines[0], "the proxy does not stand first")
    fleet.agent.ctl_ok("pause")
    screen.wait_for("[paused]")
    fleet.gateway.popen.send_signal(signal.SIGSTOP)
    screen.wait_for("has not answered for")
    fleet.agent.ctl_ok("resume")
    screen.wait(lambda lines: "paused" not in "\n".join(lines), "the agent is still paused")
    fleet.gateway.popen.send_signal(signal.SIGCONT)
    screen.wait(lambda lines: "away" not in lines[0], "the gateway is still away")
    fleet.agent.kill()
    screen.wait(lambda lines: re.search(r"nobody answers there|no such socket", "\n".join(lines)), "it is not missed")
    fleet.agent.start()
    screen.wait(lambda lines: "away" not in lines[0] and screen.names().count("agent") == 1,
                "the agent is not back")
    screen.press(b"q")
    assert screen.finish() == 0


def test_the_log_is_followed_over_a_restart(bed):
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 10))
    last = [json.loads(line) for line in
            subprocess.run([CTL, "-s", pair.agent.control, "logs", "-n", "1000", "--level", "info"],
                           capture_output=True, text=True, check=True).stdout.splitlines()]
    assert [line["number"] for line in last] == sorted(line["number"] for line in last)
    assert "keywake-agent" in last[0]["text"] and any(line["text"].startswith("warm") for line in last), last
    with subprocess.Popen([CTL, "-s", pair.agent.control, "logs", "-f", "-n", "0", "--level", "info"],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0) as follower:
        buffer = b""

        def wait_line(text):
            nonlocal buffer
            while text not in buffer:
                assert select.select([follower.stdout], [], [], SECONDS)[0], (text, buffer)
                got = os.read(follower.stdout.fileno(), 1 << 16)
                assert got, (follower.stderr.read(), buffer)
                buffer += got
            buffer = buffer[buffer.index(text):]
        try:
            # The follower has asked when a line comes: each pause makes one.
            while not select.select([follower.stdout], [], [], 0.2)[0]:
                pair.agent.ctl_ok("pause")
                pair.agent.ctl_ok("resume")
            pair.agent.ctl_ok("pause")
            # The last line of all, and not one of an earlier pause: what comes next is asked for then.
            newest = subprocess.run([CTL, "-s", pair.agent.control, "logs", "-n", "1", "--level", "info"],
                                    capture_output=True, text=True, check=True).stdout
            wait_line(f'"number":{json.loads(newest)["number"]},'.encode())
            # Between two questions it would miss the last lines: it sleeps when it has asked.
            wait_for(lambda: stat_fields(follower.pid)[0] == "S", "the follower does not wait for a line")
            pair.agent.stop()
            wait_line(b"SIGTERM")
            pair.agent.start()
            wait_line(b'"keywake-agent ')
            wait_line(b'"warm')
            follower.terminate()
            assert b"started again" in follower.communicate(timeout=SECONDS)[1]
        finally:
            follower.kill()
