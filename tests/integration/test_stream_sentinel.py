"""The replication stream as a feed where real sentinels look: what they list, and a failover."""
import pytest

from lib import data
from lib.compare import wait_same
from lib.process import wait_for
from lib.sentinel import NAME, Failover, Trio, patiently


def listed(sentinel):
    """(port, flags) of each replica that it lists."""
    replicas = [dict(zip(words[::2], words[1::2])) for words in sentinel.ask("REPLICAS", NAME)]
    return sorted((int(one["port"]), one["flags"]) for one in replicas)


def readers(sentinel):
    """Flags of those that are no servers."""
    return [flags for port, flags in listed(sentinel) if port == 0]


@pytest.mark.long
def test_sentinel_lists_a_dead_replica_and_never_promotes_it(bed):
    trio = Trio(bed)
    try:
        data.fill(trio.first, (0, 10))
        proxy = bed.proxy(trio.first, redis__address="redis://", source__feed="stream", **trio.settings())
        last = bed.server("last")
        agent = bed.agent(proxy, last)
        agent.wait_warm()
        for sentinel in trio.sentinels:
            wait_for(lambda: [flags for flags in readers(sentinel) if "s_down" in flags],
                     lambda: f"{sentinel.name} lists {listed(sentinel)}", 60)
            assert len(listed(sentinel)) == 3
        failover = Failover(trio.sentinels)
        trio.first.kill()
        failover.wait()
        elected = trio.elected()
        status = proxy.wait_status(lambda status: status["state"] == "live" and status["mandate"]["state"] == "confirmed"
                                   and status["mandate"]["term"] > failover.epoch, "it does not follow the primary", 90)
        assert status["feed"]["kind"] == "stream", status
        patiently(lambda: elected.command("SET", "after the failover", 1))
        agent.wait_warm()
        wait_same(elected, last)
        proxy.stop()
        for sentinel in trio.sentinels: # the remedy of limits.md
            assert sentinel.ask("RESET", NAME) == 1
        for sentinel in trio.sentinels:
            wait_for(lambda: not readers(sentinel) and len(listed(sentinel)) >= 1,
                     lambda: f"{sentinel.name} lists {listed(sentinel)}", 90)
    finally:
        trio.close()
