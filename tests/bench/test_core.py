"""What the benchmarks count and say must be right before any figure is."""
import os
import re
import subprocess
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)),
                os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "integration")]

import lag                                                # noqa: E402
from core import show                                     # noqa: E402
from core.cpu import seconds as cpu_seconds               # noqa: E402
from core.peers import peer                               # noqa: E402
from core.rounds import NotBuilt, run_rounds              # noqa: E402
from core.row import AT_LEAST, AT_MOST, hold, make_row    # noqa: E402


def from_list(name, order, values):
    values = iter(values)

    def measure():
        order.append(name)
        value = next(values)
        if isinstance(value, Exception):
            raise value
        return {"seconds": value}
    return measure


def two_sides(mine, other, rounds=3, **more):
    order = []
    sides = run_rounds({"peer": from_list("peer", order, other),
                        "ours": from_list("ours", order, mine)}, rounds, **more)
    return sides["ours"], sides["peer"], order


def test_each_round_has_every_side_once_in_an_order_of_its_own():
    _, _, order = two_sides([1] * 60, [1] * 60, rounds=60)
    rounds = [tuple(order[at:at + 2]) for at in range(0, len(order), 2)]
    assert all(set(sides) == {"peer", "ours"} for sides in rounds)
    assert 3 <= rounds.count(("ours", "peer")) <= 57


def test_the_order_can_be_had_again_by_its_seed():
    orders = [two_sides([1] * 20, [1] * 20, rounds=20, seed=seed)[2] for seed in (7, 7, 8)]
    assert orders[0] == orders[1] != orders[2]


def test_each_sides_first_time_is_not_counted():
    # Pages that the host had never given out: whoever came first used to pay.
    ours, other, order = two_sides([9, 1, 1, 1], [7, 2, 2, 2], warm=True)
    assert len(order) == 8
    assert ours.values("seconds") == [1, 1, 1] and other.values("seconds") == [2, 2, 2]


def test_a_first_time_that_fails_fails_the_side():
    ours, _, _ = two_sides([ValueError("no"), 1, 1, 1], [2] * 4, warm=True)
    assert ours.state == "failed"


def test_a_median_tells_its_spread_and_so_does_the_page():
    ours, other, _ = two_sides([1.0, 3.0, 1.2], [2.0, 6.0, 2.0])
    row = make_row("case", ours, of_native=ours.ratio(other, "seconds"))
    assert row["spread"] == {"seconds": [1.0, 3.0], "of_native": [0.5, 0.6]}
    head, (line,) = show.grid([row])
    assert line[head.index("of_native")] == "0.5 (0.5–0.6)" and line[2] == "1.2 (1–3)"


def test_a_ratio_is_the_median_of_the_rounds_ratios():
    # The machine slowed down threefold in the second round: the ratios do not move.
    ours, other, _ = two_sides([1.0, 3.0, 1.2], [2.0, 6.0, 2.0])
    assert ours.ratio(other, "seconds") == 0.5
    assert ours.figures()["seconds"] == 1.2


def test_a_failed_round_fails_the_side_and_the_others_go_on():
    ours, other, order = two_sides([1, ValueError("went wrong"), 3], [2, 2, 2])
    assert ours.state == "failed" and "1 of 3" in ours.reason and "went wrong" in ours.reason
    assert other.state == "measured" and len(order) == 6
    assert ours.ratio(other, "seconds") == 1.0 # of the rounds that both have: 0.5 and 1.5


def test_what_is_not_built_is_asked_once_and_is_no_failure():
    ours, other, order = two_sides([NotBuilt("not in it")], [2, 2, 2])
    assert ours.state == "not built" and ours.reason == "not in it"
    assert order.count("ours") == 1 and ours.ratio(other, "seconds") is None


def test_what_is_left_out_is_neither_measured_nor_a_failure():
    sides = run_rounds({"a": lambda: {"seconds": 1}, "b": lambda: {"seconds": 1}}, 1, "a".__eq__)
    assert sides["a"].state == "measured" and sides["b"].state == "left out"
    row = hold(make_row("case", sides["b"]), "seconds", AT_MOST, 2)
    assert row["thresholds"][0]["reached"] is None


def test_bounds():
    ours, _, _ = two_sides([1, 1, 1], [2, 2, 2])
    row = make_row("case", ours, ratio=0.5)
    hold(hold(hold(row, "ratio", AT_MOST, 0.5), "ratio", AT_LEAST, 0.6), "nothing", AT_MOST, 1)
    assert [bound["reached"] for bound in row["thresholds"]] == [True, False, None]
    assert show.counts({"benchmarks": {"x": {"rows": [row]}}}) == (1, 1, 1)


def test_a_side_that_failed_never_reaches_a_bound():
    ours, _, _ = two_sides([1, ValueError("no"), 1], [2, 2, 2])
    row = hold(make_row("case", ours, ratio=0.1), "ratio", AT_MOST, 0.75)
    assert row["thresholds"][0]["reached"] is False


def test_the_page_says_what_failed_and_what_was_not_reached():
    ours, other, _ = two_sides([1, ValueError("it broke"), 1], [2, 2, 2])
    rows = [make_row("case", other), hold(make_row("case", ours, ratio=0.9), "ratio", AT_MOST, 0.75)]
    page = show.markdown([a_run("now", "x", rows)], ["lag", "idle", "x"])
    assert "FAILED" in page and "it broke" in page and "NOT REACHED" in page
    assert "0 figures reached the bound they are held against, 1 did not" in page and "not quiet" in page
    assert "no figure here is a claim" in page # three rounds
    assert "Not on this page: lag, idle." in page


def test_a_section_stays_until_its_benchmark_is_run_again():
    ours, _, _ = two_sides([1, 1, 1], [2, 2, 2])
    rows = [hold(hold(make_row("case", ours, ratio=0.5), "ratio", AT_MOST, 0.6), "nothing", AT_MOST, 1)]
    first = show.markdown([a_run("2026-01-01", "x", rows), a_run("2026-01-02", "y", rows)], ["x", "y", "z"])
    page = show.markdown([a_run("2026-03-03", "y", rows)], ["x", "y", "z"], first)
    assert page.index("2026-01-01") < page.index("2026-03-03") and "2026-01-02" not in page
    assert page.count("## ") == 2 and "Not on this page: z." in page
    assert re.search("^.* bound they are held against", page, re.M).group() == \
        re.search("^.* bound they are held against", first, re.M).group()


def test_the_page_takes_each_benchmark_from_its_latest_run():
    ours, other, _ = two_sides([1, 1, 1], [2, 2, 2])
    old, new = [make_row("before", other)], [make_row("after", ours)]
    page = show.markdown([a_run("2026-02-01", "x", new), a_run("2026-01-01", "x", old),
                          a_run("2026-01-02", "y", old)], ["y", "x"])
    assert page.index("## y: a title") < page.index("2026-01-02") < page.index("## x: a title")
    assert "2026-02-01" in page and "2026-01-01" not in page and "after" in page


def a_run(begun, name, rows):
    return {"machine": {"cpu": "some", "load at the start": 3.0, "commit": "abc"}, "command": "run",
            "begun": begun, "rounds": 3, "seed": 1,
            "benchmarks": {name: {"title": "a title", "seconds": 1.0, "rows": rows}}}


def lag_row(name, **figures):
    sides = run_rounds({name: lambda: figures}, 1)
    bounds = next(case[4:] for case in lag.CASES if case[0] == "10 k/s")
    return lag.hold_bounds(make_row("10 k/s", sides[name]), *bounds)


def test_the_lag_of_each_feed_has_bounds_of_its_own():
    for name, reached in (("commands, notifications", [True, False]), ("commands, stream", [False, False])):
        row = lag_row(name, p50_ms=0.28, p99_ms=1)
        assert [bound["reached"] for bound in row["thresholds"]] == reached, row
    assert not lag_row("native", p50_ms=0.28)["thresholds"]
    assert not lag_row("replica, stream", p50_ms=0.28)["thresholds"]
    assert {case[1] for case in lag.CASES if set(case[4]) == set(lag.FEEDS)} == {10_000, 50_000}


def test_the_cores_that_daemons_took_meanwhile():
    def work():
        begin = os.times().user
        while os.times().user - begin < 0.2:
            pass
        return {"p50_ms": 1}

    class Itself:
        pid = os.getpid()

    with subprocess.Popen(["sleep", "60"]) as sleeper:
        found = lag.cores({"proxy": Itself, "agent": sleeper}, work)
        sleeper.kill()
    assert found["p50_ms"] == 1 and 0 <= found["agent_cores"] < found["proxy_cores"]


def test_cpu_seconds_count_children_that_ended():
    before = cpu_seconds(os.getpid())
    child = os.fork()
    if child == 0:
        begin = os.times()
        while os.times().user - begin.user < 0.2:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    assert 0.15 < cpu_seconds(os.getpid()) - before < 2


def test_a_yardstick_that_fails_says_why():
    try:
        peer("peer-dump", "unix:///nonexistent/server.sock")
    except RuntimeError as failure:
        assert "/nonexistent/server.sock" in str(failure)
    else:
        raise AssertionError("it did not fail")
