"""The programs are built hardened, and the same wherever they are built."""
import hashlib
import json
import os
import platform
import re
import shlex
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
def test_no_stack_runs_over_into_what_lies_below(program):
    """Each page of a large frame is touched: orq $0, (%rsp), which is a fence only after a lock prefix."""
    if platform.machine() != "x86_64":
        pytest.skip(f"not known for {platform.machine()}")
    with open(program, "rb") as stream:
        assert re.search(rb"(?<!\xf0)\x48\x83\x0c\x24\x00", stream.read())


def need_fortify():
    if option("optimization") in ("0", "plain") or option("b_sanitize") != "none":
        pytest.skip("this build is not optimised, or has a sanitizer: FORTIFY needs the one and not the other")


def commands():
    """Of the sources that go into the programs: file below the top, and the words of its command."""
    with open(os.path.join(BUILD, "compile_commands.json"), encoding="utf-8") as stream:
        for each in json.load(stream):
            path = os.path.relpath(os.path.join(each["directory"], each["file"]), source_of_build())
            if path.startswith(("proto/", "proxy/", "agent/")) and not each["output"].startswith("tests/"):
                yield path, shlex.split(each["command"])


def source_of_build():
    with open(os.path.join(BUILD, "meson-info", "meson-info.json"), encoding="utf-8") as stream:
        return json.load(stream)["directories"]["source"]


@pytest.mark.quick
def test_each_source_is_compiled_with_each_flag():
    """By the build's own record: what only some calls or frames show must not be missing elsewhere."""
    flags = {"-fstack-protector-strong", "-fstack-clash-protection"}
    if platform.machine() == "x86_64":
        flags.add("-fcf-protection=full")
    if option("optimization") not in ("0", "plain") and option("b_sanitize") == "none":
        flags.add("-D_FORTIFY_SOURCE=3")
    found = dict(commands())
    assert len(found) > 100
    without = {path: flags - set(words) for path, words in found.items() if not flags <= set(words)}
    assert not without, without


def checked_calls(words, level, target):
    """The calls that are checked in the object of that command, with another level of FORTIFY_SOURCE."""
    words = [word for word in words if "FORTIFY_SOURCE" not in word and word != "ccache"]
    words[words.index("-o") + 1] = str(target)
    subprocess.run([*words, "-U_FORTIFY_SOURCE", f"-D_FORTIFY_SOURCE={level}", "-Wno-error"], cwd=BUILD, check=True)
    return {name for name in elf.wanted(str(target)) if name.endswith("_chk") and name != "__stack_chk_fail"}


# Of some of their copies the compiler knows the size only while the program runs: the third level checks these, too.
LARGER_AT_THE_THIRD = ("proto/redis/wanted.c", "proto/redis/stream_tls.c")


def test_sizes_known_only_at_run_time_are_checked(tmp_path):
    """The programs' objects have the calls of FORTIFY_SOURCE=3, which the second level lacks."""
    need_fortify()
    found = dict(commands())
    differ = []
    for path in LARGER_AT_THE_THIRD:
        if path in found:
            second, third = (checked_calls(found[path], level, tmp_path / f"{level}.o") for level in (2, 3))
            built = elf.wanted(os.path.join(BUILD, found[path][found[path].index("-o") + 1]))
            assert third <= built, path
            differ += [path] if third - second else []
    assert differ, f"with this compiler no source differs: name another than {LARGER_AT_THE_THIRD}"


@EVERY
def test_calls_that_overflow_are_found(program):
    need_fortify()
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
