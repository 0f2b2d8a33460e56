/*
 * A snapshot and the digest index (index/digests.h): which records are handed on, which local keys
 * may stay, and when no local key needs to be looked at.
 *
 * kw_sync_restart ends in doubt. kw_sync_lapse alone does not: a new cause for a snapshot is a
 * cause to doubt until somebody has shown that it leaves the local data as they are.
 */
#include "internal.h"

#include "base/log.h"

#include <assert.h>
#include <inttypes.h>

/* ---- the snapshot begins ---- */

/*
 * Is the local server known to hold what the index says? The snapshot forgives what these say, so
 * it must bring all if one of them says something.
 */
static bool may_compare(struct kw_sync *sync)
{
	const struct kw_debt *debt = &sync->debt;

	return sync->audited && debt->evicted.count == 0 && debt->foreign.count == 0 &&
	       debt->doubted == 0 && kw_pair_progress(sync->pair)->owed == 0;
}

/* So many of eight local keys have an entry at least. Below that a load is less work. */
#define KNOWN_OF_EIGHT 7

bool kw_sync_may_merge(struct kw_sync *sync)
{
	return sync->data != KW_SYNC_DATA_FOREIGN &&
	       sync->authority.relation != KW_AUTHORITY_FOREIGN && may_compare(sync) &&
	       kw_digests_is_believed(&sync->index) &&
	       sync->index.keys >= sync->local->facts.keys / 8 * KNOWN_OF_EIGHT;
}

void kw_sync_begin_differences(struct kw_sync *sync)
{
	bool whole = kw_digests_state(&sync->index) == KW_DIGESTS_SOUND;
	uint64_t keys = sync->index.keys;
	bool compares;

	sync->swept = 0;
	sync->manner = KW_SYNC_NOTES_KEYS;
	if (!kw_digests_is_on(&sync->index))
		return;
	sync->manner = KW_SYNC_FILLS_INDEX;
	compares = sync->purpose == KW_SYNC_RECONCILE && !kw_pair_replaces(sync->pair) &&
		   may_compare(sync);
	if (!kw_digests_begin(&sync->index, compares))
		return;
	sync->manner = whole ? KW_SYNC_COMPARES_ALL : KW_SYNC_COMPARES_SOME;
	kw_log_info(
		"sync", "the snapshot is compared with %" PRIu64 " keys that were applied", keys);
}

/* ---- records ---- */

static void hand_on(struct kw_sync *sync, const struct kw_record_view *records, size_t count)
{
	if (sync->handed)
		sync->handed(sync->handed_arg, records, count);
	kw_pair_records(sync->pair, records, count);
}

/* The runs of those that differ. */
static void hand_on_differing(
	struct kw_sync *sync, const struct kw_record_view *records, size_t count)
{
	uint64_t differing = kw_digests_compare(&sync->index, records, count);

	while (differing) {
		size_t first = (size_t)__builtin_ctzll(differing);
		uint64_t rest = ~(differing >> first);
		size_t run = rest ? (size_t)__builtin_ctzll(rest) : KW_RECORD_BATCH_MAX;

		hand_on(sync, records + first, run);
		differing &= ~(kw_batch_bits(run) << first);
	}
}

/* Their keys stay when the local server is pruned. Deletes come only after the snapshot. */
static void keep_keys(struct kw_sync *sync, const struct kw_record_view *records, size_t count)
{
	uint64_t puts = 0;

	for (size_t i = 0; i < count; i++)
		puts |= (uint64_t)(records[i].kind == KW_RECORD_PUT) << i;
	kw_keyset_add_records(&sync->keyset, records, puts);
}

static bool is_compared(const struct kw_sync *sync)
{
	return kw_sync_phase(sync) == KW_SYNC_SNAPSHOT &&
	       (sync->manner == KW_SYNC_COMPARES_SOME || sync->manner == KW_SYNC_COMPARES_ALL);
}

/* The index is told first: a record that is refused at once is disbelieved after that. */
void kw_sync_take(struct kw_sync *sync, const struct kw_record_view *records, size_t count)
{
	kw_sync_rollback_take(sync, records, count);
	if (is_compared(sync)) {
		hand_on_differing(sync, records, count);
		return;
	}
	/* Also after the snapshot: if it lost a segment, the tail brings the missing keys. */
	if (sync->purpose == KW_SYNC_RECONCILE && sync->manner == KW_SYNC_NOTES_KEYS)
		keep_keys(sync, records, count);
	kw_digests_note(&sync->index, records, count);
	hand_on(sync, records, count);
}

void kw_sync_mend_key(struct kw_sync *sync, const struct kw_record_view *record)
{
	kw_digests_note(&sync->index, record, 1);
	kw_pair_records(sync->pair, record, 1);
}

/* ---- what stays ---- */

bool kw_sync_keeps(void *arg, uint32_t database, struct kw_slice key)
{
	const struct kw_sync *sync = arg;

	if (sync->manner == KW_SYNC_NOTES_KEYS)
		return kw_keyset_has(&sync->keyset, kw_keyset_hash(database, key));
	/* An agent that ends in the midst of a prune can lose its entries: then all keys stay. */
	return kw_digests_state(&sync->index) == KW_DIGESTS_EMPTY ||
	       kw_digests_has(&sync->index, database, key);
}

uint64_t kw_sync_noted(const struct kw_sync *sync)
{
	return sync->manner == KW_SYNC_NOTES_KEYS ? sync->keyset.count : sync->index.keys;
}

void kw_sync_sweep(struct kw_sync *sync)
{
	if (sync->manner != KW_SYNC_NOTES_KEYS)
		sync->swept += kw_digests_sweep(&sync->index);
}

/*
 * Every local key was in the index when the snapshot began, and the snapshot has shown all of
 * these. So no local key is too many.
 */
static bool is_nothing_left_over(const struct kw_sync *sync)
{
	return sync->manner == KW_SYNC_COMPARES_ALL &&
	       kw_digests_state(&sync->index) == KW_DIGESTS_SOUND && sync->swept == 0;
}

/* Local keys beyond those of the index, by the server's counts. */
static uint64_t excess(const struct kw_sync *sync)
{
	const struct kw_local_facts *facts = &sync->local->facts;
	uint32_t last = KW_KEY_COUNTS_DATABASES - 1;
	uint64_t known[KW_KEY_COUNTS_DATABASES] = {0}, sum = 0;

	for (uint32_t i = 0; i < sync->index.database_count; i++)
		known[i < last ? i : last] += kw_digests_database_keys(&sync->index, i);
	for (uint32_t i = 0; i <= last; i++)
		if (facts->database_keys[i] > known[i])
			sum += facts->database_keys[i] - known[i];
	return sum;
}

enum kw_sync_leftover kw_sync_counts_tell(struct kw_sync *sync, uint64_t borne)
{
	if (sync->in.settle.question == 0)
		sync->in.settle.question = kw_local_next_look(sync->local);
	if (kw_local_looked(sync->local) < sync->in.settle.question) {
		kw_local_look(sync->local);
		return KW_SYNC_LEFTOVER_ASKED;
	}
	return excess(sync) <= borne ? KW_SYNC_LEFTOVER_NONE : KW_SYNC_LEFTOVER_POSSIBLE;
}

/* A server that holds more keys than the index was changed by others, whoever did not see it. */
enum kw_sync_leftover kw_sync_leftover(struct kw_sync *sync)
{
	return is_nothing_left_over(sync) ? kw_sync_counts_tell(sync, 0)
					  : KW_SYNC_LEFTOVER_POSSIBLE;
}

/* ---- what the local server says ---- */

void kw_sync_doubt_counts(struct kw_sync *sync, const struct kw_debt *before)
{
	uint64_t resets = sync->local->facts.resets;

	if (sync->debt.evicted.ever != before->evicted.ever)
		kw_digests_tell(&sync->index, KW_DIGESTS_EVICTED);
	if (sync->debt.foreign.ever != before->foreign.ever)
		kw_digests_tell(&sync->index, KW_DIGESTS_WRITTEN);
	if (resets != sync->resets)
		kw_digests_tell(&sync->index, KW_DIGESTS_RESET);
	sync->resets = resets;
}

void kw_sync_doubt_owed(struct kw_sync *sync)
{
	uint64_t owed = kw_pair_progress(sync->pair)->owed;

	if (owed > sync->owed)
		kw_digests_tell(&sync->index, KW_DIGESTS_OWED);
	sync->owed = owed;
}
