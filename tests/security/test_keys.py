"""
The keys that agents prove: read again by a reload, replaced without a gap, withdrawn at once. A session whose
key still holds goes on reading, and none of them reads the table a second time.
"""
import os

import pytest

from lib.compare import assert_equal_now
from lib.process import wait_for

OLD, NEW = "the secret that was\n", "the secret that will be\n"


def fill(primary):
    for number in range(200):
        primary.command("SET", f"session:{number}", f"value {number}")


def sessions(proxy):
    """The agents that are connected, by name."""
    return {session["name"]: session for session in proxy.rpc("agents.list")}


def carriers(*names):
    return pytest.mark.parametrize("carrier", names or ("shm", "tcp"))


def one_secret(bed, carrier, text=OLD, agents=1):
    """A proxy and its agents, each with a file of its own that has the one secret."""
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, listen=(carrier,), auth__secret_file=bed.file("proxy.secret", text))
    made = [bed.agent(proxy, bed.server(f"replica-{number}"), name=f"agent-{number}", via=carrier,
                      auth__secret_file=bed.file(f"agent-{number}.secret", text)) for number in range(agents)]
    for agent in made:
        agent.wait_warm()
    return primary, proxy, made


@carriers()
@pytest.mark.quick
def test_a_reload_takes_up_a_new_secret(bed, carrier):
    """Who has only the old one is out at once, and comes back with the new one by a reload of its own."""
    primary, proxy, (agent,) = one_secret(bed, carrier)
    assert proxy.ctl_ok("config", "reload") == {"reloaded": True, "needs_restart": "", "keys": 1, "revoked": 0}
    bed.file("proxy.secret", NEW)
    answer = proxy.ctl_ok("config", "reload")
    assert (answer["reloaded"], answer["keys"], answer["revoked"]) == (True, 1, 1), answer
    agent.wait_status(lambda status: "unknown secret" in status["reason"], "it is not refused")
    assert not sessions(proxy)
    primary.command("SET", "written", "meanwhile")
    bed.file("agent-0.secret", NEW)
    agent.ctl_ok("config", "reload")
    agent.wait_warm()
    assert_equal_now(primary, agent.replica)
    assert agent.status()["snapshots"] == 1
    assert OLD.strip() not in proxy.output() + agent.output()
    assert NEW.strip() not in proxy.output() + agent.output()


def test_an_agent_that_waited_with_another_secret_comes_in_by_a_reload(bed):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, auth__secret_file=bed.file("proxy.secret", NEW))
    agent = bed.agent(proxy, bed.server("replica"), auth__secret_file=bed.file("agent.secret", OLD))
    agent.wait_status(lambda status: "unknown secret" in status["reason"], "it is not refused")
    bed.file("agent.secret", NEW)
    agent.ctl_ok("config", "reload")
    agent.wait_warm()


def test_a_gateway_takes_up_a_new_secret(bed):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, auth__secret_file=bed.file("proxy.secret", OLD))
    gateway = bed.gateway(proxy, auth__secret_file=bed.file("gateway.secret", OLD), gateway__max_staleness_ms=60_000)
    gateway.wait_serving()
    bed.file("gateway.secret", NEW)
    bed.file("proxy.secret", NEW)
    assert proxy.ctl_ok("config", "reload")["revoked"] == 1
    gateway.ctl_ok("config", "reload")
    gateway.wait_fresh()
    with gateway.client() as client:
        assert client.get("session:7") == b"value 7"


@pytest.mark.quick
def test_a_file_that_is_not_valid_changes_nothing(bed):
    """Parsed first and changed after: sessions stay, and the next agent still comes in with the old secret."""
    primary, proxy, (agent,) = one_secret(bed, "shm")
    before = sessions(proxy)["agent-0"]["id"]
    path = proxy.settings["auth.secret_file"]
    for text, mode, sentence in (("short\n", 0o600, "at least 16"), ("\n", 0o600, "empty"),
                                 (NEW, 0o644, "chmod o-rwx"), (NEW, 0o660, "chmod g-w")):
        bed.file("proxy.secret", text, mode)
        done = proxy.ctl("config", "reload")
        assert done.returncode != 0
        assert sentence in done.stderr and "stay as they were" in done.stderr and path in done.stderr, done.stderr
    os.chmod(path, 0o600)
    assert sessions(proxy)["agent-0"]["id"] == before
    newcomer = bed.agent(proxy, bed.server("another"), name="newcomer", auth__secret_file=bed.file("old", OLD))
    newcomer.wait_warm()
    bed.file("agent-0.secret", "short\n")
    done = agent.ctl("config", "reload")
    assert done.returncode != 0 and "at least 16" in done.stderr
    primary.command("SET", "still", "read")
    agent.wait_warm()
    assert sessions(proxy)["agent-0"]["id"] == before


@pytest.mark.parametrize("text, mode, owner, sentence", [
    ("short", 0o600, 0, "has 5 bytes, and a secret has at least 16: make one by openssl rand -hex 32"),
    (OLD, 0o604, 0, "chmod o-rwx"),
    (OLD, 0o620, 0, "chmod g-w"),
    (OLD, 0o640, 12345, "belongs to user 12345, who could change it: chown root"),
    (OLD, 0o640, 0, None),
    (OLD, 0o400, 0, None),
], ids=["short", "others", "group", "owner", "0640", "0400"])
@pytest.mark.quick
def test_short_open_and_foreign_files_are_refused(bed, text, mode, owner, sentence):
    if owner and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = bed.file("secret", text, mode)
    if owner:
        os.chown(path, owner, owner)
    primary = bed.server("primary")
    for daemon in (bed.proxy(primary, start=False, auth__secret_file=path),
                   bed.agent(bed.proxy(primary, name="other"), bed.server("replica"), start=False,
                             auth__secret_file=path)):
        daemon.start(wait=sentence is None)
        if sentence:
            assert daemon.wait_exit() == 2
            assert sentence in daemon.output() and "auth.secret_file" in daemon.output(), daemon.output()
