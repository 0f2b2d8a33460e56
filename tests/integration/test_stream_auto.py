"""source.feed=auto: which feed when, and back. Its pauses are passed by a clock that tests can step."""
import pytest

from lib import data
from lib.clock import Clock
from lib.daemon import wall
from lib.forward import Forwarder
from lib.ports import free_port
from lib.process import wait_for

AUTO = {"source__feed": "auto"}
PASSWORD = "change-me"
PAUSE = 301 # seconds, after which the stream is tried again (KW_CHOICE_PAUSE_US)
FORKS_PAUSE = 61 # … and after which the primary may fork once more (KW_FORKS_PAUSE_US)


def wait_feed(proxy, kind):
    wait_for(lambda: proxy.status()["feed"]["kind"] == kind and proxy.status()["state"] == "live",
             f"the feed is not {kind}", 60)


def test_auto_goes_on_where_something_between_does_not_let_psync_through(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 100)
    forwarder = Forwarder(bed.directory, lambda begin: primary.socket, lambda bytes: b"PSYNC" not in bytes)
    try:
        wait_feed(bed.proxy(forwarder, **AUTO), "notifications")
    finally:
        forwarder.close()


def test_auto_knows_which_server_the_other_feed_followed(bed):
    """The stream at one server, notifications at another, the stream at the first one again."""
    servers = [bed.server("first"), bed.server("second")]
    for server in servers:
        data.fill_plain(server, 100)
    servers[0].command("SET", "only", "here")
    forwarder = Forwarder(bed.directory, lambda begin: servers[0].socket)

    def lead_to(server):
        forwarder.choose = lambda begin: server.socket
        for one in servers:
            for kind in ("normal", "pubsub", "replica"):
                one.command("CLIENT", "KILL", "TYPE", kind)

    try:
        proxy = bed.proxy(forwarder, **AUTO)
        wait_feed(proxy, "stream")
        servers[0].command("CONFIG", "SET", "min-replicas-to-write", 1)
        wait_feed(proxy, "notifications")
        lead_to(servers[1])
        wait_for(lambda: proxy.status()["reconciles_identity"] == 1, "the second server is not noticed")
        wait_feed(proxy, "notifications")
        servers[0].command("CONFIG", "SET", "min-replicas-to-write", 0)
        lead_to(servers[0])
        wait_feed(proxy, "stream")
        assert proxy.status()["reconciles_identity"] == 2, proxy.status()
    finally:
        forwarder.close()


def test_auto_follows_a_writable_replica_by_notifications(bed):
    first = bed.server("first", port=str(free_port()), bind="127.0.0.1", tls=False)
    replica = bed.server("writable", replicaof=("127.0.0.1", first.config["port"]), replica_read_only="no", tls=False)
    replica.wait_replicates()
    wait_feed(bed.proxy(replica, **AUTO), "notifications")


def timed(bed, primary, clock, **settings):
    """A pair whose proxy has this clock."""
    proxy = clock.drive(bed.proxy(primary, start=False, **AUTO, **settings)).start()
    replica = bed.server("replica", primary.binary) if hasattr(primary, "binary") else bed.server("replica")
    return proxy, bed.agent(proxy, replica), replica


def end_connections(primary):
    for kind in ("normal", "pubsub", "replica"):
        primary.command("CLIENT", "KILL", "TYPE", kind)


def assert_follows(primary, agent, replica, value):
    primary.command("SET", "key:1", value)
    agent.wait_warm()
    assert replica.command("GET", "key:1") == value.encode()


def forbid_by_acl(primary):
    primary.command("ACL", "SETUSER", "follower", "-psync")


def allow_by_acl(primary):
    primary.command("ACL", "SETUSER", "follower", "+psync")


def forbid_by_replicas(primary):
    primary.command("CONFIG", "SET", "min-replicas-to-write", 1)


def allow_by_replicas(primary):
    primary.command("CONFIG", "SET", "min-replicas-to-write", 0)


@pytest.mark.parametrize("forbid, allow, named", [
    (forbid_by_acl, allow_by_acl, "psync"),
    (forbid_by_replicas, allow_by_replicas, "min-replicas-to-write"),
], ids=["acl", "min-replicas"])
def test_auto_falls_back_and_returns_when_the_stream_is_permitted(bed, any_server, forbid, allow, named):
    """A refusal is not tried again by itself: with the first connection after the pause."""
    primary = bed.server("primary", any_server)
    data.fill_plain(primary, 100)
    primary.command("ACL", "SETUSER", "follower", "on", ">" + PASSWORD, "~*", "&*", "+@all")
    forbid(primary)
    clock = Clock(bed)
    proxy, agent, replica = timed(bed, primary, clock, redis__username="follower",
                                  redis__password_file=bed.file("password", PASSWORD + "\n"))
    wait_feed(proxy, "notifications")
    assert named in proxy.status()["feed"]["reason"].lower(), proxy.status()
    allow(primary)
    assert_follows(primary, agent, replica, "by notifications")
    before = wall()
    end_connections(primary)
    proxy.wait_passed("source_down", since=before)
    wait_feed(proxy, "notifications") # the pause is not over
    clock.advance(PAUSE)
    end_connections(primary)
    wait_feed(proxy, "stream")
    assert "allow it" in proxy.status()["feed"]["reason"], proxy.status()
    assert_follows(primary, agent, replica, "by the stream")


def test_auto_gives_its_connection_up_after_a_trouble_that_may_have_ended(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 100)
    passes = []
    forwarder = Forwarder(bed.directory, lambda first: primary.socket,
                          lambda data: b"PSYNC" not in data or bool(passes))
    clock = Clock(bed)
    try:
        proxy, agent, replica = timed(bed, forwarder, clock)
        wait_feed(proxy, "notifications")
        passes.append("from now on")
        assert_follows(primary, agent, replica, "by notifications")
        clock.advance(PAUSE)
        wait_feed(proxy, "stream")
        assert_follows(primary, agent, replica, "by the stream")
    finally:
        forwarder.close()


def forks(primary):
    return primary.command("INFO", "stats")["total_forks"]


def lose_the_backlog(primary, forwarder):
    """Without a replica a server gives its backlog up after a while: then only a fork helps."""
    choose, forwarder.choose = forwarder.choose, lambda first: None
    end_connections(primary)
    wait_for(lambda: primary.command("INFO", "replication")["repl_backlog_active"] == 0, "the backlog stays", 60)
    forwarder.choose = choose


def test_the_primary_does_not_fork_again_and_again(bed):
    """Three times it does. Then there is a pause, and `reason` says which settings help."""
    primary = bed.server("primary", repl_backlog_ttl=1)
    data.fill_plain(primary, 100)
    forwarder = Forwarder(bed.directory, lambda first: primary.socket)
    clock = Clock(bed)
    try:
        proxy = clock.drive(bed.proxy(forwarder, start=False, source__feed="stream")).start()
        proxy.wait_live()
        first = forks(primary)
        for _ in range(2):
            lose_the_backlog(primary, forwarder)
            proxy.wait_live()
        assert forks(primary) == first + 2
        lose_the_backlog(primary, forwarder)
        reason = proxy.wait_state("source_down", reason="forked")["reason"]
        assert "repl-backlog-size" in reason, reason
        assert forks(primary) == first + 2
        clock.advance(FORKS_PAUSE)
        proxy.wait_live()
        assert forks(primary) == first + 3
    finally:
        forwarder.close()


def test_auto_goes_on_with_notifications_if_the_primary_would_fork_again_and_again(bed):
    primary = bed.server("primary", repl_backlog_ttl=1)
    data.fill_plain(primary, 100)
    forwarder = Forwarder(bed.directory, lambda first: primary.socket)
    try:
        proxy = bed.proxy(forwarder, **AUTO)
        for _ in range(3):
            proxy.wait_live()
            lose_the_backlog(primary, forwarder)
        wait_feed(proxy, "notifications")
        assert "forked" in proxy.status()["feed"]["reason"], proxy.status()
    finally:
        forwarder.close()
