"""The test bed: everything one test started, in one short-lived folder."""
import os
import shutil
import tempfile

from . import compare
from .daemon import CARRIER, Agent, Gateway, Proxy
from .process import SLOW
from .server import FEED, Server

LOG_LINES = 60 # of each process, shown when a test fails


class Pair:
    """A primary, its proxy, one agent and its replica."""

    def __init__(self, primary, proxy, agent, replica):
        self.primary, self.proxy, self.agent, self.replica = primary, proxy, agent, replica

    def settle(self, timeout=120.0):
        """What was written until now is in the replica when this returns, or the test fails."""
        self.agent.wait_warm(timeout)
        compare.assert_equal_now(self.primary, self.replica)

    def wait_same(self, timeout=90.0 if FEED == "stream" else 30.0):
        """By the stream a consumer that a command created without a word is added by the audit, which has its pace."""
        compare.wait_same(self.primary, self.replica, timeout)

    def wait_equal(self, timeout=30.0):
        compare.wait_equal(self.primary, self.replica, timeout)


class Bed:
    def __init__(self, proxies=None, gateways=None):
        """Settings of each proxy, and of each gateway, that does not have them."""
        self.proxies, self.gateways = proxies or {}, gateways or {}
        # Not pytest's tmp_path: a unix socket's path may have 107 bytes.
        self.directory = tempfile.mkdtemp(prefix="kw-")
        self.servers = []
        self.daemons = []

    def server(self, name, binary="installed", start=True, **config):
        server = Server(self.directory, name, binary, **config)
        self.servers.append(server)
        return server.start() if start else server

    def proxy(self, primary, name="proxy", start=True, **settings):
        proxy = Proxy(self.directory, name, primary, **{**self.proxies, **settings})
        self.daemons.append(proxy)
        return proxy.start() if start else proxy

    def agent(self, proxy, replica, name="agent", start=True, **settings):
        agent = Agent(self.directory, name, proxy, replica, **settings)
        self.daemons.append(agent)
        return agent.start() if start else agent

    def gateway(self, proxy, name="gateway", start=True, **settings):
        gateway = Gateway(self.directory, name, proxy, **{**self.gateways, **settings})
        self.daemons.append(gateway)
        return gateway.start() if start else gateway

    def served(self, primary="installed", listen=(CARRIER,), via=CARRIER, fill=None, proxy=None, **gateway):
        """
        A primary, its proxy, and a gateway that serves. fill: called before the proxy starts.
        """
        first = self.server("primary", primary)
        if fill:
            fill(first)
        follower = self.proxy(first, listen=listen, **(proxy or {}))
        served = self.gateway(follower, via=via, **gateway)
        served.wait_fresh()
        return first, follower, served

    def pair(self, primary="installed", replica="installed", listen=(CARRIER,), via=CARRIER,
             fill=None, primary_config=None, replica_config=None, proxy=None, agent=None):
        """Running, and warm. fill: called with the primary before the proxy starts."""
        first = self.server("primary", primary, **(primary_config or {}))
        if fill:
            fill(first)
        second = self.server("replica", replica, **(replica_config or {}))
        follower = self.proxy(first, listen=listen, **(proxy or {}))
        pair = Pair(first, follower, self.agent(follower, second, via=via, **(agent or {})), second)
        pair.agent.wait_warm()
        return pair

    def file(self, name, text, mode=0o600):
        path = os.path.join(self.directory, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.chmod(path, mode)
        return path

    def close(self):
        """End everything; what did not end well, as sentences."""
        complaints = []
        for daemon in reversed(self.daemons):
            was_alive = daemon.alive
            status = daemon.stop()
            if was_alive and status != 0:
                complaints.append(f"{daemon.name}: SIGTERM ended in status {status}, not 0")
            complaints += [f"{daemon.name}: {line}" for line in daemon.sanitizer_reports()[:5]]
        for server in self.servers:
            server.kill()
        return complaints

    def logs(self):
        """(name, tail) of every process."""
        return [(process.name, process.tail(LOG_LINES)) for process in self.servers + self.daemons
                if process.popen is not None]

    def remove(self):
        if not os.environ.get("KW_KEEP"):
            shutil.rmtree(self.directory, ignore_errors=True)


__all__ = ["Bed", "Pair", "SLOW"]
