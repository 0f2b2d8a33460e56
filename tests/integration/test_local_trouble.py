"""A local server that cannot take what it gets: said, waited for, and carried on."""
import os
import signal
import time

import pytest

from lib import data
from lib.busy import Busy
from lib.compare import assert_equal_now, key_counts
from lib.cursor import cursor_words, wait_cursor
from lib.daemon import free_port
from lib.process import wait_for
from lib.rpc import Rpc

pytestmark = pytest.mark.sanitize


def test_local_server_full(bed):
    """OOM: no key is lost, the agent lags and says why, and goes on when there is room."""
    pair = bed.pair(replica_config={"maxmemory": "20mb", "maxmemory-policy": "noeviction"})
    data.fill_plain(pair.primary, 400, length=100_000)
    status = pair.agent.wait_state("lagging", reason="maxmemory")
    assert status["state"] == "lagging"
    pair.replica.command("CONFIG", "SET", "maxmemory", "200mb")
    pair.settle()


def test_deletes_make_room_in_a_full_local_server(bed):
    pair = bed.pair(replica_config={"maxmemory": "20mb"})
    data.fill_plain(pair.primary, 100, length=100_000)
    pair.settle()
    data.fill_plain(pair.primary, 200, length=100_000, prefix="too much:")
    pair.agent.wait_state("lagging", reason="maxmemory")
    with pair.primary.client() as client:
        client.delete(*[f"too much:{i}" for i in range(200)])
        client.set("fits", 1)
    pair.settle()


def test_local_server_that_evicts_is_told(bed):
    pair = bed.pair(replica_config={"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"})
    wait_for(lambda: "policy" in pair.agent.output().lower(), "the policy is not told")


def test_a_local_server_without_flushdb(bed):
    """Renamed away, as careful operators do: its keys must go all the same."""
    config = bed.file("renamed.conf", 'rename-command FLUSHDB ""\n')
    pair = bed.pair(fill=lambda primary: data.fill(primary, (0, 10)),
                    replica_config={"include": config})
    pair.settle()
    with pair.primary.client() as client:
        pipe = client.pipeline(transaction=False)
        for _ in range(3):
            pipe.flushdb().mset({"": 1, "later": 1})
        pipe.execute()
    pair.settle()
    pair.primary.command("FLUSHALL")
    pair.primary.command("SET", "later", 2)
    pair.settle()
    status = pair.agent.status()
    assert status["quarantined_ever"] == 0 and status["snapshots"] == 1, status
    assert pair.agent.output().count("databases are emptied by SCAN") == 1


def evicting_pair(bed):
    """It holds half of what it was given."""
    pair = bed.pair(replica_config={"maxmemory": "20mb", "maxmemory-policy": "allkeys-random"})
    data.fill_plain(pair.primary, 300, length=100_000)
    wait_for(lambda: pair.replica.command("INFO", "stats")["evicted_keys"] > 0, "nothing is evicted")
    return pair


def test_what_the_local_server_evicted_is_known_and_brought_back(bed):
    pair = evicting_pair(bed)
    status = pair.agent.wait_state("lagging", reason="evicted")
    assert "maxmemory" in status["reason"] and status["keys_evicted"] > 0, status
    done = pair.agent.ctl("wait", "warm", "--timeout", 5)
    assert done.returncode == 3, (done, pair.agent.status()) # reconciles do not help here
    pair.replica.command("CONFIG", "SET", "maxmemory", "200mb")
    pair.settle()


@pytest.mark.parametrize("end", ["term", "kill"])
def test_what_the_local_server_evicted_is_not_forgotten_by_the_next_agent(bed, end):
    pair = evicting_pair(bed)
    pair.agent.wait_state("lagging", reason="evicted")
    time.sleep(0.5)
    pair.agent.kill() if end == "kill" else pair.agent.stop()
    pair.replica.command("CONFIG", "SET", "maxmemory", "200mb")
    pair.agent.restart()
    pair.settle()


@pytest.mark.parametrize("restart", ["no", "before", "after", "both"])
def test_what_the_local_server_evicts_while_no_agent_runs_is_known(bed, restart):
    """Behind a restart its counts say nothing of it: neither those of before nor those of after."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 100, length=100_000))
    wait_cursor(pair.agent)
    assert pair.agent.stop() == 0

    def save_and_restart():
        pair.replica.command("SAVE")
        pair.replica.kill()
        pair.replica.restart()

    if restart in ("before", "both"):
        save_and_restart()
    pair.replica.command("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
    pair.replica.command("CONFIG", "SET", "maxmemory", "10mb")
    pair.replica.command("SET", "more", b"x" * 1_000_000)
    wait_for(lambda: 60 < pair.replica.command("DBSIZE") < 95, "too few are evicted, or too many")
    if restart in ("after", "both"):
        pair.replica.config.update({"maxmemory": "200mb", "maxmemory-policy": "allkeys-random"})
        save_and_restart()
    else:
        pair.replica.command("CONFIG", "SET", "maxmemory", "0")
    pair.agent.restart()
    pair.settle()


def test_local_server_that_is_a_replica(bed):
    """READONLY: refused with the remedy, and taken up when it is writable."""
    primary, other = bed.server("primary"), bed.server("other")
    replica = bed.server("replica", replica_serve_stale_data="yes")
    port = free_port()
    other.command("CONFIG", "SET", "port", port)
    replica.command("REPLICAOF", "127.0.0.1", port)
    data.fill(primary)
    agent = bed.agent(bed.proxy(primary), replica)
    status = agent.wait_state("failed")
    assert "replica" in status["reason"].lower() and "no one" in status["reason"].lower(), status
    replica.command("REPLICAOF", "NO", "ONE")
    agent.wait_warm()


def test_local_server_becomes_a_replica_later(bed):
    pair = bed.pair(fill=data.fill)
    other = bed.server("other", repl_diskless_sync_delay=5) # it sends no data before the end
    port = free_port()
    other.command("CONFIG", "SET", "port", port)
    pair.replica.command("REPLICAOF", "127.0.0.1", port)
    with pair.primary.client() as client:
        client.set("while read-only", 1)
    pair.agent.wait_status(lambda status: status["state"] != "warm" and status["reason"],
                           "no reason is told")
    pair.replica.command("REPLICAOF", "NO", "ONE")
    pair.agent.wait_warm()
    pair.wait_equal()


def test_local_server_loading(bed):
    pair = bed.pair(replica_config={"key-load-delay": "200", "loading-process-events-interval-bytes":
                                    "1024"}) # microseconds a key: half a second and more
    data.fill_plain(pair.primary, 5000)
    pair.settle()
    pair.replica.command("SAVE")
    pair.replica.kill()
    # Before it is back: the load may be over when this looks.
    wait_for(lambda: pair.agent.status()["state"] != "warm", "warm although the server went away")
    pair.replica.start(wait=False)
    with pair.primary.client() as client:
        client.set("while loading", 1)
    pair.replica.wait_ready()
    pair.settle()


@pytest.mark.parametrize("away", [False, True])
def test_local_server_busy_with_a_script(bed, away):
    """It passes: not failed, and no right is missing; nor when the agent comes only then."""
    pair = bed.pair(fill=data.fill)
    pair.settle()
    if away:
        assert pair.agent.stop() == 0
    seen = []
    with Busy(pair.replica):
        if away:
            pair.agent.restart()
        pair.primary.command("SET", "meanwhile", 1)
        wait_for(lambda: seen.append(pair.agent.status()) or "BUSY" in seen[-1]["reason"],
                 "no word of it")
        until = time.monotonic() + 3
        while time.monotonic() < until:
            seen.append(pair.agent.status())
            time.sleep(0.05)
    assert not [one for one in seen if one["state"] == "failed" or "ACL" in one["reason"]], seen[-1]
    pair.settle()
    assert pair.agent.status()["local_reconnects"] == 1


def test_a_database_first_wanted_while_the_server_is_busy(bed):
    """BUSY in answer to SELECT does not say that there is no such database."""
    pair = bed.pair(fill=data.fill)
    pair.settle()
    with Busy(pair.replica):
        pair.primary.command("SET", "key", 1, db=7)
        status = pair.agent.wait_state("lagging", reason="BUSY")
        time.sleep(1)
    pair.settle()
    status = pair.agent.status()
    assert status["quarantined_ever"] == 0 and status["snapshots"] == 1, status


def test_local_server_that_cannot_save(bed):
    """MISCONF: writes are refused after a failed background save."""
    pair = bed.pair(replica_config={"save": "1000000 1000000", "stop-writes-on-bgsave-error": "yes"})
    # A target folder where the dump cannot be renamed to.
    os.mkdir(os.path.join(pair.replica.directory, "dump.rdb"))
    pair.replica.command("BGSAVE")
    with pair.replica.client() as client:
        wait_for(lambda: client.info("persistence")["rdb_last_bgsave_status"] == "err", "no failure")
    with pair.primary.client() as client:
        client.set("refused", 1)
    pair.agent.wait_status(lambda status: status["state"] == "lagging" and "MISCONF" in status["reason"],
                           "the refusal is not told")
    pair.replica.command("CONFIG", "SET", "stop-writes-on-bgsave-error", "no")
    pair.settle()


@pytest.mark.quick
def test_local_server_with_data_of_its_own_is_not_touched(bed):
    """Without consent, foreign keys are safe; with it they are replaced."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    with replica.client(3) as client:
        client.mset({"precious": 1, "string": 2})
    agent = bed.agent(bed.proxy(primary), replica)
    status = agent.wait_state("failed")
    assert "apply.consent" in status["reason"] and "2" in status["reason"], status
    time.sleep(1.5)
    with replica.client(3) as client:
        assert client.dbsize() == 2
    assert agent.stop() == 0
    agent.settings["apply.consent"] = True
    agent.start()
    agent.wait_warm()
    assert_equal_now(primary, replica)


def test_local_server_replaced_by_an_empty_one(bed):
    pair = bed.pair(fill=data.fill)
    pair.settle()
    pair.replica.kill()
    pair.replica.restart(keep_data=False)
    pair.agent.wait_warm()
    pair.wait_same()


@pytest.mark.quick
@pytest.mark.core
def test_local_data_flushed_behind_our_back(bed):
    """The same server, but its data is gone: found and mended without a restart."""
    pair = bed.pair(fill=lambda primary: data.fill(primary, (0, 10)))
    pair.settle()
    pair.replica.command("FLUSHDB", db=10)
    pair.wait_equal()
    pair.replica.command("FLUSHALL")
    pair.wait_equal()
    pair.settle()


@pytest.mark.parametrize("words", ["CONFIG RESETSTAT, FLUSHALL", "FLUSHALL, CONFIG RESETSTAT",
                                   "CONFIG RESETSTAT, SWAPDB 0 10", "CONFIG RESETSTAT"])
def test_local_data_flushed_behind_a_reset_of_the_counts(bed, words):
    """The count of flushes is as it was; and a reset alone costs nothing."""
    pair = bed.pair(fill=lambda primary: data.fill(primary, (0, 10)))
    pair.settle()
    pair.replica.command("FLUSHALL")
    pair.agent.wait_status(lambda status: status["snapshots"] == 2, "the flush is not seen")
    pair.settle()
    pair.agent.wait_status(lambda status: status["local"]["keys"] == sum(key_counts(pair.replica).values()),
                           "it has not looked since the snapshot")
    with pair.replica.client() as client:
        pipe = client.pipeline(transaction=True)
        for word in words.split(", "):
            pipe.execute_command(word)
        pipe.execute()
    if "," in words:
        pair.agent.wait_status(lambda status: status["snapshots"] == 3, "the flush is not seen")
    else:
        time.sleep(2.2)
    pair.settle()
    assert pair.agent.status()["snapshots"] == (3 if "," in words else 2)


def test_local_data_flushed_while_the_agent_was_away(bed):
    pair = bed.pair(fill=data.fill)
    pair.settle()
    assert pair.agent.stop() == 0
    pair.replica.command("FLUSHALL")
    pair.agent.restart()
    pair.settle()


@pytest.mark.parametrize("store", ["function", "key"])
def test_local_data_flushed_and_the_server_restarted_while_the_agent_was_away(bed, store):
    """The count of flushes begins anew with the server; that a database lost its keys remains."""
    pair = bed.pair(fill=lambda primary: data.fill(primary, (0, 10)),
                    agent={"apply__cursor_store": store})
    pair.settle() if store == "function" else pair.agent.wait_warm()
    wait_cursor(pair.agent, store)
    assert pair.agent.stop() == 0
    pair.replica.command("FLUSHDB", db=10)
    pair.replica.command("SAVE")
    pair.replica.kill()
    pair.replica.restart()
    pair.agent.restart()
    pair.agent.wait_warm()
    with pair.primary.client(10) as left, pair.replica.client(10) as right:
        assert right.dbsize() == left.dbsize() > 0
    if store == "function":
        pair.settle()


def test_a_flush_that_cannot_be_mended_yet_is_known_to_the_next_agent(bed):
    """
    SWAPDB of two databases with as many keys. The proxy's first scan is not complete, so no snapshot can
    mend it yet. The restart of the server then clears the counts that tell of it.
    """
    primary, replica = bed.server("primary"), bed.server("replica")
    for database, keys in ((0, 300), (1, 300), (2, 20_000)):
        data.fill_plain(primary, keys, database=database, prefix=f"{database}:")
    proxy = bed.proxy(primary, source__keys_per_second=300)
    agent = bed.agent(proxy, replica, apply__audit_keys_per_second=0)
    wait_for(lambda: key_counts(replica).get(0) == key_counts(replica).get(1) == 300,
             "the first databases do not come", 30)
    wait_for(lambda: int(cursor_words(replica).get("version", "0")) > 600, "no position is kept", 30)
    replica.command("SWAPDB", 0, 1)
    agent.wait_state("reconciling", reason="first scan")
    wait_for(lambda: cursor_words(replica).get("version") == "0",
             lambda: f"a position is still claimed: {cursor_words(replica)}")
    replica.command("SAVE")
    agent.kill()
    replica.kill()
    proxy.ctl_ok("config", "set", "source.keys_per_second", "0")
    proxy.wait_live()
    replica.restart()
    agent.restart()
    agent.wait_warm()
    assert_equal_now(primary, replica)


def test_writes_that_an_agent_finds_at_its_start_are_known_to_the_next_one(bed):
    """The first agent has no table to mend them by. The restart of the server clears the counts that tell of them."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 2000),
                    agent={"apply__audit_keys_per_second": 0})
    pair.settle()
    wait_cursor(pair.agent)
    assert pair.agent.stop() == 0
    pair.proxy.kill()
    for number in range(50):
        pair.replica.command("SET", f"key:{number}", "written by another client")
    pair.agent.restart()
    wait_for(lambda: cursor_words(pair.replica).get("version") == "0",
             lambda: f"a position is still claimed: {cursor_words(pair.replica)}")
    pair.replica.command("SAVE")
    pair.agent.kill()
    pair.replica.kill()
    pair.replica.restart()
    pair.proxy.restart()
    pair.agent.restart()
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


def test_a_restarted_server_with_its_data_is_not_read_anew(bed):
    """The counts of keys do not mistake ordinary coming and going for a loss."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 20_000))
    pair.settle()
    wait_cursor(pair.agent)
    assert pair.agent.stop() == 0
    pair.replica.command("SAVE")
    pair.replica.kill()
    pair.replica.restart()
    with pair.primary.client() as client:
        client.delete(*[f"key:{i}" for i in range(5000)])
    pair.agent.restart()
    pair.settle()
    assert pair.agent.status()["keys_applied"] < 6000, pair.agent.status()


def test_local_server_hangs(bed):
    pair = bed.pair(fill=data.fill)
    pair.replica.signal(signal.SIGSTOP)
    with pair.primary.client() as client:
        client.set("meanwhile", 1)
    done = pair.agent.ctl("wait", "warm", "--timeout", 2)
    assert done.returncode == 3, done
    assert pair.agent.wait_state("lagging", "connecting", "stalled", "failed")["state"] != "warm"
    pair.replica.signal(signal.SIGCONT)
    pair.settle()


def test_what_came_in_before_the_question_is_in_the_answer(bed):
    """The server is gone, and then somebody asks: the agent, held up, meets both at once."""
    pair = bed.pair()
    for _ in range(3):
        pair.agent.signal(signal.SIGSTOP)
        pair.replica.kill()
        with Rpc(pair.agent.control) as rpc:
            rpc.send(b'{"jsonrpc":"2.0","id":1,"method":"status"}\n')
            pair.agent.signal(signal.SIGCONT)
            status = rpc.receive()["result"]
        assert status["state"] != "warm" and status["reason"], status
        pair.replica.restart()
        pair.agent.wait_warm()


@pytest.mark.parametrize("words", [("FLUSH",), ("DELETE", "keywake_cursor"), ("RESTORE", "FLUSH")])
def test_a_cursor_done_away_with_is_written_again(bed, words):
    """As by whoever brings functions of their own: the next agent must not take the data for others'."""
    pair = bed.pair(fill=data.fill)
    pair.settle()
    wait_cursor(pair.agent)
    if words[0] == "RESTORE":
        words = ("RESTORE", bed.server("other").command("FUNCTION", "DUMP"), "FLUSH")
    pair.replica.command("FUNCTION", *words)
    wait_for(lambda: pair.replica.command("FUNCTION", "LIST"), "it is not written again", 20)
    assert pair.agent.stop() == 0
    pair.agent.restart()
    pair.settle()
    assert pair.agent.status()["snapshots"] == 0


def test_the_cursor_is_not_in_the_keyspace(bed):
    pair = bed.pair(fill=data.fill)
    pair.settle()
    with pair.primary.client() as left, pair.replica.client() as right:
        assert left.dbsize() == right.dbsize()


def test_the_cursor_as_a_key_is_not_replicated_onward(bed):
    """apply.cursor_store=key: a chain of replicas, each with a cursor of its own."""
    pair = bed.pair(fill=data.fill, agent={"apply__cursor_store": "key"})
    third = bed.server("third")
    proxy = bed.proxy(pair.replica, name="proxy-2")
    agent = bed.agent(proxy, third, name="agent-2", apply__cursor_store="key")
    with pair.primary.client() as client:
        client.set("down the chain", 1)
    pair.agent.wait_warm()
    agent.wait_warm()
    for one in (pair.agent, agent):
        wait_cursor(one, "key")
    with pair.primary.client() as client:
        expected = sorted(client.keys())
    for server in (pair.replica, third):
        with server.client() as client:
            own = set(client.keys()) - set(expected)
            assert len(own) == 1 and sorted(set(client.keys()) - own) == expected, own
