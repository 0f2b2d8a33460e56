"""The memory of the table: whoever is handed its descriptor over shm can read it, and nothing else."""
import array
import ctypes
import fcntl
import mmap
import os
import socket

import pytest

from lib.process import LIBC

PTRACE_ATTACH = 16
PROT_READ, PROT_WRITE, MAP_SHARED = 1, 2, 1
PUNCH = 3 # FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
F_ADD_SEALS, F_SEAL_WRITE = 1033, 8

LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def called(result):
    """A call of libc as Python's own: -1 is an OSError."""
    if result in (-1, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def map_for_writing(fd):
    called(LIBC.mmap(None, mmap.PAGESIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0))


def make_a_mapping_writable(fd):
    at = called(LIBC.mmap(None, mmap.PAGESIZE, PROT_READ, MAP_SHARED, fd, 0))
    called(LIBC.mprotect(at, mmap.PAGESIZE, PROT_READ | PROT_WRITE))


def reopen_for_writing(fd):
    os.close(os.open(f"/proc/self/fd/{fd}", os.O_RDWR))


def is_of_the_table(pid, name):
    try:
        return "keywake-table" in os.readlink(f"/proc/{pid}/fd/{name}")
    except FileNotFoundError: # it was closed meanwhile
        return False


def reopen_that_of_the_proxy(pid):
    for name in os.listdir(f"/proc/{pid}/fd"):
        if is_of_the_table(pid, name):
            os.close(os.open(f"/proc/{pid}/fd/{name}", os.O_RDWR))


ATTACKS = {
    "write": lambda fd, pid: os.write(fd, b"forged"),
    "pwrite": lambda fd, pid: os.pwrite(fd, b"forged", 4096),
    "mmap": lambda fd, pid: map_for_writing(fd),
    "mprotect": lambda fd, pid: make_a_mapping_writable(fd),
    "fchmod": lambda fd, pid: os.fchmod(fd, 0o666),
    "reopen": lambda fd, pid: reopen_for_writing(fd),
    "reopen by the proxy's /proc": lambda fd, pid: reopen_that_of_the_proxy(pid),
    "ftruncate": lambda fd, pid: os.ftruncate(fd, 0),
    "fallocate": lambda fd, pid: called(LIBC.fallocate(fd, PUNCH, 0, 4096)),
    "seal": lambda fd, pid: fcntl.fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE),
    "ptrace": lambda fd, pid: called(LIBC.ptrace(PTRACE_ATTACH, pid, None, None)),
    "/proc/PID/mem": lambda fd, pid: open(f"/proc/{pid}/mem", "r+b", buffering=0).close(),
}


def descriptor_of(pid):
    """The descriptor that the proxy hands to agents: taken out of the proxy itself (pidfd_getfd), as root."""
    found = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        if not is_of_the_table(pid, name):
            continue
        with open(f"/proc/{pid}/fdinfo/{name}", encoding="ascii") as stream:
            flags = int(stream.read().split("flags:")[1].split()[0], 8)
        if flags & os.O_ACCMODE == os.O_RDONLY:
            found.append(int(name))
    assert len(found) == 1, found
    pidfd = os.pidfd_open(pid)
    fd = called(LIBC.syscall(438, pidfd, found[0], 0)) # pidfd_getfd
    os.close(pidfd)
    return fd


def over_a_socket(fd):
    """As the agent gets it: a descriptor of its own of the same open file."""
    ours, theirs = socket.socketpair()
    ours.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))])
    _, ancillary, _, _ = theirs.recvmsg(1, socket.CMSG_SPACE(4))
    ours.close()
    theirs.close()
    return array.array("i", ancillary[0][2])[0]


@pytest.mark.quick
def test_another_user_cannot_write_the_memory(bed, stranger):
    """The agent's user, with the descriptor that shm handed over: each way to write it, to end it, or to get in."""
    proxy = bed.proxy(bed.server("primary"))
    proxy.wait_live()
    given = over_a_socket(descriptor_of(proxy.pid))
    assert stranger.run(os.pread, given, 4, 0) # it can be read: that is what it is for
    got_in = [name for name, attack in ATTACKS.items() if not stranger.cannot(attack, given, proxy.pid)]
    assert not got_in
    assert proxy.status()["state"] == "live"


@pytest.mark.quick
def test_a_daemon_of_the_same_user_cannot_attach_or_reach_the_writable_descriptor(bed, stranger):
    """Two daemons of one user, as when they are started by hand: /proc and ptrace are shut to each other."""
    proxy = bed.proxy(bed.server("primary"), start=False)
    os.chmod(bed.directory, 0o711)
    proxy.settings.update({"control.socket": f"{stranger.home}/p.ctl", "listen": [f"shm://{stranger.home}/t.shm"]})
    proxy.control = f"{stranger.home}/p.ctl"
    stranger.become(proxy).start()
    for name in ("reopen by the proxy's /proc", "ptrace", "/proc/PID/mem"):
        assert stranger.cannot(ATTACKS[name], -1, proxy.pid), name
