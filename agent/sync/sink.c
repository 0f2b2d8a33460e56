/* What the reader finds: records go to the local server, passes to the progress. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>

#define RESERVE_KEYS_MAX (UINT64_C(1) << 24) /* believed of what the superblock says */

uint64_t kw_sync_keys_expected(const struct kw_sync *sync)
{
	uint64_t keys = sync->follow->superblock.keys;

	return keys < RESERVE_KEYS_MAX ? keys : RESERVE_KEYS_MAX;
}

static void on_snapshot_begin(void *arg, uint64_t epoch, uint64_t version)
{
	struct kw_sync *sync = arg;

	assert(kw_sync_phase(sync) == KW_SYNC_SNAPSHOT && epoch != 0);
	sync->epoch = epoch;
	sync->passed = version;
	kw_progress_reset(&sync->progress);
	kw_sync_load_begins(sync, kw_clock_us());
	/* Before what the local data lack is forgiven. */
	kw_sync_begin_differences(sync);
	kw_sync_rollback_snapshot(sync);
	kw_pair_begin(sync->pair);
	kw_debt_forgive(&sync->debt);
	kw_quarantine_clear(sync->quarantine);
	kw_keyset_close(&sync->keyset);
	if (sync->purpose == KW_SYNC_RECONCILE && sync->manner == KW_SYNC_NOTES_KEYS)
		kw_keyset_reserve(&sync->keyset, kw_sync_keys_expected(sync));
}

/* Would it get the name of our own cursor? */
static bool is_in_the_way(struct kw_sync *sync, const struct kw_record_view *record)
{
	const struct kw_naming *names = &sync->filter->names;

	if (kw_naming_local_database(names, record->database) != 0 ||
		record->kind == KW_RECORD_FLUSH)
		return false;
	return kw_local_owns_key(
		sync->local, 0, kw_naming_local_key(names, record->key, &sync->name));
}

/* Is it one of those that are followed? */
static bool is_in_scope(struct kw_sync *sync, const struct kw_record_view *record)
{
	if (!kw_filter_has_database(sync->filter, record->database))
		return false;
	if (record->kind != KW_RECORD_FLUSH && !kw_filter_has_key(sync->filter, record->key))
		return false;
	return !is_in_the_way(sync, record);
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	struct kw_sync *sync = arg;
	size_t first = 0;

	assert(kw_sync_phase(sync) >= KW_SYNC_SNAPSHOT);
	assert(count <= KW_READER_BATCH);
	/* Those in scope go on in place, without the ones between them. */
	for (size_t i = 0; i < count; i++) {
		if (is_in_scope(sync, &records[i]))
			continue;
		if (i > first)
			kw_sync_take(sync, records + first, i - first);
		sync->filtered++;
		first = i + 1;
	}
	if (count > first)
		kw_sync_take(sync, records + first, count - first);
}

static uint64_t on_room(void *arg)
{
	const struct kw_sync *sync = arg;

	return sync->intake == KW_SYNC_INTAKE_OPEN ? kw_pair_room(sync->pair) : 0;
}

static void on_superblock(void *arg, const struct kw_superblock *read)
{
	struct kw_sync *sync = arg;
	const struct kw_superblock *superblock = &sync->follow->superblock;

	(void)read; /* follow knows the newest, which can be newer */
	/* Before the first record that this superblock covers. */
	kw_sync_judge_table(sync);
	if (!kw_sync_may_follow(sync))
		sync->due(sync->arg);
	kw_sync_rollback_saw(sync);
	/* Equality a moment ago no longer counts once keys are known to be missing. */
	if (superblock->source_state != KW_SOURCE_LIVE || !superblock->complete)
		kw_progress_doubt(&sync->progress, kw_clock_us());
	if (superblock->version == sync->head_version)
		return;
	sync->head_version = superblock->version;
	if (sync->head_since_us == 0)
		sync->head_since_us = kw_clock_us();
	sync->due(sync->arg);
}

/*
 * When the change was published is told by the proxy's clock. Ours may be behind that; if it is
 * ahead, that cannot be told from a late look, and counts as one.
 */
static void time_stages(const struct kw_sync *sync, struct kw_pass *pass)
{
	const struct kw_follow *follow = sync->follow;
	uint64_t wall_us = kw_wall_us(), now_us = kw_clock_us();
	int64_t age_us = (int64_t)(wall_us - pass->published_us) + follow->skew_us;
	uint64_t whole_us = age_us > 0 ? (uint64_t)age_us : 0;
	uint64_t read_us = now_us - pass->begun_us;

	pass->read_us = read_us < whole_us ? read_us : whole_us;
	pass->look_us = whole_us - pass->read_us;
	pass->handed_us = wall_us;
}

/* What this pass says about the local data, once all that was handed on is applied. */
static struct kw_pass describe(const struct kw_sync *sync, const struct kw_reader_pass *pass)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;
	bool same = superblock->epoch == pass->epoch && superblock->version == pass->version;
	bool complete = same && superblock->complete;
	bool equal = !pass->vanished && complete && superblock->source_state == KW_SOURCE_LIVE;
	uint64_t begun_us = sync->follow->begun_us;
	/* Records of the first pass after a start were published at any time before. */
	bool timed = pass->moved && same && begun_us != sync->started_us;

	return (struct kw_pass){
		.position = kw_pair_progress(sync->pair)->taken,
		.version = pass->version,
		.consistent = pass->consistent,
		.begun_us = begun_us,
		.equal_us = equal ? begun_us : 0,
		.fresh_us = complete ? superblock->fresh_us : 0,
		.epoch = pass->epoch,
		.ticket = complete ? superblock->ticket : 0,
		.published_us = timed ? superblock->published_us : 0,
	};
}

static void take_pass(struct kw_sync *sync, const struct kw_reader_pass *pass)
{
	struct kw_pass handed = describe(sync, pass);

	if (handed.published_us)
		time_stages(sync, &handed);
	assert(kw_sync_phase(sync) >= KW_SYNC_SNAPSHOT);
	assert(pass->snapshot == (kw_sync_phase(sync) == KW_SYNC_SNAPSHOT));
	if (pass->snapshot && !kw_sync_load_ends(sync, pass->vanished))
		return;
	sync->epoch = pass->epoch;
	if (kw_token_draw(&sync->tokens, &sync->follow->superblock, sync->follow->begun_us)) {
		sync->due(sync->arg);
		kw_follow_hurry(sync->follow);
	}
	if (sync->follow->superblock.ticket != 0 && kw_tokens_wait(&sync->tokens))
		kw_follow_want_superblock(sync->follow);
	kw_reread_verified(&sync->reread);
	kw_progress_handed(&sync->progress, &handed);
	if (!pass->vanished) {
		assert(pass->epoch != 0);
		sync->position = (struct kw_cursor){pass->epoch, pass->consistent};
		sync->passed = pass->consistent;
	}
	kw_sync_rollback_applied(sync, handed.equal_us > 0);
	if (!pass->snapshot)
		return;
	kw_pair_end(sync->pair);
	if (sync->purpose != KW_SYNC_RECONCILE)
		kw_sync_rollback_end(sync);
	kw_sync_enter(sync, sync->purpose == KW_SYNC_RECONCILE ? KW_SYNC_SETTLE : KW_SYNC_TAIL,
		"the snapshot was read");
}

static void on_pass_done(void *arg, const struct kw_reader_pass *pass)
{
	struct kw_sync *sync = arg;

	take_pass(sync, pass);
	if (pass->version == sync->head_version)
		sync->head_since_us = 0;
	/* The next tick takes note of an idle pass: nothing waits for it. */
	if (pass->moved || pass->snapshot)
		sync->due(sync->arg);
	else
		kw_sync_acknowledged(sync);
}

static void on_look_done(void *arg, bool found)
{
	struct kw_sync *sync = arg;

	if (found)
		sync->due(sync->arg);
}

static void on_lapsed(void *arg, const char *why)
{
	struct kw_sync *sync = arg;

	kw_sync_lapse(sync, why);
	sync->due(sync->arg);
}

static void on_failed(void *arg, const struct kw_error *error)
{
	struct kw_sync *sync = arg;

	sync->due(sync->arg);
	if (error->code != KW_E_CORRUPT)
		return;
	kw_reread_failed(&sync->reread, error->text, kw_clock_us());
	if (!kw_reread_is_damage(&sync->reread))
		return;
	kw_log_error("sync", "the proxy's table does not verify, %u times in a row: %s",
		sync->reread.backoff.failures, error->text);
	if (sync->reread.backoff.failures == KW_REREAD_MAX)
		kw_sync_restart(sync, "the table does not verify");
}

struct kw_reader_sink kw_sync_sink(struct kw_sync *sync)
{
	return (struct kw_reader_sink){
		.snapshot_begin = on_snapshot_begin,
		.records = on_records,
		.room = on_room,
		.superblock = on_superblock,
		.pass_done = on_pass_done,
		.look_done = on_look_done,
		.lapsed = on_lapsed,
		.failed = on_failed,
		.arg = sync,
	};
}
