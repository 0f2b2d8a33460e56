"""An address that leads elsewhere: each daemon, and the doctor, name what listens there. All of it is real."""
import json
import os
import subprocess

import pytest

from lib import data
from lib.daemon import AGENT, CTL, GATEWAY, PROXY, Proxy
from lib.ports import free_port, two_ports
from lib.process import SLOW, wait_for
from lib.sentinel import Sentinel
from lib.server import Server

pytestmark = pytest.mark.sanitize
PATIENCE = 60


def server(bed):
    """(host:port, what it is)"""
    port = free_port()
    bed.server("other", port=port, tls=False, bind="127.0.0.1")
    return f"127.0.0.1:{port}", "a Redis or Valkey server"


def server_over_tls(bed):
    other = Server(bed.directory, "other", tls=True)
    bed.servers.append(other)
    other.start()
    return f"127.0.0.1:{other.tls_port}", "speaks TLS"


def sentinel(bed):
    primary = bed.server("other", port=(port := free_port()), tls=False, bind="127.0.0.1")
    assert primary.alive
    watcher = Sentinel(bed.directory, 0, port)
    bed.servers.append(watcher)
    watcher.start()
    return f"{watcher.host}:{watcher.port}", "a Sentinel"


def bus(bed):
    port, above = two_ports(10000)
    bed.server("other", tls=False, port=port, bind="127.0.0.1", cluster_enabled="yes", databases=1)
    return f"127.0.0.1:{above}", "the cluster bus of a Redis server"


def page(bed):
    """The http.listen of a daemon."""
    port = free_port()
    bed.proxy(bed.server("other", tls=False), name="paged", listen=("shm",), http__listen=f"tcp://127.0.0.1:{port}")
    return f"127.0.0.1:{port}", "an HTTP server"


def table(bed):
    """The `listen` of a proxy."""
    proxy = bed.proxy(bed.server("other", tls=False), name="tabled", listen=("tcp",))
    return proxy.listen["tcp"].removeprefix("tcp://"), "the table of a keywake-proxy"


class At:
    """What a test may take for a server: an address."""

    def __init__(self, place, scheme="tcp"):
        self.address = f"{scheme}://{place}"


def names(daemon, what, state, code):
    return daemon.wait_status(lambda status: what in status["reason"] and status["state"] == state
                              and status["reason_code"] == code, f"not named: {what}", PATIENCE)


SERVERS = [server_over_tls, sentinel, bus, page, table]
TABLES = [server, server_over_tls, sentinel, bus, page]


@pytest.mark.parametrize("stranger", SERVERS)
def test_what_is_no_server_is_named_by_proxy_and_agent(bed, stranger):
    place, what = stranger(bed)
    proxy = bed.proxy(At(place), listen=("shm",))
    agent = bed.agent(proxy, At(place), via="shm")
    names(proxy, what, "source_down", "primary_refuses")
    names(agent, what, "failed", "local_unsupported")
    assert "rediss://" not in agent.status()["reason"] or stranger is server_over_tls


@pytest.mark.parametrize("stranger", TABLES)
def test_what_is_no_table_is_named_by_agent_and_gateway(bed, stranger):
    place, what = stranger(bed)
    proxy = Proxy(bed.directory, "nowhere", bed.server("primary"), listen=("tcp",))
    proxy.listen["tcp"] = f"tcp://{place}"
    agent = bed.agent(proxy, bed.server("replica"), via="tcp")
    gateway = bed.gateway(proxy, via="tcp")
    names(agent, what, "failed", "proxy_not_understood")
    names(gateway, what, "failed", "proxy_refuses")


def test_a_server_without_tls_is_named(bed):
    place, _ = server(bed)
    encrypted = Server(bed.directory, "primary", tls=True)
    proxy = bed.proxy(At(place, "rediss"), listen=("shm",), **{
        key.replace(".", "__"): value for key, value in encrypted.certificates.items()})
    names(proxy, "speaks no TLS: use redis://", "source_down", "primary_refuses")


def test_when_a_proxy_takes_the_place_of_a_stranger_the_agent_goes_on_by_itself(bed):
    port = free_port()
    other = bed.server("other", tls=False, port=port, bind="127.0.0.1")
    primary = bed.server("primary")
    data.fill_plain(primary, 10)
    proxy = Proxy(bed.directory, "proxy", primary, listen=("tcp",))
    proxy.listen["tcp"] = proxy.settings["listen"][0] = f"tcp://127.0.0.1:{port}"
    agent = bed.agent(proxy, bed.server("replica"), via="tcp")
    names(agent, "a Redis or Valkey server", "failed", "proxy_not_understood")
    other.kill()
    bed.daemons.append(proxy)
    proxy.start()
    agent.wait_warm()


def test_a_stranger_is_not_asked_again_and_again(bed):
    """A server in trouble has enough connections already."""
    port = free_port()
    other = bed.server("other", tls=False, port=port, bind="127.0.0.1")
    proxy = Proxy(bed.directory, "nowhere", bed.server("primary"), listen=("tcp",))
    proxy.listen["tcp"] = f"tcp://127.0.0.1:{port}"
    agent = bed.agent(proxy, bed.server("replica"), via="tcp")
    names(agent, "a Redis or Valkey server", "failed", "proxy_not_understood")
    before = agent.status()["reconnects"]
    agent.wait_status(lambda status: status["reconnects"] > before, "it tries no more", PATIENCE)
    assert other.command("INFO", "commandstats")["cmdstat_role"]["calls"] <= 2


def doctor(bed, program, settings):
    file = bed.file("doctor.json", json.dumps({"control.socket": os.path.join(bed.directory, "control"), **settings}))
    path = os.pathsep.join([*(os.path.dirname(each) for each in (PROXY, AGENT, GATEWAY)), os.environ["PATH"]])
    done = subprocess.run([CTL, "doctor", file, "--daemon", program, "--json"], capture_output=True, text=True,
                          timeout=20 * SLOW, env={**os.environ, "PATH": path}, check=False)
    return json.loads(done.stdout)["findings"] if done.stdout else []


@pytest.mark.parametrize("stranger", SERVERS)
def test_the_doctor_names_what_is_no_server(bed, stranger):
    place, what = stranger(bed)
    wanted = {"speaks TLS": "a port of TLS", "a Sentinel": "a Sentinel"}.get(what, what)

    def found():
        return any(one["severity"] == "wrong" and wanted in one["finding"] for one in doctor(bed, "proxy", {
            "redis.address": f"tcp://{place}", "listen": ["shm://" + os.path.join(bed.directory, "x.shm")]}))
    wait_for(found, lambda: f"{wanted}: {doctor(bed, 'proxy', {'redis.address': f'tcp://{place}'})}", PATIENCE)


@pytest.mark.parametrize("stranger", TABLES)
def test_the_doctor_names_what_is_no_table(bed, stranger):
    place, what = stranger(bed)
    replica = bed.server("replica")
    wanted = "a port of TLS" if what == "speaks TLS" else what
    settings = {"proxy": f"tcp://{place}", "redis.address": replica.address, **replica.certificates,
                "auth.allow_insecure": True}

    def found():
        return any(one["severity"] == "wrong" and "no keywake-proxy but " + wanted in one["finding"]
                   for one in doctor(bed, "agent", settings))
    wait_for(found, lambda: f"{wanted}: {doctor(bed, 'agent', settings)}", PATIENCE)
