"""
Rounds: every side of a comparison once, in turn (A B C A B C …), because machines drift. Medians are
quoted, and ratios as the median of the rounds' own ratios.
"""
import statistics
import sys
import time


class NotBuilt(Exception):
    """This version of keywake does not have what the side needs."""


class Side:
    """What one side did in all rounds: a dictionary of figures for each, None where it failed."""

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
        return {key: statistics.median(self.values(key)) for key in self.keys()}

    def ratio(self, other, key, other_key=None):
        """The median of the rounds' ratios; None where no round has both."""
        found = [mine[key] / its[other_key or key] for mine, its in zip(self.rounds, other.rounds)
                 if mine and its and key in mine and its.get(other_key or key)]
        return statistics.median(found) if found else None


def run_rounds(sides, pairs, budget, wanted=lambda name: True):
    """
    sides: name -> a function that measures once and returns its figures. Rounds are begun as long as
    they are asked for and one more is likely to fit into the budget (seconds); one is always run.
    """
    result = {name: Side(name) for name in sides}
    for name, side in result.items():
        side.left_out = not wanted(name)
    begin = time.monotonic()
    for done in range(pairs):
        spent = time.monotonic() - begin
        if done and spent + spent / done > budget:
            break
        for name, measure in sides.items():
            if not result[name].missing and not result[name].left_out:
                measure_once(result[name], measure)
    return result


def measure_once(side, measure):
    begin = time.monotonic()
    try:
        side.rounds.append(measure())
    except NotBuilt as missing:
        side.missing = str(missing)
    except Exception as failure: # whatever it is: the other sides go on, and the table shows it
        side.rounds.append(None)
        side.failures.append(" ".join(f"{type(failure).__name__}: {failure}".split())[:400])
        print(f"    {side.name}: {side.failures[-1]}", file=sys.stderr, flush=True)
    else:
        words = " ".join(f"{key} {value:.4g}" for key, value in side.rounds[-1].items())
        print(f"    {side.name}: {words} (took {time.monotonic() - begin:.1f} s)", file=sys.stderr,
              flush=True)
