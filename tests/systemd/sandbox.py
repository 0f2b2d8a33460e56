"""What tests/systemd/probe.py must find in a unit, for each entry of systemd/sandbox.conf."""
import os
import subprocess

NONE = "0" * 16
OUTSIDE = "kw-outside" # a file of this name is where the unit must not see it
INT80 = "/usr/local/bin/kw-int80" # as in probe.py
FOLDERS = ("/dev", "/tmp", "/var/tmp", "/home", "/root", "/run/user", "/usr/lib/modules")


def prepare():
    """What is there to be hidden, and a program that makes a system call in the way of 32-bit programs."""
    for folder in FOLDERS:
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, OUTSIDE), "w", encoding="ascii"):
            pass
    for folder in ("/root", "/usr/lib/modules"):
        os.chmod(folder, 0o755) # its mode is not what keeps others out
    with open(INT80, "wb") as stream:
        stream.write(program_of_int80())
    os.chmod(INT80, 0o755)


def program_of_int80():
    """An ELF file of x86-64: getpid by int 0x80, then exit 42 if that was answered, and else 7."""
    code = bytes.fromhex("b814000000 cd80 85c0 bf2a000000 7f05 bf07000000 b83c000000 0f05")
    base, start = 0x400000, 64 + 56
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + b"".join(
        number.to_bytes(size, "little") for number, size in
        ((2, 2), (62, 2), (1, 4), (base + start, 8), (64, 8), (0, 8), (0, 4), (64, 2), (56, 2), (1, 2), (0, 6)))
    segment = b"".join(number.to_bytes(size, "little") for number, size in
                       ((1, 4), (5, 4), (0, 8), (base, 8), (base, 8), (start + len(code), 8), (start + len(code), 8),
                        (4096, 8)))
    return header + segment + code


def hidden(listing):
    """A folder that cannot be looked into, or does not have what is outside."""
    return isinstance(listing, str) or OUTSIDE not in listing


def outer(name):
    return os.readlink(f"/proc/self/ns/{name}")


def propagation():
    """Of the root: a unit of the same group would hand on what it mounts."""
    with open("/proc/self/mountinfo", encoding="utf-8") as stream:
        roots = [line.split() for line in stream if line.split()[4] == "/"]
    return " ".join(roots[-1][6:roots[-1].index("-")])


def all_are(words, values):
    return set(values) == {words}


# entry: what tells that it holds; and what the drop-in of the test says to take it away. None: without this entry
# another one, or the lack of rights, refuses the same.
ENTRIES = {
    "CapabilityBoundingSet": (lambda p: all_are(NONE, p["capabilities"]), "CAP_CHOWN"),
    "AmbientCapabilities": (lambda p: p["capabilities"][3] == NONE, None),
    "NoNewPrivileges": (lambda p: p["no_new_privs"] == "1", None),
    "KeyringMode": (lambda p: p["session_keys"] == "its own", "shared"),
    "LockPersonality": (lambda p: p["personality"] == "EPERM", "no"),
    "MemoryDenyWriteExecute": (lambda p: (p["map_both"], p["make_runnable"]) == ("EPERM", "EPERM"), "no"),
    "PrivateDevices": (lambda p: not set(p["devices"]) & {"kmsg", "mem", OUTSIDE} and p["mknod"] == "EPERM", "no"),
    "PrivateMounts": (lambda p: p["namespaces"]["mnt"] != outer("mnt") and
                      (not propagation() or p["propagation"] != propagation()), None),
    "PrivateTmp": (lambda p: hidden(p["tmp"]) and hidden(p["var_tmp"]), "no"),
    "ProtectClock": (lambda p: p["clock"] == "EPERM", None),
    "ProtectControlGroups": (lambda p: p["cgroup"] == "ro", None),
    "ProtectHome": (lambda p: all(map(hidden, p["home"].values())), "no"),
    "ProtectHostname": (lambda p: p["namespaces"]["uts"] != outer("uts") and p["hostname"] == "EPERM", "no"),
    "ProtectKernelLogs": (lambda p: p["syslog"] == "EPERM" and isinstance(p["kmsg"], str), None),
    "ProtectKernelModules": (lambda p: hidden(p["modules"]) and p["init_module"] == "EPERM", "no"),
    "ProtectKernelTunables": (lambda p: all_are("ro", p["tunables"].values()), "no"),
    "ProtectProc": (lambda p: p["proc"] == [str(p["pid"])], "default"),
    "ProtectSystem": (lambda p: {path for path, how in p["system"].items() if how == "rw"} == {"/run/keywake"}, "no"),
    "RemoveIPC": (None, None), # when the last unit of a user ends: see inside.py
    "RestrictAddressFamilies": (lambda p: {name for name, said in p["families"].items() if not said} ==
                                {"AF_UNIX", "AF_INET", "AF_INET6"}, ""),
    "RestrictNamespaces": (lambda p: all_are("EPERM", p["unshare"].values()), "no"),
    "RestrictRealtime": (lambda p: all_are("EPERM", p["realtime"].values()), None),
    "RestrictSUIDSGID": (lambda p: p["suid"] == "EPERM", "no"),
    "SystemCallArchitectures": (lambda p: p["int80"] != "42", ""),
    "SystemCallFilter": (lambda p: (p["resources"], p["debug"]) == ("EPERM", "EPERM") and
                         all_are("EPERM", p["privileged"].values()), ""),
    "SystemCallErrorNumber": (lambda p: p["resources"] == "EPERM", "ENOSYS"),
}


def can_be_taken_away():
    """(entry, its other value): each must be noticed."""
    answered = subprocess.run([INT80], check=False, stdin=subprocess.DEVNULL).returncode == 42 \
        if os.uname().machine == "x86_64" else False
    return [(name, without) for name, (_, without) in ENTRIES.items()
            if without is not None and (answered or name != "SystemCallArchitectures")]


def entries_of(path):
    with open(path, encoding="utf-8") as stream:
        return {line.split("=", 1)[0] for line in stream if "=" in line and not line.startswith("#")}


def missing(found):
    """The entries that do not hold."""
    return [name for name, (holds, _) in ENTRIES.items() if holds and not holds(found)]
