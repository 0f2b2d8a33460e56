"""What do long overwrites do to the proxy's memory, its CPU and the lag?"""
import time

from core import cpu
from core.peers import Peer
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, digest, fill, seconds_until, settle
from memory import allowed_bytes

TITLE = "overwriting everything again and again: the table's memory, the cleaner, the lag"
ABOUT = ("A steady load overwrites keys by a Zipf law and uniformly, in turn, a value of another length in each "
         "phase, an agent following over shm. `of_allowed`: the proxy's resident memory over 1.25 x live payload "
         "+ 48 bytes a key, its highest. `moved`: bytes the cleaner copied for each byte written. `lag` is the "
         "agent's own word every tenth of a second. `cleaner_share`: of the proxy's CPU time, where the proxy counts it.")
RATE = 40_000
PHASES = [(100, False), (140, True), (60, False), (100, True)] # bytes a value, zipfian
BUDGET = 150


class Watch:
    """Looks at proxy and agent while a load runs."""

    def __init__(self, proxy, agent):
        self.proxy, self.agent = proxy, agent
        self.of_allowed, self.lags = [], []

    def look_until(self, ended):
        next_memory = 0
        while not ended():
            if time.monotonic() >= next_memory:
                next_memory = time.monotonic() + 1
                resident = cpu.resident_bytes(self.proxy.pid)
                self.of_allowed.append(resident / allowed_bytes(self.proxy.status()))
            self.lags.append(self.agent.status()["lag_ms"])
            time.sleep(0.1)

    def quantile(self, share):
        return sorted(self.lags)[int((len(self.lags) - 1) * share)]


def measure(run):
    seconds = run.pick(run.seconds, 0.5)
    with Stage() as stage:
        primary, replica = stage.primary(), stage.empty()
        fill(primary, run.keys)
        proxy = stage.proxy(primary)
        agent, warm = stage.start_agent(proxy, replica)
        seconds_until(warm, what="agent warm")
        settle(primary, replica)
        before, spent = proxy.status()["table"], cpu.seconds(proxy.pid)
        watch, sets = Watch(proxy, agent), 0
        for value_bytes, zipf in PHASES:
            with Peer("peer-load", primary.address, "--seconds", seconds, "--keys", run.keys,
                      "--connections", 8, "--pipeline", 16, "--rate", RATE,
                      "--value-bytes", value_bytes, *(["--zipf"] if zipf else [])) as load:
                watch.look_until(lambda: load.process.poll() is not None)
                sets += load.finish()["sets"]
        begin = time.monotonic()
        wanted = digest(primary)
        seconds_until(lambda: digest(replica) == wanted, 30, 0.1, "equality after the load")
        after, spent = proxy.status()["table"], cpu.seconds(proxy.pid) - spent
        figures = {"sets_s": sets / len(PHASES) / seconds, "overwrites": sets / run.keys,
                   "of_allowed": max(watch.of_allowed), "utilisation": after["utilisation"],
                   "moved": (after["cleaned_bytes"] - before["cleaned_bytes"])
                            / max(1, after["written_bytes"] - before["written_bytes"]),
                   "lag_p50_ms": watch.quantile(0.5), "lag_p99_ms": watch.quantile(0.99),
                   "lag_max_ms": watch.quantile(1), "equal_s": time.monotonic() - begin,
                   "proxy_cpu_s": spent}
        if "cleaner_us" in after:
            figures["cleaner_share"] = (after["cleaner_us"] - before["cleaner_us"]) / 1e6 / spent
        stage.end(agent)
        return figures


def run(run):
    side = run.rounds({"keywake": lambda: measure(run)}, BUDGET)["keywake"]
    row = make_row(f"{run.keys:,} keys, {RATE:,} SETs/s", side)
    return [hold(hold(row, "of_allowed", AT_MOST, 1.0), "cleaner_share", AT_MOST, 0.1)]
