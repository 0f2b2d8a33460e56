"""
What a round will do, drawn from its seed and nothing else. Pure: the same seed and the same options
give the same plan.

Each fault draws from a seed of its own, so that the others stay as they are when one is left out.
"""
import dataclasses
import random

from lib.server import binary_version

MODES = ("commands", "replica", "hybrid")
FEEDS = ("notifications", "stream")
CARRIERS = (("shm",), ("tcp",), ("shm", "tcp"))
BRAKE_SHARE = 0.15 # of the rounds try the brakes of proxy and agents, and little else
BRAKE_FILL = 5000  # keys, enough for a brake
SECONDS = 2.6       # that the load runs, and faults begin
START_SECONDS = 0.5 # of them: first scan, snapshot, prune, takeover
NEWEST = 90         # stands for a family's format that only itself reads


@dataclasses.dataclass
class Fault:
    index: int
    kind: str
    at: float    # seconds after proxy and agents were started
    lasts: float # seconds, of those kinds that end something
    seed: str


@dataclasses.dataclass
class Plan:
    seed: int
    mode: str
    feed: str
    carriers: tuple
    primary: str
    replica: str
    seconds: float
    pace: int       # commands a second
    fill: int       # keys before the proxy starts
    theirs: int     # keys that the replica held before the agent came
    silent: bool    # also commands that raise no event
    swaps: bool     # SWAPDB and FLUSHDB in the load
    short_ttls: bool
    drags: dict     # a link -> what makes its bytes late: a barrier must wait for them
    proxy: dict     # settings
    agent: dict
    primary_config: dict
    replica_config: dict
    faults: list
    needs: frozenset # of all faults drawn, also of those that are left out

    def only(self, numbers):
        """The same round, with fewer faults."""
        return dataclasses.replace(
            self, faults=[fault for fault in self.faults if str(fault.index) in numbers])


def rdb_age(name):
    """Servers read what servers of a lower or the same number wrote, of their family."""
    kind, version = binary_version(name)
    if kind == "valkey":
        return NEWEST if version >= (9, 0, 0) else 11
    return 12 if version >= (7, 4, 0) else 10 if version < (7, 2, 0) else 11


def readers(primary, names):
    """The servers that a primary's values can be replicated to."""
    kind = binary_version(primary)[0]
    age = rdb_age(primary)
    return [name for name in names if rdb_age(name) == age and binary_version(name)[0] == kind
            or rdb_age(name) >= age and age <= 10]


def draw_servers(chance, names):
    primary = chance.choice(names)
    replica = primary if chance.random() < 0.7 else chance.choice(readers(primary, names))
    return primary, replica


def draw_settings(chance, options):
    proxy = {
        "source.watch_interval_ms": chance.choice((100, 200, 500)),
        "source.audit_keys_per_second": chance.choice((0, 0, 0, 200)),
        "source.fresh_interval_ms": chance.choice((10, 100)),
        "table.tombstone_seconds": chance.choice((1, 300)),
        "table.segment_bytes": chance.choice(("64KiB", "256KiB", "4MiB")),
        "table.max_bytes": "256MiB",
    }
    if chance.random() < 0.25:
        proxy["source.keys_per_second"] = chance.choice((4000, 8000)) # a long first scan
    agent = {"warm.lag_ms": chance.choice((300, 1000)),
             "apply.audit_keys_per_second": chance.choice((0, 0, 100, 5000))}
    if chance.random() < 0.3:
        agent["apply.window_bytes"] = 65536
    return proxy, agent


def draw_drags(chance):
    """Without them changes arrive sooner than the witness can ask, and no barrier would be missed."""
    return chance.choice(({}, {"primary": ("events", 40)}, {"primary": ("events", 150)},
                          {"primary": ("delay", 4)}, {"replica": ("delay", 20)},
                          {"primary": ("events", 40), "replica": ("delay", 10)}))


def draw_config(chance):
    """By default a replica ends itself when it cannot write its AOF."""
    return {"appendonly": chance.choice(("no", "no", "yes")),
            "replica-ignore-disk-write-errors": "yes"}


def draw_faults(chance, seed, kinds, seconds):
    """Two to five, most of them overlapping: they begin close to each other or to the start."""
    count = min(chance.randint(2, 5), len(kinds) * 2)
    centre = chance.uniform(START_SECONDS, seconds)
    faults = []
    for index in range(count):
        if chance.random() < 0.3:
            at = chance.uniform(0, START_SECONDS)
        else:
            at = min(seconds, max(0, chance.gauss(centre, 0.5)))
        faults.append(Fault(index, chance.choice(kinds), round(at, 3),
                            round(chance.uniform(0.1, 1.3), 3), f"{seed}/{index}"))
    return faults


def draw_brake(seed, kinds, table):
    """
    In some rounds: a fault that tries a brake, and one or two that take no keys away. Then every key
    that goes is gone by inference. None: not in this round.
    """
    chance = random.Random(f"brake {seed}")
    brakes = [name for name in kinds if table[name].brake]
    others = [name for name in kinds if table[name].spares()]
    if chance.random() >= BRAKE_SHARE or not brakes or not others:
        return None
    names = [chance.choice(brakes)] + [chance.choice(others) for _ in range(chance.randint(1, 2))]
    return [Fault(index, name, round(chance.uniform(START_SECONDS, 1.5), 3),
                  round(chance.uniform(0.1, 1.3), 3), f"{seed}/{index}")
            for index, name in enumerate(names)]


def feed_of(seed, options):
    """Nothing is drawn for it: a seed has the same round with either feed, but for kinds of one of them."""
    if options.feed != "seed":
        return options.feed
    return FEEDS[seed % 2]


def draw(seed, options, table):
    """table: the kinds of faults by name, each with .fits(mode, carriers, feed)."""
    chance = random.Random(f"fault {seed}")
    mode = chance.choice(MODES)
    if options.mode != "all":
        mode = options.mode
    primary, replica = draw_servers(chance, options.servers)
    carriers = chance.choice(CARRIERS)
    proxy, agent = draw_settings(chance, options)
    theirs = chance.choice((0, 0, 300))
    if theirs or mode != "commands":
        agent["apply.consent"] = True
    agent["apply.mode"] = mode
    feed = feed_of(seed, options)
    proxy["source.feed"] = feed
    kinds = [name for name in sorted(table) if table[name].fits(mode, carriers, feed)
             and (not options.faults or name in options.faults)]
    if not kinds:
        raise ValueError("none of these faults fits this mode, these carriers and this feed")
    faults = draw_faults(chance, seed, kinds, SECONDS)
    if any(fault.kind.startswith("replica-written") for fault in faults): # perhaps before the claim
        agent["apply.consent"] = True
    fill = chance.choice((0, 300, 2000, 5000))
    swaps = chance.random() < 0.2
    brake = draw_brake(seed, kinds, table)
    if brake:
        faults, swaps = brake, False
    if any(table[fault.kind].brake for fault in faults):
        fill = BRAKE_FILL
    return Plan(
        seed=seed, mode=mode, feed=feed, carriers=carriers, primary=primary, replica=replica, seconds=SECONDS,
        pace=chance.choice((500, 2000, 6000)), fill=fill,
        theirs=theirs, silent=chance.random() < 0.3, swaps=swaps,
        short_ttls=chance.random() < 0.6, drags=draw_drags(chance),
        proxy=proxy, agent=agent, primary_config=draw_config(chance), replica_config=draw_config(chance),
        faults=faults, needs=frozenset().union(*(table[fault.kind].needs for fault in faults)))


__all__ = ["FEEDS", "Fault", "Plan", "MODES", "draw"]
