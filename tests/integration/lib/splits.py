"""
The three splits in which a deposed primary goes on serving, before both ways to deploy proxies and agents of
each apply mode: six agents in one scene, which a sampler watches.

    beside-first, beside-second, beside-third   a proxy beside each server; the agents have a list of them
    following                                   one proxy that follows the confirmed primary
"""
import re
import signal
import time

from . import data, metrics
from .compare import assert_equal_now
from .daemon import MODES
from .process import wait_for
from .sentinel import NAME, PEERS, SERVERS_AT, Failover, Sampler, Trio, patiently

KEYS = 1000
LOST = 5        # keys that only the deposed primary has, and each agent's server
WARM_LAG = 0.5  # seconds, of all agents
PROMISE = 1.0   # seconds from the loss of the mandate, to which warm.lag_ms comes
SEEN = 1.0      # seconds after that, in which the samplers look
PATIENCE = 90
OTHERS = ("second", "third")
PROXIES = {"127.0.0.1"} # the source address of proxies, at a relay
WAYS = ("beside", "following")
CASES = [(way, mode) for way in WAYS for mode in MODES]
EMPTY = "of the empty one"


class Scene:
    def __init__(self, bed, binary):
        self.bed, self.trio = bed, Trio(bed, binary)
        self.first, self.relay = self.trio.first, self.trio.relays["first"]
        data.fill_plain(self.first, KEYS)
        settings = self.trio.settings()
        self.beside = {server.name: bed.proxy(server, name="beside-" + server.name, **settings)
                       for server in self.trio.servers}
        self.following = bed.proxy(self.first, name="following", redis__address="redis://", **settings)
        self.agents = {case: self.start_agent(*case) for case in CASES}
        self.beside["first"].wait_live()
        for name in OTHERS:
            self.beside[name].wait_status(self.stands_by, "it does not stand by", PATIENCE)
            said = self.beside[name].output()
            assert "unconfirmed: ready" in said and not re.search(r"^.*warn .*\[standby\]$", said, re.M), said
        for agent in self.agents.values():
            agent.wait_warm()
            agent.wait_status(lambda status: status["history"]["table"]["looked_offset"] > 0, "no look is told")
        self.term = max(agent.status()["history"]["data"]["term"] for agent in self.agents.values())
        self.epoch = self.following.status()["epoch"]
        self.samplers = {agent: Sampler(agent, lambda status: status["history"]["table"]["term"])
                         for agent in self.agents.values()}
        self.samplers |= {proxy: Sampler(proxy, lambda status: status["mandate"]["term"])
                          for proxy in (self.beside["first"], self.following)}
        self.failover = Failover(self.trio.sentinels)

    def start_agent(self, way, mode):
        proxy = self.beside["first"] if way == "beside" else self.following
        local = self.bed.server(f"local-{way}-{mode}", self.trio.binary)
        agent = self.bed.agent(proxy, local, name=f"{way}-{mode}", start=False,
                               warm__lag_ms=int(WARM_LAG * 1000), **MODES[mode])
        if way == "beside":
            agent.settings["proxy"] = [one.address for one in self.beside.values()]
        return agent.start()

    @staticmethod
    def stands_by(status):
        return (status["state"] == "unconfirmed" and status["reason_code"] == "standby" and status["grade"] == "good"
                and status["reason"].startswith("ready") and status["keys"] >= KEYS)

    def lose(self):
        """What only the first server is told, and every agent applies: its replicas do not hear of it."""
        self.relay.cut(SERVERS_AT.values())
        for number in range(LOST):
            self.first.command("SET", f"lost:{number}", number)
        for agent in self.agents.values():
            wait_for(lambda agent=agent: agent.replica.command("EXISTS", f"lost:{LOST - 1}"),
                     f"{agent.name} does not apply what is to be lost", PATIENCE)

    def hold_back(self):
        """No agent can go to the new primary's table yet: what it says is of the deposed one's."""
        for name in OTHERS:
            self.beside[name].signal(signal.SIGSTOP)
            self.trio.relays[name].cut(PROXIES)

    def let_go(self, lost):
        """Once a wrong `warm` would have been seen."""
        time.sleep(max(0, lost + PROMISE + WARM_LAG + SEEN - time.monotonic()))
        for name in OTHERS:
            self.trio.relays[name].heal()
            self.beside[name].signal(signal.SIGCONT)

    def fenced(self):
        """The deposed server's own proxy reads nothing, whatever that server is told."""
        return self.beside["first"].wait_state("unconfirmed", reason="nothing is read", timeout=PATIENCE)

    def settle(self, elected):
        """All is healed: every agent goes along, and the deposed server is a replica that its proxy reads."""
        patiently(lambda: elected.command("SET", "of the new primary", 1))
        for agent in self.agents.values():
            agent.wait_status(lambda status: status["history"]["data"]["term"] > self.term,
                              "it does not go along", PATIENCE)
            agent.wait_warm()
        self.following.wait_live()
        wait_for(lambda: self.trio.info(self.first).get("master_link_status") == "up",
                 "the deposed primary does not become a replica", PATIENCE)
        keys = patiently(lambda: elected.command("DBSIZE"))
        self.beside["first"].wait_status(lambda status: self.stands_by(status) and status["keys"] == keys,
                                         "it does not stand by with the new primary's data", PATIENCE)
        figures = {name: metrics.value(proxy.rpc("metrics")["text"], "keywake_proxy_confirmed", group=NAME)
                   for name, proxy in self.beside.items()}
        assert figures == {name: int(name == elected.name) for name in self.beside}, figures

    def late(self, daemon, lost, bound):
        """Was it warm, or live, with the deposed primary's data later than so long after the switch?"""
        sampler = self.samplers[daemon]
        good = sampler.good_after(lost + bound, self.term)
        if good:
            yield f"{good[0][1]} in the former term {good[0][0] - lost:.2f} s after the switch"
        if not sampler.good_after(0, self.term):
            yield "it was never seen well, so this proves nothing"
        if not any(lost + bound < asked < lost + bound + SEEN for asked, _, _ in sampler.samples):
            yield "it did not answer just after that, so this proves nothing"

    def broken(self, way, mode, elected, lost):
        """Which promises this agent broke, as sentences."""
        agent = self.agents[way, mode]
        yield from self.late(agent, lost, PROMISE + WARM_LAG)
        try:
            assert_equal_now(elected, agent.replica)
        except AssertionError as difference:
            yield f"not equal to the new primary: {difference}"
        status = agent.status()
        if status["rolled_back"] != LOST:
            yield f"rolled_back is {status['rolled_back']}, and {LOST} writes were lost"
        followed = self.following if way == "following" else self.beside[elected.name]
        if status["proxy"] != followed.address:
            yield f"it follows {status['proxy']}"

    def broken_by_proxies(self, lost):
        """The same of the proxies that followed the deposed primary: they were not live any more."""
        for proxy in (self.beside["first"], self.following):
            yield from (f"{proxy.name}: {sentence}" for sentence in self.late(proxy, lost, PROMISE))
        if self.following.status()["epoch"] != self.epoch:
            yield "following: it began a new table"

    def close(self):
        for sampler in self.samplers.values():
            sampler.close()
        self.trio.close()


class CutOff:
    """From sentinels and replicas, and neither from its proxies nor from clients."""

    @staticmethod
    def begin(scene):
        scene.relay.cut(PEERS)

    @staticmethod
    def elected(scene):
        fenced = scene.fenced()
        assert fenced["reason_code"] == "unconfirmed", "clients can still write there"
        for number in range(100):
            scene.first.command("SET", f"rolled back {number}", number)
        scene.first.command("FLUSHALL")
        own = scene.beside["first"]
        own.wait_status(lambda status: status["dirty_keys"] > 0 or status["reconciles_flush"] > 0,
                        "its events are not heard")
        still = own.status()
        assert (still["version"], still["keys"]) == (fenced["version"], KEYS + LOST)

    @staticmethod
    def heal(scene):
        scene.relay.heal()


class Killed:
    """Back empty after another one was elected, and the sentinels cannot demote it."""

    @staticmethod
    def begin(scene):
        scene.first.kill()

    @staticmethod
    def elected(scene):
        scene.relay.cut(PEERS)
        scene.first.restart(keep_data=False)
        scene.first.command("SET", EMPTY, 1)
        assert scene.fenced()["keys"] == KEYS + LOST

    @staticmethod
    def heal(scene):
        scene.relay.heal()


class Stopped:
    """And continued after another one was elected."""

    @staticmethod
    def begin(scene):
        scene.first.signal(signal.SIGSTOP)

    @staticmethod
    def elected(scene):
        scene.relay.heal() # of the replicas; nothing comes from the server

    @staticmethod
    def heal(scene):
        scene.first.signal(signal.SIGCONT)


SPLITS = {"cut off": CutOff, "killed": Killed, "stopped": Stopped}
