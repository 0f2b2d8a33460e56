"""What stands in the memory of a process, and what a core file of it would hold. Reading takes root."""
import re


def mappings(pid):
    """(from, to, access, name) of each mapping."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        for line in maps:
            found = re.match(r"(\w+)-(\w+) (\S+) \S+ \S+ \S+\s*(.*)", line)
            yield int(found[1], 16), int(found[2], 16), found[3], found[4]


def places(pid, needle, block=1 << 20):
    """The mappings in which the bytes stand, one name for each place. Sparse reservations are searched as far as
    they have pages."""
    found = []
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory, open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pages:
        for start, end, access, name in mappings(pid):
            if "r" not in access or name in ("[vvar]", "[vsyscall]"):
                continue
            kept = b""
            for at in range(start, end, block):
                length = min(block, end - at)
                if not any(present(pages, at, length)):
                    kept = b""
                    continue
                try:
                    memory.seek(at)
                    bytes_ = kept + memory.read(length)
                except OSError: # a device's, or gone meanwhile
                    kept = b""
                    continue
                found += [f"{name or 'anonymous'} at {start:x}"] * bytes_.count(needle)
                kept = bytes_[-len(needle) + 1:]
    return found


def present(pages, at, length):
    """Of each page: is it there, or in swap? (Documentation/admin-guide/mm/pagemap.rst)"""
    pages.seek(at // 4096 * 8)
    entries = pages.read((length + 4095) // 4096 * 8)
    return [entries[i + 7] & 0xc0 for i in range(0, len(entries), 8)]


def in_core_file(pid, name):
    """Of the mappings whose name holds these words: the VmFlags, one set for each (man proc_pid_smaps)."""
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as smaps:
        text = smaps.read()
    return [set(flags.split()) for flags in
            re.findall(r"^\w+-\w+ [^\n]*" + re.escape(name) + r"[^\n]*\n(?:\w+:[^\n]*\n)*?VmFlags: ([^\n]*)", text, re.M)]
