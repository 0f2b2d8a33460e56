"""Any call to the system may fail, at any moment: no hang, no wrong `warm`, and a restart goes on."""
import os
import random
import signal
import subprocess
import time

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.daemon import CTL
from lib.points import Points
from lib.process import wait_for
from lib.server import RDB_MAGIC
from lib.workload import Workload, seed_of_run

FULL = os.environ.get("KW_POINTS") == "full" # every n, not some
LAST = 1 << 20                               # no daemon makes so many calls in one of these lives

# Where memory is refused, the daemon ends at once (base/buffer.h): its peer carries on, and a restart
# goes on where it was. libuv does the same without a word when the kernel refuses a thread, an eventfd
# or a change of what epoll watches.
ABORTS = {"malloc", "mmap", "epoll_ctl", "pthread_create", "eventfd"}

POINTS = [("malloc", "ENOMEM"), ("mmap", "ENOMEM"), ("memfd_create", "EMFILE"),
          ("ftruncate", "ENOSPC"), ("open", "EMFILE"), ("fcntl", "EPERM"), ("socket", "EMFILE"),
          ("bind", "EACCES"), ("listen", "ENOBUFS"), ("connect", "ENOBUFS"), ("accept4", "EMFILE"),
          ("send", "ECONNRESET"), ("sendmsg", "ECONNRESET"), ("sendmsg", "EAGAIN"),
          ("recv", "ECONNRESET"), ("recvmsg", "ECONNRESET"), ("read", "EINTR"),
          ("epoll_create1", "EMFILE"), ("epoll_ctl", "ENOMEM"), ("eventfd", "EMFILE"),
          ("pthread_create", "EAGAIN"), ("getrandom", "ENOSYS"), ("getaddrinfo", "EAGAIN")]


def chosen(chance):
    """1, 2, 3, then further and further apart, each somewhere else in each run."""
    n = 1
    while n < LAST:
        yield n
        n = n + 1 if FULL or n < 3 else int(n * chance.uniform(2, 4))


def ended_as_promised(daemon, point):
    status = daemon.popen.returncode
    assert not daemon.sanitizer_reports()
    if point in ABORTS and status == -signal.SIGABRT:
        assert point not in ("malloc", "mmap") or "out of memory: " in daemon.output()
        return
    assert status in (1, 2), f"{point}: ended with {status}:\n{daemon.tail(20)}"
    # This life's lines, after its command line; those of its closing follow the sentence.
    lines = daemon.output().rsplit("\n--- ", 1)[-1].splitlines()[1:]
    assert any(" error " in line or line.startswith("keywake-") for line in lines), (
        f"{point}: no sentence at its end:\n{daemon.tail(20)}")


def live(daemon, pair, points, point, n, errno):
    """One life of the daemon with the n-th call failing. Does it have an n-th call?"""
    points.arm(daemon, point, n, errno)
    daemon.start(wait=False)
    pair.primary.client().set("n", n)
    done = wait_for(lambda: not daemon.alive or wait_or_none(daemon, pair), f"{point} {n}: it hangs",
                    60)
    assert done
    if daemon.alive:
        assert daemon.stop() == 0 or points.fired(), f"{point} {n}"
    if daemon.popen.returncode != 0:
        ended_as_promised(daemon, point)
    return points.fired()


def wait_or_none(daemon, pair):
    """Is the agent warm? Then both sides are equal."""
    done = pair.agent.ctl("wait", "warm", "--timeout", 5)
    if done.returncode != 0:
        return False
    assert_equal_now(pair.primary, pair.replica)
    return True


def other(pair, which):
    return pair.agent if which == "proxy" else pair.proxy


@pytest.mark.parametrize("point, errno", POINTS)
@pytest.mark.parametrize("which", ["proxy", "agent"])
def test_the_nth_call_fails(bed, which, point, errno):
    chance = random.Random(seed_of_run())
    points = Points(bed)
    pair = bed.pair(listen=("shm", "tcp"), via="tcp", fill=data.fill)
    daemon = getattr(pair, which)
    peer = other(pair, which).popen.pid
    assert daemon.stop() == 0
    count = 0
    for n in chosen(chance):
        if not live(daemon, pair, points, point, n, errno):
            break
        count += 1
    points.unload(daemon).start()
    pair.settle()
    assert other(pair, which).popen.pid == peer, "the peer carries on"
    print(f"{which}: {point} {errno}: {count} fired")


@pytest.mark.parametrize("via, mode", [("tcp", "commands"), ("shm", "commands"), ("tcp", "replica")])
def test_every_read_and_write_is_short(bed, via, mode):
    """A few bytes at a time, and one call in twenty interrupted: nothing is lost, or comes twice."""
    seed = seed_of_run()
    points = Points(bed)
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    proxy = points.load(bed.proxy(primary, listen=("shm", "tcp"), start=False),
                        KW_POINT_SHORT="61", KW_POINT_EINTR="20").start()
    agent = points.load(bed.agent(proxy, replica, via=via, start=False, apply__mode=mode,
                                  apply__consent=True),
                        KW_POINT_SHORT="61", KW_POINT_EINTR="20").start()
    agent.wait_warm()
    load = Workload(primary, seed, silent=False).start()
    time.sleep(3) # a workload's length, not a wait
    print(f"{load.stop()} commands")
    agent.wait_warm(120)
    assert_equal_now(primary, replica)


# What an export calls, and how far it may get: a whole file, or none.
EXPORTS = [("open", "EMFILE"), ("write", "ENOSPC"), ("write", "EDQUOT"), ("write", "EIO"),
           ("fsync", "EIO"), ("linkat", "EACCES"), ("read", "EIO"), ("recv", "ECONNRESET"),
           ("sendmsg", "EPIPE"), ("socket", "EMFILE"), ("connect", "EACCES"), ("malloc", "ENOMEM")]


def export_once(pair, points, path, point, n, errno):
    """keywakectl export with the n-th call failing. Does it have one?"""
    if os.path.exists(points.path):
        os.unlink(points.path)
    done = subprocess.run([CTL, "-s", pair.agent.control, "export", path], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=120, check=False,
                          env={**os.environ, **points.environment("keywakectl",
                               KW_POINT=f"{point}:{n}:{errno}")})
    if done.returncode == 0:
        with open(path, "rb") as stream:
            assert stream.read(9).startswith(RDB_MAGIC)
        os.unlink(path)
    else:
        assert done.returncode in (1, 2, 3, -signal.SIGABRT), f"{point} {n}: {done}"
        assert done.returncode != -signal.SIGABRT or point == "malloc", f"{point} {n}: {done}"
        assert done.stderr, f"{point} {n}: no sentence"
    left = os.listdir(os.path.dirname(path))
    assert left == [], f"{point} {n} left {left}: {done}"
    return points.fired()


def test_an_export_is_whole_or_not_there(bed):
    chance = random.Random(seed_of_run())
    points = Points(bed)
    pair = bed.pair(fill=data.fill)
    folder = os.path.join(bed.directory, "backups")
    os.mkdir(folder)
    for point, errno in EXPORTS:
        for n in chosen(chance):
            if not export_once(pair, points, os.path.join(folder, "dump.rdb"), point, n, errno):
                break
    pair.settle()
