/*
 * Writes that a failover lost, as far as the replica had them. The first snapshot of a higher term
 * is compared with what was applied. A key counts if its value differed, although the new primary's
 * table has not changed it in that term, or if the table does not have it. A key that the new
 * primary wrote again does not count: nothing of it is visible as lost. So it is an estimate: an
 * agent that was behind counts what it had not applied yet, too.
 */
#include "internal.h"

#include "base/log.h"

#include <inttypes.h>

#define NAMED_MAX 10
#define NAME_SHOWN 80

void kw_sync_rollback_begin(struct kw_sync *sync)
{
	const struct kw_term *before = &sync->rollback.term, *now = &sync->local->term;

	sync->rollback.counts = before->term > 0 && before->domain == now->domain &&
				now->term > before->term && sync->purpose == KW_SYNC_RECONCILE;
	sync->rollback.until = sync->follow->history.term_version;
	sync->rollback.keys = 0;
}

static void name(const struct kw_record_view *record)
{
	char text[NAME_SHOWN + 1];
	size_t length = record->key.length < NAME_SHOWN ? record->key.length : NAME_SHOWN;
	const char *key = record->key.data;

	for (size_t i = 0; i < length; i++)
		text[i] = key[i] >= 0x20 && key[i] <= 0x7e ? key[i] : '?';
	text[length] = '\0';
	kw_log_warn("sync", "rolled back to the new primary's value: \"%s\" in database %u", text,
		record->database);
}

void kw_sync_rollback_differing(
	struct kw_sync *sync, const struct kw_record_view *records, size_t count)
{
	if (!sync->rollback.counts)
		return;
	for (size_t i = 0; i < count; i++) {
		if (records[i].version > sync->rollback.until)
			continue;
		if (sync->rollback.keys++ < NAMED_MAX)
			name(&records[i]);
		sync->rolled_back++;
	}
}

void kw_sync_rollback_pruned(struct kw_sync *sync, uint64_t keys)
{
	if (!sync->rollback.counts)
		return;
	sync->rollback.keys += keys;
	sync->rolled_back += keys;
}

void kw_sync_rollback_end(struct kw_sync *sync)
{
	if (sync->rollback.counts)
		kw_log_info("sync",
			"term %" PRIu64 " is level: %" PRIu64 " keys of before were rolled back",
			sync->local->term.term, sync->rollback.keys);
	sync->rollback.counts = false;
}
