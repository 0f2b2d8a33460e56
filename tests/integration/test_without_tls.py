"""Daemons of a build with -Dtls=disabled: all that is plain works, and what asks for TLS is refused by name."""
import os

import pytest

from lib import data
from lib.daemon import BUILD
from lib.server import TLS

REFUSALS = ("this build has no TLS", "this build has no tcp+tls carrier")
pytestmark = pytest.mark.skipif(TLS, reason="KW_TLS=1: everything is over TLS")


def without_tls(daemon):
    """The program beside the one of this build, or that one: it may have no TLS either."""
    program = os.path.join(BUILD, "tests", "without-tls", os.path.basename(daemon.program))
    if os.path.exists(program):
        daemon.program = program
    return daemon


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_a_pair_and_a_gateway_work_without_tls(bed, carrier):
    primary = bed.server("primary")
    data.fill_plain(primary, 300)
    proxy = without_tls(bed.proxy(primary, listen=(carrier,), start=False)).start()
    agent = without_tls(bed.agent(proxy, bed.server("replica"), via=carrier, start=False)).start()
    gateway = without_tls(bed.gateway(proxy, via=carrier, start=False)).start()
    agent.wait_warm()
    assert agent.replica.command("DBSIZE") == primary.command("DBSIZE")
    gateway.wait_fresh()
    assert gateway.client().get("key:1") == primary.command("GET", "key:1")


@pytest.mark.parametrize("daemon, settings", [
    ("proxy", {"redis.address": "rediss://127.0.0.1:7000"}),
    ("proxy", {"authority.by": "sentinel", "sentinel.name": "kw", "sentinel.addresses": ["rediss://127.0.0.1:7000"]}),
    ("proxy", {"listen": ["tcp+tls://127.0.0.1:0"], "tls.ca": "/etc/ssl/ca.pem"}),
    ("agent", {"redis.address": "rediss://127.0.0.1:7000"}),
    ("agent", {"proxy": "tcp+tls://127.0.0.1:7000", "tls.ca": "/etc/ssl/ca.pem"}),
    ("gateway", {"gateway.forward": True, "redis.address": "rediss://127.0.0.1:7000"}),
])
def test_what_asks_for_tls_is_refused_by_name(bed, daemon, settings):
    server = bed.server("server", start=False)
    made = bed.proxy(server, start=False)
    if daemon == "agent":
        made = bed.agent(made, server, start=False)
    elif daemon == "gateway":
        made = bed.gateway(made, start=False)
    made.settings.update(settings)
    without_tls(made).start(wait=False)
    assert made.wait_exit() == 2
    assert any(refusal in made.output() for refusal in REFUSALS), made.output()
