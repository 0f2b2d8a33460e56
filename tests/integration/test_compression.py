"""remote.compression on the real daemons: who grants it, what travels, and that the replica is the same."""
import random

import pytest

from lib.process import wait_for
from lib.tls import Authority

pytestmark = pytest.mark.sanitize

KEYS = 20_000


def fill_records(server):
    """What applications keep: records whose fields have the same names."""
    with server.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(KEYS):
            pipe.set(f"session:{number}", f'{{"user":"user-{number}","name":"A name of {number}","roles":["reader"],'
                     f'"created":"2026-01-01T00:00:{number % 60:02}Z","active":true}}')
        pipe.execute()


def files(authority, name, san):
    cert, key = authority.issue(name, san=san)
    return {"tls__ca": authority.ca, "tls__cert": cert, "tls__key": key}


def begin(bed, carrier, proxy=None, **agent):
    ends = ({}, {})
    if carrier == "tcp+tls":
        authority = Authority(bed.directory)
        ends = (files(authority, "proxy", "DNS:localhost,IP:127.0.0.1"), files(authority, "agent", "URI:keywake:agent"))
    pair = bed.pair(fill=fill_records, listen=(carrier,), via=carrier, proxy={**ends[0], **(proxy or {})},
                    agent={**ends[1], **agent})
    pair.settle()
    return pair


def session(pair):
    [listed] = pair.proxy.ctl_ok("agents")
    return listed


@pytest.mark.parametrize("carrier", ["tcp", "tcp+tls"])
@pytest.mark.parametrize("level", [1, 3])
@pytest.mark.quick
def test_a_replica_is_equal_and_far_fewer_bytes_travel(bed, carrier, level):
    pair = begin(bed, carrier, {"remote__compression_level": level}, remote__compression="zstd")
    status, listed = pair.agent.status(), session(pair)
    assert (status["compression"], status["compression_reason"]) == ("zstd", "")
    assert listed["compression"] == "zstd" and listed["carrier"] == carrier
    assert status["snapshots"] == 1 and status["corruptions"] == 0, status
    assert 0 < status["wire_bytes"] < status["bytes_read"] / 3, status
    assert 0 < listed["wire_bytes"] < listed["bytes"] / 3, listed
    # The tail, too: what is changed, deleted and added; a value in many blocks, and one that does not shrink.
    with pair.primary.client() as client:
        client.set("large", "the same again, " * 100_000)
        client.set("noise", random.Random(1).randbytes(300_000))
        client.execute_command("SETBIT", "sparse", 1 << 23, 1)
        client.delete(*[f"session:{number}" for number in range(0, KEYS, 7)])
    pair.settle()
    assert pair.agent.ctl("verify").returncode == 0
    text = pair.agent.rpc("metrics")["text"]
    assert "\nkeywake_agent_wire_bytes_total " in text
    text = pair.proxy.rpc("metrics")["text"]
    assert f'\nkeywake_proxy_agent_wire_bytes_total{{agent="{pair.agent.status()["name"]}"' in text


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_without_it_all_is_as_it_was(bed, carrier):
    pair = begin(bed, carrier, remote__compression="zstd" if carrier == "shm" else "none")
    status, listed = pair.agent.status(), session(pair)
    assert (status["compression"], status["compression_reason"], listed["compression"]) == ("none", "", "none")
    if carrier == "shm":
        assert status["wire_bytes"] == 0 and listed["wire_bytes"] is None
    else:
        assert status["wire_bytes"] > status["bytes_read"] and listed["wire_bytes"] > listed["bytes"]


def test_a_proxy_may_forbid_it_and_the_agent_goes_on(bed):
    pair = begin(bed, "tcp", {"remote__compressed_sessions": 0}, remote__compression="zstd")
    status = pair.agent.status()
    assert status["compression"] == "refused" and "remote.compressed_sessions" in status["compression_reason"], status
    assert status["wire_bytes"] > status["bytes_read"] and session(pair)["compression"] == "none"
    assert pair.agent.output().count("comes without compression") == 1
    # As many as may: with the next connection, and without a copy.
    pair.proxy.ctl_ok("config", "set", "remote.compressed_sessions", "1")
    pair.proxy.rpc("agents.disconnect", id=session(pair)["id"])
    pair.agent.wait_status(lambda status: status["compression"] == "zstd", "it is not asked again")
    pair.settle()
    assert pair.agent.status()["snapshots"] == 1
    second = bed.agent(pair.proxy, bed.server("second"), name="second", via="tcp", remote__compression="zstd")
    second.wait_warm()
    assert "as many sessions as it allows" in second.status()["compression_reason"]


def test_a_part_of_the_table_comes_compressed(bed):
    """What a key with a scope may not see is hidden before it is compressed."""
    primary = bed.server("primary")
    fill_records(primary)
    with primary.client() as client, client.pipeline(transaction=False) as pipe:
        for number in range(2000):
            pipe.set(f"other:{number}", f"of no concern {number}" * 20)
        pipe.execute()
    keys = bed.file("keys", f"key edge {'ab' * 32} prefix=session:\n")
    own = bed.file("own", "ab" * 32 + "\n")
    proxy = bed.proxy(primary, listen=("tcp",), auth__secret_file="", auth__keys_file=keys)
    agent = bed.agent(proxy, bed.server("replica"), via="tcp", remote__compression="zstd", auth__key_id="edge",
                      auth__secret_file=own, filter__prefixes=["session:"])
    agent.wait_warm()
    status = agent.status()
    assert status["compression"] == "zstd" and status["wire_bytes"] < status["bytes_read"] / 3, status
    assert agent.replica.command("DBSIZE") == KEYS
    assert agent.replica.command("GET", "session:77") == primary.command("GET", "session:77")
    primary.command("SET", "session:new", "1")
    wait_for(lambda: agent.replica.command("GET", "session:new") == b"1", "a change does not come")


def test_a_gateway_says_so_too(bed):
    primary = bed.server("primary")
    fill_records(primary)
    proxy = bed.proxy(primary, listen=("tcp",))
    gateway = bed.gateway(proxy, via="tcp", remote__compression="zstd", gateway__max_staleness_ms=60_000)
    gateway.wait_fresh()
    with gateway.client() as client:
        assert client.get("session:7") == primary.command("GET", "session:7")
    status = gateway.status()
    assert status["compression"] == "zstd" and status["wire_bytes"] > 0, status
