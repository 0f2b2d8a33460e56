"""
Rounds: every side of a comparison once a round. Medians are quoted, and ratios as the median of the
rounds' own ratios, because machines drift.

Two things make a side look slow that is not, and both were met:

- The first time. Memory that the host has never given out before, caches and a replica's first
  allocation cost the side that comes first. So one round before all others is thrown away.
- The place. Whoever always comes after the same side always finds what that one left behind. So the
  sides of each round are shuffled, by a seed that the result names.
"""
import random
import statistics
import sys
import time

ENOUGH = 5 # rounds below which no figure is a claim


class NotBuilt(Exception):
    """This version of keywake does not have what the side needs."""


class Figure(float):
    """A median that remembers what it is the median of."""

    def __new__(cls, values):
        self = super().__new__(cls, statistics.median(values))
        self.low, self.high, self.count = min(values), max(values), len(values)
        return self


class Side:
    """What one side did in all rounds: a dictionary of figures for each, None if it failed."""

    def __init__(self, name):
        self.name = name
        self.rounds = []
        self.failures = []
        self.missing = None # why it is not built
        self.left_out = False

    @property
    def state(self):
        if self.left_out:
            return "left out"
        if self.missing:
            return "not built"
        if self.failures:
            return "failed"
        return "measured"

    @property
    def reason(self):
        if self.missing:
            return self.missing
        if self.failures:
            return f"{len(self.failures)} of {len(self.rounds)}: {self.failures[0]}"
        return ""

    def values(self, key):
        return [figures[key] for figures in self.rounds if figures and key in figures]

    def keys(self):
        seen = {}
        for figures in self.rounds:
            seen.update(dict.fromkeys(figures or ()))
        return list(seen)

    def figures(self):
        """Medians, of maxima too: one stall in one round is not a law."""
        return {key: Figure(self.values(key)) for key in self.keys()}

    def ratio(self, other, key, other_key=None):
        """The median of the rounds' ratios; None if no round has both."""
        found = [mine[key] / its[other_key or key] for mine, its in zip(self.rounds, other.rounds)
                 if mine and its and key in mine and its.get(other_key or key)]
        return Figure(found) if found else None


def run_rounds(sides, rounds, wanted=lambda name: True, warm=False, seed=0):
    """
    sides: name -> a function that measures once and returns its figures. warm: a first round is
    measured and thrown away. Each round takes the sides in an order of its own, drawn from the seed.
    """
    result = {name: Side(name) for name in sides}
    for name, side in result.items():
        side.left_out = not wanted(name)
    order, drawn = list(sides), random.Random(seed)
    for number in range(-1 if warm else 0, rounds):
        drawn.shuffle(order)
        for name in order:
            if result[name].missing or result[name].left_out:
                continue
            measure_once(result[name], sides[name], "first, not counted" if number < 0 else "")
    return result


def measure_once(side, measure, thrown_away=""):
    """One measurement. A first one that fails counts: it would fail again."""
    begin = time.monotonic()
    try:
        figures = measure()
    except NotBuilt as missing:
        side.missing = str(missing)
        return
    except Exception as failure: # whatever it is: the other sides go on, and the table shows it
        if not thrown_away:
            side.rounds.append(None)
        side.failures.append(" ".join(f"{type(failure).__name__}: {failure}".split())[:400])
        print(f"    {side.name}: {side.failures[-1]}", file=sys.stderr, flush=True)
        return
    if not thrown_away:
        side.rounds.append(figures)
    words = " ".join(f"{key} {value:.4g}" for key, value in figures.items())
    notes = ", ".join(filter(None, [thrown_away, f"took {time.monotonic() - begin:.1f} s"]))
    print(f"    {side.name}: {words} ({notes})", file=sys.stderr, flush=True)
