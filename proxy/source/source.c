#include "source/source.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "feed/feed.h"
#include "fetch/fetch.h"
#include "fetch/pacing.h"
#include "keys/dirty.h"
#include "keys/scope.h"
#include "redis/server.h"
#include "source/doubts.h"
#include "source/fresh.h"
#include "source/history.h"
#include "source/link.h"
#include "source/options.h"
#include "source/state.h"
#include "source/store.h"
#include "source/sweep.h"
#include "source/ticket.h"
#include "source/turn.h"
#include "source/unreadable.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

enum timer { WATCHING, FRESHENING, PACING, TIMERS };

/* What closing waits for: the link, the turn and the timers. */
#define PARTS_TO_CLOSE (2 + TIMERS)

struct kw_source {
	struct kw_source_options options;
	struct kw_source_handlers handlers;
	struct kw_scope scope;
	struct kw_table *table;

	struct kw_state state;
	struct kw_history history; /* of the data, as it was told last */
	struct kw_turn turn;
	struct kw_source_link link;
	struct kw_feed *feed;
	struct kw_dirty *dirty;
	struct kw_fetch *fetch;
	struct kw_unreadable unreadable;
	struct kw_store store;
	struct kw_sweep sweep;
	struct kw_fresh fresh;
	struct kw_ticket ticket;
	struct kw_pacing pacing;
	uv_timer_t timers[TIMERS];

	enum kw_chain chain; /* as of the last turn */
	struct kw_doubts doubts;
	uint64_t approvals;
	uint64_t answers; /* of the data connection, as of the last turn */
	int parts_open;   /* while it closes; 0: it does not */
	void (*closed)(void *arg);
	void *closed_arg;
};

/* The state that is told outside. */

static enum kw_chain chain_of(const struct kw_source *source)
{
	if (!kw_source_link_is_up(&source->link) ||
		kw_upstream_is_well(kw_feed_server(source->feed)->upstream))
		return KW_CHAIN_WHOLE;
	return KW_CHAIN_CUT;
}

static enum kw_script script_of(const struct kw_source *source)
{
	const struct kw_data_connection *data = &source->link.data;

	return kw_data_is_busy(data) && !kw_data_is_broken(data) ? KW_SCRIPT_BUSY : KW_SCRIPT_NONE;
}

static struct kw_facts facts_of(const struct kw_source *source)
{
	return (struct kw_facts){
		.reach = kw_source_link_reach(&source->link),
		.mending = kw_sweep_is_mending(&source->sweep) ? KW_MENDING_UNDER_WAY
							       : KW_MENDING_NONE,
		.sweeps_ended = source->sweep.ended,
		.sweeps_clean = source->sweep.clean,
		.missing = source->sweep.brake.finding.missing,
		.whole = kw_brake_whole(&source->sweep.brake.finding),
		.max_missing = source->sweep.brake.share,
		.waiting = kw_store_waiting(&source->store),
		.unreadable = source->unreadable.keys.count,
		.too_large = source->store.too_large.count,
		.chain = chain_of(source),
		.script = script_of(source),
		.beyond = source->sweep.beyond,
	};
}

static void tell_table(struct kw_source *source)
{
	const struct kw_server_identity *identity =
		source->link.ups > 0 ? kw_feed_server(source->feed) : NULL;
	uint16_t rdb_version = kw_fetch_rdb_version(source->fetch);

	if (identity) {
		kw_source_history_told(&source->history, identity);
		kw_source_history_server(
			&source->history, identity, kw_feed_databases(source->feed));
	}
	kw_table_set_history(source->table, &source->history);
	if (rdb_version == 0 && identity)
		rdb_version = kw_server_rdb_version(identity);
	kw_table_set_facts(source->table,
		&(struct kw_table_facts){
			.source_state = (enum kw_source_state)source->state.sm.state,
			.complete = source->state.completeness == KW_COMPLETENESS_COMPLETE,
			.rdb_version = rdb_version,
			.ticket = source->ticket.number,
			.fresh_us = source->fresh.fresh_us,
			.source_id = identity ? kw_server_id(identity) : 0,
		});
}

static void update_state(struct kw_source *source)
{
	const struct kw_facts facts = facts_of(source);
	const struct kw_error *refused = kw_table_refused(source->table);
	const struct kw_claim_words words = {
		source->link.down.text, refused ? refused->text : NULL, source->sweep.why};

	if (!kw_state_update(&source->state, &facts, &words))
		return;
	tell_table(source);
	if (source->handlers.state)
		source->handlers.state(
			source->handlers.arg, kw_source_state(source), source->state.reason);
}

/* Doubts. */

/* Events might have been missed in these databases (NULL: in all). */
static void doubt(
	void *arg, enum kw_doubt cause, const struct kw_databases *databases, const char *why)
{
	struct kw_source *source = arg;

	if (!kw_source_link_is_up(&source->link))
		return; /* all is read again after it is up */
	kw_turn_want(&source->turn);
	if (cause == KW_DOUBT_IDENTITY || cause == KW_DOUBT_LOADED)
		kw_dirty_all_stale(source->dirty);
	if (cause == KW_DOUBT_IDENTITY) {
		kw_sweep_forget_explanations(&source->sweep);
		tell_table(source); /* whose data come now, before the first of them */
	}
	if (kw_doubt_explains(cause))
		kw_sweep_explain(&source->sweep, databases);
	if (kw_doubt_waits(&source->sweep, cause)) {
		kw_sweep_postpone(&source->sweep, cause, databases, why);
		kw_fresh_revoke(&source->fresh);
		return;
	}
	kw_log_info("source", "reconcile: %s", why);
	kw_doubts_count(&source->doubts, cause);
	kw_fresh_spoil(&source->fresh);
	kw_ticket_spoil(&source->ticket);
	if (kw_doubt_revokes(cause))
		kw_fresh_revoke(&source->fresh);
	kw_sweep_begin(&source->sweep,
		source->sweep.ended > 0 ? KW_SWEEP_RECONCILE : KW_SWEEP_FIRST, databases, why);
}

static void sweep_ended(void *arg)
{
	struct kw_source *source = arg;
	struct kw_sweep_later later;

	kw_source_link_is_well(&source->link);
	if (!kw_sweep_take_later(&source->sweep, &later))
		return;
	doubt(source, later.cause, later.databases.all ? NULL : &later.databases, later.why);
	kw_databases_close(&later.databases);
}

/* What the link tells. */

/*
 * Another server answers. If keys were asked for when the last one went, one of them might have
 * killed it.
 */
static void note_restart(struct kw_source *source)
{
	if (kw_fetch_was_asking(source->fetch))
		kw_unreadable_condemn(&source->unreadable, source->link.up_us);
	else
		kw_source_forgive(source);
}

static void link_up(void *arg, enum kw_feed_server server)
{
	struct kw_source *source = arg;
	const struct kw_server_identity *identity = kw_feed_server(source->feed);
	bool another = server == KW_FEED_ANOTHER_SERVER;

	kw_fetch_set_pexpiretime(source->fetch, identity->valkey || identity->major >= 7);
	if (identity->major > 7 || (identity->major == 7 && identity->minor >= 2))
		kw_data_no_touch(&source->link.data);
	kw_fetch_set_databases(source->fetch, kw_feed_databases(source->feed));
	if (another) {
		note_restart(source);
	} else if (server == KW_FEED_FLUSHED_SERVER) {
		kw_sweep_explain(&source->sweep, NULL);
	}
	kw_pace_forget(&source->pacing.pace);
	kw_log_info("source", "following %s: %s %d.%d.%d, role %s", source->options.redis.address,
		identity->valkey ? "Valkey" : "Redis", identity->major, identity->minor,
		identity->patch, identity->role);
	if (source->link.ups > 0)
		doubt(source, another ? KW_DOUBT_IDENTITY : KW_DOUBT_CONNECTION, NULL,
			another ? "the server is not the one of before"
				: "the connection was lost, so events were missed");
	else
		kw_sweep_begin(&source->sweep, KW_SWEEP_FIRST, NULL, "the first scan is under way");
}

static void link_down(void *arg)
{
	struct kw_source *source = arg;

	source->chain = KW_CHAIN_WHOLE;
	kw_sweep_stop(&source->sweep);
	kw_fresh_reset(&source->fresh);
	kw_ticket_reset(&source->ticket);
	kw_turn_wake(&source->turn);
}

/* What the feed tells; its doubts are told by doubt(). */

static void feed_ready(void *arg, enum kw_feed_server server)
{
	struct kw_source *source = arg;

	kw_source_link_ready(&source->link, server);
	tell_table(source); /* whose data come now, before the first of them */
	kw_turn_want(&source->turn);
}

static void feed_dirty(void *arg, const struct kw_dirty_key *keys, size_t count)
{
	struct kw_source *source = arg;
	const unsigned expiry = KW_DIRTY_EVENT | KW_DIRTY_TTL;

	for (size_t i = 0; i < count; i++)
		if ((keys[i].flags & expiry) == expiry)
			kw_sweep_expiry_set(&source->sweep, keys[i].database);
	kw_dirty_add_all(source->dirty, keys, count);
	kw_turn_want(&source->turn);
}

static bool feed_flushed(void *arg, uint32_t database)
{
	struct kw_source *source = arg;

	kw_turn_want(&source->turn);
	return kw_store_empty(&source->store, database);
}

static void feed_passed(void *arg)
{
	struct kw_source *source = arg;

	assert(kw_source_link_is_up(&source->link));
	kw_fresh_passed(&source->fresh);
	kw_turn_want(&source->turn);
}

/* Barriers prove something only once all keys were read, and while none is in doubt. */
static void ask_barrier(struct kw_source *source)
{
	if (kw_source_link_is_up(&source->link) && source->sweep.ended > 0 &&
		!kw_sweep_is_mending(&source->sweep) && chain_of(source) == KW_CHAIN_WHOLE &&
		kw_fresh_ask(&source->fresh, kw_wall_us()))
		kw_ticket_asked(&source->ticket);
}

static void feed_examined(void *arg)
{
	struct kw_source *source = arg;

	kw_ticket_examined(&source->ticket);
	ask_barrier(source);
	kw_turn_want(&source->turn);
}

static void feed_lost(void *arg, const struct kw_error *why)
{
	struct kw_source *source = arg;

	kw_source_link_lost(&source->link, why);
}

static void feed_stopped(void *arg)
{
	struct kw_source *source = arg;

	kw_source_link_feed_stopped(&source->link);
}

static void feed_wants_turn(void *arg)
{
	struct kw_source *source = arg;

	kw_turn_want(&source->turn);
}

static void feed_asks_held(void *arg, struct kw_databases *databases)
{
	struct kw_source *source = arg;

	kw_store_held(&source->store, databases);
}

static bool feed_asks_lacks(void *arg)
{
	const struct kw_source *source = arg;

	return kw_sweep_is_held(&source->sweep);
}

/* The loop turn. */

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t next_turn_us(struct kw_source *source, uint64_t now_us)
{
	uint64_t next_us = kw_fetch_ready_us(source->fetch, now_us);

	next_us = earliest(next_us, kw_sweep_ready_us(&source->sweep, now_us));
	next_us = earliest(next_us, source->unreadable.retry_us);
	next_us = earliest(next_us, kw_feed_ready_us(source->feed, now_us));
	next_us = earliest(next_us, kw_data_ready_us(&source->link.data));
	return earliest(next_us, kw_store_ready_us(&source->store));
}

/*
 * While a replica has lost its own primary its data can be emptied or replaced at any moment, and
 * nothing is read from it. A sweep that was under way then begins anew. If the data were replaced,
 * the feed tells a doubt about it, and a break without that costs nothing.
 */
static void follow_chain(struct kw_source *source)
{
	enum kw_chain chain = chain_of(source);

	if (chain == source->chain)
		return;
	source->chain = chain;
	if (chain == KW_CHAIN_CUT && source->sweep.kind == KW_SWEEP_AUDIT)
		kw_sweep_stop(&source->sweep);
	else if (chain == KW_CHAIN_WHOLE && kw_sweep_is_mending(&source->sweep))
		doubt(source, KW_DOUBT_LOADED, NULL,
			"the server followed has its own primary again, and may have its data "
			"anew");
}

static void work(struct kw_source *source, uint64_t now_us)
{
	assert(kw_source_link_is_up(&source->link) && source->link.data.redis);
	follow_chain(source);
	if (source->chain == KW_CHAIN_CUT) {
		kw_redis_flush(source->link.data.redis);
		kw_turn_next(&source->turn, kw_data_ready_us(&source->link.data), now_us);
		return;
	}
	kw_store_unpark(&source->store, now_us);
	kw_unreadable_retry(&source->unreadable, source->dirty, now_us);
	kw_sweep_turn(&source->sweep, now_us);
	kw_fetch_pump(source->fetch, now_us);
	if (kw_fresh_turn(&source->fresh)) {
		kw_ticket_passed(&source->ticket);
		tell_table(source);
	}
	if (!kw_data_is_broken(&source->link.data)) {
		kw_redis_flush(source->link.data.redis);
		kw_turn_next(&source->turn, next_turn_us(source, now_us), now_us);
	}
}

/* Once a loop turn, after all input of the turn was taken. */
static void on_turn(void *arg)
{
	struct kw_source *source = arg;
	bool wanted = kw_turn_take(&source->turn);
	uint64_t now_us;

	if (!wanted && source->answers == source->link.data.answers)
		return;
	source->answers = source->link.data.answers;
	now_us = kw_clock_us();
	kw_table_set_time(source->table, now_us);
	kw_store_settle(&source->store);
	kw_data_turn(&source->link.data, now_us);
	kw_feed_turn(source->feed, now_us);
	if (kw_source_link_is_up(&source->link))
		work(source, now_us);
	else
		kw_turn_next(&source->turn, kw_data_ready_us(&source->link.data), now_us);
	update_state(source);
}

static void on_watching(uv_timer_t *timer)
{
	struct kw_source *source = timer->data;

	if (kw_source_link_is_up(&source->link))
		kw_feed_look(source->feed);
}

static void on_freshening(uv_timer_t *timer)
{
	ask_barrier(timer->data);
}

static void on_pacing(uv_timer_t *timer)
{
	struct kw_source *source = timer->data;

	if (kw_source_link_is_up(&source->link))
		kw_pacing_tick(
			&source->pacing, kw_feed_server(source->feed)->process, kw_clock_us());
}

/* Making it. */

static void make_feed(struct kw_source *source, uv_loop_t *loop, uint64_t seed)
{
	const struct kw_feed_handlers handlers = {feed_ready, feed_dirty, feed_flushed, doubt,
		feed_passed, feed_examined, feed_lost, feed_stopped, feed_wants_turn,
		feed_asks_held, feed_asks_lacks, source};
	struct kw_feed_options options = {
		.loop = loop,
		.data = &source->link.data,
		.scope = &source->scope,
		.watch_interval_ms = source->options.watch_interval_ms,
		.flags = source->options.flags,
		.seed = seed,
	};

	kw_source_link_options(&source->options.redis, "events", &options.redis);
	source->feed = source->options.feed(&options, &handlers);
	source->link.feed = source->feed;
	source->store.feed = source->feed;
}

/*
 * Unpredictable, so that no client can choose keys that share a bucket; if not, then at least new.
 */
static uint64_t hash_seed(const struct kw_source *source)
{
	uint64_t seed = kw_clock_us();

	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) != sizeof seed)
		seed ^= (uint64_t)(uintptr_t)source;
	return seed;
}

static void part_closed(void *owner);

static void init_reading(struct kw_source *source, uv_loop_t *loop, uint64_t seed)
{
	const struct kw_source_options *options = &source->options;
	const struct kw_source_link_handlers link = {link_up, link_down, part_closed, source};
	struct kw_fetch_handlers fetch;

	source->dirty = kw_dirty_new(seed);
	kw_source_link_init(&source->link, loop, &options->redis, &link);
	kw_pacing_init(&source->pacing, &source->link.data, options->redis.address,
		options->primary_share, kw_clock_us());
	kw_unreadable_init(&source->unreadable, options->unreadable_pause_ms, seed);
	kw_store_init(&source->store, source->table, source->dirty, &source->unreadable, seed);
	fetch = kw_store_handlers(&source->store);
	source->fetch = kw_fetch_new(&source->link.data, source->dirty, options->window, &fetch);
	kw_fetch_set_pace(source->fetch, &source->pacing.pace);
	source->store.fetch = source->fetch;
}

static uint64_t primary_ms(void *arg)
{
	const struct kw_source *source = arg;
	struct kw_feed_stats feed;

	kw_feed_stats(source->feed, &feed);
	return (uint64_t)((int64_t)kw_wall_us() + feed.clock_skew_us) / 1000;
}

static void init_parts(struct kw_source *source, uv_loop_t *loop)
{
	uint64_t seed = hash_seed(source);

	init_reading(source, loop, seed);
	kw_sweep_init(&source->sweep, &(struct kw_sweep_parts){
					      .data = &source->link.data,
					      .table = source->table,
					      .store = &source->store,
					      .dirty = source->dirty,
					      .pace = &source->pacing.pace,
					      .scope = &source->scope,
					      .window = source->options.window,
					      .ended = sweep_ended,
					      .primary_ms = primary_ms,
					      .arg = source,
				      });
	make_feed(source, loop, seed);
	kw_fresh_init(&source->fresh, source->dirty, source->feed);
	kw_ticket_init(&source->ticket);
	kw_turn_init(&source->turn, loop, on_turn, source);
	for (int i = 0; i < TIMERS; i++) {
		uv_timer_init(loop, &source->timers[i]);
		source->timers[i].data = source;
	}
}

int kw_source_new(uv_loop_t *loop, const struct kw_source_options *options, struct kw_table *table,
	const struct kw_source_handlers *handlers, struct kw_source **result,
	struct kw_error *error)
{
	struct kw_source *source = kw_zalloc(sizeof *source);
	int code = kw_source_options_copy(options, &source->options, &source->scope, error);

	if (code) {
		free(source);
		return code;
	}
	source->table = table;
	kw_source_history_init(&source->history, options->name ? options->name : "");
	if (handlers)
		source->handlers = *handlers;
	init_parts(source, loop);
	kw_state_init(&source->state);
	kw_sweep_set_max_missing(&source->sweep, source->options.max_missing);
	kw_source_set_limits(source, options->keys_per_second, options->bytes_per_second,
		options->audit_keys_per_second);
	tell_table(source);
	*result = source;
	return KW_OK;
}

void kw_source_start(struct kw_source *source)
{
	uint64_t watch_ms = source->options.watch_interval_ms;
	uint64_t fresh_ms = source->options.fresh_interval_ms;
	uint64_t pace_ms = KW_PACE_LOOK_US / 1000;

	kw_turn_start(&source->turn);
	uv_timer_start(&source->timers[WATCHING], on_watching, watch_ms, watch_ms);
	uv_timer_start(&source->timers[FRESHENING], on_freshening, fresh_ms, fresh_ms);
	uv_timer_start(&source->timers[PACING], on_pacing, pace_ms, pace_ms);
	kw_source_link_open(&source->link);
}

/* What callers ask. */

void kw_source_reconcile(struct kw_source *source, const char *why)
{
	doubt(source, KW_DOUBT_ASKED, NULL, why);
	kw_turn_wake(&source->turn);
}

int kw_source_approve(struct kw_source *source, char finding[KW_ERROR_TEXT], struct kw_error *error)
{
	if (!kw_sweep_approve(&source->sweep))
		return kw_error_set(error, KW_E_STATE,
			"nothing waits for approval: the state is %s",
			kw_state_name(kw_source_state(source)));
	source->approvals++;
	snprintf(finding, KW_ERROR_TEXT, "the deletion of %llu of %llu keys that the primary lacks",
		(unsigned long long)source->sweep.brake.finding.missing,
		(unsigned long long)kw_brake_whole(&source->sweep.brake.finding));
	kw_turn_wake(&source->turn);
	return KW_OK;
}

void kw_source_set_max_missing(struct kw_source *source, double share)
{
	kw_sweep_set_max_missing(&source->sweep, share);
	kw_turn_wake(&source->turn);
}

bool kw_source_want_ticket(struct kw_source *source, uint16_t wanted)
{
	if (!kw_source_link_is_up(&source->link) || !kw_ticket_announce(&source->ticket, wanted))
		return false;
	tell_table(source);
	return true;
}

void kw_source_begin_ticket(struct kw_source *source)
{
	if (!kw_ticket_examine(&source->ticket))
		return;
	kw_feed_examine(source->feed);
	kw_turn_wake(&source->turn);
}

uint16_t kw_source_ticket(const struct kw_source *source)
{
	return source->ticket.number;
}

void kw_source_forgive(struct kw_source *source)
{
	kw_unreadable_forgive(&source->unreadable);
	kw_turn_wake(&source->turn);
}

void kw_source_set_limits(struct kw_source *source, uint64_t keys_per_second,
	uint64_t bytes_per_second, uint64_t audit_keys_per_second)
{
	uint64_t now_us = kw_clock_us();

	kw_fetch_limit(source->fetch, keys_per_second, bytes_per_second, now_us);
	kw_sweep_limit(&source->sweep, audit_keys_per_second, now_us);
	kw_turn_wake(&source->turn);
}

void kw_source_set_primary_share(struct kw_source *source, double share)
{
	kw_pace_set_share(&source->pacing.pace, share);
	kw_turn_wake(&source->turn);
}

void kw_source_pace(const struct kw_source *source, struct kw_pace_report *report)
{
	kw_pace_report(&source->pacing.pace, report);
}

enum kw_source_state kw_source_state(const struct kw_source *source)
{
	return (enum kw_source_state)source->state.sm.state;
}

const char *kw_source_reason(const struct kw_source *source)
{
	return source->state.reason;
}

const char *kw_source_state_name(enum kw_source_state state)
{
	return kw_state_name(state);
}

void kw_source_stats(const struct kw_source *source, struct kw_source_stats *stats)
{
	const struct kw_fetch_stats *fetch = kw_fetch_stats(source->fetch);
	uint64_t parked = kw_dirty_count(source->dirty, KW_DIRTY_PARKED);
	struct kw_feed_stats feed;

	kw_feed_stats(source->feed, &feed);
	*stats = (struct kw_source_stats){
		.events = feed.events,
		.fetches = fetch->fetches,
		.fetched_bytes = fetch->bytes,
		.unchanged = source->store.unchanged,
		.deletes = source->store.deletes,
		.dirty_keys = kw_dirty_total(source->dirty) - parked,
		.reconciles_audit = source->sweep.audits,
		.scanned = source->sweep.scanned,
		.scan_total = source->sweep.scan_total,
		.silent_refetches = feed.silent_refetches,
		.too_large = source->store.too_large.count,
		.unreadable = source->unreadable.keys.count,
		.rejected_payloads = fetch->rejected,
		.full_waiting = parked,
		.missing_keys = source->sweep.brake.finding.missing,
		.missing_of = kw_brake_whole(&source->sweep.brake.finding),
		.approvals = source->approvals,
		.clock_skew_us = feed.clock_skew_us,
	};
	kw_doubts_stats(&source->doubts, stats);
}

/* Closing. */

static void free_source(struct kw_source *source)
{
	kw_feed_free(source->feed);
	kw_sweep_close(&source->sweep);
	kw_fetch_free(source->fetch);
	kw_store_close(&source->store);
	kw_unreadable_close(&source->unreadable);
	kw_dirty_free(source->dirty);
	kw_source_options_close(&source->options, &source->scope);
	free(source);
}

static void part_closed(void *owner)
{
	struct kw_source *source = owner;
	void (*done)(void *arg) = source->closed;
	void *arg = source->closed_arg;

	assert(source->parts_open > 0);
	if (--source->parts_open > 0)
		return;
	free_source(source);
	if (done)
		done(arg);
}

static void timer_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

void kw_source_close(struct kw_source *source, void (*done)(void *arg), void *arg)
{
	assert(source->parts_open == 0);
	source->parts_open = PARTS_TO_CLOSE;
	source->closed = done;
	source->closed_arg = arg;
	kw_turn_close(&source->turn, part_closed);
	for (int i = 0; i < TIMERS; i++)
		uv_close((uv_handle_t *)&source->timers[i], timer_closed);
	kw_source_link_close(&source->link);
}
