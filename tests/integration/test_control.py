"""The control sockets, keywakectl and the configuration, on the real daemons."""
import json
import os
import signal
import subprocess
import threading

import pytest

from lib import data
from lib.daemon import AGENT, CTL, PROXY, secret_file
from lib.process import wait_for
from lib.rpc import Rpc, RpcError
from lib.server import TOP

pytestmark = pytest.mark.sanitize

AGENT_FIELDS = {"state", "reason", "reason_code", "grade", "remedy", "since_us", "epoch", "applied_version", "head_version", "lag_versions",
                "lag_ms", "keys_applied", "bytes_read", "progress", "transport", "quarantined",
                "fresh_us", "lag_p50_us", "lag_p99_us", "name"}
PROXY_FIELDS = {"state", "reason", "reason_code", "grade", "remedy", "since_us", "name", "epoch", "version", "keys", "dirty_keys", "table", "agents",
                "fresh_us", "reconciles", "reconciles_connection", "reconciles_flags",
                "reconciles_flush", "reconciles_swapdb", "reconciles_identity"}
TABLE_FIELDS = {"live_bytes", "used_bytes", "capacity_bytes", "utilisation"}


@pytest.fixture
def pair(bed):
    return bed.pair(fill=data.fill)


def test_status_has_its_documented_fields(pair):
    pair.settle()
    agent = pair.agent.wait_status(lambda status: status["applied_version"] == status["head_version"], "it is not level")
    proxy = pair.proxy.status()
    assert AGENT_FIELDS <= set(agent), AGENT_FIELDS - set(agent)
    assert PROXY_FIELDS <= set(proxy), PROXY_FIELDS - set(proxy)
    assert TABLE_FIELDS <= set(proxy["table"]), TABLE_FIELDS - set(proxy["table"])
    assert agent["epoch"] == proxy["epoch"]
    assert agent["lag_versions"] == 0
    # What was wrong before the proxy was seen is wrong no more.
    assert [(one["followed"], one["seen"], one["why"]) for one in agent["proxies"]] == [(True, True, "")]
    assert agent["transport"] == "shm" and agent["progress"] == 1 and agent["quarantined"] == 0
    assert proxy["keys"] == pair.primary.command("DBSIZE") and proxy["agents"] == 1


def test_what_happened_is_known_after_a_crash(pair):
    """The changes of state with their codes, of this run and of the one that was killed."""
    file = os.path.join(pair.agent.directory, "history")
    pair.agent.kill()
    pair.agent.settings["control.history_file"] = file
    pair.agent.start()
    pair.settle()
    pair.agent.ctl_ok("pause")
    wait_for(lambda: "paused" in (open(file).read() if os.path.exists(file) else ""), "nothing is written")
    pair.agent.kill()
    pair.agent.start()
    pair.settle()
    # On a busy machine it lags for a moment after that.
    changes = wait_for(lambda: (told := pair.agent.ctl_ok("history"))[-1]["state"] == "warm" and told, "not warm again")
    assert [change["at_us"] for change in changes] == sorted(change["at_us"] for change in changes), "as the table"
    codes = [change["reason_code"] for change in changes]
    assert "paused" in codes and codes[-1] == "none", changes
    assert codes.index("paused") < len(codes) - 2


def test_a_reason_of_any_bytes_can_be_told(bed):
    """A server quotes the key of a command that it does not know, and keys need not be text."""
    primary = bed.server("primary", rename_command=("DUMP", "nodump"))
    with primary.client() as client:
        client.set(b"\xff\xfe \xc3", 1)
    primary.signal(signal.SIGSTOP) # until we listen
    proxy = bed.proxy(primary)
    with Rpc(proxy.control) as rpc:
        rpc.call("events.subscribe")
        primary.signal(signal.SIGCONT)
        status = proxy.wait_state("source_down", reason="DUMP")
        assert "\\xff" in status["reason"], status["reason"]
        while (event := rpc.receive()).get("params", {}).get("kind") != "state" or \
                "DUMP" not in event["params"].get("reason", ""):
            pass
        assert "\\xff" in event["params"]["reason"], event
    assert "\\xff" in proxy.ctl_ok("status")["reason"]


def test_the_same_status_by_keywakectl(pair):
    assert set(pair.agent.ctl_ok("status")) == set(pair.agent.status())
    listed = pair.proxy.ctl_ok("agents")
    assert [entry["name"] for entry in listed] == ["agent"] and listed[0]["carrier"] == "shm"


def test_metrics_by_keywakectl(pair):
    for daemon in (pair.proxy, pair.agent):
        assert daemon.ctl_ok("metrics")["text"].splitlines()[0].startswith("# HELP keywake_")


def test_an_agent_without_a_position_has_no_number_for_it(bed):
    """What it holds on to is nothing, and not 2^64 - 1 or -1."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 10)
    replica.command("SET", "precious", "1")
    proxy = bed.proxy(primary)
    agent = bed.agent(proxy, replica)
    agent.wait_state("failed")
    wait_for(lambda: [entry for entry in proxy.ctl_ok("agents") if entry["state"] != "joining"],
             "the agent does not report")
    entry, = proxy.ctl_ok("agents")
    assert entry["passed"] is None, entry
    replica.command("DEL", "precious")
    agent.wait_warm()
    wait_for(lambda: proxy.ctl_ok("agents")[0]["passed"] is not None, "still none")


def test_pause_and_resume(pair):
    told = pair.agent.ctl_ok("pause")
    assert (told["state"], told["paused"], told["reason_code"]) == ("lagging", True, "paused"), told
    with pair.primary.client() as client:
        client.set("while paused", 1)
    status = pair.agent.wait_state("lagging", reason="paused")
    assert pair.replica.command("EXISTS", "while paused") == 0, status
    assert pair.agent.ctl("wait", "warm", "--timeout", 1).returncode == 3
    told = pair.agent.ctl_ok("resume")
    assert not told["paused"] and told["reason_code"] != "paused", told
    pair.settle()


def test_resync_makes_equal_what_was_tampered_with(pair):
    with pair.replica.client() as client:
        client.delete("list:1", "set:int:512")
        client.set("foreign", 1)
    pair.agent.ctl_ok("resync")
    pair.settle()


def test_approve_is_refused_when_nothing_waits(pair):
    pair.settle()
    refused = pair.agent.ctl("approve")
    assert refused.returncode == 2 and "nothing waits for approval" in refused.stderr, refused


def test_get_shows_where_a_key_stands(pair):
    pair.settle()
    answer = pair.agent.ctl_ok("get", "int:1")
    assert isinstance(answer, dict) and answer, answer
    assert pair.agent.ctl("get", "no such key").returncode in (0, 2)


def test_disconnect_ends_a_session_and_the_agent_comes_back(pair):
    listed = pair.proxy.ctl_ok("agents")
    pair.proxy.ctl_ok("disconnect", listed[0]["id"])
    with pair.primary.client() as client:
        client.set("after", 1)
    pair.settle()
    # Over shm it may read on for a moment, before it hears that its session has ended.
    pair.agent.wait_status(lambda status: status["reconnects"] >= 1, "it does not connect again")


def test_wait_live_and_its_timeout(bed):
    proxy = bed.proxy(bed.server("primary"))
    proxy.ctl_ok("wait", "live", "--timeout", 30)
    silent = bed.proxy(bed.server("missing", start=False), name="proxy-2")
    done = silent.ctl("wait", "live", "--timeout", 1)
    assert done.returncode == 3, done


def test_wait_warm_covers_what_was_written_before_it(pair):
    """The promise of the command: a write that finished before it is in the replica after it."""
    with pair.primary.client() as left, pair.replica.client() as right:
        for turn in range(40):
            left.set("turn", turn)
            pair.agent.wait_warm()
            assert right.get("turn") == str(turn).encode(), turn


def test_exit_codes_of_keywakectl(pair):
    assert pair.agent.ctl("no-such-command").returncode == 1
    assert pair.agent.ctl("config", "set", "no.such.key", 1).returncode == 2
    away = subprocess.run([CTL, "-s", "/nonexistent.sock", "status"], capture_output=True, text=True,
                          check=False)
    assert away.returncode == 1 and "/nonexistent.sock" in away.stderr


def test_config_is_read_and_changed_while_running(pair):
    pair.agent.ctl_ok("config", "set", "poll.idle_us", "5000")
    shown = json.dumps(pair.agent.ctl_ok("config", "get", "poll.idle_us"))
    assert "5000" in shown
    refused = pair.agent.ctl("config", "set", "redis.address", "unix:///elsewhere.sock")
    assert refused.returncode == 2 and "start again" in refused.stderr, refused
    unknown = pair.agent.ctl("config", "set", "poll.idel_us", "1")
    assert unknown.returncode == 2 and "poll.idle_us" in unknown.stderr, unknown


def test_a_share_is_told_as_it_was_given(pair):
    for share in ("0.05", "0.1", "0.3"):
        assert pair.proxy.ctl("config", "set", "source.primary_share", share).returncode == 0
        assert pair.proxy.ctl("config", "get", "source.primary_share").stdout == share + "\n"
        assert f'"primary_share":{share}' in pair.proxy.ctl("config", "get", "source").stdout


def test_methods_are_listed_and_unknown_parameters_refused(pair):
    for daemon in (pair.proxy, pair.agent):
        names = {method["name"] for method in daemon.rpc("rpc.methods")}
        assert {"status", "config.get", "config.set", "shutdown", "metrics", "version"} <= names
        with pytest.raises(RpcError) as failure:
            daemon.rpc("status", nonsense=1)
        assert failure.value.code == -32602
        with pytest.raises(RpcError) as failure:
            daemon.rpc("no.such.method")
        assert failure.value.code == -32601


def test_metrics_are_prometheus_text(pair):
    for daemon in (pair.proxy, pair.agent):
        text = daemon.rpc("metrics")["text"]
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert lines and all(line.startswith(("keywake_", "process_")) for line in lines), text[:300]
        for line in lines:
            float(line.rsplit(" ", 1)[1])


def test_garbage_on_the_control_socket_harms_nobody(pair):
    for garbage in (b"\n", b"{}\n", b"[]\n", b"\xff\xfe\x00\n", b'{"jsonrpc":"2.0"\n', b"x" * 2_000_000):
        rpc = Rpc(pair.agent.control)
        try:
            rpc.send(garbage)
            rpc.socket.settimeout(0.3)
            rpc.receive()
        except (OSError, ValueError):
            pass
        finally:
            rpc.close()
    pair.settle()


def test_a_client_that_does_not_read_is_dropped_not_waited_for(pair):
    rpc = Rpc(pair.proxy.control)
    try:
        for _ in range(20_000):
            rpc.send(b'{"jsonrpc":"2.0","id":1,"method":"rpc.methods"}\n')
            rpc.socket.settimeout(1)
    except OSError:
        pass
    pair.proxy.wait_live()
    rpc.close()
    pair.settle()


def test_a_verify_tells_how_far_it_has_come(pair):
    data.fill_plain(pair.primary, 60_000)
    pair.settle()
    pair.agent.ctl_ok("log", "info") # lines of the log are events, too
    with Rpc(pair.agent.control) as rpc:
        rpc.call("events.subscribe")
        answer = pair.agent.ctl_ok("verify")
        pair.agent.ctl_ok("pause")
        told = []
        while (event := rpc.receive()["params"])["kind"] != "state":
            told += [(event["keys"], event["progress"])] if event["kind"] == "verify" else []
    assert told and told == sorted(told) and all(0 <= share <= 1 for _, share in told), told
    assert told[-1][0] <= answer["checked"] + answer["scanned"]
    pair.agent.ctl_ok("resume")


def test_events_are_told_to_subscribers(pair):
    with Rpc(pair.agent.control) as rpc:
        rpc.call("events.subscribe")
        pair.agent.ctl_ok("pause")
        event = rpc.receive()
        assert event["method"] == "event", event
        pair.agent.ctl_ok("resume")


def test_many_controllers_at_once(pair):
    failures = []

    def ask():
        try:
            for _ in range(50):
                pair.agent.status()
        except Exception as failure: # told below
            failures.append(failure)
    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


def test_shutdown_by_command(pair):
    pair.agent.ctl_ok("shutdown")
    assert pair.agent.wait_exit() == 0
    pair.proxy.ctl_ok("shutdown")
    assert pair.proxy.wait_exit() == 0
    assert not os.path.exists(pair.proxy.control) and not os.path.exists(pair.agent.control)


def test_a_second_daemon_on_the_same_socket_is_refused(bed, pair):
    second = bed.proxy(pair.primary, name="proxy", start=False)
    second.name, second.log = "second", second.log + ".second"
    second.start(wait=False)
    assert second.wait_exit() in (1, 2), second.tail()
    pair.settle()


def test_a_configuration_file_with_reload(bed):
    primary = bed.server("primary")
    document = {"redis": {"address": primary.address}, "listen": "shm://" + bed.directory + "/x.shm",
                "table": {"max_bytes": "64MiB"}, "log": {"level": "info"},
                "control": {"socket": os.path.join(bed.directory, "proxy.ctl")}}
    path = bed.file("proxy.json", json.dumps(document))
    proxy = bed.proxy(primary, start=False)
    proxy.argv = [PROXY, "--config", path]
    proxy.spawn()
    proxy.wait_live()
    document["table"]["max_bytes"] = "128MiB"
    bed.file("proxy.json", json.dumps(document))
    proxy.signal(signal.SIGHUP)
    proxy.wait_status(lambda status: status["table"]["capacity_bytes"] == 128 << 20, "no reload")
    bed.file("proxy.json", "{ this is not JSON")
    done = proxy.ctl("config", "reload")
    assert done.returncode == 2 and "line 1" in done.stderr, done
    assert proxy.status()["table"]["capacity_bytes"] == 128 << 20


@pytest.mark.parametrize("bound", ["4MiB", "16TiB"])
def test_the_bounds_of_a_table_that_the_manual_gives_hold(bed, bound):
    pair = bed.pair(fill=lambda server: data.fill_plain(server, 200), proxy={"table.max_bytes": bound})
    pair.settle()


def test_a_reload_while_it_ends_harms_nothing(bed):
    """What a reload would tell has gone by then."""
    primary = bed.server("primary")
    for turn in range(10):
        document = {"redis": {"address": primary.address}, "listen": "tcp://127.0.0.1:0",
                    "table": {"max_bytes": "64MiB"}, "auth": {"secret_file": secret_file(bed.directory)},
                    "control": {"socket": os.path.join(bed.directory, "proxy.ctl")}}
        path = bed.file("proxy.json", json.dumps(document))
        proxy = bed.proxy(primary, name=f"proxy-{turn}", start=False)
        proxy.control = document["control"]["socket"]
        proxy.argv = [PROXY, "--config", path]
        proxy.spawn()
        wait_for(proxy.answers, "no answer")
        document["table"]["max_bytes"] = "128MiB"
        bed.file("proxy.json", json.dumps(document))
        proxy.signal(signal.SIGTERM)
        for _ in range(50):
            if not proxy.alive:
                break
            proxy.signal(signal.SIGHUP)
        assert proxy.wait_exit() == 0, proxy.tail()


@pytest.mark.parametrize("program", [PROXY, AGENT])
@pytest.mark.parametrize("wrong, named", [
    (["--set", "redis.adress=unix:///x"], "redis.address"), (["--set", "log.level=loud"], "debug"),
    (["--set", "redis.address=http://x"], "unix://"), (["--config", "/nonexistent.json"], "nonexistent"),
    (["--nonsense"], "--help"), (["--set", "metrics.listen=:9100"], "metrics.listen"),
])
def test_a_wrong_configuration_is_refused_with_the_remedy(program, wrong, named):
    base = ["--set", "redis.address=unix:///x", "--set", "proxy=shm:///x"] if program == AGENT else \
        ["--set", "redis.address=unix:///x", "--set", "listen=shm:///x"]
    done = subprocess.run([program, "--check-config", *base, *wrong], capture_output=True, text=True,
                          check=False, timeout=60)
    assert done.returncode == 2, done # what starting again would not mend
    assert named in done.stderr + done.stdout, done


SECRETLESS = "set auth.secret_file"


@pytest.mark.parametrize("checked", [True, False])
@pytest.mark.parametrize("program, wrong, named", [
    (PROXY, ["listen=[]"], "listen is empty"),
    (PROXY, ["listen=tcp://127.0.0.1:7471"], SECRETLESS), (AGENT, ["proxy=tcp://127.0.0.1:7471"], SECRETLESS),
    (PROXY, ["shm.users=[\"two words\"]"], "is no user"),
    (PROXY, ["listen=tcp://0.0.0.0:0"], SECRETLESS), (PROXY, ["listen=tcp://192.0.2.1:7471"], SECRETLESS),
    (PROXY, ["table.segment_bytes=5000"], "power of two"),
    (PROXY, ["table.max_bytes=16MiB", "table.segment_bytes=8MiB"], "too small"),
    (PROXY, ["table.max_bytes=4611686018427387904"], "too large"), (PROXY, ["table.max_bytes=17TiB"], "too large"),
    (AGENT, ["name=two words"], "printable ASCII"), (AGENT, ["apply.cursor_name=a b"], "letters, digits"),
    (AGENT, ["proxy=tcp://127.0.0.1:0"], "port 0"),
    (AGENT, ["apply.mode=hybrid", "apply.cursor_store=key"], "function library"),
    (AGENT, ["apply.mode=hybrid", "apply.bytes_per_second=10MB"], "answers no client"),
    (AGENT, ["apply.mode=replica", "apply.bytes_per_second=10MB"], "answers no client"),
    (AGENT, ["apply.bytes_per_second=1k"], "65536"),
    (AGENT, ["filter.prefixes=[\"\"]"], "an empty prefix"),
    (AGENT, ["filter.patterns=[\"a*\",\"b[c\"]"], "no ] closes"), (AGENT, ["filter.patterns=[\"**\"]"], "matches every key"),
    (AGENT, ["filter.exclude=[\"*\"]"], "none would be left"), (AGENT, ["filter.exclude=[\"\"]"], "an empty pattern"),
    (AGENT, ["filter.databases=[3]", "filter.exclude_databases=[3]"], "no database is left"),
    (AGENT, ["filter.map_databases=[\"0=3\"]"], "which database 3 of the table has already"),
    (AGENT, ["filter.map_databases=[\"0-3\"]"], "is no rule"),
    (AGENT, ["filter.rewrite_prefixes=[\"old:=new:\"]"], "names that other keys have"),
    (AGENT, ["filter.rewrite_prefixes=[\"a:=x:\",\"b:=x:\"]"], "overlap on the right side"),
    (AGENT, ["filter.rewrite_prefixes=[\"=eu:\"]", "apply.mode=hybrid"], "use apply.mode=commands"),
    (AGENT, ["filter.map_databases=[\"0=3\",\"3=0\"]", "apply.mode=replica"], "use apply.mode=commands"),
])
def test_what_cannot_work_is_refused_by_the_check_and_at_the_start(bed, program, wrong, named, checked):
    words = [program, *(["--check-config"] if checked else [])]
    base = ["redis.address=unix:///x", "control.socket=" + os.path.join(bed.directory, "ctl"),
            ("proxy" if program == AGENT else "listen") + "=shm:///nonexistent/x"]
    for assignment in base + wrong:
        words += ["--set", assignment]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and named in done.stderr, done


@pytest.mark.parametrize("program, peers", [(PROXY, "listen"), (AGENT, "proxy")])
def test_a_secret_that_is_not_there_is_not_tried_again_and_again(bed, program, peers):
    """By the unit: 2 is what starting again would not mend."""
    words = [program, "--set", "redis.address=unix:///x", "--set", f"{peers}=shm://{bed.directory}/x",
             "--set", f"control.socket={bed.directory}/ctl", "--set", "auth.secret_file=/nonexistent"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "/nonexistent" in done.stderr, done


@pytest.mark.parametrize("program, key", [(PROXY, "listen"), (AGENT, "proxy")])
def test_a_carrier_this_build_lacks_is_refused_before_anything_starts(program, key):
    words = [program, "--check-config", "--set", "redis.address=unix:///x", "--set",
             f"{key}=rdma://10.0.0.1:7471", "--set", "auth.allow_insecure=true"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    maps = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    if "librdmacm" in maps:
        assert done.returncode == 0, done
    else:
        assert done.returncode == 2 and "no rdma carrier" in done.stderr, done


@pytest.mark.parametrize("program", [PROXY, AGENT, CTL])
def test_help_and_version(program):
    for option in ("--help", "--version"):
        done = subprocess.run([program, option], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and done.stdout, (option, done)
