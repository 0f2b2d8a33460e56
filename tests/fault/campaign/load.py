"""The writes of a round: the mix of the integration tests, and what else a server knows."""
import redis

from lib.data import has_field_ttl
from lib.workload import Mix, Workload

DATABASES = (0, 3, 9, 10, 15) # those of the mix; the witness has one of its own
WITNESS_DATABASE = 7
LARGE = 600_000


class FaultMix(Mix):
    """Also large values, TTLs of fields and of minutes, and other ways for a key to go."""

    def __init__(self, seed, server, **options):
        self.field_ttls = has_field_ttl(server)
        super().__init__(seed, databases=DATABASES, **options)

    def ttl_ms(self):
        return self.random.randrange(60_000, 900_000) if self.random.random() < 0.2 else super().ttl_ms()

    def value(self):
        if self.random.random() < 0.0005:
            return self.random.randbytes(self.random.randrange(LARGE))
        return super().value()

    def do_field_ttl(self):
        key = self.key("h")
        if not self.field_ttls:
            return ("HSET", key, "plain", self.value())
        field = self.pick("a", "b", "c", f"f{self.random.randrange(200)}")
        return self.pick(("HPEXPIRE", key, self.ttl_ms(), "FIELDS", 1, field),
                         ("HPERSIST", key, "FIELDS", 1, field), ("HSET", key, field, self.value()))

    def do_going(self):
        """Keys that go: most of the ways."""
        key = self.any_key()
        return self.pick(
            ("EXPIRE", key, -1), ("EXPIREAT", key, 1), ("GETDEL", self.key("s")),
            ("SPOP", self.key("t"), 1000), ("LPOP", self.key("l"), 1000),
            ("ZREMRANGEBYSCORE", self.key("z"), "-inf", "+inf"), ("LTRIM", self.key("l"), 1, 0),
            ("SET", self.key("s"), 1, "PX", 1), ("GETEX", self.key("s"), "PX", 1),
            ("SINTERSTORE", self.key("t"), "nothing", self.key("t")),
            ("SORT", "nothing", "STORE", self.key("l")))

    def batch(self):
        """Some of them are sums of writes on one key, as counters and queues are."""
        database, transaction, commands = super().batch()
        if self.random.random() < 0.1:
            commands += [("INCR", "n:hot")] * 20
        return database, transaction, commands


class FaultLoad(Workload):
    """Goes on through everything that faults make a server answer."""

    def __init__(self, front, server, seed, pace, **options):
        super().__init__(front, seed, pace)
        self.mix = FaultMix(seed, server, **options)

    def send(self, client, transaction, commands):
        try:
            super().send(client, transaction, commands)
        except redis.exceptions.RedisError as error:
            self.count_error(error)
        except AttributeError as error: # redis-py: of a reset unix socket it wants to say the host
            if not isinstance(error.__context__, ConnectionError):
                raise
