"""Function libraries of the primary reach the replica (source.functions), and nothing else of it is touched."""
import os
import threading

import pytest
import redis

from lib.daemon import MODES, RDMA_HOST
from lib.process import wait_for
from lib.tls import Authority
from test_acl import PASSWORD, primary_acl, set_user

pytestmark = pytest.mark.sanitize

CARRIED = {"source__functions": True}
FEEDS = ["notifications", "stream"]


def code(name, answer, function=None):
    return (f"#!lua name={name}\nredis.register_function{{function_name='{function or name}', "
            f"callback=function(keys, args) return '{answer}' end, flags={{'no-writes'}}}}")


def filler(lines):
    """Comments of 100 bytes each."""
    return "\n".join(f"-- {os.urandom(48).hex()}" for _ in range(lines))


def load(server, name, answer, function=None):
    server.command("FUNCTION", "LOAD", "REPLACE", code(name, answer, function))


def libraries(server):
    """{name: code}, cursors of agents too."""
    with server.client() as client:
        return {entry[b"library_name"].decode(): entry[b"library_code"].decode()
                for entry in (dict(zip(row[::2], row[1::2])) if isinstance(row, list) else row
                              for row in client.execute_command("FUNCTION", "LIST", "WITHCODE"))}


def own(server):
    return {name: text for name, text in libraries(server).items() if name != "keywake_cursor"}


def wait_own(server, expected, timeout=60.0):
    wait_for(lambda: own(server) == own_of(expected), lambda: f"{own(server)}, not {own_of(expected)}", timeout)


def own_of(expected):
    return expected if isinstance(expected, dict) else own(expected)


def start(bed, server="installed", mode="commands", feed=None, proxy=None, fill=None, **more):
    settings = {**CARRIED, **({"source__feed": feed} if feed else {}), **(proxy or {})}
    return bed.pair(server, server, fill=fill or (lambda primary: load(primary, "first", "one")), proxy=settings,
                    agent={**MODES[mode], **more.pop("agent", {})}, **more)


def live(pair):
    """load, replace, delete, flush: `wait warm` covers each."""
    assert own(pair.replica) == {"first": code("first", "one")}
    cursor = "keywake_cursor" in libraries(pair.replica)
    load(pair.primary, "second", "two")
    pair.agent.wait_warm()
    assert pair.replica.command("FCALL", "second", 0) == b"two"
    load(pair.primary, "first", "changed")
    pair.agent.wait_warm()
    assert pair.replica.command("FCALL", "first", 0) == b"changed"
    pair.primary.command("FUNCTION", "DELETE", "first")
    pair.agent.wait_warm()
    assert own(pair.replica) == {"second": code("second", "two")}
    pair.primary.command("FUNCTION", "FLUSH")
    pair.agent.wait_warm()
    assert own(pair.replica) == {}
    assert not cursor or "keywake_cursor" in libraries(pair.replica)
    status = pair.agent.status()["functions"]
    assert status["state"] == "equal" and status["version"] == status["table_version"] > 0, status
    assert pair.proxy.status()["functions"]["state"] == "carried"


@pytest.mark.parametrize("feed", FEEDS)
def test_libraries_are_loaded_replaced_deleted_and_flushed(bed, any_server, feed):
    live(start(bed, any_server, feed=feed))


@pytest.mark.parametrize("mode", ["replica", "hybrid"])
def test_they_come_in_each_mode(bed, any_server, mode):
    live(start(bed, any_server, mode))


@pytest.mark.parametrize("carrier", ["shm", "tcp", "tcp+tls"] + (["rdma"] if RDMA_HOST else []))
def test_they_come_by_each_carrier(bed, carrier):
    more = {}
    if carrier == "tcp+tls":
        authority = Authority(bed.directory)
        more = {"proxy": {key.replace(".", "__"): value for key, value in authority.wire("proxy").items()},
                "agent": {key.replace(".", "__"): value for key, value
                          in authority.wire("agent", san="URI:keywake:agent").items()}}
    pair = start(bed, listen=(carrier,), via=carrier, **more)
    live(pair)
    # About as much as a table carries, in one READ.
    pair.primary.command("FUNCTION", "LOAD", code("large", "x") + "\n" + filler(10_000))
    pair.agent.wait_warm()
    assert pair.proxy.status()["functions"]["bytes"] > 1_000_000
    assert own(pair.replica) == own(pair.primary) != {}


def test_without_the_option_the_replica_keeps_its_own(bed):
    pair = start(bed, proxy={"source__functions": False})
    load(pair.replica, "local", "mine")
    load(pair.primary, "second", "two")
    pair.settle()
    assert own(pair.replica) == {"local": code("local", "mine")}
    assert pair.agent.status()["functions"]["state"] == "not carried"
    assert pair.proxy.status()["functions"]["state"] == "off"


def test_an_agent_can_be_told_to_leave_them_alone(bed):
    pair = start(bed, agent={"apply__functions": False})
    load(pair.replica, "local", "mine")
    load(pair.primary, "second", "two")
    pair.settle()
    assert own(pair.replica) == {"local": code("local", "mine")}
    assert pair.agent.status()["functions"]["state"] == "off"


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_a_function_moves_from_one_library_to_another(bed, mode):
    """No two libraries can have a function of one name: what goes must go first."""
    pair = start(bed, mode=mode)
    pair.primary.command("FUNCTION", "DELETE", "first")
    load(pair.primary, "other", "moved", function="first")
    pair.agent.wait_warm()
    assert pair.replica.command("FCALL", "first", 0) == b"moved"
    assert own(pair.replica) == own(pair.primary)


def test_what_others_change_in_the_replica_is_mended_and_counted(bed):
    pair = start(bed)
    load(pair.replica, "first", "wrong")
    load(pair.replica, "stranger", "here")
    wait_own(pair.replica, pair.primary)
    pair.agent.wait_status(lambda status: status["functions_differences"] == 1, "the difference is counted")
    pair.replica.command("FUNCTION", "DELETE", "first")
    wait_own(pair.replica, pair.primary)
    pair.settle()


def test_cursors_of_agents_are_no_part_of_it(bed):
    """The primary is itself the replica of another chain, and has a cursor of that one's agent."""
    pair = start(bed)
    upper = bed.server("upper")
    load(upper, "above", "sky")
    second = bed.proxy(upper, "upper-proxy", **CARRIED)
    above = bed.agent(second, pair.primary, "upper-agent", apply__consent=True)
    above.wait_warm()
    pair.agent.wait_warm()
    assert own(pair.primary) == own(pair.replica) == {"above": code("above", "sky")}
    assert "keywake_cursor" in libraries(pair.primary)


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_an_agent_that_is_killed_at_any_moment_goes_on(bed, mode):
    pair = start(bed, mode=mode)
    stop = threading.Event()

    def change():
        for i in range(100000):
            if stop.wait(0.005):
                return
            load(pair.primary, f"lib{i % 7}", i)
            if i % 5 == 0 and i:
                pair.primary.command("FUNCTION", "DELETE", f"lib{i % 7}")
    writer = threading.Thread(target=change)
    writer.start()
    try:
        for _ in range(4):
            version = pair.agent.status()["functions"]["table_version"]
            pair.agent.wait_status(lambda s, v=version: s["functions"]["table_version"] > v, "another set")
            pair.agent.kill()
            pair.agent.restart()
    finally:
        stop.set()
        writer.join()
    pair.agent.wait_warm()
    assert own(pair.replica) == own(pair.primary)


def test_they_survive_restarts_and_serve_after_a_failover(bed):
    pair = start(bed)
    changes = pair.agent.status()["functions_changes"]
    assert changes == 1
    pair.proxy.stop()
    pair.proxy.restart()
    pair.agent.wait_warm()
    # Another process has another epoch, and the same set: nothing is loaded again.
    assert pair.agent.status()["functions_changes"] == changes
    pair.replica.kill()
    pair.replica.restart(keep_data=False)
    pair.agent.wait_warm()
    assert own(pair.replica) == own(pair.primary)
    pair.agent.stop()
    pair.primary.kill()
    assert pair.replica.command("FCALL", "first", 0) == b"one"


def test_a_primary_that_came_back_empty_takes_nothing_along(bed):
    pair = start(bed)
    pair.primary.kill()
    pair.primary.restart(keep_data=False)
    pair.proxy.wait_status(lambda status: status["functions"]["state"] == "held", "they are held")
    assert "keywakectl approve" in pair.proxy.status()["functions"]["reason"]
    assert own(pair.replica) == {"first": code("first", "one")}
    approved = pair.proxy.ctl_ok("approve")
    assert "function librar" in approved["approved"], approved
    wait_own(pair.replica, {})


@pytest.mark.parametrize("feed", FEEDS)
def test_on_a_primary_that_came_back_empty_only_a_flush_says_that_none_is_meant(bed, any_server, feed):
    """The server counts calls that failed, too, and an agent's cursor is a library that can be deleted."""
    pair = start(bed, any_server, feed=feed)
    pair.primary.kill()
    pair.primary.restart(keep_data=False)
    pair.proxy.wait_status(lambda status: status["functions"]["state"] == "held", "they are held")
    for words in [("DELETE", "first"), ("RESTORE", "no payload"), ("FLUSH", "NEVER")]:
        with pytest.raises(redis.ResponseError):
            pair.primary.command("FUNCTION", *words)
    load(pair.primary, "keywake_cursor", "keywake-cursor 2 epoch=1")
    pair.primary.command("FUNCTION", "DELETE", "keywake_cursor")
    pair.agent.wait_warm()
    assert pair.proxy.status()["functions"]["state"] == "held"
    assert own(pair.replica) == {"first": code("first", "one")}
    pair.primary.command("FUNCTION", "FLUSH")
    wait_own(pair.replica, {})
    pair.agent.wait_warm()


def test_a_proxy_that_finds_none_asks_before_the_replica_loses_its_own(bed):
    """It cannot know whether the primary ever had any."""
    primary, replica = bed.server("primary"), bed.server("replica")
    load(replica, "local", "mine")
    proxy = bed.proxy(primary, **CARRIED)
    agent = bed.agent(proxy, replica)
    agent.wait_state("lagging", reason="keywakectl approve")
    assert agent.status()["reason_code"] == "functions_held"
    assert own(replica) == {"local": code("local", "mine")}
    approved = agent.ctl_ok("approve")
    assert "function librar" in approved["approved"], approved
    agent.wait_warm()
    assert own(replica) == {}


def guarded(bed, proxy_more=(), agent_more=(), **proxy):
    primary, replica = bed.server("primary"), bed.server("replica")
    load(primary, "first", "one")
    password = bed.file("password", PASSWORD + "\n")
    primary.command("CONFIG", "SET", "notify-keyspace-events", "AE")
    first = bed.proxy(primary, redis__username=set_user(primary, primary_acl(primary), *proxy_more),
                      redis__password_file=password, source__flags="trust", source__feed="notifications",
                      **CARRIED, **proxy)
    agent = bed.agent(first, replica, redis__username=set_user(replica, "replica.acl", *agent_more),
                      redis__password_file=password)
    return primary, first, agent, replica


MORE_AT_PRIMARY = ["+function|dump"]
MORE_AT_REPLICA = ["+function|dump", "+function|restore"]


def test_the_published_acls_and_what_they_name_are_enough(bed):
    primary, _, agent, replica = guarded(bed, MORE_AT_PRIMARY, MORE_AT_REPLICA)
    agent.wait_warm()
    load(primary, "second", "two")
    primary.command("FUNCTION", "DELETE", "first")
    agent.wait_warm()
    assert own(replica) == own(primary) == {"second": code("second", "two")}


def test_a_primary_that_forbids_it_costs_the_keys_nothing(bed):
    primary, proxy, agent, replica = guarded(bed, (), MORE_AT_REPLICA)
    primary.command("SET", "key", "value")
    agent.wait_warm()
    assert replica.command("GET", "key") == b"value" and own(replica) == {}
    status = proxy.status()["functions"]
    assert status["state"] == "refused" and "+function|dump" in status["reason"], status
    primary.command("ACL", "SETUSER", "keywake-proxy", *MORE_AT_PRIMARY)
    load(primary, "second", "two") # each minute would do, too
    wait_own(replica, primary)


@pytest.mark.parametrize("lacking", MORE_AT_REPLICA)
def test_a_replica_that_forbids_it_is_not_warm_and_says_why(bed, lacking):
    primary, _, agent, replica = guarded(bed, MORE_AT_PRIMARY, [word for word in MORE_AT_REPLICA if word != lacking])
    agent.wait_state("lagging", reason=lacking)
    assert agent.status()["reason_code"] == "functions_refused"
    assert "apply.functions=false" in agent.status()["reason"]
    primary.command("SET", "key", "value")
    wait_for(lambda: replica.command("GET", "key") == b"value", "keys go on")
    replica.command("ACL", "SETUSER", "keywake-agent", lacking)
    agent.wait_warm()
    assert own(replica) == own(primary)


def test_no_barrier_passes_because_the_proxy_is_gone(bed):
    """It covers functions that the replica lacks, also when nobody tells of them any more."""
    primary, proxy, agent, replica = guarded(bed, MORE_AT_PRIMARY, ["+function|dump"])
    agent.wait_state("lagging", reason="+function|restore")
    token = agent.rpc("barrier")["token"]
    for value in ["one", "two"]: # of keys it has passed
        primary.command("SET", "key", value)
        wait_for(lambda v=value: replica.command("GET", "key") == v.encode(), "the key is there")
    proxy.kill()
    agent.wait_state("connecting")
    assert agent.rpc("barrier", token=token) == {"token": token, "passed": False}
    assert agent.status()["functions"]["state"] == "refused"
    replica.command("ACL", "SETUSER", "keywake-agent", "+function|restore")
    proxy.restart()
    agent.wait_warm()
    assert agent.rpc("barrier", token=token) == {"token": token, "passed": True}
    assert own(replica) == own(primary)


@pytest.mark.parametrize("mode", ["commands", "replica", "hybrid"])
def test_a_library_that_the_replica_cannot_load_is_named_and_harms_no_key(bed, mode, need_server):
    """It needs the very server it was written for: the two have the same RDB, and other numbers."""
    need_server("redis-sid")
    need_server("redis-trixie")
    primary, replica = bed.server("primary", "redis-sid"), bed.server("replica", "redis-trixie")
    if primary.version == replica.version:
        pytest.skip("both are of one version")
    version = ".".join(map(str, primary.version))
    picky = code("picky", "yes") + f"\nif redis.REDIS_VERSION ~= '{version}' then error('too old') end"
    primary.command("FUNCTION", "LOAD", picky)
    proxy = bed.proxy(primary, **CARRIED)
    agent = bed.agent(proxy, replica, **MODES[mode])
    agent.wait_state("lagging", reason="does not take the primary's functions", timeout=60.0)
    assert agent.status()["reason_code"] == "functions_refused"
    snapshots = agent.status()["snapshots"]
    primary.command("SET", "key", "value")
    wait_for(lambda: replica.command("GET", "key") == b"value", "keys go on")
    primary.command("FUNCTION", "DELETE", "picky")
    agent.wait_warm()
    assert agent.status()["snapshots"] == snapshots
    assert own(replica) == {}


def test_too_much_code_is_said_and_keys_go_on(bed):
    pair = start(bed)
    pair.primary.command("FUNCTION", "LOAD", code("huge", "x") + "\n" + filler(12_000))
    pair.settle()
    status = pair.proxy.status()["functions"]
    assert status["state"] == "unfit" and status["bytes"] == 0, status
    # None are carried: the replica keeps what it has.
    assert own(pair.replica) == {"first": code("first", "one")}
    pair.primary.command("FUNCTION", "DELETE", "huge")
    load(pair.primary, "second", "two")
    pair.agent.wait_warm()
    assert own(pair.replica) == own(pair.primary)


def test_a_kept_table_keeps_them(bed):
    path = f"/dev/shm/kw-test-functions-{os.getpid()}"
    pair = start(bed, proxy={"table__keep_file": path})
    try:
        version = pair.proxy.status()["functions"]["version"]
        pair.proxy.stop()
        pair.proxy.restart()
        pair.agent.wait_warm()
        assert pair.proxy.status()["functions"]["version"] == version
        pair.proxy.stop()
        pair.proxy.settings["source.functions"] = False
        pair.proxy.restart()
        pair.agent.wait_warm()
        assert "source.functions was changed" in pair.proxy.output()
        assert pair.agent.status()["functions"]["state"] == "not carried"
        pair.proxy.stop()
    finally:
        if os.path.exists(path):
            os.unlink(path)


@pytest.mark.parametrize("feed", FEEDS)
def test_a_primary_whose_functions_change_all_the_time_is_waited_for_all_the_same(bed, feed):
    """`wait warm` ends all the same, and covers what was loaded before it."""
    pair = start(bed, feed=feed)
    stop = threading.Event()

    def change():
        with pair.primary.client() as client:
            i = 0
            while not stop.is_set():
                i += 1
                client.execute_command("FUNCTION", "LOAD", "REPLACE", code("busy", i))
    writer = threading.Thread(target=change)
    writer.start()
    try:
        load(pair.primary, "second", "two")
        pair.primary.command("SET", "key", "value")
        pair.agent.ctl_ok("wait", "warm", "--timeout", 30)
        assert "second" in own(pair.replica) and pair.replica.command("GET", "key") == b"value"
    finally:
        stop.set()
        writer.join()
