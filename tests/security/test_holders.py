"""What an agent with a key may report, and what that must not cost the other agents and the primary."""
import contextlib
import threading
import time

import pytest

from lib import data, wire
from lib.daemon import secret_path
from lib.process import SLOW, wait_for

NOTHING_NEEDED = 2**64 - 1  # `passed` of an agent that holds no tombstone back


def the_secret(bed):
    with open(secret_path(bed.directory), "rb") as stream:
        return stream.read().strip()


def join_all(stack, address, secret, names, **options):
    version = wire.spoken_by(address)
    return [stack.enter_context(wire.join(address, name, secret, version, **options)) for name in names]


def test_agents_that_wait_for_what_has_passed_hide_nobody(bed):
    """As many sessions as one host may have say that they wait for a barrier of long ago."""
    primary = bed.server("primary")
    data.fill_plain(primary, 100)
    proxy = bed.proxy(primary, listen=("shm", "tcp"))
    agent = bed.agent(proxy, bed.server("replica"), via="shm")
    gateway = bed.agent(proxy, bed.server("another"), name="over-tcp", via="tcp")
    agent.wait_warm()
    gateway.wait_warm()
    with contextlib.ExitStack() as stack:
        address = proxy.listen["tcp"]
        holders = join_all(stack, address, the_secret(bed), [f"holder-{n % 8}" for n in range(64)],
                           source="127.0.0.2")
        for ticket in (1, 2, 60000):
            for holder in holders:
                holder.report(passed=NOTHING_NEEDED, ticket=ticket)
            wait_for(lambda: sum(one["state"] == "warm" for one in proxy.rpc("agents.list")) >= 64, "no reports")
            primary.command("SET", "ticket", ticket)
            for honest in (agent, gateway):
                honest.wait_warm(20)
                assert honest.replica.command("GET", "ticket") == str(ticket).encode()


@pytest.mark.alone
def test_barriers_that_are_drawn_without_end_cost_the_primary_a_bounded_number_of_looks(bed):
    """Eight sessions over shm draw one after the other, for seconds; the tickets that passed are counted."""
    primary = bed.server("primary")
    data.fill_plain(primary, 100)
    proxy = bed.proxy(primary, listen=("shm",), auth__secret_file=bed.file("secret", "the secret of this test\n"))
    proxy.wait_live()
    seconds = 8
    with contextlib.ExitStack() as stack:
        names = [f"holder-{n}" for n in range(8)]
        holders = join_all(stack, proxy.listen["shm"], b"the secret of this test", names)
        first, begun = holders[0].ticket(), time.monotonic()
        while time.monotonic() < begun + seconds:
            now = holders[0].ticket()
            for holder in holders if now % 2 == 0 else (): # at rest: the next one can begin at once
                holder.report(passed=NOTHING_NEEDED, ticket=now + 2)
            time.sleep(0.021) # sooner than that no second one is begun
        tickets = (holders[0].ticket() - first) / 2
    taken = time.monotonic() - begun
    print(f"{tickets} tickets in {taken:.1f} s")
    assert tickets <= 12 * taken + 10 + 2, f"{tickets} in {taken:.1f} s"
    assert tickets > seconds  # they are served all the same


def delete_many(primary, proxy, number, keys=20000):
    """So many keys come, are in the table, and go."""
    with primary.client() as client:
        client.mset({f"churn:{number}:{i}": "v" for i in range(keys)})
        wait_for(lambda: proxy.status()["keys"] >= keys, "the keys do not come", 60)
        client.unlink(*[f"churn:{number}:{i}" for i in range(keys)])
    wait_for(lambda: proxy.status()["keys"] < 100, "the keys do not go", 60)


def test_an_agent_that_passes_nothing_does_not_fill_the_table(bed):
    """It reports the first version for ever. Beyond an eighth of the memory the oldest deletes go, and none to others."""
    primary = bed.server("primary")
    data.fill_plain(primary, 10)
    memory = 16 << 20
    proxy = bed.proxy(primary, listen=("shm", "tcp"), table__tombstone_seconds=1, table__max_bytes=memory)
    agent = bed.agent(proxy, bed.server("replica"), via="shm")
    agent.wait_warm()
    over = threading.Event()
    with wire.join(proxy.listen["tcp"], "holder", the_secret(bed)) as holder:
        def insist():
            while not over.wait(1):
                holder.report(passed=1)
        insisting = threading.Thread(target=insist)
        holder.report(passed=1)
        insisting.start()
        try:
            for number in range(6):
                delete_many(primary, proxy, number)
            most = memory / 8 / 40  # no tombstone takes less than 40 bytes
            wait_for(lambda: proxy.status()["table"]["tombstones"] < most, lambda:
                     f"{proxy.status()['table']['tombstones']} tombstones are held back, {most:.0f} may be", 20)
        finally:
            over.set()
            insisting.join()
    table = proxy.status()["table"]
    assert table["tombstone_floor"] > 0
    agent.wait_warm()
    assert agent.status()["resyncs"] == 0, agent.status()
    assert proxy.status()["state"] == "live"


def test_sessions_of_another_host_do_not_keep_an_agent_from_its_name(bed):
    """With the shared secret a name is a claim. Eight from elsewhere say it and go on reporting; the agent comes in."""
    proxy = bed.proxy(bed.server("primary"), listen=("tcp",))
    proxy.wait_live()
    address, secret = proxy.listen["tcp"], the_secret(bed)
    version = wire.spoken_by(address)
    with contextlib.ExitStack() as stack:
        squatters = join_all(stack, address, secret, ["edge-1"] * 8, source="127.0.0.2")
        for squatter in squatters:
            squatter.report()
        with pytest.raises(wire.Refused) as refused: # of its own host's sessions none gives way
            wire.join(address, "edge-1", secret, version, source="127.0.0.2")
        assert refused.value.reason == wire.REFUSED_NAME_LIMIT
        honest = stack.enter_context(wire.join(address, "edge-1", secret, version))
        honest.report()

        def sessions():
            return sorted(one["peer"].rsplit(":", 1)[0] for one in proxy.rpc("agents.list"))
        wait_for(lambda: sessions() == ["127.0.0.1"] + ["127.0.0.2"] * 7, lambda: f"{sessions()}", 10)
        # They cannot take the place back.
        for _ in range(3):
            with pytest.raises(wire.Refused):
                wire.join(address, "edge-1", secret, version, source="127.0.0.2")
        assert honest.read(0, 128)


def test_a_name_is_spread_over_many_hosts(bed):
    """One from each of eight hosts: none of them has more than the newcomer would have, and it is refused."""
    proxy = bed.proxy(bed.server("primary"), listen=("tcp",))
    proxy.wait_live()
    address, secret = proxy.listen["tcp"], the_secret(bed)
    version = wire.spoken_by(address)
    with contextlib.ExitStack() as stack:
        for number in range(8):
            stack.enter_context(wire.join(address, "edge-1", secret, version, source=f"127.0.0.{number + 2}")).report()
        with pytest.raises(wire.Refused) as refused:
            wire.join(address, "edge-1", secret, version)
        assert refused.value.reason == wire.REFUSED_NAME_LIMIT and SLOW
