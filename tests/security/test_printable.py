"""What servers, agents and files say reaches neither a terminal nor a log unescaped."""
import json
import os
import pty
import select
import socket
import subprocess
import unicodedata

import pytest

from lib import wire
from lib.daemon import CTL
from lib.liar import Liar
from lib.process import SLOW, wait_for
from lib.resp import Raw

# ESC, CSI of C1, an override of direction, a zero width space, a byte order mark, DEL, BEL, and no UTF-8
EVIL = (b"\x1b[2J\xc2\x9b31m\xe2\x80\xae\xe2\x80\x8b\xef\xbb\xbf\x7f\x07\xff\xc0\xaf\xed\xa0\x80")
HIDDEN = {"Cc", "Cf", "Cs", "Zl", "Zp"} # of Unicode: controls, formats, surrogates, separators
TERMINAL = dict(os.environ, NO_COLOR="1", TERM="dumb", LC_ALL="C.UTF-8", COLUMNS="200")

pytestmark = pytest.mark.quick


def dirt(text):
    """What of these bytes may not reach a person."""
    text = text.decode("utf-8", "surrogateescape")
    return sorted({f"U+{ord(character):04X}" for character in text
                   if character not in "\r\n" and unicodedata.category(character) in HIDDEN})


def log_of(daemon):
    with open(daemon.log, "rb") as stream:
        return stream.read()


def on_a_terminal(daemon, *words):
    """What keywakectl writes to a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([CTL, "-s", daemon.control, *words], stdin=subprocess.DEVNULL, stdout=theirs,
                          stderr=theirs, env=TERMINAL) as ctl:
        os.close(theirs)
        shown = b""
        while select.select([ours], [], [], 20 * SLOW)[0]:
            try:
                shown += os.read(ours, 65536)
            except OSError: # it has ended
                break
        ctl.wait(20)
    os.close(ours)
    return shown


class Notified:
    """A service manager: what a daemon tells it."""

    def __init__(self, directory, daemon):
        self.path = os.path.join(directory, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.socket.setblocking(False)
        daemon.env["NOTIFY_SOCKET"] = self.path
        self.told = []

    def hear(self):
        while True:
            try:
                self.told.append(self.socket.recv(65536))
            except BlockingIOError:
                return self.told


def evil_server(directory):
    return Liar(os.path.join(directory, "liar"), {
        name: b"-ERR evil " + EVIL + b"words\r\n"
        for name in (b"AUTH", b"HELLO", b"INFO", b"CLIENT", b"CONFIG", b"TIME")})


def daemon_of(bed, which, server):
    if which == "proxy":
        return bed.proxy(server, start=False)
    return bed.agent(bed.proxy(bed.server("primary"), listen=("shm",)), server, start=False)


@pytest.mark.parametrize("which", ["proxy", "agent"])
def test_words_of_a_server_are_shown_as_bytes(bed, which):
    with evil_server(bed.directory) as server:
        daemon = daemon_of(bed, which, server)
        manager = Notified(bed.directory, daemon)
        daemon.start()
        daemon.wait_status(lambda status: "evil" in status.get("reason", ""), "the words are not its reason")
        wait_for(lambda: b"evil" in log_of(daemon), "the words are not in the log")
        assert dirt(log_of(daemon)) == []
        for words in (["status"], ["--json", "status"], ["metrics"], ["--json", "metrics"]):
            shown = on_a_terminal(daemon, *words)
            assert shown and dirt(shown) == [], (words, shown)
        wait_for(lambda: b"evil" in on_a_terminal(daemon, "--json", "status"), "the words are not shown")
        wait_for(lambda: any(b"evil" in told for told in manager.hear()), "the service manager heard nothing")
        assert [told for told in manager.told if dirt(told)] == []
        assert json.loads(daemon.ctl("status").stdout)["reason"], "in a pipe it is JSON as ever"


def test_words_of_a_server_behind_a_gateway_are_shown_as_bytes(bed):
    """It forwards to a server that refuses its login: log, status, metrics and the page for Prometheus."""
    primary = bed.server("primary")
    primary.command("SET", b"key" + EVIL, b"value" + EVIL)
    with evil_server(bed.directory) as server:
        gateway = bed.gateway(bed.proxy(primary), gateway__forward=True, redis__address=server.address,
                              redis__password_file=bed.file("password", "a password"), log__level="debug")
        gateway.wait_serving()
        with Raw(gateway.socket) as client:
            assert client.ask("SET", "k", "v").startswith(b"-")
            wait_for(lambda: "evil" in gateway.status()["forward"], lambda: gateway.status())
        for words in (["status"], ["--json", "status"], ["metrics"], ["--json", "metrics"], ["top", "--once"]):
            shown = on_a_terminal(gateway, *words)
            assert shown and dirt(shown) == [], (words, shown)
        assert b"evil" in on_a_terminal(gateway, "--json", "status")
        assert "evil" in json.loads(gateway.ctl("status").stdout)["forward"], "in a pipe it is JSON as ever"
    assert dirt(log_of(gateway)) == []


def test_hostile_names_at_a_gateway_are_shown_as_bytes(bed):
    """Of keys, clients and users, of a gateway and its proxy: none steers a terminal, or begins a line of the log."""
    primary = bed.server("primary")
    hostile = b"name" + EVIL + b"\nforged"
    primary.command("SET", hostile, b"v")
    proxy = bed.proxy(primary, name="proxy")
    users = "user default on nopass ~* &* +@all\n"
    gateway = bed.gateway(proxy, gateway__users_file=bed.file("users", users), log__level="debug")
    gateway.wait_fresh()
    with Raw(gateway.socket) as client:
        assert client.ask("GET", hostile) == b"$1\r\nv\r\n"
        for words in (["CLIENT", "SETNAME", hostile], ["AUTH", hostile, hostile], ["HELLO", "3", "SETNAME", hostile],
                      ["CLIENT", "SETINFO", "lib-name", hostile], [hostile, hostile], ["OBJECT", hostile]):
            assert client.ask(*words).startswith(b"-"), words
        for words in (["status"], ["--json", "status"], ["metrics"], ["top", "--once"]):
            assert dirt(on_a_terminal(gateway, *words)) == [], words
    # Two lines for one user: the sentence names it, on the terminal and in the log.
    twice = "user eve\x1b[2J\x9b\u202e on >a-password-of-eve ~* +@all\n" * 2
    bed.file("users", twice)
    shown = on_a_terminal(gateway, "config", "reload")
    assert b"there are two lines for the user" in shown and dirt(shown) == [], shown
    wait_for(lambda: b"there are two lines for the user" in log_of(gateway), "the log does not say it")
    assert dirt(log_of(gateway)) == [] and dirt(log_of(proxy)) == []
    assert not [line for line in log_of(gateway).split(b"\n") if line.startswith(b"forged")]


def test_the_state_of_an_agent_is_shown_as_bytes(bed):
    proxy = bed.proxy(bed.server("primary"), listen=("shm",))
    for state in (b"\xc2\x9b31mwarm", b"\x1b[2J", b"\xff\xfe"):
        try:
            with wire.join(proxy.listen["shm"], name="evil") as joined:
                joined.report(state)
                wait_for(lambda: all(agent["state"] != "joining" for agent in proxy.ctl_ok("agents")),
                         "the report did not arrive")
                for words in (["agents"], ["--json", "agents"], ["status"]):
                    assert dirt(on_a_terminal(proxy, *words)) == []
        except wire.Refused:
            pytest.skip("this proxy lets in whom it knows only")
    assert dirt(log_of(proxy)) == []


def test_a_name_of_an_agent_begins_no_line(bed):
    """The name is part of the log's lines; it is refused, and the refusal does not repeat it raw."""
    proxy = bed.proxy(bed.server("primary"), listen=("shm",))
    version = wire.spoken_by(proxy.listen["shm"])
    for name in ("a\nforged", "a\x1b[2J", "a\u202e", "a\x7f"):
        with wire.dial(proxy.listen["shm"]) as connection:
            try:
                wire.prove(connection, proxy.listen["shm"], wire.Claims(name), version).close()
                raise AssertionError(f"let in: {name!r}")
            except (wire.Refused, wire.Ended):
                pass
    assert dirt(log_of(proxy)) == []
    assert not [line for line in log_of(proxy).split(b"\n") if line.startswith(b"forged")]


@pytest.mark.parametrize("group, status", [("redis", 2), ("later", 0)])
def test_words_of_a_file_are_shown_as_bytes(bed, group, status):
    """A configuration is checked before it is trusted. A name that is not known is refused, or passed over."""
    proxy = bed.proxy(bed.server("primary"), start=False)
    settings = {"redis": {"address": "unix:///\x1b[2J\x9b\u202e\n"}}
    settings.setdefault(group, {})["li\u202este"] = 1
    path = bed.file("config", json.dumps(settings, ensure_ascii=False))
    done = subprocess.run([proxy.program, "--config", path, "--check-config"], capture_output=True, check=False)
    assert done.returncode == status and dirt(done.stderr + done.stdout) == [], done.stderr
    assert b"li\\xe2\\x80\\xaeste" in done.stderr or b"later" in done.stderr, done.stderr
    assert done.stderr.count(b"\n") == 1
