#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Between two rounds: a small table need not be compared without end. */
#define REST_US 1000000
/* At full speed: jobs begin for so long of each turn of the timer, which is half of it. */
#define SLOT_US 10000
#define TURN_MS 20
#define RETRY_US 20000
#define RECONNECT_LOWEST_MS 1000
#define RECONNECT_HIGHEST_MS 60000

/* ---- the states ---- */

#define TO(state) KW_SM_TO(KW_AUDIT_##state)
static const struct kw_sm_state states[] = {
	[KW_AUDIT_IDLE] = {"idle", TO(TABLE) | TO(CLOSING), KW_SM_INITIAL},
	[KW_AUDIT_TABLE] = {"table", TO(LOCAL) | TO(IDLE) | TO(CLOSING)},
	[KW_AUDIT_LOCAL] = {"local", TO(REST) | TO(IDLE) | TO(CLOSING)},
	[KW_AUDIT_REST] = {"rest", TO(TABLE) | TO(IDLE) | TO(CLOSING)},
	[KW_AUDIT_CLOSING] = {"closing", 0, KW_SM_FINAL},
};

/* No key is looked at, but those that stay different, which wait. */
static bool is_quiet(const struct kw_audit *audit)
{
	return audit->busy == 0 && audit->suspects.count == audit->suspects.staying;
}

static bool holds(const void *owner, int state)
{
	const struct kw_audit *audit = owner;
	bool quiet = is_quiet(audit);

	switch ((enum kw_audit_state)state) {
	case KW_AUDIT_TABLE:
		return audit->link == KW_AUDIT_LINK_READY && audit->options.keys_per_second > 0;
	case KW_AUDIT_LOCAL:
		return quiet && audit->link == KW_AUDIT_LINK_READY && audit->table.over;
	case KW_AUDIT_REST:
		return quiet && audit->scan.over;
	case KW_AUDIT_IDLE:
	case KW_AUDIT_CLOSING:
		return quiet;
	}
	return false;
}

static const struct kw_sm_conf machine = {"audit", states, KW_AUDIT_CLOSING + 1, holds};

static bool is_walking(const struct kw_audit *audit)
{
	return kw_audit_state(audit) == KW_AUDIT_TABLE || kw_audit_state(audit) == KW_AUDIT_LOCAL;
}

bool kw_audit_may_run(const struct kw_audit *audit)
{
	const struct kw_sync *sync = audit->options.sync;
	const struct kw_superblock *superblock = &sync->follow->superblock;

	return audit->options.keys_per_second > 0 && kw_audit_state(audit) != KW_AUDIT_CLOSING &&
	       kw_pair_needs_local(sync->pair) && kw_sync_phase(sync) == KW_SYNC_TAIL &&
	       kw_sync_positioned(sync) && sync->intake == KW_SYNC_INTAKE_OPEN &&
	       kw_sync_may_follow(sync) && sync->obstacle == KW_SYNC_FREE &&
	       kw_follow_up(sync->follow) && superblock->complete &&
	       superblock->source_state == KW_SOURCE_LIVE && kw_local_ready(sync->local) &&
	       sync->progress.equal_us > 0 && !kw_pair_is_loading(sync->pair) &&
	       kw_pair_trouble(sync->pair)->kind == KW_TROUBLE_NONE &&
	       kw_pair_refusal(sync->pair)->kind == KW_SERVER_E_NONE &&
	       kw_pair_progress(sync->pair)->owed == 0 && sync->debt.evicted.count == 0;
}

bool kw_audit_wants(struct kw_audit *audit, uint32_t database, struct kw_slice key)
{
	const struct kw_sync *sync = audit->options.sync;
	const struct kw_naming *names = &sync->filter->names;
	uint32_t local = kw_naming_local_database(names, database);
	struct kw_slice name;

	if (!kw_filter_has_database(sync->filter, database) ||
		!kw_filter_has_key(sync->filter, key))
		return false;
	name = kw_naming_local_key(names, key, &audit->name);
	return !kw_local_owns_key(sync->local, local, name) &&
	       !kw_quarantine_has(sync->quarantine, local, name);
}

/* ---- the pace ---- */

/*
 * A cause asks for a round from the beginning. The steady one begins with no more keys, and ends
 * with those that it has: a mend that is forgotten before it is proven would never be counted.
 */
static bool is_cut_short(const struct kw_audit *audit, uint64_t now_us)
{
	return is_walking(audit) && !audit->round.full && kw_causes_due(&audit->causes, now_us);
}

bool kw_audit_may_retry(const struct kw_audit *audit)
{
	bool over = kw_audit_state(audit) == KW_AUDIT_TABLE ? audit->table.over : audit->scan.over;

	return is_walking(audit) && !over && !is_cut_short(audit, kw_clock_us());
}

/* Does the index lack keys, and has no whole round compared all that it could learn? */
static bool can_learn(const struct kw_audit *audit)
{
	const struct kw_digests *index = &audit->options.sync->index;

	return (kw_digests_state(index) == KW_DIGESTS_EMPTY ||
		       kw_digests_state(index) == KW_DIGESTS_BUILDING) &&
	       audit->losses != index->losses;
}

/* What a compare has passed over is looked at soon. */
static uint64_t rate_of(const struct kw_audit *audit)
{
	uint64_t rate = audit->options.keys_per_second;
	bool compared = audit->compares != audit->options.sync->index.compares;

	return (compared || can_learn(audit)) && rate < KW_AUDIT_COMPARED_RATE
		       ? KW_AUDIT_COMPARED_RATE
		       : rate;
}

/* A round may begin while a snapshot still fills the index: the hurry ends with its reason. */
static void learn_rate(struct kw_audit *audit, uint64_t now_us)
{
	if (audit->bucket.per_second != rate_of(audit))
		kw_bucket_init(&audit->bucket, rate_of(audit), now_us);
}

static bool may_begin(struct kw_audit *audit, uint64_t now_us)
{
	if (is_cut_short(audit, now_us))
		return false;
	if (audit->round.full)
		return now_us < audit->slot_end_us;
	learn_rate(audit, now_us);
	return kw_bucket_allows(&audit->bucket, now_us);
}

static void on_timer(uv_timer_t *timer);

/* The timer runs at full speed, and until all is closed; otherwise the owner's tick is enough. */
static void set_timer(struct kw_audit *audit)
{
	bool wanted = (is_walking(audit) && audit->round.full) ||
		      kw_audit_state(audit) == KW_AUDIT_CLOSING;

	if (wanted && !audit->timing)
		uv_timer_start(&audit->timer, on_timer, 0, TURN_MS);
	if (!wanted && audit->timing)
		uv_timer_stop(&audit->timer);
	audit->timing = wanted;
}

/* ---- rounds ---- */

static void move(struct kw_audit *audit, enum kw_audit_state state, const char *reason)
{
	kw_sm_move(&audit->sm, (int)state, reason);
	set_timer(audit);
}

/* From the first hash of a range: what was compared in it before does not count. */
static void walk_from(struct kw_audit *audit, uint64_t from)
{
	struct kw_audit_table *table = &audit->table;

	table->from = table->next = kw_proof_first(kw_proof_range_of(from));
	table->count = table->at = 0;
	table->blocked = table->over = false;
}

/* The walk goes on where keys are not settled. */
static void go_back(struct kw_audit *audit)
{
	unsigned range = kw_proof_unsettled(&audit->proof);
	uint64_t from = audit->table.from;

	walk_from(audit, range < kw_proof_range_of(from) ? kw_proof_first(range) : from);
}

static void begin_round(struct kw_audit *audit, uint64_t now_us)
{
	audit->round.full = kw_causes_due(&audit->causes, now_us);
	audit->round.told = audit->causes.told;
	audit->round.doubts = audit->options.sync->index.doubts;
	audit->round.compares = audit->options.sync->index.compares;
	audit->round.losses = audit->options.sync->index.losses;
	audit->round.began_us = now_us;
	audit->round.differing = audit->round.deletes = 0;
	audit->round.keys = kw_audit_local(audit)->facts.keys;
	audit->round.hopeless = audit->round.left = 0;
	walk_from(audit, 0);
}

/* Positions and proofs are of one life of the table. */
static void learn_epoch(struct kw_audit *audit, uint64_t now_us)
{
	uint64_t epoch = audit->options.sync->epoch;

	if (audit->table.epoch == epoch)
		return;
	audit->table.epoch = epoch;
	kw_proof_reset(&audit->proof);
	kw_mend_forget(audit);
	audit->cover = (struct kw_cover){0};
	begin_round(audit, now_us);
}

/* A round that was interrupted goes on, also one for a cause, if no other cause came meanwhile. */
static bool may_resume(const struct kw_audit *audit, uint64_t now_us)
{
	bool met = audit->round.full && audit->round.told == audit->causes.told;

	return audit->table.from > 0 && (met || !kw_causes_due(&audit->causes, now_us));
}

static void begin_table(struct kw_audit *audit, uint64_t now_us)
{
	learn_epoch(audit, now_us);
	if (!may_resume(audit, now_us))
		begin_round(audit, now_us);
	move(audit, KW_AUDIT_TABLE, audit->round.full ? "because of a cause" : "");
}

static void begin_local(struct kw_audit *audit, uint64_t now_us)
{
	move(audit, KW_AUDIT_LOCAL, "");
	kw_proof_enter(&audit->proof, KW_PROOF_LOCAL, now_us);
	kw_scan_begin(audit);
}

static void end_round(struct kw_audit *audit, uint64_t now_us)
{
	kw_proof_leave(&audit->proof, KW_PROOF_LOCAL);
	audit->rounds++;
	audit->compares = audit->round.compares;
	audit->losses = audit->round.losses;
	audit->hopeless = audit->round.hopeless;
	audit->rest_us = now_us + REST_US;
	if (audit->round.differing > 0)
		kw_log_warn("audit", "a round found %llu keys that differed, %llu stay so",
			(unsigned long long)audit->round.differing,
			(unsigned long long)kw_audit_unmended(audit));
	if (audit->round.full)
		kw_causes_met(&audit->causes, audit->round.told, audit->round.began_us, now_us);
	if (kw_audit_doubted(audit) == 0 && audit->round.left == 0)
		kw_digests_proven(&audit->options.sync->index, audit->round.doubts);
	kw_backoff_reset(&audit->backoff);
	audit->refusal[0] = '\0';
	move(audit, KW_AUDIT_REST, "every key was compared");
	audit->round.full = false;
	set_timer(audit);
	walk_from(audit, 0);
}

void kw_audit_abandon(struct kw_audit *audit, const char *why)
{
	if (kw_audit_state(audit) == KW_AUDIT_CLOSING)
		return;
	kw_audit_disconnect(audit);
	if (kw_audit_state(audit) == KW_AUDIT_IDLE)
		return;
	kw_walk_stop(audit->walk);
	kw_lanes_stop(audit);
	kw_mend_abandon(audit);
	go_back(audit);
	kw_proof_abandon(&audit->proof);
	move(audit, KW_AUDIT_IDLE, why);
}

/* ---- the table, block by block ---- */

static void on_block(void *arg, const struct kw_walk_block *block, const struct kw_error *error)
{
	struct kw_audit *audit = arg;
	struct kw_audit_table *table = &audit->table;

	assert(kw_audit_state(audit) == KW_AUDIT_TABLE);
	if (error) {
		table->retry_us = kw_clock_us() + RETRY_US;
		return;
	}
	if (block->count > table->capacity) {
		table->capacity = block->count;
		table->entries =
			kw_realloc(table->entries, table->capacity * sizeof *table->entries);
	}
	if (block->count > 0)
		memcpy(table->entries, block->entries, block->count * sizeof *table->entries);
	table->count = block->count;
	table->at = 0;
	table->from = block->from;
	table->next = block->next;
	table->blocked = true;
	kw_proof_walks(&audit->proof, table->from, table->next, table->began_us);
	kw_audit_go(audit);
}

/* All entries of the block are handed out. */
static void end_block(struct kw_audit *audit)
{
	struct kw_audit_table *table = &audit->table;

	table->blocked = false;
	kw_proof_walked(&audit->proof, table->from, table->next);
	table->over = table->next == UINT64_MAX;
	if (!table->over)
		table->from = table->next;
}

static void ask_block(struct kw_audit *audit, uint64_t now_us)
{
	struct kw_audit_table *table = &audit->table;

	if (kw_walk_busy(audit->walk) || now_us < table->retry_us)
		return;
	table->began_us = now_us;
	kw_walk_begin(audit->walk, table->from, on_block, audit);
}

/* ---- jobs ---- */

/* As the slot tells it, which need not be true. */
static uint64_t bytes_of(uint64_t place)
{
	return ((place & ~KW_PLACE_MARK) >> KW_PLACE_OFFSET_BITS) * 16;
}

static bool take_entry(struct kw_audit *audit, struct kw_lane *lane)
{
	struct kw_audit_table *table = &audit->table;

	if (!table->blocked || table->at == table->count ||
		!kw_lane_load(lane, bytes_of(table->entries[table->at].place)))
		return false;
	kw_bucket_spend(&audit->bucket, 1);
	kw_lane_entry(lane, &table->entries[table->at++]);
	return true;
}

static bool take_local(struct kw_audit *audit, struct kw_lane *lane)
{
	struct kw_audit_scan *scan = &audit->scan;
	uint32_t database;
	struct kw_slice key;

	if (!kw_scan_next(audit, &database, &key))
		return false;
	if (scan->free_keys == 0) {
		kw_bucket_spend(&audit->bucket, 1);
		scan->free_keys = KW_AUDIT_LOCAL_KEYS;
	}
	scan->free_keys--;
	kw_lane_local(lane, database, key);
	kw_scan_taken(audit, key);
	return true;
}

/* Begin with one key. False: there is none now, or it must wait. */
static bool begin_job(struct kw_audit *audit, uint64_t now_us)
{
	struct kw_lane *lane = kw_lane_take(audit);
	bool begun = false;

	if (!lane)
		return false;
	if (kw_mend_due(audit))
		begun = kw_mend_next(audit, lane);
	else if (may_begin(audit, now_us) && !kw_suspects_full(&audit->suspects))
		begun = kw_audit_state(audit) == KW_AUDIT_TABLE ? take_entry(audit, lane)
								: take_local(audit, lane);
	if (!begun)
		kw_lane_free(lane);
	return begun;
}

static void walk_on(struct kw_audit *audit, uint64_t now_us)
{
	/* A lookup can fail from within, for want of memory: then all is given up. */
	while (is_walking(audit) && begin_job(audit, now_us))
		;
	if (!is_walking(audit))
		return;
	if (kw_audit_state(audit) == KW_AUDIT_TABLE) {
		if (audit->table.blocked && audit->table.at == audit->table.count)
			end_block(audit);
		if (!audit->table.over && !audit->table.blocked)
			ask_block(audit, now_us);
		if (audit->table.over && is_quiet(audit))
			begin_local(audit, now_us);
		return;
	}
	kw_scan_step(audit);
	if (audit->scan.over && is_quiet(audit))
		end_round(audit, now_us);
}

void kw_audit_go(struct kw_audit *audit)
{
	const struct kw_sync *sync = audit->options.sync;
	uint64_t now_us = kw_clock_us();

	if (!kw_audit_may_run(audit) || (is_walking(audit) && audit->table.epoch != sync->epoch)) {
		kw_audit_abandon(audit, "the agent is not level");
		return;
	}
	if (audit->link != KW_AUDIT_LINK_READY) {
		kw_audit_connect(audit, now_us);
		return;
	}
	kw_cover_look(&audit->cover, sync->progress.equal_us, sync->follow->superblock.publication,
		now_us);
	if (is_cut_short(audit, now_us) && is_quiet(audit)) {
		kw_audit_abandon(audit, "all keys are compared at once");
		return;
	}
	if (kw_audit_state(audit) == KW_AUDIT_IDLE ||
		(kw_audit_state(audit) == KW_AUDIT_REST &&
			(now_us >= audit->rest_us || kw_causes_due(&audit->causes, now_us))))
		begin_table(audit, now_us);
	if (is_walking(audit))
		walk_on(audit, now_us);
}

/* ---- what the owner tells ---- */

void kw_audit_tick(struct kw_audit *audit)
{
	kw_reads_tick(&audit->reads);
	kw_lookups_tick(audit->lookups);
	kw_lookups_post(audit->lookups);
	kw_audit_doubt(audit, kw_clock_us());
	kw_audit_go(audit);
}

void kw_audit_set_rate(struct kw_audit *audit, uint64_t keys_per_second)
{
	audit->options.keys_per_second = keys_per_second;
	kw_bucket_init(&audit->bucket, keys_per_second, kw_clock_us());
	if (keys_per_second > 0)
		return;
	kw_audit_abandon(audit, "switched off");
	kw_mend_forget(audit);
	kw_causes_init(&audit->causes);
	audit->refusal[0] = '\0';
	walk_from(audit, 0);
}

void kw_audit_forget(struct kw_audit *audit)
{
	kw_audit_abandon(audit, "the local data are others");
	kw_proof_reset(&audit->proof);
	kw_mend_forget(audit);
	kw_causes_forget(&audit->causes);
	walk_from(audit, 0);
}

uint64_t kw_audit_unmended(const struct kw_audit *audit)
{
	uint64_t hopeless = audit->round.hopeless;

	/* Keys that could not be kept still differ, until a whole round has not found them. */
	return audit->mending + (hopeless > audit->hopeless ? hopeless : audit->hopeless);
}

void kw_audit_report(const struct kw_audit *audit, uint64_t now_us, struct kw_audit_report *report)
{
	*report = (struct kw_audit_report){
		.state = audit->options.keys_per_second > 0 ? kw_sm_name(&audit->sm) : "off",
		.rounds = audit->rounds,
		.compared = audit->compared,
		.unsettled = audit->unsettled,
		.causes = audit->causes.told,
		.proven_us = kw_proof_age_us(&audit->proof, now_us),
		.unmended = kw_audit_unmended(audit),
	};
	memcpy(report->found, audit->found, sizeof report->found);
	memcpy(report->mended, audit->mended, sizeof report->mended);
}

/* ---- deletions by inference ---- */

/* A snapshot follows. Its prune counts all of them, and the brake holds it (sync/brake.h). */
bool kw_audit_may_delete(struct kw_audit *audit)
{
	struct kw_sync *sync = audit->options.sync;
	double share = sync->brake.share;

	if (share >= 1 || audit->round.deletes < kw_brake_bound(share, audit->round.keys))
		return true;
	kw_sync_restart(sync, "the audit found more local keys that the table does not have than "
			      "apply.max_prune lets it delete");
	return false;
}

/* ---- the beginning and the end ---- */

static void on_timer_closed(uv_handle_t *handle)
{
	struct kw_audit *audit = handle->data;
	void (*done)(void *arg) = audit->done;
	void *done_arg = audit->done_arg;

	kw_lanes_close(audit);
	kw_walk_free(audit->walk);
	kw_reads_close(&audit->reads);
	kw_scan_close(&audit->scan);
	kw_ask_close(&audit->ask);
	kw_buffer_close(&audit->name);
	free(audit->table.entries);
	free(audit);
	done(done_arg);
}

static void on_timer(uv_timer_t *timer)
{
	struct kw_audit *audit = timer->data;

	kw_reads_tick(&audit->reads);
	if (kw_audit_state(audit) != KW_AUDIT_CLOSING) {
		audit->slot_end_us = kw_clock_us() + SLOT_US;
		kw_audit_go(audit);
		return;
	}
	if (audit->reads.outstanding == 0 && audit->link == KW_AUDIT_LINK_DOWN &&
		!uv_is_closing((uv_handle_t *)timer))
		uv_close((uv_handle_t *)timer, on_timer_closed);
}

static struct kw_remote *remote_of(void *arg)
{
	const struct kw_audit *audit = arg;
	const struct kw_follow *follow = audit->options.sync->follow;

	return kw_follow_up(follow) ? follow->remote : NULL;
}

void kw_audit_close(struct kw_audit *audit, void (*done)(void *arg), void *arg)
{
	audit->done = done;
	audit->done_arg = arg;
	kw_audit_abandon(audit, "the agent ends");
	kw_mend_forget(audit);
	kw_audit_disconnect(audit);
	move(audit, KW_AUDIT_CLOSING, "");
}

struct kw_audit *kw_audit_new(const struct kw_audit_options *options)
{
	struct kw_audit *audit = kw_zalloc(sizeof *audit);
	struct kw_walk_io io;

	audit->options = *options;
	kw_sm_init(&audit->sm, &machine, audit, KW_AUDIT_IDLE);
	uv_timer_init(options->loop, &audit->timer);
	audit->timer.data = audit;
	kw_reads_init(&audit->reads, remote_of, audit);
	io = kw_reads_walk_io(&audit->reads);
	audit->walk = kw_walk_new(&io);
	kw_lanes_open(audit);
	kw_causes_init(&audit->causes);
	kw_backoff_init(&audit->backoff, RECONNECT_LOWEST_MS, RECONNECT_HIGHEST_MS);
	kw_bucket_init(&audit->bucket, options->keys_per_second, kw_clock_us());
	return audit;
}
