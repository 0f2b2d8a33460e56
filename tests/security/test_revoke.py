"""
`agents revoke` at a proxy that asks for certificates: what it matched is told, a typing error does not pass for done,
and a key can always be withdrawn. A reload that lets revoked ones in again says so.
"""
import json

import pytest

from lib.process import wait_for
from lib.rpc import RpcError
from lib.tls import Authority

NAMES_MOST = 256


def line(name, number, rules=""):
    return f"key {name} {f'{number:02x}' * 32} {rules}\n"


def files(authority, name, san):
    cert, key = authority.issue(name, san=san)
    return {"tls__ca": authority.ca, "tls__cert": cert, "tls__key": key}


def certified(bed, keys=""):
    """A proxy that asks for certificates over tcp+tls, and for keys over shm; and what an agent needs to enter."""
    authority, primary = Authority(bed.directory), bed.server("primary")
    primary.command("SET", "k", "v")
    more = {"auth__secret_file": "", "auth__keys_file": bed.file("keys", keys)} if keys else {}
    proxy = bed.proxy(primary, listen=("shm", "tcp+tls"), **more,
                      **files(authority, "proxy", "DNS:localhost,IP:127.0.0.1"))

    def agent(name):
        return bed.agent(proxy, bed.server("replica-" + name), name=name, via="tcp+tls",
                         **files(authority, name, "URI:keywake:" + name))
    return proxy, agent


def keyed(bed, proxy, name, number):
    return bed.agent(proxy, bed.server("replica-" + name), name=name, via="shm", auth__key_id=name,
                     auth__secret_file=bed.file(name + ".secret", f"{number:02x}" * 32))


def is_refused(agent):
    agent.wait_status(lambda status: status["state"] != "warm" and "refused" in status["reason"], "it is not refused")


@pytest.mark.quick
def test_a_name_that_nothing_has_is_remembered_and_told(bed):
    """`edge-l` for `edge-1`: exit status 2 and a sentence, and the agent that was meant goes on."""
    proxy, make = certified(bed)
    agent = make("edge-1")
    agent.wait_warm()
    done = proxy.ctl("agents", "revoke", "edge-l")
    assert done.returncode == 2, done
    assert "no key and no session" in done.stderr and "1 of 256" in done.stderr and "edge-l" in done.stderr, done.stderr
    answer = json.loads(done.stdout)
    assert (answer["keys"], answer["sessions"]) == (0, 0), answer
    agent.wait_warm()
    assert proxy.rpc("agents.revoke", id="edge-1") == {"revoked": "edge-1", "keys": 0, "sessions": 1,
                                                       "names_refused": 2, "names_most": NAMES_MOST}
    is_refused(agent)
    # Again, to be sure: it is refused as before, and nothing of that name is here any more.
    done = proxy.ctl("agents", "revoke", "edge-1")
    assert done.returncode == 2 and "2 of 256" in done.stderr, done


def test_a_name_that_is_not_connected_is_refused_when_it_comes(bed):
    proxy, make = certified(bed)
    assert proxy.ctl("agents", "revoke", "edge-1").returncode == 2
    agent = make("edge-1")
    is_refused(agent)
    answer = proxy.ctl_ok("config", "reload")
    assert answer["revocations_lifted"] == 1, answer
    agent.wait_warm()


@pytest.mark.quick
def test_a_key_is_withdrawn_even_if_no_further_name_can_be_remembered(bed):
    proxy, make = certified(bed, line("edge-1", 1) + line("edge-2", 2))
    agent, other, by_certificate = keyed(bed, proxy, "edge-1", 1), keyed(bed, proxy, "edge-2", 2), make("edge-9")
    for one in (agent, other, by_certificate):
        one.wait_warm()
    for number in range(NAMES_MOST):
        proxy.rpc("agents.revoke", id=f"gone-{number}")
    done = proxy.ctl("agents", "revoke", "edge-1")
    assert done.returncode == 2 and "its key is refused" in done.stderr and "tls.crl" in done.stderr, done
    is_refused(agent)
    # Without a key of that name nothing was done, and the sentence says so.
    with pytest.raises(RpcError, match="this one is not"):
        proxy.rpc("agents.revoke", id="edge-9")
    for one in (other, by_certificate):
        one.wait_warm()


def test_a_reload_counts_the_revocations_that_it_lifts(bed):
    """Three ids are revoked. One line is taken out, one is left, and one was a certificate's name as well."""
    primary = bed.server("primary")
    proxy = bed.proxy(primary, auth__secret_file="",
                      auth__keys_file=bed.file("keys", "".join(line(f"edge-{n}", n) for n in (1, 2, 3))))
    agent = keyed(bed, proxy, "edge-2", 2)
    agent.wait_warm()
    for number in (1, 2):
        assert proxy.ctl_ok("agents", "revoke", f"edge-{number}")["keys"] == 1
    is_refused(agent)
    bed.file("keys", line("edge-2", 2) + line("edge-3", 3))
    answer = proxy.ctl_ok("config", "reload")
    assert (answer["keys"], answer["revocations_lifted"]) == (2, 1), answer
    wait_for(lambda: "edge-2 was revoked, and this reload lets it in again" in proxy.output(), "the log does not say it")
    assert "edge-1 was revoked, and" not in proxy.output()
    agent.wait_warm()
    assert proxy.ctl_ok("config", "reload")["revocations_lifted"] == 0
