"""The daemons' manual pages say all that the programs know: no key and no option is left out."""
import os
import re
import shutil
import subprocess

import pytest

PAGES = {os.path.basename(page).split(".")[0]: page for page in os.environ["MAN_PAGES"].split(":")}
PROGRAMS = {os.path.basename(program): program for program in os.environ["DAEMONS"].split(":")}


def said_by(name, option):
    done = subprocess.run([PROGRAMS[name], option], capture_output=True, text=True, check=True)
    return done.stdout


def page(name):
    """The page as text: without roff's escapes, fonts and macros."""
    with open(PAGES[name], encoding="utf-8") as stream:
        text = stream.read()
    text = re.sub(r"\\f[BIRP]", "", text)
    text = text.replace("\\-", "-").replace("\\&", "").replace("\\(dq", '"').replace("\\.", ".")
    return text


CONFIG = "keywake-config"


def test_there_is_a_page_for_each_daemon_and_one_for_their_files():
    assert set(PROGRAMS) == {"keywake-proxy", "keywake-agent", "keywake-gateway"} == set(PAGES) - {CONFIG}
    assert CONFIG in PAGES


@pytest.mark.parametrize("where", ["its page", CONFIG])
@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_key_is_in_the_page_with_its_sentence(name, where):
    entries = re.findall(r"^([a-z_.]+) \((.*)\)\n    (.*)$", said_by(name, "--help-config"), re.M)
    text = page(CONFIG if where == CONFIG else name)
    assert len(entries) > 15, entries
    for key, shape, sentence in entries:
        assert f"{key} ({shape})" in text, key
        assert sentence in text, key


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_key_has_a_variable_of_its_own(name):
    said = said_by(name, "--help-config")
    keys = re.findall(r"^([a-z_.]+) \(", said, re.M)
    variables = ["KEYWAKE_" + key.upper().replace(".", "_") for key in keys]
    assert len(set(variables)) == len(keys) and "KEYWAKE_SOCKET" not in variables
    assert f"{variables[0]} is {keys[0]}" in said and f"{variables[0]} is {keys[0]}" in page(name)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_option_is_in_the_page(name):
    options = re.findall(r"^  (--[a-z-]+)", said_by(name, "--help"), re.M)
    assert {"--config", "--set", "--check-config"} <= set(options)
    for option in options:
        assert re.search(rf"^{re.escape(option)}\b", page(name), re.M), option


@pytest.mark.parametrize("name", sorted(PAGES))
def test_no_marker_is_left_and_the_page_can_be_rendered(name):
    assert not re.search(r"@\w+@", page(name)) # users' rules have an @ of their own: +@read
    assert shutil.which("groff"), "groff renders the page: run deploy/setup"
    done = subprocess.run(["groff", "-man", "-Kutf8", "-Tutf8", "-ww", PAGES[name]],
                          capture_output=True, text=True, check=True)
    shown = re.sub(".\x08", "", done.stdout)
    assert ("CONFIGURATION" in shown or "INCLUDES" in shown) and not done.stderr, done.stderr
