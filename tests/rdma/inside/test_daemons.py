"""The daemons over rdma: what an operator counts on, and what he meets when something is wrong."""
import json
import os
import random
import re
import signal
import subprocess
import time

import pytest

from lib import data, hugepages
from lib.compare import wait_equal, wait_same
from lib.daemon import RDMA_HOST, free_port, secret_file
from lib.process import wait_for
from lib.tls import Authority
from lib.workload import Workload, seed_of_run

SECONDS = float(os.environ.get("KW_WORKLOAD_SECONDS", "6"))

# A process of root's that may not lock memory beyond its limit, like any other user's.
UNPRIVILEGED = ["setpriv", "--bounding-set=-ipc_lock", "--inh-caps=-ipc_lock"]


def limited(kib):
    return [*UNPRIVILEGED, "prlimit", f"--memlock={kib * 1024}"]


def shell(line):
    subprocess.run(["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, check=True)


def test_two_agents_one_over_rdma_one_over_shm(bed):
    """Bootstrapped from keys of every type, then kept equal under a random load with restarts."""
    seed = seed_of_run()
    chance = random.Random(seed)
    primary = bed.server("primary")
    data.fill(primary, (0, 10))
    data.fill_plain(primary, 2_000)
    proxy = bed.proxy(primary, listen=("shm", "rdma"))
    agents = [bed.agent(proxy, bed.server(f"replica-{via}"), name=f"agent-{via}", via=via)
              for via in ("shm", "rdma")]
    load = Workload(primary, seed, pace=1000).start()
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.3, 1.5))
        agents[1].kill()
        agents[1].restart()
    load.stop()
    for agent in agents:
        agent.wait_warm(120)
        wait_same(primary, agent.replica, 60)
    status = agents[1].status()
    assert status["transport"] == "rdma", status
    assert {row["carrier"] for row in proxy.ctl_ok("agents")} == {"shm", "rdma"}


def test_a_table_in_huge_pages(bed):
    """The device registers huge pages; agents over shm and rdma read them."""
    with hugepages.pool(40) as free:
        assert free == 40
        primary = bed.server("primary")
        data.fill_plain(primary, 500)
        proxy = bed.proxy(primary, listen=("shm", "rdma"), table__huge_pages=True, table__max_bytes="32MiB")
        agents = [bed.agent(proxy, bed.server(f"replica-{via}"), name=f"agent-{via}", via=via)
                  for via in ("shm", "rdma")]
        primary.command("SET", "written", "later")
        for agent in agents:
            agent.wait_warm(120)
            wait_equal(primary, agent.replica, 60)
        assert hugepages.free() < free
        bed.close()


@pytest.mark.parametrize("victim", ["agent", "proxy", "primary", "replica"])
def test_killed_under_load(bed, victim):
    """SIGKILL, twice; the primary comes back with its RDB, the replica with nothing."""
    pair = bed.pair(listen=("rdma",), via="rdma", fill=data.fill)
    process = getattr(pair, victim)
    load = Workload(pair.primary, seed_of_run(), pace=500, short_ttls=False, silent=False).start()
    for _ in range(2):
        time.sleep(1)
        if victim == "primary":
            process.command("SAVE")
        process.kill()
        time.sleep(0.3)
        if victim == "replica":
            process.restart(keep_data=False)
        else:
            process.restart()
    load.stop()
    pair.agent.wait_warm(40)
    pair.wait_equal(20)


def kernel_encrypted():
    """Connections that the kernel has begun to encrypt."""
    with open("/proc/net/tls_stat", encoding="ascii") as stream:
        return sum(int(line.split()[1]) for line in stream if line.startswith("TlsTx"))


def test_the_kernel_encrypts_where_it_can(bed):
    """The guest has the kernel's module `tls`, which no other machine of the tests has to have."""
    authority, before = Authority(bed.directory), kernel_encrypted()
    primary = bed.server("primary")
    data.fill(primary, (0, 10))
    primary.command("SET", "large", os.urandom(5_000_000))
    proxy = bed.proxy(primary, listen=("tcp+tls",), **authority.wire("proxy"))
    agent = bed.agent(proxy, bed.server("replica"), via="tcp+tls", **authority.wire("agent"))
    agent.wait_warm(120)
    assert [session["tls"] for session in proxy.ctl_ok("agents")] == ["kernel"]
    assert kernel_encrypted() > before
    load = Workload(primary, seed_of_run(), pace=1000).start()
    wait_for(lambda: load.commands >= 2000, "no load", 60)
    load.stop()
    agent.wait_warm(120)
    wait_same(primary, agent.replica, 60)


def test_a_proxy_that_may_not_lock_its_table_says_what_it_needs(bed):
    proxy = bed.proxy(bed.server("primary"), listen=("rdma",), start=False, wrapper=limited(8192))
    proxy.start(wait=False)
    assert proxy.wait_exit(20) in (1, 2)
    told = proxy.output()
    assert "bytes of locked memory" in told and f"{8192 * 1024} are allowed" in told, told
    assert "LimitMEMLOCK=infinity" in told, told


def test_an_agent_that_may_not_lock_its_buffers_says_what_it_needs(bed):
    primary = bed.server("primary")
    proxy = bed.proxy(primary, listen=("rdma",))
    agent = bed.agent(proxy, bed.server("replica"), via="rdma", wrapper=limited(256))
    status = agent.wait_status(lambda status: "locked memory" in (status["reason"] or ""),
                               "no reason that names locked memory")
    assert "LimitMEMLOCK=infinity" in status["reason"], status
    assert status["state"] == "failed", status # only a person can mend it
    # The limit is raised while it runs, as an operator may do: it goes on by itself.
    shell(f"prlimit --pid {agent.pid} --memlock=67108864")
    agent.wait_warm()


def test_enough_locked_memory_is_enough(bed):
    """Without any privilege, with a limit that the table fits in."""
    pair = bed.pair(listen=("rdma",), via="rdma", fill=data.fill,
                    proxy={"wrapper": limited(1 << 20), "table__max_bytes": "64MiB"},
                    agent={"wrapper": limited(4096)})
    pair.settle()


def link_findings(agent):
    """What the doctor says of the way to the proxy, by its part."""
    found = json.loads(agent.ctl("doctor", timeout=60).stdout)["findings"]
    return {finding["check"].rpartition(": ")[2]: finding for finding in found
            if finding["check"].startswith("proxy rdma://")}


def test_the_doctor_measures_the_network(bed):
    """A READ over the device, and what the interface's MTU makes of it: the way with small packets has a remedy."""
    pair = bed.pair(listen=("rdma",), via="rdma", fill=data.fill)
    pair.settle()
    found = link_findings(pair.agent)
    assert "lets us in over rdma" in found["connection"]["finding"], found
    assert found["device"]["severity"] == "ok" and "RDMA device rxe0" in found["device"]["finding"], found
    took, rate = re.search(r"a READ over rdma takes (\d+) us .* bring (\d+) MB/s", found["READs"]["finding"]).groups()
    assert 0 < int(took) < 1_000_000 and int(rate) > 0, found
    shell("ip link set dev dummy0 mtu 1500")
    try:
        found = link_findings(pair.agent)
    finally:
        shell("ip link set dev dummy0 mtu 9000")
    device = found["device"]
    assert device["severity"] == "warning" and "has an MTU of 1500" in device["finding"], found
    assert "mtu 9000" in device["remedy"], found


def test_a_wrong_secret_is_refused(bed):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    proxy = bed.proxy(primary, listen=("rdma",))
    agent = bed.agent(proxy, replica, via="rdma",
                      auth__secret_file=bed.file("other", "another long secret\n"))
    agent.wait_status(lambda status: "secret" in (status["reason"] or "").lower(),
                      "no reason that names the secret")
    assert replica.command("DBSIZE") == 0
    assert proxy.ctl_ok("agents") == []
    agent.kill()
    agent.settings["auth.secret_file"] = secret_file(bed.directory)
    agent.restart()
    agent.wait_warm()


def test_disconnected_by_the_operator(bed):
    pair = bed.pair(listen=("rdma",), via="rdma")
    row = pair.proxy.ctl_ok("agents")[0]
    assert row["carrier"] == "rdma" and RDMA_HOST in row["peer"], row
    pair.proxy.rpc("agents.disconnect", id=row["id"])
    # The word of it can come later than the answer to a READ that was under way, which is refused by then.
    wait_for(lambda: any(word in pair.agent.output() for word in ("disconnected by the operator", "refused access")),
             "it never noticed")
    # It is let in again (it knows the secret): another session, and nothing was lost.
    wait_for(lambda: [other["id"] for other in pair.proxy.ctl_ok("agents")] not in ([], [row["id"]]),
             "it did not come again")
    pair.settle()


def withdrawn_so_far(proxy):
    return proxy.output().count("the earlier rkeys open nothing")


def let_it_expire(proxy, keys, name):
    """The line in use gets a moment that comes soon: no session ends before."""
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    with open(keys, encoding="ascii") as stream:
        text = stream.read()
    with open(keys, "w", encoding="ascii") as stream:
        stream.write(re.sub(rf"(key {name} .*)", rf"\1 expires={moment}", text))
    assert proxy.ctl_ok("config", "reload")["revoked"] == 0


def revoke_away(proxy, name):
    """Nobody has this name at present. It is refused from now on, and the exit status warns of a mistake."""
    done = proxy.ctl("agents", "revoke", name)
    assert done.returncode == 2 and "The name is remembered" in done.stderr, done


def test_a_key_is_withdrawn_and_another_agent_notices_nothing(bed):
    """
    Memory is registered anew under new rkeys: when a key expires, when one is revoked, and when a certificate's
    name is. The agent that stays keeps its connection, and needs no second snapshot. The cost is in the log, and
    shown here.
    """
    primary, authority = bed.server("primary"), Authority(bed.directory)
    data.fill_plain(primary, 500)
    digits = {name: f"{number:x}" * 64 for number, name in enumerate(("gone", "stays", "ends"), 1)}
    keys = bed.file("keys", "".join(f"key {name} {secret}\n" for name, secret in digits.items()))
    proxy = bed.proxy(primary, listen=("rdma", "tcp+tls"), auth__secret_file="", auth__keys_file=keys,
                      **authority.wire("proxy"))
    agents = {name: bed.agent(proxy, bed.server(f"replica-{name}"), name=name, via="rdma", auth__key_id=name,
                              auth__secret_file=bed.file(f"{name}.secret", digits[name]))
              for name in ("gone", "stays")}
    for agent in agents.values():
        agent.wait_warm()
    assert withdrawn_so_far(proxy) == 0
    for turn, withdraw in enumerate((lambda: let_it_expire(proxy, keys, "ends"),
                                     lambda: proxy.ctl_ok("agents", "revoke", "gone"),
                                     lambda: revoke_away(proxy, "certified")), 1):
        withdraw()
        wait_for(lambda turn=turn: withdrawn_so_far(proxy) == turn, proxy.output, 60)
        primary.command("SET", "written", f"later {turn}")
        wait_same(primary, agents["stays"].replica, 30)
    print(*(line for line in proxy.output().splitlines() if "registered anew" in line), sep="\n")
    status = agents["stays"].status()
    assert (status["reconnects"], status["snapshots"]) == (1, 1), status
    assert agents["gone"].status()["state"] != "warm"


def test_a_restart_in_good_order_keeps_the_table_and_registers_it_again(bed):
    """The next process has other addresses and rkeys for the same table: the agent goes on at its cursor."""
    keys, changed = 2_000, 7
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill_plain(primary, keys)
    proxy = bed.proxy(primary, listen=("rdma",), table__keep_file="/dev/shm/kw-kept", table__max_bytes="64MiB")
    agent = bed.agent(proxy, replica, via="rdma")
    agent.wait_warm()
    before, epoch = agent.status(), proxy.status()["epoch"]
    assert proxy.stop() == 0, proxy.tail()
    proxy.start()
    agent.wait_warm()
    after = agent.status()
    assert proxy.status()["epoch"] == epoch, proxy.tail()
    assert after["reconnects"] > before["reconnects"] and after["transport"] == "rdma", after
    assert (after["keys_applied"], after["snapshots"]) == (before["keys_applied"], before["snapshots"]), (before, after)
    # What the agent reads now is the memory of the new process.
    for number in range(changed):
        primary.command("SET", f"key:{number}", "changed since")
    agent.wait_warm()
    assert agent.status()["keys_applied"] == before["keys_applied"] + changed
    wait_same(primary, replica, 30)
    proxy.kill() # it leaves no file


def test_the_port_goes_down_and_comes_up(bed):
    """
    A cable pulled and put back: a sentence, then the same cursor goes on. (By carrier, not by `down`:
    an interface without a route costs soft-RoCE its queue pair of management messages for good.)
    """
    pair = bed.pair(listen=("rdma",), via="rdma", fill=data.fill)
    before = pair.agent.status()
    shell("ip link set dummy0 carrier off")
    try:
        pair.agent.wait_state("connecting", "stalled", timeout=30, reason="went down")
        with pair.primary.client() as client:
            client.set("written meanwhile", 1)
        time.sleep(2)
    finally:
        shell("ip link set dummy0 carrier on")
    pair.settle()
    after = pair.agent.status()
    assert after["epoch"] == before["epoch"], (before, after)
    assert after["snapshots"] == before["snapshots"], "the cursor was not kept"


def listening_on(bed, primary, host):
    proxy = bed.proxy(primary, listen=("rdma",), start=False)
    proxy.listen["rdma"] = f"rdma://{host}:{free_port()}"
    proxy.settings["listen"] = list(proxy.listen.values())
    return proxy.start()


@pytest.mark.parametrize("kind", ["own", "link-local"])
def test_over_ipv6(bed, kind):
    """The agent goes out from, and READs by, a GID that is an IPv6 address."""
    if kind == "own":
        shell("ip -6 addr replace fd77::1/64 dev dummy0 nodad")
        host = "[fd77::1]"
    else:
        shown = subprocess.run(["ip", "-6", "-o", "addr", "show", "dev", "dummy0", "scope", "link"],
                               capture_output=True, text=True, check=True).stdout
        host = f"[{shown.split()[3].split('/')[0]}%dummy0]"
    primary = bed.server("primary")
    data.fill(primary)
    proxy = listening_on(bed, primary, host)
    replica = bed.server("replica")
    agent = bed.agent(proxy, replica, via="rdma")
    agent.wait_warm()
    with primary.client() as client:
        client.set("over", "ipv6")
    wait_same(primary, replica, 30)
    row = proxy.ctl_ok("agents")[0]
    assert row["carrier"] == "rdma" and row["peer"].startswith("["), row


def test_a_name_is_tried_address_by_address(bed):
    """Nobody has the first one: it gets its share of the time to connect, and then the next is tried."""
    with open("/etc/hosts", "a", encoding="utf-8") as hosts: # the guest's
        hosts.write(f"10.77.0.99 two-addresses\n{RDMA_HOST} two-addresses\n")
    primary = bed.server("primary")
    proxy = bed.proxy(primary, listen=("rdma",))
    proxy.listen["rdma"] = proxy.listen["rdma"].replace(RDMA_HOST, "two-addresses")
    agent = bed.agent(proxy, bed.server("replica"), via="rdma")
    agent.wait_warm()
    assert agent.status()["reconnects"] == 1, agent.status() # it took one attempt


def listener(proxy):
    return next(row for row in proxy.status()["listeners"] if row["address"].startswith("rdma://"))


def holders_of_the_device():
    """Processes that have a context of an RDMA device open, with their command lines."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            links = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
            if any("infiniband/uverbs" in link or "infinibandevent" in link for link in links):
                with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as stream:
                    found.append(f"{pid}: {stream.read().replace(chr(0), ' ')}")
        except OSError: # it has ended
            continue
    return found


def take_the_device_away():
    """
    It hangs for ever if any process keeps it open: soft-RoCE takes no context away from a process. Then
    `rdma` cannot be killed either, so it is not waited for.
    """
    removal = subprocess.Popen(["rdma", "link", "delete", "rxe0"], stdin=subprocess.DEVNULL)
    try:
        assert removal.wait(30) == 0
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the device is kept open by: {holders_of_the_device()}") from None


def give_the_device_back():
    shell("rdma link add rxe0 type rxe netdev dummy0")


def test_the_device_is_removed_and_added_again(bed):
    """
    Both ends say so, let go of it, and go on by themselves when it is back, with the same cursor; who
    reads over shm does not notice.
    """
    primary = bed.server("primary")
    data.fill(primary)
    proxy = bed.proxy(primary, listen=("shm", "rdma"))
    agents = {via: bed.agent(proxy, bed.server(f"replica-{via}"), name=f"agent-{via}", via=via)
              for via in ("shm", "rdma")}
    for agent in agents.values():
        agent.wait_warm()
    before = {via: agent.status() for via, agent in agents.items()}
    take_the_device_away()
    try:
        agents["rdma"].wait_state("connecting", timeout=30, reason="no RDMA device")
        row = listener(proxy)
        assert row["state"] == "waiting" and "RDMA device" in row["reason"], row
        data.fill_plain(primary, 3_000)
        wait_same(primary, agents["shm"].replica, 30)
    finally:
        give_the_device_back()
    for agent in agents.values():
        agent.wait_warm()
        wait_same(primary, agent.replica, 30)
    row = listener(proxy)
    assert row["state"] == "listening" and row["device"] == "rxe0" and not row["reason"], row
    told = proxy.output()
    assert "nobody can connect" in told and "the RDMA device was removed" in told, told
    # On one host the proxy may hear of it first, and say farewell.
    told = agents["rdma"].output()
    assert "was removed" in told or "closed the connection" in told, told
    after = {via: agent.status() for via, agent in agents.items()}
    assert after["shm"]["reconnects"] == before["shm"]["reconnects"]
    assert after["rdma"]["epoch"] == before["rdma"]["epoch"]
    assert after["rdma"]["snapshots"] == before["rdma"]["snapshots"], "the cursor was not kept"


def test_the_device_is_removed_and_added_again_under_load(bed):
    """Nothing but rdma, and writes all the while."""
    pair = bed.pair(listen=("rdma",), via="rdma", fill=data.fill)
    load = Workload(pair.primary, seed_of_run(), pace=500, short_ttls=False, silent=False).start()
    try:
        for _ in range(3):
            time.sleep(1)
            take_the_device_away()
            give_the_device_back()
    finally:
        load.stop()
    pair.agent.wait_warm(60)
    pair.wait_equal(30)


def test_the_device_is_removed_while_an_agent_waits_for_its_proxy(bed):
    """No connection is there, and so no event of one: the agent lets go of the device all the same."""
    pair = bed.pair(listen=("rdma",), via="rdma", fill=data.fill)
    pair.proxy.kill()
    pair.agent.wait_state("connecting", timeout=30)
    time.sleep(3) # some attempts later
    take_the_device_away()
    give_the_device_back()
    pair.proxy.restart()
    pair.agent.wait_warm(60)
    pair.wait_equal(30)


def test_a_proxy_that_is_up_before_its_device(bed):
    """As at boot: it says what lacks, runs, and serves when the device is there."""
    primary = bed.server("primary")
    data.fill(primary)
    take_the_device_away()
    try:
        proxy = bed.proxy(primary, listen=("shm", "rdma"))
        row = listener(proxy)
        assert row["state"] == "waiting" and "RDMA device" in row["reason"], row
        agent = bed.agent(proxy, bed.server("replica"), via="rdma")
        agent.wait_state("connecting", timeout=30, reason="no RDMA device")
    finally:
        give_the_device_back()
    agent.wait_warm()
    wait_same(primary, agent.replica, 30)
    assert listener(proxy)["state"] == "listening", listener(proxy)


def test_the_address_is_there_later_than_the_proxy(bed):
    primary = bed.server("primary")
    data.fill(primary)
    proxy = listening_on(bed, primary, "10.77.9.1")
    assert "has that address" in listener(proxy)["reason"], listener(proxy)
    shell("ip addr add 10.77.9.1/24 dev dummy0")
    agent = bed.agent(proxy, bed.server("replica"), via="rdma")
    agent.wait_warm()
    wait_same(primary, agent.replica, 30)


def test_a_stopped_proxy_is_read_on_and_called_stalled(bed):
    """Its memory answers READs; only the heartbeat tells that nobody is at home."""
    pair = bed.pair(listen=("rdma",), via="rdma")
    pair.proxy.signal(signal.SIGSTOP)
    status = pair.agent.wait_state("stalled", timeout=30)
    read = status["bytes_read"]
    time.sleep(2)
    status = pair.agent.status()
    assert status["state"] == "stalled" and status["bytes_read"] > read, (read, status)
    with pair.primary.client() as client:
        client.set("unseen", 1)
    pair.proxy.signal(signal.SIGCONT)
    pair.settle()


def test_many_agents_on_one_proxy(bed):
    """Real agents; 64 connections at once are the carrier's own test."""
    count = 24
    primary = bed.server("primary")
    data.fill(primary)
    proxy = bed.proxy(primary, listen=("rdma",), log__level="info")
    replica = bed.server("replica")
    agents = [bed.agent(proxy, replica, name=f"agent-{i}", via="rdma", start=False,
                        apply__mode="discard", log__level="info", poll__idle_us=100_000)
              for i in range(count)]
    for agent in agents:
        agent.start(wait=False)
    wait_for(lambda: len(proxy.ctl_ok("agents")) == count,
             lambda: f"{len(proxy.ctl_ok('agents'))} of {count} agents are there", 60, 0.5)
    for agent in agents:
        agent.wait_state("warm", timeout=60)
    rows = proxy.ctl_ok("agents")
    assert {row["carrier"] for row in rows} == {"rdma"}
    assert len({row["name"] for row in rows}) == count
    # A third of them dies, a third stands still: the others do not notice, and the dead are gone.
    for agent in agents[::3]:
        agent.kill()
    for agent in agents[1::3]:
        agent.signal(signal.SIGSTOP)
    wait_for(lambda: len(proxy.ctl_ok("agents")) == count - len(agents[::3]), "the dead stay", 30, 0.5)
    with primary.client() as client:
        client.set("one", "more")
    version = proxy.status()["version"]
    for agent in agents[2::3]:
        agent.wait_status(lambda status: status["applied_version"] >= version, "it stands still")
    for agent in agents[1::3]:
        agent.signal(signal.SIGCONT)
