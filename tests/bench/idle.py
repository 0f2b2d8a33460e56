"""What do proxy and agent cost when nothing happens?"""
import time

from core import cpu
from core.row import AT_MOST, hold, make_row
from core.stage import Stage, fill, seconds_until

TITLE = "CPU of idle proxy and agent with default polling, share of a core"


def shares(stage, run, mode):
    primary = stage.primary()
    fill(primary, 10_000)
    proxy = stage.proxy(primary)
    agent, warm = stage.start_agent(proxy, stage.empty(), mode)
    seconds_until(warm, what="agent warm")
    time.sleep(run.pick(2, 0.2))
    begin, before = time.monotonic(), (cpu.seconds(proxy.pid), cpu.seconds(agent.pid))
    time.sleep(run.pick(10, 1))
    spent = time.monotonic() - begin
    after = (cpu.seconds(proxy.pid), cpu.seconds(agent.pid))
    return {"proxy_share": (after[0] - before[0]) / spent,
            "agent_share": (after[1] - before[1]) / spent}


def run(run):
    def measure():
        with Stage() as stage:
            return shares(stage, run, "commands")
    side = run.rounds({"keywake": measure}, 60)["keywake"]
    row = make_row("10,000 keys", side)
    return [hold(hold(row, "proxy_share", AT_MOST, 0.02), "agent_share", AT_MOST, 0.02)]
