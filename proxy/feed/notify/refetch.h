/*
 * Fetching again what silent commands might have changed: the known keys of their kinds (silent.h),
 * and vector sets that the table does not know yet (search.h). Both have a pace, so that such
 * commands in a row do not become a load of their own.
 *
 *   stir ──▶ known keys, 1000 a second ──────────────────▶ dirty
 *      └───▶ vector sets: SCAN TYPE, those not known ────▶ dirty
 *
 * The owner provides the struct. Loop thread only.
 */
#ifndef KW_PROXY_FEED_NOTIFY_REFETCH_H
#define KW_PROXY_FEED_NOTIFY_REFETCH_H

#include "base/bucket.h"
#include "feed/notify/search.h"
#include "feed/watch/silent.h"
#include "fetch/data.h"
#include "keys/dirty.h"
#include "keys/scope.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_refetch {
	struct kw_silent *silent;
	const struct kw_scope *scope;
	void (*dirty)(void *arg, const struct kw_dirty_key *keys, size_t count);
	void *arg;

	struct kw_bucket pace; /* of known keys */
	struct kw_search search;
	uint64_t marked; /* the search that was wanted last at the mark */
	uint64_t keys;   /* told dirty, ever */
};

/* After silent, scope, dirty and arg were set; the rest is zeroed. data outlives it. */
void kw_refetch_init(struct kw_refetch *refetch, struct kw_data_connection *data, uint64_t now_us);
void kw_refetch_close(struct kw_refetch *refetch);

/* Commands of this kind might have run. */
void kw_refetch_stir(struct kw_refetch *refetch, enum kw_silent_kind kind);

/* The connection is gone: the source reads everything again. */
void kw_refetch_stop(struct kw_refetch *refetch);

/*
 * mark remembers all that was stirred until now (and forgets the last mark). passed: all of it was
 * told dirty.
 */
void kw_refetch_mark(struct kw_refetch *refetch);
bool kw_refetch_passed(const struct kw_refetch *refetch);

/* Keys and searches that were stirred, and are still to be told. */
uint64_t kw_refetch_due(const struct kw_refetch *refetch);

/* At the end of a loop turn, while the feed runs. */
void kw_refetch_turn(struct kw_refetch *refetch, uint64_t now_us);

/* When it needs a turn of its own; UINT64_MAX: never. */
uint64_t kw_refetch_ready_us(const struct kw_refetch *refetch, uint64_t now_us);

#endif
