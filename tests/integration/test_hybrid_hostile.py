"""Apply mode `hybrid` attacked: whoever dies, whenever; and others at the writable server."""
import random
import time

import pytest
import redis

from lib import data
from lib.compare import assert_equal_now, digest
from lib.cursor import wait_cursor
from lib.daemon import free_port
from lib.process import SLOW, wait_for
from lib.workload import Workload, seed_of_run

HYBRID = {"apply__mode": "hybrid", "apply__consent": True}
# A server that takes its time over an RDB, and looks at its connections meanwhile.
SLOW_LOAD = {"key-load-delay": 50, "loading-process-events-interval-bytes": 2048}
KEYS = 20_000


def info(server):
    with server.admin() as client:
        return client.info("all")


def link(agent):
    status = agent.try_status()
    return status["apply"]["link"] if status else None


def write(server, key, value=1, db=0):
    with server.client(db) as client:
        client.set(key, value)


# Without it the audit would mend what these tests harm, before they look.
NO_AUDIT = {"apply.audit_keys_per_second": 0}


class Parts:
    def __init__(self, bed, slow=True, length=100, **agent):
        self.primary = bed.server("primary")
        self.replica = bed.server("replica", **(SLOW_LOAD if slow else {}))
        data.fill_plain(self.primary, KEYS, length=length)
        write(self.replica, "old")
        self.proxy = bed.proxy(self.primary)
        self.proxy.wait_live()
        self.agent = bed.agent(self.proxy, self.replica, **{**HYBRID, **agent})

    def wait_link(self, *states):
        """Until the link is in one of these, which can be short, or past all of them."""
        wait_for(lambda: link(self.agent) in (*states, "handed over"), f"never {states}", 30, 0.0005)

    def is_equal(self):
        try:
            return digest(self.primary) == digest(self.replica)
        except (redis.exceptions.ConnectionError, redis.exceptions.BusyLoadingError):
            return False

    def wait_warm_and_true(self, timeout=90):
        """Nothing is written: the first `warm` must be true already."""
        deadline = time.monotonic() + timeout * SLOW
        while time.monotonic() < deadline:
            status = self.agent.try_status()
            if status and status["state"] == "warm":
                assert self.is_equal(), f"warm, and not equal: {status}"
                return
            time.sleep(0.002)
        raise AssertionError(f"never warm: {self.agent.tail(30)}")


PHASES = {
    "snapshot": ("snapshot",),
    "loading": ("loading",),
    "detach": ("online", "handed over"),
    "commands": ("handed over",),
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("victim", ["agent", "proxy", "replica"])
def test_killed_in_each_phase(bed, victim, phase):
    """A window smaller than the data, so that the snapshot lasts; nothing is written meanwhile."""
    if phase == "snapshot":
        parts = Parts(bed, length=1000, apply__window_bytes="64KiB") # more than sockets hold
    else:
        parts = Parts(bed, apply__window_bytes="64MiB")
    for _ in range(2):
        parts.wait_link(*PHASES[phase])
        if phase == "commands":
            write(parts.primary, "one more", random.random())
        process = getattr(parts, victim)
        process.kill()
        if process is parts.replica:
            process.restart(keep_data=False, wait=phase not in ("snapshot", "loading"))
        else:
            process.restart()
        if phase == "commands":
            parts.agent.wait_warm()
    parts.wait_warm_and_true()
    assert info(parts.replica)["role"] == "master"
    write(parts.primary, "after", 1)
    parts.agent.wait_warm()
    assert_equal_now(parts.primary, parts.replica)


@pytest.mark.parametrize("victim", ["agent", "proxy", "replica"])
def test_killed_at_any_moment_under_load(bed, victim):
    parts = Parts(bed, slow=False)
    chance = random.Random(seed_of_run())
    load = Workload(parts.primary, seed_of_run(), short_ttls=False, silent=False).start()
    process = getattr(parts, victim)
    for turn in range(8):
        # Within the bootstrap mostly: it takes some tens of milliseconds.
        time.sleep(chance.uniform(0, 0.15) if turn % 4 else chance.uniform(0.3, 1))
        process.kill()
        if victim == "replica":
            process.restart(keep_data=False)
        else:
            process.restart()
    load.rest()
    parts.agent.wait_warm(120)
    assert_equal_now(parts.primary, parts.replica)
    load.resume()
    load.stop()
    parts.agent.wait_warm(60)
    assert_equal_now(parts.primary, parts.replica)
    assert info(parts.replica)["role"] == "master"


def test_the_replica_saved_and_killed_before_the_hand_over(bed):
    """It comes back with what it had when it was a replica: nothing of it is believed."""
    parts = Parts(bed)
    parts.wait_link("handed over")
    parts.agent.kill()
    write(parts.primary, "meanwhile")
    parts.replica.command("SAVE")
    parts.replica.kill()
    parts.replica.restart()
    parts.agent.restart()
    parts.agent.wait_warm()
    assert_equal_now(parts.primary, parts.replica)
    assert info(parts.replica)["role"] == "master"


# ---- others at the server ----

def test_what_others_write_goes_with_a_reconcile(bed):
    """While the agent runs, and while it does not: the server's counts tell of it."""
    parts = Parts(bed, slow=False, **NO_AUDIT)
    parts.agent.wait_warm()
    write(parts.primary, "so that a cursor is written")
    parts.agent.wait_warm()
    wait_cursor(parts.agent)

    def is_gone():
        return parts.replica.command("GET", "foreign") is None \
            and parts.replica.command("GET", "foreign", db=3) is None

    for end in (lambda: None, parts.agent.kill, parts.agent.stop):
        end()
        write(parts.replica, "foreign")
        write(parts.replica, "foreign", db=3)
        write(parts.primary, "meanwhile", random.random())
        if not parts.agent.alive:
            parts.agent.restart()
        wait_for(is_gone, "what others wrote stays", 30)
        parts.agent.wait_warm()
        assert_equal_now(parts.primary, parts.replica)
    assert parts.agent.status()["apply"]["full_syncs"] == 0


def test_a_key_overwritten_by_others_is_found_and_mended(bed):
    parts = Parts(bed, slow=False, **NO_AUDIT)
    parts.agent.wait_warm()

    def is_found(): # within the seconds until a reconcile mends it
        write(parts.replica, "key:7", "foreign")
        done = parts.agent.ctl("verify")
        return done.returncode == 2 and "key:7" in done.stdout
    wait_for(is_found, "verify does not find it", 30)
    write(parts.primary, "key:7", "new")
    parts.agent.wait_warm()
    assert_equal_now(parts.primary, parts.replica)


def test_flushed_by_others_behind_the_hand_over(bed):
    parts = Parts(bed, slow=False)
    for command in ("FLUSHALL", "FLUSHDB"):
        parts.agent.wait_warm()
        parts.replica.command(command)
        wait_for(parts.is_equal, f"{command} is not mended", 30)
    parts.agent.wait_warm()
    assert_equal_now(parts.primary, parts.replica)


# ---- whose server ----

def test_a_replica_of_somebody_else_is_not_taken(bed):
    primary, other = bed.server("primary"), bed.server("other", port=free_port())
    replica = bed.server("replica")
    data.fill(primary)
    write(other, "of the other")
    replica.command("REPLICAOF", "127.0.0.1", other.config["port"])
    wait_for(lambda: info(replica).get("master_link_status") == "up", "no link", 20)
    agent = bed.agent(bed.proxy(primary), replica, **HYBRID)
    agent.wait_state("failed", reason="made to follow")
    time.sleep(1.5)
    assert replica.command("GET", "of the other") == b"1"
    assert str(info(replica)["master_port"]) == str(other.config["port"])
    agent.ctl_ok("resync")
    agent.wait_warm()
    assert_equal_now(primary, replica)
    assert info(replica)["role"] == "master"


def test_sent_to_somebody_else_behind_the_hand_over(bed):
    """An operator's doing: the agent neither takes it back nor writes, and says what it sees."""
    parts = Parts(bed, slow=False)
    other = bed.server("other", port=free_port())
    write(other, "of the other")
    parts.agent.wait_warm()
    parts.replica.command("REPLICAOF", "127.0.0.1", other.config["port"])
    parts.agent.wait_state("failed", reason="replica of")
    wait_for(lambda: parts.replica.command("GET", "of the other") == b"1", "not synced", 20)
    write(parts.primary, "meanwhile")
    time.sleep(1.5)
    assert parts.agent.status()["state"] == "failed"
    assert parts.replica.command("DBSIZE") == 1
    parts.agent.kill()
    parts.agent.restart()
    parts.agent.wait_state("failed")
    time.sleep(1)
    assert parts.replica.command("DBSIZE") == 1
    parts.agent.ctl_ok("resync")
    parts.agent.wait_warm()
    assert_equal_now(parts.primary, parts.replica)
