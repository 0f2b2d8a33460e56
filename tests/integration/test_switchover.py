"""keywakectl switchover: the server of an agent becomes the primary, without Sentinel, and no write is lost."""
import json
import os
import signal
import subprocess
import threading
import time

import pytest
import redis

from lib import data, doc
from lib.compare import assert_equal_now, digest
from lib.daemon import CTL, MODES
from lib.process import SLOW, wait_for
from lib.rpc import Rpc, RpcError
from lib.server import FEED

pytestmark = pytest.mark.sanitize

TEST = "tests/integration/test_switchover.py"
KEYS = 800


class Writers:
    """Clients of the old primary. Each write that was acknowledged is remembered."""

    def __init__(self, server, count=3):
        self.server, self.stopping, self.acknowledged = server, threading.Event(), {}
        self.threads = [threading.Thread(target=self.run, args=(number,)) for number in range(count)]
        for thread in self.threads:
            thread.start()
        wait_for(lambda: len(self.acknowledged) > 20 * count, "nothing is written")

    def run(self, number):
        turn = 0
        with self.server.client() as client:
            client.connection_pool.connection_kwargs["socket_timeout"] = 1
            while not self.stopping.is_set():
                key = f"writer:{number}:{turn}"
                try:
                    client.set(key, turn)
                    self.acknowledged[key] = turn
                    turn += 1
                except redis.exceptions.RedisError:
                    turn += 1 # it waits behind the fence: nobody was told that it is done
                time.sleep(0.002)

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join(60)

    def lost(self, server):
        with server.client() as client:
            keys = sorted(self.acknowledged)
            return [key for key, value in zip(keys, client.mget(keys))
                    if value is None or int(value) != self.acknowledged[key]]


class Pair:
    """The old primary, the server of an agent that shall be the new one, and a proxy beside each."""

    def __init__(self, bed, mode="commands", others=("listed",), saves=True, old_settings=None, **old):
        self.bed, self.saves = bed, saves
        self.first, self.second = bed.server("first", **old), bed.server("second")
        data.fill_plain(self.first, KEYS)
        old_proxy = bed.proxy(self.first, "old", start=False)
        old_proxy.settings.update(old_settings or {})
        self.old = self.daemon(old_proxy, {"authority.by": "operator", "authority.term": 1})
        self.old.wait_live()
        self.agent = self.daemon(bed.agent(self.old, self.second, "beside", start=False, warm__lag_ms=10_000,
                                           **MODES[mode]), {})
        self.agent.wait_warm()
        self.new = self.daemon(bed.proxy(self.second, "new", start=False), {"authority.by": "operator"})
        self.new.wait_state("unconfirmed")
        if FEED == "stream": # its server got another replication id by that, which the agent sees within a second
            time.sleep(1.5)
            self.agent.wait_warm()
        self.others = [self.other(kind) for kind in others]

    def daemon(self, daemon, file):
        """Its proxy and its term stand in the file: what the command line sets cannot be saved."""
        daemon.file = self.bed.file(daemon.name + ".json", json.dumps(file))
        if self.saves:
            folder = f"{self.bed.directory}/{daemon.name}.folder"
            os.mkdir(folder)
            daemon.settings["control.saved_file"] = folder + "/saved.json"
        return daemon.start()

    def other(self, kind):
        agent = self.bed.agent(self.old, self.bed.server(kind), kind + "-agent", start=False)
        agent.settings.pop("proxy")
        proxies = [self.old.address, self.new.address]
        self.daemon(agent, {"proxy": proxies if kind == "listed" else proxies[0]}).wait_warm()
        return agent

    def words(self, *options):
        return [CTL, "--json", "switchover", *(daemon.control for daemon in (self.old, self.new, self.agent)),
                *(other.control for other in self.others), "--proxy", self.new.address,
                *map(str, options)]

    def begin(self, *options):
        return subprocess.Popen(self.words(*options), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def run(self, *options, status=0):
        done = subprocess.run(self.words(*options), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=200 * SLOW, check=False)
        assert done.returncode == status, (done.returncode, done.stdout, done.stderr, self.agent.tail(20))
        return json.loads(done.stdout)

    def terms(self):
        return [proxy.rpc("config.get", path="authority.term") for proxy in (self.old, self.new)]

    def check_switched(self, term=2):
        assert self.terms() == [0, term]
        for other in self.others:
            assert other.status()["history"]["table"]["term"] == term
        self.second.command("SET", "after", 1)
        self.new.wait_live()
        for other in self.others:
            other.wait_warm()
            assert_equal_now(self.second, other.replica)


@pytest.mark.parametrize("mode", [pytest.param("commands", marks=pytest.mark.quick), "replica", "hybrid"])
def test_no_acknowledged_write_is_lost(bed, mode):
    pair = Pair(bed, mode, others=("listed", "single"))
    writers = Writers(pair.first)
    report = pair.run()
    writers.stop()
    assert report["state"] == "retargeted" and report["term"] == 2 and report["next"], report
    assert [step["step"] for step in report["steps"]] == [
        "fenced", "level", "compared", "proven", "deposed", "promoted", "confirmed", "retargeted"], report
    assert writers.lost(pair.second) == []
    assert digest(pair.first) == digest(pair.second)
    pair.check_switched()
    # Nobody calls the old primary's data current any more.
    assert pair.old.status()["state"] == "unconfirmed"
    single = pair.others[1].ctl_ok("config", "get", "--saved")
    assert single == {"proxy": [pair.new.address, pair.old.address]}
    # What was saved outlives both proxies.
    for proxy in (pair.old, pair.new):
        assert proxy.stop() == 0
        proxy.start()
    pair.new.wait_live()
    assert pair.terms() == [0, 2]
    with pair.first.client() as client:
        client.execute_command("CLIENT", "UNPAUSE")


def test_a_dry_run_shows_all_and_changes_nothing(bed):
    pair = Pair(bed, others=("single",))
    version = pair.old.status()["version"]
    report = pair.run("--dry-run")
    assert report["dry_run"] and report["error"] == "" and len(report["steps"]) == 8, report
    assert all(check["result"] == "ok" for check in report["checks"]) and len(report["checks"]) >= 9, report
    assert all(step["asks"] and step["stops"] for step in report["steps"])
    assert pair.terms() == [1, 0] and pair.old.status()["version"] == version
    assert pair.first.command("SET", "written", 1)
    assert pair.agent.alive and pair.others[0].ctl_ok("config", "get", "--saved") == {}
    # What would stop it is said by a dry run, too.
    pair.agent.ctl_ok("pause")
    pair.agent.wait_state("stalled", "paused", "lagging")
    report = pair.run("--dry-run", "--timeout", 1, status=2)
    assert "not warm" in report["error"] and report["state"] == "refused", report
    assert {check["check"] for check in report["checks"] if check["result"] == "no"} == {"the agent is warm"}
    assert pair.run("--timeout", 1, status=2)["state"] == "refused"
    assert pair.terms() == [1, 0]


def assert_undone(pair, report, words):
    assert report["state"] == "undone" and words in report["error"], report
    assert pair.terms() == [1, 0]
    assert pair.first.client().set("goes on", 1)
    pair.agent.wait_warm()
    assert pair.new.status()["state"] == "unconfirmed"


def test_a_failure_before_the_old_primary_is_deposed_undoes_all(bed):
    pair = Pair(bed, others=())
    # Fence: the operator's own command says no.
    assert_undone(pair, pair.run("--fence-command", "false", status=2), "fence command failed")
    # Level: the agent does not apply any more, and Ctrl-C does not wait for the timeout.
    said = pair.bed.directory + "/said"
    command = f'f() {{ echo $1 >>{said}; {CTL} -s {pair.agent.control} pause >/dev/null; }}; f'
    tool = pair.begin("--timeout", 1000, "--fence-command", command)
    assert next_state(tool) == "fenced"
    tool.send_signal(signal.SIGINT)
    out, _ = tool.communicate(timeout=60 * SLOW)
    assert tool.returncode == 1
    pair.agent.ctl_ok("resume")
    assert_undone(pair, json.loads(out), "interrupted")
    with open(said, encoding="utf-8") as stream:
        assert stream.read().split() == ["fence", "open"]
    # The term: the old proxy cannot save any more. Its term is what it was.
    folder = pair.bed.directory + "/old.folder"
    report = pair.run("--fence-command", f"f() {{ mv {folder} {folder}.$1; }}; f", status=2)
    os.rename(folder + ".fence", folder)
    assert report["state"] == "undone" and "control.saved_file" in report["error"], report
    assert_undone(pair, report, "nothing was saved")


STATES = ["fenced", "level", "compared", "proven", "deposed", "promoted", "confirmed"]


def next_state(tool):
    line = tool.stderr.readline()
    assert line.startswith("keywakectl: "), line
    return line.split(": ")[1].strip()


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_that_was_killed_goes_on(bed, mode):
    """Killed once in each state, in a row: the writers lose nothing, and two primaries never have a term."""
    pair = Pair(bed, mode)
    writers = Writers(pair.first)
    for state in STATES:
        tool = pair.begin()
        lines = []
        while not lines or not lines[-1].startswith(f"keywakectl: {state}"):
            line = tool.stderr.readline()
            if not line:
                break # the run before came further than that
            lines.append(line)
        tool.kill()
        tool.communicate()
        assert 0 in pair.terms(), (state, lines)
        assert not lines or lines[-1].split(": ")[1].strip() in (state, "retargeted"), (state, lines)
    report = pair.run()
    assert report["state"] == "retargeted" and report["term"] == 2, report
    writers.stop()
    assert writers.lost(pair.second) == []
    pair.check_switched()


@pytest.mark.notifications
def test_writes_after_a_tool_died_are_not_lost(bed):
    """
    It died when the old primary had lost its term; the fence ended, and clients wrote there again. What the
    proxy misses then, only notifications miss.
    """
    pair = Pair(bed, others=())
    pair.old.ctl_ok("config", "set", "authority.term", "0", "--save")
    pair.first.command("SET", "late", 1)
    pair.agent.wait_state("stalled")
    plan = pair.run("--dry-run")
    assert plan["steps"][0]["step"] == "preflight" and "term back" in plan["steps"][0]["detail"], plan
    assert pair.terms() == [0, 0]
    assert pair.run()["state"] == "retargeted"
    assert pair.second.command("GET", "late") == b"1"
    # The agent has let its server go before the tool died: what was written since then would be lost.
    pair.first.client().execute_command("CLIENT", "UNPAUSE")
    pair.new.ctl_ok("config", "set", "authority.term", "0", "--save")
    # … also if the proxy did not see it.
    pair.old.signal(signal.SIGSTOP)
    pair.first.command("CLIENT", "KILL", "TYPE", "pubsub")
    pair.first.command("SET", "unseen", 1)
    pair.old.signal(signal.SIGCONT)
    # Until it closes what the server closed, it still has its old state.
    wait_for(lambda: pair.first.client().client_list(_type="pubsub"), "no new subscription")
    pair.old.wait_status(lambda status: status["state"] == "unconfirmed" and status["mandate"]["late_losses"] == 1,
                         "it is not connected again")
    report = pair.run(status=2)
    assert report["state"] == "stopped" and "not known whether" in report["error"] and pair.terms() == [0, 0], report
    pair.first.client().execute_command("CLIENT", "UNPAUSE")
    for count, write in enumerate((["FLUSHALL"], ["SET", "lost", 1]), 1): # the first is told of no key
        pair.first.command(*write)
        pair.old.wait_status(lambda status, count=count: status["mandate"]["late_events"] >= count,
                             "the write is not seen")
    report = pair.run(status=2)
    assert report["state"] == "stopped" and "made at the old primary" in report["error"], report
    assert "authority.term 3 --save" in report["next"] and pair.terms() == [0, 0]


def test_two_switchovers_do_not_cross(bed):
    """The second waits for the first, and finds then that nothing is left to do or that it may not."""
    pair = Pair(bed, others=())
    writers = Writers(pair.first)
    first, second = pair.begin("--timeout", 60 * SLOW), pair.begin("--timeout", 60 * SLOW)
    reports = [json.loads(tool.communicate(timeout=300 * SLOW)[0]) for tool in (first, second)]
    writers.stop()
    assert sorted(pair.terms()) == [0, 2], reports
    assert [report["state"] for report in reports].count("retargeted") >= 1, reports
    assert writers.lost(pair.second) == []
    pair.check_switched()


@pytest.mark.parametrize("locked", ["old", "new"])
def test_a_switchover_is_refused_while_another_one_has_the_lock(bed, locked):
    """Of either proxy: the other one may go in the other direction."""
    pair = Pair(bed, others=())
    with Rpc(getattr(pair, locked).control) as other:
        other.call("lock", seconds=600, owner="a person")
        report = pair.run("--timeout", 1, status=2)
        assert report["state"] == "refused" and "another switchover" in report["error"], report
        assert "a person" in report["error"] and f"the {locked} proxy" in report["error"], report
        assert pair.run("--dry-run")["state"] == "preflight" and pair.terms() == [1, 0]
    # Its connection has ended, and with it the lock.
    assert pair.run()["state"] == "retargeted"


def test_two_operators_on_two_hosts_exclude_each_other(bed):
    """The second one has other paths to the same sockets, as ssh forwards them, and goes the other way."""
    pair = Pair(bed, others=())
    folder = bed.directory + "/elsewhere"
    os.mkdir(folder)
    there = {name: f"{folder}/{name}" for name in ("old", "new", "agent")}
    for name, path in there.items():
        os.symlink(getattr(pair, name).control, path)
    go_on = bed.directory + "/go on"
    wait = f'f() {{ until [ $1 = open ] || [ -e "{go_on}" ]; do sleep 0.1; done; }}; f'
    first = pair.begin("--fence-command", wait)
    pair.old.wait_status(lambda status: lock_of(pair.old), "it has no lock")
    for way in (("old", "new"), ("new", "old")):
        second = subprocess.run([CTL, "--json", "switchover", *(there[name] for name in way), there["agent"],
                                 "--timeout", "1"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=60 * SLOW, check=False)
        assert second.returncode == 2 and "another switchover" in second.stderr, second
    assert pair.terms() == [1, 0]
    with open(go_on, "w", encoding="ascii"):
        pass
    report = json.loads(first.communicate(timeout=200 * SLOW)[0])
    assert report["state"] == "retargeted" and pair.terms() == [0, 2], report


def lock_of(proxy):
    """Who has it, by what a refusal says."""
    refused = proxy.ctl("fence", 0)
    return refused.returncode == 2 and refused.stderr


def test_a_fence_has_one_owner_at_a_time(bed):
    primary = bed.server("primary")
    proxy = bed.proxy(primary)
    proxy.wait_live()
    with Rpc(proxy.control) as owner:
        token = owner.call("lock", seconds=600, owner="a person")["lock"]
        assert owner.call("lock", seconds=600, lock=token) == {"lock": token}
        owner.call("fence", seconds=1000, lock=token)
        for words in (["fence", 0], ["fence", 60]):
            refused = proxy.ctl(*words)
            assert refused.returncode == 2 and "(a person)" in refused.stderr, refused
        with primary.client(timeout=0.3) as client, pytest.raises(redis.exceptions.TimeoutError):
            client.set("written", 0)
        with pytest.raises(RpcError, match="another switchover"):
            proxy.rpc("lock", seconds=600)
        with pytest.raises(RpcError, match="lost the lock"):
            proxy.rpc("term", term=1, lock=token + 1)
        owner.call("fence", seconds=0, lock=token)
        # Let go, it is of no use any more.
        owner.call("lock", seconds=0, lock=token)
        with pytest.raises(RpcError, match="lost the lock"):
            owner.call("fence", seconds=1, lock=token)
        # It ends at its time, though the connection stands: that of a tunnel can outlive a host.
        token = owner.call("lock", seconds=0.5)["lock"]
        wait_for(lambda: proxy.ctl("fence", 0).returncode == 0, "the lock does not end")
        with pytest.raises(RpcError, match="lost the lock"):
            owner.call("lock", seconds=600, lock=token)
        owner.call("lock", seconds=600)
    wait_for(lambda: proxy.ctl("fence", 0).returncode == 0, "it outlives its connection")


@pytest.mark.notifications
def test_writes_that_no_event_told_of_are_not_lost(bed):
    """
    The flags lack the classes of hashes and of deletions, and the proxy trusts them. Both writes were
    acknowledged before the fence; the table and the agent know nothing of them, and are equal.
    """
    pair = Pair(bed, others=(), old_settings={"source.flags": "trust"}, notify_keyspace_events="E$")
    pair.first.command("SET", "told", 1)
    assert pair.first.command("HSET", "order:1", "paid", "yes") == 1 and pair.first.command("DEL", "key:7") == 1
    pair.agent.ctl_ok("wait", "warm", "--timeout", 60 * SLOW)
    assert pair.old.status()["state"] == "live" and pair.second.command("EXISTS", "order:1", "key:7") == 1
    report = pair.run()
    assert report["state"] == "retargeted", report
    assert pair.second.command("EXISTS", "order:1") == 1 and pair.second.command("EXISTS", "key:7") == 0
    assert digest(pair.first) == digest(pair.second)
    [compared] = [step["detail"] for step in report["steps"] if step["step"] == "compared"]
    assert f"{KEYS + 1} keys" in compared and "2 that no event had told of were mended" in compared, compared


def test_a_save_behind_the_fence_is_no_change(bed):
    """The server counts anew from then on: events tell that nothing was written."""
    pair = Pair(bed, others=())
    with pair.first.client() as client:
        client.set("changed", 1)
        saved = client.info("persistence")["rdb_last_save_time"]
        wait_for(lambda: client.time()[0] > saved, "time stands still")
        tool = pair.begin("--timeout", 60 * SLOW)
        assert next_state(tool) == "fenced"
        client.save()
        report = json.loads(tool.communicate(timeout=200 * SLOW)[0])
    assert report["state"] == "retargeted", report


@pytest.mark.notifications
def test_a_write_behind_the_fence_that_no_event_tells_undoes_all(bed):
    """Another client ends the pause. The server's own count of changes says so."""
    pair = Pair(bed, others=(), old_settings={"source.flags": "trust"}, notify_keyspace_events="E$")
    tool = pair.begin("--timeout", 60 * SLOW)
    while next_state(tool) != "compared":
        pass
    tool.send_signal(signal.SIGSTOP)
    pair.first.client().execute_command("CLIENT", "UNPAUSE")
    assert pair.first.command("HSET", "order:1", "paid", "yes") == 1
    tool.send_signal(signal.SIGCONT)
    report = json.loads(tool.communicate(timeout=200 * SLOW)[0])
    assert tool.returncode == 1, report
    assert_undone(pair, report, "1 changes were made at the old primary behind the fence")


def test_two_primaries_are_refused(bed):
    pair = Pair(bed, others=())
    pair.new.rpc("config.set", path="authority.term", value=5)
    report = pair.run(status=2)
    assert report["state"] == "refused" and "both proxies have a term" in report["error"], report
    assert pair.terms() == [1, 5]


def as_the_page_calls_them(bed, **daemons):
    """Their sockets, in the folder where its commands run."""
    for name, daemon in daemons.items():
        os.symlink(daemon.control, os.path.join(bed.directory, name))


def test_the_command_of_the_document(bed):
    pair = Pair(bed)
    as_the_page_calls_them(bed, OLD=pair.old, NEW=pair.new, AGENT=pair.agent)
    writers = Writers(pair.first)
    said = doc.run(doc.block(TEST, "command"), bed.directory).stderr
    writers.stop()
    assert writers.lost(pair.second) == []
    assert "keywakectl: retargeted" in said
    pair.others[0].wait_status(lambda status: status["history"]["table"]["term"] == 2, "it does not go along", 60)
    pair.check_switched()


def test_the_promotion_of_the_document(bed):
    """What was written before is there when the promotion runs."""
    pair = bed.pair(agent=MODES["replica"])
    as_the_page_calls_them(bed, A=pair.agent)
    pair.primary.command("SET", "last", 1)
    promotion = f"redis-cli -s {pair.replica.socket} REPLICAOF NO ONE"
    doc.run(doc.fill_in(doc.block(TEST, "promotion"), YOUR_PROMOTION=promotion), bed.directory)
    assert pair.replica.command("GET", "last") == b"1"
    assert pair.replica.command("ROLE")[0] == b"master"


def test_the_term_of_the_document(bed):
    """It outlives a restart, because it is saved."""
    pair = Pair(bed, others=())
    pair.old.ctl_ok("config", "set", "authority.term", "0", "--save")
    as_the_page_calls_them(bed, P=pair.new)
    doc.run(doc.block(TEST, "term"), bed.directory)
    pair.new.wait_live()
    assert pair.new.stop() == 0
    pair.new.start().wait_live()
    assert pair.terms() == [0, 2]


def test_the_commands_by_hand_of_the_document(bed):
    pair = Pair(bed, others=("single",))
    other = pair.others[0]
    as_the_page_calls_them(bed, OLD=pair.old, NEW=pair.new, AGENT=pair.agent, OTHER=other)
    writers = Writers(pair.first)
    doc.run(doc.fill_in(doc.block(TEST, "by hand"), NEW_ADDRESS=pair.new.address, OLD_ADDRESS=pair.old.address),
            bed.directory)
    writers.stop()
    assert writers.lost(pair.second) == []
    other.wait_status(lambda status: status["history"]["table"]["term"] == 2, "it does not go along", 60)
    pair.check_switched()
    # Done by hand, so the command finds nothing left to do.
    assert pair.run()["state"] == "retargeted"


def test_a_fence_ends_by_itself_and_names_the_permission_that_it_needs(bed):
    primary = bed.server("primary")
    proxy = bed.proxy(primary)
    proxy.wait_live()
    began = time.monotonic()
    proxy.ctl_ok("fence", 1)
    with primary.client() as client:
        assert client.get("read") is None
        client.set("written", 1)
        assert time.monotonic() - began > 0.8
        proxy.ctl_ok("fence", 1000)
        proxy.rpc("fence", seconds=0.0001) # no end comes nearer, and only 0 is the end
        with primary.client(timeout=0.3) as other, pytest.raises(redis.exceptions.TimeoutError):
            other.set("written", 0)
        proxy.ctl_ok("fence", 0)
        began = time.monotonic()
        client.set("written", 2)
        assert time.monotonic() - began < 500
    primary.command("ACL", "SETUSER", "default", "-client|pause")
    refused = proxy.ctl("fence", 1)
    assert refused.returncode == 2 and "+client|pause" in refused.stderr, refused
    primary.kill()
    proxy.wait_state("source_down")
    assert "not connected" in proxy.ctl("fence", 1).stderr
