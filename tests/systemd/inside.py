#!/usr/bin/python3
"""
Runs as root in the machine that tests/systemd/boot has made: installs the services as install.md says, and uses
them by the blocks of operate.md that name this file. Each line of systemd/sandbox.conf that could get in a daemon's
way is tried by what the daemon does.
"""
import glob
import grp
import json
import os
import pwd
import re
import signal
import stat
import subprocess
import sys
import time

import sandbox

CHECKOUT = "/run/kw/checkout"
PASSWORD = "unguessable-7391"
SLOW = float(os.environ.get("KW_SLOW", "1"))
failures = 0


class Failed(Exception):
    pass


def say(*argv, user=None, check=True, text=None):
    """What the command prints; with check its failure is one of the test."""
    if user:
        groups = subprocess.run(["id", "-G", user], capture_output=True, text=True, check=True).stdout.split()
        argv = ["setpriv", f"--reuid={user}", f"--regid={groups[0]}", "--groups", ",".join(groups), *argv]
    done = subprocess.run(argv, capture_output=True, text=True, input=text, timeout=60, check=False)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(argv)}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def wait_for(question, what, seconds=30):
    end = time.monotonic() + seconds * SLOW
    while True:
        answer = question()
        if answer:
            return answer
        if time.monotonic() > end:
            raise Failed(what() if callable(what) else what)
        time.sleep(0.05)


def ctl(daemon, *words, user=None, check=True):
    return say("keywakectl", "-s", f"/run/keywake/{daemon}-t.sock", "--json", *words, user=user, check=check)


def status(daemon):
    try:
        return json.loads(ctl(daemon, "status"))
    except (Failed, ValueError):
        return {}


def journal(daemon, lines=15):
    """There is no journald: tests/systemd/boot sends the log to a file."""
    text = ""
    if os.path.exists(f"/run/kw/{daemon}.log"):
        with open(f"/run/kw/{daemon}.log", encoding="utf-8") as stream:
            text = "".join(stream.readlines()[-lines:])
    return text or say("systemctl", "status", "--no-pager", f"keywake-{daemon}@t", check=False)


def wait_state(daemon, state):
    return wait_for(lambda: status(daemon).get("state") == state and status(daemon),
                    lambda: f"{daemon} is {status(daemon)}, not {state}:\n{journal(daemon)}")


def show(daemon, name, instance="t"):
    return say("systemctl", "show", "-P", name, f"keywake-{daemon}@{instance}").strip()


def pid(daemon):
    found = int(show(daemon, "MainPID"))
    if not found: # kill(0) would end this script
        raise Failed(f"{daemon} does not run:\n{journal(daemon)}")
    return found


def as_the_page_says(label):
    """Runs the block of operate.md with this label, to the letter but for the name of the instance."""
    mark = f"<!-- run by tests/systemd/inside.py: {label} -->\n```sh\n"
    with open("/run/kw/deploy/doc/operate.md", encoding="utf-8") as stream:
        script = stream.read().split(mark)[1].split("```")[0].replace("@NAME", "@t")
    # tests/systemd/boot has done that.
    script = script.replace("meson install -C build\n", "")
    return say("bash", "-euxc", f"cd /run/kw\n{script}")


def write(path, text, group, mode=0o640):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chown(path, 0, grp.getgrnam(group).gr_gid)
    os.chmod(path, mode)


# ---- the tests, in their order: each goes on from the one before ----

def test_an_upgrade_finds_the_folder_of_the_user_before():
    """As version 0.1 leaves it: one user for all, and a socket of a daemon that was killed."""
    say("groupadd", "--system", "keywake")
    say("useradd", "--system", "-g", "keywake", "keywake")
    os.makedirs("/run/keywake", mode=0o750)
    os.chown("/run/keywake", pwd.getpwnam("keywake").pw_uid, grp.getgrnam("keywake").gr_gid)
    say("python3", "-c", "import socket, os; os.umask(0o7); socket.socket(socket.AF_UNIX).bind('/run/keywake/proxy-t.sock')",
        user="keywake")


def test_a_checkout_is_installed_as_install_md_says():
    """To the letter. The build is the one that is tested: nothing of it is compiled again."""
    with open(f"{CHECKOUT}/deploy/doc/install.md", encoding="utf-8") as stream:
        found = re.findall(r"^<!-- run by tests/systemd/run -->\n```sh\n(.*?)^```$", stream.read(), re.M | re.S)
    assert len(found) == 1, found
    before = os.stat(f"{CHECKOUT}/build/proxy/keywake-proxy").st_mtime_ns
    say("sh", "-exc", f"cd {CHECKOUT}; {found[0]}")
    assert os.stat(f"{CHECKOUT}/build/proxy/keywake-proxy").st_mtime_ns == before
    for daemon in ("proxy", "agent", "gateway"):
        assert show(daemon, "LoadState") == "loaded" and show(daemon, "User") == f"keywake-{daemon}"
    assert os.path.exists(os.path.join(say("sh", "-c", "dirname $(dirname $(command -v keywake-proxy))").strip(),
                                       "share/doc/keywake/examples/proxy.example.json"))


def test_the_users_and_the_folder_are_made():
    members = set(grp.getgrnam("keywake").gr_mem)
    for daemon in ("proxy", "agent", "gateway"):
        user = pwd.getpwnam(f"keywake-{daemon}")
        assert user.pw_shell.endswith("nologin"), user
        assert user.pw_name in members and user.pw_name in grp.getgrnam("redis").gr_mem
    folder = os.stat("/run/keywake")
    assert stat.S_IMODE(folder.st_mode) == 0o1770 and folder.st_uid == 0, oct(folder.st_mode)
    assert folder.st_gid == grp.getgrnam("keywake").gr_gid


def test_servers_run_beside():
    os.makedirs("/run/redis", exist_ok=True)
    os.chown("/run/redis", pwd.getpwnam("redis").pw_uid, grp.getgrnam("redis").gr_gid)
    for name in ("primary", "replica"):
        say("systemd-run", "-q", f"--unit=kw-{name}", "--uid=redis", "--gid=redis", "redis-server", "--port",
            "7001" if name == "primary" else "0", "--unixsocket", f"/run/redis/{name}.sock", "--unixsocketperm", "770",
            "--requirepass", PASSWORD, "--save", "", "--dir", "/run/redis")
        wait_for(lambda name=name: "PONG" in redis(name, "PING"), f"{name} does not answer")
    for i in range(200):
        redis("primary", "SET", f"key:{i}", "value " * 20)


def redis(name, *words):
    return say("redis-cli", "-s", f"/run/redis/{name}.sock", "-a", PASSWORD, "--no-auth-warning", *words, check=False)


def configure():
    write("/etc/keywake/secret", "0123456789abcdef" * 4 + "\n", "keywake")
    common = {"log": {"level": "debug"}}
    for daemon, keys in {
            "proxy": {"redis": {"address": "tcp://localhost:7001", "password_file": "/etc/keywake/proxy.password"},
                      "listen": ["shm:///run/keywake/t.shm", "tcp://127.0.0.1:7002"],
                      "auth": {"secret_file": "/etc/keywake/secret"}, "table": {"max_bytes": "64MiB"}},
            "agent": {"redis": {"address": "unix:///run/redis/replica.sock",
                                "password_file": "/etc/keywake/agent.password"},
                      "proxy": "shm:///run/keywake/t.shm", "auth": {"secret_file": "/etc/keywake/secret"}},
            "gateway": {"proxy": "tcp://localhost:7002", "auth": {"secret_file": "/etc/keywake/secret"},
                        "gateway": {"resp": ["unix:///run/keywake/gateway.resp"]}}}.items():
        write(f"/etc/keywake/{daemon}-t.json", json.dumps({**common, **keys}), f"keywake-{daemon}")
        write(f"/etc/keywake/{daemon}.password", PASSWORD + "\n", f"keywake-{daemon}")


def test_a_socket_of_another_user_is_named_with_its_remedy():
    configure()
    say("systemctl", "start", "--no-block", "keywake-proxy@t")
    wait_for(lambda: "rm /run/keywake/proxy-t.sock as root" in journal("proxy"), lambda: journal("proxy"))
    os.remove("/run/keywake/proxy-t.sock")
    wait_for(lambda: show("proxy", "ActiveState") == "active", lambda: journal("proxy"))


def test_all_three_start_and_say_so():
    """Type=notify: `systemctl start` returns when the daemon is ready."""
    for daemon in ("proxy", "agent", "gateway"):
        say("systemctl", "start", f"keywake-{daemon}@t")
        assert show(daemon, "ActiveState") == "active"
        uid = os.stat(f"/proc/{pid(daemon)}").st_uid
        assert pwd.getpwuid(uid).pw_name == f"keywake-{daemon}", uid
    wait_state("proxy", "live")
    wait_state("agent", "warm")
    wait_state("gateway", "serving")
    wait_for(lambda: show("proxy", "StatusText"), "no STATUS came")


def test_the_data_arrive():
    ctl("agent", "wait", "warm", "--timeout", "30")
    assert redis("replica", "GET", "key:7").startswith("value")
    # Its table may be older than it serves for a moment.
    wait_for(lambda: say("redis-cli", "-s", "/run/keywake/gateway.resp", "GET", "key:7", check=False).startswith("value"),
             lambda: status("gateway"))
    assert json.loads(ctl("agent", "verify"))["different_count"] == 0


def test_sockets_are_of_the_group():
    for name in ("t.shm", "proxy-t.sock", "agent-t.sock", "gateway-t.sock", "gateway.resp"):
        found = os.stat(f"/run/keywake/{name}")
        assert grp.getgrgid(found.st_gid).gr_name == "keywake", name
        assert stat.S_IMODE(found.st_mode) in (0o660, 0o770), (name, oct(found.st_mode))


def test_no_daemon_removes_the_socket_of_another():
    for name in ("t.shm", "proxy-t.sock"):
        assert "Operation not permitted" in say("rm", "-f", f"/run/keywake/{name}", user="keywake-agent", check=False)


def test_no_daemon_reads_the_password_of_another():
    said = say("cat", "/etc/keywake/proxy.password", user="keywake-agent", check=False)
    assert "Permission denied" in said, said


def test_no_daemon_may_talk_to_the_control_socket_of_another():
    said = ctl("proxy", "status", user="keywake-agent", check=False)
    assert "users of other keywake daemons are refused" in said, said
    say("useradd", "-G", "keywake", "person")
    wait_for(lambda: json.loads(ctl("proxy", "status", user="person"))["state"] == "live", lambda: status("proxy"))


def test_no_daemon_attaches_to_another():
    for path in ("mem", "fd", "environ"):
        said = say("head", "-c", "1", f"/proc/{pid('proxy')}/{path}", user="keywake-agent", check=False)
        assert "Permission denied" in said, said


def test_an_instance_with_a_user_of_its_own_is_walled_off():
    """As systemd/own-user.conf says. Two instances of one kind are one user otherwise."""
    own = "keywake-gateway-u"
    write(f"/etc/sysusers.d/{own}.conf", f'u {own} - "{own}" /run/keywake\nm {own} keywake\nm {own} {own}\n', "root", 0o644)
    say("systemd-sysusers")
    folder = "/etc/systemd/system/keywake-gateway@u.service.d"
    say("install", "-D", "-m", "644", "/usr/local/share/doc/keywake/systemd/own-user.conf", f"{folder}/own-user.conf")
    write(f"{folder}/log.conf", "[Service]\nStandardError=append:/run/kw/gateway-u.log\n", "root", 0o644)
    with open("/etc/keywake/gateway-t.json", encoding="utf-8") as stream:
        config = stream.read()
    write("/etc/keywake/gateway-u.json", config.replace("gateway.resp", "gateway-u.resp"), own)
    say("systemctl", "daemon-reload")
    say("systemctl", "start", "keywake-gateway@u")
    control = ("keywakectl", "-s", "/run/keywake/gateway-u.sock", "--json", "status")
    wait_for(lambda: '"serving"' in say(*control), lambda: say(*control))
    main = say("systemctl", "show", "-P", "MainPID", "keywake-gateway@u").strip()
    assert pwd.getpwuid(os.stat(f"/proc/{main}").st_uid).pw_name == own
    assert pwd.getpwuid(os.stat("/var/lib/keywake/gateway-u").st_uid).pw_name == own
    for daemon in ("gateway", "proxy"):
        said = ctl(daemon, "status", user=own, check=False)
        assert "users of other keywake daemons are refused" in said, said
    said = say(*control, user="keywake-gateway", check=False)
    assert "users of other keywake daemons are refused" in said, said
    for words in (("cat", "/etc/keywake/gateway-t.json"), ("ls", "/var/lib/keywake/gateway-t"),
                  ("head", "-c", "1", f"/proc/{pid('gateway')}/mem"), ("kill", "-0", str(pid("gateway"))),
                  ("rm", "-f", "/run/keywake/gateway-t.sock")):
        said = say(*words, user=own, check=False)
        assert "denied" in said or "not permitted" in said, (words, said)


def test_values_that_another_user_has_saved_are_refused():
    saved = "/var/lib/keywake/gateway-u/saved.json"
    write(saved, '{"gateway.max_clients": 7}', "keywake", 0o644)
    os.chown(saved, pwd.getpwnam("keywake-gateway").pw_uid, -1)
    say("systemctl", "restart", "keywake-gateway@u", check=False)
    wait_for(lambda: say("systemctl", "show", "-P", "ActiveState", "keywake-gateway@u").strip() == "failed",
             "it starts with the values of another user")
    with open("/run/kw/gateway-u.log", encoding="utf-8") as stream:
        assert "belongs to user" in stream.read()
    os.remove(saved)
    say("systemctl", "reset-failed", "keywake-gateway@u")


def probe(daemon, *drop_in):
    """What tests/systemd/probe.py finds in that daemon's unit; drop_in: lines that change the unit."""
    unit = f"keywake-{daemon}@probe.service"
    lines = ["[Service]", "Type=oneshot", "Restart=no", "WatchdogSec=0", "FileDescriptorStoreMax=0", "ExecStart=",
             "ExecStart=/usr/bin/python3 /usr/local/bin/kw-probe", "StandardOutput=truncate:/run/kw/probe.json",
             "StandardError=append:/run/kw/probe.log", *drop_in]
    write(f"/run/systemd/system/{unit}.d/probe.conf", "\n".join([*lines, ""]), "root", 0o644)
    say("systemctl", "daemon-reload")
    try:
        say("systemctl", "start", unit)
    except Failed as failed:
        raise Failed(f"{failed}{say('tail', '-n', '5', '/run/kw/probe.log', check=False)}") from None
    with open("/run/kw/probe.json", encoding="utf-8") as stream:
        return json.load(stream)


def test_each_entry_of_the_sandbox_refuses_what_it_must():
    sandbox.prepare()
    assert sandbox.entries_of("/run/kw/sandbox.conf") == set(sandbox.ENTRIES), "an entry without a probe, or the reverse"
    for daemon in ("proxy", "agent", "gateway"):
        found = probe(daemon)
        missing = sandbox.missing(found)
        assert not missing, f"{daemon}: {missing}: {found}"
        assert found["umask"] == ("0007" if daemon == "gateway" else "0077") and found["core"] == [0, 0], found


def test_an_entry_that_is_taken_away_is_noticed():
    """So each probe can fail. Those that others back up are not among them."""
    unnoticed = [f"{name}={without}" for name, without in sandbox.can_be_taken_away()
                 if name not in sandbox.missing(probe("gateway", f"{name}={without}"))]
    assert not unnoticed, unnoticed


def test_the_daemons_themselves_are_in_the_sandbox():
    for daemon in ("proxy", "agent", "gateway"):
        with open(f"/proc/{pid(daemon)}/status", encoding="ascii") as stream:
            facts = dict(line.split(":\t", 1) for line in stream.read().splitlines() if ":\t" in line)
        assert int(facts["CapBnd"], 16) == int(facts["CapEff"], 16) == 0, facts["CapBnd"]
        assert facts["NoNewPrivs"] == "1" and facts["Seccomp"] == "2"
        devices = set(os.listdir(f"/proc/{pid(daemon)}/root/dev"))
        assert "null" in devices and not devices & {"vda", "mem", "kmsg", "infiniband"}, devices
        assert exposure(daemon) <= 1.2


def exposure(daemon):
    """By systemd's own scale: 0 is best, 10 worst."""
    said = say("systemd-analyze", "security", "--no-pager", f"keywake-{daemon}@t")
    return float(re.search(r"Overall exposure level for \S+: ([0-9.]+)", said).group(1))


def test_the_primary_is_watched_although_its_proc_is_hidden():
    """ProtectProc=invisible hides the primary's schedstat. The proxy then reckons with its own (waiting.h)."""
    uid = pwd.getpwnam("keywake-proxy").pw_uid
    seen = say("nsenter", "-t", str(pid("proxy")), "-m", "-r", "setpriv", f"--reuid={uid}", f"--regid={uid}",
               "--clear-groups", "ls", "/proc").split()
    primary = say("systemctl", "show", "-P", "MainPID", "kw-primary").strip()
    assert "meminfo" in seen and "1" not in seen and primary not in seen, seen[:9]
    wait_state("proxy", "live")


def test_a_reload_is_taken_up():
    as_the_page_says("reload")
    wait_for(lambda: "reloaded" in journal("agent", 40), lambda: journal("agent"))
    assert show("agent", "NRestarts") == "0"


def test_a_person_exports_to_a_file():
    say("install", "-d", "-o", "person", "/run/exports")
    ctl("agent", "export", "/run/exports/dump.rdb", user="person")
    found = os.stat("/run/exports/dump.rdb")
    assert found.st_size > 100 and pwd.getpwuid(found.st_uid).pw_name == "person"


def test_a_daemon_that_dies_comes_back_and_leaves_no_core():
    before = pid("proxy")
    os.kill(before, signal.SIGSEGV)
    wait_for(lambda: int(show("proxy", "MainPID")) not in (0, before), "it is not started again")
    wait_state("proxy", "live")
    wait_state("agent", "warm")
    assert not glob.glob("/core*") and not glob.glob("/run/keywake/core*")
    assert "core-dump" not in say("systemctl", "show", "-P", "Result", "keywake-proxy@t")


def test_a_restart_of_the_proxy_keeps_the_table_and_a_crash_does_not():
    before = wait_state("proxy", "live")["epoch"]
    say("systemctl", "restart", "keywake-proxy@t")
    assert wait_state("proxy", "live")["epoch"] == before, journal("proxy", 40)
    wait_state("agent", "warm")
    # systemd hears of it by a message.
    wait_for(lambda: show("proxy", "NFileDescriptorStore") == "0", "the new process must have taken it")
    os.kill(pid("proxy"), signal.SIGKILL)
    wait_for(lambda: status("proxy").get("epoch") not in (None, before), lambda: journal("proxy", 40))
    wait_state("proxy", "live")
    wait_state("agent", "warm")


def test_a_daemon_that_hangs_is_ended_by_the_watchdog():
    say("systemctl", "set-property", "--runtime", "keywake-gateway@t", "CPUWeight=100", check=False)
    write("/run/systemd/system/keywake-gateway@t.service.d/short.conf", "[Service]\nWatchdogSec=5\n", "root", 0o644)
    say("systemctl", "daemon-reload")
    say("systemctl", "restart", "keywake-gateway@t")
    before = pid("gateway")
    wait_state("gateway", "serving")
    os.kill(before, signal.SIGSTOP)
    wait_for(lambda: int(show("gateway", "MainPID")) not in (0, before), "the watchdog does not see it")
    wait_state("gateway", "serving")


def test_a_broken_configuration_is_not_tried_again():
    write("/etc/keywake/agent-t.json", '{"no such key": 1}', "keywake-agent")
    say("systemctl", "restart", "keywake-agent@t", check=False)
    wait_for(lambda: show("agent", "ActiveState") == "failed", lambda: show("agent", "ActiveState"))
    assert show("agent", "ExecMainStatus") == "2"
    configure()
    say("systemctl", "restart", "keywake-agent@t")
    wait_state("agent", "warm")


def test_rdma_needs_its_drop_in():
    """The devices are hidden without it; with it they would be open, and the rest stays shut."""
    folder = "/etc/systemd/system/keywake-proxy@t.service.d"
    say("install", "-D", "-m", "644", *glob.glob("/usr/local/share/doc/keywake/systemd/rdma.conf"), f"{folder}/rdma.conf")
    say("systemctl", "daemon-reload")
    assert show("proxy", "PrivateDevices") == "no" and show("proxy", "DevicePolicy") == "closed"
    assert "infiniband_verbs" in show("proxy", "DeviceAllow") and "AF_NETLINK" in show("proxy", "RestrictAddressFamilies")
    assert 1.2 < exposure("proxy") <= 1.5 # the devices, and one more family of addresses
    say("systemctl", "restart", "keywake-proxy@t")
    wait_state("proxy", "live")


def test_a_user_for_each_daemon_takes_one_block():
    """What version 0.1 leaves: one user for all, its files, and sockets of daemons that were killed."""
    say("systemctl", "stop", *(f"keywake-{daemon}@t" for daemon in ("gateway", "agent", "proxy")))
    for daemon in ("proxy", "agent", "gateway"):
        say("userdel", f"keywake-{daemon}")
        for path in (f"/etc/keywake/{daemon}-t.json", f"/etc/keywake/{daemon}.password"):
            os.chown(path, 0, grp.getgrnam("keywake").gr_gid)
    os.chown("/run/keywake", pwd.getpwnam("keywake").pw_uid, grp.getgrnam("keywake").gr_gid)
    os.chmod("/run/keywake", 0o750)
    for name in ("proxy-t.sock", "agent-t.sock", "t.shm"):
        say("python3", "-c", f"import socket; socket.socket(socket.AF_UNIX).bind('/run/keywake/{name}')", user="keywake")
    as_the_page_says("users")
    wait_state("proxy", "live")
    wait_state("agent", "warm")
    for daemon in ("proxy", "agent"):
        assert pwd.getpwuid(os.stat(f"/proc/{pid(daemon)}").st_uid).pw_name == f"keywake-{daemon}"
    assert stat.S_IMODE(os.stat("/run/keywake").st_mode) == 0o1770
    say("systemctl", "start", "keywake-gateway@t")


def test_the_example_runs_as_a_service():
    """Its primary is not there: the proxy waits for it, and says so."""
    write("/etc/keywake/primary.password", PASSWORD + "\n", "keywake-proxy")
    say("install", "-m", "640", "-g", "keywake-proxy", f"{CHECKOUT}/deploy/proxy.example.json",
        "/etc/keywake/proxy-default.json")
    say("systemctl", "enable", "--now", "keywake-proxy@default")
    assert show("proxy", "ActiveState", "default") == "active"
    said = say("keywakectl", "-s", "/run/keywake/proxy-default.sock", "status", check=False)
    assert "/run/redis/redis-server.sock" in said, said
    say("systemctl", "disable", "--now", "keywake-proxy@default")


def test_the_journal_has_what_the_page_asks_it_for():
    """journald is started only now: the log went to files, which the other tests read."""
    say("systemctl", "start", "systemd-journald.socket", "systemd-journald-dev-log.socket", "systemd-journald")
    for daemon in ("proxy", "agent"):
        os.remove(f"/run/systemd/system/keywake-{daemon}@t.service.d/log.conf")
    say("systemctl", "daemon-reload")
    say("systemctl", "stop", "keywake-agent@t")
    redis("replica", "FUNCTION", "FLUSH") # its cursor: without it the keys are those of others
    say("systemctl", "restart", "keywake-proxy@t", "keywake-agent@t")
    wait_state("agent", "failed")
    said = wait_for(lambda: (text := as_the_page_says("journal")) and "set apply.consent=true" in text and text,
                    lambda: as_the_page_says("journal"))
    assert "keywake-proxy[" in said and "keywake-agent[" in said, said
    assert "apply.consent=true" in as_the_page_says("fields"), as_the_page_says("fields")


def test_they_end_in_order():
    """With the last unit of a user, the memory that it shared with others is gone (RemoveIPC=)."""
    for daemon in ("gateway", "agent", "proxy"):
        shared = f"/dev/shm/kw-{daemon}"
        with open(shared, "w", encoding="ascii"):
            os.chown(shared, pwd.getpwnam(f"keywake-{daemon}").pw_uid, -1)
        say("systemctl", "stop", f"keywake-{daemon}@t")
        wait_for(lambda shared=shared: not os.path.exists(shared), f"{shared} stays")
        assert show(daemon, "Result") == "success" and show(daemon, "ExecMainStatus") == "0", journal(daemon)
    assert not glob.glob("/run/keywake/*"), glob.glob("/run/keywake/*")


for test in [value for name, value in globals().items() if name.startswith("test_")]:
    name = test.__name__.removeprefix("test_").replace("_", " ")
    try:
        test()
        print(f"ok   services: {name}", flush=True)
    except (Failed, AssertionError, OSError, KeyError, ValueError) as problem:
        failures += 1
        where = problem.__traceback__
        while where.tb_next:
            where = where.tb_next
        print(f"FAIL services: {name} (line {where.tb_lineno})\n       {str(problem)[:3000]}", flush=True)
print("the end", flush=True)
sys.exit(1 if failures else 0)
