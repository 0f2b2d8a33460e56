"""What operators see of carriers, and set about them, on the real daemons."""
import subprocess

import pytest

from lib import data
from lib.daemon import AGENT, PROXY
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

FAULTS = {"rejected", "nobody_listening", "stale_connection", "unreachable", "address_unresolved",
          "address_changed", "device_removed", "port_down", "disconnected", "bad_completion",
          "retries_exceeded", "access_refused", "connect_error"}
LISTED = {"id", "name", "role", "key", "principal", "tls", "carrier", "device", "peer", "state", "passed", "applied", "lag_ms", "depth",
          "reads", "bytes", "wire_bytes", "compression", "connected_us", "since_us"}
BASE = {PROXY: ["redis.address=unix:///tmp/none.sock", "auth.allow_insecure=true"],
        AGENT: ["redis.address=unix:///tmp/none.sock", "proxy=rdma://10.0.0.1:7471", "auth.allow_insecure=true"]}


def check(program, *words):
    argv = [program, "--check-config"]
    for word in [*BASE[program], *words]:
        argv += ["--set", word]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("program", [PROXY, AGENT])
@pytest.mark.parametrize("wrong, says", [
    ("rdma.retry_count=7", "rdma.retry_count"), ("rdma.retry_count=0", "rdma.retry_count"),
    ("rdma.ack_timeout=32", "rdma.ack_timeout"), ("rdma.port=256", "rdma.port"),
    ("rdma.device=mlx5_0/1", "no name of an RDMA device"), ("rdma.device=" + "x" * 64, "63 characters"),
    ("remote.depth=0", "remote.depth"), ("rdma.gid_index=3", "rdma.gid_index")])
def test_what_rdma_cannot_do_is_refused_with_a_sentence(program, wrong, says):
    done = check(program, wrong)
    assert done.returncode == 2 and says in done.stderr, done


@pytest.mark.parametrize("program, own", [
    (PROXY, ["rdma.probe_ms=500", "remote.depth=1024"]),
    (AGENT, ["rdma.read_bytes=16KiB", "rdma.traffic_class=104", "remote.depth=64", "poll.ahead=off"])])
def test_what_rdma_can_do_is_taken(program, own):
    done = check(program, "rdma.device=mlx5_0", "rdma.port=2", "rdma.ack_timeout=17",
                 "rdma.retry_count=6", *own)
    assert done.returncode == 0, done


def test_reading_ahead_knows_two_ways_only():
    done = check(AGENT, "poll.ahead=fenced")
    assert done.returncode == 2 and "expected one of free|off" in done.stderr, done


NOWHERE = "rdma://192.0.2.1:7471" # an address that documentation has, and no host


def test_a_device_that_is_not_there_now_does_not_make_a_configuration_wrong():
    done = check(PROXY, f'listen=["tcp://127.0.0.1:0","{NOWHERE}"]')
    assert done.returncode == 0 and "valid" in done.stdout, done
    assert f"at this moment: listen: {NOWHERE}: " in done.stderr and "RDMA" in done.stderr, done


def test_a_proxy_serves_while_one_of_its_listeners_waits(bed):
    """As at boot, when the NIC is up later than the proxy: it says so, in status, metrics and log."""
    primary = bed.server("primary")
    data.fill(primary)
    proxy = bed.proxy(primary, listen=("tcp",), start=False, auth__allow_insecure=True)
    proxy.settings["listen"] = [*proxy.listen.values(), NOWHERE]
    proxy.start()
    agent = bed.agent(proxy, bed.server("replica"), via="tcp")
    agent.wait_warm()
    tcp, rdma = proxy.status()["listeners"]
    assert (tcp["address"], tcp["state"], tcp["reason"]) == (proxy.listen["tcp"], "listening", ""), tcp
    assert (rdma["address"], rdma["state"]) == (NOWHERE, "waiting") and "RDMA" in rdma["reason"], rdma
    wait_for(lambda: proxy.status()["listeners"][1]["attempts"] >= 3, "it is not tried again", 30)
    assert "\nkeywake_proxy_listeners_waiting 1\n" in proxy.ctl_ok("metrics")["text"]
    told = [line for line in proxy.output().splitlines() if "nobody can connect" in line]
    assert len(told) == 1 and NOWHERE in told[0], told


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
@pytest.mark.quick
def test_agents_are_listed_with_their_carrier_and_what_is_known_of_it(bed, carrier):
    pair = bed.pair(fill=data.fill, listen=("shm", "tcp"), via=carrier,
                    proxy={"remote__depth": 12}, agent={"remote__depth": 20})
    pair.settle()
    listed = pair.proxy.ctl_ok("agents")
    assert len(listed) == 1 and set(listed[0]) == LISTED, listed
    agent, status = listed[0], pair.agent.status()
    assert agent["carrier"] == carrier and agent["peer"] and agent["device"] == ""
    assert agent["depth"] == status["depth"] == 12, (agent, status["depth"])
    assert status["transport"] == carrier and status["device"] == ""
    # One-sided ones the proxy does not see: the agent tells them, each second.
    wait_for(lambda: (pair.proxy.ctl_ok("agents")[0]["bytes"] or 0) > 0, "no bytes are known")
    agent = pair.proxy.ctl_ok("agents")[0]
    assert agent["reads"] > 0
    if carrier == "shm": # over tcp the proxy counts for itself, and more: what is on its way, too
        assert agent["reads"] <= pair.agent.status()["reads"], agent


def test_faults_of_rdma_are_counted_by_kind(bed):
    pair = bed.pair(listen=("shm",), via="shm")
    for daemon, name in ((pair.proxy, "proxy"), (pair.agent, "agent")):
        text = daemon.rpc("metrics")["text"]
        for fault in FAULTS:
            assert f'\nkeywake_{name}_rdma_faults_total{{kind="{fault}"}} 0\n' in text, fault
        assert daemon.status()["rdma_faults"] == {}


@pytest.mark.parametrize("ahead", ["free", "off"])
def test_small_changes_come_with_the_superblock(bed, ahead):
    pair = bed.pair(listen=("shm",), via="shm", agent={"poll__ahead": ahead})
    with pair.primary.client() as client:
        for number in range(50):
            client.set("key", number)
            wait_for(lambda: pair.replica.command("GET", "key") == str(number).encode(),
                     f"change {number} is not there")
    status = pair.agent.status()
    if ahead == "off":
        assert status["reads_ahead"] == 0
    else:
        assert status["reads_ahead_used"] >= 25, status
    pair.settle()


def test_one_that_was_disconnected_comes_back_by_itself(bed):
    pair = bed.pair(fill=data.fill, listen=("tcp",), via="tcp")
    first = pair.proxy.ctl_ok("agents")[0]["id"]
    pair.proxy.ctl_ok("disconnect", first)
    again = pair.proxy.ctl("disconnect", first)
    assert again.returncode == 2 and "agents" in again.stderr, again
    wait_for(lambda: [agent["id"] for agent in pair.proxy.ctl_ok("agents") if agent["id"] != first],
             "the agent does not come back")
    with pair.primary.client() as client:
        client.set("after", 1)
    pair.settle()
