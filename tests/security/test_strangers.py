"""Another user of the host: it gets nothing of a proxy, and no agent takes anything from it."""
import os

import pytest
import redis

from lib import data, wire
from lib.daemon import GATEWAY, Agent, Proxy, free_port
from lib.process import wait_for
from lib.stranger import NOBODY, Stranger

MARKER = b"what nobody else may see"


def marked(bed, **settings):
    """A primary with something to hide, and its proxy, not started yet."""
    primary = bed.server("primary")
    primary.command("SET", "marker", MARKER.decode())
    return primary, bed.proxy(primary, start=False, **settings)


def open_to_users(path):
    """What an operator should not do: every user may connect."""
    os.chmod(os.path.dirname(path), 0o755)
    os.chmod(path, 0o777)


def shm_path(proxy):
    return proxy.listen["shm"].removeprefix("shm://")


def everything(address):
    """What one reads who holds no secret."""
    with wire.join(address) as joined:
        return joined.everything()


def test_a_user_of_the_host_reads_nothing_over_loopback(bed, stranger):
    """A configuration of version 0.1: tcp on loopback, and no secret. It does not start any more."""
    _, proxy = marked(bed, listen=("shm",))
    proxy.settings["listen"] = [f"tcp://127.0.0.1:{free_port()}"]
    proxy.start(wait=False)
    wait_for(lambda: not proxy.alive or stranger.run(wire.may_join, proxy.settings["listen"][0]),
             "it neither ends nor lets anybody in", 30)
    assert not proxy.alive, "the stranger was let in"
    assert proxy.wait_exit() == 2
    assert "is open to every user of this host" in proxy.output() and "set auth.secret_file" in proxy.output()
    bed.daemons.remove(proxy)


def test_a_user_of_the_host_is_no_peer_over_shm(bed, stranger):
    _, proxy = marked(bed, listen=("shm",))
    proxy.start()
    proxy.wait_live()
    open_to_users(shm_path(proxy))
    assert not stranger.run(wire.may_join, proxy.listen["shm"])
    wait_for(lambda: "is none of shm.users" in proxy.output(), "the log does not say why")


def test_shm_without_a_secret_serves_its_own_user(bed):
    pair = bed.pair(listen=("shm",), via="shm", fill=data.fill)
    assert "auth.secret_file" not in pair.agent.settings
    pair.settle()


def test_a_listed_user_is_served_without_a_secret(bed, stranger):
    _, proxy = marked(bed, listen=("shm",), shm__users=[str(stranger.uid)])
    proxy.start()
    proxy.wait_live()
    open_to_users(shm_path(proxy))
    assert MARKER in stranger.run(everything, proxy.listen["shm"])


@pytest.mark.parametrize("secret", [False, True], ids=["without a secret", "with one"])
def test_a_user_who_cannot_be_seen_needs_a_secret(bed, secret):
    """The overflow uid: so a process of another user namespace looks."""

    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    words = b"a secret of sixteen bytes or more"
    settings = {"auth__secret_file": bed.file("secret", words.decode())} if secret else {}
    _, proxy = marked(bed, listen=("shm",), shm__users=[str(NOBODY)], **settings)
    proxy.start()
    proxy.wait_live()
    open_to_users(shm_path(proxy))
    with Stranger(NOBODY) as nobody:
        let_in = nobody.run(wire.may_join, proxy.listen["shm"], secret=words if secret else b"")
    assert let_in == secret
    wait_for(lambda: secret or "PrivateUsers" in proxy.output(), "the log does not say why")


def false_proxy(bed, stranger, carrier):
    """It listens at the address of a proxy that is gone, with a table of its own."""
    theirs = bed.server("theirs")
    theirs.command("SET", "planted", "by a stranger")
    open_to_users(theirs.address.removeprefix("unix://"))
    false = Proxy(stranger.home, "false", theirs, listen=(carrier,), auth__allow_insecure=True)
    stranger.become(false).start()
    false.wait_live()
    if carrier == "shm":
        os.chmod(shm_path(false), 0o777)
    return false


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_a_stranger_cannot_take_a_dead_proxys_place(bed, stranger, carrier):
    """The replica keeps its data."""
    replica = bed.server("replica")
    replica.command("SET", "ours", "stays")
    false = false_proxy(bed, stranger, carrier)
    agent = Agent(bed.directory, "agent", false, replica, via=carrier, apply__consent=True)
    agent.settings.pop("auth.allow_insecure", None)
    bed.daemons.append(agent)
    agent.start(wait=False)
    if carrier == "tcp":
        wait_for(lambda: not agent.alive or replica.command("EXISTS", "planted"), "it goes on", 30)
        assert not agent.alive and agent.wait_exit() == 2
        assert "set auth.secret_file" in agent.output()
        bed.daemons.remove(agent)
    else:
        wait_for(lambda: "shm.users" in agent.output() or replica.command("EXISTS", "planted"),
                 lambda: agent.tail(), 30)
    assert replica.command("GET", "ours") in (b"stays", "stays")
    assert replica.command("EXISTS", "planted") == 0
    false.kill()


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_a_gateway_does_not_follow_a_stranger(bed, stranger, carrier):
    """Its clients are told nothing that a stranger has planted."""
    if not os.path.exists(GATEWAY):
        pytest.skip("version 0.1 has no gateway")
    false = false_proxy(bed, stranger, carrier)
    gateway = bed.gateway(false, via=carrier, start=False)
    gateway.settings.pop("auth.allow_insecure", None)
    gateway.settings.pop("auth.secret_file", None)
    gateway.start(wait=False)
    if carrier == "tcp":
        assert gateway.wait_exit() == 2
        assert "set auth.secret_file" in gateway.output()
        bed.daemons.remove(gateway)
    else:
        wait_for(lambda: "shm.users" in gateway.output(), lambda: gateway.tail(), 30)
        assert gateway.status()["state"] != "serving"
        with pytest.raises(redis.exceptions.ResponseError):
            gateway.client().get("planted")
    false.kill()


def test_a_gateway_serves_no_stranger_over_tcp(bed):
    """memcached has no passwords, and Redis clients have none without a file of users."""
    if not os.path.exists(GATEWAY):
        pytest.skip("version 0.1 has no gateway")
    _, proxy = marked(bed, listen=("shm",))
    proxy.start()
    for key in ("gateway.resp", "gateway.memcached"):
        gateway = bed.gateway(proxy, start=False, name=key, gateway__allow_insecure=False)
        gateway.settings["gateway.resp"] = []
        gateway.settings[key] = [f"tcp://127.0.0.1:{free_port()}"]
        gateway.start(wait=False)
        assert gateway.wait_exit() == 2
        assert "set gateway.allow_insecure=true" in gateway.output()
        bed.daemons.remove(gateway)
