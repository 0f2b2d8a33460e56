"""
Planted defects: what the campaign must report. A check that cannot fail is worth nothing.

    swallow    an event of the primary gets lost on its way to the proxy
    mishear    the replication stream has writes to other keys than the primary made
    tamper     the agent writes values to other keys than it should, so old values remain
    resurrect  the agent deletes other keys than it should, so deleted ones remain
    lose       keys that are written now do not get to the replica
    kill       an agent ends by itself
    unbraked   the brakes of proxy and agents never hold
    stuck      the brakes never let go: what an operator approves does not arrive

Writes of another client would not do: an agent finds these, and undoes them.
"""
import signal

from .load import WITNESS_DATABASE

AT = 1.5 # seconds after the start
MANY = 1 << 30
PLANTS = {
    "swallow": ("wrong_warm", "unequal", "lost_keys", "resurrected"),
    "mishear": ("wrong_warm", "unequal"),
    "tamper": ("wrong_warm", "unequal"),
    "resurrect": ("resurrected",),
    "lose": ("unequal",),
    "kill": ("died",),
    "unbraked": ("mass_deletion",),
    "stuck": ("not_warm",),
}
# The faults of the campaign's test of itself; of a plant that is not here: some that change no data.
FAULTS = {
    "unbraked": ["primary-kill-empty"],
    "stuck": ["primary-and-proxy-killed-empty"],
}
# Of a plant that is not here: the one that was drawn.
FEEDS = {"swallow": "notifications", "mishear": "stream"}
# What goes wrong on which link, from AT on, or from the start: (link, mode, what its commands begin with)
ON_LINKS = {
    "swallow": ("primary", "swallow", ""),
    "mishear": ("primary", "mishear", "SET s:"),
    "tamper": ("replica0", "misname", "RESTORE s:"),
    "resurrect": ("replica0", "misname", "UNLINK grave:"),
    "lose": ("replica0", "misname", "RESTORE planted:"),
}


def link_of(name):
    """The kind of link that this plant needs."""
    return ON_LINKS[name][0].rstrip("0123456789") if name in ON_LINKS else None


def prepare(plan, name):
    """A round in which nothing else explains, or mends, what is planted."""
    plan.theirs, plan.pace = 0, 500
    plan.silent = plan.swaps = plan.short_ttls = False
    plan.proxy["source.audit_keys_per_second"] = plan.agent["apply.audit_keys_per_second"] = 0
    plan.proxy.pop("source.keys_per_second", None)
    if name in FEEDS:
        plan.feed = plan.proxy["source.feed"] = FEEDS[name]
    plan.fill = 5000 if name in FAULTS else 2000
    if name == "unbraked":
        plan.proxy["source.max_missing"] = plan.agent["apply.max_prune"] = 1
    return plan


def plant(field, name):
    side = field.sides[0]
    field.tell(f"planted: {name}")
    if name == "kill":
        side.agent.signal(signal.SIGKILL)
    elif name in ON_LINKS:
        link, mode, begins = ON_LINKS[name]
        field.links.change(link, mode, 40 if mode == "swallow" else MANY, begins)
    if name == "lose":
        with field.front.client(WITNESS_DATABASE) as client:
            for number in range(20):
                client.set(f"planted:{number}", number)
