"""What one invocation was asked to do; benchmarks get it as their only argument."""
from .rounds import run_rounds


class Run:
    def __init__(self, quick=False, pairs=3, keys=1_000_000, seconds=8):
        self.quick = quick
        self.pairs = 1 if quick else pairs
        self.keys = 20_000 if quick else keys
        self.seconds = 1 if quick else seconds
        self.mode = None # of keywake, where a benchmark lets one choose

    def rounds(self, sides, budget=120):
        return run_rounds(sides, self.pairs, budget)

    def pick(self, usual, quick):
        return quick if self.quick else usual
