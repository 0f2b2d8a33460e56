"""
A host that all goes through: with TLS it reads no value, no name and no password. The same without TLS shows that it
would.
"""
import os
import uuid

import pytest
import redis

from lib.daemon import GATEWAY, free_port
from lib.tap import Tap
from lib.tls import Authority

MARK = uuid.uuid4().hex.encode() # no server makes it shorter
NAME = b"name-of-a-key-like-no-other"
PASSWORD = "a-password-that-passes-by"
SECRETS = (MARK, NAME, PASSWORD.encode())

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can listen on the wire")


def heard(tap):
    return {word for word in SECRETS if word in tap.heard}


def fill(primary):
    with primary.client() as client:
        for number in range(50):
            client.set(NAME + b"%d" % number, MARK)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_tap_between_daemons_and_their_servers_reads_nothing(bed, tls):
    servers = [bed.server(name, tls=tls, port=0 if tls else free_port(), requirepass=PASSWORD)
               for name in ("primary", "replica")]
    addresses = [server.address if tls else f"tcp://127.0.0.1:{server.config['port']}" for server in servers]
    file = bed.file("password", PASSWORD + "\n")
    with Tap(*(int(address.rsplit(":", 1)[1]) for address in addresses)) as tap:
        proxy = bed.proxy(servers[0], listen=("shm",), redis__address=addresses[0], redis__password_file=file)
        with servers[0].client(password=PASSWORD) as client: # over its unix socket
            client.set(NAME, MARK)
        agent = bed.agent(proxy, servers[1], via="shm", redis__address=addresses[1], redis__password_file=file)
        agent.wait_warm()
    assert len(tap.heard) > 1000
    assert heard(tap) == (set() if tls else set(SECRETS))


@pytest.mark.parametrize("carrier", ["tcp", "tcp+tls"])
def test_a_tap_between_an_agent_and_its_proxy_reads_nothing(bed, carrier):
    authority = Authority(bed.directory)
    primary = bed.server("primary")
    fill(primary)
    sides = [authority.wire(name) for name in ("proxy", "agent")] if carrier == "tcp+tls" else [{}, {}]
    proxy = bed.proxy(primary, listen=(carrier,), **sides[0])
    proxy.wait_live()
    with Tap(int(proxy.listen[carrier].rsplit(":", 1)[1])) as tap:
        bed.agent(proxy, bed.server("replica"), via=carrier, **sides[1]).wait_warm()
    assert len(tap.heard) > 1000
    assert heard(tap) == (set() if carrier == "tcp+tls" else {MARK, NAME})


@pytest.mark.parametrize("scheme", ["tcp", "tls"])
def test_a_tap_between_a_gateway_and_its_clients_reads_nothing(bed, scheme):
    if not os.path.exists(GATEWAY):
        pytest.skip("version 0.1 has no gateway")
    authority, port = Authority(bed.directory), free_port()
    cert, key = authority.pair("front")
    files = {"gateway__tls__ca": authority.ca, "gateway__tls__cert": cert, "gateway__tls__key": key}
    bed.served(fill=fill, gateway__resp=[f"{scheme}://127.0.0.1:{port}"], gateway__memcached=[],
               gateway__allow_insecure=scheme == "tcp",
               gateway__users_file=bed.file("users", f"user app on >{PASSWORD} ~* +@all\n"),
               **(files if scheme == "tls" else {}))
    cert, key = authority.pair("client")
    options = {"ssl": True, "ssl_ca_certs": authority.ca, "ssl_certfile": cert, "ssl_keyfile": key} \
        if scheme == "tls" else {}
    with Tap(port) as tap, redis.Redis("127.0.0.1", port, username="app", password=PASSWORD, **options) as client:
        assert client.get(NAME + b"7") == MARK
    assert len(tap.heard) > 100
    assert heard(tap) == (set() if scheme == "tls" else set(SECRETS))


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_a_tap_on_the_link_of_mode_replica_reads_nothing(bed, tls):
    """The server is told the agent's own password there, not the operator's; values are the same."""
    authority, port = Authority(bed.directory), free_port()
    primary = bed.server("primary")
    fill(primary)
    replica = bed.server("replica", tls=tls, **({"tls_replication": "yes"} if tls else {}))
    cert, key = authority.pair("agent")
    with Tap(port) as tap:
        agent = bed.agent(bed.proxy(primary), replica, apply__mode="replica", apply__consent=True,
                          apply__replica__listen=f"tcp://127.0.0.1:{port}",
                          **({"tls__cert": cert, "tls__key": key} if tls else {}))
        agent.wait_warm()
    assert len(tap.heard) > 1000
    assert heard(tap) == (set() if tls else {MARK, NAME})
