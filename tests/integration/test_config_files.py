"""Configuration files with comments and includes, in daemons that run."""
import json
import os
import signal
import subprocess

import pytest

from lib.daemon import CTL, PROXY


@pytest.fixture
def included(bed):
    """A proxy that reads a file with comments, and those of a folder."""
    primary = bed.server("primary")
    folder = os.path.join(bed.directory, "proxy.d")
    os.mkdir(folder)
    path = bed.file("proxy.json", f'''// The proxy of the test.
{{
    "redis": {{"address": "{primary.address}"}}, /* local */
    "listen": ["shm://{bed.directory}/x.shm",],
    "table": {{"max_bytes": "64MiB"}}, // the files of proxy.d say more
    "include": ["proxy.d/*.json"],
    "control": {{"socket": "{bed.directory}/proxy.ctl", "saved_file": "{bed.directory}/saved.json"}},
}}
''')
    proxy = bed.proxy(primary, start=False)
    proxy.control = os.path.join(bed.directory, "proxy.ctl")
    proxy.argv = [PROXY, "--config", path]
    proxy.spawn()
    proxy.wait_live()
    return proxy, path, folder


def write(folder, name, text):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
        stream.write(text)


def capacity(proxy):
    return proxy.status()["table"]["capacity_bytes"]


def source(proxy, key):
    return proxy.ctl_ok("config", "get", key, "--sources")[key]["source"]


def test_a_reload_reads_included_files_again(included):
    proxy, path, folder = included
    assert capacity(proxy) == 64 << 20 and source(proxy, "table.max_bytes") == path
    write(folder, "50-size.json", '{"table.max_bytes": "96MiB"} // more')
    proxy.ctl_ok("config", "reload")
    assert capacity(proxy) == 96 << 20
    assert source(proxy, "table.max_bytes") == os.path.join(folder, "50-size.json")
    write(folder, "60-size.json", '{"table.max_bytes": "128MiB"}')
    proxy.signal(signal.SIGHUP)
    proxy.wait_status(lambda status: status["table"]["capacity_bytes"] == 128 << 20, "no reload")
    write(folder, "70-wrong.json", '{\n"table": {"max_bites": 1}}')
    done = proxy.ctl("config", "reload")
    assert done.returncode == 2 and "70-wrong.json: unknown key table.max_bites" in done.stderr, done
    assert capacity(proxy) == 128 << 20


def test_saving_touches_no_file_that_a_person_writes(included):
    proxy, path, _ = included
    with open(path, encoding="utf-8") as stream:
        before = stream.read()
    proxy.ctl_ok("config", "set", "table.max_bytes", "80MiB", "--save")
    with open(path, encoding="utf-8") as stream:
        assert stream.read() == before
    saved = os.path.join(os.path.dirname(path), "saved.json")
    with open(saved, encoding="utf-8") as stream:
        assert json.load(stream) == {"table.max_bytes": 80 << 20}
    assert source(proxy, "table.max_bytes") == saved
    proxy.ctl_ok("config", "reload")
    assert capacity(proxy) == 80 << 20
    write(os.path.dirname(path), "saved.json", '{"table.max_bytes": 83886080} // mine')
    done = proxy.ctl("config", "set", "table.max_bytes", "90MiB", "--save")
    assert done.returncode != 0 and "has comments" in done.stderr, done
    assert capacity(proxy) == 80 << 20


def test_sources_are_a_table_for_people(included):
    proxy, path, _ = included
    proxy.ctl_ok("config", "set", "log.level", "debug")
    said = subprocess.run([CTL, "-s", proxy.control, "-o", "table", "config", "get", "--sources"], capture_output=True,
                          text=True, check=True, timeout=60).stdout
    rows = {line.split()[0]: line.split(None, 1)[1] for line in said.splitlines() if "." in line.split()[0]}
    assert rows["redis.address"].endswith(path), said
    assert rows["log.level"].split(None, 1) == ['"debug"', "config set"], said
    assert rows["source.flags"].split() == ['"set"', "default"], said
    done = proxy.ctl("config", "get", "log", "--saved")
    assert done.returncode == 1 and "--saved" in done.stderr, done
