#include "feed/watch/takers.h"

#include "redis/server.h"

#include <string.h>

static const char *const names[KW_TAKERS] = {"flushall", "flushdb", "swapdb"};

void kw_takers_init(struct kw_takers *takers)
{
	takers->passing.offset = UINT64_MAX;
}

uint64_t kw_takers_untold(const struct kw_takers *takers, enum kw_taker taker)
{
	uint64_t seen = takers->seen[taker], told = takers->told[taker];

	return seen >= told ? seen - told : seen;
}

void kw_takers_see(struct kw_takers *takers, struct kw_slice commandstats, uint64_t now_us)
{
	for (int i = 0; i < KW_TAKERS; i++) {
		takers->seen[i] = kw_info_done(commandstats, names[i]);
		if (takers->seen[i] < takers->told[i])
			takers->told[i] = 0;
	}
	takers->seen_us = now_us;
	if (kw_takers_untold(takers, KW_TAKER_FLUSHALL) == 0 &&
		kw_takers_untold(takers, KW_TAKER_FLUSHDB) == 0)
		takers->even_us = now_us;
}

bool kw_takers_greet(struct kw_takers *takers, struct kw_slice commandstats, uint64_t now_us)
{
	bool known = takers->known, taken = false;

	takers->passing.offset = UINT64_MAX; /* of another connection, perhaps of another server */
	kw_takers_see(takers, commandstats, now_us);
	for (int i = 0; i < KW_TAKERS; i++) {
		taken |= kw_takers_untold(takers, (enum kw_taker)i) > 0;
		takers->told[i] = takers->seen[i];
	}
	takers->known = true;
	return known && taken;
}

static void begin_passing(struct kw_takers *takers, uint64_t offset)
{
	struct kw_takers_passing *passing = &takers->passing;

	if (passing->offset != UINT64_MAX || offset == UINT64_MAX)
		return;
	passing->offset = offset;
	memcpy(passing->seen, takers->seen, sizeof passing->seen);
	passing->seen_us = takers->seen_us;
}

void kw_takers_look(
	struct kw_takers *takers, struct kw_slice commandstats, uint64_t offset, uint64_t now_us)
{
	begin_passing(takers, offset);
	kw_takers_see(takers, commandstats, now_us);
	takers->told[KW_TAKER_SWAPDB] = takers->seen[KW_TAKER_SWAPDB];
	takers->known = true;
}

void kw_takers_told(struct kw_takers *takers)
{
	takers->told[KW_TAKER_FLUSHALL] = takers->seen[KW_TAKER_FLUSHALL];
	takers->told[KW_TAKER_FLUSHDB] = takers->seen[KW_TAKER_FLUSHDB];
	takers->even_us = takers->seen_us;
}

void kw_takers_told_up_to(struct kw_takers *takers, uint64_t offset)
{
	struct kw_takers_passing *passing = &takers->passing;

	if (passing->offset == UINT64_MAX || offset < passing->offset)
		return;
	takers->told[KW_TAKER_FLUSHALL] = passing->seen[KW_TAKER_FLUSHALL];
	takers->told[KW_TAKER_FLUSHDB] = passing->seen[KW_TAKER_FLUSHDB];
	takers->even_us = passing->seen_us;
	passing->offset = UINT64_MAX;
}

uint64_t kw_takers_calls(struct kw_slice commandstats)
{
	uint64_t calls = 0;

	for (int i = 0; i < KW_TAKERS; i++)
		calls += kw_info_calls(commandstats, names[i]);
	return calls;
}
