"""keywake-proxy, keywake-agent and keywake-gateway as the tests run them."""
import functools
import json
import os
import subprocess
import time

import redis

from .ports import free_port
from .process import SLOW, Process, wait_for
from .rpc import Rpc
from .server import FEED, TLS, TOP
from .tls import Authority

BUILD = os.path.abspath(os.environ.get("KW_BUILD") or os.path.join(TOP, "build"))
# A word list put before the daemons' command lines: "valgrind --leak-check=full …".
WRAPPER = os.environ.get("KW_WRAPPER", "").split()

# How agents read where a test does not say: shm, tcp+tls with KW_TLS=1, rdma where tests/rdma runs the same tests.
CARRIER = os.environ.get("KW_CARRIER", "tcp+tls" if TLS else "shm")
# An address of an RDMA device of this machine; "": there is none.
RDMA_HOST = os.environ.get("KW_RDMA_HOST", "")

PROXY = os.path.join(BUILD, "proxy", "keywake-proxy")
AGENT = os.path.join(BUILD, "agent", "keywake-agent")
GATEWAY = os.path.join(BUILD, "agent", "gateway", "keywake-gateway")
CTL = os.path.join(BUILD, "proto", "ctl", "keywakectl")


def secret_path(directory):
    return os.path.join(directory, "secret of the tests")


def secret_file(directory):
    path = secret_path(directory)
    if not os.path.exists(path):
        with open(path, "w", encoding="ascii") as stream:
            stream.write("the secret of the tests\n")
        os.chmod(path, 0o600)
    return path


def setting(value):
    """A --set VALUE: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


# What these tests set by themselves, and a program of version 0.1 does not know.
OF_THE_TESTS = ("source.feed", "source.primary_share")


@functools.lru_cache(None)
def knows(program, key):
    listing = subprocess.run([program, "--help-config"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             check=True).stdout
    return f"\n{key} (" in listing


def settings_of(server):
    """What a daemon is told of its server, which a test may have made of anything with an address."""
    return {"redis.address": server.address, **getattr(server, "certificates", {})}


class Daemon(Process):
    program = None

    def __init__(self, directory, name, settings, wrapper=None):
        self.directory = directory
        self.control = os.path.join(directory, name + ".ctl")
        self.settings = {"control.socket": self.control, "log.level": "debug", **settings}
        self.wrapper = WRAPPER if wrapper is None else wrapper
        self.file = None # of --config; the settings are --set, and count over it
        super().__init__(name, [], os.path.join(directory, name + ".log"), env={
            "ASAN_OPTIONS": "abort_on_error=0:detect_leaks=1:exitcode=99",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=98",
            "TSAN_OPTIONS": "exitcode=97",
        })

    def start(self, wait=True):
        self.argv = [*self.wrapper, self.program, *(["--config", self.file] if self.file else [])]
        for key, value in self.settings.items():
            if key not in OF_THE_TESTS or knows(self.program, key):
                self.argv += ["--set", f"{key}={setting(value)}"]
        self.spawn()
        if wait:
            wait_for(self.answers, lambda: f"{self.name} does not answer:\n{self.tail()}", 30)
        return self

    def answers(self):
        assert self.alive, f"{self.name} ended with {self.popen.returncode}:\n{self.tail()}"
        try:
            return self.rpc("version")
        except OSError:
            return False

    def restart(self):
        """After kill(): the same command line again."""
        return self.start()

    def rpc(self, method, **params):
        with Rpc(self.control) as rpc:
            return rpc.call(method, **params)

    def status(self):
        return self.rpc("status")

    def try_status(self):
        """The status, or None while the daemon is down."""
        try:
            return self.status()
        except (OSError, ValueError):
            return None

    def ctl(self, *words, timeout=180.0):
        return subprocess.run([CTL, "-s", self.control, "--json", *map(str, words)],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=timeout * SLOW, check=False)

    def ctl_ok(self, *words, timeout=180.0):
        done = self.ctl(*words, timeout=timeout)
        assert done.returncode == 0, (f"keywakectl {' '.join(map(str, words))}: exit "
                                      f"{done.returncode}: {done.stderr}{done.stdout}\n{self.tail(20)}")
        return json.loads(done.stdout) if done.stdout.strip() else None

    def wait_state(self, *states, timeout=30.0, reason=""):
        """Until the state is one of these and the reason holds the words; the status then."""
        last = {}

        def reached():
            assert self.alive, f"{self.name} ended with {self.popen.returncode}:\n{self.tail()}"
            status = self.try_status()
            if status is None:
                return None
            last.update(status)
            fits = status["state"] in states and reason.lower() in (status.get("reason") or "").lower()
            return status if fits else None
        return wait_for(reached, lambda: f"{self.name} is {last.get('state')} ({last.get('reason')}), "
                        f"not {'/'.join(states)} {reason!r}\n{self.tail(30)}", timeout)

    def wait_passed(self, *states, reason="", since=0.0, timeout=30.0):
        """
        Until it has been in one of these states, for a reason with these words, since this wall clock time:
        the change. It can be over by now, so this is for states that end by themselves.
        """
        def passed():
            return next((change for change in self.rpc("history")
                         if change["state"] in states and reason.lower() in change["reason"].lower()
                         and change["at_us"] >= since * 1e6), None)
        return wait_for(passed, lambda: f"{self.name} was not {'/'.join(states)} {reason!r}: "
                        f"{json.dumps(self.rpc('history')[:8])}\n{self.tail(30)}", timeout)

    def wait_status(self, question, what, timeout=30.0):
        last = {}

        def asked():
            status = self.try_status()
            if status is None:
                return None
            last.update(status)
            return status if question(status) else None
        return wait_for(asked, lambda: f"{self.name}: {what}; last status {json.dumps(last)}\n"
                        f"{self.tail(30)}", timeout)


class Proxy(Daemon):
    program = PROXY

    def __init__(self, directory, name, primary, listen=(CARRIER,), wrapper=None, **settings):
        self.listen = {}
        for carrier in listen:
            if carrier == "shm":
                self.listen["shm"] = "shm://" + os.path.join(directory, name + ".shm")
            elif carrier == "tcp":
                self.listen["tcp"] = f"tcp://127.0.0.1:{free_port()}"
            elif carrier == "tcp+tls":
                self.listen["tcp+tls"] = f"tcp+tls://127.0.0.1:{free_port()}"
            elif carrier == "rdma":
                self.listen["rdma"] = f"rdma://{RDMA_HOST}:{free_port()}"
        keys = {**settings_of(primary), "listen": list(self.listen.values()),
                "table.max_bytes": "1GiB", "source.feed": FEED}
        if TLS and "tcp+tls" in self.listen:
            keys.update(Authority(directory).wire("proxy"))
        keys.update({key.replace("__", "."): value for key, value in settings.items()})
        open_to_others = set(listen) - {"shm"} - ({"tcp+tls"} if keys.get("tls.ca") else set())
        if open_to_others and not keys.get("auth.allow_insecure"):
            keys.setdefault("auth.secret_file", secret_file(directory))
        super().__init__(directory, name, keys, wrapper)

    @property
    def address(self):
        """The first of those it listens on."""
        return next(iter(self.listen.values()))

    def wait_live(self, timeout=120.0):
        return self.wait_state("live", timeout=timeout)


def keys_to_enter(directory, proxy, name):
    """What an agent or a gateway of this name needs in order to be let in."""
    keys = Authority(directory).wire(name, san="URI:keywake:" + name) if TLS else {}
    if proxy.settings.get("auth.secret_file") == secret_path(directory):
        return {**keys, "auth.secret_file": secret_file(directory)}
    return {**keys, "auth.allow_insecure": True} if proxy.settings.get("auth.allow_insecure") else keys


MODES = {
    "commands": {},
    "replica": {"apply__mode": "replica", "apply__consent": True},
    "hybrid": {"apply__mode": "hybrid", "apply__consent": True},
}


class Agent(Daemon):
    program = AGENT

    def __init__(self, directory, name, proxy, replica, via=CARRIER, wrapper=None, **settings):
        keys = {"proxy": proxy.listen[via], "name": name, **settings_of(replica),
                **keys_to_enter(directory, proxy, name)}
        keys.update({key.replace("__", "."): value for key, value in settings.items()})
        super().__init__(directory, name, keys, wrapper)
        self.replica = replica

    def wait_warm(self, timeout=120.0):
        """keywakectl wait warm: all that was written before this call is in the replica now."""
        return self.ctl_ok("wait", "warm", "--timeout", int(timeout * SLOW), timeout=timeout + 10)

    def warm_since(self, wall_seconds):
        """Does the agent claim, now, to hold all that was written before that wall clock time?"""
        status = self.try_status()
        return bool(status and status["state"] == "warm"
                    and status.get("fresh_us", 0) >= wall_seconds * 1e6)


class Gateway(Daemon):
    program = GATEWAY

    def __init__(self, directory, name, proxy, via=CARRIER, wrapper=None, **settings):
        self.socket = os.path.join(directory, name + ".resp")
        self.port = free_port()
        # Each lookup and each client has a line at level debug: too much under load.
        keys = {"proxy": proxy.listen[via], "name": name,
                "gateway.resp": ["unix://" + self.socket, f"tcp://127.0.0.1:{self.port}"],
                "log.level": "info", **keys_to_enter(directory, proxy, name)}
        keys.update({key.replace("__", "."): value for key, value in settings.items()})
        keys.setdefault("gateway.allow_insecure", True)
        if keys.get("redis.address", "").startswith("rediss://"):
            keys = {**Authority(directory).settings(), **keys}
        super().__init__(directory, name, keys, wrapper)

    def client(self, db=0, timeout=60, **options):
        return redis.Redis(unix_socket_path=self.socket, db=db, socket_timeout=timeout, **options)

    def wait_serving(self, timeout=120.0):
        return self.wait_state("serving", timeout=timeout)

    def wait_fresh(self, timeout=120.0):
        """All that the primary did before this call is in the table that the gateway reads."""
        now = time.time() * 1e6
        return self.wait_status(lambda status: status["state"] == "serving" and status["fresh_us"] >= now,
                                "its table does not get fresh", timeout)


def wall():
    return time.time()
