"""How fast does an agent in mode `commands` feed an empty server?"""
from functools import partial

from core.row import AT_MOST, hold, make_row
from core.stage import Stage
from warmup import CARRIERS, COMMANDS_BOUND, Warmup

TITLE = "agent (commands) fills an empty replica, against a bare pipelined RESTORE client"


def run(run):
    with Stage() as stage:
        warmup = Warmup(stage, run.keys, 100, False)
        sides = {"bare RESTORE": warmup.restore}
        sides.update({f"commands, {via}": partial(warmup.keywake, "commands", via)
                      for via in CARRIERS})
        sides = run.rounds(sides)
    bare = sides.pop("bare RESTORE")
    case = f"{run.keys:,} x 100 B"
    rows = [make_row(case, side, of_restore=side.ratio(bare, "seconds")) for side in sides.values()]
    hold(rows[0], "of_restore", AT_MOST, COMMANDS_BOUND)
    return [make_row(case, bare), *rows]
