"""keywakectl doctor lists all that is wrong with a configuration at once, each with what mends it."""
import json
import os
import resource
import subprocess

import pytest

from lib import data
from lib.daemon import AGENT, CTL, GATEWAY, PROXY
from lib.ports import free_port, two_ports
from lib.process import SLOW, wait_for
from lib.sentinel import NAME, Sentinel
from lib.server import binary_version
from lib.tls import Authority
from test_acl import PASSWORD, set_user

# The programs of this build, as an installation has them in PATH.
PATH = os.pathsep.join([*(os.path.dirname(program) for program in (PROXY, AGENT, GATEWAY)), os.environ["PATH"]])
SECRET = "a secret of more than sixteen bytes\n"


def run(*words, locked=None):
    """(exit status, the report)"""
    def limit():
        if locked is not None:
            resource.setrlimit(resource.RLIMIT_MEMLOCK, (locked, locked))
    done = subprocess.run([CTL, *map(str, words), "--json"], capture_output=True, text=True, timeout=20 * SLOW,
                          env={**os.environ, "PATH": PATH}, preexec_fn=limit, check=False)
    assert done.returncode in (0, 2), f"exit {done.returncode}: {done.stderr}{done.stdout}"
    report = json.loads(done.stdout)
    assert (done.returncode == 2) == (report["wrong"] > 0)
    return report


def examine(bed, settings, name="doctor.json", **options):
    """The doctor's report on a configuration whose daemon does not run."""
    settings = {"control.socket": os.path.join(bed.directory, "control"), **settings}
    return run("doctor", bed.file(name, json.dumps(settings)), **options)


def shown(report):
    return json.dumps(report["findings"], indent=1)


def missing(report, wanted):
    """Those of (check, severity, words of the sentence, words of the remedy) that were not found."""
    return [want for want in wanted if not any(
        want[0] in one["check"] and want[1] in (None, one["severity"]) and want[2] in one["finding"]
        and want[3] in one["remedy"] for one in report["findings"])]


def expect(ask, *wanted):
    """Ask until all is found: beside other tests, what is asked can answer later than a doctor waits."""
    reports = []

    def found():
        reports.append(ask())
        return not missing(reports[-1], wanted)
    wait_for(found, lambda: f"not found: {missing(reports[-1], wanted)} in {shown(reports[-1])}", 30)
    return reports[-1]


def listening(bed, answer=None):
    """A port that answers so to whatever it is sent; None: it is silent."""
    process = subprocess.Popen(
        ["/usr/bin/python3", "-c", """
import socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
kept = []
while True:
    client, _ = server.accept()
    client.settimeout(1)
    kept.append(client)
    try:
        client.recv(100)
        client.sendall(sys.argv[1].encode())
    except OSError:
        pass
""", answer or ""], stdout=subprocess.PIPE, text=True)
    bed.listeners = getattr(bed, "listeners", []) + [process]
    return int(process.stdout.readline())


@pytest.fixture(autouse=True)
def end_listeners(bed):
    yield
    for process in getattr(bed, "listeners", []):
        process.kill()
        process.wait()


# ---- nothing is wrong ----

@pytest.mark.quick
@pytest.mark.sanitize
def test_nothing_is_wrong_with_a_healthy_pair_and_nothing_is_changed(bed):
    secret = bed.file("secret", SECRET)
    pair = bed.pair(listen=("tcp",), via="tcp", fill=lambda server: data.fill_plain(server, 100),
                    proxy={"auth__secret_file": secret}, agent={"auth__secret_file": secret})
    gateway = bed.gateway(pair.proxy, via="tcp", auth__secret_file=secret)
    gateway.wait_serving()
    before = pair.agent.status(), pair.proxy.status()
    for daemon in (pair.proxy, pair.agent, gateway):
        wait_for(lambda: run("-s", daemon.control, "doctor")["wrong"] == 0, "something is wrong all the time", 30)
    expect(lambda: run("-s", pair.agent.control, "doctor"),
           ("READs", None, "READ over tcp takes", ""), ("READs", None, "MB/s", ""), ("fit", "ok", "RDB version", ""),
           ("daemon: state", "ok", "warm", ""), ("control.socket", "ok", "the daemon runs", ""))
    pair.settle()
    after = pair.agent.status(), pair.proxy.status()
    for name in ("other_writes", "reconciles", "snapshots", "resets"):
        assert [status.get(name) for status in before] == [status.get(name) for status in after], name
    # What was only asked for was not called; the agent itself writes by RESTORE.
    calls = pair.replica.command("INFO", "commandstats")
    assert not {"cmdstat_unlink", "cmdstat_flushdb", "cmdstat_set"} & set(calls), calls


def test_on_a_terminal_it_is_a_list_for_people(bed):
    pair = bed.pair()

    def listed():
        done = subprocess.run(["script", "-qec", f"{CTL} -s {pair.agent.control} doctor", "/dev/null"],
                              capture_output=True, text=True, check=False, timeout=20 * SLOW,
                              env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"})
        assert "\x1b[" not in done.stdout
        return done.returncode == 0 and "ok       daemon: state" in done.stdout and "0 wrong" in done.stdout
    wait_for(listed, "no list without anything wrong", 30)


# ---- many faults at once ----

def test_all_that_is_wrong_with_an_agent_is_named_at_once(bed):
    """Ten faults of one file, and none of them hides another."""
    bed.server("server", port=(port := free_port()), tls=False)
    web = listening(bed, "HTTP/1.1 400 Bad Request\r\n\r\n")
    report = expect(
        lambda: examine(bed, {
            "proxy": [f"tcp://127.0.0.1:{port}", f"tcp://127.0.0.1:{free_port()}"],
            "redis.address": f"redis://127.0.0.1:{web}",
            "auth.secret_file": bed.file("secret", SECRET, mode=0o644),
            "control.socket": "/nowhere/agent.sock",
            "http.listen": f"tcp://127.0.0.1:{web}",
            "apply.replica.masterauth_file": os.path.join(bed.directory, "no such file"),
            "tls.ca": bed.file("ca.pem", "no certificate\n"),
            "control.saved_file": "/nowhere/saved.json", "zebra": 3, "poll.idle_uss": 5, "remote.depth": 0,
        }),
        ("file: auth", "wrong", "open to every user", "chmod o-rwx"),
        ("local server: connection", "wrong", "is no Redis server but an HTTP server", "redis.address"),
        (f"proxy tcp://127.0.0.1:{port}", "wrong", "is no keywake-proxy but a Redis", "proxy ="),
        ("proxy tcp", "wrong", "nobody listens there", "start the proxy"),
        ("control.socket", "wrong", "/nowhere is not there", "mkdir -p /nowhere"),
        ("http.listen", "wrong", "another process has port", "ss -ltnp"),
        ("masterauth_file", "wrong", "No such file", "make it, or name another file"),
        ("file: tls", "wrong", "holds no certificate", "put the CA's into it"),
        ("configuration: keys", "wrong", "poll.idle_uss", "did you mean poll.idle_us?"),
        ("configuration: keys", "wrong", "remote.depth", "at least 1"),
        ("control.saved_file", "warning", "nothing can be saved", "mkdir -p /nowhere"),
        ("configuration: keys", "warning", "zebra", "--help-config"))
    assert report["program"] == "keywake-agent" and report["wrong"] == 10, shown(report)


def test_all_that_is_wrong_with_a_proxy_is_named_at_once(bed):
    """Its primary is there, and lets it do little; its own files and ports are wrong besides."""
    primary = bed.server("primary", notify_keyspace_events="Kg", min_replicas_to_write=1, tls=False,
                         client_output_buffer_limit=("normal 1mb 1mb 10 slave 256mb 64mb 60 pubsub 100kb 50kb 5",))
    primary.command("ACL", "SETUSER", "poor", "on", ">word", "~*", "&*", "+@all", "-dump", "-scan")
    authority = Authority(bed.directory, "own")
    cert, key = authority.issue("old", days=-1)
    taken = listening(bed)
    report = expect(
        lambda: examine(bed, {
            "redis.address": primary.address, "redis.username": "poor",
            "redis.password_file": bed.file("password", "word\n"), "source.flags": "check",
            "listen": [f"tcp+tls://127.0.0.1:{taken}", "shm://" + bed.file("not a socket", "")],
            "tls.cert": cert, "tls.key": key, "auth.keys_file": bed.file("keys", "key without\n"),
            "authority.by": "sentinel", "sentinel.name": "main", "sentinel.addresses": [primary.address],
            "table.max_bytes": "16TiB", "http.secret_file": bed.file("empty", ""),
        }),
        ("primary: permissions", "wrong", "lacks +scan to find keys, +dump", "ACL SETUSER poor +scan +dump ~*"),
        ("notify-keyspace-events", "wrong", "must have A and E", "CONFIG SET notify-keyspace-events"),
        ("client-output-buffer-limit", "warning", "for pubsub it is 100 KiB", "pubsub 32mb"),
        ("client-output-buffer-limit", "warning", "for normal clients it is 1024 KiB", "normal 0 0 0"),
        ("min-replicas-to-write", "warning", "NOREPLICAS", "CONFIG SET min-replicas-to-write 0"),
        ("listens: listen", "wrong", f"another process has port {taken}", "ss -ltnp"),
        ("listens: listen", "wrong", "is no socket", "listen = another path"),
        ("certificate: tls.cert", "wrong", "ran out", "config reload"),
        ("file: auth", "wrong", "auth.keys_file", ""),
        ("http.secret_file", "wrong", "is empty", "openssl rand"),
        ("sentinel 1: server", "wrong", "is no Sentinel", "sentinel.addresses"),
        ("host: memory", "warning", "this host has", "table.max_bytes"))
    assert report["program"] == "keywake-proxy"


def test_all_that_is_wrong_with_a_local_server_is_named_at_once(bed):
    """A replica of another server that evicts, with a proxy that refuses the agent's secret."""
    proxy = bed.proxy(bed.server("primary"), listen=("tcp",))
    proxy.wait_live()
    local = bed.server("local", tls=False, maxmemory="100mb", maxmemory_policy="allkeys-lru", min_replicas_to_write=1)
    local.command("REPLICAOF", "127.0.0.1", "1")
    local.command("ACL", "SETUSER", "poor", "on", ">word", "~*", "&*", "+@all", "-restore", "-command", "-config")
    expect(
        lambda: examine(bed, {
            "proxy": proxy.listen["tcp"], "auth.secret_file": bed.file("another", "another secret of many bytes\n"),
            "redis.address": local.address, "redis.username": "poor",
            "redis.password_file": bed.file("password", "word\n"),
        }),
        ("local server: permissions", "wrong", "lacks +command|info", "+restore ~*"),
        ("local server: role", "wrong", "refuses writes", "REPLICAOF NO ONE"),
        ("local server: memory", "warning", "allkeys-lru", "noeviction"),
        ("local server: min-replicas", "wrong", "NOREPLICAS", "CONFIG SET min-replicas-to-write 0"),
        ("proxy tcp", "wrong", "secret", "auth.secret_file"))


def guarded(bed, server, file, *changes):
    """A user by a published line, and the settings with which a daemon logs in as it."""
    user = set_user(server, file, *changes)
    return {"redis.address": server.address, "redis.username": user,
            "redis.password_file": bed.file("password", PASSWORD + "\n")}


def test_the_published_permissions_are_enough_and_each_that_lacks_is_named(bed):
    primary, local = bed.server("primary", tls=False), bed.server("local", tls=False)
    files = {"listen": "shm://" + os.path.join(bed.directory, "shm")}, {"proxy": "shm:///nowhere/p.shm"}

    def proxy(*changes, **more):
        return examine(bed, {**files[0], **guarded(bed, primary, "primary-config.acl", *changes), **more})

    def agent(*changes, file="replica.acl", **more):
        return examine(bed, {**files[1], **guarded(bed, local, file, *changes), **more})
    everything = "has all that it needs"
    for ask, sentence in (
            (lambda: proxy("+acl|dryrun"), everything), (lambda: agent("+acl|dryrun"), everything),
            # Channels are tried; what changes keys is not.
            (proxy, everything), (agent, "because it lacks +acl|dryrun: +restore ~* +unlink ~*"),
            (lambda: agent("+acl|dryrun", **{"apply.cursor_store": "key"}), everything),
            (lambda: agent("+acl|dryrun", file="replica-mode.acl", **{"apply.mode": "replica"}), everything)):
        expect(ask, ("permissions", "ok", sentence, ""))
    for ask, lacks, rules in (
            (lambda: proxy("resetchannels"), "+psubscribe", "+psubscribe '&__key"),
            (lambda: proxy("-client|tracking", "-exists"), "+exists to know what is gone, +client|tracking", "+exists"),
            (lambda: agent("+acl|dryrun", "-unlink", "-flushdb"), "+unlink ~* to delete keys, +flushdb", "+flushdb"),
            (lambda: agent("-client|list"), "+client|list", "+client|list +restore"),
            (lambda: agent("+acl|dryrun", "-replicaof", file="replica-mode.acl", **{"apply.mode": "replica"}),
             "+replicaof", "ACL SETUSER keywake-agent +replicaof")):
        expect(ask, ("permissions", "wrong", lacks, rules))


# ---- one by one: what cannot be in one configuration ----

def server_of_tls(bed):
    return bed.server("server", tls=True).tls_port


def bus_of_a_cluster(bed):
    port, bus = two_ports(10000)
    bed.server("server", tls=False, port=port, bind="127.0.0.1", cluster_enabled="yes", databases=1)
    return bus


def server_with_a_password(bed):
    bed.server("server", tls=False, port=(port := free_port()), requirepass="sesame")
    return port


@pytest.mark.parametrize("start, finding, remedy", [
    (server_of_tls, "is no Redis server but a port of TLS", "rediss://"),
    (bus_of_a_cluster, "is no Redis server but the cluster bus", "10000 below"),
    (server_with_a_password, "WRONGPASS", "password_file"),
])
def test_what_listens_there_instead_of_a_server_is_recognised(bed, start, finding, remedy):
    port = start(bed)
    expect(lambda: examine(bed, {"redis.address": f"redis://127.0.0.1:{port}",
                                 "redis.password_file": bed.file("password", "not this one\n"),
                                 "listen": "shm://" + os.path.join(bed.directory, "shm")}),
           ("primary: connection", "wrong", finding, remedy))


def test_a_sentinel_is_known_as_one(bed):
    """It is asked for the name, and it is no server whose data can be followed."""
    primary = bed.server("primary", tls=False, port=(port := free_port()))
    sentinel = Sentinel(bed.directory, 0, port).start()
    bed.servers.append(sentinel)
    wait_for(sentinel.master, "the sentinel says nothing", 30)
    settings = {"listen": "shm://" + os.path.join(bed.directory, "shm"), "redis.address": primary.address,
                "authority.by": "sentinel", "sentinel.name": NAME, "sentinel.addresses": [sentinel.address]}
    expect(lambda: examine(bed, settings), ("sentinel 1: server", "ok", "monitors", ""),
           ("sentinel 1: permissions", "ok", "has all that it needs", ""))
    expect(lambda: examine(bed, {**settings, "sentinel.name": "other", "redis.address": sentinel.address}),
           ("sentinel 1: server", "wrong", "monitors no", "sentinel.name"),
           ("primary: server", "wrong", "Sentinel", ""))


def test_a_table_that_does_not_fit_is_named_before_the_agent_starts(bed, need_server):
    """A primary of a later RDB version than the local server, and a local server that is the primary."""
    need_server("redis-trixie")
    as_new = binary_version("installed")[1] >= binary_version("redis-trixie")[1]
    older = "redis-bullseye" if as_new else "installed"
    need_server(older)
    primary = bed.server("primary", "redis-trixie", tls=False)
    proxy = bed.proxy(primary, listen=("shm",))
    proxy.wait_live()
    local = bed.server("local", older, tls=False)
    for address, words in ((local.address, ("RDB version", "upgrade the local server")),
                           (primary.address, ("the primary that the proxy follows", "set redis.address"))):
        expect(lambda: examine(bed, {"proxy": proxy.listen["shm"], "redis.address": address}),
               ("fit", "wrong", *words))


def test_without_config_the_remedy_is_named(bed):
    """The command is renamed away, as managed services have it."""
    primary = bed.server("primary", tls=False, rename_command=("CONFIG", ""))
    expect(lambda: examine(bed, {"redis.address": primary.address,
                                 "listen": "shm://" + os.path.join(bed.directory, "shm")}),
           ("notify-keyspace-events", "wrong", "no command CONFIG", "source.flags = trust"))


def test_a_primary_that_cuts_the_stream_off_early_is_named(bed):
    """The published user may not ask for its settings. Then nothing is said of them, and nothing lacks."""
    primary = bed.server("primary", tls=False, client_output_buffer_limit=("normal 1mb 1mb 10 replica 20mb 1mb 60",))
    files = {"listen": "shm://" + os.path.join(bed.directory, "shm"), "source.feed": "stream"}
    expect(lambda: examine(bed, {"redis.address": primary.address, **files}),
           ("client-output-buffer-limit", "warning", "for replica it is 20480 KiB (soft 1024 KiB)", "replica 256mb"),
           ("client-output-buffer-limit", "warning", "for normal clients it is 1024 KiB", "normal 0 0 0"))
    user = guarded(bed, primary, "primary-stream.acl", "+acl|dryrun")
    report = examine(bed, {**files, **user})
    assert not missing(report, [("primary: permissions", "ok", "has all that it needs", "")]), shown(report)
    assert "client-output-buffer-limit" not in shown(report)
    user = guarded(bed, primary, "primary-stream.acl", "+acl|dryrun", "+config|get")
    expect(lambda: examine(bed, {**files, **user}),
           ("client-output-buffer-limit", "warning", "for replica it is 20480 KiB", "replica 256mb"))


def test_locked_memory_is_compared_with_the_table(bed):
    primary = bed.server("primary", tls=False)
    expect(lambda: examine(bed, {"redis.address": primary.address, "listen": f"rdma://127.0.0.1:{free_port()}",
                                 "auth.secret_file": bed.file("secret", SECRET), "table.max_bytes": "1GiB"},
                           locked=1 << 20),
           ("host: locked memory", "wrong", "up to 1024 MiB", "LimitMEMLOCK=infinity"))


def test_a_broken_rule_hides_nothing_else(bed):
    """tcp without a secret can never work; and the server is not there either."""
    expect(lambda: examine(bed, {"proxy": "tcp://127.0.0.1:1", "redis.address": "redis://127.0.0.1:1"}),
           ("configuration: keys", "wrong", "auth.secret_file", ""),
           ("local server: connection", "wrong", "Connection refused", "start the server"))


def test_a_file_that_is_no_json_is_a_finding(bed):
    report = run("doctor", bed.file("agent.json", "{\"proxy\": "))
    assert not missing(report, [("configuration: keys", "wrong", "agent.json", "")]), shown(report)
    assert report["program"] == "keywake-agent" and report["wrong"] == 1


def test_a_gateway_is_looked_at_too(bed):
    taken = listening(bed)
    report = expect(
        lambda: examine(bed, {
            "proxy": "shm://" + os.path.join(bed.directory, "no.shm"), "gateway.resp": f"tcp://127.0.0.1:{taken}",
            "gateway.allow_insecure": True, "gateway.users_file": bed.file("users", "user x\n", mode=0o666),
            "gateway.forward": True, "redis.address": f"redis://127.0.0.1:{free_port()}"}),
        ("gateway.users_file", "wrong", "open to every user", "chmod"),
        ("gateway.resp", "wrong", "another process has port", "ss -ltnp"),
        ("primary: connection", "wrong", "Connection refused", "start the server"),
        ("proxy shm", "wrong", "", "start the proxy"))
    assert report["program"] == "keywake-gateway"


def test_it_does_not_wait_for_those_that_hang(bed):
    """A server and a proxy that are connected to and say nothing: run() has the limit of time."""
    port = listening(bed)
    report = examine(bed, {"proxy": f"tcp://127.0.0.1:{port}", "auth.allow_insecure": True,
                           "redis.address": f"redis://127.0.0.1:{port}"})
    assert not missing(report, [("local server: connection", "wrong", "127.0.0.1", "firewall"),
                                ("proxy tcp", "wrong", "", "")]), shown(report)
    assert report["wrong"] == 2, shown(report)
