#include "rollback.h"

#include "base/clock.h"
#include "base/log.h"
#include "internal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define NAMED_MAX 10
#define NAME_SHOWN 80

/* ---- pure ---- */

static const struct kw_rollback_look *look_at(const struct kw_rollback *rollback, uint64_t number)
{
	return &rollback->looks.ring[number % KW_ROLLBACK_LOOKS];
}

void kw_rollback_look(struct kw_rollback *rollback, uint64_t epoch, const struct kw_history *table)
{
	const struct kw_rollback_look look = {table->looked.version, table->looked.offset};
	const struct kw_rollback_look *last;

	if (table->looked.offset == 0)
		return;
	if (epoch != rollback->looks.epoch || strcmp(table->replid, rollback->looks.replid) != 0) {
		rollback->looks.epoch = epoch;
		memcpy(rollback->looks.replid, table->replid, sizeof table->replid);
		rollback->looks.count = 0;
	}
	last = look_at(rollback, rollback->looks.count - 1);
	if (rollback->looks.count > 0 && last->version == look.version &&
		last->offset == look.offset)
		return;
	rollback->looks.ring[rollback->looks.count++ % KW_ROLLBACK_LOOKS] = look;
}

/* The newest version that is known to be of before the branch; of the oldest look if none is. */
static uint64_t last_before(struct kw_rollback *rollback, uint64_t branch)
{
	uint64_t first = rollback->looks.count > KW_ROLLBACK_LOOKS
				 ? rollback->looks.count - KW_ROLLBACK_LOOKS
				 : 0;

	for (uint64_t i = rollback->looks.count; i > first; i--)
		if (look_at(rollback, i - 1)->offset < branch)
			return look_at(rollback, i - 1)->version;
	rollback->partial = true;
	return look_at(rollback, first)->version;
}

bool kw_rollback_begin(struct kw_rollback *rollback, enum kw_rollback_counts counts,
	const struct kw_term *term, const struct kw_history *table, const char **why)
{
	*why = "";
	rollback->counts = KW_ROLLBACK_IDLE;
	rollback->counted = *term;
	rollback->keys = 0;
	rollback->partial = false;
	if (rollback->looks.count > 0 && strcmp(table->replid, rollback->looks.replid) == 0)
		return false;
	if (rollback->looks.count == 0)
		*why = "no look at the primary of before is known";
	else if (strcmp(table->replid2, rollback->looks.replid) != 0)
		*why = "no id links the data of the new primary with those of the one before";
	if (**why)
		return false;
	rollback->span.after = last_before(rollback, table->second_offset);
	rollback->span.until = counts == KW_ROLLBACK_CHANGES ? table->term_version : UINT64_MAX;
	rollback->border = table->term_version;
	rollback->partial |= rollback->recent.forgotten > rollback->span.after;
	rollback->counts = counts;
	return true;
}

bool kw_rollback_judge(struct kw_rollback *rollback, const struct kw_record_view *record)
{
	bool own = record->version > rollback->border;
	bool lost = kw_recent_is_lost(&rollback->recent, record, &rollback->span) &&
		    own == (rollback->counts == KW_ROLLBACK_CHANGES);

	assert(rollback->counts != KW_ROLLBACK_IDLE);
	rollback->keys += lost;
	return lost;
}

uint64_t kw_rollback_end(struct kw_rollback *rollback, uint64_t now_ms)
{
	uint64_t missing = 0;

	if (rollback->counts == KW_ROLLBACK_SNAPSHOT) {
		missing = kw_recent_missing(&rollback->recent, &rollback->span, now_ms);
		kw_recent_clear(&rollback->recent); /* versions of another table */
	}
	rollback->keys += missing;
	rollback->counts = KW_ROLLBACK_IDLE;
	return missing;
}

/* ---- of a sync ---- */

static void begin(struct kw_sync *sync, enum kw_rollback_counts counts)
{
	struct kw_rollback *rollback = &sync->rollback;
	const struct kw_term *before = &rollback->term, *now = &sync->authority.said;
	const char *why;

	if (now->term <= before->term || before->domain != now->domain ||
		(rollback->counts != KW_ROLLBACK_IDLE && kw_term_equal(&rollback->counted, now)))
		return;
	if (!kw_rollback_begin(rollback, counts, now, &sync->follow->history, &why) && *why)
		kw_log_warn("sync", "writes that term %" PRIu64 " lost are not counted: %s",
			before->term, why);
}

void kw_sync_rollback_snapshot(struct kw_sync *sync)
{
	begin(sync, KW_ROLLBACK_SNAPSHOT);
	if (sync->rollback.counts != KW_ROLLBACK_IDLE)
		return;
	kw_recent_clear(&sync->rollback.recent); /* the versions of another table may follow */
	sync->rollback.looks.count = 0;
}

void kw_sync_rollback_saw(struct kw_sync *sync)
{
	const struct kw_superblock *superblock = &sync->follow->superblock;
	const struct kw_history *table = &sync->follow->history;

	if (!kw_sync_may_follow(sync) || superblock->epoch != sync->epoch ||
		kw_sync_phase(sync) <= KW_SYNC_SNAPSHOT || table->mandate != KW_MANDATE_CONFIRMED)
		return;
	begin(sync, KW_ROLLBACK_CHANGES);
	/* While it is not live, a table has data of before that its primary has not. */
	if (sync->rollback.counts == KW_ROLLBACK_IDLE &&
		superblock->source_state == KW_SOURCE_LIVE && superblock->complete &&
		kw_term_equal(&sync->rollback.term, &sync->authority.said))
		kw_rollback_look(&sync->rollback, superblock->epoch, table);
}

static void name(const struct kw_record_view *record)
{
	char text[NAME_SHOWN + 1];
	size_t length = record->key.length < NAME_SHOWN ? record->key.length : NAME_SHOWN;
	const char *key = record->key.data;

	for (size_t i = 0; i < length; i++)
		text[i] = key[i] >= 0x20 && key[i] <= 0x7e ? key[i] : '?';
	text[length] = '\0';
	kw_log_database(KW_LOG_WARN, "sync", record->database,
		"rolled back to the new primary's value: \"%s\" in database %u", text,
		record->database);
}

void kw_sync_rollback_take(struct kw_sync *sync, const struct kw_record_view *records, size_t count)
{
	struct kw_rollback *rollback = &sync->rollback;
	bool notes = kw_sync_phase(sync) > KW_SYNC_SNAPSHOT && rollback->looks.count > 0 &&
		     rollback->looks.epoch == sync->epoch;

	for (size_t i = 0; rollback->counts != KW_ROLLBACK_IDLE && i < count; i++) {
		if (!kw_rollback_judge(rollback, &records[i]))
			continue;
		sync->rolled_back++;
		if (rollback->keys <= NAMED_MAX)
			name(&records[i]);
	}
	for (size_t i = 0; notes && rollback->counts != KW_ROLLBACK_SNAPSHOT && i < count; i++)
		kw_recent_note(&rollback->recent, &records[i]);
}

void kw_sync_rollback_applied(struct kw_sync *sync, bool live)
{
	sync->rollback.term = sync->authority.said;
	if (live && sync->rollback.counts == KW_ROLLBACK_CHANGES)
		kw_sync_rollback_end(sync);
}

void kw_sync_rollback_end(struct kw_sync *sync)
{
	struct kw_rollback *rollback = &sync->rollback;

	if (rollback->counts == KW_ROLLBACK_IDLE)
		return;
	sync->rolled_back += kw_rollback_end(rollback, kw_wall_us() / 1000);
	kw_log_info("sync",
		"term %" PRIu64 " is level: %s%" PRIu64 " keys of before were rolled back",
		rollback->counted.term, rollback->partial ? "at least " : "", rollback->keys);
}
