"""Results as a table on a terminal, and as BENCHMARKS.md."""
from .rounds import ENOUGH
from .row import verdict

QUIET_LOAD = 0.7
BUSY_LOAD = 5 # at the end of a run, which makes some itself
SHORT = {"not built": "not built", "failed": "FAILED"}
RATIOS = {"ratio", "kept", "kept_cpu", "worst_ratio", "of_bound"}


def number(key, value):
    if value is None:
        return ""
    if key.endswith("_bytes"):
        for unit in ("B", "KiB", "MiB"):
            if abs(value) < 10240:
                return f"{value:.0f} {unit}"
            value /= 1024
        return f"{value:.1f} GiB"
    if isinstance(value, int) or float(value).is_integer() and abs(value) >= 100:
        return f"{int(value):,}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) >= 0.001 or value == 0 else f"{value:.1e}"


def with_spread(row, key, first):
    """A median, and of the first figure and of ratios the lowest and highest round."""
    text, spread = number(key, row["figures"].get(key)), row.get("spread", {}).get(key)
    if not spread or not (key == first or key.startswith("of_") or key in RATIOS):
        return text
    return f"{text} ({number(key, spread[0])}–{number(key, spread[1])})"


def cells(row, keys):
    words = [row["case"], row["side"]]
    words += [with_spread(row, key, keys[0]) for key in keys]
    words.append("; ".join(map(verdict, row["thresholds"])))
    words[-1] = "; ".join(filter(None, [SHORT.get(row["state"], ""), words[-1]]))
    return words


def grids(result):
    """One benchmark's tables: rows of another `part` have other columns."""
    parts = {}
    for row in result["rows"]:
        parts.setdefault(row.get("part", ""), []).append(row)
    return map(grid, parts.values())


def grid(rows):
    """Headings and lines of a table; a case is named on its first line only."""
    rows = [row for row in rows if row["state"] != "left out"]
    keys = []
    for row in rows:
        keys += [key for key in row["figures"] if key not in keys]
    lines, last = [], None
    for row in rows:
        line = cells(row, keys)
        if line[0] == last:
            line[0] = ""
        else:
            last = line[0]
        lines.append(line)
    return ["case", "side", *keys, "held against"], lines


def reasons(result):
    """Why rows are not whole: each reason once, with the first row it stands for."""
    found = {}
    for row in result["rows"]:
        if row["reason"]:
            found.setdefault(row["reason"], []).append(f"{row['case']}, {row['side']}")
    return [f"{rows[0]}{f' and {len(rows) - 1} more' if len(rows) > 1 else ''}: {reason}"
            for reason, rows in found.items()]


def terminal(name, result):
    print(f"\n{name}: {result['title']} ({result['seconds']:.0f} s)")
    for head, lines in grids(result):
        terminal_table(head, lines)
    for reason in reasons(result):
        print(f"    ! {reason}")


def terminal_table(head, lines):
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    for line in [head, *lines]:
        text = [word.ljust(width) if i < 2 or i == len(head) - 1 else word.rjust(width)
                for i, (word, width) in enumerate(zip(line, widths))]
        print("    " + "  ".join(text).rstrip())


def markdown_table(head, lines):
    yield "| " + " | ".join(head) + " |"
    yield "|" + "|".join("---" if i < 2 or i == len(head) - 1 else "---:"
                         for i in range(len(head))) + "|"
    for line in lines:
        yield "| " + " | ".join(word.replace("|", "\\|") for word in line) + " |"


def markdown_section(name, result, results):
    yield f"## {name}: {result['title']}"
    yield ""
    yield from origin(results)
    if result.get("about"):
        yield from [result["about"], ""]
    for head, lines in grids(result):
        yield from [*markdown_table(head, lines), ""]
    found = reasons(result)
    if found:
        yield from [f"- {reason}" for reason in found]
        yield ""


def counts(results):
    """(reached, not reached, not measured) thresholds of all rows."""
    found = [threshold["reached"] for result in results["benchmarks"].values()
             for row in result["rows"] for threshold in row["thresholds"]]
    return found.count(True), found.count(False), found.count(None)


def busy(machine):
    """What must be said where others used the machine too."""
    begin, end = machine["load at the start"], machine.get("load at the end", 0)
    if begin > QUIET_LOAD or end > BUSY_LOAD:
        yield (f"**The machine was not quiet** (load {begin} when this began, {end} when it ended). Its times "
               "say little. CPU seconds and counts say more, and ratios most.")
        yield ""


def few(rounds):
    """What must be said of figures that are none."""
    return f" **Fewer than {ENOUGH} rounds: no figure here is a claim.**" if rounds < ENOUGH else ""


def origin(results):
    """Which run a section comes from."""
    machine = results["machine"]
    yield (f"`{results['command']}`, {results['begun']}, commit {machine['commit']}. There are "
           f"{results['rounds']} rounds, after one that is not counted. Seed {results['seed']} gives the order "
           f"of the sides in each.{few(results['rounds'])}")
    yield ""
    yield from busy(machine)


def sections(runs):
    """Name, result and run of each benchmark; of one that was run twice, the later."""
    latest = {}
    for results in sorted(runs, key=lambda results: results["begun"]):
        for name, result in results["benchmarks"].items():
            latest[name] = (result, results)
    return latest


def kept_sections(page):
    """Name and lines of each section of a page that was written before."""
    found, name = {}, None
    for line in page.splitlines():
        if line.startswith("## "):
            name = line[3:].split(":")[0]
        if name:
            found.setdefault(name, []).append(line)
    return found


def kept_counts(lines):
    text = "\n".join(lines)
    return text.count(": reached"), text.count(": NOT REACHED"), text.count(": not measured")


def markdown(runs, names, kept=""):
    """BENCHMARKS.md, whole, from the results of one or more runs; names are those of all benchmarks.
    A section of the page `kept` stays if no run has that benchmark."""
    latest, text = sections(runs), {}
    numbers = []
    for name, lines in kept_sections(kept).items():
        if name in names and name not in latest:
            text[name] = lines
            numbers.append(kept_counts(lines))
    for name, (result, results) in latest.items():
        text[name] = list(markdown_section(name, result, results))
        numbers.append(counts({"benchmarks": {name: result}}))
    reached, missed, unmeasured = map(sum, zip(*numbers))
    newest = max(runs, key=lambda results: results["begun"])
    machine = {key: value for key, value in newest["machine"].items()
               if key not in ("commit", "load at the start", "load at the end")}
    missing = [name for name in names if name not in text]
    lines = [
        "# Benchmarks", "",
        "`tests/bench/run` wrote this page. Do not edit it; run it again. Each section says by which command, "
        "when and at which commit its figures were measured.", "",
        *markdown_table(["machine", ""], [[key, str(value)] for key, value in machine.items()]), "",
        "Every figure stands beside its peer's, measured in the same run. The machine is that of the newest "
        "run. Machines change, so figures of two sections are not comparable.", "",
        "Figures are medians, with the lowest and the highest round in parentheses. "
        "A ratio is the median of the rounds' own ratios. Times are in seconds unless a name says "
        "otherwise. A side that failed is shown so, with its reason. *not built* means that this "
        "version does not have it.", "",
        f"{reached} figures reached the bound they are held against, {missed} did not, and {unmeasured} "
        "were not measured. The bounds are the project's own aims: medians, on one quiet machine, over "
        "shm.", ""]
    if missing:
        lines += [f"Not on this page: {', '.join(missing)}. `tests/bench/run all` measures them too.", ""]
    for name in [name for name in names if name in text]:
        lines += [*text[name], ""] if text[name][-1] else text[name]
    return "\n".join(lines).rstrip() + "\n"
