/* Lanes: each carries one key from the table to its verdict, some of them at a time. */
#include "internal.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>

#define KEEP_KEY_BYTES 4096
#define LOST_PAUSE_US 1000000

void kw_lanes_open(struct kw_audit *audit)
{
	const struct kw_lookups_io io = kw_reads_lookups_io(&audit->reads);
	const struct kw_lookups_options options = {.depth = KW_AUDIT_LANES};

	audit->lookups = kw_lookups_new(&options, &io);
	for (int i = 0; i < KW_AUDIT_LANES; i++)
		audit->lanes[i].audit = audit;
}

void kw_lanes_stop(struct kw_audit *audit)
{
	kw_lookups_stop(audit->lookups);
	for (int i = 0; i < KW_AUDIT_LANES; i++) {
		audit->lanes[i].busy = false;
		audit->lanes[i].suspect = NULL;
		audit->lanes[i].bytes = 0;
	}
	audit->busy = 0;
	audit->flight_bytes = 0;
}

void kw_lanes_close(struct kw_audit *audit)
{
	kw_lookups_free(audit->lookups);
	for (int i = 0; i < KW_AUDIT_LANES; i++)
		kw_buffer_close(&audit->lanes[i].key);
}

/* A lookup that was stopped takes room until its READ is told back. */
struct kw_lane *kw_lane_take(struct kw_audit *audit)
{
	for (int i = 0; kw_lookups_have_room(audit->lookups) && i < KW_AUDIT_LANES; i++) {
		struct kw_lane *lane = &audit->lanes[i];

		if (lane->busy)
			continue;
		lane->busy = true;
		audit->busy++;
		return lane;
	}
	return NULL;
}

void kw_lane_free(struct kw_lane *lane)
{
	assert(lane->busy && lane->audit->busy > 0);
	lane->busy = false;
	lane->suspect = NULL;
	lane->audit->busy--;
	lane->audit->flight_bytes -= lane->bytes;
	lane->bytes = 0;
	kw_buffer_clear(&lane->key);
	kw_buffer_trim(&lane->key, KEEP_KEY_BYTES);
}

bool kw_lane_load(struct kw_lane *lane, uint64_t bytes)
{
	struct kw_audit *audit = lane->audit;

	assert(lane->busy && lane->bytes == 0);
	if (audit->flight_bytes > 0 && audit->flight_bytes + bytes > KW_AUDIT_FLIGHT_BYTES)
		return false;
	audit->flight_bytes += bytes;
	lane->bytes = bytes;
	return true;
}

static void keep_key(struct kw_lane *lane, uint32_t database, struct kw_slice key)
{
	lane->database = database;
	kw_buffer_clear(&lane->key);
	kw_buffer_append(&lane->key, key.data, key.length);
}

static struct kw_slice key_of(const struct kw_lane *lane)
{
	return kw_slice(kw_buffer_bytes(&lane->key), kw_buffer_length(&lane->key));
}

bool kw_lane_lost(struct kw_lane *lane, const struct kw_lookup_result *found)
{
	if (found->outcome != KW_LOOKUP_FAILED)
		return false;
	lane->audit->connect_us = kw_clock_us() + LOST_PAUSE_US;
	kw_audit_abandon(lane->audit, found->error.text);
	return true;
}

uint64_t kw_audit_clock_ms(const struct kw_audit *audit)
{
	uint64_t ours_us = kw_wall_us(), servers_us = 0;

	if (audit->causes.looked && kw_audit_local(audit)->facts.clock_us > 0)
		servers_us = kw_clock_us() + audit->causes.latest_us;
	return (servers_us > ours_us ? servers_us : ours_us) / 1000;
}

enum kw_verdict_of_key kw_lane_judge(const struct kw_lane *lane)
{
	const struct kw_audit *audit = lane->audit;
	const struct kw_compare_rules rules = {
		.now_ms = kw_audit_clock_ms(audit),
		.exact_times = audit->ask.pexpiretime,
		.unknown_equal = true,
	};

	return kw_compare(lane->suspect ? &lane->suspect->expected : &lane->expected,
		&audit->ask.answer, &rules);
}

/* No comparison was possible: the range is not proven before the next walk. */
static void leave(struct kw_lane *lane)
{
	struct kw_audit *audit = lane->audit;

	audit->unsettled++;
	audit->round.left++;
	kw_proof_fail(&audit->proof, lane->range);
	kw_lane_free(lane);
	kw_audit_go(audit);
}

/* The key needs no further look. */
static void settle(struct kw_lane *lane)
{
	struct kw_audit *audit = lane->audit;

	kw_proof_close(&audit->proof, lane->range);
	kw_lane_free(lane);
	kw_audit_go(audit);
}

static void suspect(struct kw_lane *lane)
{
	struct kw_audit *audit = lane->audit;

	kw_mend_suspect(audit, lane, key_of(lane));
	kw_lane_free(lane);
	kw_audit_go(audit);
}

/*
 * The index may lack this key, after a restart. It learns what is proven: the server holds the
 * value, and no change of the key is on its way there. All up to the position was handed on, so a
 * record up to there is either in the index already or older than the agent's own start.
 */
static void learn(const struct kw_lane *lane)
{
	struct kw_sync *sync = lane->audit->options.sync;
	const struct kw_expected *expected = &lane->expected;
	const struct kw_digests_found found = {
		.database = lane->database,
		.key = key_of(lane),
		.digest = expected->value.digest,
		.expires_ms = expected->expires_ms,
		.since = lane->removals,
	};

	if (expected->value.has_digest && !expected->value.over && lane->audit->ask.answer.there &&
		(expected->expires_ms == 0 || lane->audit->ask.pexpiretime) &&
		expected->version <= sync->position.version)
		kw_digests_learn(&sync->index, &found);
}

static void on_value(void *arg, const struct kw_reply *reply)
{
	struct kw_lane *lane = arg;
	struct kw_audit *audit = lane->audit;

	if (audit->link != KW_AUDIT_LINK_READY || !kw_ask_answered(&audit->ask, reply))
		return;
	if (kw_lane_judge(lane) == KW_SAME) {
		learn(lane);
		settle(lane);
	} else {
		suspect(lane);
	}
}

static void on_entry(void *arg, const struct kw_lookup_result *found)
{
	struct kw_lane *lane = arg;
	struct kw_audit *audit = lane->audit;
	const struct kw_record_view *record = &found->record;

	if (kw_lane_lost(lane, found))
		return;
	if (found->outcome == KW_LOOKUP_UNCERTAIN) {
		leave(lane);
		return;
	}
	if (found->outcome != KW_LOOKUP_FOUND ||
		!kw_audit_wants(audit, record->database, record->key)) {
		settle(lane);
		return;
	}
	audit->compared++;
	kw_bucket_spend(&audit->bucket, record->length / KW_AUDIT_KEY_BYTES);
	kw_expect(record, kw_audit_clock_ms(audit), &lane->expected);
	keep_key(lane, record->database, record->key);
	kw_ask_key(&audit->ask, lane->database, key_of(lane), on_value, lane);
}

void kw_lane_look_up(struct kw_lane *lane, uint32_t database, struct kw_slice key, kw_lookup_fn fn)
{
	kw_lookups_begin(lane->audit->lookups, database, key, fn, lane);
	kw_lookups_post(lane->audit->lookups);
}

void kw_lane_entry(struct kw_lane *lane, const struct kw_index_slot *slot)
{
	lane->range = kw_proof_range_of(slot->hash);
	lane->removals = lane->audit->options.sync->index.removals;
	kw_proof_open(&lane->audit->proof, lane->range);
	kw_lookups_begin_slot(lane->audit->lookups, slot, on_entry, lane);
	kw_lookups_post(lane->audit->lookups);
}

static void on_presence(void *arg, const struct kw_lookup_result *found)
{
	struct kw_lane *lane = arg;

	if (kw_lane_lost(lane, found))
		return;
	if (found->outcome == KW_LOOKUP_FOUND)
		settle(lane);
	else
		suspect(lane);
}

void kw_lane_local(struct kw_lane *lane, uint32_t database, struct kw_slice key)
{
	lane->range = KW_PROOF_LOCAL;
	kw_proof_open(&lane->audit->proof, lane->range);
	keep_key(lane, database, key);
	kw_lookups_begin_presence(lane->audit->lookups, database, key, on_presence, lane);
	kw_lookups_post(lane->audit->lookups);
}
