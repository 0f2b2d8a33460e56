"""What does TLS cost each of those that speak it?"""
from contextlib import ExitStack
from functools import partial

from core.row import make_row
from core.stage import Stage, fill, seconds_until, settle
from lib.daemon import free_port
from lib.tls import Authority
from overhead import RESTING_US, Keywake

TITLE = "everything over TLS, against the same over plain TCP: CPU time of each"
ABOUT = """\
Fifty connections send SETs of 100 bytes to a primary over its unix socket. Proxy and agent reach their servers
over loopback, and the agent reads over it: once by `redis://` and `tcp://`, once by `rediss://` and `tcp+tls://`
with certificates on both ends. A third pair has the agent in mode `replica`.

- `..._us`: CPU microseconds for each SET. `follower` is the proxy.
- `of_plain`: the same over the plain side of the round, for each of the four.

The rate is what the primary takes, and the proxy paces itself. So a side that is slower also fetches fewer values
for each SET: look at `sets_s` beside it.
"""
CASES = [("commands, pipeline 16", "commands", 16), ("commands, pipeline 1", "commands", 1),
         ("replica, pipeline 16", "replica", 16)]
PARTS = ("primary", "follower", "agent", "replica")


def secured(make, authority, tls):
    """A server that daemons reach over loopback, and what they are told of it; peers use its unix socket."""
    if not tls:
        server = make()
        return server, {"redis__address": f"redis://127.0.0.1:{server.config['port']}"}
    port = free_port()
    server = make(**authority.server_config(port), tls_replication="yes")
    keys = {key.replace(".", "__"): value for key, value in authority.settings().items()}
    return server, {"redis__address": f"rediss://127.0.0.1:{port}", **keys}


class Joined(Keywake):
    """A primary, its proxy, an agent and its replica, with TLS everywhere or nowhere."""

    def __init__(self, stage, keys, mode, tls):
        self.keys, self.stage = keys, stage
        authority = Authority(stage.bed.directory)
        carrier = "tcp+tls" if tls else "tcp"
        wire = {key.replace(".", "__"): value for key, value in authority.wire("daemon").items()} if tls else {}
        self.primary, at_primary = secured(stage.primary, authority, tls)
        self.replica, at_replica = secured(partial(stage.empty, port=free_port(), bind="127.0.0.1"), authority, tls)
        fill(self.primary, keys)
        self.follower = stage.proxy(self.primary, listen=(carrier,), **at_primary, **wire)
        self.agent, warm = stage.start_agent(self.follower, self.replica, mode, carrier, **at_replica, **wire)
        seconds_until(warm, what="agent warm")
        settle(self.primary, self.replica)
        self.idle_us = self.agent.ctl_ok("config", "get", "poll.idle_us")
        self.look_every(RESTING_US)


def measure(subject, seconds, pipeline):
    figures = subject.measure(seconds, ["--pipeline", pipeline])
    return {key: value for key, value in figures.items() if not key.endswith("_cores")}


def case_rows(case, sides):
    plain, secure = sides["plain"], sides["TLS"]
    yield make_row(case, plain)
    yield make_row(case, secure, **{f"{part}_of_plain": secure.ratio(plain, f"{part}_us") for part in PARTS})


def run(run):
    rows = []
    for case, mode, pipeline in run.pick(CASES, CASES[:1]):
        with ExitStack() as stack:
            subjects = {name: Joined(stack.enter_context(Stage()), run.keys, mode, tls)
                        for name, tls in (("plain", False), ("TLS", True))}
            sides = run.rounds({name: partial(measure, subject, run.seconds, pipeline)
                                for name, subject in subjects.items()})
            rows += case_rows(case, sides)
    return rows
