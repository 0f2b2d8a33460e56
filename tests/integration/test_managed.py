"""Servers of others: commands that are renamed away, as managed services do, and nodes of a cluster."""
import pytest

from lib import data
from lib.daemon import free_port
from lib.process import wait_for
from lib.server import MATRIX

# Most such services forbid PSYNC, too (limits.md).
pytestmark = pytest.mark.notifications

# What a service takes away. `none` has all of them at once.
TAKEN = ["CONFIG", "CLIENT", "DEBUG", "BGSAVE", "REPLICAOF"]


def managed(bed, name, server, taken):
    """rename-command is for the file or the command line only. Its value is two words: the second is empty."""
    words = tuple(word for command in taken for word in ("--rename-command", command, ""))[1:]
    return bed.server(name, server, notify_keyspace_events="AE", rename_command=words)


def strings(server):
    with server.client() as client:
        names = sorted(client.scan_iter(count=1000))
        return dict(zip(names, client.mget(names))) if names else {}


def wait_same(primary, replica):
    """Without DEBUG DIGEST-VALUE, which these servers do not have."""
    wait_for(lambda: strings(primary) == strings(replica), "they differ")


def follow(bed, server, taken):
    primary, replica = managed(bed, "primary", server, taken), managed(bed, "replica", server, taken)
    data.fill_plain(primary, 1000)
    proxy = bed.proxy(primary, source__flags="trust")
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    wait_same(primary, replica)
    return primary, replica, proxy, agent


@pytest.mark.parametrize("taken", TAKEN + ["none"])
def test_a_server_without_this_command_is_followed_and_written(bed, taken):
    """Redis and Valkey of this host; all servers together stand below."""
    commands = TAKEN if taken == "none" else [taken]
    primary, replica, proxy, agent = follow(bed, "installed", commands)
    with primary.client() as client:
        client.set("more", 1, ex=5000)
        client.delete("key:1")
        client.append("key:2", "more")
    agent.ctl_ok("wait", "warm", "--timeout", "60")
    wait_same(primary, replica)


@pytest.mark.parametrize("server", MATRIX[1:])
def test_each_server_without_all_of_them_is_followed(bed, server, need_server):
    need_server(server)
    primary, replica, _, agent = follow(bed, server, TAKEN)
    primary.client().set("more", 1)
    agent.ctl_ok("wait", "warm", "--timeout", "60")
    wait_same(primary, replica)


def test_a_flush_that_nobody_tells_is_seen_in_the_counters(bed):
    """Without CLIENT TRACKING. A key that was written anew between the flush and the look must not hide it, and a
    wait that returns has seen it."""
    primary, replica, proxy, agent = follow(bed, "installed", ["CLIENT"])
    assert "has no command CLIENT" in proxy.output()
    with primary.client() as client:
        names = [f"key:{i}" for i in range(100)]
        client.mset({name: "before" for name in names})
        agent.ctl_ok("wait", "warm", "--timeout", "60")
        client.flushdb()
        client.mset({name: "after" for name in names[:50]})
        agent.ctl_ok("wait", "warm", "--timeout", "60")
    wait_same(primary, replica)
    with primary.client() as client:
        client.flushall()
    agent.ctl_ok("wait", "warm", "--timeout", "60")
    wait_for(lambda: replica.command("DBSIZE") == 0, "keys of a flushed server stay")


def test_a_key_of_the_proxys_own_proves_the_flags_where_config_is_taken_away(bed):
    """Its event must come. The key is not replicated, and it goes by itself."""
    primary, replica = managed(bed, "primary", "installed", ["CONFIG"]), bed.server("replica")
    data.fill_plain(primary, 10)
    proxy = bed.proxy(primary, source__flags="trust", source__canary_key="canary")
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    proxy.wait_status(lambda status: status["flags"] == "trusted, proven", "no event proves the flags")
    with primary.client() as client:
        wait_for(lambda: client.exists("canary") == 0, "it stays")
        client.set("more", 1)
    agent.ctl_ok("wait", "warm", "--timeout", "60")
    assert replica.command("EXISTS", "canary", "more") == 1
    assert proxy.status()["missing_keys"] == 0


def test_without_such_a_key_the_flags_are_unproven(bed):
    primary = managed(bed, "primary", "installed", ["CONFIG"])
    assert bed.proxy(primary, source__flags="trust").wait_live()["flags"] == "trusted, unproven"
    assert bed.proxy(bed.server("other"), name="second").wait_live()["flags"] == "checked"


def test_a_node_of_a_cluster_is_refused_as_the_local_server(bed):
    # Without a port of its own the bus takes 10000, beside other tests too.
    primary, node = bed.server("primary"), bed.server("replica", cluster_enabled="yes", databases="1", bind="127.0.0.1",
                                                      cluster_port=free_port())
    data.fill_plain(primary, 10)
    agent = bed.agent(bed.proxy(primary), node)
    status = agent.wait_status(lambda status: "cluster-enabled no" in (status["reason"] or ""), "it is not refused")
    assert status["state"] != "warm"
    assert node.command("DBSIZE") == 0
