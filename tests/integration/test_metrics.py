"""Metrics of the real daemons: judged by promtool, true, and in step with the page that lists them."""
import os
import resource
import time

import pytest

from lib import data, http, metrics
from lib.process import wait_for
from lib.server import TOP
from lib.tls import Authority

PAGE = os.path.join(TOP, "deploy", "doc", "metrics.md")
NAME = 'agent"x"\\{y="z"}' # of an agent: printable, and of use to forge a label


@pytest.fixture
def three(bed):
    """A proxy, an agent and a gateway, with HTTP; the agent is warm, and has seen a write."""
    def listen(name):
        return f"unix://{bed.directory}/{name}.http"
    shown = {**Authority(bed.directory).wire("shown"), "auth__secret_file": bed.file("secret", "of all of them\n" * 2)}
    keys = bed.file("keys", f"key edge-1 {'5b' * 32} expires=2099-01-31\n")
    pair = bed.pair(fill=data.fill, proxy={"http__listen": listen("proxy"), "auth__keys_file": keys, **shown},
                    agent={"http__listen": listen("agent"), "name": NAME, **shown})
    gateway = bed.gateway(pair.proxy, http__listen=listen("gateway"), **shown, gateway__max_staleness_ms=60_000)
    gateway.wait_serving()
    gateway.client().get("key")
    pair.primary.command("SET", "written", "now")
    pair.settle()
    pair.proxy.wait_live()
    wait_for(lambda: sorted(each["state"] for each in pair.proxy.rpc("agents.list")) == ["serving", "warm"],
             lambda: f"the proxy was told {pair.proxy.rpc('agents.list')}", 30)
    return pair.proxy, pair.agent, gateway


def ask(daemon):
    code, text, headers = http.ask(daemon.settings["http.listen"], "/metrics")
    assert code == 200 and headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", text
    return text


def test_promtool_has_no_complaint_and_the_page_lists_each_metric(three, need_server):
    """The page is made from the same table: a row that differs is shown as it must be."""
    need_server("promtool")
    assert metrics.check("# TYPE x counter\nx 1\n") != "", "promtool complains of nothing"
    with open(PAGE, encoding="utf-8") as stream:
        page = [line for line in stream.read().splitlines() if line.startswith("| `")]
    rows = []
    for daemon in three:
        text = ask(daemon)
        assert metrics.check(text) == "", daemon.name
        rows += [row for row in metrics.page_rows(text) if row not in rows]
    assert [row for row in rows if row not in page] == [], "the page lacks these"
    assert [row for row in page if row not in rows] == [], "these are on the page, and in no answer"


def test_each_tells_what_the_system_knows_of_its_process(three):
    """By the names of Prometheus' client libraries."""
    for daemon in three:
        before = daemon.cpu_seconds()
        text, kind = ask(daemon), os.path.basename(daemon.program).removeprefix("keywake-")
        began = metrics.value(text, f"keywake_{kind}_start_time_seconds")
        assert metrics.families(text)["process_cpu_seconds_total"][0] == "counter"
        assert before - 0.1 <= metrics.value(text, "process_cpu_seconds_total") <= daemon.cpu_seconds() + 0.1
        assert 0 < metrics.value(text, "process_resident_memory_bytes") < 2**32
        # The request of /metrics has one, and others come and go.
        assert abs(metrics.value(text, "process_open_fds") - len(os.listdir(f"/proc/{daemon.pid}/fd"))) <= 3
        assert metrics.value(text, "process_max_fds") == resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)[0]
        assert abs(metrics.value(text, "process_start_time_seconds") - began) < 5


def are_well(proxy, agent, gateway):
    well = (metrics.value(proxy, "keywake_proxy_state", state="live"),
            metrics.value(agent, "keywake_agent_state", state="warm"),
            metrics.value(gateway, "keywake_gateway_state", state="serving"))
    return (proxy, agent, gateway) if well == (1, 1, 1) else None


def test_metrics_are_true(three):
    # On a busy machine each of them is in another state for a moment.
    proxy, agent, gateway = wait_for(lambda: are_well(*map(ask, three)), lambda: [each.status() for each in three], 30)
    for text, name, states in ((proxy, "proxy", ("live", "scanning")), (agent, "agent", ("warm", "lagging")),
                               (gateway, "gateway", ("serving", "stale"))):
        state = f"keywake_{name}_state"
        assert [metrics.value(text, state, state=each) for each in states] == [1, 0]
        assert sum(value for (family, _), value in metrics.read(text).items() if family == state) == 1
        builds = [dict(labels) for family, labels in metrics.read(text) if family == "keywake_build_info"]
        assert [each["program"] for each in builds] == [f"keywake-{name}"], builds
    status = three[1].status()
    assert metrics.value(agent, "keywake_agent_keys_applied_total") == status["keys_applied"] > 0
    assert metrics.value(agent, "keywake_agent_lag_seconds_count") > 0
    assert metrics.value(agent, "keywake_agent_lag_seconds_bucket", le="+Inf") == \
        metrics.value(agent, "keywake_agent_lag_seconds_count")
    assert metrics.value(agent, "keywake_agent_paused") == 0
    assert metrics.value(proxy, "keywake_proxy_reconciles_total", cause="flush") == 0
    three[1].ctl_ok("pause")
    assert metrics.value(ask(three[1]), "keywake_agent_paused") == 1
    check_agents(proxy, agent, gateway)


def states_of(text, family, **labels):
    """state: its value, of the series with these labels."""
    return {dict(told)["state"]: value for (name, told), value in metrics.read(text).items()
            if name == family and set(labels.items()) <= set(told)}


def check_agents(proxy, agent, gateway):
    """The proxy tells of each, under labels that no name can forge, and each state has a series."""
    mine = {"agent": NAME.replace("\\", "\\\\").replace('"', '\\"'), "carrier": "shm", "role": "agent"}
    for role, text, state in (("agent", agent, "warm"), ("gateway", gateway, "serving")):
        told = states_of(proxy, "keywake_proxy_agent_state", role=role)
        assert set(told) == set(states_of(text, f"keywake_{role}_state")) | {"joining", "standby"}
        assert told[state] == 1 and sum(told.values()) == 1, told
    assert metrics.value(proxy, "keywake_proxy_agent_lag_seconds", **mine) >= 0
    assert metrics.value(proxy, "keywake_proxy_agents") == 2


def agent_series(text):
    return {key for key in metrics.read(text) if key[0].startswith("keywake_proxy_agent_")}


def test_a_session_that_comes_again_is_no_new_series(bed):
    proxy = bed.proxy(bed.server("primary"))
    agent = bed.agent(proxy, bed.server("replica"))

    def warm():
        text = proxy.rpc("metrics")["text"]
        return states_of(text, "keywake_proxy_agent_state", agent="agent").get("warm") == 1 and text
    before = agent_series(wait_for(warm, "it is never warm", 60))
    session = proxy.rpc("agents.list")[0]["id"]
    proxy.ctl_ok("disconnect", session)
    wait_for(lambda: [each["id"] for each in proxy.rpc("agents.list")] not in ([], [session]), "it does not come again", 60)
    assert agent_series(wait_for(warm, "it is not warm again", 60)) == before


def test_agents_of_one_name_are_one_series(bed):
    """Two that nobody gave names, on one host: all that they read counts."""
    primary = bed.server("primary")
    data.fill_plain(primary, 10)
    proxy = bed.proxy(primary)
    first = bed.agent(proxy, bed.server("one"))
    second = bed.agent(proxy, bed.server("two"), "second", start=False)
    second.settings["name"] = "agent"
    second.start()
    for agent in (first, second):
        agent.wait_warm()

    def both():
        text = proxy.rpc("metrics")["text"]
        return states_of(text, "keywake_proxy_agent_state", agent="agent").get("warm") == 2 and text
    text = wait_for(both, lambda: proxy.rpc("agents.list"), 60)
    labels = {"agent": "agent", "carrier": "shm", "role": "agent"}
    read = [each["reads"] for each in proxy.rpc("agents.list")]
    assert max(read) < metrics.value(text, "keywake_proxy_agent_reads_total", **labels) <= sum(read)
    assert metrics.check(text) == ""


def test_each_tells_when_its_certificates_run_out_and_a_reload_renews_that(bed):
    """Those in use: a file that was renewed counts after the reload."""
    authority = Authority(bed.directory)
    proxy = bed.proxy(bed.server("primary"), http__listen=f"unix://{bed.directory}/proxy.http",
                      **authority.wire("proxy", days=3))

    def days(key):
        return (metrics.value(ask(proxy), "keywake_certificate_expires_timestamp_seconds", key=key)
                - time.time()) / 86400
    assert 2.9 < days("tls.cert") <= 3 and 29.9 < days("tls.ca") <= 30
    authority.issue("proxy", days=20)
    assert days("tls.cert") <= 3
    told = proxy.status()["certificates"]
    assert set(told) == {"tls.cert", "tls.ca"} and 2.9 < (told["tls.cert"] - time.time()) / 86400 <= 3
    proxy.ctl_ok("config", "reload")
    assert 19.9 < days("tls.cert") <= 20
