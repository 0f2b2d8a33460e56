"""keywakectl explain lag: a delay that was planted shows in its stage, and the sentence names the remedy."""
import contextlib
import itertools
import os
import signal
import time

import pytest

from lib import data
from lib.process import wait_for

NAMES = ["primary", "events", "wait", "fetch", "publish", "look", "read", "apply"]
STOPPED_MS = 500 # a server stands still for at least so long


def explain(pair, *words):
    return pair.agent.ctl_ok("explain", "lag", pair.proxy.control, *words)


def stages(told):
    return {row["stage"]: row for row in told["stages"]}


def begin_anew(pair):
    """All that was written is applied, and no figure is left of it."""
    pair.settle()
    explain(pair, "--reset")


@contextlib.contextmanager
def stands_still(server):
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.fixture
def pair(bed):
    return bed.pair(fill=lambda primary: data.fill_plain(primary, 10))


@pytest.mark.quick
@pytest.mark.notifications # a value of the stream is not fetched, and has no samples
def test_every_stage_has_samples_and_each_half_says_what_is_missing(pair):
    begin_anew(pair)
    numbers = itertools.count()

    def complete():
        pair.primary.command("SET", "key", next(numbers))
        rows = stages(explain(pair)) # fresh barriers, too: ten a second
        return list(rows) == NAMES and all(row["samples"] >= 5 for row in rows.values())
    wait_for(complete, lambda: f"a stage without samples: {explain(pair)}", 30)
    told = explain(pair)
    assert told["missing"] == "" and told["largest_p50"] in NAMES and told["remedy"]
    for row in told["stages"]:
        assert 0 <= row["p50_us"] <= row["p99_us"] <= row["max_us"], row
    alone = pair.proxy.ctl_ok("explain", "lag")
    assert list(stages(alone)) == NAMES[:5] and f"-s {pair.proxy.control} explain lag SOCKET" in alone["missing"]
    alone = pair.agent.ctl_ok("explain", "lag")
    assert list(stages(alone)) == NAMES[5:] and "the stages of the proxy" in alone["missing"]


def test_a_server_that_stands_still_shows_in_apply(pair):
    begin_anew(pair)
    with stands_still(pair.replica):
        pair.primary.command("SET", "key", "now")
        wait_for(lambda: pair.agent.status()["lag_ms"] >= STOPPED_MS, "the change never waits", 30)
    pair.settle()
    told = explain(pair)
    assert told["largest_p50"] == "apply", told
    assert stages(told)["apply"]["max_us"] >= STOPPED_MS * 900
    assert "the local server is slow to acknowledge" in told["remedy"]


def test_a_primary_that_stands_still_shows_in_primary(pair):
    begin_anew(pair)

    def is_old():
        return time.time() * 1e6 - pair.proxy.status()["fresh_us"] >= STOPPED_MS * 1000 * 1.5
    with stands_still(pair.primary):
        wait_for(is_old, "the barriers go on", 30)

    def longest():
        return stages(explain(pair))["primary"]["max_us"] or 0
    wait_for(lambda: longest() >= STOPPED_MS * 1000, lambda: f"not seen: {explain(pair)}", 30)


@pytest.mark.notifications # a value of the stream is not fetched, and has no samples
def test_a_limit_on_fetches_shows_in_wait_and_is_named(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), proxy={"source__keys_per_second": 300})
    begin_anew(pair)
    numbers = itertools.count()

    def is_seen():
        with pair.primary.client() as client, client.pipeline(transaction=False) as pipe:
            for _ in range(100):
                pipe.set(f"burst:{next(numbers)}", "value")
            pipe.execute()
        told = explain(pair)
        return told["largest_p50"] == "wait" and "source.keys_per_second holds fetching to 300" in told["remedy"]
    wait_for(is_seen, lambda: f"not seen: {explain(pair)}", 30, every=0.2)


def test_an_agent_that_seldom_looks_shows_in_look_and_the_key_is_named(bed):
    # Over shm the proxy would wake it.
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10), listen=("tcp",), via="tcp",
                    agent={"poll__idle_us": 1_000_000})
    begin_anew(pair)
    numbers = itertools.count()

    def is_seen():
        pair.primary.command("SET", "key", next(numbers))
        told = explain(pair)
        return told["largest_p50"] == "look" and "lower poll.idle_us" in told["remedy"]
    # The pauses between looks double while nothing changes.
    wait_for(is_seen, lambda: f"not seen: {explain(pair)}", 60, every=0.3)


def test_a_primary_that_hangs_is_what_both_halves_say(pair):
    begin_anew(pair)
    with stands_still(pair.primary):
        pair.agent.wait_state("stalled")
        told = explain(pair)["present"]
        assert told["proxy"].startswith("stalled: the primary has not answered for "), told
        assert told["agent"].startswith("stalled: the proxy's primary does not answer"), told
    pair.settle()


def test_a_gateway_says_where_to_ask(bed, pair):
    gateway = bed.gateway(pair.proxy)
    gateway.wait_serving()
    done = gateway.ctl("explain", "lag")
    assert done.returncode == 2 and "a gateway applies no changes" in done.stderr, done
    assert pair.proxy.address in done.stderr and "explain lag" in done.stderr and "age_ms" in done.stderr
