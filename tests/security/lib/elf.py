"""What a program's file says of itself, by readelf (binutils)."""
import re
import subprocess


def readelf(path, *options):
    return subprocess.run(["readelf", "-W", *options, path], capture_output=True, text=True, check=True).stdout


def needed(path):
    """The libraries that the loader brings: DT_NEEDED."""
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", readelf(path, "-d")))


def flags(path):
    """The words of FLAGS and FLAGS_1: BIND_NOW, NOW, PIE."""
    return set(" ".join(re.findall(r"\(FLAGS(?:_1)?\)\s+(?:Flags: )?(.*)", readelf(path, "-d"))).split())


def segments(path):
    """Type and access of each program header: ("GNU_STACK", "RW")."""
    return [(kind, access.replace(" ", "")) for kind, access in
            re.findall(r"^  (\w+)\s+(?:0x\w+\s+){5}([RWE ]{3})", readelf(path, "-l"), re.M)]


def properties(path):
    """IBT and SHSTK on x86, BTI and PAC on arm."""
    found = re.search(r"feature: (.*)", readelf(path, "-n"))
    return set(found.group(1).replace(",", " ").split()) if found else set()


def imports(path):
    """The functions that it takes from libraries, without their versions."""
    return {name.split("@")[0] for name in re.findall(r"\sUND (\S+)", readelf(path, "--dyn-syms"))}


def wanted(path):
    """The functions that an object file takes from others."""
    return set(re.findall(r"\sUND (\S+)", readelf(path, "--syms")))
