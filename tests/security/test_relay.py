"""
A relay: it stands between an agent and a proxy that share a secret, and hands their messages on. On version 0.1
it ends with a session of its own, and reads all. The handshake is bound to its connection, so that this fails.
"""
import pytest

from lib import wire
from lib.compare import assert_equal_now
from lib.daemon import free_port, secret_file, secret_path
from lib.process import wait_for
from lib.relay import Relay, Tunnel

pytestmark = pytest.mark.quick

WAYS = [("shm", "tcp"), ("tcp", "shm"), ("shm", "shm"), ("tcp", "tcp")]
MARKER = b"what nobody else may see"


def serve(bed, **settings):
    """A primary with one key, and its proxy, over shm and tcp."""
    primary = bed.server("primary")
    primary.command("SET", "marker", MARKER)
    proxy = bed.proxy(primary, listen=("shm", "tcp"), **settings)
    proxy.wait_live()
    return primary, proxy


def own_address(bed, carrier):
    """Where a relay listens: not at the proxy's."""
    if carrier == "tcp":
        return f"tcp://127.0.0.1:{free_port()}"
    return f"shm://{bed.directory}/relay.shm"


def secret_of(bed):
    with open(secret_path(bed.directory), "rb") as stream:
        return stream.read().strip()


def led_astray(bed, proxy, address):
    """An agent with the proxy's secret, which was given the address of a relay."""
    agent = bed.agent(proxy, bed.server("replica"), via="tcp", start=False,
                      auth__secret_file=secret_file(bed.directory))
    agent.settings["proxy"] = address
    return agent.start()


def wait_reason(agent, words):
    return agent.wait_status(lambda status: words in (status["reason"] or ""), f'no reason that says "{words}"')


@pytest.mark.parametrize("here, there", WAYS)
def test_a_relay_gets_no_session(bed, here, there):
    _, proxy = serve(bed)
    with Relay(own_address(bed, here), proxy.listen[there]) as relay:
        agent = led_astray(bed, proxy, relay.at)
        relay.wait()
        assert not relay.stolen, f"the relay reads: {MARKER in relay.stolen.everything()}"
        assert set(relay.refusals) == {wire.REFUSED_CHANNEL}
        wait_reason(agent, "relay")
    wait_for(lambda: "a relay" in proxy.output(), "the proxy does not say so")
    assert agent.replica.command("DBSIZE") == 0
    # An agent that comes straight to it is served.
    with wire.join(proxy.listen[there], secret=secret_of(bed)) as joined:
        assert MARKER in joined.everything()


@pytest.mark.parametrize("here, there", WAYS)
def test_a_relay_that_makes_the_hello_fit_gets_no_session(bed, here, there):
    """It writes its own connection into HELLO. What the agent proves is then another HELLO."""
    _, proxy = serve(bed)

    def fit(message, from_agent):
        if not from_agent or wire.type_of(message) != wire.HELLO:
            return message
        with wire.dial(proxy.listen[there]) as own:
            channel = wire.Version3.channel(own, proxy.listen[there])
        carrier = bytes([wire.Version3.carriers[there]])
        return message[:20] + carrier + message[21:152] + channel
    with Relay(own_address(bed, here), proxy.listen[there], change=fit) as relay:
        agent = led_astray(bed, proxy, relay.at)
        relay.wait()
        assert not relay.stolen, f"the relay reads: {MARKER in relay.stolen.everything()}"
        assert set(relay.refusals) == {wire.REFUSED_SECRET_UNKNOWN}
    assert agent.replica.command("DBSIZE") == 0


def test_a_tunnel_is_let_in_once_the_proxy_knows_its_address(bed):
    """It changes the address, as a relay does. The sentence names the key, and the key needs no restart."""
    primary, proxy = serve(bed)
    with Tunnel(own_address(bed, "tcp"), proxy.listen["tcp"]) as tunnel:
        agent = led_astray(bed, proxy, tunnel.at)
        wait_reason(agent, "auth.addresses")
        host_port = tunnel.at[len("tcp://"):]
        wait_for(lambda: f"dialled tcp {host_port}" in proxy.output(), "the proxy does not name what was dialled")
        proxy.ctl_ok("config", "set", "auth.addresses", f'["10.9.8.7:1", "{host_port}"]')
        agent.wait_warm()
        assert_equal_now(primary, agent.replica)
        # Out of the list again: the next connection is refused.
        proxy.ctl_ok("config", "set", "auth.addresses", "[]")
        tunnel.drop()
        wait_reason(agent, "auth.addresses")


def test_an_address_that_is_none_is_refused_at_the_start(bed):
    proxy = bed.proxy(bed.server("primary"), start=False, auth__addresses=["localhost:7000"])
    proxy.start(wait=False)
    assert proxy.wait_exit() == 2
    assert "auth.addresses" in proxy.output() and "10.0.0.9:7000" in proxy.output()
