"""The machine and the versions that figures belong to."""
import os
import platform
import re
import subprocess
import sys

from lib.server import TOP


def first_line(path, word, fallback=""):
    try:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                if line.startswith(word):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return fallback


def said_by(*words):
    try:
        return subprocess.run(words, capture_output=True, text=True, check=True,
                              cwd=TOP).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def commit():
    head = said_by("git", "rev-parse", "--short=12", "HEAD")
    if not head:
        return "unknown"
    changed = said_by("git", "status", "--porcelain", "--untracked-files=no")
    return head + (" with changes not committed" if changed else "")


def touch_memory(most=12 << 30):
    """
    Have the host give out its memory before anything is timed. Pages that a guest has never used come
    from its host, one fault at a time: whoever came first used to pay that for the others. Done by a
    child, whose end gives them back to this machine's own kernel.
    """
    available = int(first_line("/proc/meminfo", "MemAvailable", "0 kB").split()[0]) * 1024
    wanted = min(most, available * 7 // 10)
    script = (f"import mmap\nroom = mmap.mmap(-1, {wanted})\n"
              f"for at in range(0, {wanted}, mmap.PAGESIZE): room[at] = 1\n")
    subprocess.run([sys.executable, "-c", script], check=False)
    return wanted


def load():
    return round(os.getloadavg()[0], 1)


def describe():
    memory = int(first_line("/proc/meminfo", "MemTotal", "0 kB").split()[0]) / 1048576
    server = re.search(r"v=(\S+)", said_by("redis-server", "--version"))
    return {
        "cpu": first_line("/proc/cpuinfo", "model name", platform.processor()),
        "cores": os.cpu_count(),
        "memory": f"{memory:.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "server": f"redis {server.group(1)}" if server else "unknown",
        "compiler": said_by("cc", "-dumpfullversion") and f"cc {said_by('cc', '-dumpfullversion')}",
        "load at the start": load(),
        "commit": commit(),
    }
