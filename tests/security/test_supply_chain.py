"""What is linked, under which licence, and whether others can build the same programs."""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from lib import elf
from lib.daemon import AGENT, BUILD, CTL, GATEWAY, PROXY
from lib.server import TOP

PAGE = os.path.join(TOP, "deploy", "doc", "security.md")
PROGRAMS = {"proxy": PROXY, "agent": AGENT, "gateway": GATEWAY, "keywakectl": CTL}
DAEMONS = {"proxy", "agent", "gateway"}


def table():
    """library: (the programs that have it, Debian's package, licence), as the page for operators says."""
    with open(PAGE, encoding="utf-8") as stream:
        section = stream.read().split("\n## What is linked\n", 1)[1].split("\n## ", 1)[0]
    rows = {}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            users = {"all": set(PROGRAMS), "daemons": DAEMONS}.get(cells[1], set(cells[1].split(", ")))
            rows[cells[0].strip("`")] = (users, cells[3].strip("`"), cells[4])
    return rows


def stem(library):
    return re.sub(r"\.so.*", "", library)


def test_what_is_linked_stands_in_the_table():
    rows = table()
    for name, program in PROGRAMS.items():
        linked = {stem(library) for library in elf.needed(program)}
        listed = {library for library, (users, _, _) in rows.items() if name in users and library.startswith("lib")}
        optional = {"libsystemd", "libibverbs", "librdmacm"} # of a build without them
        assert linked <= listed and listed - linked <= optional, (name, linked ^ listed)


def test_licences_are_what_the_distribution_says():
    missing = []
    for library, (_, package, licence) in table().items():
        path = f"/usr/share/doc/{package}/copyright"
        if not os.path.exists(path):
            missing.append(package)
            continue
        with open(path, encoding="utf-8", errors="replace") as stream:
            text = re.sub(r"\s+", " ", stream.read())
        for word in licence.split(" or "):
            assert word in text, f"{library}: {path} does not say {word}"
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")


def build(source, folder):
    """The programs, with debug information: their sha256. No cache: it would answer for the other folder."""
    shutil.copytree(source, folder, symlinks=True, ignore=shutil.ignore_patterns("build*", ".git", "__pycache__"))
    environment = dict(os.environ, CC="gcc", CCACHE_DISABLE="1", CFLAGS="-O0 -g")
    for command in (["meson", "setup", "build", "--buildtype=plain", "-Dtests=false"],
                    ["ninja", "-C", "build", "proxy/keywake-proxy", "agent/keywake-agent",
                     "agent/gateway/keywake-gateway", "proto/ctl/keywakectl"]):
        if not os.path.exists(os.path.join(source, "agent", "gateway")): # version 0.1
            command = [word for word in command if "gateway" not in word]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    sums = {}
    for path in glob.glob(os.path.join(folder, "build", "**", "keywake*"), recursive=True):
        if os.path.isfile(path) and os.access(path, os.X_OK) and not path.endswith((".p", ".py")):
            with open(path, "rb") as stream:
                sums[os.path.basename(path)] = hashlib.sha256(stream.read()).hexdigest()
    return sums


@pytest.mark.long
def test_two_builds_in_two_folders_are_equal():
    source = os.path.dirname(BUILD)
    if not os.path.exists(os.path.join(source, "meson.build")):
        source = TOP
    with tempfile.TemporaryDirectory(prefix="kw-built-") as folder:
        one = build(source, os.path.join(folder, "one"))
        other = build(source, os.path.join(folder, "another", "and", "deeper"))
    assert len(one) >= 3 and one == other
