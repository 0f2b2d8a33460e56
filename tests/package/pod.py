"""Containers of an unpacked image: crun runs them, in networks of their own that are linked by hand. No daemon."""
import json
import os
import re
import subprocess

from score import SLOW, Failed, say, wait_for

USER = 65532
# crun takes no part in cgroups here, and still looks at them first: it refuses a host that mixes version 1 and 2. So it
# sees version 2 alone.
CRUN = ("unshare", "-m", "sh", "-ec", 'mount -t cgroup2 cgroup2 /sys/fs/cgroup; exec crun --cgroup-manager=disabled "$@"',
        "crun")


class Network:
    """A network namespace: one host of the test."""

    def __init__(self):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "sleep", "infinity"])
        self.path = f"/proc/{self.process.pid}/ns/net"
        wait_for(lambda: os.readlink(self.path) != os.readlink("/proc/self/ns/net"), "unshare makes no network")
        self.run("ip", "link", "set", "lo", "up")

    def run(self, *argv, check=True):
        return say("nsenter", f"--net={self.path}", *argv, check=check)

    def link(self, other, number):
        """A wire to another host: we are 10.9.NUMBER.1, it is 10.9.NUMBER.2."""
        self.run("ip", "link", "add", f"to{number}", "type", "veth", "peer", "name", "to0", "netns",
                 str(other.process.pid))
        for host, name, address in ((self, f"to{number}", f"10.9.{number}.1/24"), (other, "to0", f"10.9.{number}.2/24")):
            host.run("ip", "address", "add", address, "dev", name)
            host.run("ip", "link", "set", name, "up")
        other.run("ip", "route", "add", "default", "via", f"10.9.{number}.1")

    def close(self):
        self.process.kill()
        self.process.wait()


class Container:
    """One of the image. Its folder has config.json and the log."""

    def __init__(self, bundle, folder, name):
        self.folder, self.name, self.process = os.path.join(folder, name), name, None
        self.state = os.path.join(folder, "crun")
        self.log = os.path.join(self.folder, "log")
        os.makedirs(self.folder)
        with open(os.path.join(bundle, "config.json"), encoding="utf-8") as stream:
            self.config = json.load(stream)
        self.config["root"] = {"path": os.path.join(bundle, "rootfs"), "readonly": True}
        self.config["process"].update(terminal=False, noNewPrivileges=True)
        self.config["process"]["capabilities"] = {}
        self.config["hostname"] = name
        self.config["mounts"] = [mount for mount in self.config["mounts"] if mount["type"] != "cgroup"]
        self.config["linux"].pop("resources", None)

    def command(self, argv, environment):
        self.config["process"]["args"] = list(argv)
        self.config["process"]["env"] += [f"{name}={value}" for name, value in environment.items()]

    def join(self, network):
        for one in self.config["linux"]["namespaces"]:
            if one["type"] == "network":
                one["path"] = network.path

    def bind(self, source, target, *options):
        self.config["mounts"].append({"type": "bind", "source": source, "destination": target,
                                      "options": ["rbind", *options]})

    def tmpfs(self, target, options):
        self.config["mounts"].append({"type": "tmpfs", "source": "tmpfs", "destination": target,
                                      "options": ["nosuid", "nodev", *options]})

    def crun(self, *argv, **options):
        return say(*CRUN, "--root", self.state, *argv, **options)

    def start(self):
        with open(os.path.join(self.folder, "config.json"), "w", encoding="utf-8") as stream:
            json.dump(self.config, stream)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([*CRUN, "--root", self.state, "run", "-b", self.folder, self.name],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def run(self):
        """To its end: the exit status, and what it said."""
        self.start()
        return self.wait(), self.said()

    def wait(self):
        try:
            return self.process.wait(60 * SLOW)
        except subprocess.TimeoutExpired as late:
            raise Failed(f"{self.name} does not end:\n{self.said()}") from late

    def execute(self, *argv, check=True):
        return self.crun("exec", "--user", f"{USER}:{USER}", self.name, *argv, check=check)

    def ask(self, network, path):
        """/readyz and the like: the status, and the text."""
        said = network.run("curl", "-s", "-m", "30", "-w", "\n%{http_code}", f"http://127.0.0.1:9121{path}", check=False)
        text, _, code = said.rpartition("\n")
        return code, text

    def said(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, encoding="utf-8", errors="replace") as stream:
            return stream.read()

    def must_run(self):
        if self.process.poll() is not None:
            raise Failed(f"{self.name} ended with {self.process.returncode}:\n{self.said()}")

    def end(self, signal="TERM"):
        """The exit status: 128 and the number of the signal if that killed it."""
        self.crun("kill", self.name, signal)
        return self.wait()

    def close(self):
        if self.process and self.process.poll() is None:
            self.crun("delete", "-f", self.name, check=False)
            self.process.wait()


def of_service(service, bundle, folder, name, volumes, secrets):
    """A container as compose would make it of this service. What is not understood is refused."""
    container = Container(bundle, folder, name)
    container.command(service["command"].split(), service["environment"])
    for text in service["tmpfs"]:
        target, _, options = text.partition(":")
        container.tmpfs(target, options.split(","))
    for secret in service["secrets"]:
        container.bind(os.path.join(secrets, secret), f"/run/secrets/{secret}", "ro")
    for text in service["volumes"]:
        volume, _, target = text.partition(":")
        container.bind(os.path.join(volumes, volume), target)
    strange = set(service) - {"image", "restart", "read_only", "cap_drop", "security_opt", "tmpfs", "secrets", "command",
                              "environment", "volumes", "healthcheck", "depends_on"}
    if strange or service["cap_drop"] != ["ALL"] or not service["read_only"]:
        raise Failed(f"{name}: the test does not know what to do with {strange or service}")
    return container


def make_volume(volumes, name, options):
    """A volume in memory would have the owner and the mode of its options. So has this folder."""
    values = dict(re.findall(r"(\w+)=(\d+)", options))
    path = os.path.join(volumes, name)
    os.makedirs(path)
    os.chown(path, int(values["uid"]), int(values["gid"]))
    os.chmod(path, int(values["mode"], 8))
