"""The body of deploy/demo. It uses the test bed: the same servers and daemons the tests start."""
import argparse
import glob
import os
import random
import shlex
import signal
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "tests", "integration"))

from lib import compare, data  # noqa: E402 (found by the line above)
from lib.bed import Bed  # noqa: E402
from lib.daemon import AGENT, CTL, PROXY, free_port  # noqa: E402
from lib.process import Process  # noqa: E402
from lib.rpc import RpcError  # noqa: E402
from lib.sentinel import VOTERS, Trio, patiently  # noqa: E402
from lib.server import ServerMissing  # noqa: E402
from lib.workload import Workload  # noqa: E402

DATABASES = (0, 1, 9, 10)
LOAD_SECONDS = 5       # of measured load once the replica is warm
EQUAL_SECONDS = 30     # keys may be expiring on both sides just now
BAR = 40
DEVICES = "/sys/class/infiniband"


class DemoFailed(Exception):
    """Told in one sentence."""


def parse_arguments():
    parser = argparse.ArgumentParser(
        prog="deploy/demo", description="A replica kept equal to a primary, before your eyes.",
        epilog="Exit status: 0 both servers are equal, 1 they are not or something went wrong, "
        "130 interrupted.")
    parser.add_argument("--carrier", choices=["shm", "tcp", "rdma"], default="shm",
                        help="how the agent reads the proxy's table (default: shm)")
    parser.add_argument("--keys", type=int, default=300_000, metavar="N",
                        help="strings to begin with, besides some hundred keys of every type "
                        "(default: 300000)")
    parser.add_argument("--value-bytes", type=int, default=100, metavar="N",
                        help="length of each string (default: 100)")
    parser.add_argument("--rate", type=int, default=10_000, metavar="N",
                        help="mixed writes a second meanwhile (default: 10000; 0: as fast as it goes)")
    parser.add_argument("--gateway", action="store_true",
                        help="serve reads of the table to Redis clients, too, and compare them")
    parser.add_argument("--tls", action="store_true",
                        help="reach all servers by rediss://, and sentinels too, with certificates on both ends "
                        "that are made for it")
    parser.add_argument("--sentinel", action="store_true",
                        help="kill the primary under load: three sentinels promote its replica, and the agent goes "
                        "along to the proxy beside that one")
    parser.add_argument("--feed", choices=["notifications", "stream", "auto"], default="notifications",
                        help="how the proxy learns of changes: source.feed (default: notifications)")
    parser.add_argument("--keep", action="store_true",
                        help="leave all of it running and print how to talk to it")
    arguments = parser.parse_args()
    if arguments.keys < 0 or not 0 <= arguments.value_bytes <= 512 << 20 or arguments.rate < 0:
        parser.error("--keys, --rate: 0 or more; --value-bytes: 0 to 536870912")
    if arguments.sentinel and (arguments.gateway or arguments.keep):
        parser.error("--sentinel goes without --gateway and --keep")
    return arguments


def interfaces_of(device):
    """The network interfaces of an RDMA device: of its adapter, or those its GIDs belong to."""
    folder = os.path.join(DEVICES, device, "device", "net")
    names = set(os.listdir(folder) if os.path.isdir(folder) else [])
    for path in glob.glob(os.path.join(DEVICES, device, "ports", "*", "gid_attrs", "ndevs", "*")):
        try:
            with open(path, encoding="ascii") as stream:
                names.add(stream.read().strip())
        except OSError: # an entry that is not in use cannot be read
            pass
    return names


def rdma_address():
    """An address of this host on an RDMA device, or a sentence that says why there is none."""
    devices = sorted(os.listdir(DEVICES)) if os.path.isdir(DEVICES) else []
    if not devices:
        raise DemoFailed(f"there is no RDMA device on this machine ({DEVICES} is empty or missing). "
                         "Try --carrier shm (the same table, mapped on this host) or --carrier tcp")
    for device in devices:
        interfaces = interfaces_of(device)
        for line in os.popen("ip -4 -o addr show"):
            words = line.split()
            if words[1] in interfaces:
                return words[3].split("/")[0]
    raise DemoFailed(f"none of the RDMA devices {', '.join(devices)} has a network interface with an "
                     "IPv4 address. Give it one, or try --carrier shm or --carrier tcp")


def say(text):
    print(text, flush=True)


def show_progress(label, share, note):
    if not sys.stdout.isatty():
        return
    filled = int(BAR * min(1.0, max(0.0, share)))
    print(f"\r{label:<14} [{'#' * filled}{'.' * (BAR - filled)}] {share * 100:5.1f} %  {note:<40}",
          end="", flush=True)


def end_progress(text):
    print(("\r\033[K" if sys.stdout.isatty() else "") + text, flush=True)


def fill(primary, arguments):
    """Strings, some of them with TTLs, over several databases; and every other type."""
    start = time.monotonic()
    data.fill(primary, DATABASES)
    source = random.Random(1)
    done = 0
    for number, database in enumerate(DATABASES):
        share = arguments.keys // len(DATABASES) + (number < arguments.keys % len(DATABASES))
        with primary.client(database) as client:
            batch = max(1, min(1000, (8 << 20) // max(1, arguments.value_bytes)))
            for first in range(0, share, batch):
                with client.pipeline(transaction=False) as pipe:
                    for i in range(first, min(first + batch, share)):
                        ttl = 3600 + i if i % 10 == 0 else None
                        pipe.set(f"demo:{i}", source.randbytes(arguments.value_bytes), ex=ttl)
                    pipe.execute()
                done += min(batch, share - first)
                show_progress("filling", done / max(1, arguments.keys), f"{done} keys")
    counts = compare.key_counts(primary)
    end_progress(f"filled: {sum(counts.values())} keys of every type in databases "
                 f"{', '.join(map(str, sorted(counts)))} in {time.monotonic() - start:.1f} s")


def common_settings(bed):
    secret = bed.file("secret", f"{random.SystemRandom().getrandbits(256):064x}\n")
    return {"auth__secret_file": secret, "log__level": "info"}


def start_proxy(bed, primary, arguments, name="proxy", **settings):
    proxy = bed.proxy(primary, name=name, start=False, listen=(arguments.carrier,), table__max_bytes="8GiB",
                      source__feed=arguments.feed, **settings)
    if arguments.carrier == "rdma":
        proxy.listen["rdma"] = f"rdma://{rdma_address()}:{free_port()}"
        proxy.settings["listen"] = [proxy.listen["rdma"]]
    return proxy.start()


def start_daemons(bed, primary, replica, arguments):
    common = common_settings(bed)
    proxy = start_proxy(bed, primary, arguments, **common)
    return proxy, bed.agent(proxy, replica, via=arguments.carrier, start=False, **common)


def watch_until_warm(agent, seconds=600):
    """Time from the agent's start until it is warm, with a bar."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        status = agent.try_status()
        if not agent.alive:
            raise DemoFailed(f"the agent ended:\n{agent.tail(10)}")
        if status:
            show_progress(status["state"], float(status["progress"] or 0),
                          f"{status['keys_applied']} keys applied")
            if status["state"] == "failed":
                raise DemoFailed(f"the agent failed: {status['reason']}")
            if status["state"] == "warm":
                return time.monotonic() - start, status
        time.sleep(0.02)
    raise DemoFailed(f"not warm after {seconds} s: {agent.try_status()}")


def measure_lag(agent):
    """Median and 99th percentile under load, counted from now."""
    try:
        agent.rpc("status", reset_lag=True)
    except RpcError:
        pass # then the bootstrap is counted too
    time.sleep(LOAD_SECONDS)
    return agent.status()


def show_feed(proxy):
    """By what the proxy learned of changes, and what it had to ask the primary for."""
    status = proxy.status()
    kind = "the replication stream" if status["feed"]["kind"] == "stream" else "keyspace notifications"
    say(f"the proxy followed {kind}: {status['events']} changes were told, {status['values']} of them with their "
        f"values; {status['fetches']} keys were fetched")


def compare_servers(primary, replica):
    start = time.monotonic()
    while True:
        left, right = compare.digest(primary), compare.digest(replica)
        if left == right or time.monotonic() - start > EQUAL_SECONDS:
            break
        compare.reap_expired(primary, replica)
    say(f"DEBUG DIGEST primary {left}")
    say(f"DEBUG DIGEST replica {right}")
    if left != right:
        raise DemoFailed("the servers differ:\n" + compare.explain(primary, replica))


def show_gateway(bed, primary, proxy, arguments):
    """Every string of database 0 by a gateway, as the primary has it."""
    gateway = bed.gateway(proxy, via=arguments.carrier, auth__secret_file=proxy.settings["auth.secret_file"])
    gateway.wait_fresh()
    ours, theirs = gateway.client(), primary.client()
    keys = [key for key in theirs.scan_iter(count=5000, _type="string") if theirs.pttl(key) == -1]
    began = time.monotonic()
    for start in range(0, len(keys), 1000):
        part = keys[start:start + 1000]
        if ours.mget(part) != theirs.mget(part):
            raise DemoFailed("the gateway answers otherwise than the primary")
    seconds, status = time.monotonic() - began, gateway.status()
    say(f"a gateway: {len(keys)} strings read and compared in {seconds:.1f} s, with "
        f"{status['reads'] / max(status['gets'], 1):.2f} READs each; the table was at most "
        f"{status['staleness_max_us'] / 1000:.0f} ms old")
    return gateway


def print_directions(bed, primary, proxy, agent, replica):
    ctl = shlex.quote(os.path.relpath(CTL))
    pids = " ".join(str(process.pid) for process in (primary, replica, proxy, agent))
    say(f"""
Still running, in {bed.directory}:
  redis-cli -s {primary.socket}     write here
  redis-cli -s {replica.socket}     read here
  {ctl} -s {proxy.control} status
  {ctl} -s {agent.control} watch
End it with:
  kill {pids}; rm -r {bed.directory}""")


def run(bed, arguments):
    if arguments.carrier == "rdma":
        rdma_address() # before anything is started
    primary, replica = (bed.server(name, tls=arguments.tls) for name in ("primary", "replica"))
    say(f"two servers ({primary.label}) on unix sockets in {bed.directory}" +
        (f"; keywake reaches them at {primary.address} and {replica.address}" if arguments.tls else ""))
    fill(primary, arguments)
    proxy, agent = start_daemons(bed, primary, replica, arguments)
    load = Workload(primary, 1, pace=arguments.rate or None, databases=DATABASES).start()
    agent.start()
    seconds, status = watch_until_warm(agent)
    end_progress(f"warm after {seconds:.2f} s over {status['transport']}, while being written to: "
                 f"{status['keys_applied']} keys applied, {status['bytes_read'] / 1e6:.1f} MB read")
    before, began = load.commands, time.monotonic()
    status = measure_lag(agent)
    rate = (load.commands - before) / (time.monotonic() - began)
    say(f"lag at {rate:.0f} writes a second: median {status['lag_p50_us'] / 1000:.2f} ms, "
        f"99th percentile {status['lag_p99_us'] / 1000:.2f} ms")
    load.stop()
    agent.wait_warm()
    say(f"writes stopped after {load.commands}; the replica holds all of them")
    show_feed(proxy)
    compare_servers(primary, replica)
    say("equal")
    if arguments.gateway:
        gateway = show_gateway(bed, primary, proxy, arguments)
    if arguments.keep:
        print_directions(bed, primary, proxy, agent, replica)
        if arguments.gateway:
            say(f"and the gateway, process {gateway.pid}:\n  redis-cli -s {gateway.socket}     read here, too")


def watch_failover(trio, proxies, agent, carrier, term):
    """From now, the primary being dead, until the agent is warm with the new one; that one."""
    start = time.monotonic()
    elected = trio.elected()
    say(f"the sentinels promoted {elected.name} {time.monotonic() - start:.1f} s after the primary was killed")
    address = proxies[elected.name].listen[carrier]
    agent.wait_status(lambda status: status["proxy"] == address and status["state"] == "warm"
                      and status["history"]["data"]["term"] > term, "it does not go along", 120)
    status = agent.wait_warm() and agent.status()
    say(f"the agent followed to the proxy beside it, and was warm {time.monotonic() - start:.1f} s after the kill, "
        f"in term {status['history']['data']['term']}; {status['rolled_back']} keys that the failover lost were "
        "rolled back")
    return elected


def run_sentinel(bed, arguments):
    """A proxy beside each of two servers; the primary dies under load."""
    trio = Trio(bed, replicas=1, tls=arguments.tls)
    try:
        replica = bed.server("replica", tls=arguments.tls)
        say(f"a primary and its native replica ({trio.first.label}), {VOTERS} sentinels, and the server of an agent, "
            f"in {bed.directory}" + (f"; keywake reaches them by rediss://, as {trio.first.address}" if arguments.tls
                                     else ""))
        fill(trio.first, arguments)
        common = common_settings(bed)
        proxies = {server.name: start_proxy(bed, server, arguments, name="beside-" + server.name,
                                            **trio.settings(), **common) for server in trio.servers}
        agent = bed.agent(proxies["first"], replica, via=arguments.carrier, start=False, **common)
        agent.settings["proxy"] = [proxy.listen[arguments.carrier] for proxy in proxies.values()]
        load = Workload(trio.first, 1, pace=arguments.rate or None, databases=DATABASES).start()
        agent.start()
        seconds, status = watch_until_warm(agent)
        end_progress(f"warm after {seconds:.2f} s, while being written to: {status['keys_applied']} keys applied, "
                     f"in term {status['history']['data']['term']}")
        trio.first.kill()
        load.stop()
        elected = watch_failover(trio, proxies, agent, arguments.carrier, status["history"]["data"]["term"])
        load = Workload(elected, 2, pace=arguments.rate or None, databases=DATABASES).start()
        trio.first.restart(keep_data=False)
        say("the killed server is back, and empty: the sentinels make it a replica, and its proxy stands by")
        proxies["first"].wait_state("unconfirmed", reason="ready", timeout=120)
        load.stop()
        patiently(agent.wait_warm)
        compare_servers(elected, replica)
        say("equal")
    finally:
        trio.close()


def main():
    arguments = parse_arguments()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): # SIGINT may come ignored, as in `&`
        signal.signal(number, signal.default_int_handler)
    Process.outlives_us = arguments.keep
    bed = Bed()
    kept = False
    try:
        for program in (PROXY, AGENT, CTL):
            if not os.access(program, os.X_OK):
                raise DemoFailed(f"{program} is not there: run deploy/setup")
        (run_sentinel if arguments.sentinel else run)(bed, arguments)
        kept = arguments.keep
        return 0
    except KeyboardInterrupt:
        end_progress("interrupted")
        return 130
    except (DemoFailed, ServerMissing, AssertionError) as failure:
        end_progress(f"demo: {failure}")
        return 1
    finally:
        if not kept:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            for complaint in bed.close():
                say(f"demo: {complaint}")
            bed.remove()


if __name__ == "__main__":
    sys.exit(main())
