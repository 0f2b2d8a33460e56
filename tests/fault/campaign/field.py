"""
The field of a round: servers, daemons, links, and what is known of each at this moment.

Faults run as generators on the main thread: each yields the seconds that it wants to wait, and the
field goes on with the others meanwhile. Only the main thread starts processes, because a child's death
signal follows the thread that forked it.
"""
import contextlib
import os
import random
import shutil
import signal
import struct
import threading
import time

import redis

from lib import data
from lib.bed import Bed
from lib.clock import Clock
from lib.daemon import BUILD, free_port, secret_file
from lib.process import SLOW
from lib.rpc import Rpc, RpcError

from . import plants
from .links import Links

DISK = os.path.join(BUILD, "tests", "preload", "kw-disk.so")
TICK = 0.02
UNBRAKED = 1000        # deletions by inference that need no approval,
UNBRAKED_SHARE = 0.4   # or this share: source.max_missing and apply.max_prune, one after the other
PATIENCE = 12.0 # seconds for a server to answer to a fault's command
PASSING = ("BUSY", "LOADING", "MASTERDOWN") # errors of a server that answers later
DATA_NAME = "campaign" # of both proxies of one primary: operate.md, "another data set"
USER, PASSWORD = "keywake", "the password of the campaign"


class NotInjected(Exception):
    """The fault could not be brought about: other faults were in its way."""


class Died(Exception):
    """A process ended although no fault ended it."""


class Machine:
    """The host of one process: its wall clock can be stepped, and its disk can be full."""

    def __init__(self, bed, name):
        self.clock = Clock(bed, name + ".clock")
        self.disk = bed.file(name + ".disk", "\0" * 8)

    def drive(self, process):
        """Before it starts."""
        self.clock.drive(process)
        process.env = {**process.env, "LD_PRELOAD": process.env["LD_PRELOAD"] + " " + DISK,
                       "KW_DISK_FILE": self.disk}

    def step(self, seconds):
        self.clock.step(seconds)

    def fill_disk(self, full):
        with open(self.disk, "r+b", buffering=0) as stream:
            stream.write(struct.pack("=q", int(full)))

    def heal(self):
        self.step(0)
        self.fill_disk(False)


class Front:
    """Where clients find the primary: a link of the file system that a failover turns."""

    def __init__(self, path, server):
        self.path = path
        self.turn(server)

    def turn(self, server):
        self.server = server
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.path + ".new")
        os.symlink(server.socket, self.path + ".new")
        os.replace(self.path + ".new", self.path)

    def client(self, db=0, timeout=20):
        return redis.Redis(unix_socket_path=self.path, db=db, socket_timeout=timeout)


class Side:
    """One agent and its replica."""

    def __init__(self, agent, replica):
        self.agent, self.replica = agent, replica
        self.second = None # another instance of the agent, while there is one
        self.marks = 0     # faults that changed the replica's data
        self.blind_until = 0.0
        self.state_blind_until = 0.0
        self.was_warm = False
        self.fill_before = 0 # keys of the fill when the primary lost them, of one that was warm


class Address:
    """What a daemon needs to know of a server that it reaches through a link."""

    def __init__(self, path):
        self.address = "unix://" + path


class Field:
    def __init__(self, plan, table, plant=None):
        self.plan, self.table, self.plant = plan, table, plant
        self.bed = Bed()
        self.directory = self.bed.directory
        self.links = Links()
        self.needs = set(plan.needs)
        if plants.link_of(plant):
            self.needs.add("link " + plants.link_of(plant))
        self.machines = {}
        self.sides = []
        self.holders = {}  # process -> the fault that has it for itself
        self.current = None
        self.complaints = []
        self.may_be_dead = set() # processes that a fault has ended, or that may end
        self.primary_marks = 0   # faults that changed the primary's data
        self.approvals = 0
        self.lock = threading.Lock()
        self.begun = time.monotonic()
        self.story = []
        self.running = []
        self.injected, self.missed = {}, {}
        self.phases = {}
        self.deletions = [] # sentences about keys that went by inference
        self.counts = {} # what faults have brought about, by name

    # Building it.

    def path(self, name):
        return os.path.join(self.directory, name)

    def fill_of(self, side):
        """How many keys of the fill a replica has."""
        with side.replica.client(timeout=10) as client:
            return sum(1 for _ in client.scan_iter(match="fill:*", count=5000))

    def count(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def count_fill(self):
        """Before the primary loses its data without a word: these keys may not go by inference."""
        for side in self.sides:
            if side.was_warm and not self.held(side.replica):
                with contextlib.suppress(redis.exceptions.RedisError):
                    side.fill_before = max(side.fill_before, self.fill_of(side))

    def check_fill(self, side):
        """Before anybody approves, or the keys come back. False: it proves nothing."""
        if self.plan.swaps or any(self.table[fault.kind].deletes for fault in self.plan.faults):
            return False
        before, after = side.fill_before, self.fill_of(side)
        if after < before - max(UNBRAKED, before * UNBRAKED_SHARE):
            status = side.agent.try_status() or {}
            self.deletions.append(f"{side.replica.name} had {before} keys of the fill, and has {after}; "
                                  f"nobody approved. Agent: {status.get('state')} ({status.get('reason')})")
        return before > UNBRAKED

    def with_machine(self, process):
        if "machines" in self.needs:
            self.machines[process.name] = Machine(self.bed, process.name)
            self.machines[process.name].drive(process)

    def server(self, name, binary, **config):
        if "users" in self.needs:
            config["user"] = (USER, "on", ">" + PASSWORD, "~*", "&*", "+@all")
        server = self.bed.server(name, binary, start=False, **config)
        self.with_machine(server)
        server.start(wait=False)
        return server

    def linked(self, name, server):
        """The address by which a daemon reaches a server."""
        kind = name.rstrip("0123456789")
        drag = self.plan.drags.get(kind)
        if "link " + kind not in self.needs and not drag:
            return self.front.path if name == "primary" else server.socket
        path = self.path(f"to-{name}.sock")
        self.links.add(name, path, self.front.path if name == "primary" else server.socket, drag)
        return path

    def build(self):
        plan = self.plan
        config = dict(plan.primary_config)
        if "standby" in self.needs:
            config["port"] = free_port()
        self.primary = self.server("primary", plan.primary, **config)
        self.front = Front(self.path("front.sock"), self.primary)
        replicas = [self.server(f"replica{number}", plan.replica, **plan.replica_config)
                    for number in range(len(plan.carriers))]
        self.standby = None
        if "standby" in self.needs:
            self.standby = self.server("standby", plan.primary, port=free_port())
        for server in self.bed.servers:
            server.wait_ready()
        if self.standby:
            self.standby.command("REPLICAOF", "127.0.0.1", self.primary.config["port"])
        self.fill(replicas)
        if "foreign" in self.needs:
            self.build_foreign()
        self.start_daemons(replicas)

    def build_foreign(self):
        """Another primary with data of its own, and its proxy."""
        server = self.bed.server("foreign", self.plan.primary)
        data.fill_plain(server, 700, prefix="foreign:")
        self.foreign = self.bed.proxy(server, name="foreign-proxy", listen=("shm",),
                                      auth__secret_file=secret_file(self.bed.directory))

    def fill(self, replicas):
        if self.plan.fill:
            data.fill_plain(self.primary, self.plan.fill, prefix="fill:", seed=self.plan.seed)
        if self.plan.fill >= 2000:
            data.fill(self.primary, (11,))
        for replica in replicas:
            if self.plan.theirs:
                data.fill_plain(replica, self.plan.theirs, prefix="fill:", seed=self.plan.seed + 1)

    def start_daemons(self, replicas):
        plan = self.plan
        login = {}
        if "users" in self.needs:
            login = {"redis.username": USER,
                     "redis.password_file": self.bed.file("password", PASSWORD + "\n")}
        self.proxy = self.bed.proxy(Address(self.linked("primary", self.primary)), start=False,
                                    listen=("shm", "tcp"), **plan.proxy, **login)
        self.with_machine(self.proxy)
        if "sibling" in self.needs:
            self.proxy.settings["name"] = DATA_NAME
        for number, carrier in enumerate(plan.carriers):
            replica = replicas[number]
            agent = self.bed.agent(self.proxy, Address(self.linked(f"replica{number}", replica)),
                                   name=f"agent{number}", via=carrier, start=False, **plan.agent,
                                   **login)
            if carrier == "tcp" and "link table" in self.needs:
                port = free_port()
                self.links.add(f"table{number}", port, int(self.proxy.listen["tcp"].rsplit(":", 1)[1]))
                agent.settings["proxy"] = f"tcp://127.0.0.1:{port}"
                self.proxy.settings.setdefault("auth.addresses", []).append(f"127.0.0.1:{port}")
            self.with_machine(agent)
            self.sides.append(Side(agent, replica))
        if "sibling" in self.needs:
            self.sibling = self.bed.proxy(Address(self.front.path), name="sibling", start=False,
                                          listen=("shm",), **plan.proxy, **login,
                                          auth__secret_file=secret_file(self.bed.directory))
            self.sibling.settings["name"] = DATA_NAME
            self.sibling.start(wait=False)
        self.begun = time.monotonic()
        self.proxy.start(wait=False)
        for side in self.sides:
            side.agent.start(wait=False)

    # What is going on.

    def now(self):
        return time.monotonic() - self.begun

    def tell(self, sentence):
        self.story.append(f"{self.now():8.3f} {sentence}")

    def mark_primary(self):
        """The primary's data are, or were, changed by a fault."""
        with self.lock:
            self.primary_marks += 1

    def mark_replica(self, side):
        with self.lock:
            side.marks += 1

    def marks(self, side):
        with self.lock:
            return self.primary_marks, side.marks

    def blind(self, seconds, side=None, state_only=False):
        """
        A documented window: claims that are begun before its end do not count. state_only: a barrier
        (`wait warm`) has no such window, only the state that an agent shows.
        """
        until = time.monotonic() + seconds * SLOW
        for one in [side] if side else self.sides:
            one.state_blind_until = max(one.state_blind_until, until)
            if not state_only:
                one.blind_until = max(one.blind_until, until)

    def processes(self):
        extra = [side.second for side in self.sides if side.second]
        return self.bed.servers + self.bed.daemons + [one for one in extra
                                                      if one not in self.bed.daemons]

    def check_alive(self):
        for process in self.processes():
            if process.popen is not None and not process.alive and process not in self.may_be_dead:
                raise Died(f"{process.name} ended by itself with status {process.popen.returncode}: "
                           + process.tail(3).replace("\n", " | "))

    # What faults are made of.

    def take(self, process):
        """One fault at a time stops, kills or blocks a process."""
        deadline = time.monotonic() + PATIENCE * SLOW
        while self.holders.get(process) is not None:
            if time.monotonic() > deadline:
                raise NotInjected(f"{process.name} is held by another fault")
            yield TICK
        self.holders[process] = self.current

    def give(self, process):
        self.holders[process] = None

    def held(self, process):
        return self.holders.get(process) is not None

    def answers(self, server):
        try:
            with server.client(timeout=1) as client:
                return client.ping()
        except redis.exceptions.ResponseError as error: # also a full disk refuses PING
            return str(error).split(" ", 1)[0] not in PASSING
        except redis.exceptions.RedisError:
            return False

    def up(self, server):
        """Until a server that was started answers."""
        deadline = time.monotonic() + 30 * SLOW
        while not self.answers(server):
            if time.monotonic() > deadline or not server.alive:
                raise Died(f"{server.name} does not come up: {server.tail(3)}")
            yield TICK

    def ask(self, server, *words, db=0):
        """A command for a server that may be down at the moment; its reply."""
        deadline = time.monotonic() + PATIENCE * SLOW
        while True:
            if not self.held(server) or self.holders[server] == self.current:
                try:
                    with server.client(db, timeout=5) as client:
                        return client.execute_command(*words)
                except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError):
                    pass
                except redis.exceptions.ResponseError as error:
                    if str(error).split(" ", 1)[0] not in PASSING:
                        raise NotInjected(f"{words}: {error}") from error
            if time.monotonic() > deadline:
                raise NotInjected(f"{server.name} does not take {words}")
            yield TICK

    def start_again(self, process):
        process.start(wait=False)
        self.may_be_dead.discard(process)

    def phase(self):
        """What proxy and first agent say at this moment; None of one that is down or hangs."""
        said = []
        for daemon in (self.proxy, self.sides[0].agent):
            try:
                with Rpc(daemon.control, timeout=0.1) as rpc:
                    said.append(rpc.call("status")["state"])
            except (OSError, ValueError):
                said.append("away")
        return "/".join(said)

    # Running them.

    def run_fault(self, fault):
        kind = self.table[fault.kind]
        while self.now() < fault.at:
            yield fault.at - self.now()
        phase = self.phase()
        self.tell(f"fault {fault.index}: {fault.kind} begins, at {phase}")
        try:
            yield from kind.run(self, fault, random.Random(fault.seed))
        except NotInjected as why:
            self.missed[fault.kind] = self.missed.get(fault.kind, 0) + 1
            self.tell(f"fault {fault.index}: {fault.kind} could not be: {why}")
            self.holders = {process: holder for process, holder in self.holders.items()
                            if holder != fault.index}
            return
        self.injected[fault.kind] = self.injected.get(fault.kind, 0) + 1
        self.phases[phase] = self.phases.get(phase, 0) + 1
        self.tell(f"fault {fault.index}: {fault.kind} is over")

    def begin_faults(self):
        self.running = [[time.monotonic(), self.run_fault(fault), fault.index]
                        for fault in self.plan.faults]

    def turn(self):
        """Go on with what is due; sleep until the next is, a tick at most."""
        self.check_alive()
        now = time.monotonic()
        for entry in list(self.running):
            if entry[0] <= now:
                self.current = entry[2]
                try:
                    entry[0] = time.monotonic() + next(entry[1])
                except StopIteration:
                    self.running.remove(entry)
        time.sleep(TICK)

    def heal(self):
        """What a fault that could not be brought to its end has left behind."""
        for link in self.links.names:
            self.links.heal(link)
        for machine in self.machines.values():
            machine.heal()
        for process in self.processes():
            if process.alive:
                process.signal(signal.SIGCONT)
            elif process in self.may_be_dead and process in self.expected():
                self.start_again(process)
        for server in self.bed.servers:
            yield from self.up(server)
            self.heal_server(server)
        for daemon in self.expected() - set(self.bed.servers):
            self.heal_daemon(daemon)

    def expected(self):
        """The processes that a healthy field has."""
        return {*self.bed.servers, self.proxy, *(side.agent for side in self.sides)}

    def heal_server(self, server):
        with server.client(timeout=20) as client:
            for name, value in (("maxmemory", 0), ("maxmemory-policy", "noeviction"), ("save", ""),
                                ("client-output-buffer-limit", "pubsub 33554432 8388608 60")):
                client.config_set(name, value)
            if "users" in self.needs:
                client.execute_command("ACL", "SETUSER", USER, "on", "+@all", "~*", "&*")
            if server.name in self.machines and server.config["appendonly"] == "yes":
                # A failed fsync is not tried again before something else is written, which it refuses.
                client.config_set("appendonly", "no")
                client.config_set("appendonly", "yes")

    def heal_daemon(self, daemon):
        method = {"method": "config.set", "path": "source.keys_per_second", "value": 0}
        if daemon is not self.proxy:
            method = {"method": "resume"}
        with contextlib.suppress(OSError, ValueError, RpcError), Rpc(daemon.control, timeout=5) as rpc:
            rpc.call(**method)

    # Its end.

    def close(self):
        for machine in self.machines.values():
            machine.heal()
        complaints = self.bed.close()
        self.links.close()
        return complaints

    def keep(self, sentences):
        with open(self.path("story"), "w", encoding="utf-8") as stream:
            stream.write("\n".join([str(self.plan), *self.story, *sentences]) + "\n")

    def remove(self):
        shutil.rmtree(self.directory, ignore_errors=True)
