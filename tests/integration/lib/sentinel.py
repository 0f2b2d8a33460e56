"""Three sentinels, a primary and its replicas on loopback; every server has a relay that can be cut."""
import os
import threading
import time

import redis

from .daemon import free_port
from .process import SLOW, Process, wait_for
from .partition import Relay
from .server import binary_path
from .tls import Authority

NAME = "kw-primary"
VOTERS = 3
DOWN_MS = int(2000 * SLOW)      # Sentinel takes a silent primary for dead after this
FAILOVER_MS = int(6000 * SLOW)
PATIENCE = 90.0                 # for an election, beside other tests
# Each sentinel and each replica has an address of its own, so that a relay can tell them apart.
SENTINELS_AT = [f"127.0.1.{i + 1}" for i in range(VOTERS)]
SERVERS_AT = {"first": "127.0.2.1", "second": "127.0.2.2", "third": "127.0.2.3"}
PEERS = [*SENTINELS_AT, *SERVERS_AT.values()] # all but proxies and agents


# The sentinels' own periods, in milliseconds: a server that comes back is demoted after 4 publications.
PERIODS = {"info-period": 500, "publish-period": 300, "ping-period": 200, "ask-period": 200,
           "tilt-period": 2000, "min-link-reconnect-period": 1000}


def hurry(sentinel):
    """It does all that it does, some five times as often: tests wait for that."""
    wait_for(sentinel.master, f"{sentinel.name} says nothing", 30, 0.05)
    for name, period in PERIODS.items():
        try:
            sentinel.ask("DEBUG", name, int(period * SLOW))
        except redis.exceptions.ResponseError: # this version does not know it
            pass


def patiently(ask, tries=20):
    """Sentinel closes the connections of all clients when it changes a server's role, ours too."""
    for _ in range(tries - 1):
        try:
            return ask()
        except redis.exceptions.ConnectionError:
            time.sleep(0.1)
    return ask()


class Sentinel(Process):
    def __init__(self, directory, index, primary_port, binary="installed", authority=None,
                 down_ms=DOWN_MS, failover_ms=FAILOVER_MS, more=()):
        """more: lines of its configuration."""
        self.host, self.port = SENTINELS_AT[index], free_port()
        self.binary = binary
        self.tls_port = free_port()
        name = f"sentinel{index + 1}"
        lines = []
        if authority:
            authority.pair(name, san=f"IP:{self.host}")
            config = authority.server_config(self.tls_port, name)
            lines = [f"{key.replace('_', '-')} {value}" for key, value in config.items()]
        lines += more
        folder = os.path.join(directory, name)
        os.makedirs(folder, exist_ok=True)
        self.path = os.path.join(folder, "sentinel.conf")
        with open(self.path, "w", encoding="ascii") as stream:
            stream.write("\n".join([
                f"bind {self.host}", f"bind-source-addr {self.host}", f"sentinel announce-ip {self.host}", f"port {self.port}", f"dir {folder}", "protected-mode no",
                f"sentinel monitor {NAME} 127.0.0.1 {primary_port} {VOTERS // 2 + 1}",
                f"sentinel down-after-milliseconds {NAME} {down_ms}",
                f"sentinel failover-timeout {NAME} {failover_ms}",
                f"sentinel parallel-syncs {NAME} 2", *lines, ""]))
        super().__init__(name, [], os.path.join(directory, name + ".log"))

    @property
    def address(self):
        return f"tcp://{self.host}:{self.port}"

    @property
    def tls_address(self):
        return f"rediss://{self.host}:{self.tls_port}"

    def start(self):
        self.argv = [binary_path(self.binary), self.path, "--sentinel"]
        self.spawn()
        return self

    def move(self):
        """The same sentinel (it keeps its id), started anew on another port."""
        self.stop()
        before, self.port = self.port, free_port()
        with open(self.path, encoding="ascii") as stream:
            text = stream.read()
        assert f"\nport {before}\n" in text
        with open(self.path, "w", encoding="ascii") as stream:
            stream.write(text.replace(f"\nport {before}\n", f"\nport {self.port}\n"))
        return self.start()

    def ask(self, *words):
        with redis.Redis(host=self.host, port=self.port, socket_timeout=5, decode_responses=True) as client:
            client.response_callbacks.clear()
            return client.execute_command("SENTINEL", *words)

    def command(self, *words):
        with redis.Redis(host=self.host, port=self.port, socket_timeout=5) as client:
            return client.execute_command(*words)

    def acl(self, *words):
        self.command("ACL", "SETUSER", *words)

    def master(self):
        """What it says of the primary, or None while it says nothing."""
        try:
            words = self.ask("MASTER", NAME)
        except (redis.exceptions.RedisError, OSError):
            return None
        return dict(zip(words[::2], words[1::2]))


class Failover:
    """
    What the sentinels say, sampled: `lost` is when the first of them was seen to name another epoch than
    at the start. A deposed primary must not be followed as the primary for longer than a second from
    then on; the sampler sees the switch late rather than early.
    """

    def __init__(self, sentinels):
        self.sentinels = sentinels
        self.epoch = max(int(wait_for(one.master, f"{one.name} says nothing", 30)["config-epoch"]) for one in sentinels)
        self.lost = None
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended and self.lost is None:
            for one in self.sentinels:
                master = one.master() if one.alive else None
                if master and int(master["config-epoch"]) > self.epoch:
                    self.lost = time.monotonic()
            time.sleep(0.02)

    def wait(self, timeout=PATIENCE):
        wait_for(lambda: self.lost, "the sentinels elect no other primary", timeout)
        self.ended = True
        self.thread.join(30)
        return self.lost


class Sampler:
    """The state of a daemon, asked again and again: (when it was asked, state, term by that status)."""

    def __init__(self, daemon, term=lambda status: 0):
        self.daemon, self.term = daemon, term
        self.samples = []
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended:
            asked = time.monotonic()
            status = self.daemon.try_status()
            if status:
                self.samples.append((asked, status["state"], self.term(status)))
            time.sleep(0.03)

    def close(self):
        self.ended = True
        self.thread.join(30)

    def good_after(self, moment, term=0):
        """Samples that were asked for after this moment and say live, or warm, in a term up to this one."""
        return [sample for sample in self.samples
                if sample[0] > moment and sample[1] in ("live", "warm") and sample[2] <= term]


class Trio:
    """A primary `first`, replicas `second` and `third`, three sentinels, and the relays."""

    def __init__(self, bed, binary="installed", replicas=2, authority=None, tls=False, **pace):
        """
        authority: of certificates; the sentinels have a port for TLS, too. tls: daemons are given no other
        address of servers and sentinels. pace: of the sentinels.
        """
        self.bed, self.binary, self.tls = bed, binary, tls
        self.authority = authority or (Authority(bed.directory) if tls else None)
        self.relays, self.servers, self.sentinels = {}, [], []
        self.ports = {}
        first = self.server("first")
        others = [self.server(name, first) for name in ("second", "third")[:replicas]]
        self.first, self.second = first, others[0]
        self.servers = [first, *others]
        for other in others:
            wait_for(lambda other=other: self.info(other).get("master_link_status") == "up",
                     "a replica does not follow", 60)
        for index in range(VOTERS):
            self.sentinels.append(Sentinel(bed.directory, index, self.ports["first"], binary, self.authority,
                                           **pace).start())
        bed.servers += self.sentinels # ended with the bed
        for sentinel in self.sentinels:
            hurry(sentinel)
        self.wait_agreed(first, len(others))

    def server(self, name, primary=None):
        behind, public = free_port(), free_port()
        self.ports[name] = public
        self.relays[name] = Relay(public, ("127.0.0.1", behind))
        config = {"port": behind, "bind": "127.0.0.1", "bind_source_addr": SERVERS_AT[name],
                  "replica_announce_ip": "127.0.0.1",
                  "replica_announce_port": public, "repl_timeout": 5, "repl_ping_replica_period": 1,
                  "repl_backlog_size": "16mb"}
        if primary:
            config["replicaof"] = ("127.0.0.1", str(self.ports[primary.name]))
        if self.tls:
            config["tls"] = True
        return self.bed.server(name, self.binary, **config)

    @staticmethod
    def info(server):
        def ask():
            with server.client() as client:
                return client.info("replication")
        return patiently(ask)

    def run_id(self, server):
        def ask():
            with server.client() as client:
                return client.info("server")["run_id"]
        return patiently(ask)

    def wait_agreed(self, server, replicas=None, timeout=PATIENCE):
        """Every sentinel that runs names this server, knows the others, and its replicas."""
        run = self.run_id(server)

        def agreed():
            told = [one.master() for one in self.sentinels if one.alive]
            return all(one and one["runid"] == run and int(one["num-other-sentinels"]) == VOTERS - 1
                       and (replicas is None or int(one["num-slaves"]) >= replicas) for one in told)
        wait_for(agreed, lambda: f"the sentinels do not agree: {[one.master() for one in self.sentinels]}",
                 timeout)

    def elected(self, timeout=PATIENCE):
        """The server that all sentinels name now, other than `first`."""
        runs = {self.run_id(server): server for server in self.servers[1:]}

        def named():
            said = [one.master() for one in self.sentinels if one.alive] # None: it did not answer
            told = {master["runid"] for master in said if master}
            return runs.get(told.pop()) if len(told) == 1 else None
        return wait_for(named, "no replica was elected", timeout)

    def settings(self):
        """Of a proxy that asks these sentinels."""
        keys = {"authority__by": "sentinel", "sentinel__name": NAME,
                "sentinel__addresses": [one.tls_address if self.tls else one.address for one in self.sentinels]}
        if self.tls:
            cert, key = self.authority.pair("client")
            keys.update({"sentinel__tls__ca": self.authority.ca, "sentinel__tls__cert": cert, "sentinel__tls__key": key})
        return keys

    def close(self):
        for relay in self.relays.values():
            relay.close()
