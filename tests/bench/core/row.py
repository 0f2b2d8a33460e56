"""
One row of a result: a case, a side of it, its figures, and what they are held against.

The JSON form of a benchmark is its title, its seconds and its rows, nothing else; whatever shows
results (terminal, BENCHMARKS.md) works on that.
"""

AT_MOST, AT_LEAST = "at most", "at least"


def make_row(case, side, **more):
    """A row from a Side; `more` are further figures (ratios, mostly), left out where None."""
    figures = side.figures()
    figures.update({key: value for key, value in more.items() if value is not None})
    spread = {key: [value.low, value.high] for key, value in figures.items()
              if getattr(value, "count", 1) > 1}
    return {"case": case, "side": side.name, "state": side.state, "reason": side.reason,
            "figures": figures, "spread": spread, "rounds": side.rounds, "thresholds": []}


def hold(row, figure, sense, bound):
    """Hold a figure of the row against a bound; a figure that is not there cannot reach it."""
    value = row["figures"].get(figure)
    reached = None
    if row["state"] == "measured" and value is not None:
        reached = value <= bound if sense == AT_MOST else value >= bound
    elif row["state"] == "failed":
        reached = False
    row["thresholds"].append({"figure": figure, "sense": sense, "bound": bound, "reached": reached})
    return row


def verdict(threshold):
    words = {True: "reached", False: "NOT REACHED", None: "not measured"}
    return (f"{threshold['figure']} {threshold['sense']} {threshold['bound']:g}: "
            f"{words[threshold['reached']]}")
