"""A list of proxies of one primary, and what an operator saves over a restart."""
import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.daemon import MODES
from lib.process import wait_for

pytestmark = pytest.mark.sanitize

KEYS = 1500


class Listed:
    """One primary with two proxies, and a replica whose agent has both in its list."""

    def __init__(self, bed, **agent):
        self.primary, self.replica = bed.server("primary"), bed.server("replica")
        data.fill_plain(self.primary, KEYS)
        self.proxies = [bed.proxy(self.primary, f"proxy-{name}") for name in ("one", "two")]
        for proxy in self.proxies:
            proxy.wait_live()
        self.agent = bed.agent(self.proxies[0], self.replica, start=False, **agent)
        self.agent.settings["proxy"] = [proxy.address for proxy in self.proxies]
        self.agent.start()
        self.agent.wait_warm()

    def followed(self):
        return [entry["proxy"] for entry in self.agent.status()["proxies"] if entry["followed"]]

    def wait_followed(self, proxy):
        wait_for(lambda: self.followed() == [proxy.address], "the agent does not go there", 60, 0.1)


@pytest.mark.parametrize("mode", [pytest.param("commands", marks=pytest.mark.quick), "replica", "hybrid"])
def test_another_proxy_of_the_list_takes_the_place_of_one_that_is_gone(bed, mode):
    listed = Listed(bed, **MODES[mode])
    listed.wait_followed(listed.proxies[0])
    assert_equal_now(listed.primary, listed.replica)
    # The second one lists the scout, and knows that it reads nothing.
    wait_for(lambda: [agent["state"] for agent in listed.proxies[1].rpc("agents.list")] == ["standby"],
             "the second proxy does not list the scout", 30, 0.2)
    listed.proxies[0].kill()
    listed.wait_followed(listed.proxies[1])
    listed.primary.command("SET", "later", 1)
    listed.agent.wait_warm()
    assert_equal_now(listed.primary, listed.replica)
    # The first one is back: it is no better, so nothing changes.
    listed.proxies[0].start()
    listed.proxies[0].wait_live()
    listed.agent.wait_status(lambda status: all(entry["seen"] for entry in status["proxies"]),
                             "the first proxy is not seen again")
    assert listed.followed() == [listed.proxies[1].address]


def test_a_gateway_goes_along(bed):
    primary = bed.server("primary")
    primary.client().set("k", "v")
    proxies = [bed.proxy(primary, f"proxy-{name}") for name in ("one", "two")]
    gateway = bed.gateway(proxies[0], start=False, gateway__max_staleness_ms=60_000)
    gateway.settings["proxy"] = [proxy.address for proxy in proxies]
    gateway.start()
    gateway.wait_fresh()
    assert gateway.client().get("k") == b"v"
    proxies[0].kill()
    gateway.wait_status(lambda status: status["proxy"] == proxies[1].address, "it does not go along")
    gateway.wait_fresh()
    assert gateway.client().get("k") == b"v"


def test_a_retarget_that_is_saved_outlives_the_agent(bed):
    listed = Listed(bed)
    saved = listed.agent.directory + "/saved.json"
    first, second = (proxy.address for proxy in listed.proxies)
    refused = listed.agent.ctl("retarget", second, "--save")
    assert refused.returncode == 2 and "control.saved_file" in refused.stderr, refused
    assert len(listed.agent.status()["proxies"]) == 2
    assert listed.agent.stop() == 0
    # The list stands in the file: what the command line sets cannot be saved.
    listed.agent.settings.pop("proxy")
    listed.agent.file = bed.file("agent.json", '{"proxy": "%s"}' % first)
    listed.agent.settings["control.saved_file"] = saved
    listed.agent.start()
    listed.agent.wait_warm()
    assert listed.followed() == [first]
    assert listed.agent.ctl_ok("retarget", second, first, "--save") == {"proxy": second}
    assert listed.agent.ctl_ok("config", "get", "--saved") == {"proxy": [second, first]}
    listed.wait_followed(listed.proxies[1])
    listed.agent.ctl_ok("config", "set", "warm.lag_ms", "2000", "--save")
    assert listed.agent.stop() == 0
    listed.agent.start()
    listed.agent.wait_warm()
    assert listed.followed() == [second]
    assert listed.agent.rpc("config.get", path="warm.lag_ms") == 2000
    assert_equal_now(listed.primary, listed.replica)
