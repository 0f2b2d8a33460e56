"""What one invocation was asked to do; benchmarks get it as their only argument."""
from .rounds import ENOUGH, run_rounds


class Run:
    def __init__(self, quick=False, rounds=ENOUGH, keys=1_000_000, seconds=8, only=(), seed=1):
        self.quick = quick
        self.count = 1 if quick else rounds
        self.keys = 20_000 if quick else keys
        self.seconds = 1 if quick else seconds
        self.only = only # words; sides whose name has none of them are left out
        self.seed = seed

    def rounds(self, sides):
        self.seed += 1 # another order for each comparison
        return run_rounds(sides, self.count, self.wanted, warm=not self.quick, seed=self.seed)

    def wanted(self, name):
        return not self.only or any(word in name for word in self.only)

    def pick(self, usual, quick):
        return quick if self.quick else usual
