"""No daemon connects to, or listens at, any address but those of its configuration."""
import os
import re

import pytest

from lib import data
from lib.daemon import BUILD, GATEWAY, free_port
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
        # A listener looks whether another process answers at its path before it takes it.
        seen = {line for line in told(daemon) if line.replace("connect", "bind") not in expected} | (
            expected & told(daemon))
        assert seen == expected, f"{daemon.name} went elsewhere, or not where it should"


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
