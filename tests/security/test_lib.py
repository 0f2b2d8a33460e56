"""The attackers themselves: what they try works where nothing defends, so that a refusal means a defence."""
import os

import pytest

from lib import wire
from lib.daemon import Proxy, secret_path
from lib.flood import Flood, newcomers
from lib.liar import Liar

pytestmark = pytest.mark.quick


def secret_of(bed):
    with open(secret_path(bed.directory), "rb") as stream:
        return stream.read().strip()


@pytest.mark.parametrize("carrier", ["shm", "tcp"])
def test_an_agent_by_hand_reads_the_table(bed, carrier):
    primary = bed.server("primary")
    primary.command("SET", "marker", "what nobody else may see")
    proxy = bed.proxy(primary, listen=("shm", "tcp"))
    proxy.wait_live()
    secret = secret_of(bed)
    with wire.join(proxy.listen[carrier], secret=secret) as joined:
        assert b"what nobody else may see" in joined.everything()
    assert not wire.may_join(proxy.listen[carrier], secret=b"another secret, as long")


def test_a_flood_is_one(bed):
    primary = bed.server("primary")
    proxy = bed.proxy(primary, listen=("tcp",), log__level="error")
    proxy.wait_live()
    with Flood("hello", proxy.listen["tcp"], rate=100) as flood:
        newcomers(proxy.listen["tcp"], 5, secret=secret_of(bed), pause_s=0.3)
    assert flood.made > 10


def test_a_server_by_hand_is_asked(bed):
    with Liar(os.path.join(bed.directory, "liar")) as liar:
        proxy = bed.proxy(liar)
        proxy.wait_status(lambda _: liar.heard, "nothing was asked")
        proxy.stop()


def test_a_daemon_of_a_stranger_runs(bed, stranger):
    assert stranger.cannot(os.listdir, bed.directory)
    proxy = Proxy(stranger.home, "theirs", bed.server("primary"))
    stranger.become(proxy).start()
    assert os.stat(f"/proc/{proxy.pid}").st_uid == stranger.uid
    assert proxy.stop() == 0
