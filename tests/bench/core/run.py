"""What one invocation was asked to do; benchmarks get it as their only argument."""
from .rounds import run_rounds


class Run:
    def __init__(self, quick=False, pairs=3, keys=1_000_000, seconds=8, only=()):
        self.quick = quick
        self.pairs = 1 if quick else pairs
        self.keys = 20_000 if quick else keys
        self.seconds = 1 if quick else seconds
        self.only = only # words; sides whose name has none of them are left out

    def rounds(self, sides, budget=120):
        return run_rounds(sides, self.pairs, budget, self.wanted)

    def wanted(self, name):
        return not self.only or any(word in name for word in self.only)

    def pick(self, usual, quick):
        return quick if self.quick else usual
