"""A server, or another program at its address, that answers lies: it gets no memory and no belief."""
import contextlib
import os

import pytest
import redis

from lib import data
from lib.compare import assert_equal_now
from lib.liar import Liar, array, bulk
from lib.process import wait_for
from lib.server import MATRIX

pytestmark = pytest.mark.quick

MIB = 1 << 20


def peak_bytes(daemon):
    """The most memory that the process has ever asked for. Resident pages say too little: what a reply
    was given is used when more of it comes."""
    with open(f"/proc/{daemon.pid}/status", encoding="ascii") as stream:
        return next(int(line.split()[1]) * 1024 for line in stream if line.startswith("VmPeak"))


def grown(daemon, liar, lie, try_again=lambda: True):
    """How much it takes while it tries to connect to the liar three times."""
    wait_for(lambda: try_again() and liar.connections >= 1, "it does not connect")
    before, had = peak_bytes(daemon), liar.connections
    lie()
    wait_for(lambda: try_again() and liar.connections >= had + 4, "it does not try again", 60)
    return peak_bytes(daemon) - before


HUGE = {
    "array": b"*6500000\r\n",
    "text": b"$200000000\r\n" + b"x" * (40 * MIB),
    "nested": b"*8\r\n" + b"*6500000\r\n",
    "status": b"+" + b"x" * (40 * MIB),
}


@pytest.mark.parametrize("shape", HUGE)
@pytest.mark.parametrize("daemon", ["proxy", "agent", "gateway"])
def test_no_reply_before_the_login_takes_memory(bed, daemon, shape):
    with Liar(os.path.join(bed.directory, "liar"), {b"CLIENT": None}) as liar: # it hangs up at first
        def lie():
            liar.greeting = HUGE[shape]

        if daemon == "proxy":
            victim = bed.proxy(liar)
            assert grown(victim, liar, lie) < 32 * MIB
        elif daemon == "agent":
            victim = bed.agent(bed.proxy(bed.server("primary")), liar)
            wait_for(lambda: victim.status()["epoch"], "it does not follow") # the table is in its memory then
            assert grown(victim, liar, lie) < 32 * MIB
        else:
            victim = bed.gateway(bed.proxy(bed.server("primary")), redis__address=liar.address,
                                 gateway__forward=True)
            victim.wait_serving() # the table is in its memory then
            assert grown(victim, liar, lie, lambda: write_through(victim)) < 32 * MIB
        assert victim.alive


def write_through(gateway):
    with gateway.client() as client, contextlib.suppress(redis.exceptions.RedisError):
        client.set("a", "b")
    return True


INFO = "redis_version:7.0.15\r\nredis_mode:standalone\r\nrun_id:{0}\r\nmaster_replid:{0}\r\nrole:master\r\nloading:0\r\n"


def answers(**more):
    """What a server says that can be followed, and the lies in place of some of it."""
    told = {
        b"TIME": array(bulk("1700000000"), bulk("0")),
        b"PING": b"+PONG\r\n",
        b"CLIENT ID": b":7\r\n",
        b"INFO": bulk(INFO.format("a" * 40)),
        b"CONFIG GET": lambda words: array(bulk(words[2]), bulk(b"16" if words[2] == b"databases" else b"AE")),
        b"SCAN": array(bulk("0"), array()),
    }
    told.update({name.replace("_", " ").encode(): answer for name, answer in more.items()})
    return told


@pytest.mark.parametrize("command,named", [("TIME", "a short reply"), ("CONFIG_GET", "the reply to CONFIG GET"),
                                           ("INFO", "the reply to INFO")])
@pytest.mark.parametrize("shape", ["array", "nested"])
def test_each_command_bounds_its_reply(bed, command, named, shape):
    with Liar(os.path.join(bed.directory, "liar"), {b"CLIENT": None}) as liar:
        def lie():
            liar.answers = answers(**{command: HUGE[shape]})

        proxy = bed.proxy(liar)
        assert grown(proxy, liar, lie) < 32 * MIB
        proxy.wait_status(lambda status: f"{named} has more than" in (status["reason"] or ""), "no reason")


@pytest.mark.parametrize("which", ["proxy", "agent"])
@pytest.mark.quick
def test_no_word_of_info_keeps_the_status_from_being_told(bed, which):
    """JSON has UTF-8 alone. A server that says other bytes of itself does not blind the operator."""
    evil = b"x\xff\xc0\xaf\x1b[2J"
    told = INFO.format("a" * 40).encode().replace(b"run_id:" + b"a" * 40, b"run_id:" + evil)
    told += b"".join(b"%s:%s\r\n" % (name, evil) for name in (b"maxmemory_policy", b"master_replid2", b"executable"))
    with Liar(os.path.join(bed.directory, "liar"), answers(INFO=bulk(told))) as liar:
        daemon = bed.proxy(liar) if which == "proxy" else bed.agent(bed.proxy(bed.server("primary")), liar)
        wait_for(lambda: sum(words[0].upper() == b"INFO" for words in list(liar.heard)) >= 2, "it is not asked")
        for _ in range(5):
            assert daemon.status()["state"]
            for method in ("history", "metrics"):
                daemon.rpc(method)


def fill_a_bucket(server):
    """
    SCAN never divides a bucket. A hash table that is being replaced by a small one has few of them, and
    all new keys go there.
    """
    with server.client(timeout=300) as client:
        client.config_set("activerehashing", "no")
        client.execute_command("DEBUG", "POPULATE", 1_000_000, "old", 8)
        client.execute_command("EVAL", "for i = 0, 999990 do redis.call('DEL', 'old:' .. i) end", 0)
        client.execute_command("EVAL", "for i = 1, 60000 do redis.call('SET', 'new:' .. i, i) end", 0)
        cursor, most = 0, 0
        for _ in range(50):
            cursor, keys = client.scan(cursor, count=500)
            most = max(most, len(keys))
            if cursor == 0:
                break
        return most


@pytest.mark.long
@pytest.mark.parametrize("server", [MATRIX[0], MATRIX[-1]])
def test_what_real_servers_answer_is_taken(bed, server, need_server):
    """Pages of many keys, thousands of clients, functions of megabytes, large values."""
    need_server(server)
    primary, replica = bed.server("primary", server), bed.server("replica", server, maxclients=6000)
    print(primary.label, "a page of SCAN has up to", fill_a_bucket(primary), "keys")
    with primary.client() as client, replica.client() as copy:
        client.set("large", b"x" * (64 * MIB))
        client.set(b"a name of its own: " + b"n" * 1_000_000, 1)
        copy.function_load("#!lua name=large\nlocal text = '" + "f" * (3 * MIB) +
                           "'\nredis.register_function('large_f', function() return #text end)")
        others = [replica.client() for _ in range(3000)]
        for other in others:
            other.client_setname("x" * 200)
        proxy = bed.proxy(primary)
        agent = bed.agent(proxy, replica, apply__mode="replica", apply__consent=True)
        agent.wait_warm(120)
        assert_equal_now(primary, replica)
        assert not agent.output().count("has more than"), agent.tail()
        for other in others:
            other.close()


def test_many_keys_and_databases_are_told_by_info(bed):
    """INFO of every database that can be followed."""
    primary = bed.server("primary", databases=4096)
    with primary.client() as client:
        pipe = client.pipeline(transaction=False)
        for number in range(4096):
            pipe.execute_command("SELECT", number)
            pipe.execute_command("SET", "key", number)
        pipe.execute()
    proxy = bed.proxy(primary)
    proxy.wait_live()
    assert proxy.status()["keys"] == 4096
    data.fill_plain(primary, 10)
    proxy.wait_status(lambda status: status["keys"] == 4106, "keys are missing")
