"""What is linked, and under which licence."""
import os
import re

import pytest

from lib import elf
from lib.daemon import AGENT, CTL, GATEWAY, PROXY
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
        optional = {"libsystemd", "libibverbs", "librdmacm", "libssl", "libcrypto", "libzstd"} # of a build without them
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
