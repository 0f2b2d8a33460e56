"""
The commands of the operator's page, as the tests run them: to the letter, but for what stands for something of the
reader's. A block that needs a scene carries a mark that names its test, and a label if that test has several:

    <!-- run by tests/integration/test_operate_doc.py: held -->
"""
import os
import re
import shlex
import subprocess

from .daemon import AGENT, CTL, GATEWAY, PROXY
from .process import SLOW
from .server import TOP

PAGE = os.path.join(TOP, "deploy", "doc", "operate.md")
# The programs of this build, as an installation has them in PATH.
PATH = os.pathsep.join([*(os.path.dirname(program) for program in (PROXY, AGENT, GATEWAY, CTL)), os.environ["PATH"]])


def page():
    with open(PAGE, encoding="utf-8") as stream:
        return stream.read()


def block(test, label=None):
    """The one block that carries the mark of this test (its file's path in the tree)."""
    mark = f"<!-- run by {test}{': ' + label if label else ''} -->\n```sh\n"
    parts = page().split(mark)
    assert len(parts) == 2, f"{PAGE} has {len(parts) - 1} blocks with {mark}"
    return parts[1].split("```")[0]


def section_blocks(heading, kind):
    """All blocks of code of this kind in a section."""
    section = re.search(rf"^### {heading}$(.*?)^##", page(), re.M | re.S).group(1)
    return re.findall(rf"```{kind}\n(.*?)```", section, re.S)


def fill_in(text, **places):
    """What stands for something of the reader's, as whole words; each of them must be there."""
    for place, value in places.items():
        place = place.replace("_", "-")
        text, count = re.subn(rf"(?<![\w-]){re.escape(place)}(?![\w-])", lambda _: value, text)
        assert count > 0, f"{place} is not in {text}"
    return text


def redis_cli(bed, server):
    """A folder for PATH in which redis-cli reaches this server, as on its own host."""
    folder = os.path.join(bed.directory, "bin of " + server.name)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "redis-cli")
    with open(path, "w", encoding="ascii") as stream:
        stream.write(f'#!/bin/sh\nexec /usr/bin/redis-cli -s {shlex.quote(server.socket)} "$@"\n')
    os.chmod(path, 0o755)
    return folder


def run(script, folder, path="", check=True):
    """Line by line, each of which must end well."""
    done = subprocess.run(["bash", "-euxc", script], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "PATH": os.pathsep.join(filter(None, [path, PATH]))},
                          timeout=200 * SLOW, check=False)
    assert not check or done.returncode == 0, f"exit {done.returncode}:\n{done.stdout}{done.stderr}"
    return done
