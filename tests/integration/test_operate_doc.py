"""What deploy/doc/operate.md shows and a scene is needed for, run to the letter (tests/docs runs the rest)."""
import json
import os
import subprocess

import pytest

from lib import data, doc
from lib.compare import assert_equal_now
from lib.cursor import NAME as CURSOR
from lib.cursor import wait_cursor
from lib.process import wait_for
from test_held import KEYS, backup, come_back_empty, fill, restore, wait_held

TEST = "tests/integration/test_operate_doc.py"


def link(bed, **daemons):
    """P and A, as the page calls them, in the folder where its commands run."""
    for name, daemon in daemons.items():
        os.symlink(daemon.control, os.path.join(bed.directory, name))


def configured(daemon, **more):
    """The daemon's settings stand in a file, as those of an installation do."""
    keys = {**daemon.settings, **more}
    daemon.file = os.path.join(daemon.directory, daemon.name + ".json")
    with open(daemon.file, "w", encoding="utf-8") as stream:
        json.dump(keys, stream)
    os.chmod(daemon.file, 0o600)
    daemon.settings = {}
    return daemon


def test_when_it_is_held(bed):
    """The commands show what the page says that they show; then the keys are back, and it goes on by itself."""
    pair = bed.pair(fill=fill, proxy={"source__feed": "notifications"})
    keys = backup(pair.primary)
    come_back_empty(pair)
    wait_held(pair)
    link(bed, P=pair.proxy)
    said = doc.run(doc.block(TEST, "held"), bed.directory, doc.redis_cli(bed, pair.primary)).stdout
    assert f'"missing_keys": {KEYS}' in said.replace('":', '": ').replace("  ", " "), said
    keyspace = said.split("# Keyspace")[1].split("# Server")[0]
    assert "db0" not in keyspace and "uptime_in_seconds:" in said, said
    restore(pair.primary, keys)
    pair.agent.wait_warm()
    assert_equal_now(pair.primary, pair.replica)


def test_the_doctor(bed):
    """A sound pair: exit 0 each, and nothing is wrong. A file with a mistake: exit 2."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 100))
    link(bed, A=pair.agent)
    script, named = doc.block(TEST, "doctor"), "/etc/keywake/agent-NAME.json"
    assert named in script
    keys = {**pair.agent.settings, "control.socket": bed.directory + "/other.ctl"}
    path = bed.file("agent.json", json.dumps(keys))
    said = doc.run(script.replace(named, path), bed.directory).stdout
    assert '"severity": "wrong"' not in said, said
    wrong = bed.file("agent.json", json.dumps({**keys, "proxy": "shm:///nowhere"}))
    done = doc.run(script.replace(named, wrong), bed.directory, check=False)
    assert done.returncode == 2 and "/nowhere" in done.stdout, done


def test_what_is_saved(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, 100)
    first, second = bed.proxy(primary, "first"), bed.proxy(primary, "second")
    agent = bed.agent(first, replica, start=False)
    os.mkdir(bed.directory + "/saved")
    saved = bed.directory + "/saved/agent.json"
    configured(agent, **{"control.saved_file": saved}).start().wait_warm()
    link(bed, A=agent)
    script = doc.fill_in(doc.block(TEST, "saved"), **{"tcp://10.0.0.8:7471": second.address})
    assert second.address in doc.run(script, bed.directory).stdout
    agent.wait_status(lambda status: status["proxy"] == second.address and status["state"] == "warm", "it stays")
    agent.stop()
    assert agent.start().wait_warm()["proxy"] == second.address
    # "To go back to the file, delete control.saved_file and restart the daemon."
    agent.stop()
    os.remove(saved)
    assert agent.start().wait_warm()["proxy"] == first.address


@pytest.mark.parametrize("mode", ["commands", "replica"])
def test_going_back(bed, mode):
    """The cursor is deleted, and the agent reads everything anew with consent for one start."""
    pair = bed.pair(fill=lambda primary: data.fill_plain(primary, 300),
                    agent={"apply__mode": mode, "apply__consent": mode == "replica"})
    wait_cursor(pair.agent)
    assert pair.agent.stop() == 0
    configured(pair.agent, **{"apply.consent": False})
    os.symlink(pair.replica.socket, bed.directory + "/REPLICA.sock")
    script = doc.block(TEST, "going back").replace("/etc/keywake/agent-NAME.json", pair.agent.file)
    assert CURSOR in script
    with open(bed.directory + "/going-back.log", "w", encoding="utf-8") as log:
        shell = subprocess.Popen(["bash", "-euxc", script], cwd=bed.directory, stdin=subprocess.DEVNULL, stdout=log,
                                 stderr=log, env={**os.environ, "PATH": doc.PATH})
        try:
            wait_for(lambda: (pair.agent.try_status() or {}).get("state") == "warm", "the agent is not warm", 60)
            assert pair.agent.status()["snapshots"] == 1
            assert_equal_now(pair.primary, pair.replica)
            pair.agent.rpc("shutdown")
            assert shell.wait(60) == 0
        finally:
            shell.kill()
            shell.wait()
