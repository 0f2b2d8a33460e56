"""What the comparison of the tests forgives, and nothing more."""
from lib.compare import digest, only_hides_expired, wait_equal
from lib.process import wait_for


def test_a_key_that_a_replica_hides_is_forgiven_and_no_other(bed):
    one, other = bed.server("one"), bed.server("other")
    other.command("DEBUG", "SET-ACTIVE-EXPIRE", "0")
    for server in (one, other):
        server.command("SET", "stays", "value")
    other.command("SET", "goes", "value", "PX", "500")
    other.command("REPLICAOF", "127.0.0.1", "1") # nobody is there: nobody says that the key is over
    wait_for(lambda: other.command("EXISTS", "goes") == 0, "the key does not end")
    assert digest(one) != digest(other) and only_hides_expired(one, other)
    wait_equal(one, other)
    one.command("SET", "more", "value")
    assert not only_hides_expired(one, other)
