"""
tcp+tls between agents, gateways and a proxy: certificates let in and name who it is, with real servers. What the
bytes do is tested in tests/unit/remote/test_wire_tls.c.
"""
import os
import subprocess

import pytest

from lib.compare import assert_equal_now
from lib.process import wait_for
from lib.tls import Authority


def files(prefix, authority, name, san="DNS:localhost,IP:127.0.0.1"):
    cert, key = authority.issue(name, san=san)
    return {prefix + "__ca": authority.ca, prefix + "__cert": cert, prefix + "__key": key}


def sessions(proxy):
    """The agents that are connected, by whom they are."""
    return {session["principal"]: session for session in proxy.rpc("agents.list")}


def begin(bed):
    """A proxy whose agents need certificates of its CA, and no secret."""
    authority = Authority(bed.directory)
    primary = bed.server("primary")
    for number in range(200):
        primary.command("SET", f"key:{number}", f"value {number}")
    proxy = bed.proxy(primary, listen=("tcp+tls",), **files("tls", authority, "proxy"))
    return authority, primary, proxy


def edge(bed, authority, proxy, name, start=True, **settings):
    mine = files("tls", authority, name, san="URI:keywake:" + name)
    return bed.agent(proxy, bed.server("replica-" + name), name=name, via="tcp+tls", start=start,
                     **{**mine, **settings})


def test_a_certificate_whose_name_has_a_scope_gets_its_part(bed):
    """The rules of a key hold for a certificate of its name: the proxy hides the rest over tcp+tls, too."""
    authority = Authority(bed.directory)
    primary = bed.server("primary")
    for number in range(2000):
        primary.command("SET", f"session:{number}", f"value {number}" * 20)
        primary.command("SET", f"other:{number}", f"value {number}" * 20)
    keys = bed.file("keys", f"key edge-1 {'ab' * 32} prefix=session:\n")
    proxy = bed.proxy(primary, listen=("tcp+tls",), auth__secret_file="", auth__keys_file=keys,
                      **files("tls", authority, "proxy"))
    agent = edge(bed, authority, proxy, "edge-1", filter__prefixes=["session:"])
    agent.wait_warm()
    assert agent.replica.command("DBSIZE") == 2000
    primary.command("SET", "session:new", "1")
    agent.wait_warm()
    assert agent.replica.command("GET", "session:new") == b"1"
    agent.settings["filter.prefixes"] = []
    agent.stop()
    agent.start(wait=False)
    agent.wait_status(lambda status: "set filter.databases and filter.prefixes" in status["reason"], "it follows")
    assert agent.replica.command("DBSIZE") == 2001


def speaks(port, version, authority):
    done = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{port}", version, "-CAfile", authority.ca],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    return "BEGIN CERTIFICATE" in done.stdout


def test_tls_1_2_is_enough(bed):
    """OpenSSL of the proxy's host may know no more. The proofs are bound to the connection there, too."""
    authority = Authority(bed.directory)
    primary = bed.server("primary")
    primary.command("SET", "key", "value")
    proxy = bed.proxy(primary, listen=("tcp+tls",), start=False, **files("tls", authority, "proxy"))
    config = bed.file("openssl.cnf", "openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = most\n"
                      "[most]\nMaxProtocol = TLSv1.2\n")
    secret = bed.file("secret", "the secret of both ends\n")
    proxy.settings["auth.secret_file"] = secret
    proxy.env = {**proxy.env, "OPENSSL_CONF": config}
    proxy.start()
    port = int(proxy.address.rsplit(":", 1)[1])
    assert speaks(port, "-tls1_2", authority) and not speaks(port, "-tls1_3", authority)
    agent = edge(bed, authority, proxy, "edge-1", auth__secret_file=secret)
    agent.wait_warm()
    assert_equal_now(primary, agent.replica)
    # The next connection resumes.
    proxy.ctl_ok("disconnect", sessions(proxy)["edge-1"]["id"])
    primary.command("SET", "later", 1)
    agent.wait_warm()
    assert_equal_now(primary, agent.replica)


@pytest.mark.quick
def test_certificates_let_in_name_and_end(bed):
    """No secret anywhere. One of two agents is revoked by name, and comes back after a reload; the other goes on."""
    authority, primary, proxy = begin(bed)
    first, second = (edge(bed, authority, proxy, name) for name in ("edge-1", "edge-2"))
    for agent in (first, second):
        agent.wait_warm()
        assert_equal_now(primary, agent.replica)
    before = sessions(proxy)
    assert set(before) == {"edge-1", "edge-2"}
    assert {session["carrier"] for session in before.values()} == {"tcp+tls"}
    assert {session["tls"] for session in before.values()} <= {"software", "kernel"}
    assert proxy.rpc("agents.revoke", id="edge-1") == {
        "revoked": "edge-1", "keys": 0, "sessions": 1, "names_refused": 1, "names_most": 256}
    first.wait_status(lambda status: "is revoked" in status["reason"], "it is not refused")
    assert sessions(proxy)["edge-2"]["id"] == before["edge-2"]["id"]
    # Renewed files are taken up, and who is connected goes on.
    for path in ("proxy", "edge-1"):
        authority.issue(path, san="DNS:localhost,IP:127.0.0.1" if path == "proxy" else "URI:keywake:edge-1")
    answer = proxy.ctl_ok("config", "reload")
    assert (answer["reloaded"], answer["revoked"]) == (True, 0), answer
    first.ctl_ok("config", "reload")
    primary.command("SET", "written", "meanwhile")
    for agent in (first, second):
        agent.wait_warm()
        assert_equal_now(primary, agent.replica)
        assert agent.status()["snapshots"] == 1
    assert sessions(proxy)["edge-2"]["id"] == before["edge-2"]["id"]


def test_a_gateway_reads_through_tls(bed):
    authority, _, proxy = begin(bed)
    gateway = bed.gateway(proxy, via="tcp+tls", gateway__max_staleness_ms=60_000,
                          **files("tls", authority, "front", san="DNS:front.example"))
    gateway.wait_fresh()
    with gateway.client() as client:
        assert client.get("key:7") == b"value 7"
    wait_for(lambda: "front.example" in sessions(proxy), "the gateway is not listed by its certificate", 30)
    assert sessions(proxy)["front.example"]["role"] == "gateway"


def test_what_does_not_fit_is_told_by_both(bed):
    """Another CA, and no certificate."""
    authority, _, proxy = begin(bed)
    stranger = Authority(bed.directory, "other")
    wrong = edge(bed, stranger, proxy, "edge-3", tls__ca=authority.ca)
    wrong.wait_status(lambda status: "does not accept the CA of our certificate" in status["reason"],
                      "the agent does not say why")
    wait_for(lambda: "not signed by a CA of tls.ca" in proxy.output(), "the proxy does not say why", 30)
    bare = edge(bed, authority, proxy, "edge-4", tls__cert="", tls__key="")
    bare.wait_status(lambda status: "demands a client certificate" in status["reason"], "the agent does not say why")
    lost = edge(bed, authority, proxy, "edge-5", tls__ca=stranger.ca)
    lost.wait_status(lambda status: "its certificate is not signed by a CA of tls.ca" in status["reason"],
                     "the agent does not say why")


def test_files_that_do_not_fit_change_nothing(bed):
    authority, primary, proxy = begin(bed)
    agent = edge(bed, authority, proxy, "edge-1")
    agent.wait_warm()
    before = sessions(proxy)["edge-1"]["id"]
    with open(proxy.settings["tls.cert"], "w", encoding="ascii") as stream:
        stream.write("no certificate\n")
    done = proxy.ctl("config", "reload")
    assert done.returncode != 0
    assert "tls.cert" in done.stderr and "stay as they were" in done.stderr, done.stderr
    primary.command("SET", "still", "read")
    agent.wait_warm()
    assert sessions(proxy)["edge-1"]["id"] == before
    os.chmod(proxy.settings["tls.key"], 0o644)
    done = proxy.ctl("config", "reload")
    assert done.returncode != 0 and "tls.key" in done.stderr and "chmod" in done.stderr, done.stderr


def test_an_address_of_tls_needs_a_certificate(bed):
    primary = bed.server("primary")
    proxy = bed.proxy(primary, listen=("tcp+tls",), start=False)
    proxy.start(wait=False)
    assert proxy.wait_exit() == 2
    assert "needs a certificate: set tls.cert and tls.key" in proxy.output()
