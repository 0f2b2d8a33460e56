"""The machine's pool of huge pages of 2 MiB, which root may resize."""
import contextlib

POOL = "/proc/sys/vm/nr_hugepages"
FREE = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages"


def read(path):
    try:
        with open(path, encoding="ascii") as stream:
            return int(stream.read())
    except OSError:
        return 0


def free():
    return read(FREE)


def resize(pages):
    with contextlib.suppress(OSError):
        with open(POOL, "w", encoding="ascii") as stream:
            stream.write(str(pages))


@contextlib.contextmanager
def pool(pages):
    """So many pages are free meanwhile, as far as the kernel and our rights allow; how many are."""
    before = read(POOL)
    resize(before - free() + pages)
    try:
        yield free()
    finally:
        resize(before)
