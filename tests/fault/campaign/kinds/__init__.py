"""
The kinds of faults. One table, filled by the modules of this folder.

A kind is a generator: `def kind(field, fault, chance)`. It yields the seconds that it waits, so that
others go on meanwhile, and it leaves everything healed. What the contract allows while it lasts, it
says itself: field.blind for a documented window, field.mark_* where it changes data.
"""
import dataclasses
import typing

from ..plan import FEEDS, MODES

TABLE = {}

# The documented windows, in seconds; README.md and deploy/doc/limits.md have the sentences.
LOOK = 1.0          # of the agent at its server, each second: a flush, evictions
LOOKS = 2.0         # what two looks of either may take on a machine that is busy
SILENT_SECONDS = 8.0 # SWAPDB and what else raises no event: "within some seconds"

AUDIT_ROUND = 5000   # keys a second, with which a round takes as long as a fault
# These clear the counts of the replica's server by which writes of other clients are found.
HIDING = ("replica-kill-saved", "replica-kill-older", "replica-replaced-by-empty",
          "replica-and-agent-killed")
# These end the agent, and what it knows of the server's counts.
ENDING = ("agent-kill", "agent-restart", "everything-killed", "replica-written-without-agent")
# These keep the agent's looks at its server from being asked, or answered.
DELAYING = ("agent-stop", "replica-stop", "replica-sleep", "replica-busy", "replica-link-black-hole",
            "replica-link-slow")


def audited(plan):
    return plan.agent["apply.audit_keys_per_second"]


def is_delayed(plan, fault):
    return any(one.kind in DELAYING and one.at < fault.at + fault.lasts and fault.at < one.at + one.lasts
               for one in plan.faults)


def hides_jumps(plan):
    """limits.md: a jump of the replica's clock that is over before the agent looks."""
    return any(fault.kind == "clock-of-the-replica" and (fault.lasts < LOOK or is_delayed(plan, fault))
               for fault in plan.faults)


def hides_evictions(plan):
    """
    limits.md: RESETSTAT while no agent runs, and resets that come again and again. One fault resets
    three times at most, which the agent waits for.
    """
    resets = sum(fault.kind == "replica-resetstat" for fault in plan.faults)
    return resets > 1 or (resets > 0 and any(fault.kind in ENDING for fault in plan.faults))


def hides_writes(plan):
    return hides_evictions(plan) or any(fault.kind in HIDING for fault in plan.faults)


# Which kinds of faults make the operator resync afterwards.
REMEDIES = {
    "": lambda plan: False,
    "resync": lambda plan: True,
    "written": lambda plan: hides_writes(plan) and audited(plan) < AUDIT_ROUND,
    "evicted": lambda plan: hides_evictions(plan) and audited(plan) < AUDIT_ROUND,
    # Else the jump is seen, and a round of the audit follows at once; or the walk is fast.
    "clock": lambda plan: audited(plan) == 0 or hides_jumps(plan) and audited(plan) < AUDIT_ROUND,
}


@dataclasses.dataclass
class Kind:
    name: str
    run: typing.Callable
    modes: tuple
    needs: frozenset # of: users, machines, standby, tcp, "link NAME"
    holds: bool      # deletions by inference may follow, which wait for approval
    dies: bool       # the daemon may end by itself
    deletes: bool    # many keys of a replica may go, by the primary's word or by the replica's own
    remedy: str      # whose data the operator resyncs afterwards: see REMEDIES
    brake: bool      # it tries the brakes: rounds are drawn for these kinds
    feeds: tuple     # with which source.feed it means something

    def spares(self):
        """It takes no keys away, so that what is gone is gone by inference."""
        return not (self.holds or self.deletes or self.brake or self.remedy)

    def fits(self, mode, carriers, feed):
        return mode in self.modes and feed in self.feeds and ("tcp" not in self.needs or "tcp" in carriers)


def kind(modes=MODES, needs=(), holds=False, dies=False, deletes=False,
         remedy="", brake=False, feeds=FEEDS):
    def add(function):
        name = function.__name__.replace("_", "-")
        assert name not in TABLE, name
        TABLE[name] = Kind(name, function, tuple(modes), frozenset(needs), holds, dies,
                           deletes, remedy, brake, tuple(feeds))
        return function
    return add


def load():
    """Every module of this folder adds its kinds."""
    from . import daemons, failover, machine, network, primary, replica, stream # noqa: F401
    return TABLE
