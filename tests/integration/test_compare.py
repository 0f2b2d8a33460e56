"""keywakectl reconcile --wait: the table has what the primary has when it returns, or it says why not."""
import time

from lib import data
from lib.rpc import Rpc


def test_a_comparison_that_is_waited_for_takes_what_it_needs(bed):
    """Clients wait for it. When it is over, or nobody waits any more, the limits hold again."""
    primary = bed.server("primary")
    data.fill_plain(primary, 3000)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    proxy.ctl_ok("config", "set", "source.keys_per_second", "50")
    compared = proxy.ctl_ok("reconcile", "--wait")
    assert compared["keys"] == 3000 and compared["changed"] == 0, compared
    assert compared["seconds"] < 3000 / 50 / 2, compared
    assert proxy.status()["state"] == "live"
    with Rpc(proxy.control) as waiting:
        # Anew, and slow: 60 s.
        proxy.ctl_ok("reconcile")
        waiting.send(b'{"jsonrpc":"2.0","id":1,"method":"reconcile","params":{"wait":true}}\n')
        assert waiting.receive()["result"]["keys"] == 3000
    proxy.ctl_ok("reconcile")
    assert proxy.status()["state"] == "reconciling"
    began, fetched = time.monotonic(), proxy.status()["fetches"]
    time.sleep(2)
    passed = time.monotonic() - began
    assert proxy.status()["fetches"] - fetched < 50 * passed + 200


def test_a_comparison_says_why_it_cannot_end(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, 3000)
    proxy = bed.proxy(primary)
    proxy.wait_live()
    primary.kill()
    proxy.wait_state("source_down")
    refused = proxy.ctl("reconcile", "--wait")
    assert refused.returncode == 2 and "cannot be compared now" in refused.stderr, refused
    primary.restart(keep_data=False)
    proxy.wait_state("held")
    refused = proxy.ctl("reconcile", "--wait")
    assert refused.returncode == 2 and "keywakectl approve" in refused.stderr, refused
