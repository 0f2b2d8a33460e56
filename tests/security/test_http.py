"""HTTP: who asks without the right to, or to do harm."""
import os
import socket
import time

import pytest

from lib import dump, http
from lib.daemon import free_port
from lib.process import wait_for

SECRET = "unguessable-5128-of-http"
CONNECTIONS = 32 # KW_HTTP_CONNECTIONS_MAX
LIFE = 10 # KW_HTTP_LIFE_MS, in seconds


@pytest.fixture
def address():
    return f"tcp://127.0.0.1:{free_port()}"


def dial(address):
    host, port = address.removeprefix("tcp://").rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def test_no_page_of_another_site_reads_a_port_of_loopback(bed, address):
    """DNS rebinding: the browser of this host asks with the name of the other site."""
    bed.proxy(bed.server("primary"), http__listen=address)
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example"):
        for path in ("/status", "/readyz", "/healthz"):
            code, text, headers = http.ask(address, path, Host=name, Origin=f"http://{name}")
            assert code == 421 and "redis" not in text, (name, path, text)
    code, _, headers = http.ask(address, "/status", Origin="http://evil.example")
    assert code == 200 and not [name for name in headers if name.lower().startswith("access-control")]
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_a_stranger_is_told_no_more_than_a_word(bed, address):
    proxy = bed.proxy(bed.server("primary"), http__listen=address, http__secret_file=bed.file("http", SECRET + "\n"))
    proxy.wait_live()
    for path in ("/status", "/", "/nothing"):
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic a2V5d2FrZTo="}):
            code, text, headers = http.ask(address, path, **given)
            assert code == 401 and headers["WWW-Authenticate"].startswith("Basic realm=")
            assert "live" not in text
    assert http.ask(address, "/readyz")[:2] == (200, "ready: live\n")
    assert http.ask(address, "/status", method="POST", Authorization=f"Bearer {SECRET}")[0] == 405


@pytest.mark.parametrize("told", ["over a unix socket", "with the secret", "to anybody at a port"])
def test_names_of_keys_are_told_to_those_who_may_know_them_alone(bed, address, told):
    """The agent has a key in quarantine: its server lacks the database."""
    primary, replica = bed.server("primary"), bed.server("replica", databases=4)
    primary.command("SET", "name-of-a-key", 1, db=9)
    if told == "over a unix socket":
        address = f"unix://{bed.directory}/http.sock"
    secret = {"http__secret_file": bed.file("http", SECRET + "\n")} if told == "with the secret" else {}
    given = {"Authorization": f"Bearer {SECRET}"} if secret else {}
    agent = bed.agent(bed.proxy(primary), replica, http__listen=address, **secret)
    agent.wait_status(lambda status: status["quarantined"] > 0, "no key is in quarantine", 60)
    code, text, _ = http.ask(address, "/status", **given)
    assert code == 200 and ("name-of-a-key" in text.replace(agent.status()["reason"], "")) == (
        told != "to anybody at a port"), text


def test_slow_clients_of_http_do_not_keep_others_out(bed, address):
    """More than there is room for, who send a byte now and then, and never a whole request."""
    bed.proxy(bed.server("primary"), http__listen=address)
    slow = [dial(address) for _ in range(3 * CONNECTIONS)]
    for client in slow:
        client.sendall(b"GET /status HTTP/1.1\r\nX: ")
    started = time.monotonic()
    assert http.ask(address, "/healthz")[0] == 200
    assert time.monotonic() - started < LIFE / 2, "it waited for the slow ones"
    for client in slow:
        drip(client)


def drip(client):
    """A byte a second does not make a connection last."""
    client.settimeout(1)
    until = time.monotonic() + 6 * LIFE
    while time.monotonic() < until:
        try:
            client.sendall(b"x")
            if client.recv(1000) == b"":
                return
        except TimeoutError:
            pass
        except OSError:
            return
    pytest.fail("a connection outlived its time")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can read another process's memory")
def test_the_secret_of_a_client_of_http_is_wiped(bed, address):
    """One that is right, one that is not, and one of a request that is refused. The daemon keeps its own copy."""
    wrong, refused = "wrong-" + SECRET[::-1], "refused-" + SECRET[::-1]
    proxy = bed.proxy(bed.server("primary"), http__listen=address, http__secret_file=bed.file("http", SECRET + "\n"))
    for method, given, code in (("GET", SECRET, 200), ("GET", wrong, 401), ("POST", refused, 405)):
        assert http.ask(address, "/status", method=method, Authorization=f"Bearer {given}")[0] == code
    # The daemon may hear later than we that a client has gone.
    wait_for(lambda: len(dump.places(proxy.pid, SECRET.encode())) == 1, lambda: dump.places(proxy.pid, SECRET.encode()))
    for gone in (wrong.encode(), refused.encode()):
        wait_for(lambda gone=gone: dump.places(proxy.pid, gone) == [], lambda gone=gone: dump.places(proxy.pid, gone))
