"""Connections to servers over TLS: rediss://, certificates on both ends, and what is said when they do not fit."""
import os
import shutil
import socket
import threading

import pytest

from lib.daemon import MODES
from lib.ports import free_port
from lib.server import MATRIX
from lib.tls import Authority


def over_tls(bed, binary="installed", **config):
    return bed.server("primary", binary, tls=True, **config)


def refused(bed, primary, words, state="source_down", **settings):
    """A proxy does not get to its primary, and its reason holds the words."""
    proxy = bed.proxy(primary, **settings)
    proxy.wait_state(state, reason=words)
    return proxy


@pytest.mark.parametrize("binary", MATRIX)
def test_a_pair_is_level_over_mutual_tls(bed, binary):
    primary = over_tls(bed, binary)
    replica = bed.server("replica", binary, tls=True)
    with primary.client() as client:
        client.mset({f"key:{i}": os.urandom(50) for i in range(2000)})
        client.set("large", os.urandom(3_000_000))
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    with primary.client() as client:
        client.hset("hash", mapping={f"f{i}": "v" * 100 for i in range(3000)})
        client.set("later", os.urandom(2_000_000))
        client.delete("key:7")
        agent.wait_warm()
        assert client.execute_command("DEBUG", "DIGEST") == replica.command("DEBUG", "DIGEST")
    # Nothing of it went over another connection.
    for server, name in ((primary, "keywake-proxy"), (replica, "keywake-agent")):
        with server.client() as client:
            ours = [peer for peer in client.client_list() if peer["name"].startswith(name)]
        assert ours and all(peer["laddr"].endswith(f":{server.tls_port}") for peer in ours), ours


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_servers_that_speak_tls_1_2_alone_are_reached(bed, mode):
    """In mode replica the server is the client of the agent's link."""
    primary = over_tls(bed, tls_protocols="TLSv1.2")
    replica = bed.server("replica", tls=True, tls_protocols="TLSv1.2", tls_replication="yes")
    with primary.client() as client:
        client.mset({f"key:{i}": os.urandom(50) for i in range(2000)})
    cert, key = Authority(bed.directory).pair("agent")
    link = {"tls__cert": cert, "tls__key": key} if mode == "replica" else {}
    agent = bed.agent(bed.proxy(primary), replica, **MODES[mode], **link)
    agent.wait_warm()
    primary.command("SET", "later", os.urandom(1_000_000))
    agent.wait_warm()
    assert primary.command("DEBUG", "DIGEST") == replica.command("DEBUG", "DIGEST")


def test_what_does_not_fit_is_told_over_tls_1_2(bed):
    """There the alert comes within the handshake."""
    primary = over_tls(bed, tls_protocols="TLSv1.2")
    refused(bed, primary, "demands a client certificate: set redis.tls.cert and redis.tls.key", name="without",
            redis__tls__cert="", redis__tls__key="")
    stranger = Authority(bed.directory, "stranger").settings()
    refused(bed, primary, "does not accept the CA of our certificate", name="stranger",
            redis__tls__cert=stranger["redis.tls.cert"], redis__tls__key=stranger["redis.tls.key"])
    refused(bed, primary, "its certificate is not signed by a CA of redis.tls.ca", name="believes another",
            redis__tls__ca=stranger["redis.tls.ca"])


def test_a_gateway_forwards_over_tls(bed):
    primary = over_tls(bed)
    proxy = bed.proxy(primary)
    gateway = bed.gateway(proxy, gateway__forward=True, redis__address=primary.address)
    gateway.wait_fresh()
    with gateway.client() as client:
        client.set("written", "through")
    with primary.client() as client:
        assert client.get("written") == b"through"


def test_a_certificate_of_another_ca_is_told(bed):
    primary = over_tls(bed)
    stranger = Authority(bed.directory, "stranger")
    refused(bed, primary, "its certificate is not signed by a CA of redis.tls.ca", redis__tls__ca=stranger.ca)


def test_an_expired_certificate_is_told(bed):
    cert, key = Authority(bed.directory).issue("old", days=-1)
    refused(bed, over_tls(bed, tls_cert_file=cert, tls_key_file=key), "its certificate expired on ")


def test_a_wrong_name_is_told_and_can_be_set(bed):
    cert, key = Authority(bed.directory).issue("named", "DNS:db.example")
    primary = over_tls(bed, tls_cert_file=cert, tls_key_file=key)
    proxy = refused(bed, primary, "is for db.example, not 127.0.0.1: set redis.tls.server_name")
    proxy.stop()
    bed.proxy(primary, name="named", redis__tls__server_name="db.example").wait_live()


def test_a_server_that_demands_a_certificate_is_told(bed):
    refused(bed, over_tls(bed), "demands a client certificate: set redis.tls.cert and redis.tls.key",
            redis__tls__cert="", redis__tls__key="")


def test_a_certificate_that_the_server_does_not_accept_is_told(bed):
    stranger = Authority(bed.directory, "stranger").settings()
    refused(bed, over_tls(bed), "does not accept the CA of our certificate",
            redis__tls__cert=stranger["redis.tls.cert"], redis__tls__key=stranger["redis.tls.key"])


def test_without_a_certificate_of_ours_if_none_is_demanded(bed):
    bed.proxy(over_tls(bed, tls_auth_clients="no"), redis__tls__cert="", redis__tls__key="").wait_live()


def test_a_plain_connection_to_a_port_of_tls_is_told(bed):
    primary = over_tls(bed)
    refused(bed, primary, "use rediss://", redis__address=primary.address.replace("rediss://", "redis://"),
            redis__tls__ca="", redis__tls__cert="", redis__tls__key="")


def test_tls_to_a_plain_port_is_told(bed):
    port = free_port()
    primary = bed.server("primary", tls=False, port=port)
    authority = Authority(bed.directory)
    refused(bed, primary, "use redis://", redis__address=f"rediss://127.0.0.1:{port}", redis__tls__ca=authority.ca)


def test_certificates_are_renewed_while_it_runs(bed):
    """Another CA for both ends: connections that stand go on, and the next one shows what a reload has read."""
    primary = over_tls(bed)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    files = primary.certificates
    second = Authority(bed.directory, "second").settings()
    cert, key = Authority(bed.directory, "second").pair("server")
    with primary.client() as client:
        client.config_set("tls-ca-cert-file", second["redis.tls.ca"])
        client.execute_command("CONFIG", "SET", "tls-cert-file", cert, "tls-key-file", key)
    assert proxy.status()["state"] == "live"
    # A file that is not valid refuses the reload, and the old ones stay.
    shutil.copy(second["redis.tls.cert"], files["redis.tls.cert"])
    done = proxy.ctl("config", "reload")
    assert done.returncode != 0 and "redis.tls.key" in done.stderr + done.stdout, done
    assert "certificates stay as they were" in done.stderr + done.stdout
    assert proxy.status()["state"] == "live"
    shutil.copy(second["redis.tls.key"], files["redis.tls.key"])
    shutil.copy(second["redis.tls.ca"], files["redis.tls.ca"])
    proxy.ctl_ok("config", "reload")
    assert proxy.status()["state"] == "live"
    with primary.client() as client:
        client.client_kill_filter(_type="normal", skipme=True)
        client.client_kill_filter(_type="pubsub", skipme=True)
        client.set("after", "it")
    proxy.wait_status(lambda status: status["state"] == "live" and status["keys"] == 1,
                      "it does not come back with the new certificates", 60)


def test_a_key_that_others_may_read_is_refused_at_the_start(bed):
    primary = over_tls(bed)
    os.chmod(primary.certificates["redis.tls.key"], 0o644)
    proxy = bed.proxy(primary, start=False)
    proxy.start(wait=False)
    assert proxy.popen.wait(30) == 2
    assert "redis.tls.key" in proxy.output() and "chmod o-rwx" in proxy.output()


def test_certificates_without_tls_are_refused_at_the_start(bed):
    primary = bed.server("primary", tls=False)
    proxy = bed.proxy(primary, start=False, redis__tls__ca=Authority(bed.directory).ca)
    proxy.start(wait=False)
    assert proxy.popen.wait(30) == 2
    assert "redis.address is not rediss://" in proxy.output()


class Shredder:
    """A relay that passes one byte at a time for a while: records come apart at each place."""

    def __init__(self, port, whole_after=6000):
        self.to, self.whole_after = port, whole_after
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self.to))
            for end in (near, far):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self.pass_on, args=(source, sink), daemon=True).start()

    def pass_on(self, source, sink):
        passed = 0
        try:
            while True:
                data = source.recv(1 if passed < self.whole_after else 65536)
                if not data:
                    break
                sink.sendall(data)
                passed += len(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.listener.close()


def test_records_that_come_in_single_bytes_are_understood(bed):
    primary = over_tls(bed)
    with primary.client() as client:
        client.mset({f"key:{i}": "v" * 20 for i in range(100)})
    relay = Shredder(primary.tls_port)
    try:
        proxy = bed.proxy(primary, redis__address=f"rediss://127.0.0.1:{relay.port}")
        proxy.wait_live()
        assert proxy.status()["keys"] == 100
    finally:
        relay.close()
