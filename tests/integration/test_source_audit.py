"""What the proxy's audit finds: nothing that a feed told, and all that none told."""
import os
import re
import time

import pytest

from lib import data
from lib.process import wait_for
from lib.server import ONLY_INSTALLED
from lib.workload import Mix, Workload, seed_of_run

SECONDS = float(os.environ.get("KW_WORKLOAD_SECONDS", "5"))
AUDITED = {"source__audit_keys_per_second": 100_000}
STREAM = {"source__feed": "stream"}
# Server and feed. A long run takes each of them, and a short one the one that its seed draws.
CASES = [("installed", "stream"), ("valkey-sid", "stream"), ("installed", "notifications")]
LONG_SECONDS = 30
# Writes that the server tells nobody.
UNTOLD = "redis.set_repl(redis.REPL_NONE); return redis.call(unpack(ARGV))"


class Told(Mix):
    """Without commands that change a consumer and are not replicated, see limits.md."""

    def __init__(self, *words, **more):
        super().__init__(*words, silent=False, **more)

    def do_stream(self):
        command = super().do_stream()
        return self.do_stream() if command[0] in ("XREADGROUP", "XAUTOCLAIM") else command


def differences(proxy):
    return proxy.status()["audit_differences"]


def found(proxy):
    return [line for line in proxy.output().splitlines() if "audit found" in line]


def test_what_nothing_told_is_counted_and_mended(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 500), proxy={**STREAM, **AUDITED})
    pair.primary.command("SET", "key:1", "told")
    pair.settle()
    for command in (("SET", "key:2", "untold"), ("DEL", "key:3"), ("SET", "new", "untold")):
        pair.primary.command("EVAL", UNTOLD, 0, *command)
    pair.wait_same(60)
    wait_for(lambda: differences(pair.proxy) == 3, lambda: f"{differences(pair.proxy)} differences are counted", 60)
    assert re.search(r"found key '(key:2|key:3|new)' of database 0 changed", pair.proxy.output())
    assert pair.proxy.status()["reconciles"] == 0


def test_a_silent_command_that_is_looked_for_seldom_is_no_difference(bed):
    """The audit finds what XACK did long before the feed looks for it, and tells it."""
    def fill(primary):
        primary.command("XADD", "stream", "1-0", "field", "value")
        primary.command("XADD", "stream", "2-0", "field", "value")
        primary.command("XGROUP", "CREATE", "stream", "group", "0")
        primary.command("XREADGROUP", "GROUP", "group", "one", "STREAMS", "stream", ">")
    pair = bed.pair(fill=fill, proxy={"source__feed": "notifications", "source__watch_interval_ms": 9000, **AUDITED})

    def told():
        return pair.proxy.status()["silent_refetches"]
    for message in ("1-0", "2-0"): # after the first look there is none for a whole interval
        before = told()
        assert pair.primary.command("XACK", "stream", "group", message) == 1
        wait_for(lambda: told() > before, "the change is not told", 60)
        assert differences(pair.proxy) == 0, found(pair.proxy)
    pair.wait_same(60)


@pytest.mark.long
@pytest.mark.timeout(1200 + SECONDS)
@pytest.mark.parametrize("case", range(len(CASES)) if SECONDS >= LONG_SECONDS else ["drawn"])
def test_an_audit_finds_nothing_that_was_told(bed, need_server, case):
    """A random workload, audits without end, and no difference that nothing told. KW_WORKLOAD_SECONDS makes it long."""
    seed = seed_of_run()
    server, feed = CASES[seed % len(CASES) if case == "drawn" else case]
    if ONLY_INSTALLED:
        server = "installed"
    need_server(server)
    pair = bed.pair(server, server, fill=lambda primary: data.fill_plain(primary, 5000),
                    proxy={**AUDITED, "source__feed": feed})
    before = pair.proxy.status()
    load = Workload(pair.primary, seed, pace=5000)
    load.mix = Told(seed)
    load.start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(min(5, SECONDS))
        assert differences(pair.proxy) == 0, found(pair.proxy)
    load.stop()
    pair.agent.wait_warm()
    pair.wait_equal(60)
    audits = pair.proxy.status()["reconciles_audit"]
    # What was suspected last is judged some seconds later.
    status = pair.proxy.wait_status(lambda status: status["reconciles_audit"] > audits + 8, "no more audits", 60)
    print(f"{server}, {feed}: {load.commands} commands, {status['values'] - before['values']} values, "
          f"{status['fetches'] - before['fetches']} fetches, {status['reconciles_audit'] - before['reconciles_audit']} "
          f"audits, {status['unchanged'] - before['unchanged']} unchanged, {status['audit_unjudged']} not judged")
    assert status["audit_differences"] == 0, found(pair.proxy)
    assert status["audit_unjudged"] * 100 < status["unchanged"], status
