"""Other names in the local server: databases are mapped, prefixes rewritten, and keys of others stay out of it."""
import random
import time

import pytest

from lib import compare, data
from lib.cursor import cursor_words
from lib.process import SLOW, wait_for
from lib.workload import Workload, seed_of_run

pytestmark = pytest.mark.sanitize

DATABASES = {0: 3, 1: 1, 9: 0}
REWRITES = {"s:": "l:", "l:": "s:", "z:": "sorted:"}
PREFIXES = tuple(f"{kind}:" for kind in "sltzhx")
NAMES = {"filter.databases": [*DATABASES], "filter.prefixes": [*PREFIXES],
         "filter.map_databases": ["0=3", "9=0"],
         "filter.rewrite_prefixes": [f"{old}={new}" for old, new in REWRITES.items()]}
# Of others: databases that none is mapped to, a prefix that was rewritten, and prefixes that are not followed.
FOREIGN = {0: ("n:1", "z:1", "mine"), 1: ("z:1", "g:1"), 3: ("n:1", "z:1", "z:2"), 9: ("s:1", "sorted:1"), 2: ("s:1",)}
RATE = "apply.audit_keys_per_second"
FAST = 100_000


def local(key, rewrites=None):
    for old, new in (rewrites or REWRITES).items():
        if key.startswith(old.encode()):
            return new.encode() + key[len(old):]
    return key


def table_under_local_names(primary):
    """What the local server should hold of it."""
    wanted = {}
    for database, here in DATABASES.items():
        state = compare.database_state(primary, database)
        wanted[here] = {local(key): value for key, value in state.items() if key.startswith(tuple(p.encode() for p in PREFIXES))}
    return wanted


def add_foreign(server):
    for database, keys in FOREIGN.items():
        with server.client(database) as client:
            client.mset({key: f"mine {key}" for key in keys})


def assert_foreign(server):
    for database, keys in FOREIGN.items():
        with server.client(database) as client:
            assert client.mget(keys) == [f"mine {key}".encode() for key in keys], database


def wait_position(agent, store="function"):
    """All that is applied is in the cursor. (lib.cursor counts the keys of others, too.)"""
    wait_for(lambda: int(cursor_words(agent.replica, store).get("version", 0)) == agent.status()["applied_version"],
             "the position is not written")


def differences(pair):
    """The followed part value by value, and nothing but it and the keys of others."""
    wanted, found = table_under_local_names(pair.primary), compare.full_state(pair.replica)
    for database, keys in FOREIGN.items():
        for key in keys:
            found.get(database, {}).pop(key.encode(), None)
    found.get(0, {}).pop(b"keywake_cursor", None)
    return [(database, key, wanted.get(database, {}).get(key), found.get(database, {}).get(key))
            for database in {*wanted, *found} for key in {*wanted.get(database, {}), *found.get(database, {})}
            if wanted.get(database, {}).get(key) != found.get(database, {}).get(key)]


def assert_named(pair, timeout=30.0):
    pair.agent.wait_warm()
    deadline = time.monotonic() + timeout * SLOW
    while (found := differences(pair)) and time.monotonic() < deadline: # keys expire between two questions
        time.sleep(0.1)
    assert not found, f"{len(found)} differ: {found[:5]}"
    assert_foreign(pair.replica)


def fill(server):
    for database in (*DATABASES, 2, 15):
        with server.client(database) as client:
            client.mset({f"{kind}:{i}": f"{database} {kind} {i}" for kind in "snlz" for i in range(200)})


def named_pair(bed, binary="installed", **settings):
    """A local server that holds keys of others in the same databases needs no consent: none of them is in the way."""
    primary, replica = bed.server("primary", binary), bed.server("replica", binary)
    fill(primary)
    add_foreign(replica)
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **{**NAMES, **settings})
    agent.wait_warm()
    pair = type("Pair", (), {"primary": primary, "proxy": proxy, "agent": agent, "replica": replica})
    assert_named(pair)
    return pair


@pytest.mark.quick
@pytest.mark.parametrize("store", ["function", "key"])
def test_each_write_arrives_under_the_local_name(bed, store):
    pair = named_pair(bed, **{"apply.cursor_store": store})
    with pair.primary.client() as client:
        client.rename("s:1", "l:new")      # both are rewritten
        client.rename("s:2", "sorted:2")   # out of what is followed
        client.rename("n:1", "z:new")      # into it
        client.delete("z:3", "n:3")
        client.set("z:4", "soon gone", px=1)
        client.move("l:5", 9)
    with pair.primary.client(1) as client:
        client.flushdb()
        client.set("s:1", "after the flush")
    pair.primary.command("SWAPDB", 9, 15)
    assert_named(pair)
    pair.primary.command("SWAPDB", 0, 9)
    assert_named(pair)
    pair.primary.command("FLUSHALL")
    assert_named(pair)
    status = pair.agent.status()
    assert "database 0 as 3" in status["filters"] and "z:* as sorted:*" in status["filters"]
    assert status["snapshots"] == 1, status


def test_a_random_workload_over_restarts(bed):
    seed = seed_of_run()
    dice = random.Random(seed)
    pair = named_pair(bed, **{RATE: FAST})
    workload = Workload(pair.primary, seed, pace=4000, databases=(0, 1, 9, 15), wild=True, silent=False).start()
    for step in ("swap", "agent killed", "flush", "agent stopped", "swap", "proxy", "flush", "agent killed"):
        before = workload.commands
        wait_for(lambda: workload.commands > before + 2000, "the workload stands still", timeout=120)
        if step == "swap":
            pair.primary.command("SWAPDB", *dice.sample((0, 1, 9, 15), 2))
        elif step == "flush":
            with pair.primary.client(dice.choice((0, 1, 9))) as client:
                client.flushdb()
        elif step == "proxy":
            pair.proxy.kill()
            pair.proxy.restart()
        else:
            pair.agent.kill() if step == "agent killed" else pair.agent.stop()
            wait_for(lambda: workload.commands > before + 3000, "the workload stands still", timeout=120)
            pair.agent.restart()
        workload.rest()
        assert_named(pair, 60)
        pair.agent.ctl_ok("verify")
        workload.resume()
    workload.stop()
    assert_named(pair, 60)
    pair.agent.ctl_ok("resync")
    assert_named(pair, 60)


def found(status):
    return tuple(status[f"audit_found_{kind}"] for kind in ("different", "missing", "extra"))


def test_the_audit_mends_under_the_local_name_and_leaves_the_rest(bed):
    pair = named_pair(bed, **{RATE: FAST})
    with pair.replica.client(3) as client:
        client.set("sorted:1", "harm")
        client.delete("l:7")
        client.set("s:extra", "not in the table")
    with pair.replica.client(0) as client:
        client.set("sorted:2", "harm")
    status = pair.agent.wait_status(lambda status: found(status) == (2, 1, 1), "not all is found", 60)
    rounds = status["audit_rounds"]
    status = pair.agent.wait_status(lambda status: status["audit_rounds"] >= rounds + 3, "no round ends", 60)
    assert found(status) == (2, 1, 1), status
    assert status["index"]["state"] == "off", status
    assert_named(pair)


def test_verify_compares_by_the_local_name_and_tells_the_tables(bed):
    pair = named_pair(bed, **{RATE: 0})
    with pair.replica.client(3) as client:
        client.set("sorted:1", "harm")
        client.delete("l:7")
        client.set("s:extra", "not in the table")
    result = pair.agent.rpc("verify")
    named = {kind: [(entry["database"], entry["key"]) for entry in result[kind]] for kind in ("different", "missing", "extra")}
    assert named == {"different": [(0, "z:1")], "missing": [(0, "s:7")], "extra": [(0, "l:extra")]}, result
    assert result["checked"] == 3 * 3 * 200, result
    assert pair.agent.ctl("verify").returncode != 0
    pair.agent.ctl_ok("resync")
    assert_named(pair)
    pair.agent.ctl_ok("verify")
    assert pair.agent.rpc("get", database=0, key="z:1")["found"]


def test_deletions_wait_for_approval_and_take_no_key_of_others(bed):
    """A primary that comes back empty: the brake counts what has a name in the table, and nothing else."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 3000, prefix="s:")
    data.fill_plain(primary, 2000, prefix="z:", database=9)
    add_foreign(replica)
    data.fill_plain(replica, 4000, prefix="z:others:", database=3)  # the old name of a prefix
    data.fill_plain(replica, 4000, prefix="s:others:", database=9)  # a database that has moved
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **NAMES)
    agent.wait_warm()
    counts = compare.key_counts(replica)
    assert (counts[3], counts[0]) == (3000 + 4000 + len(FOREIGN[3]), 2000 + len(FOREIGN[0])), counts
    proxy.kill()
    primary.kill()
    primary.start()
    proxy.restart()
    status = agent.wait_state("held", timeout=60)
    assert status["held"] == status["held_of"] == 5000, status
    assert compare.key_counts(replica) == counts
    agent.ctl_ok("approve")
    agent.wait_warm()
    counts = compare.key_counts(replica)
    assert counts == {0: len(FOREIGN[0]), 1: len(FOREIGN[1]), 2: len(FOREIGN[2]), 3: 4000 + len(FOREIGN[3]),
                      9: 4000 + len(FOREIGN[9])}, counts
    assert_foreign(replica)


def test_a_local_key_in_the_way_needs_consent(bed):
    """One that has the local name of a key that is followed."""
    primary, replica = bed.server("primary"), bed.server("replica")
    fill(primary)
    add_foreign(replica)
    with replica.client(3) as client:
        client.set("sorted:of another", "mine")
    agent = bed.agent(bed.proxy(primary), replica, **NAMES)
    status = agent.wait_status(lambda status: "apply.consent=true" in status["reason"], "no consent is asked for")
    assert "holds 1 keys" in status["reason"], status
    with replica.client(3) as client:
        client.rename("sorted:of another", "z:of another")
    agent.wait_warm()
    with replica.client(3) as client:
        assert client.get("z:of another") == b"mine"


def test_a_database_the_local_server_does_not_have_is_mapped(bed):
    primary, replica = bed.server("primary"), bed.server("replica", databases=4)
    with primary.client(9) as client:
        client.set("s:1", "fits")
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, **{RATE: FAST, "filter.databases": [9], "filter.map_databases": ["9=2"]})
    agent.wait_warm()
    with replica.client(2) as client:
        assert client.get("s:1") == b"fits"
        client.flushdb()
    assert agent.stop() == 0
    agent.settings["filter.map_databases"] = ["9=7"]
    agent.settings["filter.prefixes"] = ["s:"]
    agent.settings["filter.rewrite_prefixes"] = ["s:=new:"]
    agent.start()
    status = agent.wait_status(lambda status: status["quarantined"] > 0, "a key that cannot be applied is not told")
    entry = agent.rpc("status")["quarantine"][0]
    assert (entry["database"], entry["key"]) == (7, "new:1") and "map_databases" in entry["reason"], status
    # The audit leaves it alone: its question would be refused, and no round would end.
    status = agent.wait_status(lambda status: status["audit_rounds"] >= 2, "no round of the audit ends")
    assert found(status) == (0, 0, 0), status
    with primary.client(9) as client:
        client.delete("s:1")
    agent.wait_warm()
    assert agent.status()["quarantined"] == 0


def test_all_keys_under_a_prefix(bed):
    """Every key is followed, and yet the database is not the agent's: a flush must be a search."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary, (0, 3))
    with replica.client() as client:
        client.mset({"mine": 1, "": "the empty key", "eu": 1, "e": 1})
    agent = bed.agent(bed.proxy(primary), replica, **{"filter.rewrite_prefixes": ["=eu:"], RATE: FAST})

    def assert_all():
        agent.wait_warm()
        wait_for(lambda: all({b"eu:" + key: value for key, value in compare.database_state(primary, database).items()}
                             == {key: value for key, value in compare.database_state(replica, database).items()
                                 if key.startswith(b"eu:")} for database in (0, 3)), "not equal")
        with replica.client() as client:
            assert client.mget("mine", "", "eu", "e") == [b"1", b"the empty key", b"1", b"1"]
        agent.ctl_ok("verify")
    assert_all()
    with replica.client() as client: # others may write what is theirs
        client.set("mine", 2)
        client.set("mine", 1)
    primary.command("SET", "", "the empty key has a name, too")
    assert_all()
    primary.command("FLUSHDB")
    assert_all()
    assert compare.key_counts(replica)[0] == 4
    status = agent.status()
    assert status["snapshots"] == 1 and found(status) == (0, 0, 0), status


def test_a_key_does_not_take_the_place_of_the_cursor(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    for database in (4, 9):
        with primary.client(database) as client:
            client.mset({"keywake_cursor": "a key of the primary", "other": 1})
    agent = bed.agent(bed.proxy(primary), replica, **{"apply.cursor_store": "key", "filter.databases": [4, 9],
                                                      "filter.map_databases": ["4=3", "9=0"]})
    agent.wait_warm()
    wait_position(agent, "key")
    assert agent.status()["records_skipped"] == 1 # and it was not written for a moment, either
    with replica.client(3) as client:
        assert client.get("keywake_cursor") == b"a key of the primary"
    with primary.client(9) as client:
        client.flushdb() # the local database 0, but for the cursor
    agent.wait_warm()
    assert [*replica.client().keys()] == [b"keywake_cursor"]
    wait_position(agent, "key")
    assert agent.stop() == 0
    agent.start()
    agent.wait_warm()
    assert agent.status()["snapshots"] == 0, agent.status()


def test_other_names_are_filled_and_the_same_are_gone_on_with(bed):
    """As a filter that is changed: all of the table is read again. What lies under names of before stays."""
    pair = named_pair(bed)
    wait_position(pair.agent)
    assert pair.agent.stop() == 0
    for key in ("filter.map_databases", "filter.rewrite_prefixes"):
        pair.agent.settings[key] = NAMES[key][::-1]
    pair.agent.start()
    assert_named(pair)
    assert pair.agent.status()["snapshots"] == 0, pair.agent.status()
    wait_position(pair.agent)
    assert pair.agent.stop() == 0
    pair.agent.settings["filter.map_databases"] = ["0=3", "9=7"]
    pair.agent.settings["filter.rewrite_prefixes"] = ["z:=ranked:"]
    pair.agent.start()
    pair.agent.wait_warm()
    assert pair.agent.status()["snapshots"] == 1, pair.agent.status()
    pair.agent.ctl_ok("verify")
    with pair.replica.client(7) as client:
        assert client.get("s:1") == b"9 s 1" and client.get("ranked:1") == b"9 z 1"
    with pair.replica.client(3) as client:
        assert client.get("s:1") == b"0 s 1" and client.get("l:1") == b"0 l 1"
        assert client.get("sorted:1") == b"0 z 1" # of before: no longer ours
    with pair.replica.client(0) as client:
        assert client.get("l:1") == b"9 s 1"      # the same
    assert_foreign(pair.replica)


def test_rules_wait_for_a_restart(bed):
    """As all of the filter. Rules that cannot be are refused at once."""
    primary, replica = bed.server("primary"), bed.server("replica")
    fill(primary)
    agent = bed.agent(bed.proxy(primary), replica, start=False, **{"filter.databases": [0]})

    def write(rule):
        agent.file = bed.file("agent.json", '{"filter": {"map_databases": ["%s"]}}' % rule)
    write("0=3")
    agent.start()
    agent.wait_warm()
    assert agent.ctl("config", "set", "filter.map_databases", '["0=5"]').returncode != 0
    write("0=5")
    assert "filter.map_databases" in agent.rpc("config.reload")["needs_restart"]
    with primary.client() as client:
        client.set("s:new", 1)
    agent.wait_warm()
    assert compare.key_counts(replica) == {3: compare.key_counts(primary)[0]}
    write("0-5")
    done = agent.ctl("config", "reload")
    assert done.returncode != 0 and "is no rule" in done.stderr, done
    agent.wait_warm()
