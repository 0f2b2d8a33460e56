"""How long until a proxy's first table is complete?"""
import time

from core.peers import peer
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, seconds_until

TITLE = "first table complete, against a bare pipelined SCAN+DUMP client"


def keywake(stage, primary):
    begin = time.monotonic()
    proxy = stage.bed.proxy(primary, name=stage.name("proxy"), log__level="warn",
                            table__max_bytes="2GiB", start=False)
    proxy.start(wait=False)
    seconds_until(lambda: (proxy.try_status() or {}).get("state") == "live", what="a live proxy")
    figures = {"seconds": time.monotonic() - begin}
    stage.end(proxy)
    return figures


def run(run):
    with Stage() as stage:
        primary = stage.primary()
        fill(primary, run.keys)
        sides = run.rounds({
            "bare client": lambda: {"seconds": peer("peer-dump", primary.address)["seconds"]},
            "keywake": lambda: keywake(stage, primary)})
    bare, ours = sides["bare client"], sides["keywake"]
    case = f"{run.keys:,} x 100 B"
    return [make_row(case, bare),
            hold(make_row(case, ours, ratio=ours.ratio(bare, "seconds")), "ratio", AT_MOST, 1.2)]
