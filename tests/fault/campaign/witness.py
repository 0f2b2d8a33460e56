"""
The witness: a thread that takes the agents at their word while the faults go on.

A barrier: write on the primary, `keywakectl wait warm`, read on the replica. What was written must be
there, and what was deleted must be gone. A sample: all writers rest; whenever an agent then claims to
be level, both servers must be equal at that moment.

A claim does not count when a fault changed the data of either side meanwhile, or when it was made
within a window that the contract names.
"""
import threading
import time

import redis

from lib.process import SLOW

from . import equality
from .load import WITNESS_DATABASE

WAIT_SECONDS = 1    # that a claim is waited for, before other things are looked at
QUIET_SECONDS = 1.2 # of one sample
BY_BARRIER, BY_STATE = "barrier", "state"
EVERY = 5           # barriers between two samples
GRAVES = 400        # deleted keys that are remembered


class Finding(Exception):
    def __init__(self, sort, sentence):
        super().__init__(sentence)
        self.sort = sort # wrong_warm, lost_keys, resurrected


def seen_warm(agent, since, lag_s):
    """Warm for longer than warm.lag_ms since the writers stand still."""
    status = agent.try_status()
    return bool(status and status["state"] == "warm" and time.monotonic() > since + 2 * lag_s)


class Witness:
    def __init__(self, field, load, chance):
        self.field, self.load, self.chance = field, load, chance
        self.number = 0
        self.graves = {} # name -> number of the barrier at which it was gone
        self.alive = []
        self.counts = {"barriers": 0, "barriers_in_vain": 0, "barriers_disturbed": 0,
                       "samples": 0, "claims": 0, "claims_disturbed": 0}
        self.findings = []
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.stopped.set()
        self.thread.join(60 * SLOW)
        if self.thread.is_alive():
            raise RuntimeError("the witness does not end")

    def run(self):
        while not self.stopped.is_set():
            side = self.chance.choice(self.field.sides)
            try:
                if self.number % EVERY == EVERY - 1:
                    self.number += 1
                    self.sample(side)
                else:
                    self.barrier(side)
            except Finding as finding:
                self.field.tell(f"witness: {finding}")
                self.findings.append(finding)
            except (redis.exceptions.RedisError, OSError):
                pass # a server that is down at the moment
            self.stopped.wait(0.02)

    def checked(self, side, marks, by_state=False):
        """Whether a claim that was begun with these marks counts."""
        if self.field.marks(side) != marks:
            return False
        return time.monotonic() >= (side.state_blind_until if by_state else side.blind_until)

    def write(self):
        """The counter, a key to stay, and one that was there and goes for good; their names."""
        number = self.number = self.number + 1
        grave = f"grave:{number - 2}"
        words = {0: ("DEL", grave), 1: ("UNLINK", grave), 2: ("GETDEL", grave),
                 3: ("EXPIREAT", grave, 1), 4: ("RENAME", grave, f"heaven:{number}"),
                 5: ("MOVE", grave, 8)}[number % 6]
        with self.field.front.client(WITNESS_DATABASE) as client:
            with client.pipeline(transaction=number % 2 == 0) as pipe:
                pipe.set("counter", number)
                pipe.set(f"alive:{number % 50}", number)
                pipe.set(f"grave:{number}", "to be deleted")
                pipe.execute_command(*words)
                replies = pipe.execute(raise_on_error=False)
        if isinstance(replies[0], Exception): # it refuses writes
            return None
        if not isinstance(replies[3], Exception):
            self.graves[grave] = number
            while len(self.graves) > GRAVES:
                del self.graves[next(iter(self.graves))]
        return number

    def barrier(self, side):
        marks = self.field.marks(side)
        blind = time.monotonic() < side.blind_until
        number = self.write()
        if number is None:
            return
        done = side.agent.ctl("wait", "warm", "--timeout", WAIT_SECONDS)
        if done.returncode != 0:
            self.counts["barriers_in_vain"] += 1
            return
        side.was_warm = True
        with side.replica.client(WITNESS_DATABASE, timeout=10) as client:
            counter = client.get("counter")
            names = list(self.graves)
            risen = [name for name, value in zip(names, client.mget(names) if names else ()) if value]
            alive = client.get(f"alive:{number % 50}")
        if blind or not self.checked(side, marks):
            self.counts["barriers_disturbed"] += 1
            return
        self.counts["barriers"] += 1
        self.judge(side, marks, number, counter, alive, risen)

    def primary_has(self, name, number):
        """Still: without memory it evicts also what was just written, at any moment of that fault."""
        with self.field.front.client(WITNESS_DATABASE) as client:
            value = client.get(name)
        return value is not None and int(value) >= number

    def judge(self, side, marks, number, counter, alive, risen):
        said = f"barrier {number}: {side.agent.name} said warm, "
        if (counter is None or int(counter) < number) and self.primary_has("counter", number):
            raise Finding("wrong_warm", f"{said}its replica has counter {counter}")
        name = f"alive:{number % 50}"
        if (alive is None or int(alive) < number) and self.primary_has(name, number):
            raise Finding("lost_keys", f"{said}its replica has {alive} as {name}")
        for name in risen:
            with self.field.front.client(WITNESS_DATABASE) as client:
                on_primary = client.exists(name)
            if on_primary or self.field.marks(side) != marks: # the primary went back in time
                self.graves.pop(name, None)
            else:
                raise Finding("resurrected", f"{said}its replica has {name}, which was deleted "
                              f"at barrier {self.graves[name]}")

    def sample(self, side):
        self.counts["samples"] += 1
        self.load.rest()
        try:
            since = time.monotonic()
            marks = self.field.marks(side)
            claim = self.claim(side, since)
            if not claim:
                return
            by_state = claim == BY_STATE # which may not know yet of commands that raise no event
            blind = since < (side.state_blind_until if by_state else side.blind_until)
            differences = equality.found(self.field.primary, side.replica, self.field.plan,
                                         by_state and self.field.plan.silent)
            if blind or not self.checked(side, marks, by_state):
                self.counts["claims_disturbed"] += 1
                return
            self.counts["claims"] += 1
            if differences:
                raise Finding("wrong_warm", f"{side.agent.name} said warm by its {claim}, and the "
                              "writers rest: " + equality.explain(differences))
        finally:
            self.load.resume()

    def claim(self, side, since):
        """A barrier that returns, or a state that has been warm for longer than it may lag."""
        if side.agent.ctl("wait", "warm", "--timeout", WAIT_SECONDS).returncode == 0:
            return BY_BARRIER
        lag_s = self.field.plan.agent["warm.lag_ms"] / 1000
        end = since + QUIET_SECONDS
        while time.monotonic() < end:
            if seen_warm(side.agent, since, lag_s):
                return BY_STATE
            time.sleep(0.05)
        return None
