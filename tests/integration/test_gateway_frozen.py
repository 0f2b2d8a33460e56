"""keywake-gateway in front of a proxy that hangs, and of values that are too large to be read."""
import collections
import signal
import time

import pytest
import redis

from lib.process import SLOW, wait_for
from lib.resp import Raw


@pytest.mark.quick
def test_a_proxy_that_hangs_makes_one_wait_for_all_gets(bed):
    """The READs of a connection over tcp end no more. Without a judge each get would wait for their deadline."""
    primary, proxy, gateway = bed.served(listen=("tcp",), via="tcp", remote__read_timeout_ms=120_000,
                                         gateway__max_staleness_ms=1000)
    primary.client().set("k", "v")
    gateway.wait_fresh()
    classes = collections.Counter()
    with Raw(gateway.socket, timeout=60 * SLOW) as client:
        wait_for(lambda: client.ask("GET", "k") == b"$1\r\nv\r\n", "it is not served")
        proxy.signal(signal.SIGSTOP)
        began = time.monotonic()
        for _ in range(200):
            classes[client.ask("GET", "k").split()[0]] += 1
        took = time.monotonic() - began
        assert classes[b"-MASTERDOWN"] >= 199, classes # one can have been answered before the stop
        # All together: the second after which the table is too old, and no wait for the rest.
        assert took < 20 * SLOW
        proxy.signal(signal.SIGCONT)
        wait_for(lambda: client.ask("GET", "k") == b"$1\r\nv\r\n", "it is not served again", 30)


@pytest.mark.quick
def test_a_value_that_is_too_large_is_refused_before_it_is_read(bed):
    primary, _, gateway = bed.served(listen=("tcp",), via="tcp", gateway__max_value_bytes=1 << 20,
                                     gateway__memcached=[])
    noise = bytes(range(256)) * 4
    with primary.client() as client:
        client.config_set("rdbcompression", "no")
        client.set("fits", noise * 1000)
        client.set("large", noise * 1100)
        client.set("huge", noise * 20_000) # its length is in the record alone
    gateway.wait_fresh()
    with gateway.client() as client:
        assert client.get("fits") == noise * 1000
        before = gateway.status()["bytes_read"]
        for key in ("large", "huge"):
            for words in (("GET", key), ("STRLEN", key), ("EXISTS", key)):
                with pytest.raises(redis.exceptions.ResponseError, match="gateway.max_value_bytes"):
                    client.execute_command(*words)
        status = gateway.status()
        assert status["bytes_read"] - before < 500_000
        assert status["refused_too_large"] == 6


def test_a_value_that_is_too_large_comes_from_the_primary_if_it_can(bed):
    primary = bed.server("primary")
    gateway = bed.gateway(bed.proxy(primary), gateway__forward=True, redis__address=primary.address,
                          gateway__max_value_bytes=1 << 20)
    noise = bytes(range(256)) * 4
    primary.client().config_set("rdbcompression", "no")
    primary.client().set("large", noise * 1100)
    gateway.wait_fresh()
    with gateway.client() as client:
        assert client.get("large") == noise * 1100
        assert client.mget("large", "none") == [noise * 1100, None]
