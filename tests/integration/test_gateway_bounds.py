"""keywake-gateway: what all clients together can take of it, and clients that wait, idle or leave."""
import signal
import socket

import pytest

from lib.process import wait_for
from lib.resp import Raw

MIB = 1 << 20


def served(bed, fill, **settings):
    primary, _, gateway = bed.served(**settings)
    for key, value in fill.items():
        primary.client().set(key, value)
    gateway.wait_fresh()
    return primary, gateway


def figure(gateway, name):
    name = f"keywake_gateway_{name} "
    lines = gateway.rpc("metrics")["text"].splitlines()
    return next(int(line[len(name):]) for line in lines if line.startswith(name))


def ask_and_not_read(gateway, request):
    connection = Raw(gateway.socket)
    connection.socket.setblocking(False)
    try:
        connection.socket.send(request)
    except BlockingIOError:
        pass
    return connection


@pytest.mark.quick
def test_replies_of_all_clients_together_are_bounded(bed):
    limit = 8 * MIB
    _, gateway = served(bed, {"large": b"x" * 200_000, "small": "v"}, gateway__max_buffer_bytes=limit)
    with Raw(gateway.socket) as patient:
        slow = [ask_and_not_read(gateway, b"GET large\r\n" * 200) for _ in range(100)]
        gateway.wait_status(lambda status: status["clients_closed"]["memory"] > 0, "all of them stay")
        gateway.wait_status(lambda status: status["clients_closed"]["memory"] + status["clients"] == 101
                            and status["client_bytes"] <= limit, "they hold too much")
        for _ in range(100):
            assert patient.ask("GET", "small") == b"$1\r\nv\r\n"
            assert figure(gateway, "client_bytes") <= limit
    for connection in slow:
        connection.socket.close()
    gateway.wait_status(lambda status: status["clients"] == 0 and status["client_bytes"] == 0,
                        "what clients held that have left is counted")
    assert gateway.tail().count("take more than gateway.max_buffer_bytes") == 1


def test_requests_of_all_clients_together_are_bounded(bed):
    limit = 8 * MIB
    _, gateway = served(bed, {"small": "v"}, gateway__max_buffer_bytes=limit)
    part = b"*2\r\n$3\r\nGET\r\n$900000\r\n" + b"x" * 800_000
    connections = []
    for _ in range(20): # a request each that never ends: 16 MB
        connection = Raw(gateway.socket)
        connections.append(connection)
        try:
            connection.socket.sendall(part)
        except (BrokenPipeError, ConnectionResetError):
            pass
    status = gateway.wait_status(lambda status: status["clients_closed"]["memory"] > 0, "all of them stay")
    assert status["client_bytes"] <= limit
    with Raw(gateway.socket) as other:
        assert other.ask("GET", "small") == b"$1\r\nv\r\n"
    for connection in connections:
        connection.socket.close()


@pytest.mark.quick
def test_a_client_that_leaves_while_it_waits_gives_its_place_back(bed):
    primary = bed.server("primary")
    gateway = bed.gateway(bed.proxy(primary), gateway__forward=True, redis__address=primary.address,
                          gateway__max_clients=8)
    gateway.wait_fresh()
    with Raw(gateway.socket) as client:
        assert client.ask("SET", "k", "v") == b"+OK\r\n" # the line is up
    primary.signal(signal.SIGSTOP)
    waiting = []
    for request in (b"KEYWAKE.BARRIER 60000\r\n", b"SET k w\r\n", b"KEYWAKE.BARRIER 60000\r\nPING\r\nPING\r\n"):
        for address in (gateway.socket, ("127.0.0.1", gateway.port)):
            client = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
            client.connect(address)
            client.sendall(request)
            waiting.append(client)
    wait_for(lambda: figure(gateway, "requests_under_way") == 10, "they do not wait")
    for client in waiting:
        client.close()
    gateway.wait_status(lambda status: status["clients"] == 0, "clients that are gone keep their places")
    # Barriers end with their clients; what was sent to the primary ends with its answer.
    wait_for(lambda: figure(gateway, "requests_under_way") == 2, "barriers that nobody waits for go on")
    primary.signal(signal.SIGCONT)
    wait_for(lambda: figure(gateway, "requests_under_way") == 0, "what was sent to the primary does not end")


@pytest.mark.quick
def test_a_client_that_closes_its_sending_direction_gets_its_replies(bed):
    _, gateway = served(bed, {"k": "v" * 1000})
    for address in (gateway.socket, ("127.0.0.1", gateway.port)):
        with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as client:
            client.settimeout(60)
            client.connect(address)
            client.sendall(b"GET k\r\n" * 500)
            client.shutdown(socket.SHUT_WR)
            got = b""
            while part := client.recv(65536):
                got += part
            assert got == (b"$1000\r\n" + b"v" * 1000 + b"\r\n") * 500


@pytest.mark.quick
def test_an_idle_client_is_closed_after_its_time_and_one_that_waits_is_not(bed):
    primary, gateway = served(bed, {"k": "v"})
    with Raw(gateway.socket) as idle, Raw(gateway.socket) as waiting:
        assert idle.ask("CONFIG", "GET", "timeout") == b"*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"
        primary.signal(signal.SIGSTOP)
        waiting.send("KEYWAKE.BARRIER", 3000)
        wait_for(lambda: figure(gateway, "requests_under_way") == 1, "it does not wait")
        # From now on, so that neither of them was idle for too long before.
        gateway.rpc("config.set", path="gateway.idle_timeout_ms", value=700)
        with pytest.raises(EOFError):
            idle.reply()
        assert waiting.reply().startswith(b"-TRYAGAIN")
    primary.signal(signal.SIGCONT)
    assert gateway.status()["clients_closed"]["idle"] >= 1
    gateway.rpc("config.set", path="gateway.idle_timeout_ms", value=60_700)
    with Raw(gateway.socket) as client:
        assert client.ask("CONFIG", "GET", "timeout").endswith(b"\r\n61\r\n")
