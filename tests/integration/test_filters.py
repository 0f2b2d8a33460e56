"""Filters by database, prefix and pattern: what is outside them is neither written nor removed."""
import pytest

from lib import compare, data
from lib.cursor import wait_cursor
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

MODES = ("commands", "hybrid", "replica")
PATTERNS = {"filter__prefixes": ["user:"], "filter__patterns": ["cart:*:eu", "log:[0-4]?", r"a\*b"],
            "filter__exclude": ["*:tmp", "user:[^0-4]*", "log:?[13579]"], "filter__exclude_databases": [2]}


def names(server, database=0):
    with server.client(database) as client:
        return sorted(client.keys())


def test_an_agent_of_some_databases(bed):
    pair = bed.pair(fill=lambda primary: data.fill(primary, (0, 1, 10)),
                    agent={"filter__databases": [0, 10]})
    pair.agent.wait_warm()
    left, right = compare.key_counts(pair.primary), compare.key_counts(pair.replica)
    assert set(left) == {0, 1, 10} and right == {0: left[0], 10: left[10]}
    with pair.primary.client(1) as client:
        client.set("outside", 1)
    with pair.primary.client(10) as client:
        client.flushdb()
        client.set("inside", 1)
    pair.agent.wait_warm()
    assert names(pair.replica, 10) == [b"inside"] and names(pair.replica, 1) == []


@pytest.mark.quick
def test_an_agent_of_some_prefixes(bed):
    def fill(primary):
        with primary.client() as client:
            client.mset({"user:1": 1, "user:2": 2, "session:1": 1, "other": 1, "use": 1})
    pair = bed.pair(fill=fill, agent={"filter__prefixes": ["user:", "session:"]})
    pair.agent.wait_warm()
    assert names(pair.replica) == [b"session:1", b"user:1", b"user:2"]
    with pair.primary.client() as client:
        client.rename("other", "user:3")
        client.rename("user:1", "gone from here")
        client.delete("session:1")
    pair.agent.wait_warm()
    assert names(pair.replica) == [b"user:2", b"user:3"]


@pytest.mark.parametrize("key, before, after", [
    ("filter.prefixes", ["user:"], ["user:", "other"]),
    ("filter.prefixes", ["user:"], []),
    ("filter.patterns", ["us*"], ["us*", "oth?r"]),
    ("filter.exclude", ["user:*"], []),
    ("filter.exclude", ["user:*", "oth*"], ["nothing"]),
    ("filter.exclude_databases", [1], []),
    ("filter.databases", [0], [1, 0])])
@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_a_filter_made_wider_is_filled(bed, mode, key, before, after):
    """Its position is that of the narrower one: what that left out is behind it for ever."""
    def fill(primary):
        for database in (0, 1):
            with primary.client(database) as client:
                client.mset({"user:1": 1, "other": 1})
    pair = bed.pair(fill=fill, agent={"apply__mode": mode, "apply__consent": True,
                                      key.replace(".", "__"): before})
    narrow = names(pair.replica) + names(pair.replica, 1)
    wait_cursor(pair.agent)
    assert pair.agent.stop() == 0
    pair.agent.settings[key] = after
    pair.agent.start()
    pair.agent.wait_warm()
    assert len(names(pair.replica) + names(pair.replica, 1)) == 4 > len(narrow)


def test_the_same_filter_in_another_order_is_gone_on_with(bed):
    pair = bed.pair(fill=lambda primary: primary.command("MSET", "user:1", 1, "other", 1),
                    agent={"filter__prefixes": ["user:", "other"]})
    wait_cursor(pair.agent)
    assert pair.agent.stop() == 0
    pair.agent.settings["filter.prefixes"] = ["other", "user:"]
    pair.agent.start()
    pair.agent.wait_warm()
    assert pair.agent.status()["snapshots"] == 0, pair.agent.status()


def test_keys_outside_the_filter_belong_to_the_local_server(bed):
    """Neither a flush nor a resync may take them."""
    primary, replica = bed.server("primary"), bed.server("replica")
    with replica.client() as client:
        client.set("local", "mine")
    with replica.client(5) as client:
        client.set("local", "mine")
    with primary.client() as client:
        client.mset({"user:1": 1, "user:2": 2, "local": "not mine"})
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica, filter__prefixes=["user:"], filter__databases=[0])
    agent.wait_warm()
    primary.command("FLUSHALL")
    with primary.client() as client:
        client.set("user:9", 1)
    agent.wait_warm()
    agent.ctl_ok("resync")
    agent.wait_warm()
    assert names(replica) == [b"local", b"user:9"] and names(replica, 5) == [b"local"]
    assert replica.command("GET", "local") == b"mine"


def fill_for_patterns(server):
    names = [f"{kind}:{i}{end}" for kind in ("user", "cart", "log") for i in range(60) for end in ("", ":tmp", ":eu", ":eu:tmp")]
    for database in (0, 2, 3):
        with server.client(database) as client:
            client.mset({name: f"{database} {name}" for name in [*names, "a*b", "axb", "other"]})
            client.hset("user:4hash", mapping={"field": "value"})


def chosen(server, database):
    """The keys that the server itself finds by PATTERNS."""
    with server.client(database) as client:
        wanted = {key for pattern in [prefix + "*" for prefix in PATTERNS["filter__prefixes"]] + PATTERNS["filter__patterns"]
                  for key in client.keys(pattern)}
        return wanted - {key for pattern in PATTERNS["filter__exclude"] for key in client.keys(pattern)}


def assert_chosen_is_equal(primary, replica, mine=()):
    """The followed part, value by value; mine: what the local server has of its own in each database."""
    for database in (0, 3):
        wanted, state = chosen(primary, database), compare.database_state(primary, database)
        found = compare.database_state(replica, database)
        assert {key: state[key] for key in wanted} == {key: found[key] for key in found if key not in mine}
        assert all(key in found for key in mine)
    assert names(replica, 2) == sorted(mine)


@pytest.mark.quick
@pytest.mark.parametrize("mode", MODES)
def test_patterns_choose_what_the_servers_own_would(bed, mode):
    pair = bed.pair(fill=fill_for_patterns, agent={"apply__mode": mode, "apply__consent": True, **PATTERNS})
    pair.agent.wait_warm()
    assert len(chosen(pair.primary, 0)) > 100
    assert_chosen_is_equal(pair.primary, pair.replica)
    with pair.primary.client() as client:
        client.rename("user:1", "user:1:tmp")      # into what is left out
        client.rename("cart:1:tmp", "cart:1:x:eu") # out of it
        client.delete("user:2:eu")
        client.set("log:31", "odd")
    with pair.primary.client(3) as client:
        client.flushdb()
        client.mset({"user:0": 1, "user:0:tmp": 1, "other": 1})
    with pair.primary.client(2) as client:
        client.set("user:0", 1)
    pair.agent.wait_warm()
    assert_chosen_is_equal(pair.primary, pair.replica)
    assert names(pair.replica, 3) == [b"user:0"]
    assert "without *:tmp" in pair.agent.status()["filters"]
    assert pair.agent.ctl("verify").returncode == 0


@pytest.mark.parametrize("mode", ["commands", "hybrid"])
def test_what_is_excluded_belongs_to_the_local_server(bed, mode):
    """Neither a reconcile nor a flush, nor the audit, nor a verify counts it, mends it or takes it."""
    mine = (b"user:0:tmp", b"user:9", b"other")
    pair = bed.pair(fill=fill_for_patterns, agent={"apply__mode": mode, "apply__consent": True,
                                                  "apply__audit_keys_per_second": 100_000, **PATTERNS})
    pair.agent.wait_warm()
    for database in (0, 2, 3):
        with pair.replica.client(database) as client:
            client.mset({name: "mine" for name in mine})
    pair.replica.command("SET", "user:0:eu", "harm")
    wait_for(lambda: pair.replica.command("GET", "user:0:eu") != b"harm", "the audit does not mend", timeout=60)
    rounds = pair.agent.status()["audit_rounds"]
    pair.agent.wait_status(lambda status: status["audit_rounds"] >= rounds + 2, "no round ends", timeout=60)
    assert_chosen_is_equal(pair.primary, pair.replica, mine)
    with pair.primary.client(3) as client:
        client.flushdb()
        client.set("user:0", 1)
    pair.agent.wait_warm()
    pair.agent.ctl_ok("verify")
    if mode == "commands": # hybrid loads all anew, as it does with prefixes
        pair.agent.ctl_ok("resync")
        pair.agent.wait_warm()
    assert_chosen_is_equal(pair.primary, pair.replica, mine)
    status = pair.agent.status()
    assert (status["audit_found_different"], status["audit_found_missing"], status["audit_found_extra"]) == (1, 0, 0)
    assert pair.replica.command("GET", "user:9") == b"mine"


def test_a_server_with_excluded_keys_alone_needs_no_consent(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    replica.command("MSET", "tmp:1", "mine", "tmp:2", "mine")
    primary.command("MSET", "tmp:1", "not mine", "user:1", 1)
    agent = bed.agent(bed.proxy(primary), replica, filter__exclude=["tmp:*"])
    agent.wait_warm()
    assert names(replica) == [b"tmp:1", b"tmp:2", b"user:1"] and replica.command("GET", "tmp:1") == b"mine"


def test_a_proxy_of_some_databases(bed):
    pair = bed.pair(fill=lambda primary: data.fill(primary, (0, 1, 10)),
                    proxy={"source__databases": [1, 10]})
    pair.agent.wait_warm()
    left, right = compare.key_counts(pair.primary), compare.key_counts(pair.replica)
    assert right == {1: left[1], 10: left[10]}
    pair.primary.command("FLUSHALL")
    with pair.primary.client(1) as client:
        client.set("inside", 1)
    pair.agent.wait_warm()
    assert compare.key_counts(pair.replica) == {1: 1}


def test_a_database_the_replica_does_not_have(bed):
    """The replica has 4 databases, the primary writes into the tenth."""
    pair = bed.pair(replica_config={"databases": 4})
    with pair.primary.client(3) as client:
        client.set("fits", 1)
    pair.agent.wait_warm()
    with pair.primary.client(9) as client:
        client.set("does not fit", 1)
    status = pair.agent.wait_status(lambda status: status["state"] != "warm" or status["quarantined"],
                                    "a key that cannot be applied is not told")
    assert status["state"] != "warm" and status["reason"], status
    with pair.primary.client(9) as client:
        client.delete("does not fit")
    pair.agent.wait_warm()


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_thousands_of_keys_the_replica_cannot_hold(bed, mode):
    """More than have names in status: each counts once, and leaves when the primary deletes it."""
    pair = bed.pair(replica_config={"databases": 4},
                    agent={"apply__mode": mode, "apply__consent": True})
    for seed in (1, 2):
        data.fill_plain(pair.primary, 3000, database=9, seed=seed)
        # A key that was on its way twice counts twice.
        pair.agent.wait_status(lambda status: status["quarantined_ever"] >= 3000 * seed and status["quarantined"] == 3000
                               and status["state"] == "lagging", "they are not refused")
    with pair.primary.client(9) as client:
        for start in range(0, 3000, 500):
            client.delete(*[f"key:{i}" for i in range(start, start + 500)])
    pair.settle()
    assert pair.agent.status()["snapshots"] == 1
