"""Who may read the table: the shared secret, and addresses without one."""
import select
import socket
import time

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.process import SLOW

pytestmark = pytest.mark.sanitize


def test_the_shared_secret_opens_the_table(bed, carrier):
    secret = bed.file("secret", "a long shared secret\n")
    pair = bed.pair(listen=(carrier,), via=carrier, fill=data.fill,
                    proxy={"auth__secret_file": secret}, agent={"auth__secret_file": secret})
    pair.settle()
    assert "a long shared secret" not in pair.proxy.output() + pair.agent.output()


@pytest.mark.parametrize("agent_secret", ["another long secret\n", None])
@pytest.mark.quick
def test_a_wrong_or_missing_secret_is_refused(bed, carrier, agent_secret):
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    secret = bed.file("secret", "a long shared secret\n")
    proxy = bed.proxy(primary, listen=(carrier,), auth__secret_file=secret)
    settings = {"auth__secret_file": bed.file("other", agent_secret)} if agent_secret else \
        {"auth__allow_insecure": True}
    agent = bed.agent(proxy, replica, via=carrier, **settings)
    status = agent.wait_status(lambda status: "secret" in (status["reason"] or "").lower(),
                               "no reason that names the secret")
    assert status["state"] not in ("warm", "bootstrapping"), status
    assert replica.command("DBSIZE") == 0
    assert proxy.ctl_ok("agents") == []


def test_an_agent_does_not_trust_a_proxy_without_its_secret(bed, carrier):
    """The proof goes both ways."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    agent_secret = bed.file("secret", "a long shared secret\n")
    proxy = bed.proxy(primary, listen=(carrier,), auth__allow_insecure=True)
    agent = bed.agent(proxy, replica, via=carrier, auth__secret_file=agent_secret)
    agent.wait_status(lambda status: "secret" in (status["reason"] or "").lower(), "no reason")
    assert replica.command("DBSIZE") == 0


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_without_a_secret_only_shm_is_listened_to(bed, host):
    proxy = bed.proxy(bed.server("primary"), listen=("shm",), start=False)
    proxy.settings["listen"] = [f"tcp://{host}:0"]
    proxy.start(wait=False)
    assert proxy.wait_exit() == 2
    assert "set auth.secret_file" in proxy.output()


def test_strangers_neither_keep_agents_out_nor_fill_the_log(bed):
    """They come again and again, hold every slot of the listener and say nothing."""
    primary, replica = bed.server("primary"), bed.server("replica")
    data.fill(primary)
    proxy = bed.proxy(primary, listen=("tcp",))
    proxy.wait_live()
    port = int(proxy.listen["tcp"].rsplit(":", 1)[1])
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    agent = bed.agent(proxy, replica, via="tcp")
    end = time.monotonic() + 30 * SLOW
    while agent.status()["state"] != "warm":
        assert time.monotonic() < end, agent.status()
        strangers.append(socket.create_connection(("127.0.0.1", port)))
        time.sleep(0.01)
    for stranger in strangers:
        stranger.close()
    lines = [line for line in proxy.output().splitlines() if "refused:" in line]
    assert any("gave way" in line for line in lines), lines
    assert len(lines) < len(strangers) / 2, lines
    agent.wait_warm()
    assert_equal_now(primary, replica)


def test_for_one_newcomer_one_stranger_gives_way(bed):
    """All slots are held by strangers, none of them at the end of its two seconds."""
    primary = bed.server("primary")
    for attempt in range(10):
        # One that has served no stranger yet: those of before could keep its slots for a while.
        proxy = bed.proxy(primary, f"proxy-{attempt}", listen=("tcp",))
        host, port = proxy.listen["tcp"][len("tcp://"):].split(":")

        def come(host=host, port=port):
            return socket.create_connection((host, int(port)), timeout=30 * SLOW)
        begun = time.monotonic()
        strangers = [come() for _ in range(256)]
        with come():
            gone = []
            while not gone and time.monotonic() - begun < 1.5:
                gone, _, _ = select.select(strangers, [], [], 0.05)
            time.sleep(0.2) # for more of them to go
            gone, _, _ = select.select(strangers, [], [], 0)
            in_time = time.monotonic() - begun < 1.9
        for stranger in strangers:
            stranger.close()
        if in_time and gone: # else their time was up, or the proxy had not come to the newcomer
            break
        proxy.stop()
    assert in_time and len(gone) == 1, f"{len(gone)} gave way"


def test_a_secret_file_others_may_read_is_refused(bed):
    proxy = bed.proxy(bed.server("primary"), start=False,
                      auth__secret_file=bed.file("secret", "x" * 32, mode=0o644))
    proxy.start(wait=False)
    assert proxy.wait_exit() == 2
    assert "chmod" in proxy.output()
