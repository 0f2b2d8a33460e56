"""Floods: who comes in great numbers keeps nobody else out, and fills no log."""
import contextlib
import socket
import time

import pytest

from lib import wire
from lib.daemon import secret_path
from lib.flood import Flood, newcomers
from lib.process import SLOW, wait_for
from lib.resp import Raw

AGENTS = 70
WITHIN_MS = 100
RATE = 300 # of each flood, a second

FLOODS = [("hello",), ("silent",), ("hello", "silent")]


def the_secret(bed):
    with open(secret_path(bed.directory), "rb") as stream:
        return stream.read().strip()


@pytest.mark.alone
@pytest.mark.parametrize("kinds", FLOODS, ids="+".join)
def test_seventy_of_seventy_join_within_100_ms_under_a_flood(bed, kinds):
    """Flood and agents come from one address, so that nothing but age tells them apart."""
    proxy = bed.proxy(bed.server("primary"), listen=("tcp",), log__level="warn")
    proxy.wait_live()
    address, secret = proxy.listen["tcp"], the_secret(bed)
    for attempt in range(3): # the machine may have had something else to do
        with contextlib.ExitStack() as stack:
            floods = [stack.enter_context(Flood(kind, address, RATE)) for kind in kinds]
            newcomers(address, 5, secret=secret) # the slots fill meanwhile
            times = newcomers(address, AGENTS, secret=secret)
        assert all(flood.made > RATE for flood in floods), [flood.made for flood in floods]
        late = [ms for ms in times if ms is None or ms > WITHIN_MS * SLOW]
        print(f"{'+'.join(kinds)}: {len(times) - len(late)} of {len(times)} in time, "
              f"slowest {max((ms for ms in times if ms), default=0):.1f} ms, "
              f"{sum(ms is None for ms in times)} not let in, "
              f"{sum(flood.made for flood in floods)} strangers")
        if not late or None in times:
            break
    assert not late, f"attempt {attempt + 1}: {len(late)} of {AGENTS}: {late}"


def test_one_holder_does_not_take_all_sessions(bed):
    """It says one name, then many: the limits by name and by host hold it, and another agent comes in."""
    proxy = bed.proxy(bed.server("primary"), listen=("shm", "tcp"), log__level="warn",
                      remote__sessions_per_name=3, remote__sessions_per_peer=6)
    proxy.wait_live()
    address, secret = proxy.listen["tcp"], the_secret(bed)
    version = wire.spoken_by(address)
    with contextlib.ExitStack() as stack:
        def may_join(name):
            try:
                stack.enter_context(wire.join(address, name, secret, version))
                return True
            except wire.Refused:
                return False
        assert [may_join("greedy") for _ in range(5)] == [True] * 3 + [False] * 2
        assert [may_join(f"greedy-{number}") for number in range(5)] == [True] * 3 + [False] * 2
        for key in ("remote.sessions_per_name", "remote.sessions_per_peer"): # refused first, and then said
            wait_for(lambda key=key: key in proxy.output(), f"the log does not name {key}")
        assert wire.may_join(proxy.listen["shm"], name="another", secret=secret)
        proxy.ctl_ok("config", "set", "remote.sessions_per_peer", "7")
        assert may_join("greedy-7")


def test_idle_control_clients_do_not_lock_the_operator_out(bed):
    proxy = bed.proxy(bed.server("primary"), log__level="warn")
    with contextlib.ExitStack() as stack:
        for _ in range(64):
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.connect(proxy.control)
        for _ in range(3):
            assert proxy.ctl_ok("status")


def test_joins_and_leaves_do_not_fill_the_log(bed):
    proxy = bed.proxy(bed.server("primary"), listen=("tcp",), log__level="info")
    proxy.wait_live()
    address, secret = proxy.listen["tcp"], the_secret(bed)
    version = wire.spoken_by(address)
    begun = time.monotonic()
    for number in range(300):
        wire.join(address, f"guest-{number}", secret, version).close()
    seconds = time.monotonic() - begun
    lines = [line for line in proxy.output().splitlines() if "guest-" in line]
    assert len(lines) <= 20 * (seconds + 2), f"{len(lines)} lines in {seconds:.1f} s"
    assert len(lines) < 600 or seconds > 28


@pytest.mark.quick
def test_strangers_at_a_gateway_take_no_place_of_those_who_log_in(bed):
    """They connect and say nothing, or half a request: who has a password gets in, and nobody that is in goes."""
    primary = bed.server("primary")
    users = "user default off\nuser app on >a-password-of-the-app ~* +@all\n"
    gateway = bed.gateway(bed.proxy(primary), gateway__users_file=bed.file("users", users), gateway__max_clients=20,
                          gateway__max_buffer_bytes=1 << 20)
    primary.command("SET", "k", "v")
    gateway.wait_fresh()

    def member():
        client = Raw(gateway.socket)
        assert client.ask("AUTH", "app", "a-password-of-the-app") == b"+OK\r\n"
        return client

    members, strangers = [member() for _ in range(10)], []
    for number in range(60):
        strangers.append(Raw(gateway.socket))
        if number % 2:
            strangers[-1].socket.sendall(b"*2\r\n$4\r\nAUTH\r\n$9000\r\n" + b"x" * 8000)
        if number % 10 == 9:
            members.append(member())
    for client in members:
        assert client.ask("GET", "k") == b"$1\r\nv\r\n"
    gateway.wait_status(lambda status: status["clients"] == 20 and status["clients_closed"]["full"] >= 50,
                        "not 20 are left")
    for client in members + strangers:
        client.socket.close()
