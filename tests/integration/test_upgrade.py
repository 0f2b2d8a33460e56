"""From version 0.1, without a hand laid on it: what it wrote into a replica, byte for byte, and how it appears."""
import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.cursor import NAME, cursor_words, wait_cursor
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 300

# As agents of version 0.1 wrote it; only epoch, version, run and counts are those of the test.
TEXT = "keywake-cursor 1 epoch={epoch} version={version} run_id={run_id} flushes={flushes} held={held} quarantined=0"
LIBRARY = ("#!lua name=keywake_cursor\n{bond}"
           "redis.register_function{{function_name='keywake_cursor', flags={{'no-writes'}},\n"
           "callback=function() return '{text}' end}}\n")
LED = "-- a replica of keywake-agent\n"

MODES = {
    "commands": ({}, ""),
    "hybrid": ({"apply__mode": "hybrid", "apply__consent": True}, ""),
    "replica": ({"apply__mode": "replica", "apply__consent": True}, LED),
    "key": ({"apply__cursor_store": "key"}, None),
}


def store_of(mode):
    return "key" if mode == "key" else "function"


def as_version_1_left_it(pair, mode):
    """The agent has ended. Its cursor becomes the one that version 0.1 would have written."""
    words = cursor_words(pair.replica, store_of(mode))
    text = TEXT.format(**words)
    assert len(words["epoch"]) == 16 and int(words["version"]) > 0, words
    if mode == "key":
        pair.replica.command("SET", NAME, text)
        return
    code = LIBRARY.format(bond=MODES[mode][1], text=text)
    pair.replica.command("CONFIG", "SET", "replica-read-only", "no") # the agent wrote it over its link
    pair.replica.command("FUNCTION", "LOAD", "REPLACE", code)
    pair.replica.command("CONFIG", "SET", "replica-read-only", "yes")


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "replica"])
def test_an_old_cursor_is_resumed_from(bed, mode):
    """Neither a snapshot nor a consent; and the next cursor says whose data these are."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS), agent=MODES[mode][0])
    pair.primary.command("SET", "one more", 1) # so that mode hybrid writes a cursor by commands
    pair.agent.wait_warm()
    wait_cursor(pair.agent, store_of(mode))
    assert pair.agent.stop() == 0
    as_version_1_left_it(pair, mode)
    with pair.primary.client() as client:
        client.set("meanwhile", 1)
        client.delete("key:9")
    pair.agent.settings.pop("apply.consent", None)
    if mode == "hybrid": # which asks for it at each load, and must not load
        pair.agent.settings["apply.consent"] = True
    pair.agent.start()
    pair.agent.wait_warm()
    status = pair.agent.status()
    assert status["snapshots"] == 0 and status["foreign_writes"] == 0, status
    if mode != "key": # the digest sees that key
        assert_equal_now(pair.primary, pair.replica)
    assert pair.agent.ctl("verify").returncode == 0
    assert pair.agent.output().count("an earlier version wrote it") == 1, pair.agent.tail()
    wait_for(lambda: "lease" in cursor_words(pair.replica, store_of(mode)) and
             "replid" in cursor_words(pair.replica, store_of(mode)), "the cursor is still the old one")


@pytest.mark.parametrize("mode", MODES)
def test_an_old_cursor_of_another_table_is_read_anew(bed, mode):
    """Both were upgraded: the new proxy has a new table. Keys that went meanwhile go."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS), agent=MODES[mode][0])
    wait_cursor(pair.agent, store_of(mode))
    assert pair.agent.stop() == 0 and pair.proxy.stop() == 0
    as_version_1_left_it(pair, mode)
    with pair.primary.client() as client:
        client.set("meanwhile", 1)
        client.delete("key:9")
    pair.proxy.start()
    pair.agent.start()
    pair.agent.wait_warm()
    assert pair.agent.ctl("verify").returncode == 0
    status = pair.agent.wait_state("warm") # on a busy machine it lags for a moment
    assert status["snapshots"] == 1 and status["holds"] == 0, status
    if mode != "key":
        assert_equal_now(pair.primary, pair.replica)


@pytest.mark.parametrize("mode", ["commands", "key"])
def test_an_old_agent_that_still_runs_is_named(bed, mode):
    """It signs nothing: its cursor changes, and its connection has the name of all agents."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, KEYS), agent=MODES[mode][0])
    wait_cursor(pair.agent, store_of(mode))
    assert pair.agent.stop() == 0
    as_version_1_left_it(pair, mode)
    with pair.replica.client() as old:
        old.client_setname("keywake-agent")
        old.ping()
        pair.agent.start()
        status = pair.agent.wait_state("failed", reason="an agent of an earlier version writes to this server")
        assert "stop it" in status["reason"], status
        assert pair.replica.command("DBSIZE") == KEYS + (mode == "key")
    pair.agent.wait_warm() # it has ended
    assert pair.agent.ctl("verify").returncode == 0
