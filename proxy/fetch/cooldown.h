/*
 * Cooldown of large keys: after a value of S bytes was fetched, it is not fetched again for
 * S / 50 bytes-per-µs (64 MiB: 1.3 s, 1 MiB: 20 ms), nor until its DUMPs take no more than the
 * share of the primary's time. The server does nothing else during a DUMP: one of 60 ms is a stall
 * of 60 ms for everyone, whether the primary is saturated or not. Pure.
 *
 * A table of fixed size: 4 places for each of 1024 sets; the shortest cooldown makes way. A key
 * that is forgotten, or shares its hash with another, is fetched too early or too late once, which
 * does no harm. The caller owns the struct; zeroed memory is empty.
 */
#ifndef KW_PROXY_FETCH_COOLDOWN_H
#define KW_PROXY_FETCH_COOLDOWN_H

#include <stdint.h>

#define KW_COOLDOWN_FROM_BYTES ((uint64_t)16 << 10) /* smaller values need none */
#define KW_COOLDOWN_BYTES_PER_US 50
/* No DUMP is slower than that. What took longer has waited: for other clients, or for a processor.
 */
#define KW_COOLDOWN_SLOWEST_BYTES_PER_US 10
#define KW_COOLDOWN_SETS 1024
#define KW_COOLDOWN_WAYS 4

struct kw_cooldown {
	struct {
		uint64_t hash;
		uint64_t until_us;
	} places[KW_COOLDOWN_SETS][KW_COOLDOWN_WAYS];
	uint64_t longest_us; /* no cooldown ends later: the common case asks no more than this */
};

/* Longer than this no key waits for its DUMP's time, however long that seemed. */
#define KW_COOLDOWN_MOST_US UINT64_C(30000000)

/*
 * How long to rest after a value of so many bytes, whose DUMP took so long. share: 0 to 1. The time
 * is measured by the clock, so it holds every wait. A DUMP of 20 KB that waits for 0.8 s would at a
 * share of 0.03 rest for 25 s, and no agent would be warm meanwhile.
 */
uint64_t kw_cooldown_rest_us(uint64_t bytes, uint64_t dump_us, double share);

/* A value of so many bytes was fetched: it rests so long. */
void kw_cooldown_note(struct kw_cooldown *cooldown, uint64_t hash, uint64_t bytes, uint64_t rest_us,
	uint64_t now_us);

/* Until when the key must not be fetched; 0: it may be. */
uint64_t kw_cooldown_until(const struct kw_cooldown *cooldown, uint64_t hash, uint64_t now_us);

#endif
