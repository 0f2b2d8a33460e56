"""What the tests of the package share: this machine's Debian, the mirror, and the package."""
import glob
import os
import subprocess

from score import say

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIRROR = os.environ.get("KW_DEBIAN_MIRROR", "http://deb.debian.org/debian")


def release_here():
    with open("/etc/os-release", encoding="utf-8") as stream:
        return dict(line.rstrip().split("=", 1) for line in stream if "=" in line)["VERSION_CODENAME"]


def mirror_answers(suite):
    return subprocess.run(["curl", "-sfIL", "-m", "20", f"{MIRROR}/dists/{suite}/InRelease"],
                          stdout=subprocess.DEVNULL, check=False).returncode == 0


def build(suite, folder, *options):
    """The package of the commit, for this release. It is built in a root of its own if that is not this machine's."""
    argv = [os.path.join(TOP, "deploy/package/build"), "--output", folder, *options]
    if suite != release_here():
        argv += ["--suite", suite]
    say(*argv, seconds=1800)
    return glob.glob(os.path.join(folder, "keywake_*.deb"))[0]
