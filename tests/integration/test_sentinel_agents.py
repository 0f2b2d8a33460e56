"""Real sentinels, a proxy beside each server, and an agent that has all of them in its list."""
import signal
import threading
import time

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.daemon import MODES
from lib.sentinel import PEERS, Failover, Trio, patiently

KEYS = 1000
WARM_LAG = 1.0
PROMISE = 1.0 + WARM_LAG # seconds after the loss of the mandate


class Sampler:
    """The agent's state, asked again and again: when it was asked, the state, the table's term."""

    def __init__(self, agent):
        self.agent, self.samples, self.ended = agent, [], False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended:
            asked = time.monotonic()
            status = self.agent.try_status()
            if status:
                self.samples.append((asked, status["state"], status["history"]["table"]["term"]))
            time.sleep(0.02)

    def warm_after(self, moment, term):
        """Samples that were asked for after this moment and say warm, with a table up to this term."""
        self.ended = True
        self.thread.join(30)
        assert any(state == "warm" for _, state, _ in self.samples)
        return [sample for sample in self.samples
                if sample[0] > moment and sample[1] == "warm" and sample[2] <= term]


def cut_off(trio):
    """From sentinels and replicas, and not from its proxy."""
    trio.relays["first"].cut(PEERS)
    return lambda: trio.relays["first"].heal()


def killed(trio):
    """It is back empty after another one was elected, and the sentinels cannot demote it."""
    trio.first.kill()

    def back():
        trio.relays["first"].cut(PEERS)
        trio.first.restart(keep_data=False)
        trio.first.command("SET", "of the empty one", 1)
        trio.relays["first"].heal()
    return back


def stopped(trio):
    trio.first.signal(signal.SIGSTOP)
    return lambda: trio.first.signal(signal.SIGCONT)


@pytest.mark.long
@pytest.mark.parametrize("mode, depose", [("commands", cut_off), ("commands", killed), ("replica", killed),
                                          ("hybrid", stopped)])
def test_the_agent_goes_along_and_is_never_warm_with_a_deposed_primary(bed, mode, depose):
    trio = Trio(bed)
    try:
        data.fill_plain(trio.first, KEYS)
        proxies = {server.name: bed.proxy(server, name="beside-" + server.name, **trio.settings())
                   for server in trio.servers}
        proxies["first"].wait_live()
        replica = bed.server("local")
        agent = bed.agent(proxies["first"], replica, start=False, warm__lag_ms=int(WARM_LAG * 1000), **MODES[mode])
        agent.settings["proxy"] = [proxy.address for proxy in proxies.values()]
        agent.start()
        agent.wait_warm()
        term = agent.status()["history"]["data"]["term"]
        sampler, failover = Sampler(agent), Failover(trio.sentinels)
        heal = depose(trio)
        lost = failover.wait()
        elected = trio.elected()
        heal()
        patiently(lambda: elected.command("SET", "of the new primary", 1))
        agent.wait_status(lambda status: status["proxy"] == proxies[elected.name].address,
                          "the agent does not go along", 60)
        agent.wait_warm()
        assert_equal_now(elected, replica)
        assert agent.status()["history"]["data"]["term"] > term
        assert replica.command("EXISTS", "of the empty one") == 0
        assert not sampler.warm_after(lost + PROMISE, term)
    finally:
        trio.close()
