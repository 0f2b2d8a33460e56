"""No daemon connects to, or listens at, any address but those of its configuration."""
import os
import re

import pytest

from lib import data
from lib.daemon import BUILD, GATEWAY, free_port
from lib.process import wait_for
from lib.sentinel import NAME, Trio
from lib.server import TOP

WITNESS = next((path for path in (os.path.join(folder, "tests", "preload", "kw-network.so")
                                  for folder in (BUILD, os.path.join(TOP, "build"))) if os.path.exists(path)), "")


def watch(bed, daemon):
    """Its connections are written down from its start on."""
    daemon.network = os.path.join(bed.directory, daemon.name + ".network")
    daemon.env.update(LD_PRELOAD=WITNESS, KW_NETWORK_FILE=daemon.network)
    return daemon.start()


def told(daemon):
    with open(daemon.network, encoding="utf-8") as stream:
        # A control socket gets its name when it listens: it is bound by another one.
        return {re.sub(r"(\.ctl)\.\d+$", r"\1", line.rstrip("\n")) for line in stream}


def as_told(address):
    """How the witness writes an address of the configuration."""
    scheme, rest = address.split("://", 1)
    return f"unix {rest}" if scheme in ("unix", "shm") else f"inet {rest}"


@pytest.mark.quick
def test_daemons_go_only_where_their_configuration_says(bed):
    assert WITNESS, "tests/preload is not built"
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    proxy = watch(bed, bed.proxy(primary, listen=("shm", "tcp"), start=False,
                                 http__listen=f"tcp://127.0.0.1:{free_port()}"))
    agent = watch(bed, bed.agent(proxy, replica, via="tcp", start=False))
    agent.wait_warm()
    agent.ctl_ok("verify")
    wanted = {proxy: {"connect " + as_told(primary.address), "bind unix " + proxy.control,
                      "bind " + as_told(proxy.settings["http.listen"]),
                      *("bind " + as_told(address) for address in proxy.listen.values())},
              agent: {"connect " + as_told(proxy.listen["tcp"]), "connect " + as_told(replica.address),
                      "bind unix " + agent.control}}
    if os.path.exists(GATEWAY):
        gateway = watch(bed, bed.gateway(proxy, via="shm", start=False))
        gateway.wait_serving()
        gateway.client().get("key")
        wanted[gateway] = {"connect " + as_told(proxy.listen["shm"]), "bind unix " + gateway.control,
                           f"bind unix {gateway.socket}", f"bind inet 127.0.0.1:{gateway.port}"}
    for daemon, expected in wanted.items():
        assert went(daemon, expected) == expected, f"{daemon.name} went elsewhere, or not where it should"


def went(daemon, expected):
    """A listener looks whether another process answers at its path before it takes it: that is left out."""
    seen = told(daemon)
    return {line for line in seen if line.replace("connect", "bind") not in expected} | (expected & seen)


def test_a_gateway_that_forwards_goes_to_the_primary_besides(bed):
    if not os.path.exists(GATEWAY):
        pytest.skip("version 0.1 has no gateway")
    primary = bed.server("primary")
    proxy = bed.proxy(primary, listen=("shm",))
    proxy.wait_live()
    gateway = watch(bed, bed.gateway(proxy, via="shm", start=False, gateway__forward=True,
                                     redis__address=primary.address))
    gateway.wait_serving()
    with gateway.client() as client:
        client.set("written", "through")
    assert primary.command("GET", "written") == b"through"
    expected = {"connect " + as_told(proxy.listen["shm"]), "connect " + as_told(primary.address),
                "bind unix " + gateway.control, f"bind unix {gateway.socket}", f"bind inet 127.0.0.1:{gateway.port}"}
    assert went(gateway, expected) == expected


def test_an_agent_in_mode_replica_listens_at_its_link_address_besides(bed):
    primary, replica, port = bed.server("primary"), bed.server("replica"), free_port()
    data.fill_plain(primary, 50)
    proxy = bed.proxy(primary, listen=("shm",))
    agent = watch(bed, bed.agent(proxy, replica, via="shm", start=False, apply__mode="replica", apply__consent=True,
                                 apply__replica__listen=f"tcp://127.0.0.1:{port}"))
    agent.wait_warm()
    expected = {"connect " + as_told(proxy.listen["shm"]), "connect " + as_told(replica.address),
                "bind unix " + agent.control, f"bind inet 127.0.0.1:{port}"}
    assert went(agent, expected) == expected


@pytest.fixture(name="trio")
def three_sentinels(bed):
    trio = Trio(bed, replicas=1)
    yield trio
    trio.close()


@pytest.mark.parametrize("listed", [3, 1], ids=["a closed list", "an open list"])
def test_with_sentinel_a_proxy_goes_where_the_sentinels_say(bed, trio, listed):
    """To the sentinels of its list and to the primary that they name; if the list is open, to those they tell of."""
    settings = {**trio.settings(), "sentinel__addresses": [one.address for one in trio.sentinels[:listed]]}
    proxy = watch(bed, bed.proxy(trio.first, start=False, listen=("shm",), redis__address="redis://", **settings))
    proxy.wait_status(lambda status: status["state"] == "live" and status["mandate"]["state"] == "confirmed",
                      "not confirmed", 60)
    expected = {*("connect " + as_told(one.address) for one in trio.sentinels),
                f"connect inet 127.0.0.1:{trio.ports['first']}", "bind unix " + proxy.control,
                "bind " + as_told(proxy.listen["shm"])}
    wait_for(lambda: went(proxy, expected) == expected, lambda: sorted(went(proxy, expected) ^ expected), 30)


def test_a_closed_list_is_all_that_is_asked(bed, trio):
    """The others tell of a fourth sentinel, which anybody can have invented."""
    port = free_port()
    trio.first.command("PUBLISH", "__sentinel__:hello",
                       f"127.0.0.1,{port},{'ab' * 20},0,{NAME},127.0.0.1,{trio.ports['first']},0")
    wait_for(lambda: all((one.master() or {}).get("num-other-sentinels") == "3" for one in trio.sentinels),
             "the sentinels do not believe it", 30)
    places = {}
    for name, listed in (("closed", 3), ("open", 1)):
        settings = {**trio.settings(), "sentinel__addresses": [one.address for one in trio.sentinels[:listed]]}
        places[name] = watch(bed, bed.proxy(trio.first, name=name, start=False, listen=("shm",), **settings))
    invented = f"connect inet 127.0.0.1:{port}"
    wait_for(lambda: invented in told(places["open"]), "the one with an open list does not ask it", 60)
    places["closed"].wait_status(lambda status: status["mandate"]["state"] == "confirmed", "not confirmed", 60)
    assert invented not in told(places["closed"])


def test_a_name_is_resolved_only_if_it_is_configured(bed):
    primary = bed.server("primary", port=(port := free_port()))
    proxy = bed.proxy(primary, listen=("shm",), start=False, redis__address=f"tcp://localhost:{port}")
    watch(bed, proxy).wait_live()
    seen = told(proxy)
    assert {line for line in seen if line.startswith("resolve")} == {"resolve localhost"}
    others = {line for line in seen if line.startswith("connect inet")
              and not re.search(rf"(127\.0\.0\.1|\[::1\]):{port}$", line)}
    assert others == set()


def test_keywakectl_goes_to_the_control_socket_only(bed):
    proxy = bed.proxy(bed.server("primary"), listen=("shm",))
    proxy.wait_live()
    file = os.path.join(bed.directory, "ctl.network")
    os.environ.update(LD_PRELOAD=WITNESS, KW_NETWORK_FILE=file)
    try:
        for words in (["status"], ["agents"], ["metrics"], ["wait", "live"]):
            proxy.ctl_ok(*words)
    finally:
        del os.environ["LD_PRELOAD"], os.environ["KW_NETWORK_FILE"]
    with open(file, encoding="utf-8") as stream:
        assert {line.rstrip("\n") for line in stream} == {f"connect unix {proxy.control}"}
