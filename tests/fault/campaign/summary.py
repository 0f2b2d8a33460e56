"""What a campaign has found: added up, a line for each round, and the summary."""
import collections
import json
import sys
import time

SLOW_SECONDS = 25 # rounds that take longer are counted: what they wait for is worth a look


class Summary:
    def __init__(self):
        self.begun = time.monotonic()
        self.seeds = 0
        self.failed = []
        self.faults, self.missed, self.phases, self.modes, self.counts, self.sorts = (
            collections.Counter() for _ in range(6))
        self.approvals = 0
        self.seconds = []
        self.slow = 0

    def add(self, report):
        self.seeds += 1
        self.faults.update(report["faults"])
        self.missed.update(report["missed"])
        self.phases.update(report["phases"])
        self.modes[report["mode"]] += 1
        self.counts.update(report["counts"])
        self.approvals += report["approvals"]
        self.seconds.append(report["seconds"])
        self.slow += report["seconds"] > SLOW_SECONDS
        self.sorts.update(sort for sort, _ in report["failures"])
        if report["failures"]:
            self.failed.append(report)

    def progress(self, report):
        """On standard error: one line for each round, more for one that failed."""
        done = f"seed {report['seed']:6} {report['mode']:8} {report['seconds']:6.1f} s  "
        if not report["failures"]:
            sys.stderr.write(f"{done}ok      {', '.join(sorted(report['faults']))}\n")
            return
        sys.stderr.write(f"{done}FAILED  {', '.join(sorted(report['faults']))}\n")
        for sort, sentence in report["failures"]:
            sys.stderr.write(f"    {sort}: {sentence[:1500]}\n")
        sys.stderr.write(f"    logs: {report['directory']}\n    again: {report['again']}\n")
        if "shortest" in report:
            sys.stderr.write(f"    shortest: {report['shortest']}\n")

    def figures(self):
        return {
            "seeds": self.seeds, "failed": len(self.failed),
            "faults_injected": sum(self.faults.values()), "faults_not_injected": sum(self.missed.values()),
            "commands": self.counts["commands"], "barriers": self.counts["barriers"],
            "barriers_in_vain": self.counts["barriers_in_vain"],
            "barriers_disturbed": self.counts["barriers_disturbed"],
            "samples": self.counts["samples"], "claims": self.counts["claims"],
            "claims_disturbed": self.counts["claims_disturbed"],
            "wrong_warm": self.sorts["wrong_warm"],
            "lost_keys": self.counts["lost_keys"] + self.sorts["lost_keys"],
            "resurrected": self.counts["resurrected"] + self.sorts["resurrected"],
            "mass_deletions": self.sorts["mass_deletion"],
            "brakes_checked": self.counts["brakes_checked"],
            "held_by_proxy": self.counts["held_by_proxy"],
            "held_by_agent": self.counts["held_by_agent"], "came_back": self.counts["came_back"],
            "approved_of_proxy": self.counts["approved_of_proxy"],
            "approved_of_agent": self.counts["approved_of_agent"],
            "approvals": self.approvals, "slow": self.slow, "slowest_s": max(self.seconds, default=0),
            "seconds": round(time.monotonic() - self.begun, 1),
        }

    def show(self, stream):
        figures = self.figures()
        if stream.isatty():
            for name, value in figures.items():
                stream.write(f"  {name.replace('_', ' '):22} {value:>12,}\n")
            for title, counter in (("faults", self.faults), ("not injected", self.missed),
                                   ("phases (proxy/agent)", self.phases), ("modes", self.modes)):
                stream.write(f"{title}\n")
                for name, count in sorted(counter.items()):
                    stream.write(f"  {name:34} {count:>8}\n")
        else:
            failures = [{key: report.get(key) for key in
                         ("seed", "failures", "directory", "again", "shortest")}
                        for report in self.failed]
            json.dump({**figures, "faults": self.faults, "not_injected": self.missed,
                       "phases": self.phases, "modes": self.modes, "failures": failures}, stream,
                      indent=1)
            stream.write("\n")
        stream.flush()
        sys.stderr.write(f"{self.seeds - len(self.failed)} passed, {len(self.failed)} failed\n")
