"""
The guest's kernel: Debian's own package, downloaded by apt and unpacked below the build folder, never
installed; and the initramfs that mounts the host's files. Both are made once and used again.
"""
import glob
import lzma
import os
import shutil
import stat
import subprocess

from .tree import CACHE, INSIDE

PACKAGE = "linux-image-amd64"
BUSYBOX = "/bin/busybox"

# What the guest needs, besides what these need themselves. crc32_generic, gcm, ghash_generic and ctr:
# rdma_rxe and tls ask for them by the names of their algorithms, so no dependency names them.
MODULES = ["virtio_pci", "9p", "9pnet_virtio", "overlay", "virtio_net", "dummy", "crc32_generic",
           "rdma_rxe", "rdma_ucm", "ib_uverbs", "sch_netem", "tls", "gcm",
           "ghash_generic", "ctr"]


class KernelMissing(Exception):
    """No kernel to boot, in one sentence."""


def run(argv, **options):
    return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          **options)


def package_name():
    """The package that linux-image-amd64 stands for: its version is in its name."""
    for line in run(["apt-cache", "depends", PACKAGE]).stdout.splitlines():
        words = line.split()
        if len(words) == 2 and words[0] == "Depends:" and words[1].startswith("linux-image-"):
            return words[1]
    raise KernelMissing(f"apt knows no {PACKAGE}: is this Debian, and has apt-get update been run?")


def download(folder):
    name = package_name()
    done = run(["apt-get", "download", name], cwd=folder)
    if done.returncode != 0 and os.geteuid() == 0: # the lists may be older than the mirror
        run(["apt-get", "-qq", "update"])
        name = package_name()
        done = run(["apt-get", "download", name], cwd=folder)
    packages = glob.glob(os.path.join(folder, "*.deb"))
    if done.returncode != 0 or len(packages) != 1:
        raise KernelMissing(f"apt-get download {name} failed: {done.stderr.strip()[-300:]}")
    return packages[0]


def unpack():
    """Download and unpack; the whole appears at once, so a run that was cut off leaves nothing."""
    work = os.path.join(CACHE, f"new-{os.getpid()}")
    os.makedirs(work)
    try:
        package = download(work)
        done = run(["dpkg-deb", "-x", package, os.path.join(work, "kernel")])
        if done.returncode != 0:
            raise KernelMissing(f"{os.path.basename(package)} cannot be unpacked: {done.stderr.strip()}")
        try:
            os.rename(os.path.join(work, "kernel"), os.path.join(CACHE, "kernel"))
        except OSError: # another run was first
            pass
    finally:
        shutil.rmtree(work, ignore_errors=True)


def find():
    """(image, folder of its modules), fetched if they are not there."""
    for attempt in range(2):
        images = glob.glob(os.path.join(CACHE, "kernel", "boot", "vmlinuz-*"))
        if images:
            version = os.path.basename(images[0]).split("-", 1)[1]
            for top in ("lib", "usr/lib"):
                modules = os.path.join(CACHE, "kernel", top, "modules", version)
                if os.path.isdir(modules):
                    return images[0], modules
        if attempt == 0:
            unpack()
    raise KernelMissing(f"no kernel image with its modules below {CACHE}: remove that folder")


def read_module(path):
    if path.endswith(".xz"):
        with lzma.open(path) as stream:
            return stream.read()
    with open(path, "rb") as stream:
        return stream.read()


def module_order(folder, wanted):
    """(name, bytes) of the modules and of all they depend on, each behind what it needs."""
    files = {}
    for path in glob.glob(os.path.join(folder, "**", "*.ko*"), recursive=True):
        files[os.path.basename(path).split(".")[0].replace("-", "_")] = path
    order = {}

    def add(name):
        name = name.replace("-", "_")
        if name in order:
            return
        if name not in files:
            raise KernelMissing(f"the kernel below {folder} has no module {name}")
        content = read_module(files[name])
        for part in content.split(b"\0depends=", 1)[1:]:
            for need in part.split(b"\0", 1)[0].decode().split(","):
                if need:
                    add(need)
        order[name] = content
    for name in wanted:
        add(name)
    return list(order.items())


class Archive:
    """A cpio archive as the kernel reads it (newc: Documentation/driver-api/early-userspace)."""

    def __init__(self):
        self.parts = []
        self.count = 0

    def add(self, name, content=b"", mode=stat.S_IFREG | 0o755):
        self.count += 1
        label = name.encode() + b"\0"
        fields = [self.count, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(label), 0]
        self.part(b"070701" + b"".join(b"%08x" % field for field in fields) + label)
        self.part(content)

    def part(self, content):
        self.parts.append(content + b"\0" * (-len(content) % 4))

    def bytes(self):
        self.add("TRAILER!!!", mode=0)
        return b"".join(self.parts)


def build_initramfs(modules, target):
    if not os.path.exists(BUSYBOX):
        raise KernelMissing(f"{BUSYBOX} is not there: run tests/rdma/setup")
    archive = Archive()
    for folder in ("bin", "dev", "proc", "sys", "lower", "upper", "root", "modules"):
        archive.add(folder, mode=stat.S_IFDIR | 0o755)
    with open(BUSYBOX, "rb") as stream:
        archive.add("bin/busybox", stream.read())
    archive.add("bin/sh", b"busybox", mode=stat.S_IFLNK | 0o777)
    with open(os.path.join(INSIDE, "init"), "rb") as stream:
        archive.add("init", stream.read())
    names = []
    for name, content in module_order(modules, MODULES):
        archive.add(f"modules/{name}.ko", content)
        names.append(name)
    archive.add("modules/order", "\n".join(names).encode() + b"\n")
    with open(f"{target}.{os.getpid()}", "wb") as stream:
        stream.write(archive.bytes())
    os.rename(stream.name, target)


def boot_files():
    """(kernel image, initramfs), made where they are missing or older than what they are made of."""
    os.makedirs(CACHE, exist_ok=True)
    image, modules = find()
    target = os.path.join(CACHE, "initramfs")
    sources = [image, os.path.join(INSIDE, "init"), __file__]
    if not os.path.exists(target) or any(
            os.path.getmtime(path) > os.path.getmtime(target) for path in sources):
        build_initramfs(modules, target)
    return image, target
