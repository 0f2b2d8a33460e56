"""What deploy/observe gives to Prometheus and Grafana: valid, fires, and names metrics that there are."""
import json
import os
import re
import subprocess

import pytest

from lib.metrics import PROMTOOL
from lib.server import TOP

OBSERVE = os.path.join(TOP, "deploy", "observe")
DERIVED = ("_bucket", "_count", "_sum") # of a histogram
STATE = re.compile(r'keywake_(\w+)_state\{[^}]*state="(\w+)"')


def read(*path):
    with open(os.path.join(TOP, *path), encoding="utf-8") as stream:
        return stream.read()


def known():
    return set(re.findall(r"^\| `(\w+)`", read("deploy", "doc", "metrics.md"), re.M))


def unknown(text):
    names = set(re.findall(r"\bkeywake_\w+", text))
    for ending in DERIVED:
        names = {name.removesuffix(ending) if name.removesuffix(ending) in known() else name for name in names}
    return names - known()


def promtool(*words):
    done = subprocess.run([PROMTOOL, *words], cwd=OBSERVE, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def tool(need_server):
    need_server("promtool")


def test_each_alert_fires_and_is_quiet_before():
    promtool("check", "rules", "alerts.yml")
    promtool("test", "rules", "alerts.test.yml")
    alerts = set(re.findall(r"- alert: (\w+)", read("deploy", "observe", "alerts.yml")))
    tests = read("deploy", "observe", "alerts.test.yml")
    fires = set(re.findall(r"alertname: (\w+)\n +exp_alerts:", tests))
    quiet = set(re.findall(r"alertname: (\w+)\n +- eval_time", tests))
    assert alerts == fires == quiet


def test_the_example_of_a_scrape_is_valid(tmp_path):
    for name in os.listdir(OBSERVE):
        text = read("deploy", "observe", name)
        (tmp_path / name).write_text(text.replace("/etc/prometheus/keywake.secret", str(tmp_path / "secret")))
    (tmp_path / "secret").write_text("a secret of sixteen and more")
    promtool("check", "config", str(tmp_path / "prometheus.example.yml"))


@pytest.mark.parametrize("name", ["alerts.yml", "alerts.test.yml", "dashboard.json"])
def test_they_name_metrics_and_states_that_there_are(name):
    text = read("deploy", "observe", name)
    assert unknown(text) == set()
    contract = read("README.md")
    for daemon, state in STATE.findall(text):
        assert f"`{state}`" in contract, f"{daemon} is never {state}"


def test_the_dashboard_is_one_that_grafana_imports():
    board = json.loads(read("deploy", "observe", "dashboard.json"))
    panels = board["panels"]
    assert board["uid"] and board["schemaVersion"] >= 36 and not board.get("id")
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["type"] == "row" or all(target["expr"] and target["refId"] for target in panel["targets"])
    variables = {variable["name"] for variable in board["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(panels))) - {"__rate_interval"}
    assert used == variables, used ^ variables


def test_the_script_shows_an_alert_that_fires_and_ends(need_server):
    need_server("prometheus")
    done = subprocess.run([os.path.join(OBSERVE, "show")], capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search("firing   KeywakeSourceDown(.*\n)*.*The primary is back(.*\n)*.*over     KeywakeSourceDown", done.stdout)
