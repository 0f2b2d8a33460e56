"""Clients of a gateway over TLS: redis-py and memcached's text, certificates, floods of silent ones, renewal."""
import contextlib
import os
import shutil
import socket
import ssl

import pytest
import redis

from lib.daemon import free_port
from lib.process import wait_for
from lib.tls import Authority


def files(authority, name="front", ca=True):
    cert, key = authority.pair(name)
    return {"gateway__tls__cert": cert, "gateway__tls__key": key, **({"gateway__tls__ca": authority.ca} if ca else {})}


class Served:
    """A gateway with one address of TLS for each protocol, and nothing else that is open to a port."""

    def __init__(self, bed, ca=True, **settings):
        self.authority = Authority(bed.directory)
        self.resp, self.memcached = free_port(), free_port()
        self.primary, _, self.gateway = bed.served(fill=fill, **{
            "gateway__resp": [f"tls://127.0.0.1:{self.resp}", "unix://" + os.path.join(bed.directory, "gateway.resp")],
            "gateway__memcached": [f"tls://127.0.0.1:{self.memcached}"] if ca else [],
            "gateway__allow_insecure": not ca, **files(self.authority, ca=ca), **settings})

    def client(self, name="client", **options):
        """redis-py; name None: without a certificate."""
        if name:
            options["ssl_certfile"], options["ssl_keyfile"] = self.authority.pair(name)
        return redis.Redis(host="127.0.0.1", port=self.resp, ssl=True, ssl_ca_certs=self.authority.ca,
                           socket_timeout=60, **options)

    def context(self, name="client", version=None):
        context = ssl.create_default_context(cafile=self.authority.ca)
        if name:
            context.load_cert_chain(*self.authority.pair(name))
        if version:
            context.minimum_version = context.maximum_version = version
        return context

    def closed(self, why):
        return self.gateway.status()["clients_closed"][why]


def fill(primary):
    with primary.client() as client:
        client.mset({f"key:{number}": f"value {number}" for number in range(500)})
        client.set("large", b"x" * 3_000_000)


@pytest.mark.quick
def test_clients_with_certificates_are_served(bed):
    served = Served(bed)
    with served.client() as client:
        assert client.get("key:7") == b"value 7"
        assert client.get("large") == b"x" * 3_000_000
        pipeline = client.pipeline(transaction=False)
        for number in range(500):
            pipeline.get(f"key:{number}")
        assert pipeline.execute() == [f"value {number}".encode() for number in range(500)]
        assert client.mget("key:1", "none", "large") == [b"value 1", None, b"x" * 3_000_000]
    with socket.create_connection(("127.0.0.1", served.memcached), 60) as plain, \
            served.context().wrap_socket(plain, server_hostname="localhost") as client:
        client.sendall(b"get key:7\r\n")
        answer = b""
        while not answer.endswith(b"END\r\n"):
            answer += client.recv(4096)
        assert answer == b"VALUE key:7 0 7\r\nvalue 7\r\nEND\r\n"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_request_may_come_in_records_of_one_byte(bed, version):
    """And many requests in one record: what TLS holds is answered without another byte of the client."""
    served = Served(bed)
    with socket.create_connection(("127.0.0.1", served.resp), 60) as plain, \
            served.context(version=version).wrap_socket(plain, server_hostname="localhost") as client:
        for byte in b"*2\r\n$3\r\nGET\r\n$5\r\nkey:7\r\n":
            client.sendall(bytes([byte]))
        assert client.recv(100) == b"$7\r\nvalue 7\r\n"
        client.sendall(b"*2\r\n$3\r\nGET\r\n$5\r\nkey:7\r\n" * 2000)
        answer = b""
        while len(answer) < 2000 * 13:
            answer += client.recv(65536)
        assert answer == b"$7\r\nvalue 7\r\n" * 2000


def test_who_is_let_in(bed):
    served = Served(bed)
    stranger = Authority(bed.directory, "stranger")
    for cert in (None, stranger.pair("client")):
        context = served.context(None)
        if cert:
            context.load_cert_chain(*cert)
        before = served.closed("handshake")
        with pytest.raises(OSError), socket.create_connection(("127.0.0.1", served.resp), 60) as plain, \
                context.wrap_socket(plain, server_hostname="localhost") as client:
            client.sendall(b"PING\r\n")
            if not client.recv(1):
                raise OSError("it was closed")
        wait_for(lambda: served.closed("handshake") > before, "it is not counted", 30)
    # The first one; more would fill the log.
    assert "a Redis client is refused: the client showed no certificate" in served.gateway.output()
    # A plain client gets no answer, and others are served on.
    with socket.create_connection(("127.0.0.1", served.resp), 60) as plain:
        plain.sendall(b"PING\r\n")
        plain.settimeout(60)
        assert b"PONG" not in plain.recv(100)
    with served.client() as client:
        assert client.ping()


def test_without_a_ca_users_log_in(bed):
    users = bed.file("users.acl", "user reader on >secret ~* +@read +ping +auth +hello +client\nuser default off\n")
    served = Served(bed, ca=False, gateway__users_file=users)
    with served.client(None, username="reader", password="secret") as client:
        assert client.get("key:7") == b"value 7"
    with served.client(None) as client, pytest.raises(redis.exceptions.AuthenticationError):
        client.get("key:7")


def test_silent_connections_hold_no_place(bed):
    """Many more than there are places for clients, and none of them says a word."""
    served = Served(bed, gateway__max_clients=20)
    silent = [socket.create_connection(("127.0.0.1", served.resp), 60) for _ in range(700)]
    try:
        with served.client() as client:
            assert client.get("key:7") == b"value 7"
        wait_for(lambda: served.closed("handshake") >= 180, "the oldest are not closed", 30)
        assert served.gateway.status()["clients"] < 20
        assert served.closed("full") == 0
    finally:
        for one in silent:
            one.close()


def test_one_too_many_is_told_so(bed):
    served = Served(bed, gateway__max_clients=1)
    with served.client(single_connection_client=True) as first:
        assert first.ping()
        with socket.create_connection(("127.0.0.1", served.resp), 60) as plain, \
                served.context().wrap_socket(plain, server_hostname="localhost") as second:
            assert second.recv(4096) == b"-ERR max number of clients reached\r\n"
            assert second.recv(4096) == b""


def test_certificates_are_renewed_by_a_reload(bed):
    served = Served(bed)

    def shown():
        with socket.create_connection(("127.0.0.1", served.resp), 60) as plain, \
                served.context().wrap_socket(plain, server_hostname="localhost") as client:
            return client.getpeercert()["serialNumber"]

    with served.client(single_connection_client=True) as client:
        assert client.ping()
        before = shown()
        served.authority.issue("front")
        assert shown() == before
        assert served.gateway.ctl_ok("config", "reload")["reloaded"] is True
        assert shown() != before
        assert client.get("key:7") == b"value 7" # the connection of before goes on
    with open(served.gateway.settings["gateway.tls.cert"], "w", encoding="ascii") as stream:
        stream.write("no certificate\n")
    done = served.gateway.ctl("config", "reload")
    assert done.returncode != 0 and "gateway.tls.cert" in done.stderr and "stay as they were" in done.stderr, done.stderr
    with served.client() as client:
        assert client.ping()


def test_a_client_in_the_list_of_revoked_ones_is_out_at_once_and_no_other(bed):
    """One that is connected, one that stands in the middle of its handshake, and one that comes back."""
    authority = Authority(bed.directory)
    listed = os.path.join(bed.directory, "revoked.pem")
    shutil.copy(authority.revoke(), listed)
    served = Served(bed, gateway__tls__crl=listed)
    with served.client("gone", single_connection_client=True) as gone, \
            served.client("stays", single_connection_client=True) as stays, \
            socket.create_connection(("127.0.0.1", served.resp), 60) as middle, \
            socket.create_connection(("127.0.0.1", served.resp), 60) as other:
        assert gone.ping() and stays.ping()
        # Greetings; the certificates follow after the reload.
        handshakes = [begin_handshake(served.context(name), connection)
                      for name, connection in (("gone", middle), ("stays", other))]
        shutil.copy(authority.revoke("gone"), listed)
        assert served.gateway.ctl_ok("config", "reload")["reloaded"] is True
        with pytest.raises(redis.ConnectionError):
            gone.ping()
        assert finish_handshake(*handshakes[0]) == b"", "it was served"
        assert finish_handshake(*handshakes[1]) == b"$7\r\nvalue 7\r\n"
        assert stays.get("key:7") == b"value 7" and served.closed("user") == 1
    with pytest.raises(redis.ConnectionError), served.client("gone") as gone:
        gone.ping()


def begin_handshake(context, connection):
    """TLS over buffers, up to the server's first flight."""
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(into, out, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    connection.sendall(out.read())
    into.write(connection.recv(65536))
    return tls, out, into, connection


def finish_handshake(tls, out, into, connection):
    """Show the certificate, and ask: what is answered, b"" if the connection ends."""
    try:
        tls.do_handshake()
        tls.write(b"GET key:7\r\n")
        connection.sendall(out.read())
        while True:
            try:
                return tls.read(100)
            except ssl.SSLWantReadError:
                more = connection.recv(65536)
                if not more:
                    return b""
                into.write(more)
    except OSError: # an alert of TLS is one, too
        return b""


def test_a_client_whose_certificate_does_not_count_any_more_is_out_at_once(bed):
    served = Served(bed)
    os.mkdir(os.path.join(bed.directory, "other"))
    other = Authority(os.path.join(bed.directory, "other"))
    with served.client(single_connection_client=True) as client:
        assert client.ping()
        assert served.gateway.ctl_ok("config", "reload")["reloaded"] is True
        assert client.ping() and served.closed("user") == 0
        with open(other.ca, encoding="ascii") as new, \
                open(served.gateway.settings["gateway.tls.ca"], "w", encoding="ascii") as old:
            old.write(new.read())
        assert served.gateway.ctl_ok("config", "reload")["reloaded"] is True
        assert served.closed("user") == 1
        with pytest.raises(redis.ConnectionError):
            client.ping()


@pytest.mark.parametrize("settings, words", [
    ({"gateway__resp": ["tls://127.0.0.1:1"]}, "needs a certificate: set gateway.tls.cert and"),
    ({"gateway__tls__ca": "/nowhere"}, "gateway.tls.ca is set, and no address of"),
    ({"gateway__resp": ["tls://0.0.0.0:1"], "gateway__tls__cert": "/c", "gateway__tls__key": "/k"},
     "set gateway.users_file, or tls:// and gateway.tls.ca"),
])
def test_what_would_not_protect_is_refused(bed, settings, words):
    proxy = bed.proxy(bed.server("primary"), start=False)
    gateway = bed.gateway(proxy, start=False, **settings)
    gateway.start(wait=False)
    assert gateway.wait_exit() == 2
    assert words in gateway.output()
