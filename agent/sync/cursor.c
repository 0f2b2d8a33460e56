/* The cursor: is the one found still true, and when to write the next. */
#include "sync.h"

#include "base/log.h"

#include <stdio.h>
#include <string.h>

/* The run that wrote it goes on: its counts are those of then, if nothing happened. */
static const char *doubt_in_the_same_run(const struct kw_local_facts *facts)
{
	const struct kw_local_cursor *cursor = &facts->cursor;

	if (cursor->flushes != facts->flushes)
		return "data were flushed or swapped since it was written";
	if (cursor->bond == KW_BOND_LED && cursor->refused != facts->refused)
		return "the server refused commands of its link since it was written";
	return NULL;
}

/* The counts began anew with the server. What this run has done it did unseen. */
static const char *doubt_in_another_run(const struct kw_local_facts *facts)
{
	if (facts->flushes > 0)
		return "data were flushed or swapped since the server started";
	return NULL;
}

static bool is_of_this_run(const struct kw_local_facts *facts)
{
	return strcmp(facts->cursor.run_id, facts->identity.run_id) == 0;
}

static bool is_there(const struct kw_local_facts *facts)
{
	return facts->cursor_kind == KW_CURSOR_OURS && facts->cursor.version > 0;
}

/* Are they other data than it speaks of, or of other keys? */
static const char *doubt_of_data(const struct kw_sync *sync)
{
	const struct kw_local_facts *facts = &sync->local->facts;
	const struct kw_local_cursor *cursor = &facts->cursor;
	const char *doubt = NULL;
	struct kw_key_counts counts;

	if (cursor->quarantined > 0)
		doubt = "keys were in quarantine when it was written";
	else if (cursor->filter != kw_filter_hash(sync->filter))
		doubt = "it was written with other filters";
	else if (facts->keys == 0)
		doubt = "there are no keys";
	else
		doubt = is_of_this_run(facts) ? doubt_in_the_same_run(facts)
					      : doubt_in_another_run(facts);
	kw_key_counts_set(&counts, facts->database_keys);
	if (!doubt && kw_key_counts_shrunk(&cursor->key_counts, &counts) >= 0)
		doubt = "a database holds less than half of the keys it held when it was written";
	return doubt;
}

/*
 * The same data, but has the server thrown keys out of them? And what a run before this one did
 * between the cursor and its end nobody knows: it may have saved what it still held.
 */
static const char *doubt_of_eviction(const struct kw_local_facts *facts)
{
	if (is_of_this_run(facts))
		return facts->cursor.evicted != facts->evicted
			       ? "the server evicted keys since it was written"
			       : NULL;
	if (facts->evicted > 0)
		return "the server evicted keys since it started";
	if (kw_local_may_evict(facts))
		return "the server was started anew, and may have evicted keys before";
	return NULL;
}

bool kw_sync_cursor_stands(const struct kw_sync *sync)
{
	return is_there(&sync->local->facts) && !doubt_of_data(sync);
}

bool kw_sync_cursor_holds(const struct kw_sync *sync)
{
	const struct kw_local_facts *facts = &sync->local->facts;
	const char *doubt;

	if (!is_there(facts))
		return false;
	doubt = doubt_of_data(sync);
	if (!doubt)
		doubt = doubt_of_eviction(facts);
	if (doubt)
		kw_log_info("sync", "the local cursor is not used: %s", doubt);
	return !doubt;
}

static void on_saved(void *arg, const struct kw_failure *failure)
{
	struct kw_sync *sync = arg;

	sync->cursor_writing = false;
	if (!failure) {
		sync->cursor_error[0] = '\0';
		return;
	}
	if (!sync->cursor_error[0])
		kw_log_warn("sync", "%s", failure->text);
	snprintf(sync->cursor_error, sizeof sync->cursor_error, "%.255s", failure->text);
}

bool kw_sync_save(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_local *local = sync->local;
	const struct kw_local_cursor *written = &local->written;
	/* Evicted or refused: the data lack it although the version says applied. */
	uint64_t quarantined = kw_quarantine_count(sync->quarantine) + sync->evicted;
	struct kw_key_counts counts;

	if (sync->cursor_writing)
		return true;
	if (!sync->apply->ops->needs_local || kw_sync_phase(sync) != KW_SYNC_TAIL ||
		!kw_local_ready(sync->local) || sync->progress.applied == 0 ||
		sync->apply->owed > 0 || sync->apply->trouble != KW_TROUBLE_NONE)
		return false;
	kw_key_counts_set(&counts, local->facts.database_keys);
	if (local->written_valid && written->epoch == sync->epoch &&
		written->version == sync->progress.applied &&
		written->flushes == local->facts.flushes && written->quarantined == quarantined &&
		written->evicted == local->facts.evicted &&
		strcmp(written->key_counts.text, counts.text) == 0)
		return false;
	sync->cursor_writing = true;
	sync->cursor_us = now_us;
	sync->apply->ops->save(
		sync->apply, sync->epoch, sync->progress.applied, quarantined, on_saved, sync);
	return true;
}
