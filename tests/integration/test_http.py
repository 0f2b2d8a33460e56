"""HTTP of the real daemons: health, readiness, status, and who may ask."""
import base64
import os
import re
import subprocess

import pytest

from lib import data, http
from lib.daemon import PROXY, free_port
from lib.process import wait_for

pytestmark = pytest.mark.sanitize
SECRET = "a secret of sixteen and more"


def unix(bed, name):
    return f"unix://{os.path.join(bed.directory, name)}.http"


@pytest.mark.quick
def test_each_daemon_tells_health_readiness_and_status(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 10)
    proxy = bed.proxy(primary, http__listen=unix(bed, "proxy"))
    agent = bed.agent(proxy, replica, http__listen=unix(bed, "agent"))
    gateway = bed.gateway(proxy, http__listen=unix(bed, "gateway"), gateway__max_staleness_ms=60_000)
    for daemon, state in ((gateway, "serving"), (agent, "warm"), (proxy, "live")):
        address = daemon.settings["http.listen"]
        assert http.ask(address, "/healthz")[:2] == (200, "ok\n")
        wait_for(lambda: http.ask(address, "/readyz")[0] == 200, f"{daemon.name} is not ready", 60)
        wait_for(lambda: http.ask(address, "/readyz")[1].startswith(f"ready: {state}, lag_ms "), f"never {state}")
        assert set(http.status(address)) == set(daemon.status())
        wait_for(lambda: http.status(address)["state"] == state, f"not {state}")
        assert os.stat(address.removeprefix("unix://")).st_mode & 0o777 == 0o660
        daemon.stop()
        assert not os.path.exists(address.removeprefix("unix://"))


def test_large_numbers_are_the_texts_that_keywakectl_tells(bed):
    """A client with doubles would round an epoch. The control socket has the number, as in version 0.1."""
    pair = bed.pair(proxy={"http__listen": unix(bed, "proxy")}, agent={"http__listen": unix(bed, "agent")})
    for daemon in (pair.proxy, pair.agent):
        address = daemon.settings["http.listen"]
        told = daemon.ctl_ok("status")["epoch"]
        assert re.fullmatch("[0-9a-f]{16}", told) and daemon.status()["epoch"] & (1 << 64) - 1 == int(told, 16)
        assert http.status(address)["epoch"] == told
        assert next(http.events(address))["status"]["epoch"] == told


def test_readiness_follows_the_state_at_once(bed):
    address = unix(bed, "agent")
    pair = bed.pair(fill=data.fill, agent={"http__listen": address})
    wait_for(lambda: http.ask(address, "/readyz?max_lag_ms=60000")[0] == 200, "not ready")
    pair.agent.ctl_ok("pause")
    status, text, _ = http.ask(address, "/readyz")
    assert status == 503 and text.startswith("not ready: "), text
    # On a busy machine another trouble is named for a moment.
    wait_for(lambda: (told := http.ask(address, "/readyz")[1]).startswith("not ready: lagging") and "paused" in told,
             lambda: http.ask(address, "/readyz"))
    assert http.ask(address, "/healthz")[0] == 200
    pair.agent.ctl_ok("resume")
    pair.agent.wait_warm()
    wait_for(lambda: http.ask(address, "/readyz")[0] == 200, "not ready again")
    pair.proxy.kill()
    wait_for(lambda: http.ask(address, "/readyz")[0] == 503, "ready without a proxy")


def test_a_port_asks_for_its_secret_and_takes_up_a_new_one(bed):
    file = bed.file("http-secret", SECRET + "\n")
    address = f"tcp://127.0.0.1:{free_port()}"
    proxy = bed.proxy(bed.server("primary"), http__listen=address, http__secret_file=file)
    login = base64.b64encode(f"keywake:{SECRET}".encode()).decode()
    assert http.ask(address, "/status")[0] == 401
    assert http.status(address, Authorization=f"Basic {login}")["state"]
    assert http.status(address, Authorization=f"Bearer {SECRET}", Host="any.name.example")["state"]
    assert http.ask(address, "/readyz")[1].strip() in ("not ready: connecting", "not ready: scanning", "ready: live")
    bed.file("http-secret", "", mode=0o644)
    assert proxy.ctl("config", "reload").returncode != 0
    assert http.ask(address, "/status", Authorization=f"Bearer {SECRET}")[0] == 200
    bed.file("http-secret", "another secret of sixteen\n")
    proxy.ctl_ok("config", "reload")
    assert http.ask(address, "/status", Authorization=f"Bearer {SECRET}")[0] == 401
    assert http.ask(address, "/status", Authorization="Bearer another secret of sixteen")[0] == 200


def check(*settings):
    words = [word for setting in settings for word in ("--set", setting)]
    return subprocess.run([PROXY, "--check-config", "--set", "redis.address=unix:///nowhere", "--set",
                           "listen=shm:///nowhere.shm", *words], capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("setting, sentence", [
    ("http.listen=tcp://0.0.0.0:9121", "set http.secret_file"),
    ("http.listen=http://127.0.0.1:9121", "use unix:///path/of.sock or tcp://host:port"),
    ("http.secret_file=/nowhere", "no effect without http.listen"),
])
def test_what_cannot_work_is_refused_with_a_remedy(setting, sentence):
    done = check(setting)
    assert done.returncode == 2 and sentence in done.stderr, done.stderr


def test_a_port_that_is_taken_is_told(bed):
    address = f"tcp://127.0.0.1:{free_port()}"
    primary = bed.server("primary")
    bed.proxy(primary, http__listen=address)
    second = bed.proxy(primary, name="second", http__listen=address, start=False)
    second.start(wait=False)
    wait_for(lambda: not second.alive, "the second one runs")
    assert "another process has this port" in second.tail() and second.popen.returncode == 1
