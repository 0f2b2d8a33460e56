"""The servers and daemons of one benchmark, and joining replicas to a primary, native or ours."""
import functools
import os
import subprocess
import time

from lib.bed import Bed
from lib.daemon import AGENT, PROXY, free_port
from lib.tls import Authority

from .peers import peer
from .rounds import NotBuilt

# As an operator would set it up for the fastest full sync.
PRIMARY = {"bind": "127.0.0.1", "repl-diskless-sync": "yes", "repl-diskless-sync-delay": 0,
           "rdbcompression": "no", "client-output-buffer-limit": "replica 2gb 1gb 60"}
REPLICA = {"repl-diskless-load": "swapdb", "rdbcompression": "no"}

POLL_SECONDS = 0.002
MODES = ("replica", "hybrid", "commands")


def seconds_until(question, timeout=120, every=POLL_SECONDS, what="what was waited for"):
    begin = time.monotonic()
    while not question():
        if time.monotonic() - begin > timeout:
            raise RuntimeError(f"{what}: not within {timeout} s")
        time.sleep(every)
    return time.monotonic() - begin


@functools.lru_cache(None)
def missing_mode(mode):
    """The agent's own words when it refuses an apply mode as not in it; else an empty text."""
    words = {"proxy": "shm:///nonexistent/kw.shm", "redis.address": "unix:///nonexistent/kw.sock",
             "control.socket": f"/tmp/kw-probe-{os.getpid()}.ctl", "apply.mode": mode,
             "apply.consent": "true", "name": "probe"}
    argv = [AGENT]
    for key, value in words.items():
        argv += ["--set", f"{key}={value}"]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as process:
        try:
            said, _ = process.communicate(timeout=0.5)
        except subprocess.TimeoutExpired: # it took the mode and waits for its proxy
            process.terminate()
            process.communicate()
            return ""
    if "not in this version" not in said:
        return ""
    return said.strip().splitlines()[-1].partition(" error ")[2] or said.strip()


@functools.lru_cache(None)
def proxy_knows(key):
    """Does this version's proxy have that configuration key?"""
    said = subprocess.run([PROXY, "--help-config"], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=True)
    return key in said.stdout.split()


def need_mode(mode):
    said = missing_mode(mode)
    if said:
        raise NotBuilt(said)


def need_carrier(carrier):
    """Does this build have that carrier?"""
    said = subprocess.run([PROXY, "--check-config", "--set", "redis.address=unix:///nonexistent.sock",
                           "--set", f'listen=["{carrier}://127.0.0.1:7471"]'],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if said.returncode != 0 and "this build has no" in said.stderr:
        raise NotBuilt(said.stderr.strip().splitlines()[-1])


class Stage:
    """A Bed that knows how to join replicas; leaving it ends everything, and complains."""

    def __init__(self):
        self.bed = Bed()
        self.count = 0

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        complaints = self.bed.close()
        self.bed.remove()
        if complaints and not kind:
            raise RuntimeError("; ".join(complaints))

    def name(self, word):
        self.count += 1
        return f"{word}{self.count}"

    def primary(self, **config):
        return self.bed.server(self.name("primary"), port=free_port(), **{**PRIMARY, **config})

    def empty(self, **config):
        return self.bed.server(self.name("replica"), **{**REPLICA, **config})

    def proxy(self, primary, **settings):
        # The yardsticks of the bench connect, too, and know no secret.
        settings = {"log__level": "warn", "table__max_bytes": "3GiB", "auth__allow_insecure": True,
                    "listen": ("shm", "tcp"), **settings}
        proxy = self.bed.proxy(primary, name=self.name("proxy"), **settings)
        proxy.wait_live(300)
        return proxy

    def tls_proxy(self, primary, **settings):
        """A proxy at tcp+tls, too. Yardsticks show it no certificate."""
        need_carrier("tcp+tls")
        authority = Authority(self.bed.directory)
        cert, key = authority.issue("proxy")
        os.environ["KW_BENCH_CA"] = authority.ca
        return self.proxy(primary, listen=("shm", "tcp", "tcp+tls"), tls__cert=cert, tls__key=key, **settings)

    def join_native(self, primary, replica):
        """REPLICAOF; the question that is true once it has caught up."""
        client = replica.client()
        client.execute_command("REPLICAOF", "127.0.0.1", primary.config["port"])
        return lambda: client.info("replication")["master_link_status"] == "up"

    def start_agent(self, proxy, replica, mode="commands", via="shm", **settings):
        """An agent, not waited for, and the question that is true once it is warm."""
        need_mode(mode)
        settings = {"log__level": "warn", "apply__mode": mode, **settings}
        if mode != "commands":
            settings["apply__consent"] = True
        agent = self.bed.agent(proxy, replica, name=self.name("agent"), via=via, start=False,
                               **settings)
        agent.start(wait=False)
        return agent, lambda: is_warm(agent)

    def end(self, *processes):
        """End agents as an operator would, servers at once; their memory is wanted back."""
        for process in processes:
            if process in self.bed.daemons:
                status = process.stop()
                if status != 0:
                    raise RuntimeError(f"{process.name}: SIGTERM ended in status {status}, not 0:\n"
                                       f"{process.tail(5)}")
                self.bed.daemons.remove(process)
            else:
                process.kill()
                self.bed.servers.remove(process)


def is_warm(agent):
    if not agent.alive:
        raise RuntimeError(f"{agent.name} ended with {agent.popen.returncode}: {agent.tail(3)}")
    status = agent.try_status()
    if status and status["state"] == "failed":
        raise RuntimeError(f"{agent.name}: {status['reason']}")
    return bool(status) and status["state"] == "warm"


def settle(primary, replica, timeout=60):
    """
    Until a write comes through. The server's own link says `up` when the data set is loaded; what
    follows flows only from its first acknowledgement on, up to a second later.
    """
    with primary.client() as first, replica.client() as second:
        first.set("settle", os.urandom(8))
        wanted = first.get("settle")
        seconds_until(lambda: second.get("settle") == wanted, timeout, what="a write's arrival")


def catch_up(primary, replica, agent=None, timeout=60):
    """
    Seconds until the replica holds what the primary has executed by now, by the barrier that each side
    has: a write behind all others, in the server's own stream; `wait warm`, of an agent. Then, not
    timed because DEBUG DIGEST stops both servers for as long as it takes, they must be equal.
    """
    begin = time.monotonic()
    if agent:
        agent.wait_warm(timeout)
    else:
        settle(primary, replica, timeout)
    seconds = time.monotonic() - begin
    demand_equal(digest(primary), replica)
    return seconds


def behind_s(agent):
    """What the primary executed so long ago is in the replica for certain, by the agent's word."""
    return max(0, time.time() - agent.status()["fresh_us"] / 1e6)


def digest(server):
    with server.client(timeout=300) as client:
        return client.execute_command("DEBUG", "DIGEST").decode()


def demand_equal(wanted, replica):
    """A side that is fast and wrong has failed."""
    found = digest(replica)
    if found != wanted:
        raise RuntimeError(f"the replica's DEBUG DIGEST is {found}, the primary's {wanted}")


def best_mode():
    """The fastest apply mode that this version has."""
    return next(mode for mode in MODES if not missing_mode(mode))


def calls(server):
    """Calls of each command so far."""
    with server.client() as client:
        return {name[8:]: fields["calls"] for name, fields in client.info("commandstats").items()}


def fill(server, keys, value_bytes=100, mix=False, seed=1):
    peer("peer-fill", server.address, "--keys", keys, "--value-bytes", value_bytes, "--seed", seed,
         *(["--mix"] if mix else []))
