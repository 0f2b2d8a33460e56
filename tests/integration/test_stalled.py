"""A primary that hangs is told within seconds, by each daemon, and costs nothing when it answers again."""
import os
import signal

import pytest

from lib import data, http
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

FEEDS = pytest.mark.parametrize("feed", ["notifications", "stream"])


def proxy_connections(server):
    """By their ids: another id is another connection."""
    with server.client() as client:
        return sorted(entry["id"] for entry in client.client_list() if "proxy" in entry["name"])


def listens(bed, name):
    return {"http__listen": f"unix://{os.path.join(bed.directory, name)}.http"}


@FEEDS
def test_a_primary_that_hangs_is_told_and_nothing_is_scanned_when_it_answers(bed, feed):
    """Sooner than the 30 s after which its connections are given up: then it is source_down."""
    pair = bed.pair(fill=data.fill, proxy={"source__feed": feed, **listens(bed, "proxy")})
    before, links = pair.proxy.status()["reconciles"], proxy_connections(pair.primary)
    pair.primary.signal(signal.SIGSTOP)
    status = pair.proxy.wait_state("stalled", reason="the primary has not answered for ")
    assert status["reason_code"] == "primary_silent", status
    pair.agent.wait_state("stalled", reason="the proxy's primary does not answer")
    assert pair.agent.status()["reason_code"] == "primary_silent"
    code, text, _ = http.ask(pair.proxy.settings["http.listen"], "/readyz")
    assert code == 503 and text.startswith("not ready: stalled, lag_ms "), text
    pair.primary.signal(signal.SIGCONT)
    pair.settle()
    after = pair.proxy.status()
    assert (after["state"], after["reconciles"]) == ("live", before)
    assert proxy_connections(pair.primary) == links
    assert [change["reason"] for change in pair.agent.rpc("history") if "faster than" in change["reason"]] == []
    said = [line for line in pair.proxy.output().splitlines() if "[primary_silent]" in line]
    assert len(said) == 1 and "WARN" in said[0].upper(), said


@FEEDS
def test_a_primary_that_hangs_in_the_first_scan_is_told(bed, feed):
    primary = bed.server("primary")
    data.fill_plain(primary, 2000)
    proxy = bed.proxy(primary, source__feed=feed, source__keys_per_second=50)
    proxy.wait_state("scanning")
    primary.signal(signal.SIGSTOP)
    proxy.wait_state("stalled")
    primary.signal(signal.SIGCONT)
    proxy.ctl_ok("config", "set", "source.keys_per_second", 0)
    proxy.wait_live()
    assert proxy.status()["reconciles"] == 0


def test_a_proxy_that_was_stopped_itself_does_not_blame_the_primary(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 10))
    pair.proxy.signal(signal.SIGSTOP)
    pair.agent.wait_state("stalled", reason="the proxy's heartbeat stopped 5 s ago")
    pair.proxy.signal(signal.SIGCONT)
    pair.settle()
    assert "stalled" not in [change["state"] for change in pair.proxy.rpc("history")]


def test_a_gateway_names_the_primary_that_hangs(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 10)
    gateway = bed.gateway(bed.proxy(primary), gateway__max_staleness_ms=2000)
    gateway.wait_serving()
    primary.signal(signal.SIGSTOP)
    gateway.wait_state("stale", reason="the primary does not answer its proxy")
    primary.signal(signal.SIGCONT)
    gateway.wait_serving()
    wait_for(lambda: gateway.status()["state"] == "serving", "it does not serve")
