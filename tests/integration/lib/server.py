"""A real Redis or Valkey server on a unix socket."""
import os
import re
import shutil
import subprocess

import redis

from .ports import free_port
from .process import SLOW, Process, wait_for
from .tls import Authority

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
SERVERS = os.environ.get("KW_SERVERS_DIR") or os.path.join(TOP, "build", "servers")
# All daemons of a test reach their servers over TLS, both ends with a certificate.
TLS = os.environ.get("KW_TLS") == "1"
# How proxies learn of changes where a test does not say.
FEED = os.environ.get("KW_FEED", "notifications")
# The server of a test that names none.
DEFAULT = os.environ.get("KW_SERVER") or "installed"
ONLY_INSTALLED = os.environ.get("KW_SERVERS") == "installed"

# What tests/servers fetches; the required ones must be there, unless KW_SERVERS=installed.
REQUIRED = ["redis-trixie", "valkey-trixie", "redis-sid", "valkey-sid", "redis-bullseye"]

# The servers over which a test runs that depends on the server; none of them is too old. The slow
# suites (sanitizers) leave out the two newest: these would cost minutes there and show nothing new.
MATRIX = ["installed", "redis-trixie", "valkey-trixie"]
if SLOW == 1:
    MATRIX += ["redis-sid", "valkey-sid"]
if TLS or FEED == "stream" or DEFAULT != "installed": # a run for one server
    MATRIX = ["installed"]

# What a file of keys begins with.
RDB_MAGIC = (b"REDIS", b"VALKEY")
DATABASES = 16
REPLY_SECONDS = 300 # DEBUG DIGEST of many keys can take a minute on a busy machine


class ServerMissing(Exception):
    """No such server on this machine."""


def is_own(name):
    """The machine's own server: "installed", which KW_SERVER replaces, or "own", which it does not."""
    return name == "own" or (name == "installed" and DEFAULT == "installed")


def binary_path(name):
    if is_own(name):
        path = shutil.which("redis-server")
    else:
        path = os.path.join(SERVERS, "bin", DEFAULT if name == "installed" else name)
        path = path if os.path.exists(path) else None
    if not path:
        raise ServerMissing(f"server {name} is not there: run tests/servers "
                            "(or set KW_SERVERS=installed to leave its tests out)")
    return path


def binary_version(name):
    """(kind, (major, minor, patch)) of a server binary."""
    text = subprocess.run([binary_path(name), "--version"], capture_output=True, text=True,
                          check=True).stdout
    kind = "valkey" if text.lower().startswith("valkey") else "redis"
    return kind, tuple(int(part) for part in re.search(r"v=(\d+)\.(\d+)\.(\d+)", text).groups())


def check_rdb(binary, path):
    """redis-check-rdb of that version over a file: its exit status and what it says."""
    name = "redis-check-rdb"
    if is_own(binary):
        argv = [shutil.which(name), path]
    else:
        # The server's own binary, by another name: its wrapper starts it through a loader.
        name = f"{binary_version(binary)[0]}-check-rdb"
        with open(binary_path(binary), encoding="utf-8") as stream:
            wrapper = stream.read().replace("' --library-path", f"' --argv0 {name} --library-path", 1)
        argv = ["sh", "-c", wrapper, name, path]
    done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
    return done.returncode, done.stdout + done.stderr


class Server(Process):
    def __init__(self, directory, name, binary="installed", tls=TLS, **config):
        """tls: daemons are given its address rediss://; demands a certificate of them."""
        self.directory = os.path.join(directory, name)
        os.makedirs(self.directory, exist_ok=True)
        self.socket = os.path.join(directory, name + ".sock")
        self.binary = binary
        self.kind, self.version = binary_version(binary)
        self.config = {
            "port": "0", "unixsocket": self.socket, "unixsocketperm": "700",
            "dir": self.directory, "save": "", "appendonly": "no", "daemonize": "no",
            "databases": str(DATABASES), "maxclients": "500",
            "repl-diskless-sync-delay": "0", # of a native primary, which waits for more replicas
        }
        if self.kind == "valkey" or self.version >= (7, 0, 0):
            self.config["enable-debug-command"] = "yes"
        self.authority = Authority(directory) if tls else None
        self.tls_port = free_port() if tls else 0
        if tls:
            replicates = {"tls_replication": "yes"} if TLS else {} # then the link of mode replica speaks it, too
            config = {**self.authority.server_config(self.tls_port), **replicates, **config}
        self.config.update({key.replace("_", "-"): value if isinstance(value, tuple) else str(value)
                            for key, value in config.items()})
        super().__init__(name, [], os.path.join(directory, name + ".log"))

    @property
    def address(self):
        return f"rediss://127.0.0.1:{self.tls_port}" if self.authority else "unix://" + self.socket

    @property
    def certificates(self):
        """What a daemon needs in order to be let in by this server."""
        return self.authority.settings() if self.authority else {}

    @property
    def label(self):
        return f"{self.kind} {'.'.join(map(str, self.version))}"

    def start(self, wait=True):
        self.argv = [binary_path(self.binary)]
        for key, value in self.config.items():
            self.argv += ["--" + key, *(value if isinstance(value, tuple) else (value,))]
        self.spawn()
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self, timeout=60.0):
        def ready():
            assert self.alive, f"{self.name} ended:\n{self.tail()}"
            try:
                return self.admin(timeout=5).ping()
            except redis.exceptions.AuthenticationError: # it answers: with NOAUTH
                return True
            except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
                return False
        wait_for(ready, lambda: f"{self.name} does not answer:\n{self.tail()}", timeout)

    def restart(self, keep_data=True, wait=True):
        """
        Start again after kill(): with what the RDB holds, or empty. wait: not where it is the load that
        an agent begins at once which is waited for: the server answers only behind it.
        """
        dump = os.path.join(self.directory, "dump.rdb")
        if not keep_data and os.path.exists(dump):
            os.unlink(dump)
        return self.start(wait)

    def client(self, db=0, timeout=REPLY_SECONDS, **options):
        return redis.Redis(unix_socket_path=self.socket, db=db, socket_timeout=timeout, **options)

    def admin(self, db=0, timeout=REPLY_SECONDS):
        return self.client(db, timeout)

    def wait_replicates(self):
        """It has its primary's data. INFO is answered while a server loads them; WAIT on the primary can count it then."""
        with self.client() as client:
            wait_for(lambda: client.info("replication")["master_link_status"] == "up",
                     f"{self.name} does not replicate")

    def command(self, *words, db=0):
        with self.client(db) as client:
            return client.execute_command(*words)

    def rdb_version(self, key):
        """Of the payloads that it writes, which end with it and a checksum. Debian's updates may raise it."""
        return int.from_bytes(self.command("DUMP", key)[-10:-8], "little")

    def debug_sleep_allowed(self):
        return "enable-debug-command" in self.config
