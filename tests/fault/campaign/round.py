"""One round: build the field, let faults and writes go on, heal, and judge."""
import os
import random
import re
import time
import traceback

import redis

from lib.compare import key_counts
from lib.process import SLOW

from . import equality, plants
from .field import UNBRAKED, Died, Field
from .kinds import REMEDIES
from .load import FaultLoad
from .witness import Witness

AFTERMATH_SECONDS = 1.5 # that writers and witness go on after the last fault
WARM_SECONDS = 40.0    # to be warm after all faults are healed
PLANTED_SECONDS = 6.0  # instead of either, when a plant keeps it from getting there
SETTLE_SECONDS = 20.0  # for what no barrier covers: silent commands, and expiry
MAX_SHARE = 0.2        # of the keys: source.max_missing, and apply.max_prune
RSS_LIMIT = 400 << 20  # bytes of anonymous memory
FD_LIMIT = 128
SAID = re.compile(r"assert(ion)? .*failed|Assertion|AddressSanitizer|runtime error:|LeakSanitizer")


class Round:
    def __init__(self, plan, table, plant=None):
        self.plan, self.table, self.plant = plan, table, plant
        self.failures = [] # (sort, sentence)
        self.counts = {}
        self.field = Field(plan, table, plant)

    def fail(self, sort, sentence):
        self.failures.append((sort, sentence))
        self.field.tell(f"{sort}: {sentence}")

    def run(self):
        begun = time.monotonic()
        try:
            self.field.build()
            self.faults_and_writes()
            self.judge()
        except Died as died:
            self.fail("died", str(died))
        except Exception as error: # of the campaign itself, or a server that is beyond help
            self.fail("broken", f"{type(error).__name__}: {error}")
            self.field.tell(traceback.format_exc())
        for sentence in self.field.complaints + self.field.close():
            self.fail("ended_badly", sentence)
        return self.report(time.monotonic() - begun)

    def faults_and_writes(self):
        field, plan = self.field, self.plan
        options = {"short_ttls": plan.short_ttls, "silent": plan.silent, "wild": plan.swaps}
        if plan.swaps:
            field.blind(3600, state_only=True)
        load = FaultLoad(field.front, field.primary, f"load {plan.seed}", plan.pace, **options).start()
        witness = Witness(field, load, random.Random(f"witness {plan.seed}")).start()
        field.begin_faults()
        try:
            over = plan.seconds
            while field.now() < over:
                field.turn()
                if field.running:
                    over = max(over, field.now() + AFTERMATH_SECONDS)
                if self.plant and field.now() > plants.AT:
                    plants.plant(field, self.plant)
                    self.plant = None
        finally:
            witness.stop()
            load.stop()
            field.tell("the writers have ended")
        self.counts.update(witness.counts, commands=load.commands)
        for finding in witness.findings:
            self.fail(finding.sort, str(finding))
        self.witness = witness

    def judge(self):
        field = self.field
        for _ in field.heal():
            time.sleep(0.02)
        field.tell("everything is healed")
        for side in field.sides:
            self.judge_deletions(side)
        for sentence in field.deletions:
            self.fail("mass_deletion", sentence)
        for side in field.sides:
            self.apply_remedies(side)
        for side in field.sides:
            if self.wait_warm(side):
                field.tell(f"{side.agent.name} is warm")
                self.judge_equality(side)
                self.judge_graves(side)
                self.judge_verify(side)
                field.tell(f"{side.agent.name} is judged")
        self.judge_processes()

    def judge_deletions(self, side):
        """Nobody has approved yet: most of what an emptied primary lacks must still be there."""
        if self.field.check_fill(side):
            self.counts["brakes_checked"] = self.counts.get("brakes_checked", 0) + 1

    def apply_remedies(self, side):
        """What the documents ask of the operator after such faults, and only after those."""
        if any(REMEDIES[self.table[fault.kind].remedy](self.plan) for fault in self.plan.faults):
            side.agent.ctl("resync")

    def wait_warm(self, side):
        limit = (PLANTED_SECONDS if self.field.plant == "stuck" else WARM_SECONDS) * SLOW
        deadline = time.monotonic() + limit
        while True:
            self.field.check_alive()
            done = side.agent.ctl("wait", "warm", "--timeout", 2)
            if done.returncode == 0:
                return True
            self.approve(side)
            if time.monotonic() > deadline:
                self.fail("not_warm", f"{side.agent.name} within {limit:.0f} s: "
                          f"{self.said(side.agent)}; proxy: {self.said(self.field.proxy)}")
                for daemon in (side.agent, self.field.proxy):
                    self.field.tell(f"{daemon.name}: {daemon.try_status()}")
                return False

    def said(self, daemon):
        status = daemon.try_status() or {}
        return f"{status.get('state')} ({status.get('reason')})"

    def approve(self, side):
        """
        As the operator would: only if deletions by inference must be expected, and only those of keys
        that the primary does not have. A brake that holds keys that are back must let go by itself.
        """
        holds = any(self.table[fault.kind].holds for fault in self.plan.faults)
        if not holds and not self.plan.swaps: # FLUSHDB too, which another fault may hide
            return
        if self.field.plant == "stuck":
            return
        for daemon in (self.field.proxy, side.agent):
            status = daemon.try_status() or {}
            if status.get("state") == "held" and not self.are_gone(side, daemon, status):
                self.field.tell(f"{daemon.name}: not approved: the primary has the keys")
                continue
            if status.get("state") == "held" or "approve" in (status.get("reason") or ""):
                if daemon.ctl("approve").returncode == 0:
                    self.field.approvals += 1
                    self.field.count(f"approved_of_{'proxy' if daemon is self.field.proxy else 'agent'}")
                    self.field.tell(f"{daemon.name}: approved: {status.get('reason')}")

    def are_gone(self, side, daemon, status):
        """Does the primary lack more keys than may go without a question?"""
        primary = self.field.primary
        try:
            if daemon is side.agent:
                gone, keys = equality.lacking(primary, side.replica)
            else: # what it has to delete is still in its table
                gone = status["keys"] - sum(key_counts(primary).values())
                keys = status["missing_of"]
        except redis.exceptions.RedisError:
            return False # not now
        return gone > max(UNBRAKED, keys * MAX_SHARE)

    def judge_equality(self, side):
        """The barrier has just returned, and nobody writes any more."""
        primary = self.field.primary
        differences = equality.found(primary, side.replica, self.field.plan, silent=False)
        within_window = time.monotonic() < side.blind_until
        if not within_window:
            self.counts["barriers"] += 1
        if differences and not within_window:
            self.fail("wrong_warm", f"{side.agent.name} said warm at the end: "
                      + equality.explain(differences))
        limit = (PLANTED_SECONDS if self.field.plant else SETTLE_SECONDS) * SLOW
        deadline = time.monotonic() + limit
        while True:
            differences = equality.found(primary, side.replica, self.field.plan, silent=False)
            if not differences:
                return
            if time.monotonic() > deadline:
                break
            time.sleep(0.1)
        lost = [one for one in differences if one.other is None]
        extra = [one for one in differences if one.mine is None]
        self.counts["lost_keys"] = self.counts.get("lost_keys", 0) + len(lost)
        self.counts["resurrected"] = self.counts.get("resurrected", 0) + len(extra)
        self.fail("unequal", f"{side.agent.name}: not equal after {limit:.0f} s: "
                  + equality.explain(differences))

    def judge_graves(self, side):
        from .load import WITNESS_DATABASE
        names = list(self.witness.graves)
        if not names:
            return
        with side.replica.client(WITNESS_DATABASE) as mine, \
                self.field.front.client(WITNESS_DATABASE) as theirs:
            risen = [name for name, here, there in zip(names, mine.mget(names), theirs.mget(names))
                     if here and not there]
        if risen:
            self.fail("resurrected", f"{side.agent.name}: {risen[:5]} were deleted for good")

    def judge_verify(self, side):
        done = side.agent.ctl("verify")
        if done.returncode != 0:
            self.fail("verify", f"{side.agent.name}: verify exits {done.returncode}: "
                      f"{done.stdout[:400]}{done.stderr[:200]}")

    def judge_processes(self):
        field = self.field
        field.check_alive()
        for daemon in [field.proxy, *(side.agent for side in field.sides)]:
            with open(f"/proc/{daemon.pid}/status", encoding="ascii") as lines:
                memory = int(re.search(r"RssAnon:\s+(\d+)", lines.read()).group(1)) << 10
            fds = len(os.listdir(f"/proc/{daemon.pid}/fd"))
            if memory > RSS_LIMIT or fds > FD_LIMIT:
                self.fail("unbounded", f"{daemon.name}: {memory >> 20} MiB, {fds} descriptors")
        for process in field.processes():
            said = SAID.search(process.output())
            if said:
                self.fail("died", f"{process.name} said: {said.group(0)}")

    def report(self, seconds):
        field = self.field
        if self.failures:
            field.keep([f"{sort}: {sentence}" for sort, sentence in self.failures])
        elif not os.environ.get("KW_KEEP"):
            field.remove()
        else:
            field.keep([])
        return {"seed": self.plan.seed, "failures": self.failures, "directory": field.directory,
                "mode": self.plan.mode, "carriers": self.plan.carriers, "servers":
                [self.plan.primary, self.plan.replica], "faults": field.injected,
                "missed": field.missed, "phases": field.phases, "approvals": field.approvals,
                "counts": {**self.counts, **field.counts}, "seconds": round(seconds, 2)}
