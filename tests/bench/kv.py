"""Keys asked for one by one: the gateway beside redis-server and memcached."""
from contextlib import ExitStack
from functools import partial
import csv
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
if __name__ == "__main__": # in the guest; outside tests/bench/run has seen to it
    sys.path[:0] = [HERE, os.path.join(HERE, "..", "integration")]

from core import cpu                                     # noqa: E402
from core.guest import in_guest, leave_rows, start_proxy # noqa: E402
from core.peers import peer                              # noqa: E402
from core.row import AT_MOST, hold, make_row             # noqa: E402
from core.rounds import NotBuilt                         # noqa: E402
from core.stage import Stage, fill, seconds_until        # noqa: E402
from rdma import latency                                 # noqa: E402

TITLE = "keys asked for one by one: the gateway, redis-server and memcached"
ABOUT = """\
Fifty connections over unix sockets ask for keys as fast as they are answered. The load, the servers and the
table's proxy share this machine's cores, so CPU for each get says more than gets a second.

- `server_us`: CPU microseconds of a get in the program that answers. `of_redis`, `of_memcached`: over theirs.
- `proxy_us`, `primary_us`: what a get costs those behind the gateway. They have work of their own, which this
  is a part of: heartbeats, looks at the primary.
- `reads`, `bytes`: READs of the table for a get, and what they bring.
- `stale`: answers older than what a SET's reply had confirmed before they were asked for.
- The mixes are YCSB's: C only reads. B has 5 % updates, D 5 % inserts with reads of the newest, A 50 % updates.
  The gateway forwards what writes to the primary. E (scans) and F (read, modify, write) are not served from
  a table, and not measured.
- `memcached, multi`: a batch is one request for all of its keys, as memcached's clients do.
- The load is `peer-get`, whose source is here: it checks each value and knows what may be stale. In the cases
  named so it is `redis-benchmark`, Redis' own program, which does neither.

`table` has no server: `table-get` looks keys up in its own process, and holds that against the same READs done
by hand, which nobody looks at (`bare`).

In the guest, whose figures mean nothing but whose ratios do: a get over rdma against redis-server's over TCP,
and perftest's latency of one operation of 128 bytes for each kind of queue pair. UC has no READ and UD only
SENDs, so keywake uses RC.
"""
# mix, keys, value bytes, depth, zipfian, words for peer-get
READS = [
    ("C, 100 B, uniform, depth 1", 1_000_000, 100, 1, False, ()),
    ("C, 100 B, uniform, depth 4", 1_000_000, 100, 4, False, ()),
    ("C, 100 B, uniform, depth 16", 1_000_000, 100, 16, False, ()),
    ("C, 100 B, uniform, depth 64", 1_000_000, 100, 64, False, ()),
    ("C, 100 B, zipfian, depth 16", 1_000_000, 100, 16, True, ()),
    ("B, 100 B, zipfian, depth 16", 1_000_000, 100, 16, True, ("--updates", 0.05)),
    ("D, 100 B, depth 16", 1_000_000, 100, 16, False, ("--inserts", 0.05)),
    ("A, 100 B, zipfian, depth 16", 1_000_000, 100, 16, True, ("--updates", 0.5)),
    ("C, 16 B, uniform, depth 16", 1_000_000, 16, 16, False, ()),
    ("C, 4 KiB, uniform, depth 16", 100_000, 4096, 16, False, ()),
    ("C, 64 KiB, uniform, depth 16", 5_000, 65536, 16, False, ()),
]
OTHERS = [1, 16] # depths at which redis-benchmark asks, mix C, the first data set
OTHERS_GETS = 75_000 # a second and depth, so that it takes about the time that peer-get does
QUICK = [("C, 100 B, uniform, depth 16", 20_000, 100, 16, False, ()),
         ("B, 100 B, zipfian, depth 16", 20_000, 100, 16, True, ("--updates", 0.05))]
OF_REDIS = {1: 1.0, 16: 0.85} # by depth, of mix C over uniform keys of 100 B
OF_MEMCACHED, OF_REDIS_CACHED = 0.6, 0.6
READS_A_GET, READS_A_GET_PLACES, BYTES_A_GET = 2.05, 1.1, 320
OF_REDIS_TCP, OF_BARE = 0.4, 1.2 # over rdma: medians of a get's time
GUEST, GUEST_QUICK = (500, 1_000), (100, 100) # keys, gets of each way
KINDS = {"RC, ib_read_lat": ("ib_read_lat",), "UC, ib_write_lat": ("ib_write_lat", "-c", "UC"),
         "UD, ib_send_lat": ("ib_send_lat", "-c", "UD")}
CACHE_BYTES = "512MiB"
RECORD_BYTES = 112 # of a record with such a key, but for the value: head, key, DUMP's frame


class Memcached:
    """Debian's memcached, with one thread, behind a unix socket."""

    def __init__(self, directory):
        program = shutil.which("memcached")
        if not program:
            raise NotBuilt("memcached is not installed")
        self.path = os.path.join(directory, "memcached.sock")
        self.process = subprocess.Popen([program, "-u", "root", "-t", "1", "-m", "4096", "-s", self.path],
                                        stdin=subprocess.DEVNULL)
        seconds_until(lambda: os.path.exists(self.path), 10, what="memcached")

    @property
    def pid(self):
        return self.process.pid

    def close(self):
        self.process.kill()
        self.process.wait()


class World:
    """One data set: the primary with its table, gateways of each kind, and memcached."""

    def __init__(self, stack, keys, value_bytes):
        self.keys, self.value_bytes = keys, value_bytes
        self.stage = stage = stack.enter_context(Stage())
        self.primary = stage.primary()
        fill(self.primary, keys, value_bytes)
        self.proxy = stage.proxy(self.primary)
        self.memcached = Memcached(stage.bed.directory)
        stack.callback(self.memcached.close)
        peer("peer-get", f"unix://{self.memcached.path}", "--protocol", "memcached", "--fill",
             "--pipeline", 16, "--seconds", 120, *self.data_words())
        self.gateways = {via: self.gateway(via) for via in ("shm", "tcp")}
        self.gateways["cached"] = self.gateway("shm", gateway__cache_bytes=CACHE_BYTES)

    def gateway(self, via, **settings):
        name = self.stage.name("gateway")
        path = os.path.join(self.stage.bed.directory, name + ".memcached")
        gateway = self.stage.bed.gateway(self.proxy, via=via, name=name, log__level="warn",
                                         gateway__memcached=["unix://" + path], gateway__forward=True,
                                         redis__address=self.primary.address, **settings)
        gateway.wait_serving()
        gateway.memcached = path
        return gateway

    def data_words(self):
        return ("--keys", self.keys, "--value-bytes", self.value_bytes)

    def peer_get(self, address, seconds, words):
        found = peer("peer-get", address, "--seconds", seconds, *self.data_words(), *words)
        if found["errors"] or found["wrong"]:
            raise RuntimeError(f"{found['errors']} errors ({found['first_error']}), {found['wrong']} wrong "
                               f"values in {found['gets']} gets")
        gets = found["gets"] + found["sets"]
        return gets, {"gets_s": gets / found["seconds"], "p50_us": found["p50_us"],
                      "p99_us": found["p99_us"], "stale": found["stale"],
                      "client_us": found["cpu_s"] / gets * 1e6}

    def redis_benchmark(self, path, seconds, depth):
        gets = int(OTHERS_GETS * seconds * min(depth, 4))
        before = os.times()
        done = subprocess.run(["redis-benchmark", "-s", path, "-c", "50", "-P", str(depth), "-n", str(gets),
                               "-r", str(self.keys), "--csv", "get", "key:__rand_int__"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=600)
        after = os.times()
        head, row = list(csv.reader(done.stdout.strip().splitlines()))[-2:]
        found = dict(zip(head, row))
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        return gets, {"gets_s": float(found["rps"]), "p50_us": float(found["p50_latency_ms"]) * 1000,
                      "p99_us": float(found["p99_latency_ms"]) * 1000, "client_us": spent / gets * 1e6}

    def ask(self, load, server, gateway=None):
        """Gets by a program, and what each get cost everybody."""
        there = {"server": server, "proxy": self.proxy, "primary": self.primary}
        before = {role: cpu.seconds(process.pid) for role, process in there.items()}
        counted = gateway.status() if gateway else {}
        gets, figures = load()
        for role, process in there.items():
            if role == "server" or gateway:
                figures[f"{role}_us"] = (cpu.seconds(process.pid) - before[role]) / gets * 1e6
        if gateway:
            status = gateway.status()
            for figure, key in (("reads", "reads"), ("bytes", "bytes_read")):
                figures[figure] = (status[key] - counted[key]) / gets
        return figures

    def ask_gateway(self, kind, protocol, seconds, words):
        gateway = self.gateways[kind]
        path = gateway.socket if protocol == "resp" else gateway.memcached
        load = partial(self.peer_get, "unix://" + path, seconds, ("--protocol", protocol, *words))
        return self.ask(load, gateway, gateway)

    def sides(self, seconds, words):
        """Name -> function, of what can serve this mix."""
        writes = "--updates" in words or "--inserts" in words
        memcached = f"unix://{self.memcached.path}"
        yield "redis-server", partial(self.ask, partial(self.peer_get, self.primary.address, seconds, words),
                                      self.primary)
        words_of = {"memcached": ("--protocol", "memcached", *words)}
        if not writes:
            words_of["memcached, multi"] = ("--protocol", "memcached", "--multi", *words)
        for name, protocol in words_of.items():
            yield name, partial(self.ask, partial(self.peer_get, memcached, seconds, protocol), self.memcached)
        for kind in self.gateways:
            yield f"gateway, {kind}", partial(self.ask_gateway, kind, "resp", seconds, words)
        if not writes:
            yield "gateway, shm, memcached text", partial(self.ask_gateway, "shm", "memcached",
                                                          seconds, words)
            yield "gateway, shm, memcached meta", partial(self.ask_gateway, "shm", "meta", seconds, words)

    def others(self, seconds, depth):
        """The same under a load that is not ours."""
        yield "redis-server", partial(self.ask, partial(self.redis_benchmark, self.primary.socket, seconds, depth),
                                      self.primary)
        for kind in ("shm", "cached"):
            gateway = self.gateways[kind]
            load = partial(self.redis_benchmark, gateway.socket, seconds, depth)
            yield f"gateway, {kind}", partial(self.ask, load, gateway, gateway)


def get_words(depth, zipf, words):
    return ("--pipeline", depth, *(["--zipf"] if zipf else []), *words)


def case_rows(case, depth, sides):
    redis, memcached = sides["redis-server"], sides.get("memcached")
    for name, side in sides.items():
        more = {}
        if name.startswith("gateway"):
            more = {"of_redis": side.ratio(redis, "server_us")}
            if memcached:
                more["of_memcached"] = side.ratio(memcached, "server_us")
        row = make_row(case, side, **more)
        if name == "gateway, shm" and case.startswith("C, 100 B, uniform") and depth in OF_REDIS:
            hold(row, "of_redis", AT_MOST, OF_REDIS[depth])
            if depth == 16:
                hold(row, "of_memcached", AT_MOST, OF_MEMCACHED)
            hold(row, "reads", AT_MOST, READS_A_GET)
        if name == "gateway, cached" and case.startswith("C, 100 B, zipfian"):
            hold(row, "of_redis", AT_MOST, OF_REDIS_CACHED)
        yield row


# ---- the table itself ----

def table_get(address, keys, depth, gets):
    """Figures of each way; one program measures all three in turns."""
    found = peer("table-get", address, "--keys", keys, "--depth", depth, "--places", min(keys, 65536),
                 "--gets", gets)
    figures = {}
    for way, one in found.items():
        figures[way] = {"gets_s": one["gets"] / one["seconds"],
                        "client_us": one["cpu_s"] / one["gets"] * 1e6,
                        "reads": one["reads"] / one["gets"], "bytes": one["bytes"] / one["gets"],
                        "p50_us": one["p50_us"], "p99_us": one["p99_us"]}
    return figures


class Ways:
    """Sides that one program measures together: each round runs it once."""

    def __init__(self, measure):
        self.measure, self.found = measure, {}

    def side(self, way):
        if way not in self.found:
            self.found = self.measure()
        return self.found.pop(way)

    def sides(self, via):
        return {f"table, {via}, {way}": partial(self.side, way) for way in ("bare", "lookup", "places")}


def table_rows(case, via, sides, value_bytes, redis=None):
    bare = sides[f"table, {via}, bare"]
    for way, reads in (("bare", None), ("lookup", READS_A_GET), ("places", READS_A_GET_PLACES)):
        side = sides[f"table, {via}, {way}"]
        row = make_row(case, side, of_bare=side.ratio(bare, "p50_us" if via == "rdma" else "client_us"),
                       of_redis=side.ratio(redis, "p50_us") if redis else None)
        if reads:
            hold(row, "reads", AT_MOST, reads)
            hold(row, "bytes", AT_MOST, value_bytes + RECORD_BYTES + BYTES_A_GET)
        if way == "lookup" and via == "rdma":
            hold(row, "of_bare", AT_MOST, OF_BARE)
            hold(row, "of_redis", AT_MOST, OF_REDIS_TCP)
        yield row


# ---- in the guest ----

def ask_once(address, keys, seconds):
    """One connection that asks for one key after the other."""
    found = peer("peer-get", address, "--keys", keys, "--connections", 1, "--seconds", seconds)
    if found["errors"] or found["wrong"]:
        raise RuntimeError(f"{found['errors']} errors ({found['first_error']}), {found['wrong']} wrong")
    return {"gets_s": found["gets_s"], "p50_us": found["p50_us"], "p99_us": found["p99_us"]}


def perftest_latency(*words):
    return {"p50_us": latency(*words)}


def run_inside(run):
    kinds = run.pick(KINDS, {})
    seconds, case = run.pick(3, 1), "in the guest, depth 1"
    keys, gets = run.pick(GUEST, GUEST_QUICK)
    with Stage() as stage:
        primary = stage.primary()
        fill(primary, keys)
        proxy = start_proxy(stage, primary)
        gateway = stage.bed.gateway(proxy, via="rdma", log__level="warn")
        gateway.wait_serving()
        ways = Ways(lambda: table_get(proxy.listen["rdma"], keys, 1, gets))
        tcp = f"tcp://127.0.0.1:{primary.config['port']}"
        sides = run.rounds({
            "redis-server, tcp": partial(ask_once, tcp, keys, seconds),
            "gateway, rdma": partial(ask_once, "unix://" + gateway.socket, keys, seconds),
            **ways.sides("rdma"),
            **{name: partial(perftest_latency, *words) for name, words in kinds.items()},
        })
        redis = sides["redis-server, tcp"]
        rows = list(table_rows(case, "rdma", sides, 100, redis))
        for name in ("redis-server, tcp", "gateway, rdma", *kinds):
            rows.append(make_row(case, sides[name]))
        return rows


def run(run):
    rows, seconds = [], min(run.seconds, 3)
    with ExitStack() as stack:
        worlds = {}
        for case, keys, value_bytes, depth, zipf, words in run.pick(READS, QUICK):
            size = (keys, value_bytes)
            if size not in worlds:
                stack.close() # one data set at a time: memory
                worlds = {size: World(stack, *size)}
            words = get_words(depth, zipf, words)
            rows += case_rows(case, depth, run.rounds(dict(worlds[size].sides(seconds, words))))
            if case.startswith("C, 100 B, uniform, depth 16"):
                for deep in OTHERS:
                    rows += case_rows(f"C by redis-benchmark, 100 B, uniform, depth {deep}", deep,
                                      run.rounds(dict(worlds[size].others(seconds, deep))))
                for via in ("shm", "tcp"):
                    for deep in run.pick((1, 16), (16,)):
                        ways = Ways(partial(table_get, worlds[size].proxy.listen[via], keys, deep,
                                            run.pick(200_000 if via == "shm" else 50_000, 20_000)))
                        rows += table_rows(f"C, 100 B, uniform, depth {deep}", via,
                                           run.rounds(ways.sides(via)), value_bytes)
    return rows + in_guest(__file__, run)


if __name__ == "__main__":
    leave_rows(run_inside)
