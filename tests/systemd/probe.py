#!/usr/bin/python3
"""
Runs in the place of a daemon, in its unit: tries what each entry of systemd/sandbox.conf forbids, and prints as JSON
how far it came. tests/systemd/inside.py says what must have been refused. Each attempt is one that the daemon's user
could make without the entry, as far as there is such a one.
"""
import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import signal
import socket
import stat
import subprocess
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p

KEYCTL = {"x86_64": 250, "aarch64": 219} # glibc has no function for it
KEY_SPEC_SESSION_KEYRING, KEYCTL_READ, KEY_SPEC_USER_KEYRING, KEYCTL_GET_KEYRING_ID = -3, 11, -4, 0
SIZE_OF_LOG = 10
NAMESPACES = {"cgroup": 0x02000000, "uts": 0x04000000, "ipc": 0x08000000, "user": 0x10000000, "pid": 0x20000000,
              "net": 0x40000000, "mnt": 0x00020000}


def call(name, *arguments):
    """"" if it worked; else the name of the errno."""
    ctypes.set_errno(0)
    return "" if getattr(libc, name)(*arguments) != -1 else errno.errorcode[ctypes.get_errno()]


def attempt(action):
    try:
        action()
        return ""
    except OSError as problem:
        return errno.errorcode[problem.errno]


def in_child(action):
    """For what would change this process: the same, told by a child. A signal is told by its name."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writer, action().encode())
        os._exit(0)
    os.close(writer)
    said = os.read(reader, 100).decode()
    os.close(reader)
    status = os.waitpid(child, 0)[1]
    return signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else said


def flags(path):
    return "ro" if os.statvfs(path).f_flag & os.ST_RDONLY else "rw"


def listed(path):
    try:
        return sorted(os.listdir(path))
    except OSError as problem:
        return errno.errorcode[problem.errno]


def map_both():
    """Memory that is writable and can be run."""
    ctypes.set_errno(0)
    found = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_WRITE | mmap.PROT_EXEC,
                      mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, ctypes.c_long(0))
    return "" if found not in (None, ctypes.c_void_p(-1).value) else errno.errorcode[ctypes.get_errno()]


def make_runnable():
    """Memory that was written, and is to be run then."""
    page = libc.mmap(None, ctypes.c_size_t(4096), mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1,
                     ctypes.c_long(0))
    ctypes.set_errno(0)
    return "" if libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(4096), mmap.PROT_READ | mmap.PROT_EXEC) == 0 \
        else errno.errorcode[ctypes.get_errno()]


def keyctl(*arguments):
    return libc.syscall(ctypes.c_long(KEYCTL[platform.machine()]), *arguments)


def session_keys():
    """Is the user's keyring, which all processes of the user share, linked into that of the session?"""
    size = keyctl(KEYCTL_READ, KEY_SPEC_SESSION_KEYRING, None, 0)
    if size < 0:
        return errno.errorcode[ctypes.get_errno()]
    ids = (ctypes.c_int32 * max(size // 4, 1))()
    keyctl(KEYCTL_READ, KEY_SPEC_SESSION_KEYRING, ids, size)
    shared = keyctl(KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 1)
    return "the user's keyring" if size >= 4 and shared in list(ids) else "its own"


def set_user_id_bit():
    path = f"/run/keywake/suid-{os.getpid()}"
    with open(path, "w", encoding="ascii"):
        pass
    try:
        return attempt(lambda: os.chmod(path, 0o4700))
    finally:
        os.unlink(path)


def of_32_bit():
    """A system call in the way of 32-bit programs: what the program exits with, 42 if it was answered."""
    try:
        return str(subprocess.run(["/usr/local/bin/kw-int80"], check=False, stdin=subprocess.DEVNULL).returncode)
    except OSError as problem: # another processor
        return errno.errorcode[problem.errno]


def status():
    with open("/proc/self/status", encoding="ascii") as stream:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in stream)}


def propagation():
    """Of the root: "shared:" would hand on what is mounted here."""
    with open("/proc/self/mountinfo", encoding="utf-8") as stream:
        roots = [line.split() for line in stream if line.split()[4] == "/"]
    return " ".join(roots[-1][6:roots[-1].index("-")])


def main():
    if os.geteuid() == 0:
        sys.exit("this is for the user of a unit: root would change the machine")
    facts = status()
    found = {
        "capabilities": [facts[name] for name in ("CapBnd", "CapPrm", "CapEff", "CapAmb", "CapInh")],
        "no_new_privs": facts["NoNewPrivs"], "seccomp": facts["Seccomp"],
        "umask": facts["Umask"], "core": resource.getrlimit(resource.RLIMIT_CORE),
        "session_keys": session_keys(),
        "personality": in_child(lambda: call("personality", 0x0008)),
        "map_both": map_both(), "make_runnable": make_runnable(),
        "devices": listed("/dev"), "mknod": attempt(lambda: os.mknod("/run/keywake/null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))),
        "namespaces": {name: os.readlink(f"/proc/self/ns/{name}") for name in ("mnt", "uts")},
        "propagation": propagation(),
        "tmp": listed("/tmp"), "var_tmp": listed("/var/tmp"),
        "clock": call("clock_settime", 0, ctypes.create_string_buffer(16)),
        "cgroup": flags("/sys/fs/cgroup"),
        "home": {path: listed(path) for path in ("/home", "/root", "/run/user")},
        "hostname": call("sethostname", b"x", 1),
        "syslog": call("klogctl", SIZE_OF_LOG, None, 0), "kmsg": listed("/dev/kmsg"),
        "modules": listed("/usr/lib/modules"), "init_module": call("init_module", None, 0, None),
        "tunables": {path: flags(path) for path in ("/proc/sys", "/sys")},
        "proc": [name for name in os.listdir("/proc") if name.isdigit()], "pid": os.getpid(),
        "system": {path: flags(path) for path in ("/", "/usr", "/etc", "/var", "/run/keywake")},
        "families": {name: attempt(lambda name=name: socket.socket(getattr(socket, name), socket.SOCK_DGRAM).close())
                     for name in ("AF_UNIX", "AF_INET", "AF_INET6", "AF_NETLINK", "AF_ALG", "AF_VSOCK")},
        # The second flag is none: without the filter that is EINVAL, before any right is asked for.
        "unshare": {name: call("unshare", flag | 1) for name, flag in NAMESPACES.items()},
        "realtime": {name: attempt(lambda policy=policy: os.sched_setscheduler(0, policy, os.sched_param(1)))
                     for name, policy in (("fifo", os.SCHED_FIFO), ("rr", os.SCHED_RR))},
        "suid": set_user_id_bit(),
        "int80": of_32_bit(),
        # Groups of system calls that the filter takes away: each of these could be made without any right.
        "resources": call("setpriority", 0, 0, 5), "debug": in_child(lambda: call("ptrace", 0, 0, 0, 0)),
        "privileged": {"chroot": call("chroot", b"/nonexistent"), "setuid": call("setuid", os.getuid())},
    }
    json.dump(found, sys.stdout)


main()
