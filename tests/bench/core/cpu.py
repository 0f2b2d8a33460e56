"""CPU seconds of processes with their children, and what memory they hold."""
import os

TICKS = os.sysconf("SC_CLK_TCK")


def stat(pid):
    with open(f"/proc/{pid}/stat", "rb") as stream:
        return stream.read().rsplit(b")", 1)[1].split()


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as stream:
            found += map(int, stream.read().split())
    return found


def running_seconds(pid):
    """Of all threads, by the scheduler's nanoseconds: ticks are too coarse for idle processes."""
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat", encoding="ascii") as stream:
            total += int(stream.read().split()[0])
    return total / 1e9


def seconds(pid):
    """This process, its children that live, and those that were waited for (a server's forks)."""
    fields = stat(pid)
    total = running_seconds(pid) + (int(fields[13]) + int(fields[14])) / TICKS
    for child in children(pid):
        try:
            total += seconds(child)
        except (FileNotFoundError, ProcessLookupError):
            continue # it ended meanwhile; the next look finds it among those waited for
    return total


def resident_bytes(pid):
    """Resident memory: the table's pages count, they are the proxy's own shared memory."""
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        for line in lines:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no VmRSS")
