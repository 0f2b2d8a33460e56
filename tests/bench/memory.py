"""How much memory does the proxy need, after its data set was overwritten many times?"""
import time

from core import cpu
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, seconds_until

TITLE = "proxy's memory after ten overwrites, against 1.25 x live payload + 48 bytes a key"


def allowed_bytes(status):
    return 1.25 * status["table"]["payload_bytes"] + 48 * status["keys"]


def measure(run):
    with Stage() as stage:
        primary = stage.primary()
        proxy = stage.proxy(primary)
        for turn in range(run.pick(11, 3)):
            fill(primary, run.keys, seed=turn)
        time.sleep(0.2) # the last events
        seconds_until(lambda: proxy.status()["dirty_keys"] == 0, what="nothing left to fetch")
        status = proxy.status()
        resident = cpu.resident_bytes(proxy.pid)
        return {"payload_bytes": status["table"]["payload_bytes"], "resident_bytes": resident,
                "bytes_a_key": resident / status["keys"],
                "of_allowed": resident / allowed_bytes(status),
                "utilisation": status["table"]["utilisation"]}


def run(run):
    side = run.rounds({"keywake": lambda: measure(run)})["keywake"]
    return [hold(make_row(f"{run.keys:,} x 100 B", side), "of_allowed", AT_MOST, 1.0)]
