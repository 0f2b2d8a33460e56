"""
Real sentinels: a proxy is live only while a majority of them confirms its server. test_splits.py has the splits in
which a deposed primary goes on serving.
"""
import os
import re
import shutil
import signal
import time

import pytest

from lib import data
from lib.compare import assert_equal_now
from lib.daemon import free_port
from lib.process import wait_for
from lib.sentinel import NAME, SENTINELS_AT, VOTERS, Sampler, Sentinel, Trio, hurry, patiently
from lib.server import TOP
from lib.tls import Authority

KEYS = 1000
PROMISE = 1.0 # seconds after the loss of the mandate


@pytest.fixture
def trio(bed, request, need_server):
    binary = getattr(request, "param", "installed")
    need_server(binary)
    made = Trio(bed, binary)
    data.fill_plain(made.first, KEYS)
    yield made
    made.close()


def confirmed(proxy):
    return proxy.wait_status(lambda status: status["state"] == "live"
                             and status["mandate"]["state"] == "confirmed", "not confirmed", 60)


@pytest.mark.long
@pytest.mark.parametrize("follows", [True, False], ids=["redis://", "an address"])
def test_behind_a_service_address_the_link_is_dialled_anew(bed, trio, follows):
    """New connections reach the second server there, and those that stand go on to the first one."""
    service = f"tcp://127.0.0.1:{trio.ports['first']}"
    proxy = bed.proxy(trio.first, **trio.settings(), redis__address="redis://" if follows else service)
    confirmed(proxy)
    first = trio.run_id(trio.first)
    for one in trio.sentinels: # their links stand, too, and they would make the second server a replica again
        one.ask("REMOVE", NAME)
    # One that is promoted while it synchronises is empty.
    wait_for(lambda: trio.second.command("DBSIZE") == KEYS and trio.info(trio.second)["master_link_status"] == "up",
             "the second server has not the data", 60)
    trio.second.command("REPLICAOF", "NO", "ONE")
    trio.relays["first"].behind = trio.relays["second"].behind
    for one in trio.sentinels:
        one.ask("MONITOR", NAME, "127.0.0.1", trio.ports["first"], 2)
    proxy.wait_passed("unconfirmed", reason="Sentinel says that the primary")
    trio.second.command("SET", "of the second one", 1)
    after = proxy.wait_status(lambda status: status["state"] == "live" and status["keys"] == KEYS + 1,
                              "it stays at the first server", 60)
    assert after["mandate"]["run_id"] == trio.run_id(trio.second) != first
    assert f"{service} leads to another run" in proxy.output()


@pytest.mark.quick
def test_a_mandate_that_is_lost_and_found_costs_no_scan(bed, trio):
    """Two of three sentinels are stopped: nothing is read meanwhile, and what changed comes afterwards."""
    proxy = bed.proxy(trio.first, **trio.settings())
    before = confirmed(proxy)
    sampler = Sampler(proxy)
    for one in trio.sentinels[:2]:
        one.signal(signal.SIGSTOP)
    stopped = time.monotonic()
    proxy.wait_state("unconfirmed", reason="sentinels answered")
    trio.first.command("SET", "meanwhile", 1)
    proxy.wait_status(lambda status: status["dirty_keys"] > 0, "its events are not heard")
    assert proxy.status()["keys"] == KEYS
    sampler.close()
    for one in trio.sentinels[:2]:
        one.signal(signal.SIGCONT)
    after = proxy.wait_status(lambda status: status["state"] == "live" and status["keys"] == KEYS + 1,
                              "what changed does not come", 60)
    assert after["reconciles"] == before["reconciles"]
    assert after["mandate"]["losses"] >= 1
    assert not sampler.good_after(stopped + PROMISE)


def test_a_proxy_that_was_stopped_claims_nothing_old(bed, trio):
    """Its answers from before are too old when it continues, whatever it does first."""
    proxy = bed.proxy(trio.first, **trio.settings())
    confirmed(proxy)
    for one in trio.sentinels:
        one.signal(signal.SIGSTOP)
    proxy.signal(signal.SIGSTOP)
    time.sleep(1.5) # the lease; longer does no harm
    proxy.signal(signal.SIGCONT)
    assert proxy.status()["state"] == "unconfirmed"
    for one in trio.sentinels:
        one.signal(signal.SIGCONT)
    confirmed(proxy)


@pytest.mark.long
def test_sentinels_that_moved_are_asked_where_they_are(bed, trio):
    """One is configured, and tells of the others. After both moved, it alone would be no majority."""
    proxy = bed.proxy(trio.first, **{**trio.settings(), "sentinel__addresses": [trio.sentinels[0].address]})

    def three_answer(status):
        return status["state"] == "live" and status["mandate"]["answered"] == 3
    proxy.wait_status(three_answer, "the others are not asked", 60)
    for one in trio.sentinels[1:]:
        one.move()
        trio.wait_agreed(trio.first)
        proxy.wait_status(
            lambda status, one=one: any(known["address"] == one.address and known["age_s"] >= 0
                                        for known in status["mandate"]["sentinels"]),
            "it is not asked where it is", 90)
    proxy.wait_status(three_answer, "not confirmed", 60)
    addresses = sorted(one.address for one in trio.sentinels)
    proxy.wait_status(
        lambda status: sorted(known["address"] for known in status["mandate"]["sentinels"]) == addresses,
        "the former addresses are not forgotten", 120)


def sentinel_acl(password):
    with open(os.path.join(TOP, "deploy", "acl", "sentinel.acl"), encoding="utf-8") as stream:
        line = [line for line in stream.read().splitlines() if line.startswith("user")][0]
    return line.replace("change-me", password).split()[1:]


def logged_in(sentinel, user="keywake-proxy"):
    """The numbers of this user's connections."""
    return set(re.findall(rf"^id=(\d+) .* user={user} ".encode(), sentinel.command("CLIENT", "LIST"), re.M))


def test_the_acl_file_suffices_for_a_sentinel(bed, trio):
    for one in trio.sentinels:
        one.acl(*sentinel_acl("of-secret"))
    proxy = bed.proxy(trio.first, sentinel__username="keywake-proxy",
                      sentinel__password_file=bed.file("password", "of-secret\n"), **trio.settings())
    confirmed(proxy)
    assert proxy.wait_status(lambda status: status["mandate"]["hint"]["at"], "no hints")["mandate"]["hint"]["reason"] == ""
    trio.sentinels[0].acl("keywake-proxy", "-sentinel|master")
    found = proxy.wait_status(
        lambda status: any("NOPERM" in one["reason"] for one in status["mandate"]["sentinels"]),
        "the refusal is not told")
    assert any("+sentinel|master" in one["reason"] for one in found["mandate"]["sentinels"])


def test_a_failover_is_hinted_and_without_the_right_to_that_it_is_found_by_asking(bed, trio):
    for one in trio.sentinels:
        one.acl(*sentinel_acl("of-secret"))
        one.acl("without", "on", ">of-secret", "resetchannels", "-@all", "+sentinel|master", "+sentinel|sentinels",
                "+sentinel|myid")
    password = bed.file("password", "of-secret\n")
    proxies = [bed.proxy(trio.second, name=user, sentinel__username=user, sentinel__password_file=password,
                         **trio.settings()) for user in ("keywake-proxy", "without")]
    proxies[0].wait_status(lambda status: status["mandate"]["hint"]["at"], "no hints")
    refused = proxies[1].wait_status(lambda status: "NOPERM" in status["mandate"]["hint"]["reason"], "not refused")
    assert "+subscribe &+switch-master" in refused["mandate"]["hint"]["reason"]
    for one in trio.servers[2:]: # the second one is elected
        one.command("CONFIG", "SET", "replica-priority", 0)
    wait_for(lambda: all({"0", "100"} <= {dict(zip(words[::2], words[1::2]))["slave-priority"]
                                          for words in one.ask("REPLICAS", NAME)} for one in trio.sentinels),
             "the sentinels do not know the priorities", 60)
    trio.sentinels[0].ask("FAILOVER", NAME)
    assert trio.elected() is trio.second
    for proxy in proxies:
        confirmed(proxy)
    proxies[0].wait_status(lambda status: status["mandate"]["hint"]["heard"] > 0, "no hint is heard")
    assert proxies[1].status()["mandate"]["hint"]["heard"] == 0


def test_a_sentinel_that_is_not_in_a_closed_list_is_not_asked(bed, trio):
    """One is invented, as whoever can write to the primary can do it: the others believe it, and count it."""
    trio.first.command("PUBLISH", "__sentinel__:hello",
                       f"127.0.0.1,{free_port()},{'ab' * 20},0,{NAME},127.0.0.1,{trio.ports['first']},0")
    wait_for(lambda: all((one.master() or {}).get("num-other-sentinels") == "3" for one in trio.sentinels),
             "the sentinels do not believe it", 30)
    proxy = bed.proxy(trio.first, **trio.settings())
    mandate = confirmed(proxy)["mandate"]
    assert (mandate["voters"], mandate["answered"]) == (4, 3)
    assert sorted(known["address"] for known in mandate["sentinels"]) == sorted(one.address for one in trio.sentinels)
    opened = bed.proxy(trio.first, name="open", **{**trio.settings(), "sentinel__addresses": [trio.sentinels[0].address]})
    opened.wait_status(lambda status: len(status["mandate"]["sentinels"]) == 4, "the invented one is not asked")


def test_a_wrong_password_names_the_keys_of_the_sentinels(bed, trio):
    for one in trio.sentinels:
        one.acl(*sentinel_acl("of-secret"))
    proxy = bed.proxy(trio.first, sentinel__username="keywake-proxy",
                      sentinel__password_file=bed.file("password", "wrong\n"), **trio.settings())
    proxy.wait_status(lambda status: all("check sentinel.username" in one["reason"] and "redis.u" not in one["reason"]
                                         for one in status["mandate"]["sentinels"]), "the keys are not named")


def test_a_new_password_of_the_sentinels_is_taken_up_by_a_reload(bed, trio):
    for one in trio.sentinels:
        one.acl(*sentinel_acl("before"))
    proxy = bed.proxy(trio.first, sentinel__username="keywake-proxy",
                      sentinel__password_file=bed.file("password", "before\n"), **trio.settings())
    confirmed(proxy)
    bed.file("password", "after\n")
    for one in trio.sentinels:
        one.acl(*sentinel_acl("after"), "<before")
    proxy.ctl_ok("config", "reload")
    before = [logged_in(one) for one in trio.sentinels]
    assert all(before)
    for one in trio.sentinels:
        one.command("CLIENT", "KILL", "USER", "keywake-proxy")
    wait_for(lambda: all(logged_in(one) - then for one, then in zip(trio.sentinels, before)),
             "the new password is not used", 30)
    proxy.wait_status(lambda status: all(known["state"] == "up" for known in status["mandate"]["sentinels"]),
                      "they are not connected")
    confirmed(proxy)


def test_a_sentinel_that_does_not_tell_its_id_says_why_it_does_not_count(bed, trio):
    for one in trio.sentinels:
        one.acl(*sentinel_acl("of-secret"), "-sentinel|myid")
    proxy = bed.proxy(trio.first, sentinel__username="keywake-proxy",
                      sentinel__password_file=bed.file("password", "of-secret\n"), **trio.settings())
    proxy.wait_status(
        lambda status: status["mandate"]["state"] == "awaited"
        and all(one["term"] >= 0 and one["age_s"] >= 0 for one in status["mandate"]["sentinels"]),
        "their answers are not heard")
    for _ in range(20): # each answer to SENTINEL MASTER took it away
        assert all("+sentinel|myid" in one["reason"] for one in proxy.status()["mandate"]["sentinels"])


def test_sentinels_over_tls(bed):
    authority = Authority(bed.directory)
    trio = Trio(bed, replicas=1, authority=authority)
    cert, key = authority.pair("client")
    settings = {**trio.settings(), "sentinel__addresses": [one.tls_address for one in trio.sentinels],
                "sentinel__tls__ca": authority.ca}
    try:
        proxy = bed.proxy(trio.first, sentinel__tls__cert=cert, sentinel__tls__key=key, **settings)
        proxy.wait_status(lambda status: status["state"] == "live" and status["mandate"]["answered"] == 3,
                          "not all of them answer", 60)
        without = bed.proxy(trio.first, name="without", **settings)
        without.wait_status(
            lambda status: all("sentinel.tls.cert" in one["reason"] for one in status["mandate"]["sentinels"]),
            "the remedy is not told", 60)
        without.wait_state("unconfirmed")
        renew_the_sentinels(bed, trio, authority)
        proxy.wait_status(
            lambda status: any("not signed by a CA of sentinel.tls.ca" in one["reason"]
                               for one in status["mandate"]["sentinels"]), "it believes the new certificates", 60)
        shutil.copy(Authority(bed.directory, "second").ca, authority.ca)
        proxy.ctl_ok("config", "reload")
        confirmed(proxy)
    finally:
        trio.close()


def renew_the_sentinels(bed, trio, authority):
    """They show certificates of another CA from now on, and still believe those of the first one."""
    believed = shutil.copy(authority.ca, authority.ca + ".first")
    second = Authority(bed.directory, "second")
    for one, host in zip(trio.sentinels, SENTINELS_AT):
        one.stop()
        for made, place in zip(second.issue(one.name, san=f"IP:{host}"), authority.pair(one.name)):
            shutil.copy(made, place)
        with open(one.path, encoding="ascii") as stream:
            text = stream.read()
        with open(one.path, "w", encoding="ascii") as stream:
            stream.write(re.sub(r"(?m)^tls-ca-cert-file .*$", f'tls-ca-cert-file "{believed}"', text))
        one.start()


@pytest.mark.long
def test_the_primary_is_followed_over_tls_wherever_it_is(bed):
    """redis.address is rediss:// alone: the sentinels name ports of TLS."""
    authority = Authority(bed.directory)
    for index, host in enumerate(SENTINELS_AT):
        authority.issue(f"sentinel{index + 1}", san=f"IP:{host},IP:127.0.0.1")
    first = bed.server("first", tls=True, protected_mode="no", tls_replication="yes")
    second = bed.server("second", tls=True, protected_mode="no", tls_replication="yes",
                        replicaof=("127.0.0.1", str(first.tls_port)))
    data.fill_plain(first, KEYS)
    sentinels = [Sentinel(bed.directory, index, first.tls_port, authority=authority,
                          more=["tls-replication yes"]).start() for index in range(VOTERS)]
    bed.servers += sentinels
    wait_for(lambda: all((one.master() or {}).get("num-other-sentinels") == "2"
                         and (one.master() or {}).get("num-slaves") == "1" for one in sentinels),
             lambda: f"the sentinels do not agree: {[one.master() for one in sentinels]}", 60)
    for one in sentinels:
        hurry(one)
    certificates = authority.settings()
    proxy = bed.proxy(first, redis__address="rediss://", authority__by="sentinel", sentinel__name=NAME,
                      sentinel__addresses=[one.tls_address for one in sentinels],
                      sentinel__tls__ca=authority.ca, sentinel__tls__cert=certificates["redis.tls.cert"],
                      sentinel__tls__key=certificates["redis.tls.key"])
    assert confirmed(proxy)["keys"] == KEYS
    agent = bed.agent(proxy, bed.server("local"))
    agent.wait_warm()
    wait_for(lambda: patiently(lambda: sentinels[0].ask("FAILOVER", NAME) or True), "it refuses to fail over", 30)
    proxy.wait_status(lambda status: status["state"] == "live" and status["mandate"]["term"] > 0,
                      "it does not follow the new primary", 60)
    patiently(lambda: second.command("SET", "later", 1))
    agent.wait_warm()
    assert_equal_now(second, agent.replica)
    assert f"the primary is rediss://127.0.0.1:{second.tls_port}" in proxy.output()


def test_an_unknown_name_is_told(bed, trio):
    proxy = bed.proxy(trio.first, **{**trio.settings(), "sentinel__name": "other"})
    proxy.wait_status(
        lambda status: all("sentinel.name" in one["reason"] for one in status["mandate"]["sentinels"]),
        "the refusal is not told")
    assert proxy.wait_state("unconfirmed")["keys"] == 0


def test_a_proxy_that_is_not_told_where_the_primary_is_says_why(bed, trio):
    proxy = bed.proxy(trio.first, redis__address="redis://", **{**trio.settings(), "sentinel__name": "other"})
    proxy.wait_state("connecting", reason="0 of 3 sentinels answered")


def test_an_operator_gives_the_term(bed):
    primary = bed.server("primary")
    data.fill_plain(primary, KEYS)
    proxy = bed.proxy(primary, authority__by="operator")
    status = proxy.wait_state("unconfirmed", reason="authority.term")
    assert status["keys"] == 0
    proxy.ctl_ok("config", "set", "authority.term", 1)
    assert confirmed(proxy)["mandate"]["term"] == 1
    proxy.ctl_ok("config", "set", "authority.term", 0)
    assert proxy.status()["state"] == "unconfirmed"
    primary.command("SET", "meanwhile", 1)
    proxy.wait_status(lambda status: status["dirty_keys"] > 0, "its events are not heard")
    proxy.ctl_ok("config", "set", "authority.term", 2)
    proxy.wait_status(lambda status: status["state"] == "live" and status["keys"] == KEYS + 1,
                      "what changed does not come")
    assert proxy.status()["reconciles"] == 0


def test_keys_without_effect_are_refused(bed):
    primary = bed.server("primary")
    for settings, words in [({"sentinel__name": NAME}, "authority.by=sentinel"),
                            ({"authority__by": "sentinel"}, "sentinel.name is empty"),
                            ({"authority__by": "sentinel", "sentinel__name": NAME}, "sentinel.addresses"),
                            ({"redis__address": "redis://"}, "authority.by=sentinel"),
                            ({"sentinel__tls__ca": "/etc/ca.pem"}, "rediss://"),
                            ({"authority__term": 1}, "authority.by=operator")]:
        proxy = bed.proxy(primary, name=f"proxy-{len(bed.daemons)}", start=False, **settings)
        proxy.start(wait=False)
        assert proxy.wait_exit() != 0
        assert words in proxy.output()
