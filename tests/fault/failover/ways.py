"""The ways in which a primary loses its place; each is drawn, runs, and heals what it broke."""
import signal
import time

import redis

from lib.process import wait_for
from lib.sentinel import NAME, PEERS, VOTERS, patiently

from .scene import PROMISE, PROXIES, WARM_LAG

HELD = 4.0 # seconds, at most, for which a fault goes on after the election


class Round:
    """One failover: what was drawn, and what came of it."""

    def __init__(self, scene, number, dice):
        self.scene, self.number, self.dice = scene, number, dice
        self.way = dice.choice(sorted(WAYS))
        scene.wait_roles() # on a busy machine the sentinels can have failed over by themselves
        self.deposed, self.epoch = scene.primary, scene.epoch()
        self.failures, self.notes = [], []
        self.lost = {} # an agent: how many keys that it applied are gone, at least

    def hold(self):
        time.sleep(self.dice.uniform(0, HELD))

    def run(self):
        WAYS[self.way](self.scene, self)

    def elected(self):
        begun = time.monotonic()
        found = self.scene.wait_elected(self.epoch, self.deposed)
        self.notes.append(f"elected {found.name} after {time.monotonic() - begun:.1f} s")
        return found


def order(scene, turn):
    """SENTINEL FAILOVER at one of them; again while it refuses, because it sees no replica that is good enough."""
    def accepted():
        one = turn.dice.choice(scene.asked())
        try:
            one.ask("FAILOVER", NAME)
        except redis.exceptions.ResponseError:
            return scene.epoch() > turn.epoch # INPROG, or it is over
        return True
    wait_for(accepted, "the sentinels refuse to fail over", 60, every=0.3)


def by_order(scene, turn):
    """SENTINEL FAILOVER at a random sentinel."""
    order(scene, turn)
    turn.elected()


def killed(scene, turn):
    """SIGKILL; it comes back empty, and Sentinel makes it a replica."""
    turn.deposed.kill()
    turn.elected()
    turn.hold()
    turn.deposed.restart(keep_data=False)


def killed_and_back_alone(scene, turn):
    """SIGKILL; it comes back empty where Sentinel does not reach it, and takes writes."""
    turn.deposed.kill()
    turn.elected()
    scene.cut(turn.deposed, PEERS)
    turn.deposed.restart(keep_data=False)
    scene.tell_lost(turn.deposed, turn.number, 20)
    turn.hold()
    scene.heal()


def stopped(scene, turn):
    """SIGSTOP; it goes on after another was elected."""
    turn.deposed.signal(signal.SIGSTOP)
    try:
        turn.elected()
        turn.hold()
    finally:
        turn.deposed.signal(signal.SIGCONT)


def cut_from_sentinels(scene, turn):
    """Sentinels and replicas do not reach it; its proxies do, and clients write to it."""
    scene.wait_looked()
    scene.cut(turn.deposed, PEERS)
    scene.tell_lost(turn.deposed, turn.number, 20)
    time.sleep(0.5) # less than the sentinels need; whatever was applied by then is counted
    turn.lost = scene.applied_lost(turn.number)
    turn.elected()
    scene.tell_lost(turn.deposed, turn.number, 40)
    turn.hold()
    scene.heal()


def cut_from_proxies(scene, turn):
    """No proxy reaches it, and then Sentinel is asked to fail over."""
    scene.cut(turn.deposed, PROXIES)
    turn.hold()
    order(scene, turn)
    turn.elected()
    turn.hold()
    scene.heal()


def cut_from_all(scene, turn):
    """Only clients on its own host reach it."""
    scene.cut(turn.deposed, {*PEERS, *PROXIES})
    scene.tell_lost(turn.deposed, turn.number, 20)
    turn.elected()
    turn.hold()
    scene.heal()


def reset(scene, turn):
    """A sentinel forgets all that it knows of the others and of the replicas; then the primary is killed."""
    turn.dice.choice(scene.sentinels).ask("RESET", NAME)
    time.sleep(turn.dice.uniform(0, 2))
    killed(scene, turn)


def all_reset(scene, turn):
    """All sentinels forget the others; when they have found them again, one is asked to fail over."""
    for one in scene.sentinels:
        one.ask("RESET", NAME)
    wait_for(lambda: all((one.master() or {}).get("num-other-sentinels") == str(VOTERS - 1) for one in scene.sentinels),
             "the sentinels do not find each other", 60)
    order(scene, turn)
    turn.elected()


def without_majority(scene, turn):
    """Two of three sentinels stop, so nobody confirms the primary; it dies meanwhile, or when they are back."""
    two = turn.dice.sample(scene.sentinels, VOTERS // 2 + 1)
    for one in two:
        one.stopped = True
        one.signal(signal.SIGSTOP)
    begun = time.monotonic() + PROMISE + WARM_LAG
    early = turn.dice.random() < 0.5
    if early:
        turn.deposed.kill()
    time.sleep(PROMISE + WARM_LAG + turn.dice.uniform(0.5, 2))
    ended = time.monotonic() - 0.1
    for one in two:
        one.signal(signal.SIGCONT)
        one.stopped = False
    for sample in scene.witness.warm_between(begun, ended):
        turn.failures.append(("wrong_warm", f"without a majority: {sample}"))
    if not early:
        turn.deposed.kill()
    turn.elected()
    turn.deposed.restart(keep_data=False)


def twice(scene, turn):
    """Another failover as soon as the first one is over; the one that was elected is cut off."""
    order(scene, turn)
    second = turn.elected()
    scene.cut(second, PEERS)
    scene.tell_lost(second, turn.number, 20)
    turn.deposed, turn.epoch = second, scene.epoch()
    turn.elected()
    turn.hold()
    scene.heal()


WAYS = {way.__name__.replace("_", "-"): way for way in (
    by_order, killed, killed_and_back_alone, stopped, cut_from_sentinels, cut_from_proxies, cut_from_all,
    reset, all_reset, without_majority, twice)}

__all__ = ["Round", "WAYS", "patiently"]
