"""What keywakectl shows to people, over answers of real daemons: every field of every table."""
import json
import re
import subprocess
import time

import pytest

from lib import data
from lib.daemon import CTL
from lib.process import SLOW, wait_for
from lib.terminal import printed

HOUR_S = 3600
# Lengths of time that can truly be zero. Every other zero stands for "never", "none" or "unknown".
TRUE_ZEROS = {"since", "clock_skew"}
ZERO_TIME = re.compile(r"(?<![\d.,])0(\.0)? (µs|ms|s)\b")
# Milliseconds or microseconds since 1970 of this century, with and without groups, and an age of decades.
RAW_MOMENT = re.compile(r"\b1[5-9]\d{8}(\d{3}){0,2}\b|\b1,[5-9]\d\d(,\d{3}){3,4}\b|\b\d{5} d\b")
JSON_IN_A_CELL = re.compile(r'[\[{]"|\[\]|\{\}')
BARE_RATIO = re.compile(r" (0?\.\d+|\d+(\.\d+)?e-\d+)(?! ?[\d.%µmsB])")


def table(daemon, *words):
    done = subprocess.run([CTL, "-s", daemon.control, *words, "-o", "table"], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60 * SLOW, check=False)
    assert done.returncode == 0, done
    return done.stdout


def label_of(line):
    """The name that a line of fields begins with, its unit apart; "" of a row."""
    return re.sub(r"_(us|ms|s)$", "", line.split()[0]) if line.startswith("  ") and line.split() else ""


def faults(text):
    """The lines that a person cannot read, each with what is wrong there."""
    for line in text.splitlines():
        if ZERO_TIME.search(line) and label_of(line) not in TRUE_ZEROS:
            yield "a zero for never, none or unknown", line
        if RAW_MOMENT.search(line):
            yield "a raw moment", line
        if JSON_IN_A_CELL.search(line):
            yield "JSON in a cell", line
        if BARE_RATIO.search(line):
            yield "a ratio without its unit", line


def test_the_faults_are_found():
    for line in ("  expires_ms   20784 d 20 h", "  expires_ms  0 µs", "  at  1795810895764395", "  lag_max_us  0 µs",
                 '  listeners  [{"address":"shm"}]', "  different  []", "  taken  0.000285889", "  taken  2.9e-05",
                 "  fresh_ms  1,795,810,895,764"):
        assert list(faults(line)), line
    for line in ("  since_s  0 µs", "  lag_ms  10.0 ms", "  fresh  100 ms ago", "  version  redis 7.0.15",
                 "  bytes  0 B", "  taken  0.029 %", "  version  9,007,199,254,740,992"):
        assert not list(faults(line)), line


@pytest.fixture
def pair(bed):
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 300))
    pair.gateway = bed.gateway(pair.proxy)
    pair.gateway.wait_fresh()
    return pair


def test_every_field_of_every_answer_says_what_it_means(pair):
    pair.primary.command("SET", "expires", "v", "EX", HOUR_S)
    pair.primary.command("SET", "stays", "v")
    pair.settle()
    shown = {}
    for name, daemon in (("proxy", pair.proxy), ("agent", pair.agent), ("gateway", pair.gateway)):
        shown[f"{name} status"] = table(daemon, "status", "--all")
        shown[f"{name} summary"] = table(daemon, "status")
        shown[f"{name} history"] = table(daemon, "history")
    shown["agents"] = table(pair.proxy, "agents")
    shown["get of one that expires"] = table(pair.agent, "get", "expires")
    shown["get of one that stays"] = table(pair.agent, "get", "stays")
    shown["verify"] = table(pair.agent, "verify")
    shown["explain lag"] = table(pair.agent, "explain", "lag", pair.proxy.control)
    found = [(name, fault) for name, text in shown.items() for fault in faults(text)]
    assert found == [], "\n".join(map(str, found))


def field(text, name):
    return re.search(rf"^ +{name} +(.*)$", text, re.M).group(1)


def test_an_expiry_is_a_moment(pair):
    pair.primary.command("SET", "soon", "v", "EX", HOUR_S)
    pair.primary.command("SET", "stays", "v")
    pair.settle()
    assert re.fullmatch(r"in (59 min \d+ s|1 h 0 min)", field(table(pair.agent, "get", "soon"), "expires_ms"))
    assert field(table(pair.agent, "get", "stays"), "expires_ms") == "never"


def test_a_key_whose_time_has_passed_says_so(pair):
    """The proxy learns of an expiry when the primary deletes the key: until then the record is there."""
    pair.primary.command("CONFIG", "SET", "hz", 1)
    pair.primary.command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    at_ms = int(time.time() * 1000) + 50
    pair.primary.command("SET", "past", "v", "PXAT", at_ms)

    def is_past():
        done = pair.agent.ctl("get", "past")
        return done.returncode == 0 and json.loads(done.stdout)["expires_ms"] < time.time() * 1000
    wait_for(is_past, "the record of a key that is past does not arrive", 30)
    assert field(table(pair.agent, "get", "past"), "expires_ms").endswith(" ago")


def test_the_essentials_stay_on_a_terminal_of_24_lines(pair):
    pair.agent.ctl_ok("pause")
    for daemon, words in ((pair.proxy, {"since", "keys", "primary", "fresh", "agents"}),
                          (pair.agent, {"do", "since", "lag", "keys", "proxy", "server"}),
                          (pair.gateway, {"since", "age", "proxy", "clients"})):
        lines = printed(CTL, "-s", daemon.control, "status")
        assert len(lines) < 17 and max(map(len, lines)) < 80, lines
        assert lines[0].split(": ")[-1] == daemon.status()["state"], lines
        assert words <= {line.split()[0] for line in lines[1:]}, lines
        for command in (("status", "--all"), ("history",), ("metrics", "-o", "table")):
            assert max(map(len, printed(CTL, "-s", daemon.control, *command))) < 80
    shown = printed(CTL, "-s", pair.proxy.control, "agents")
    assert max(map(len, shown)) < 80 and not any("…" in line or "left out" in line for line in shown), shown
    assert any(re.search(r"(^| )peer |PEER", line) for line in shown), shown
