#include "feed/notify/refetch.h"

#include <assert.h>

#define SILENT_KEYS_PER_SECOND 1000

/* Known ones are due already: each of them is told once. */
static void found(void *arg, uint32_t database, struct kw_slice name)
{
	struct kw_refetch *refetch = arg;
	const struct kw_dirty_key key = {name, database, KW_DIRTY_TTL};

	if (!kw_scope_has(refetch->scope, database, name) ||
		kw_silent_knows(refetch->silent, database, name, KW_SILENT_VECTOR))
		return;
	refetch->keys++;
	refetch->dirty(refetch->arg, &key, 1);
}

void kw_refetch_init(struct kw_refetch *refetch, struct kw_data_connection *data, uint64_t now_us)
{
	assert(refetch->silent && refetch->scope && refetch->dirty);
	kw_bucket_init(&refetch->pace, SILENT_KEYS_PER_SECOND, now_us);
	refetch->search = (struct kw_search){.data = data, .found = found, .arg = refetch};
	kw_search_init(&refetch->search, now_us);
}

void kw_refetch_close(struct kw_refetch *refetch)
{
	kw_search_close(&refetch->search);
}

void kw_refetch_stir(struct kw_refetch *refetch, enum kw_silent_kind kind)
{
	kw_silent_stir(refetch->silent, kind);
	if (kind == KW_SILENT_VECTOR)
		kw_search_want(&refetch->search);
}

void kw_refetch_stop(struct kw_refetch *refetch)
{
	kw_search_abandon(&refetch->search);
}

void kw_refetch_mark(struct kw_refetch *refetch)
{
	kw_silent_mark(refetch->silent);
	refetch->marked = refetch->search.wanted;
}

bool kw_refetch_passed(const struct kw_refetch *refetch)
{
	return kw_silent_passed(refetch->silent) &&
	       kw_search_done(&refetch->search, refetch->marked);
}

uint64_t kw_refetch_due(const struct kw_refetch *refetch)
{
	return kw_silent_due(refetch->silent) + (refetch->search.wanted - refetch->search.ended);
}

void kw_refetch_turn(struct kw_refetch *refetch, uint64_t now_us)
{
	struct kw_dirty_key key = {.flags = KW_DIRTY_TTL};

	while (kw_silent_due(refetch->silent) > 0 && kw_bucket_allows(&refetch->pace, now_us) &&
		kw_silent_next(refetch->silent, &key.database, &key.name)) {
		kw_bucket_spend(&refetch->pace, 1);
		refetch->keys++;
		refetch->dirty(refetch->arg, &key, 1);
	}
	kw_search_turn(&refetch->search, now_us);
}

uint64_t kw_refetch_ready_us(const struct kw_refetch *refetch, uint64_t now_us)
{
	uint64_t next_us = kw_search_ready_us(&refetch->search, now_us);
	uint64_t pace_us = UINT64_MAX;

	if (kw_silent_due(refetch->silent) > 0)
		pace_us = kw_bucket_ready_us(&refetch->pace, now_us);
	return next_us < pace_us ? next_us : pace_us;
}
