"""What the users of deploy/acl reach on a server, beyond what keywake needs: no password of it."""
import os

import pytest
import redis

from lib import data
from lib.compare import wait_same
from lib.process import wait_for
from lib.server import MATRIX, TOP

ACLS = os.path.join(TOP, "deploy", "acl")
PASSWORD = "change-me"

pytestmark = pytest.mark.quick


def acl_words(file):
    with open(os.path.join(ACLS, file), encoding="utf-8") as stream:
        return next(line for line in stream.read().splitlines() if line.startswith("user ")).split()[1:]


def set_user(server, file, *changes):
    words = acl_words(file)
    server.command("ACL", "SETUSER", *words, *changes)
    return words[0]


# The lines that must not reach a password. primary-config.acl and replica-mode.acl say themselves that they do.
HARMLESS = [name for name in sorted(os.listdir(ACLS))
            if name.endswith(".acl") and name not in ("primary-config.acl", "replica-mode.acl")]


@pytest.mark.parametrize("file", HARMLESS)
@pytest.mark.parametrize("server", MATRIX)
def test_the_published_users_cannot_read_requirepass(bed, server, file, need_server):
    need_server(server)
    primary = bed.server("primary", server)
    try:
        user = set_user(primary, file)
    except redis.exceptions.ResponseError as refused: # a command that this server does not have
        assert "Unknown command" in str(refused), refused
        return
    primary.command("CONFIG", "SET", "masterauth", "hidden")
    with primary.client(username=user, password=PASSWORD) as client:
        for words in (("CONFIG", "GET", "requirepass"), ("CONFIG", "GET", "*"), ("CONFIG", "GET", "masterauth"),
                      ("CONFIG", "SET", "requirepass", "mine"), ("CONFIG", "REWRITE"), ("ACL", "LIST"),
                      ("ACL", "GETUSER", "default"), ("ACL", "SETUSER", user, "+@all"), ("MODULE", "LIST"),
                      ("DEBUG", "RELOAD"), ("REPLICAOF", "127.0.0.1", "1"), ("MONITOR",), ("SHUTDOWN",)):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words)


@pytest.mark.parametrize("server", MATRIX)
def test_no_server_restricts_config_get_by_name(bed, server, need_server):
    """The day one does, the proxy can ask for the few parameters that it needs. Until then: source.flags=trust."""
    need_server(server)
    primary = bed.server("primary", server)
    for rule in (("+config|get|databases",), ("-config|get", "+config|get|databases"),
                 ("(+config|get %R~databases)",), ("+config|get", "%R~databases")):
        try:
            primary.command("ACL", "SETUSER", "narrow", "reset", "on", "nopass", "-@all", *rule)
        except redis.exceptions.ResponseError:
            continue
        with primary.client(username="narrow", password="any") as client:
            try:
                client.execute_command("CONFIG", "GET", "databases")
            except redis.exceptions.NoPermissionError:
                continue
            # It may read what is needed: then the rest, too.
            client.execute_command("CONFIG", "GET", "requirepass")


@pytest.mark.parametrize("secret", ["requirepass", "masterauth"])
def test_a_readable_requirepass_is_warned_of(bed, secret):
    primary = bed.server("primary")
    user = set_user(primary, "primary-config.acl")
    password = bed.file("password", PASSWORD + "\n")
    settings = dict(redis__username=user, redis__password_file=password)
    plain = bed.proxy(primary, "plain", **settings)
    plain.wait_live()
    assert "administrator" not in plain.output(), plain.tail()
    with primary.client() as client:
        client.config_set(secret, "hidden and long")
        proxy = bed.proxy(primary, **settings)
        proxy.wait_live()
        wait_for(lambda: "administrator" in proxy.output(), lambda: f"no warning:\n{proxy.tail()}")
        assert secret in proxy.output() and "source.flags=trust" in proxy.output()
        assert "hidden and long" not in proxy.output()
        if secret == "requirepass":
            client.execute_command("AUTH", "hidden and long")
        client.config_set(secret, "")


def trusted_pair(bed):
    primary, replica = bed.server("primary", notify_keyspace_events="AE"), bed.server("replica")
    data.fill_plain(primary, 1000)
    user = set_user(primary, "primary-7.2.acl" if primary.version >= (7, 2, 0) else "primary.acl")
    password = bed.file("password", PASSWORD + "\n")
    proxy = bed.proxy(primary, redis__username=user, redis__password_file=password, source__flags="trust",
                      source__watch_interval_ms=100)
    agent = bed.agent(proxy, replica)
    agent.wait_warm()
    return primary, proxy, agent, replica


def test_flags_lost_under_trust_are_found(bed):
    primary, proxy, agent, replica = trusted_pair(bed)
    with primary.client() as client:
        client.set("heard", 1)
        agent.wait_warm()
        client.config_set("notify-keyspace-events", "")
        client.set("hidden", 1)
        # The count of CONFIG SET: what it hid is read again.
        wait_for(lambda: proxy.status()["reconciles_flags"] >= 1, "no doubt")
        wait_same(primary, replica)
        # From now on changes raise no event: the proxy stops to call itself live.
        wait_for(lambda: client.incr("hidden") and proxy.status()["state"] == "source_down", "still trusted")
        status = proxy.wait_state("source_down", reason="notify-keyspace-events AE")
        assert "source.flags=trust" in status["reason"], status
        agent.wait_status(lambda status: status["state"] != "warm", "it says warm")
        client.config_set("notify-keyspace-events", "AE")
    proxy.wait_live()
    agent.wait_warm()
    wait_same(primary, replica)


def test_under_trust_no_config_is_sent(bed):
    primary, _, agent, replica = trusted_pair(bed)
    primary.command("CONFIG", "RESETSTAT")
    agent.wait_warm()
    wait_same(primary, replica)
    counts = primary.command("INFO", "commandstats")
    assert not any("config|get" in name or "config|set" in name for name in counts), counts
    assert not primary.command("ACL", "LOG")
