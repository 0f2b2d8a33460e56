"""Apply mode `replica` with a local server that replicates over TLS: the link speaks it, or the server is switched."""
import os

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.cursor import wait_cursor
from lib.process import wait_for
from lib.server import MATRIX
from lib.tls import Authority

SETTINGS = {"apply__mode": "replica", "apply__consent": True}


@pytest.fixture(params=MATRIX[:3])
def binary(request, need_server):
    need_server(request.param)
    return request.param


def begin(bed, binary="installed", fill=data.fill, **config):
    """A proxy, and a server that replicates over TLS; certificates of one CA."""
    primary = bed.server("primary", binary, tls=False)
    fill(primary)
    replica = bed.server("replica", binary, tls=True, tls_replication="yes", **config)
    return primary, bed.proxy(primary), replica


def certified(authority, name="agent"):
    cert, key = authority.pair(name)
    return {"tls__cert": cert, "tls__key": key}


def setting(server, name):
    with server.admin() as client:
        return client.config_get(name)[name]


def link(agent):
    return agent.status()["apply"]


def test_the_link_speaks_tls_and_goes_on_after_a_crash(bed, binary):
    primary, proxy, replica = begin(bed, binary)
    agent = bed.agent(proxy, replica, **SETTINGS, **certified(Authority(bed.directory)))
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert link(agent)["tls"] in ("software", "kernel")
    assert setting(replica, "tls-replication") == "yes"
    with primary.client() as client:
        client.set("large", os.urandom(5_000_000))
        client.mset({f"more:{i}": os.urandom(300) for i in range(3000)})
    agent.wait_warm()
    assert_equal_now(primary, replica)
    wait_cursor(agent)
    agent.kill()
    agent.restart()
    agent.wait_warm()
    assert (link(agent)["continuations"], link(agent)["full_syncs"]) == (1, 0)
    # Renewed certificates count for the next connection; the one that stands goes on.
    Authority(bed.directory).issue("agent")
    agent.ctl_ok("config", "reload")
    assert link(agent)["link"] == "online"
    data.fill(primary, (3,))
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert agent.ctl("shutdown", "--promote").returncode == 0
    wait_for(lambda: replica.command("ROLE")[0] == b"master", "the server is not promoted", 30)
    agent.wait_exit()
    assert (setting(replica, "masterauth"), setting(replica, "tls-replication")) == ("", "yes")


def test_a_switched_server_is_put_back(bed, binary):
    """Set to no for as long as the agent leads; an agent that was killed is remembered by the password."""
    primary, proxy, replica = begin(bed, binary)
    agent = bed.agent(proxy, replica, **SETTINGS, apply__replica__tls="switch", apply__on_shutdown="promote")
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert link(agent)["tls"] == "" and setting(replica, "tls-replication") == "no"
    before = setting(replica, "masterauth")
    assert before.startswith("keywake/disabled/tls/")
    wait_cursor(agent)
    agent.kill()
    assert setting(replica, "tls-replication") == "no"
    agent.restart()
    data.fill(primary, (3,))
    agent.wait_warm()
    # Another password, which remembers the same.
    assert setting(replica, "masterauth").startswith("keywake/disabled/tls/")
    assert setting(replica, "masterauth") != before
    assert_equal_now(primary, replica)
    assert link(agent)["continuations"] == 1
    assert agent.stop() == 0
    assert (setting(replica, "masterauth"), setting(replica, "tls-replication")) == ("", "yes")
    assert replica.command("ROLE")[0] == b"master"


def test_a_server_that_is_taken_by_others_gets_its_setting_back(bed):
    _, proxy, replica = begin(bed)
    agent = bed.agent(proxy, replica, **SETTINGS, apply__replica__tls="switch")
    agent.wait_warm()
    replica.command("REPLICAOF", "NO", "ONE")
    agent.wait_status(lambda status: "left alone" in (status["reason"] or ""), "the server is not left alone")
    wait_for(lambda: (setting(replica, "masterauth"), setting(replica, "tls-replication")) == ("", "yes"),
             "its settings are not put back", 30)


@pytest.mark.quick
def test_from_switch_to_follow(bed):
    """The operator gives the agent a certificate: the next agent sets the server back, and speaks TLS."""
    primary, proxy, replica = begin(bed)
    agent = bed.agent(proxy, replica, **SETTINGS, apply__replica__tls="switch")
    agent.wait_warm()
    wait_cursor(agent)
    assert agent.stop() == 0
    agent.settings.update({"apply.replica.tls": "follow",
                           **{key.replace("__", "."): value for key, value in
                              certified(Authority(bed.directory)).items()}})
    agent.start()
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert link(agent)["tls"] and setting(replica, "tls-replication") == "yes"
    assert link(agent)["continuations"] == 1


@pytest.mark.parametrize("settings, words", [
    ({}, "set tls.cert and tls.key"),
    ({"apply__replica__tls": "off"}, "apply.replica.tls=off"),
])
def test_a_server_that_cannot_be_led_is_left_as_it_is(bed, settings, words):
    _, proxy, replica = begin(bed)
    agent = bed.agent(proxy, replica, **SETTINGS, **settings)
    agent.wait_state("failed", reason=words)
    assert replica.command("ROLE")[0] == b"master"
    assert (setting(replica, "masterauth"), setting(replica, "tls-replication")) == ("", "yes")


def test_a_certificate_that_the_server_does_not_trust_is_told(bed):
    _, proxy, replica = begin(bed)
    agent = bed.agent(proxy, replica, **SETTINGS, **certified(Authority(bed.directory, "stranger")))
    agent.wait_status(lambda status: "add it to tls-ca-cert-file there" in (status["reason"] or ""),
                      "it is not told why the server does not come", 60)


def test_plain_bytes_do_not_leave_the_host(bed):
    _, proxy, replica = begin(bed)
    agent = bed.agent(proxy, replica, start=False, **SETTINGS, apply__replica__tls="switch",
                      apply__replica__listen="tcp://192.0.2.1:7380")
    agent.start(wait=False)
    assert agent.wait_exit() == 2
    assert "use follow, or a loopback address" in agent.output()
