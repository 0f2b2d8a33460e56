/* Writing the cursor into the local server. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void kw_sync_saved(struct kw_sync *sync, const struct kw_failure *failure)
{
	sync->save.writing = false;
	if (!failure) {
		sync->save.error[0] = '\0';
		return;
	}
	if (!sync->save.error[0])
		kw_log_warn("sync", "%s", failure->text);
	snprintf(sync->save.error, sizeof sync->save.error, "%s", failure->text);
}

static void on_saved(void *arg, const struct kw_failure *failure)
{
	kw_sync_saved(arg, failure);
}

/*
 * The server's counts tell that its cursor is wrong: of a flush that was just found, or of flushes
 * and writes while no agent ran. The snapshot that mends the data claims them, but it can have to
 * wait: for the proxy, or for a person. If the server restarts meanwhile, its counts are gone, and
 * the next agent would believe the cursor. So it loses its position now. A server of which the
 * snapshot replaces everything has no such cursor.
 */
static bool is_wrong_by_counts(const struct kw_sync *sync)
{
	return kw_local_spoiled(sync->local) ||
	       (kw_sync_phase(sync) == KW_SYNC_WAIT && kw_local_ready(sync->local) &&
		       !kw_sync_positioned(sync) &&
		       kw_cursor_doubt_is_of_counts(kw_sync_cursor_doubt(sync)));
}

bool kw_sync_owes_cursor(const struct kw_sync *sync)
{
	return sync->save.writing || is_wrong_by_counts(sync);
}

static bool take_position_back(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_local *local = sync->local;
	const struct kw_cursor_progress nowhere = {.epoch = local->facts.cursor.epoch};

	if (!kw_sync_needs_local(sync) || kw_pair_is_led(sync->pair) || !kw_local_ready(local) ||
		local->facts.cursor_kind != KW_CURSOR_OURS || kw_sync_phase(sync) == KW_SYNC_CLAIM)
		return false;
	sync->save.writing = true;
	sync->save.tried_us = now_us;
	kw_local_write_cursor(sync->local, &nowhere, on_saved, sync);
	return true;
}

void kw_sync_save_approval(struct kw_sync *sync)
{
	uint64_t epoch = sync->position.epoch;
	const struct kw_cursor_progress progress = {
		.epoch = epoch,
		.consented = kw_brake_approved(&sync->brake, epoch),
	};

	assert(kw_sync_phase(sync) == KW_SYNC_HELD);
	if (sync->save.writing || !kw_sync_needs_local(sync) || !kw_local_ready(sync->local))
		return;
	sync->save.writing = true;
	sync->save.tried_us = kw_clock_us();
	kw_pair_save(sync->pair, &progress, on_saved, sync);
}

bool kw_sync_save(struct kw_sync *sync, uint64_t now_us)
{
	const struct kw_local *local = sync->local;
	const struct kw_local_cursor *written = kw_local_written(local);
	/* Refused, evicted, written by others, or doubted by an audit. */
	uint64_t quarantined = kw_quarantine_count(sync->quarantine) + kw_debt_wrong(&sync->debt);
	const struct kw_cursor_progress progress = {
		sync->epoch, sync->progress.applied, quarantined, KW_BOND_NONE};
	struct kw_key_counts counts;

	if (sync->save.writing)
		return true;
	if (is_wrong_by_counts(sync))
		return take_position_back(sync, now_us);
	if (sync->authority.permission == KW_PERMISSION_RAISING)
		return kw_sync_save_term(sync, now_us);
	if (!kw_pair_needs_local(sync->pair) || kw_sync_phase(sync) != KW_SYNC_TAIL ||
		!kw_local_ready(sync->local) || sync->progress.applied == 0 ||
		kw_pair_progress(sync->pair)->owed > 0 ||
		kw_pair_trouble(sync->pair)->kind != KW_TROUBLE_NONE)
		return false;
	kw_key_counts_set(&counts, local->facts.database_keys);
	if (written && written->epoch == sync->epoch &&
		written->version == sync->progress.applied &&
		written->flushes == kw_local_flushes(local) &&
		written->writes.calls == kw_local_writes_counted(local) &&
		written->ended.said == kw_local_has_ended(local) &&
		written->quarantined == quarantined && written->evicted == local->facts.evicted &&
		strcmp(written->key_counts.text, counts.text) == 0 &&
		kw_history_equal(&written->history, &local->history))
		return false;
	sync->save.writing = true;
	sync->save.tried_us = now_us;
	kw_pair_save(sync->pair, &progress, on_saved, sync);
	return true;
}
