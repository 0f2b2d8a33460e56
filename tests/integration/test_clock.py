"""Wall clocks that step: of the proxy, of the servers."""
import time

import pytest

from lib.clock import Clock
from lib.process import wait_for


@pytest.mark.parametrize("binary", ["installed", "valkey-sid"])
def test_the_clock_of_a_server_can_be_stepped(bed, binary, need_server):
    """The tool itself: the server tells the stepped time, and its expiries obey it."""
    need_server(binary)
    clock = Clock(bed)
    server = clock.drive(bed.server("server", binary, start=False)).start()
    server.command("SET", "key", 1, "EX", 600)
    for seconds in (3600, -3600, 0):
        clock.step(seconds)
        # A server keeps the time of its last loop turn.
        wait_for(lambda: abs(server.command("TIME")[0] - time.time() - seconds) < 60,
                 f"the server's clock is not {seconds} s off")
        if seconds > 0:
            assert server.command("GET", "key") is None


@pytest.mark.quick
@pytest.mark.parametrize("whose", ["proxy", "agent"])
@pytest.mark.parametrize("seconds", [-3600, 3600])
def test_wait_warm_is_a_barrier_whatever_clocks_say(bed, whose, seconds):
    """The clock of the proxy, or of the agent and keywakectl, steps while writes go on."""
    primary, replica = bed.server("primary"), bed.server("replica")
    clock = Clock(bed)
    proxy = bed.proxy(primary, start=False)
    agent = bed.agent(proxy, replica, start=False)
    clock.drive(proxy if whose == "proxy" else agent)
    proxy.start()
    agent.start()
    agent.wait_warm()
    clock.step(seconds)
    with primary.client() as writer, replica.client() as reader:
        for i in range(30):
            with writer.pipeline(transaction=False) as pipe:
                for key in range(300):
                    pipe.set(f"key:{key}", f"{i}")
                pipe.execute()
            agent.wait_warm()
            assert set(reader.mget(f"key:{key}" for key in range(300))) == {b"%d" % i}, i
