"""table.huge_pages: the table in huge pages of 2 MiB, and what it says where there are too few."""
import contextlib

import pytest

from lib import data, hugepages
from lib.process import wait_for

# The pool is the machine's.
pytestmark = pytest.mark.alone


def test_a_machine_without_huge_pages_is_told_which_sysctl_to_set(bed):
    primary = bed.server("primary")
    with hugepages.pool(0) as free:
        proxy = bed.proxy(primary, start=False, table__huge_pages=True, table__max_bytes=f"{4 + free}GiB")
        proxy.start(wait=False)
        wait_for(lambda: not proxy.alive, "the proxy does not end", 30)
    assert proxy.popen.returncode in (1, 2), proxy.tail()
    assert "sysctl vm.nr_hugepages=" in proxy.tail() and "table.huge_pages" in proxy.tail(), proxy.tail()


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_a_table_in_huge_pages_is_followed(bed, carrier):
    with contextlib.ExitStack() as stack:
        free = stack.enter_context(hugepages.pool(40))
        if free < 40:
            pytest.xfail(f"this machine gives no huge pages to a test: {free} of 40")
        pair = bed.pair(fill=data.fill, listen=(carrier,), via=carrier,
                        proxy={"table__huge_pages": True, "table__max_bytes": "32MiB"})
        assert hugepages.free() < free
        data.fill_plain(pair.primary, 20_000)
        pair.settle()
        pair.primary.command("FLUSHALL")
        pair.settle()
        bed.close()
        wait_for(lambda: hugepages.free() >= free, "the pages are not given back")
