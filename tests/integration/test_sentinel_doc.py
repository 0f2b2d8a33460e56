"""What deploy/doc/operate.md shows for Sentinel, run: both ways to deploy, and a failover by hand."""
import json
import os
import subprocess

import pytest

from lib import data, doc
from lib.compare import assert_equal_now
from lib.daemon import CTL
from lib.process import wait_for
from lib.sentinel import NAME, Trio, patiently

SHOWN_NAME, SHOWN_SENTINEL = "mymaster", "redis-cli -h 10.0.0.1 -p 26379"


def configured(bed, trio, server, name, shown):
    """A proxy that is configured by the file of the document, but for where everything is."""
    keys = json.loads(shown)
    assert keys["sentinel.name"] == SHOWN_NAME and len(keys["sentinel.addresses"]) == len(trio.sentinels)
    keys["sentinel.name"] = NAME
    keys["sentinel.addresses"] = [one.address for one in trio.sentinels]
    if keys["redis.address"] != "redis://":
        keys["redis.address"] = server.address
    proxy = bed.proxy(server, name=name, start=False)
    proxy.file = bed.file(name + ".json", json.dumps(keys))
    for key in keys:
        proxy.settings.pop(key, None)
    return proxy.start()


@pytest.mark.long
def test_both_ways_to_deploy_and_a_failover_by_hand(bed):
    trio = Trio(bed, replicas=1)
    try:
        data.fill_plain(trio.first, 100)
        beside, following = doc.section_blocks("Fail over with Sentinel", "json")
        proxies = [configured(bed, trio, server, "beside-" + server.name, beside) for server in trio.servers]
        one = configured(bed, trio, trio.first, "following", following)
        proxies[0].wait_live()
        one.wait_live()
        listed = json.loads(doc.section_blocks("Several proxies", "json")[0])
        replica = bed.server("local")
        agent = bed.agent(proxies[0], replica, start=False)
        agent.file = bed.file("agent.json", json.dumps(
            {**listed, "proxy": [proxy.address for proxy in proxies]}))
        del agent.settings["proxy"]
        agent.start().wait_warm()
        before = agent.status()["history"]["data"]["term"]
        asked = doc.block("tests/integration/test_sentinel_doc.py")
        assert SHOWN_SENTINEL in asked
        sentinel = trio.sentinels[0]
        asked = asked.replace(SHOWN_SENTINEL, f"redis-cli -h {sentinel.host} -p {sentinel.port}")
        asked = asked.replace(SHOWN_NAME, NAME).replace("-s A ", f"-s {agent.control} ")
        done = subprocess.run(["bash", "-ec", asked], capture_output=True, text=True, check=False, timeout=300,
                              env={**os.environ, "PATH": os.path.dirname(CTL) + ":" + os.environ["PATH"]})
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("OK\n") and int(done.stdout.split()[-1]) >= before
        wait_for(lambda: agent.status()["history"]["data"]["term"] > before, "the agent does not go along", 90)
        elected = trio.elected()
        patiently(lambda: elected.command("SET", "of the new primary", 1))
        agent.wait_warm()
        one.wait_live()
        assert_equal_now(elected, replica)
    finally:
        trio.close()
