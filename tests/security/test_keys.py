"""
The keys that agents prove: read again by a reload, replaced without a gap, withdrawn at once. A session whose
key still holds goes on reading, and none of them reads the table a second time.
"""
import contextlib
import json
import os
import re
import subprocess
import time

import pytest

from lib import metrics, wire
from lib.compare import assert_equal_now
from lib.daemon import CTL
from lib.process import wait_for
from lib.server import TOP

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
    assert proxy.ctl_ok("config", "reload") == {
        "reloaded": True, "needs_restart": "", "keys": 1, "revoked": 0, "revocations_lifted": 0}
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


PASSWORD, USERS = "the password of a server\n", "user app on >a-password-of-the-app ~* +@all\n"
UNSAFE = pytest.mark.parametrize("mode, owner, sentence", [
    (0o604, 0, "chmod o-rwx"), (0o620, 0, "chmod g-w"), (0o602, 0, "chmod o-rwx"),
    (0o640, 12345, "belongs to user 12345, who could change it: chown root"),
], ids=["read by others", "written by its group", "written by others", "of another user"])


def unsafe(bed, name, text, mode, owner):
    if owner and os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    path = bed.file(name, text, mode)
    if owner:
        os.chown(path, owner, owner)
    return path


def does_not_start(daemon, key, sentence):
    daemon.start(wait=False)
    assert daemon.wait_exit() == 2
    assert key in daemon.output() and sentence in daemon.output(), daemon.output()


@UNSAFE
@pytest.mark.quick
def test_password_files_that_others_can_change_are_refused(bed, mode, owner, sentence):
    """Whoever writes one decides at which server a daemon logs in, or that it does not."""
    primary = bed.server("primary")
    proxy, path = bed.proxy(primary), unsafe(bed, "password", PASSWORD, mode, owner)
    does_not_start(bed.proxy(primary, name="another", start=False, redis__password_file=path),
                   "redis.password_file", sentence)
    does_not_start(bed.agent(proxy, bed.server("replica"), start=False, redis__password_file=path),
                   "redis.password_file", sentence)
    does_not_start(bed.agent(proxy, bed.server("led"), name="leads", start=False, apply__mode="replica",
                             apply__consent=True, apply__replica__masterauth_file=path),
                   "apply.replica.masterauth_file", sentence)
    does_not_start(bed.gateway(proxy, start=False, gateway__forward=True, redis__address=primary.address,
                               redis__password_file=path), "redis.password_file", sentence)
    # Nor at a reload, which changes nothing then.
    safe = bed.proxy(primary, name="safe", redis__password_file=bed.file("safe", PASSWORD))
    unsafe(bed, "safe", PASSWORD, mode, owner)
    done = safe.ctl("config", "reload")
    assert done.returncode == 2 and sentence in done.stderr, done


@UNSAFE
@pytest.mark.quick
def test_a_file_of_users_that_others_can_change_is_refused(bed, mode, owner, sentence):
    """Whoever writes it lets himself in at the gateway."""
    proxy, path = bed.proxy(bed.server("primary")), unsafe(bed, "users", USERS, mode, owner)
    does_not_start(bed.gateway(proxy, start=False, gateway__users_file=path), "gateway.users_file", sentence)
    gateway = bed.gateway(proxy, name="safe", gateway__users_file=bed.file("safe", USERS))
    unsafe(bed, "safe", USERS.replace("app", "eve"), mode, owner)
    done = gateway.ctl("config", "reload")
    assert done.returncode == 2 and sentence in done.stderr, done
    # What was there counts on.
    client = gateway.client(username="app", password="a-password-of-the-app")
    assert client.ping()


# ---- keys with ids ----

def digits(number):
    return f"{number:02x}" * 32


def line(key, number, rules=""):
    return f"key {key} {digits(number)} {rules}\n"


def keyed(bed, lines, names, carrier="shm"):
    """A proxy with a file of keys, and an agent for each name that proves the key of that id."""
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, listen=("shm", "tcp"), auth__secret_file="",
                      auth__keys_file=bed.file("keys", "".join(lines)))
    made = [bed.agent(proxy, bed.server(f"replica-{name}"), name=name, via=carrier, auth__key_id=name,
                      auth__secret_file=bed.file(f"{name}.secret", digits(number) + "\n"))
            for name, number in names.items()]
    for agent in made:
        agent.wait_warm()
    return primary, proxy, made


def refused(agent, words="unknown"):
    agent.wait_status(lambda status: words in status["reason"], f"it is not refused: {words}")


@pytest.mark.quick
@pytest.mark.parametrize("way", ["revoked", "withdrawn"])
def test_who_reads_on_after_its_key_was_withdrawn_gets_no_byte(bed, way):
    """It does not mind what the proxy says, and asks again and again over the connection that it has."""
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, listen=("tcp",), auth__secret_file="",
                      auth__keys_file=bed.file("keys", line("edge-1", 1) + line("edge-2", 2)))
    proxy.wait_live()
    address = proxy.listen["tcp"]
    claims = wire.Claims("attacker", bytes.fromhex(digits(1)), key_id="edge-1")
    with wire.prove(wire.dial(address), address, claims, wire.VERSIONS[3]) as joined:
        assert b"session:7" in joined.everything()
        if way == "revoked":
            proxy.ctl_ok("agents", "revoke", "edge-1")
        else:
            bed.file("keys", line("edge-2", 2))
            assert proxy.ctl_ok("config", "reload")["revoked"] == 1
        got = b""
        with contextlib.suppress(OSError, wire.Ended):
            for _ in range(50):
                joined.ask(0, 128)
            while more := joined.connection.recv(65536):
                got += more
        # A farewell at most, which has the length of a reply's header.
        assert len(got) <= wire.REPLY.size, got


@carriers()
@pytest.mark.quick
def test_a_withdrawn_key_ends_its_session_at_once_and_no_other(bed, carrier):
    lines = [line("edge-1", 1), line("edge-2", 2)]
    primary, proxy, (first, second) = keyed(bed, lines, {"edge-1": 1, "edge-2": 2}, carrier)
    before = sessions(proxy)
    assert {name: (session["key"], session["role"]) for name, session in before.items()} == {
        "edge-1": ("edge-1", "agent"), "edge-2": ("edge-2", "agent")}
    bed.file("keys", lines[1])
    answer = proxy.ctl_ok("config", "reload")
    assert (answer["keys"], answer["revoked"]) == (1, 1)
    assert list(sessions(proxy)) == ["edge-2"]
    refused(first)
    primary.command("SET", "written", "after")
    second.wait_warm()
    assert_equal_now(primary, second.replica)
    assert sessions(proxy)["edge-2"]["id"] == before["edge-2"]["id"]
    assert second.status()["snapshots"] == 1 and second.status()["reconnects"] == 1
    assert first.replica.command("EXISTS", "written") == 0
    bed.file("keys", "".join(lines))
    assert proxy.ctl_ok("config", "reload")["revoked"] == 0
    first.wait_warm()
    assert first.status()["snapshots"] == 1


SOON_S = 8 # until a key expires, and longer than what is asked before that takes


def moment(seconds):
    """So many seconds from now, as a line of a key says it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def expiries(proxy):
    text = proxy.ctl_ok("metrics")["text"]
    return {dict(labels)["id"]: at for (name, labels), at in metrics.read(text).items()
            if name == "keywake_key_expires_timestamp_seconds"}


@carriers()
def test_a_key_that_expires_ends_its_session_and_no_other(bed, carrier):
    """The date is announced in the metrics. A line gets it while its agent is connected, which disturbs nothing."""
    lines = [line("edge-1", 1), line("edge-2", 2)]
    primary, proxy, (first, second) = keyed(bed, lines, {"edge-1": 1, "edge-2": 2}, carrier)
    before = sessions(proxy)
    assert not expiries(proxy)
    at = moment(SOON_S)
    bed.file("keys", line("edge-1", 1, f"expires={at}") + lines[1])
    assert proxy.ctl_ok("config", "reload")["revoked"] == 0
    told = expiries(proxy)
    assert list(told) == ["edge-1"] and abs(told["edge-1"] - time.time()) < 60, told
    refused(first)
    assert moment(0) >= at
    wait_for(lambda: "1 lines of auth.keys_file have expired" in proxy.output(), "the log does not tell of it")
    primary.command("SET", "written", "after")
    second.wait_warm()
    assert sessions(proxy)["edge-2"]["id"] == before["edge-2"]["id"]
    assert list(sessions(proxy)) == ["edge-2"] and first.replica.command("EXISTS", "written") == 0
    assert expiries(proxy) == told


def test_an_old_secret_expires_beside_the_new_one(bed):
    """The gapless way without a second edit: the old line says itself when it ends."""
    old, new = line("edge-1", 1), line("edge-1", 3)
    primary, proxy, (agent,) = keyed(bed, [old], {"edge-1": 1})
    bed.file("keys", line("edge-1", 1, f"expires={moment(SOON_S)}") + new)
    assert proxy.ctl_ok("config", "reload")["revoked"] == 0
    assert not expiries(proxy), "the id goes on"
    bed.file("edge-1.secret", digits(3) + "\n")
    agent.ctl_ok("config", "reload")
    wait_for(lambda: "1 lines of auth.keys_file have expired" in proxy.output(), "the log does not tell of it")
    primary.command("SET", "written", "after")
    agent.wait_warm()
    assert agent.status()["snapshots"] == 1
    assert_equal_now(primary, agent.replica)


def test_an_expired_key_is_refused_from_the_start(bed):
    """A check of the configuration says so, and doctor does."""
    lines = line("edge-1", 1, "expires=2020-02-29") + line("edge-2", 2, f"expires={moment(3600)}")
    proxy = bed.proxy(bed.server("primary"), auth__secret_file="", auth__keys_file=bed.file("keys", lines))
    agent = bed.agent(proxy, bed.server("replica"), name="edge-1", auth__key_id="edge-1",
                      auth__secret_file=bed.file("edge-1.secret", digits(1) + "\n"))
    refused(agent)
    assert set(expiries(proxy)) == {"edge-1", "edge-2"}
    done = subprocess.run([*proxy.argv, "--check-config"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "the key edge-1 expired" in done.stderr and "edge-2" not in done.stderr, done
    found = {finding["check"]: finding for finding in json.loads(proxy.ctl("doctor").stdout)["findings"]}
    assert [found[f"key: {key}"]["severity"] for key in ("edge-1", "edge-2")] == ["wrong", "warning"], found
    assert all("a new secret" in found[f"key: {key}"]["remedy"] for key in ("edge-1", "edge-2")), found


@carriers()
@pytest.mark.quick
def test_rotation_without_a_second_snapshot(bed, carrier):
    """No agent reads the table again, and the one whose key stays does not even connect again."""
    old, new, other = line("edge-1", 1), line("edge-1", 3), line("edge-2", 2)
    primary, proxy, (first, second) = keyed(bed, [old, other], {"edge-1": 1, "edge-2": 2}, carrier)
    bed.file("keys", old + new + other)
    answer = proxy.ctl_ok("config", "reload")
    assert (answer["keys"], answer["revoked"]) == (3, 0)
    bed.file("edge-1.secret", digits(3))
    before = sessions(proxy)["edge-1"]["id"]
    first.ctl_ok("config", "reload")
    wait_for(lambda: sessions(proxy).get("edge-1", {"id": before})["id"] != before,
             lambda: f"it does not connect again: {sessions(proxy)}", 30)
    bed.file("keys", new + other)
    answer = proxy.ctl_ok("config", "reload")
    assert (answer["keys"], answer["revoked"]) == (2, 0)
    primary.command("SET", "written", "after")
    for agent in (first, second):
        agent.wait_warm()
        assert agent.status()["snapshots"] == 1
        assert_equal_now(primary, agent.replica)
    assert second.status()["reconnects"] == 1


@pytest.mark.quick
def test_a_revoked_id_is_refused_until_the_next_reload(bed):
    lines = [line("edge-1", 1), line("edge-2", 2)]
    _, proxy, (first, second) = keyed(bed, lines, {"edge-1": 1, "edge-2": 2})
    before = sessions(proxy)["edge-2"]["id"]
    answer = proxy.ctl_ok("agents", "revoke", "edge-1")
    assert (answer["keys"], answer["sessions"], answer["names_refused"]) == (1, 1, 0), answer
    refused(first)
    assert sessions(proxy)["edge-2"]["id"] == before
    for wrong in ("edge-3", "edge 1", ""):
        done = proxy.ctl("agents", "revoke", wrong)
        assert done.returncode == 2 and "no key has that id" in done.stderr, done
    assert proxy.ctl_ok("config", "reload")["revocations_lifted"] == 1
    first.wait_warm()
    assert first.status()["snapshots"] == 1 and second.status()["reconnects"] == 1


def test_a_key_with_other_rules_comes_back_under_these(bed):
    _, proxy, (agent,) = keyed(bed, [line("edge-1", 1)], {"edge-1": 1})
    bed.file("keys", line("edge-1", 1, "role=agent carriers=shm sessions=2"))
    assert proxy.ctl_ok("config", "reload")["revoked"] == 1
    agent.wait_status(lambda status: status["state"] == "warm" and status["reconnects"] > 1, "it does not come back")
    assert agent.status()["snapshots"] == 1


@pytest.mark.parametrize("rules, via, words", [
    ("carriers=tcp", "shm", "not allow this carrier"),
    ("role=gateway", "shm", "not allow this carrier"),
    ("sessions=1", "shm", "sessions"),
    ("databases=0", "shm", "one proxy for each scope"),
    ("prefix=session:", "shm", "one proxy for each scope"),
    ("prefix=session:", "tcp", "set filter.databases and filter.prefixes"),
])
def test_a_key_is_refused_beyond_its_rules(bed, rules, via, words):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, listen=("shm", "tcp"), auth__secret_file="",
                      auth__keys_file=bed.file("keys", line("edge-1", 1, rules)))
    key = {"auth__key_id": "edge-1", "auth__secret_file": bed.file("secret", digits(1))}
    if rules == "sessions=1":
        bed.agent(proxy, bed.server("first"), name="first", via=via, **key).wait_warm()
    agent = bed.agent(proxy, bed.server("replica"), via=via, **key)
    refused(agent, words)
    assert agent.replica.command("DBSIZE") == 0


@pytest.mark.parametrize("key, number", [("edge-1", 2), ("edge-2", 1), ("nobody", 1), ("", 1)])
def test_an_id_and_its_secret_belong_together(bed, key, number):
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, auth__secret_file="",
                      auth__keys_file=bed.file("keys", line("edge-1", 1) + line("edge-2", 2)))
    agent = bed.agent(proxy, bed.server("replica"), auth__key_id=key,
                      auth__secret_file=bed.file("secret", digits(number)))
    refused(agent, "unknown secret")
    assert agent.replica.command("DBSIZE") == 0


def test_a_gateway_and_an_agent_with_one_secret_stand_beside_each_other(bed):
    """Both files count: the secret without an id, and the keys."""
    primary = bed.server("primary")
    fill(primary)
    proxy = bed.proxy(primary, auth__secret_file=bed.file("secret", OLD),
                      auth__keys_file=bed.file("keys", line("gw", 1, "role=gateway")))
    agent = bed.agent(proxy, bed.server("replica"), auth__secret_file=bed.file("agent.secret", OLD))
    gateway = bed.gateway(proxy, auth__key_id="gw", auth__secret_file=bed.file("gateway.secret", digits(1)))
    agent.wait_warm()
    gateway.wait_serving()
    assert {session["key"]: session["role"] for session in proxy.rpc("agents.list")} == {"": "agent", "gw": "gateway"}


@pytest.mark.parametrize("text, mode, sentence", [
    (line("edge-1", 1) + "key edge-2 abc\n", 0o600, "line 2: the secret of a key is 32 to 128 hexadecimal digits"),
    (line("edge-1", 1, "database=0"), 0o600, "line 1: word 4: no such rule: known are databases="),
    ("", 0o600, "is empty: a line of it is"),
    (line("edge-1", 1), 0o644, "chmod o-rwx"),
    (line("edge-1", 1), 0o660, "chmod g-w"),
])
@pytest.mark.quick
def test_a_file_of_keys_that_is_not_valid_is_refused(bed, text, mode, sentence):
    """At the start with status 2; at a reload it changes nothing."""
    _, running, (agent,) = keyed(bed, [line("edge-1", 1)], {"edge-1": 1})
    path = bed.file("keys", text, mode)
    starting = bed.proxy(bed.servers[0], name="starting", start=False, auth__keys_file=path)
    starting.start(wait=False)
    assert starting.wait_exit() == 2
    assert sentence in starting.output() and path in starting.output(), starting.output()
    done = running.ctl("config", "reload")
    assert done.returncode != 0 and sentence in done.stderr and "stay as they were" in done.stderr, done.stderr
    assert agent.status()["reconnects"] == 1


def test_an_id_needs_a_file_of_digits(bed):
    proxy = bed.proxy(bed.server("primary"))
    for settings, sentence in (({"auth__secret_file": ""}, "has no secret"),
                               ({"auth__secret_file": bed.file("words", OLD)}, "must hold the digits of the key"),
                               ({"auth__key_id": "a b", "auth__secret_file": ""}, "the id of a key is 1 to 32")):
        agent = bed.agent(proxy, bed.server("replica"), start=False, **{"auth__key_id": "edge-1", **settings})
        agent.start(wait=False)
        assert agent.wait_exit() == 2
        assert sentence in agent.output(), agent.output()
        bed.servers.pop().kill()
        bed.daemons.pop()


def page(heading):
    """The commands below a heading of security.md."""
    with open(os.path.join(TOP, "deploy", "doc", "security.md"), encoding="utf-8") as stream:
        section = stream.read().split(f"### {heading}\n")[1]
    return section.split("```sh\n")[1].split("```")[0]


def follow(commands, proxy, agent, folder):
    """Run them with the bed's files and sockets; the answers of keywakectl."""
    for name, path in (("/etc/keywake/", folder + "/"), (" -s P ", f" -s {proxy.control} "),
                       (" -s A ", f" -s {agent.control} ")):
        assert name in commands or name == " -s A "
        commands = commands.replace(name, path)
    done = subprocess.run(["sh", "-e"], input=commands, capture_output=True, text=True, check=True, timeout=120,
                          env={**os.environ, "PATH": os.path.dirname(CTL) + ":" + os.environ["PATH"]})
    return [int(number) for number in re.findall(r'"revoked":\s*(\d+)', done.stdout)]


def test_the_page_says_how(bed):
    """The commands of deploy/doc/security.md, as they stand there."""
    _, proxy, (first, second) = keyed(bed, [line("edge-1", 1), line("edge-2", 2)], {"edge-1": 1, "edge-2": 2})
    revoked = follow(page("Replace a secret without a gap"), proxy, first, bed.directory)
    assert revoked[0] == 0 and revoked[1] <= 1, revoked
    with open(os.path.join(bed.directory, "keys"), encoding="ascii") as stream:
        lines = stream.read().splitlines()
    assert len(lines) == 2 and digits(1) not in "".join(lines), lines
    first.wait_status(lambda status: status["state"] == "warm" and status["reconnects"] > 1, "it is not back")
    assert first.status()["snapshots"] == 1
    follow(page("Revoke an agent"), proxy, first, bed.directory)
    refused(first)
    assert list(sessions(proxy)) == ["edge-2"]
    assert second.status()["reconnects"] == 1
