/* Suspects: they are looked at again, mended, and looked at once more. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

/* Keys named in the log in each round. */
#define NAMED 10
#define NAME_BYTES 64

static const char *const words[] = {
	[KW_SAME] = "equal",
	[KW_DIFFERENT] = "different here",
	[KW_MISSING] = "missing here",
	[KW_EXTRA] = "not in the table",
};

static enum kw_audit_kind kind_of(enum kw_verdict_of_key verdict)
{
	assert(verdict != KW_SAME);
	return verdict == KW_EXTRA     ? KW_AUDIT_EXTRA
	       : verdict == KW_MISSING ? KW_AUDIT_MISSING
				       : KW_AUDIT_DIFFERENT;
}

static void log_key(const struct kw_audit_suspect *suspect, const char *what)
{
	char name[NAME_BYTES + 1];
	size_t length = suspect->key_length < NAME_BYTES ? suspect->key_length : NAME_BYTES;

	for (size_t i = 0; i < length; i++)
		name[i] = suspect->key[i] > 0x20 && suspect->key[i] < 0x7f ? (char)suspect->key[i]
									   : '?';
	name[length] = '\0';
	kw_log_database(KW_LOG_WARN, "audit", suspect->database, "database %u, key %s: %s, %s",
		suspect->database, name, words[suspect->verdict], what);
}

/* ---- what the log brings ---- */

static void on_handed(void *arg, const struct kw_record_view *records, size_t count)
{
	struct kw_audit *audit = arg;

	for (size_t i = 0; i < count; i++)
		kw_suspects_touch(&audit->suspects, &records[i]);
}

/* While there are suspects, the sync says what it hands on. */
static void watch(struct kw_audit *audit)
{
	audit->options.sync->handed = audit->suspects.count > 0 ? on_handed : NULL;
	audit->options.sync->handed_arg = audit;
}

void kw_mend_suspect(struct kw_audit *audit, const struct kw_lane *lane, struct kw_slice key)
{
	struct kw_audit_suspect *known = kw_suspects_find(&audit->suspects, lane->database, key);

	kw_digests_disbelieve(&audit->options.sync->index, lane->database, key);
	if (!known)
		kw_suspects_add(&audit->suspects, lane->database, key, lane->range)->bytes =
			lane->bytes;
	else if (known->failed)
		kw_proof_fail(&audit->proof, lane->range);
	else
		kw_proof_close(&audit->proof, lane->range); /* the first of the two stands for it */
	watch(audit);
}

void kw_mend_abandon(struct kw_audit *audit)
{
	/* Nobody will find out whether those were too many here. */
	if (audit->suspects.count > audit->suspects.staying)
		kw_digests_incomplete(&audit->options.sync->index);
	kw_suspects_keep_failed(&audit->suspects);
	audit->mending = audit->suspects.count;
	watch(audit);
}

void kw_mend_forget(struct kw_audit *audit)
{
	kw_suspects_close(&audit->suspects);
	audit->mending = audit->hopeless = audit->round.hopeless = 0;
	watch(audit);
}

/* ---- the end of a suspect ---- */

static void drop(struct kw_lane *lane, struct kw_audit_suspect *suspect)
{
	struct kw_audit *audit = lane->audit;

	audit->mending -= suspect->mends > 0;
	kw_suspects_drop(&audit->suspects, suspect);
	watch(audit);
	kw_lane_free(lane);
	kw_audit_go(audit);
}

static void settle(struct kw_lane *lane)
{
	struct kw_audit_suspect *suspect = lane->suspect;
	struct kw_audit *audit = lane->audit;

	if (suspect->mends > 0)
		audit->mended[kind_of(suspect->verdict)]++;
	if (!suspect->failed)
		kw_proof_close(&audit->proof, suspect->range);
	drop(lane, suspect);
}

static void put_back(struct kw_lane *lane, enum kw_suspect_stage stage)
{
	struct kw_audit *audit = lane->audit;

	kw_suspects_put(&audit->suspects, lane->suspect, stage);
	kw_lane_free(lane);
	kw_audit_go(audit);
}

/*
 * It stays different, whatever is written. It counts as unmended until it is equal, and is tried
 * again later: what keeps it different can pass.
 */
static void give_up(struct kw_lane *lane)
{
	struct kw_audit_suspect *suspect = lane->suspect;
	struct kw_audit *audit = lane->audit;

	if (!suspect->failed) {
		if (audit->suspects.staying < NAMED)
			log_key(suspect, "and stays so after it was mended several times");
		kw_proof_fail(&audit->proof, suspect->range);
		suspect->failed = true;
	}
	suspect->moved = 0;
	suspect->looked_us = kw_clock_us();
	if (audit->suspects.staying < KW_SUSPECTS_STAY_MAX) {
		put_back(lane, KW_SUSPECT_STAY);
		return;
	}
	audit->round.hopeless++;
	drop(lane, suspect);
}

/* This look said nothing. A key that changes at each look is left to the log. */
static void look_again(struct kw_lane *lane)
{
	if (++lane->suspect->moved < KW_SUSPECT_MOVED_MAX) {
		put_back(lane, KW_SUSPECT_LOOK);
		return;
	}
	lane->audit->unsettled++;
	if (lane->suspect->failed)
		give_up(lane);
	else
		settle(lane);
}

/* The log has brought a change of it, or the key is no longer ours to mend. */
static bool is_left_alone(const struct kw_lane *lane)
{
	const struct kw_audit_suspect *suspect = lane->suspect;

	return suspect->touched ||
	       !kw_audit_wants(lane->audit, suspect->database, kw_suspect_key(suspect));
}

/* ---- AFTER: is it mended? ---- */

static void on_after(void *arg, const struct kw_reply *reply)
{
	struct kw_lane *lane = arg;
	struct kw_audit *audit = lane->audit;

	if (audit->link != KW_AUDIT_LINK_READY || !kw_ask_answered(&audit->ask, reply))
		return;
	if (is_left_alone(lane) || kw_lane_judge(lane) == KW_SAME)
		settle(lane);
	else if (lane->suspect->mends >= KW_SUSPECT_MENDS_MAX)
		give_up(lane);
	else
		put_back(lane, KW_SUSPECT_LOOK);
}

/* ---- MEND ---- */

static void note(struct kw_audit *audit, const struct kw_audit_suspect *suspect)
{
	kw_digests_tell(&audit->options.sync->index, KW_DIGESTS_DIFFERED);
	audit->found[kind_of(suspect->verdict)]++;
	audit->mending++;
	if (audit->round.differing++ < NAMED)
		log_key(suspect, "mended");
}

/*
 * Nothing was handed on for this key since it was looked up, and nothing can be before this call
 * ends: the next change of it comes after the mend.
 */
static void mend(struct kw_lane *lane, const struct kw_record_view *found)
{
	struct kw_audit *audit = lane->audit;
	struct kw_audit_suspect *suspect = lane->suspect;
	struct kw_sync *sync = audit->options.sync;
	struct kw_record_view record = {
		.kind = KW_RECORD_DELETE,
		.database = suspect->database,
		.key = kw_suspect_key(suspect),
	};

	/* The sync may have left TAIL since this lookup began. */
	if (!kw_audit_may_run(audit)) {
		kw_audit_abandon(audit, "the agent is not level");
		return;
	}
	if (suspect->verdict != KW_EXTRA)
		record = *found;
	else if (!kw_audit_may_delete(audit)) {
		kw_audit_abandon(audit, "a reconcile follows");
		return;
	}
	if (suspect->mends == 0)
		note(audit, suspect);
	suspect->mends += suspect->mends < KW_SUSPECT_MENDS_MAX;
	audit->round.deletes += suspect->verdict == KW_EXTRA;
	kw_sync_mend_key(sync, &record);
	suspect->position = kw_pair_progress(sync->pair)->taken;
	sync->due(sync->arg);
	put_back(lane, KW_SUSPECT_MEND);
}

/* ---- CHECK: is the difference one? ---- */

static void on_confirmed(void *arg, const struct kw_lookup_result *found)
{
	struct kw_lane *lane = arg;
	uint64_t version = found->outcome == KW_LOOKUP_FOUND ? found->record.version : 0;

	if (kw_lane_lost(lane, found))
		return;
	if (is_left_alone(lane))
		settle(lane);
	else if (found->outcome == KW_LOOKUP_UNCERTAIN ||
		 version != lane->suspect->expected.version)
		look_again(lane);
	else
		mend(lane, &found->record);
}

static void on_checked(void *arg, const struct kw_reply *reply)
{
	struct kw_lane *lane = arg;
	struct kw_audit *audit = lane->audit;
	struct kw_audit_suspect *suspect = lane->suspect;
	enum kw_verdict_of_key verdict;

	if (audit->link != KW_AUDIT_LINK_READY || !kw_ask_answered(&audit->ask, reply))
		return;
	verdict = kw_lane_judge(lane);
	if (is_left_alone(lane) || verdict == KW_SAME) {
		settle(lane);
		return;
	}
	suspect->verdict = verdict;
	kw_lane_look_up(lane, suspect->database, kw_suspect_key(suspect), on_confirmed);
}

/* ---- LOOK ---- */

static void on_looked(void *arg, const struct kw_lookup_result *found)
{
	struct kw_lane *lane = arg;
	struct kw_audit_suspect *suspect = lane->suspect;

	if (kw_lane_lost(lane, found))
		return;
	if (is_left_alone(lane)) {
		settle(lane);
		return;
	}
	if (found->outcome == KW_LOOKUP_UNCERTAIN) {
		look_again(lane);
		return;
	}
	suspect->expected = (struct kw_expected){0};
	if (found->outcome == KW_LOOKUP_FOUND)
		kw_expect(&found->record, kw_audit_clock_ms(lane->audit), &suspect->expected);
	suspect->looked_us = kw_clock_us();
	put_back(lane, KW_SUSPECT_WAIT);
}

/* ---- which one is next ---- */

static struct kw_audit_suspect *first(const struct kw_audit *audit, enum kw_suspect_stage stage)
{
	return audit->suspects.first[stage];
}

static bool is_acknowledged(const struct kw_audit *audit)
{
	struct kw_audit_suspect *suspect = first(audit, KW_SUSPECT_MEND);

	return suspect &&
	       kw_pair_progress(audit->options.sync->pair)->confirmed >= suspect->position;
}

static bool is_covered(const struct kw_audit *audit)
{
	struct kw_audit_suspect *suspect = first(audit, KW_SUSPECT_WAIT);

	return suspect && kw_cover_has(&audit->cover, suspect->looked_us) &&
	       kw_pair_room(audit->options.sync->pair) > 0;
}

static void ask(
	struct kw_audit *audit, struct kw_lane *lane, enum kw_suspect_stage stage, kw_reply_fn fn)
{
	struct kw_audit_suspect *suspect = kw_suspects_take(&audit->suspects, stage);

	lane->suspect = suspect;
	kw_ask_key(&audit->ask, suspect->database, kw_suspect_key(suspect), fn, lane);
}

static void look(struct kw_audit *audit, struct kw_lane *lane, enum kw_suspect_stage stage)
{
	struct kw_audit_suspect *suspect = kw_suspects_take(&audit->suspects, stage);

	lane->suspect = suspect;
	suspect->touched = false;
	kw_lane_look_up(lane, suspect->database, kw_suspect_key(suspect), on_looked);
}

/* One that stays different is tried again. */
static bool is_due_again(const struct kw_audit *audit)
{
	struct kw_audit_suspect *suspect = first(audit, KW_SUSPECT_STAY);

	return suspect && kw_audit_may_retry(audit) &&
	       (suspect->touched || kw_clock_us() - suspect->looked_us >= KW_SUSPECT_STAY_US);
}

bool kw_mend_due(const struct kw_audit *audit)
{
	return is_acknowledged(audit) || is_covered(audit) || first(audit, KW_SUSPECT_LOOK) ||
	       is_due_again(audit);
}

bool kw_mend_next(struct kw_audit *audit, struct kw_lane *lane)
{
	enum kw_suspect_stage stage = is_acknowledged(audit)          ? KW_SUSPECT_MEND
				      : is_covered(audit)             ? KW_SUSPECT_WAIT
				      : first(audit, KW_SUSPECT_LOOK) ? KW_SUSPECT_LOOK
								      : KW_SUSPECT_STAY;

	assert(kw_mend_due(audit));
	if (!kw_lane_load(lane, first(audit, stage)->bytes))
		return false;
	switch (stage) {
	case KW_SUSPECT_MEND:
		ask(audit, lane, stage, on_after);
		break;
	case KW_SUSPECT_WAIT:
		ask(audit, lane, stage, on_checked);
		break;
	default:
		look(audit, lane, stage);
	}
	return true;
}
