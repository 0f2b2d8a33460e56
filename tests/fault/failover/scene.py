"""
Three servers with a relay before each, three sentinels, both ways to deploy proxies, and agents of each mode.

    beside-first, beside-second, beside-third   a proxy beside each server
    following                                   the one proxy that follows the confirmed primary
    commands, replica, hybrid                   agents with the list of the first three
    single-commands, single-replica, …          agents of the one that follows
"""
import threading
import time

import redis

from lib import data
from lib.compare import wait_equal
from lib.daemon import MODES
from lib.process import SLOW, wait_for
from lib.sentinel import NAME, PATIENCE, VOTERS, Trio, patiently
from lib.workload import Workload

WARM_LAG = 0.5      # seconds, of all agents
PROMISE = 1.0       # seconds from the loss of the mandate, to which warm.lag_ms comes
LOST_DATABASE = 11  # what only a deposed primary was told
PROOF_DATABASE = 12 # what only the new primary is told
SETTLED = 90.0      # seconds; nothing may take longer after all is healed
WRITES = 400        # a second
UNRESTS = 5         # times that all is waited for again
PROXIES = {"127.0.0.1"} # the source address of all proxies, at a relay

DOWN_MS, FAILOVER_MS = int(2000 * SLOW), int(4000 * SLOW)

FEEDS = ("notifications", "stream")


class Load(Workload):
    """Writes to the server that the scene calls the primary, whichever that is now."""

    def __init__(self, scene, seed):
        super().__init__(None, seed, pace=WRITES, databases=(0, 3, 9), silent=False)
        self.scene, self.server = scene, self

    def client(self, database):
        return database # one for each batch: see send()

    def send(self, client, transaction, commands):
        primary = self.scene.primary
        try:
            with primary.client(client, timeout=2) as connection:
                super().send(connection, transaction, commands)
        except redis.exceptions.RedisError as error: # READONLY, NOREPLICAS, MASTERDOWN
            self.count_error(error)

    def run(self):
        while not self.stopped.is_set():
            with self.turn:
                if not self.go.is_set():
                    self.resting.set()
            if self.resting.is_set():
                self.go.wait(0.2)
                continue
            database, transaction, commands = self.mix.batch()
            self.send(database, transaction, commands)
            time.sleep(len(commands) / self.pace)
        self.resting.set()


class Witness:
    """Asks the sentinels for their epochs and the agents for their states, all the time."""

    def __init__(self, scene):
        self.scene = scene
        self.seen = {}    # an epoch: when a sentinel was first heard to name it
        self.samples = {agent.name: [] for agent in scene.agents}
        self.ended = False
        self.threads = [threading.Thread(target=self.ask_sentinel, args=(sentinel,), daemon=True)
                        for sentinel in scene.sentinels]
        self.threads += [threading.Thread(target=self.ask_agent, args=(agent,), daemon=True)
                         for agent in scene.agents]
        for thread in self.threads:
            thread.start()

    def ask_sentinel(self, sentinel):
        """Each in a thread of its own: one that is stopped keeps nobody from hearing the others."""
        while not self.ended:
            said = sentinel.master() if sentinel.alive and not sentinel.stopped else None
            if said:
                self.seen.setdefault(int(said["config-epoch"]), time.monotonic())
            time.sleep(0.03)

    def ask_agent(self, agent):
        while not self.ended:
            asked = time.monotonic()
            status = agent.try_status()
            if status:
                self.samples[agent.name].append((asked, status["state"], status["history"]["table"]["term"]))
            time.sleep(0.03)

    def close(self):
        self.ended = True
        for thread in self.threads:
            thread.join(30)

    def unseen(self, epoch):
        """What it did not see of a round that ended in this epoch. Then that nothing is wrong proves nothing."""
        missing = [f"epoch {epoch}"] if epoch not in self.seen else []
        missing += [f"{name} while it is warm" for name, samples in self.samples.items()
                    if not any(state == "warm" for _, state, _ in samples)]
        return missing + ["anything: a thread has ended" for thread in self.threads if not thread.is_alive()]

    def wait_seen(self, epoch):
        wait_for(lambda: not self.unseen(epoch), lambda: f"the witness did not see {self.unseen(epoch)}", SETTLED)

    def forget(self):
        """Of what is judged already, the newest epoch and nothing else."""
        for name in self.samples:
            self.samples[name] = []
        newest = max(self.seen)
        self.seen = {newest: self.seen[newest]}

    def late(self):
        """(agent, seconds after the switch, term) of each sample that breaks the promise."""
        for name, samples in self.samples.items():
            for asked, state, term in samples:
                switched = [when for epoch, when in list(self.seen.items()) if epoch > term]
                if state == "warm" and switched and asked > min(switched) + PROMISE + WARM_LAG:
                    yield name, round(asked - min(switched), 2), term

    def warm_between(self, begin, end):
        return [(name, round(asked - begin, 2), term) for name, samples in self.samples.items()
                for asked, state, term in samples if state == "warm" and begin < asked < end]

    def counted(self):
        return {name: (len(samples), sum(state == "warm" for _, state, _ in samples))
                for name, samples in self.samples.items()}


class Scene:
    def __init__(self, bed, seed, binary="installed", feed=FEEDS[0]):
        self.bed, self.feed = bed, feed
        self.trio = Trio(bed, binary, down_ms=DOWN_MS, failover_ms=FAILOVER_MS)
        self.servers, self.sentinels, self.relays = self.trio.servers, self.trio.sentinels, self.trio.relays
        self.primary = self.trio.first
        for sentinel in self.sentinels:
            sentinel.stopped = False
        data.fill_plain(self.primary, 300)
        self.start_daemons()
        self.load = Load(self, seed).start()
        self.witness = Witness(self)

    def start_daemons(self):
        settings = {**self.trio.settings(), "log__level": "info", "source__feed": self.feed}
        self.beside = {
            server.name: self.bed.proxy(server, name="beside-" + server.name, **settings,
                                        redis__address=f"tcp://127.0.0.1:{self.trio.ports[server.name]}")
            for server in self.servers}
        self.following = self.bed.proxy(self.primary, name="following", redis__address="redis://", **settings)
        self.beside["first"].wait_live()
        self.following.wait_live()
        every = [proxy.address for proxy in self.beside.values()]
        self.agents, self.locals = [], {}
        for prefix, proxy in (("", self.beside["first"]), ("single-", self.following)):
            for mode, keys in MODES.items():
                name = prefix + mode
                self.locals[name] = self.bed.server("local-" + name, self.trio.binary)
                agent = self.bed.agent(proxy, self.locals[name], name=name, start=False,
                                       warm__lag_ms=int(WARM_LAG * 1000), log__level="info", **keys)
                if not prefix:
                    agent.settings["proxy"] = every
                self.agents.append(agent.start())
        for agent in self.agents:
            agent.wait_warm()

    def follow_by(self, feed):
        """All proxies, from now on. The key is read at the start."""
        if feed == self.feed:
            return
        self.feed = feed
        for proxy in [*self.beside.values(), self.following]:
            proxy.stop()
            proxy.settings["source.feed"] = feed
            proxy.start()
        self.settle()

    # What a way to fail over does.

    def asked(self):
        """The sentinels that answer."""
        return [one for one in self.sentinels if one.alive and not one.stopped]

    def epoch(self):
        def told():
            said = [one.master() for one in self.asked()]
            return said if said and all(said) else None
        return max(int(one["config-epoch"]) for one in wait_for(told, "a sentinel says nothing", PATIENCE))

    def cut(self, server, sources):
        self.relays[server.name].cut(sources)

    def heal(self):
        for relay in self.relays.values():
            relay.heal()

    def wait_looked(self):
        """Every agent knows where the primary's history stands now: writes of later count if they are lost."""
        def another(agent, than):
            return wait_for(lambda: self.looked(agent) not in (0, than) and self.looked(agent),
                            f"{agent.name} is told of no look", SETTLED, 0.1)
        first = {agent: another(agent, 0) for agent in self.agents}
        for agent in self.agents:
            another(agent, first[agent]) # by then it has noted the one before

    @staticmethod
    def looked(agent):
        return agent.status()["history"]["table"]["looked_offset"]

    def applied_lost(self, number):
        """How many of these keys each agent's server has."""
        def count(agent):
            with self.locals[agent.name].client(LOST_DATABASE) as client:
                return sum(1 for _ in client.scan_iter(match=f"lost:{number}:*", count=1000))
        return {agent.name: count(agent) for agent in self.agents}

    def tell_lost(self, server, number, count):
        """Keys that nobody but this server is told, as a client does that was not told of the failover."""
        try:
            with server.client(LOST_DATABASE, timeout=2) as client:
                for i in range(count):
                    client.set(f"lost:{number}:{i}", i)
        except redis.exceptions.RedisError:
            pass # it is a replica again

    def wait_elected(self, epoch, deposed):
        """The server that all sentinels name: since a later epoch than this one, or another than it was."""
        def named():
            told = [one.master() for one in self.asked()]
            if not all(told) or len({(one["port"], one["config-epoch"]) for one in told}) != 1:
                return None
            port = int(told[0]["port"])
            found = next(server for server in self.servers if self.trio.ports[server.name] == port)
            return found if found is not deposed or int(told[0]["config-epoch"]) > epoch else None
        self.primary = wait_for(named, lambda: f"no other primary since epoch {epoch}: "
                                f"{[one.master() for one in self.sentinels]}", PATIENCE)
        return self.primary

    # After it.

    def settle(self):
        """As settle_once(). Sentinels that the machine starves fail over by themselves: then again."""
        for _ in range(UNRESTS):
            epoch = self.epoch()
            try:
                return self.settle_once()
            except AssertionError:
                if self.epoch() == epoch:
                    raise
        raise AssertionError("the sentinels do not come to rest: raise KW_SLOW on a busy machine")

    def settle_once(self):
        """All is healed: the sentinels and the servers agree, and so do proxies and agents then."""
        self.wait_roles()
        self.load.rest()
        self.wait_roles() # another failover can have begun meanwhile
        self.wait_proxies()
        self.wait_agents()
        self.load.resume()

    def wait_roles(self):
        def agreed():
            told = [one.master() for one in self.sentinels]
            if not all(told) or len({(one["runid"], one["config-epoch"]) for one in told}) != 1:
                return False
            primary = {self.trio.run_id(server): server for server in self.servers}.get(told[0]["runid"])
            if primary is None or any(int(one["num-other-sentinels"]) < VOTERS - 1
                                      or int(one["num-slaves"]) < len(self.servers) - 1 for one in told):
                return False
            self.primary = primary
            infos = [self.trio.info(server) for server in self.servers if server is not primary]
            return self.trio.info(primary)["role"] == "master" and all(
                info["role"] == "slave" and info["master_link_status"] == "up"
                and info["master_port"] == self.trio.ports[primary.name] for info in infos)
        wait_for(agreed, lambda: "servers and sentinels do not agree: " + str(
            [self.trio.info(server) for server in self.servers]), SETTLED)

    def wait_proxies(self):
        for name, proxy in [*self.beside.items(), ("", self.following)]:
            if name in ("", self.primary.name):
                proxy.wait_status(lambda status: status["state"] == "live", "not live", SETTLED)
            else:
                proxy.wait_status(lambda status: status["state"] == "unconfirmed"
                                  and status["reason"].startswith("ready"), "it does not stand by", SETTLED)

    def wait_agents(self):
        proof = f"{time.monotonic()}"
        patiently(lambda: self.primary.command("SET", "proof", proof, db=PROOF_DATABASE))
        for agent in self.agents:
            agent.wait_warm(SETTLED)
            told = self.locals[agent.name].command("GET", "proof", db=PROOF_DATABASE)
            assert told == proof.encode(), f"{agent.name} was warm without the new primary's write"
            wait_equal(self.primary, self.locals[agent.name], SETTLED)

    def complaints(self):
        return [f"{daemon.name} ended with {daemon.popen.returncode}" for daemon in self.bed.daemons
                if not daemon.alive]

    def close(self):
        self.witness.close()
        try:
            self.load.stop()
        finally:
            self.trio.close()


__all__ = ["NAME", "PROMISE", "PROXIES", "WARM_LAG", "Scene"]
