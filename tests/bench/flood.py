"""What becomes of a follower when large values come faster than it can take them?"""
from functools import partial

from core.peers import peer
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, catch_up, fill, seconds_until, settle

TITLE = "a flood of large values: is the follower cut, and when is it equal?"
ABOUT = """\
Fifty connections overwrite 10 000 keys with values of one size, as fast as the primary takes them. All follow it
over TCP on loopback, and the primary has the server's default limit: it cuts a follower that lacks 256 MB.

- `cut`: how often that came to pass while the load ran and until the replica was equal.
- `kept_mb`: what the primary kept for its slowest client at most (`client_recent_max_output_buffer`).
- `equal_s`: from the end of the load until the replica holds all of it, by DEBUG DIGEST.
- `shed`: changes that the stream told as keys and not as values, because it was far behind.
"""
# case, bytes a value
CASES = [("1 KiB", 1024), ("8 KiB", 8192), ("32 KiB", 32768)]
KEYS = 10_000
PIPELINE = 4
LIMIT = {"client-output-buffer-limit": "replica 256mb 64mb 60"}
EQUAL_SECONDS = 120


def watched(run, primary, replica, agent, value_bytes):
    """The load, and what INFO tells of it."""
    with primary.client() as client:
        client.config_resetstat()
        found = peer("peer-load", primary.address, "--seconds", run.seconds, "--keys", KEYS,
                     "--pipeline", PIPELINE, "--value-bytes", value_bytes)
        equal_s = catch_up(primary, replica, agent, EQUAL_SECONDS)
        stats, clients = client.info("stats"), client.info("clients")
    return {"sets_s": found["sets_s"], "mb_s": found["sets_s"] * value_bytes / 1e6,
            "cut": stats["sync_full"] + stats["sync_partial_ok"],
            "kept_mb": clients["client_recent_max_output_buffer"] / 1e6, "equal_s": equal_s}


def native(run, value_bytes):
    with Stage() as stage:
        primary, replica = stage.primary(**LIMIT), stage.empty()
        fill(primary, KEYS, value_bytes)
        seconds_until(stage.join_native(primary, replica), what="native full sync")
        settle(primary, replica)
        return watched(run, primary, replica, None, value_bytes)


def keywake(run, feed, value_bytes):
    with Stage() as stage:
        primary, replica = stage.primary(**LIMIT), stage.empty()
        fill(primary, KEYS, value_bytes)
        proxy = stage.proxy(primary, source__feed=feed, redis__address=f"tcp://127.0.0.1:{primary.config['port']}")
        agent, warm = stage.start_agent(proxy, replica)
        seconds_until(warm, what="agent warm")
        settle(primary, replica)
        figures = watched(run, primary, replica, agent, value_bytes)
        figures["shed"] = proxy.status().get("values_shed", 0)
        stage.end(agent)
        return figures


def run(run):
    rows = []
    for case, value_bytes in run.pick(CASES, CASES[:1]):
        sides = run.rounds({"native": partial(native, run, value_bytes),
                            "notifications": partial(keywake, run, "notifications", value_bytes),
                            "stream": partial(keywake, run, "stream", value_bytes)})
        for name, side in sides.items():
            row = make_row(case, side)
            rows.append(hold(row, "cut", AT_MOST, 0) if name == "stream" else row)
    return rows
