"""
One guest: QEMU under TCG (nested KVM hangs on some machines that offer it), the host's root read-only,
a folder of its own shared both ways, and a command to run in it.
"""
import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import time

from . import kernel
from .tree import BUILD, INSIDE, LOGS, TOP

QEMU = "qemu-system-x86_64"
ADDRESS = "10.77.0.1" # of the one guest's own device
BOOT_SECONDS = 120    # it takes 4 to 15; this is a machine that does something else meanwhile
CONSOLE_LINES = 40    # shown when it does not come up
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class GuestFailed(Exception):
    """The guest did not do what it is for: its sentence, and the end of its console."""


class Guest:
    """
    with Guest("name", "command") as guest: guest.wait(); guest.read("file it wrote").

    command: a line for /bin/sh in the guest, where every path is as on the host, and
    /run/guest is self.shared. device: (interface, address/bits) of a soft-RoCE device; None: none.
    nets: further arguments for QEMU, one network card each.
    """

    def __init__(self, name, command, *, device=("dummy0", ADDRESS + "/24"), nets=(), cores=2,
                 memory_mb=2048, environment=None):
        self.name = name
        self.nets = nets
        self.cores, self.memory_mb = cores, memory_mb
        self.popen = None
        self.started = None
        self.ended_well = False # for one that is ended from outside, as it is meant to be
        self.shared = tempfile.mkdtemp(prefix=f"kw-guest-{name}-")
        self.console = os.path.join(self.shared, "console")
        self.write_command(command, device, environment or {})

    def write_command(self, command, device, environment):
        lines = ["export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                 "export HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1",
                 "ulimit -l unlimited", f"cd {shlex.quote(TOP)} || exit 125"]
        environment = {"KW_BUILD": BUILD, **environment}
        lines += [f"export {key}={shlex.quote(str(value))}" for key, value in environment.items()]
        if device:
            lines.append(f"{shlex.quote(os.path.join(INSIDE, 'device'))} "
                         f"{shlex.quote(device[0])} {shlex.quote(device[1])} || exit 124")
        with open(os.path.join(self.shared, "command"), "w", encoding="utf-8") as stream:
            stream.write("\n".join(lines + [command, ""]))
        with open(os.path.join(self.shared, "keep"), "w", encoding="utf-8") as stream:
            for path in (TOP, BUILD):
                if path.startswith("/tmp/") and (path == TOP or not path.startswith(TOP + "/")):
                    stream.write(path + "\n")

    def argv(self):
        image, initramfs = kernel.boot_files()
        share = "local,id={0},path={1},security_model=none,multidevs=remap"
        argv = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(self.cores),
                "-m", str(self.memory_mb), "-nodefaults", "-no-user-config", "-nographic",
                "-no-reboot", "-kernel", image, "-initrd", initramfs,
                "-append", "console=ttyS0 quiet panic=-1 oops=panic mitigations=off",
                "-serial", "file:" + self.console,
                "-fsdev", share.format("host", "/") + ",readonly=on",
                "-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
                "-fsdev", share.format("shared", self.shared),
                "-device", "virtio-9p-pci,fsdev=shared,mount_tag=shared"]
        return argv + list(self.nets)

    def start(self):
        try:
            if not shutil.which(QEMU):
                raise kernel.KernelMissing(f"{QEMU} is not there: run tests/rdma/setup")
            argv = self.argv()
        except kernel.KernelMissing as missing:
            shutil.rmtree(self.shared, ignore_errors=True)
            raise GuestFailed(str(missing)) from missing
        with open(os.path.join(self.shared, "qemu"), "wb") as output:
            self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output,
                                          stderr=subprocess.STDOUT,
                                          preexec_fn=die_with_parent)
        self.started = time.monotonic()
        return self

    __enter__ = start

    def __exit__(self, kind, failure, trace):
        self.end()
        if kind is not None or not (self.ended_well or self.read("exit").strip() == "0"):
            self.keep_console()
        shutil.rmtree(self.shared, ignore_errors=True)

    def end(self):
        if self.popen and self.popen.poll() is None:
            self.popen.send_signal(signal.SIGKILL)
            self.popen.wait(10)

    def read(self, name):
        try:
            with open(os.path.join(self.shared, name), encoding="utf-8", errors="replace") as stream:
                return stream.read()
        except FileNotFoundError:
            return ""

    def failed(self, sentence):
        end = "\n".join(self.read("console").splitlines()[-CONSOLE_LINES:])
        return GuestFailed(f"guest {self.name}: {sentence}\n{self.read('qemu')}{end}")

    def keep_console(self):
        os.makedirs(LOGS, exist_ok=True)
        for name in ("console", "output"):
            if os.path.exists(os.path.join(self.shared, name)):
                shutil.copy(os.path.join(self.shared, name),
                            os.path.join(LOGS, f"guest-{self.name}-{name}.log"))

    def wait_up(self):
        """Seconds until it was up."""
        while not self.read("up").strip():
            if self.popen.poll() is not None:
                raise self.failed("ended before it was up")
            if time.monotonic() - self.started > BOOT_SECONDS:
                raise self.failed(f"is not up within {BOOT_SECONDS} s")
            time.sleep(0.1)
        return time.monotonic() - self.started

    def wait(self, seconds, tell=None):
        """
        The exit status of its command. tell: called with what the command has written, as it comes.
        """
        self.wait_up()
        told = 0
        deadline = time.monotonic() + seconds
        while True:
            ended = self.popen.poll() is not None
            if tell:
                output = self.read("output")
                tell(output[told:])
                told = len(output)
            if ended:
                break
            if time.monotonic() > deadline:
                raise self.failed(f"its command has not ended within {seconds} s")
            time.sleep(0.2)
        status = self.read("exit").strip()
        if not status:
            raise self.failed("died before its command ended")
        return int(status)
