"""The text of metrics: read, judged by promtool, and as the page of the documents has it."""
import os
import re
import subprocess

from .server import SERVERS

PROMTOOL = os.path.join(SERVERS, "bin", "promtool")
SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)$')
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def read(text):
    """(name, labels) of each sample: its value."""
    found = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            name, labels, value = SAMPLE.match(line).groups()
            key = (name, tuple(sorted(LABEL.findall(labels or ""))))
            assert key not in found, f"twice: {line}"
            found[key] = float(value)
    return found


def value(text, name, **labels):
    return read(text)[name, tuple(sorted(labels.items()))]


def families(text):
    """name: (type, what it is)"""
    docs = dict(re.findall(r"^# HELP (\w+) (.*)$", text, re.M))
    return {name: (kind, docs[name]) for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)}


def labels_of(text, family):
    """The names of the labels of its samples, in their order; not that of a histogram's steps."""
    names = []
    for name, labels in re.findall(r"^(\w+?)(?:_bucket)?\{(.*)\} \S+$", text, re.M):
        if name == family:
            names += [label for label, _ in LABEL.findall(labels) if label not in names and label != "le"]
    return names


def page_rows(text):
    """Rows of the page of metrics for one daemon."""
    for name, (kind, doc) in families(text).items():
        labels = ", ".join(f"`{label}`" for label in labels_of(text, name))
        yield f"| `{name}` | {kind} | {labels} | {doc} |"


def check(text):
    """What promtool complains of; "" for nothing."""
    done = subprocess.run([PROMTOOL, "check", "metrics"], input=text, capture_output=True, text=True, check=False,
                          timeout=120)
    assert done.returncode in (0, 1, 3), done
    return done.stdout + done.stderr if done.returncode or done.stdout or done.stderr else ""
