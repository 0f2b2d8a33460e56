"""The programs are built hardened, and the same wherever they are built."""
import hashlib
import json
import os
import platform
import shutil
import subprocess

import pytest

from lib import elf
from lib.daemon import AGENT, BUILD, CTL, GATEWAY, PROXY
from lib.server import TOP

PROGRAMS = [PROXY, AGENT, GATEWAY, CTL]
NAMES = [os.path.basename(program) for program in PROGRAMS]


def EVERY(test): # pylint: disable=invalid-name
    return pytest.mark.quick(pytest.mark.parametrize("program", PROGRAMS, ids=NAMES)(test))


def option(name):
    said = subprocess.run(["meson", "introspect", "--buildoptions", BUILD], capture_output=True, text=True, check=True)
    return next(each["value"] for each in json.loads(said.stdout) if each["name"] == name)


@EVERY
def test_addresses_are_drawn_anew_and_relocations_are_read_only(program):
    """PIE; full RELRO: the table of functions is filled in at the start, and cannot be written later."""
    assert {"PIE", "NOW"} <= elf.flags(program)
    assert "GNU_RELRO" in dict(elf.segments(program))


@EVERY
def test_no_memory_is_writable_and_executable(program):
    accesses = elf.segments(program)
    assert ("GNU_STACK", "RW") in accesses
    assert not [kind for kind, access in accesses if "W" in access and "E" in access]


@EVERY
def test_a_smashed_stack_is_found(program):
    assert "__stack_chk_fail" in elf.imports(program)


@EVERY
def test_jumps_land_where_they_may(program):
    """
    Control-flow enforcement: each function that is called by its address begins with a landing pad. The whole
    program is marked for it only if the start files of libc are; those of Debian 12 are not.
    """
    if platform.machine() != "x86_64":
        pytest.skip(f"not known for {platform.machine()}")
    with open(program, "rb") as stream:
        assert stream.read().count(b"\xf3\x0f\x1e\xfa") > 50 # endbr64; without the flag, those of the libc alone
    start = subprocess.run(["cc", "-print-file-name=Scrt1.o"], capture_output=True, text=True, check=True).stdout.strip()
    if {"IBT", "SHSTK"} <= elf.properties(start):
        assert {"IBT", "SHSTK"} <= elf.properties(program)


@EVERY
def test_calls_that_overflow_are_found(program):
    """FORTIFY_SOURCE=3."""
    if option("optimization") in ("0", "plain") or option("b_sanitize") != "none":
        pytest.skip("this build is not optimised, or has a sanitizer: FORTIFY needs the one and not the other")
    assert [name for name in elf.imports(program) if name.endswith("_chk") and name != "__stack_chk_fail"]


@EVERY
def test_no_path_of_the_build_is_in_a_program(program):
    with open(program, "rb") as stream:
        text = stream.read()
    assert os.path.dirname(BUILD).encode() + b"/" not in text
    assert b"RUNPATH" not in elf.readelf(program, "-d").encode()


@pytest.mark.long
def test_two_builds_of_the_same_sources_are_equal(tmp_path):
    """In two folders, of names of different length. Of the programs, two that have most of the libraries."""
    targets = [os.path.relpath(program, BUILD) for program in (PROXY, CTL)]
    sums = []
    for name in ("a", "another-folder"):
        source = tmp_path / name
        for part in ("proto", "proxy", "agent", "deploy", "systemd"):
            shutil.copytree(os.path.join(TOP, part), source / part)
        for part in ("meson.build", "meson_options.txt"):
            shutil.copy(os.path.join(TOP, part), source)
        options = ["-Dtests=false", "-Dmanpages=disabled", "-Doptimization=0", "-Ddebug=true"]
        subprocess.run(["meson", "setup", "build", *options], cwd=source, check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "CC": "cc"}) # no cache: it would hand over the other one's objects
        subprocess.run(["ninja", "-C", "build", "--quiet", *targets], cwd=source, check=True)
        sums.append([hashlib.sha256((source / "build" / target).read_bytes()).hexdigest() for target in targets])
    assert sums[0] == sums[1]
