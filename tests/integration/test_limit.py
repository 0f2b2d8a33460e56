"""apply.bytes_per_second: what the agent writes into its server is bounded, and the agent says when that makes it late."""
import time

from lib import data
from lib.process import wait_for

LIMIT = "apply.bytes_per_second"
SENTENCE = "holds back what goes into the local server"


def test_a_snapshot_takes_as_long_as_the_limit_says(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 2000, length=10_000) # 20 MB
    proxy = bed.proxy(primary)
    proxy.wait_live()
    before = time.monotonic()
    agent = bed.agent(proxy, replica, apply__bytes_per_second=10_000_000)
    agent.wait_passed("bootstrapping", reason=SENTENCE)
    agent.wait_warm()
    took = time.monotonic() - before
    status = agent.status()
    # A twentieth of a second is saved up, and the last record may run into debt.
    assert took >= status["bytes_handed_on"] / 10_000_000 - 0.1 > 1.8, (took, status)
    assert status["apply"]["bytes_per_second"] == 10_000_000 and status["snapshots"] == 1
    assert len(replica.command("KEYS", "*")) == 2000


def test_a_limit_in_a_bootstrap_is_what_explain_lag_says_first(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 2000, length=10_000) # 20 MB: for minutes
    proxy = bed.proxy(primary)
    proxy.wait_live()
    agent = bed.agent(proxy, bed.server("replica"), apply__bytes_per_second=100_000)
    agent.wait_status(lambda status: status["apply"]["limited"] and status["state"] == "bootstrapping", "not limited")
    told = agent.ctl_ok("explain", "lag", proxy.control)
    assert told["present"] == {"agent": "bootstrapping: apply.bytes_per_second=100000 holds changes back: raise it, "
                                        "or set it to 0"}, told
    said = agent.ctl("-o", "table", "explain", "lag", proxy.control).stdout
    assert said.index("At present the agent is bootstrapping: apply.bytes_per_second") < said.index("Of the last"), said
    assert "Nothing has changed" not in said, said


def test_changes_wait_for_the_limit_and_the_agent_says_so(bed):
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 100))
    pair.agent.wait_warm()
    assert pair.agent.status()["apply"]["bytes_per_second"] == 0
    pair.agent.ctl_ok("config", "set", LIMIT, "500000")
    data.fill_plain(pair.primary, 600, length=100_000, prefix="late:") # for two minutes
    status = pair.agent.wait_status(lambda status: status["reason_code"] == "limited" and status["lag_ms"] > 1000,
                                    "the limit is not the reason")
    assert status["state"] == "lagging" and SENTENCE in status["reason"], status
    assert status["apply"]["limited"], status
    done = pair.agent.ctl("explain", "lag")
    assert "apply.bytes_per_second=500000 holds changes back" in done.stdout, done
    assert pair.replica.command("DBSIZE") < 700
    pair.agent.ctl_ok("config", "set", LIMIT, "0")
    pair.settle()
    status = pair.agent.status()
    assert status["snapshots"] == 1 and not status["apply"]["limited"], status


def test_one_value_far_above_the_limit_passes(bed):
    """Its debt is paid afterwards: nothing else gets through meanwhile, and the agent stays connected."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 100), agent={LIMIT: 1_000_000})
    pair.agent.wait_warm()
    before = pair.agent.status()
    pair.primary.command("SETRANGE", "large", 4_000_000, "x")
    wait_for(lambda: pair.replica.command("STRLEN", "large") == 4_000_001, "it does not arrive")
    pair.primary.command("APPEND", "large", "y")
    pair.settle()
    status = pair.agent.status()
    assert status["reconnects"] == before["reconnects"] and status["snapshots"] == before["snapshots"], status


def test_a_mode_that_lets_the_server_load_refuses_a_limit(bed):
    pair = bed.pair(fill=data.fill, agent={"apply.mode": "replica", "apply.consent": True})
    pair.agent.wait_warm()
    done = pair.agent.ctl("config", "set", LIMIT, "10MB")
    assert done.returncode != 0 and "answers no client" in done.stderr, done
    assert pair.agent.status()["apply"]["bytes_per_second"] == 0
    pair.settle()
