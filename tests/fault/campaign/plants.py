"""
Planted defects: what the campaign must report. A check that cannot fail is worth nothing.

    swallow    an event of the primary gets lost on its way to the proxy
    tamper     a value of the replica is changed, and no fault is known that explains it
    resurrect  a key that was deleted for good is on the replica again
    lose       keys of the replica are gone
    kill       an agent ends by itself
"""
import signal

from .load import WITNESS_DATABASE

AT = 1.5 # seconds after the start
PLANTS = {
    "swallow": ("wrong_warm", "unequal", "lost_keys", "resurrected"),
    "tamper": ("wrong_warm", "unequal"),
    "resurrect": ("resurrected",),
    "lose": ("unequal",),
    "kill": ("died",),
}


def prepare(plan):
    """A round in which nothing else explains, or mends, what is planted."""
    plan.fill, plan.theirs, plan.pace = 2000, 0, 500
    plan.silent = plan.swaps = plan.short_ttls = False
    plan.proxy["source.audit_keys_per_second"] = plan.agent["apply.audit_keys_per_second"] = 0
    plan.proxy.pop("source.keys_per_second", None)
    return plan


def plant(field, witness, name):
    side = field.sides[0]
    field.tell(f"planted: {name}")
    if name == "swallow":
        field.links.change("primary", "swallow", 40)
    elif name == "kill":
        side.agent.signal(signal.SIGKILL)
    elif name == "tamper":
        for database in (0, 3, 9):
            side.replica.command("SET", "tampered", "with", db=database)
    elif name == "resurrect":
        for grave in list(witness.graves)[:5]:
            side.replica.command("SET", grave, "risen", db=WITNESS_DATABASE)
    elif name == "lose":
        with side.replica.client(11) as client:
            client.delete(*client.keys("set:*"))
