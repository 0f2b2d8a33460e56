"""How much memory does the proxy need, after its data set was overwritten many times, and after a peak?"""
import time

from core import cpu
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, seconds_until

TITLE = "proxy's memory after ten overwrites, against 1.25 x live payload + 48 bytes a key; and after a peak"
ABOUT = """\
- The peak: four times as many keys, of which three quarters are then deleted. `peak_bytes` is resident with all of
  them, `left_bytes` when nothing more is given back.
- `table.seal` is F_SEAL_FUTURE_WRITE on the memory file. A hole cannot be punched into such a file.
"""
PEAK = 4
QUIET_SECONDS = 3 # nothing was given back for so long


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


def quiet_bytes(proxy):
    """What is resident, once that is no less than some seconds ago."""
    lowest, since = cpu.resident_bytes(proxy.pid), time.monotonic()

    def is_quiet():
        nonlocal lowest, since
        found = cpu.resident_bytes(proxy.pid)
        if found < lowest:
            lowest, since = found, time.monotonic()
        return time.monotonic() - since > QUIET_SECONDS
    seconds_until(is_quiet, every=0.05, what="memory that is not given back any more")
    return lowest


def delete(primary, share):
    with primary.client(timeout=300) as client:
        names = client.keys()
        for begin in range(0, int(len(names) * share), 1000):
            client.unlink(*names[begin:min(begin + 1000, int(len(names) * share))])


def after_a_peak(run, seal):
    with Stage() as stage:
        primary = stage.primary()
        proxy = stage.proxy(primary, table__seal=seal)
        keys = run.keys // 10
        fill(primary, keys * PEAK)
        seconds_until(lambda: proxy.status()["keys"] == keys * PEAK, what="the peak in the table")
        peak = cpu.resident_bytes(proxy.pid)
        delete(primary, 1 - 1 / PEAK)
        seconds_until(lambda: proxy.status()["keys"] == keys, what="the end of the peak in the table")
        return {"peak_bytes": peak, "left_bytes": quiet_bytes(proxy),
                "payload_bytes": proxy.status()["table"]["payload_bytes"]}


def run(run):
    side = run.rounds({"keywake": lambda: measure(run)})["keywake"]
    sides = run.rounds({"table.seal=false": lambda: after_a_peak(run, False),
                        "table.seal=true": lambda: after_a_peak(run, True)})
    open_side, sealed = sides.values()
    case = f"{run.keys // 10:,} x 100 B after a peak of {PEAK} times that"
    return [hold(make_row(f"{run.keys:,} x 100 B", side), "of_allowed", AT_MOST, 1.0), make_row(case, open_side),
            make_row(case, sealed, of_open=sealed.ratio(open_side, "left_bytes"))]
