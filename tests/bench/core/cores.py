"""Which cores a process may use: other hosts' processes must not push the primary's off its core."""
from contextlib import contextmanager
import os

ALL = os.sched_getaffinity(0)
OTHERS = set(sorted(ALL)[1:]) or ALL # one core is left to the primary's host alone, if there are two


def allow(pid, cores):
    for task in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(task), cores)


@contextmanager
def other_hosts():
    """What is started within stands for processes of other hosts, and so does this one."""
    os.sched_setaffinity(0, OTHERS)
    try:
        yield
    finally:
        os.sched_setaffinity(0, ALL)
