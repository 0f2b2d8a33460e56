"""Redis clients at the gateway: who they are, what they may do, and what they are told of it."""
import fcntl
import json
import os
import pty
import select
import socket
import struct
import subprocess
import termios

import pytest
import redis

from lib.clients import node_modules
from lib.process import SLOW, wait_for
from lib.resp import Raw
from lib.rpc import RpcError

pytestmark = pytest.mark.sanitize

USERS = """# of the tests
user default off
user reader on >pw ~cache:* %R~orders:* +@read +@connection -keys +info
user all on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* +@all
"""


def fill(primary):
    with primary.client() as client:
        client.set("cache:1", "one")
        client.set("orders:7", "seven")
        client.set("other", "hidden")
        client.hset("cache:h", mapping={"f": "v"})
    with primary.client(db=3) as client:
        client.set("cache:1", "in three")


@pytest.fixture
def proxy(bed):
    primary = bed.server("primary")
    fill(primary)
    return bed.proxy(primary)


@pytest.fixture
def gateway(bed, proxy):
    gateway = bed.gateway(proxy)
    gateway.wait_serving()
    return gateway


@pytest.fixture
def guarded(bed, proxy):
    gateway = bed.gateway(proxy, gateway__users_file=bed.file("users", USERS))
    gateway.wait_serving()
    return gateway


def run(*words, stdin=""):
    return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=60 * SLOW,
                          check=False)


def redis_cli(gateway, *words, stdin=""):
    done = run("redis-cli", "-p", str(gateway.port), *words, stdin=stdin)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("protocol", ["-2", "-3"])
def test_redis_cli_reads_with_either_protocol(gateway, protocol):
    answers = redis_cli(gateway, protocol, stdin="GET cache:1\nHGETALL cache:h\nSELECT 3\nGET cache:1\n"
                        "CLIENT GETNAME\nGET nothing\n")
    fields = ["f", "v"] if protocol == "-2" else ["f v"] # a map
    assert answers == ["one", *fields, "OK", "in three", "", ""]
    assert redis_cli(gateway, protocol, "-n", "3", "GET", "cache:1") == ["in three"]
    assert "role:slave" in redis_cli(gateway, protocol, "INFO", "replication")


def test_redis_cli_logs_in_by_its_options(guarded):
    assert redis_cli(guarded, "--user", "reader", "--pass", "pw", "--no-auth-warning", "GET",
                     "cache:1") == ["one"]
    assert redis_cli(guarded, "GET", "cache:1")[0] == "NOAUTH Authentication required."
    assert redis_cli(guarded, "--user", "reader", "--pass", "no", "--no-auth-warning", "GET",
                     "cache:1")[0] == "NOAUTH Authentication required."


def test_redis_benchmark_gets_what_it_asks_for(gateway):
    done = run("redis-benchmark", "-p", str(gateway.port), "-t", "get", "-n", "2000", "-P", "16", "-q")
    assert done.returncode == 0 and "requests per second" in done.stdout, done.stdout + done.stderr

def test_the_help_of_redis_cli_is_of_what_is_served(gateway):
    keyboard, terminal = pty.openpty() # help is for people only
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 25, 80, 0, 0))
    shell = subprocess.Popen(["redis-cli", "-p", str(gateway.port)], stdin=terminal, stdout=terminal,
                             stderr=terminal)
    os.close(terminal)
    shown = b""
    try:
        while b"> " not in shown: # the prompt: COMMAND DOCS has been answered
            assert select.select([keyboard], [], [], 30 * SLOW)[0], shown
            shown += os.read(keyboard, 65536)
        os.write(keyboard, b"help get\r")
        while b"Answered by keywake-gateway" not in shown:
            assert select.select([keyboard], [], [], 30 * SLOW)[0], shown
            shown += os.read(keyboard, 65536)
        assert shell.poll() is None
    finally:
        shell.kill()
        shell.wait()
        os.close(keyboard)


def test_redis_py_reads_by_name_and_database(gateway):
    with gateway.client(db=3, client_name="me") as client:
        assert client.ping()
        assert client.get("cache:1") == b"in three"
        assert client.client_getname() == "me"
        assert client.client_info()["name"] == "me" and client.client_info()["db"] == 3
        assert client.info("server")["redis_mode"] == "standalone"
        assert client.info()["keywake_state"] == "serving"
        assert client.config_get("databases")
        assert client.command_count() > 50
        with pytest.raises(redis.exceptions.ReadOnlyError):
            client.set("cache:1", "x")
        with pytest.raises(redis.exceptions.ResponseError, match="not served by keywake-gateway"):
            client.publish("channel", "x")


def read_by_node(library, options):
    return run("node", os.path.join(os.path.dirname(__file__), "node", "read.js"), node_modules(), library,
               json.dumps(options))


# What a library takes: without a user and with one, by the unix socket and by TCP.
NODE = {
    "ioredis": ("ioredis", lambda gateway, user: {"path": gateway.socket, "connectionName": "me", **user}),
    "ioredis-tcp": ("ioredis", lambda gateway, user: {"port": gateway.port, **user}),
    "redis-2": ("redis", lambda gateway, user: {"socket": {"path": gateway.socket}, "RESP": 2, **user}),
    "redis-3": ("redis", lambda gateway, user: {"socket": {"port": gateway.port}, "RESP": 3, "name": "me",
                                                **user}),
}


@pytest.mark.parametrize("how", NODE)
def test_clients_of_node_read_without_a_user_and_with_one(bed, gateway, how):
    library, options = NODE[how]
    bed.file("users", USERS)
    users = bed.gateway(bed.daemons[0], "users", gateway__users_file=os.path.join(bed.directory, "users"))
    users.wait_serving()
    wanted = {"get": "one", "none": None, "hgetall": {"f": "v"}, "mget": ["one", None], "pipeline": ["one"]}
    reader = {"username": "reader", "password": "pw"}
    for done, refused in ((read_by_node(library, options(gateway, {})), "READONLY"),
                          (read_by_node(library, options(users, reader)), "NOPERM")):
        assert done.returncode == 0, done.stderr
        read = json.loads(done.stdout)
        assert read.pop("set").startswith(refused)
        assert read == wanted
    done = read_by_node(library, options(users, {**reader, "password": "no"}))
    assert done.returncode == 1 and "WRONGPASS" in done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("forwards", [False, True])
def test_databases_and_version_are_the_primarys(bed, any_server, forwards):
    primary = bed.server("primary", any_server, databases=3)
    gateway = bed.gateway(bed.proxy(primary), **(
        {"gateway__forward": True, "redis__address": primary.address} if forwards else {}))
    gateway.wait_fresh()
    with Raw(primary.socket) as theirs, Raw(gateway.socket) as ours:
        for words in (("SELECT", 2), ("GET", "k"), ("SELECT", 3), ("SELECT", 16), ("SELECT", 65535), ("SELECT", -1),
                      ("SELECT", "x"), ("CONFIG", "GET", "databases")):
            assert ours.ask(*words) == theirs.ask(*words), words
        for field in (b"redis_version:", b"valkey_version:"):
            right, given = ([line for line in raw.ask("INFO", "server").splitlines() if line.startswith(field)]
                            for raw in (theirs, ours))
            assert right == given


def test_a_pipeline_that_changes_the_protocol_gets_each_reply_in_its_own(gateway):
    """Replies to gets come later than HELLO is read; they keep the version that they were asked in."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30 * SLOW) as stream:
        stream.sendall(b"HGETALL cache:h\r\nHELLO 3\r\nHGETALL cache:h\r\nSELECT 3\r\nGET cache:1\r\nQUIT\r\n")
        reply = b""
        while part := stream.recv(65536):
            reply += part
    assert reply.startswith(b"*2\r\n$1\r\nf\r\n$1\r\nv\r\n%7\r\n"), reply
    assert reply.endswith(b"%1\r\n$1\r\nf\r\n$1\r\nv\r\n+OK\r\n$8\r\nin three\r\n+OK\r\n"), reply


def test_a_user_may_what_the_file_says_and_no_more(guarded):
    with guarded.client() as nobody, pytest.raises(redis.exceptions.AuthenticationError):
        nobody.get("cache:1")
    with guarded.client(username="reader", password="no") as client, \
            pytest.raises(redis.exceptions.ResponseError, match="WRONGPASS"):
        client.get("cache:1")
    with guarded.client(username="reader", password="pw") as client:
        assert client.get("cache:1") == b"one"
        assert client.get("orders:7") == b"seven"
        assert client.mget("cache:1", "orders:7", "cache:none") == [b"one", b"seven", None]
        for refused in (lambda: client.get("other"), lambda: client.mget("cache:1", "other"),
                        lambda: client.set("cache:1", "x"), lambda: client.config_get("save")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                refused()
        assert client.info("replication")["role"] == "slave"
        assert client.client_info()["user"] == "reader"
    with guarded.client(username="all", password="secret") as client:
        assert client.get("other") == b"hidden"


def test_who_has_not_logged_in_may_send_little(guarded):
    for sent, sentence in ((b"*11\r\n", b"unauthenticated multibulk length"),
                           (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", b"unauthenticated bulk length")):
        with socket.create_connection(("127.0.0.1", guarded.port), timeout=30 * SLOW) as stream:
            stream.sendall(sent)
            assert stream.recv(4096) == b"-ERR Protocol error: " + sentence + b"\r\n"
            assert stream.recv(4096) == b""
    with guarded.client(username="reader", password="pw") as client:
        assert client.mget(["cache:1"] * 20) == [b"one"] * 20
        assert client.get("cache:" + "x" * 20000) is None


def test_permissions_hold_for_what_is_forwarded(bed, proxy):
    users = USERS + "user writer on >pw ~cache:* %R~orders:* +@read +@write +@connection -flushall\n"
    primary = bed.servers[0]
    gateway = bed.gateway(proxy, gateway__users_file=bed.file("users", users), gateway__forward=True,
                          redis__address=primary.address)
    gateway.wait_serving()
    with gateway.client(username="writer", password="pw") as client:
        assert client.set("cache:2", "two") and client.get("cache:2") == b"two"
        assert client.zadd("cache:z", {"a": 1}) == 1
        for refused in (("SET", "other", "x"), ("SET", "orders:7", "x"), ("COPY", "other", "cache:3"),
                        ("ZUNIONSTORE", "cache:u", 2, "cache:z", "other"), ("FLUSHALL",), ("EVAL", "", 0),
                        ("EVAL", "return redis.call('get', 'other')", 0),
                        ("SORT", "cache:l", "GET", "other"), ("MSET", "cache:1", "x", "other", "x")):
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*refused)
    with gateway.client(username="reader", password="pw") as client, \
            pytest.raises(redis.exceptions.NoPermissionError):
        client.set("cache:1", "x")
    with primary.client() as client:
        assert client.get("other") == b"hidden" and client.get("cache:1") == b"one"


def test_a_reload_reads_the_users_again_and_closes_those_that_are_gone(bed, guarded):
    stays = guarded.client(username="all", password="secret", single_connection_client=True)
    gone = guarded.client(username="reader", password="pw", single_connection_client=True)
    assert stays.get("other") == b"hidden" and gone.get("cache:1") == b"one"

    bed.file("users", USERS + "user what +nothing\n")
    with pytest.raises(RpcError, match="line 5: word 3, \"\\+nothing\""):
        guarded.rpc("config.reload")
    assert gone.get("cache:1") == b"one", "a file that is refused changes nothing"

    bed.file("users", USERS.replace("user reader", "user writer"))
    guarded.rpc("config.reload")
    with pytest.raises(redis.exceptions.ConnectionError):
        gone.connection.send_command("GET", "cache:1", check_health=False)
        gone.connection.read_response()
    assert stays.get("other") == b"hidden"
    with guarded.client(username="writer", password="pw") as client:
        assert client.get("cache:1") == b"one"
    assert guarded.status()["clients_closed"]["user"] == 1
    stays.close()


def ends(client, *words):
    with pytest.raises(redis.exceptions.ConnectionError):
        client.connection.send_command(*words, check_health=False)
        client.connection.read_response()
    return True


def test_a_reload_closes_who_is_off_or_has_another_password_and_judges_the_others_anew(bed, proxy):
    begun = "user off on >pw ~* +@all\nuser changed on >pw ~* +@all\nuser rotated on >pw >new ~* +@all\n" \
            "user open on nopass ~* +@all\nuser less on >pw ~* +@all\n"
    gateway = bed.gateway(proxy, gateway__users_file=bed.file("users", begun))
    gateway.wait_serving()
    clients = {name: gateway.client(username=name, password=password, single_connection_client=True)
               for name, password in {"off": "pw", "changed": "pw", "rotated": "new", "open": "any", "less": "pw"}.items()}
    old = gateway.client(username="rotated", password="pw", single_connection_client=True)
    for client in (*clients.values(), old):
        assert client.get("other") == b"hidden"
    bed.file("users", "user off off >pw ~* +@all\nuser changed on >other ~* +@all\nuser rotated on >new ~* +@all\n"
             "user open on >pw ~* +@all\nuser less on >pw ~cache:* +@all\n")
    gateway.rpc("config.reload")
    for client in (clients["off"], clients["changed"], clients["open"], old):
        assert ends(client, "GET", "other")
    assert clients["rotated"].get("other") == b"hidden" and clients["less"].get("cache:1") == b"one"
    with pytest.raises(redis.exceptions.NoPermissionError):
        clients["less"].get("other")
    assert gateway.status()["clients_closed"]["user"] == 4
    for client in clients.values():
        client.close()


def test_a_user_publishes_to_its_channels_only(bed, proxy):
    users = "user some on >pw ~* &news.* +@all\nuser none on >pw ~* +@all\nuser all on >pw ~* &* +@all\n"
    gateway = bed.gateway(proxy, gateway__users_file=bed.file("users", users), gateway__forward=True,
                          redis__address=bed.servers[0].address)
    gateway.wait_serving()
    allowed = {"some": ["news.today"], "none": [], "all": ["news.today", "other"]}
    for name, channels in allowed.items():
        with gateway.client(username=name, password="pw") as client:
            for command in ("PUBLISH", "SPUBLISH"):
                for channel in ("news.today", "other"):
                    if channel in channels:
                        assert client.execute_command(command, channel, "x") == 0
                    else:
                        with pytest.raises(redis.exceptions.NoPermissionError, match="channels"):
                            client.execute_command(command, channel, "x")
            if name == "all":
                assert client.eval("return redis.call('publish', 'other', 'x')", 0) == 0
            else:
                with pytest.raises(redis.exceptions.NoPermissionError):
                    client.eval("return redis.call('publish', 'other', 'x')", 0)


def test_without_users_only_this_host_is_listened_on(bed, proxy):
    gateway = bed.gateway(proxy, start=False)
    gateway.settings["gateway.resp"] = ["tcp://0.0.0.0:1"]
    gateway.start(wait=False)
    wait_for(lambda: not gateway.alive, "it goes on", 30)
    assert "set gateway.users_file" in gateway.tail()
    bed.daemons.remove(gateway)


@pytest.mark.parametrize("text,mode,sentence", [
    ("user a on >pw what\n", 0o600, "line 1: word 5"),
    (USERS, 0o644, "chmod o-rwx"),
])
def test_a_file_of_users_that_is_not_valid_ends_the_start(bed, proxy, text, mode, sentence):
    gateway = bed.gateway(proxy, start=False, gateway__users_file=bed.file("users", text, mode))
    gateway.start(wait=False)
    wait_for(lambda: not gateway.alive, "it goes on", 30)
    assert sentence in gateway.tail() and "gateway.users_file" in gateway.tail()
    bed.daemons.remove(gateway)
