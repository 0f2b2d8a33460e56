#include "near.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

/* Looks come this often within coherence_ms, so that a late one or two do no harm; … */
#define LOOKS_WITHIN 4
/* … but no less often than an agent looks. */
#define PAUSE_MOST_US 1500

static bool near_holds(const void *owner, int state)
{
	const struct kw_near *near = owner;

	return (state == KW_NEAR_OFF) == !near->cache;
}

#define TO(state) KW_SM_TO(KW_NEAR_##state)
static const struct kw_sm_state states[] = {
	[KW_NEAR_OFF] = {"off", 0, KW_SM_INITIAL | KW_SM_FINAL},
	[KW_NEAR_WAITING] = {"waiting", TO(FOLLOWING), KW_SM_INITIAL},
	[KW_NEAR_FOLLOWING] = {"following", TO(WAITING)},
};

static const struct kw_sm_conf machine = {
	.where = "near values",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = near_holds,
};

static bool is(const struct kw_near *near, enum kw_near_state state)
{
	return near->sm.state == (int)state;
}

void kw_near_init(
	struct kw_near *near, struct kw_follow *follow, uint64_t bytes, uint32_t coherence_ms)
{
	uint64_t seed = kw_clock_us();

	*near = (struct kw_near){.follow = follow};
	kw_near_set_coherence(near, coherence_ms);
	if (bytes > 0) {
		/* Without it the seed is only hard to guess. */
		if (getrandom(&seed, sizeof seed, 0) != sizeof seed)
			kw_log_debug("gateway", "no random bytes for the near cache");
		if (bytes < KW_CACHE_BYTES_LEAST)
			bytes = KW_CACHE_BYTES_LEAST;
		near->cache = kw_cache_new(bytes, seed);
	}
	kw_sm_init(&near->sm, &machine, near, bytes > 0 ? KW_NEAR_WAITING : KW_NEAR_OFF);
}

void kw_near_close(struct kw_near *near)
{
	kw_cache_free(near->cache);
	near->cache = NULL;
}

void kw_near_set_coherence(struct kw_near *near, uint32_t coherence_ms)
{
	near->coherence_us = (uint64_t)coherence_ms * 1000;
}

uint32_t kw_near_pause_us(uint32_t coherence_ms)
{
	uint64_t pause_us = (uint64_t)coherence_ms * 1000 / LOOKS_WITHIN;

	return pause_us < PAUSE_MOST_US ? (uint32_t)pause_us : PAUSE_MOST_US;
}

/* Nothing is known of what changed from now on. */
static void drop_all(struct kw_near *near, const char *why)
{
	if (!is(near, KW_NEAR_FOLLOWING))
		return;
	kw_cache_clear(near->cache);
	near->taken = near->looked_us = 0;
	kw_sm_move(&near->sm, KW_NEAR_WAITING, why);
}

void kw_near_step(struct kw_near *near, uint64_t now_us)
{
	const struct kw_superblock *superblock = &near->follow->superblock;
	const struct kw_cursor head = {superblock->epoch, superblock->version};

	if (is(near, KW_NEAR_OFF) || !kw_follow_up(near->follow))
		return;
	if (is(near, KW_NEAR_WAITING)) {
		if (superblock->epoch == 0 || !kw_follow_idle(near->follow))
			return;
		kw_cache_clear(near->cache);
		near->taken = superblock->version;
		kw_sm_move(&near->sm, KW_NEAR_FOLLOWING, "");
		kw_follow_set_polling(near->follow, true);
		kw_follow_start(near->follow, &head);
	}
	if (!is(near, KW_NEAR_FOLLOWING)) /* the start can lapse at once */
		return;
	if (now_us >= near->looked_us + near->coherence_us / 2)
		kw_reader_want_superblock(near->follow->reader);
	kw_follow_step(near->follow, now_us);
}

void kw_near_link(struct kw_near *near)
{
	drop_all(near, "another connection");
}

void kw_near_superblock(struct kw_near *near, const struct kw_superblock *superblock)
{
	if (is(near, KW_NEAR_FOLLOWING))
		kw_cache_covered(near->cache, superblock->version);
}

void kw_near_records(struct kw_near *near, const struct kw_record_view *records, size_t count)
{
	if (is(near, KW_NEAR_FOLLOWING))
		kw_cache_records(near->cache, records, count);
}

void kw_near_pass_done(struct kw_near *near, const struct kw_reader_pass *pass)
{
	if (!is(near, KW_NEAR_FOLLOWING))
		return;
	/* What stood in a segment that vanished comes later, and in another order. */
	if (pass->vanished)
		kw_cache_clear(near->cache);
	near->taken = pass->consistent;
	near->looked_us = near->follow->begun_us;
}

void kw_near_lapsed(struct kw_near *near, const char *why)
{
	drop_all(near, why);
}

bool kw_near_counts(const struct kw_near *near, uint64_t now_us)
{
	return is(near, KW_NEAR_FOLLOWING) && near->looked_us > 0 &&
	       now_us <= near->looked_us + near->coherence_us &&
	       near->taken >= near->follow->superblock.version;
}
