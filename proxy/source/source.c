#include "source/internal.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "feed/notify.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* A server reads 16 KiB at a time, some 450 commands: two reads' worth keep it from waiting. */
#define DEFAULT_WINDOW 1024
#define DEFAULT_WATCH_MS 1000
#define DEFAULT_FRESH_MS 100
#define DEFAULT_UNREADABLE_PAUSE_MS 60000
#define TOO_LARGE_LOGS_PER_SECOND 1

static const struct kw_sm_state states[] = {
	[KW_SOURCE_CONNECTING] = {"connecting",
		KW_SM_TO(KW_SOURCE_SCANNING) | KW_SM_TO(KW_SOURCE_DOWN), KW_SM_INITIAL},
	[KW_SOURCE_SCANNING] = {"scanning",
		KW_SM_TO(KW_SOURCE_LIVE) | KW_SM_TO(KW_SOURCE_RECONCILING) |
			KW_SM_TO(KW_SOURCE_FULL) | KW_SM_TO(KW_SOURCE_DOWN)},
	[KW_SOURCE_LIVE] = {"live", KW_SM_TO(KW_SOURCE_RECONCILING) | KW_SM_TO(KW_SOURCE_FULL) |
					    KW_SM_TO(KW_SOURCE_DOWN)},
	[KW_SOURCE_RECONCILING] = {"reconciling",
		KW_SM_TO(KW_SOURCE_LIVE) | KW_SM_TO(KW_SOURCE_FULL) | KW_SM_TO(KW_SOURCE_DOWN)},
	[KW_SOURCE_FULL] = {"table_full", KW_SM_TO(KW_SOURCE_LIVE) | KW_SM_TO(KW_SOURCE_SCANNING) |
						  KW_SM_TO(KW_SOURCE_RECONCILING) |
						  KW_SM_TO(KW_SOURCE_DOWN)},
	[KW_SOURCE_DOWN] = {"source_down", KW_SM_TO(KW_SOURCE_SCANNING) |
						   KW_SM_TO(KW_SOURCE_RECONCILING) |
						   KW_SM_TO(KW_SOURCE_FULL)},
};

static const struct kw_sm_conf machine = {"source", states, KW_SOURCE_DOWN + 1};

/* What is told outside. */

void kw_source_tell_table(struct kw_source *source)
{
	const struct kw_server_identity *identity =
		source->linked ? kw_feed_server(source->feed) : NULL;
	uint16_t rdb_version = kw_fetch_rdb_version(source->fetch);

	if (rdb_version == 0 && identity)
		rdb_version = kw_server_rdb_version(identity);
	kw_table_set_facts(
		source->table, &(struct kw_table_facts){
				       .source_state = (enum kw_source_state)source->sm.state,
				       .complete = source->completeness == KW_COMPLETENESS_COMPLETE,
				       .rdb_version = rdb_version,
				       .fresh_us = source->fresh.fresh_us,
				       .source_id = identity ? kw_server_id(identity) : 0,
			       });
}

static enum kw_reach reach(const struct kw_source *source)
{
	if (source->link == KW_LINK_UP)
		return KW_REACH_UP;
	return source->down.code == KW_OK ? KW_REACH_UNTRIED : KW_REACH_DOWN;
}

static struct kw_claim judge(const struct kw_source *source)
{
	const struct kw_facts facts = {
		.reach = reach(source),
		.mending = kw_sweep_mending(source) ? KW_MENDING_UNDER_WAY : KW_MENDING_NONE,
		.sweeps_ended = source->sweep.ended,
		.sweeps_clean = source->sweep.clean,
		.waiting = kw_dirty_count(source->dirty, KW_DIRTY_PARKED) +
			   kw_dirty_released(source->dirty),
		.unreadable = source->unreadable.count,
		.too_large = source->too_large.count,
	};

	return kw_claim_judge(&facts, source->completeness);
}

/* The sentence for people. */
static void explain(
	const struct kw_source *source, enum kw_claim_cause cause, char *reason, size_t bytes)
{
	bool mending = kw_sweep_mending(source);
	const struct kw_error *refused = kw_table_refused(source->table);

	switch (cause) {
	case KW_CLAIM_NOTHING_WRONG:
		*reason = '\0';
		break;
	case KW_CLAIM_NOT_CONNECTED:
		snprintf(reason, bytes, "%s", source->down.text);
		break;
	case KW_CLAIM_NO_ROOM:
		snprintf(reason, bytes,
			"the table is full, changed keys wait for room: %.280s%s%.160s",
			refused ? refused->text : "raise table.max_bytes",
			mending ? "; meanwhile: " : "", mending ? source->sweep.why : "");
		break;
	case KW_CLAIM_MENDING:
		snprintf(reason, bytes, "%s", source->sweep.why);
		break;
	case KW_CLAIM_UNREADABLE:
		snprintf(reason, bytes,
			"the connection breaks whenever one of %zu keys is fetched, so they are "
			"not replicated (the log names them): a value too large for one reply, or "
			"for the server's client-output-buffer-limit normal; mend that, then run "
			"`keywakectl reconcile` (one that changes is tried again by itself)",
			source->unreadable.count);
		break;
	case KW_CLAIM_TOO_LARGE:
		snprintf(reason, bytes,
			"%zu keys are larger than the table can hold and are not replicated: raise "
			"table.max_bytes",
			source->too_large.count);
		break;
	}
}

static void update_state(struct kw_source *source)
{
	struct kw_claim claim = judge(source);
	char reason[KW_ERROR_TEXT];

	explain(source, claim.cause, reason, sizeof(reason));
	if ((int)claim.state == source->sm.state && claim.completeness == source->completeness &&
		strcmp(reason, source->reason) == 0)
		return;
	source->completeness = claim.completeness;
	kw_sm_move(&source->sm, claim.state, reason);
	memcpy(source->reason, reason, sizeof(reason));
	kw_source_tell_table(source);
	if (source->handlers.state)
		source->handlers.state(source->handlers.arg, claim.state, source->reason);
}

static uint64_t *counter_of(struct kw_source_stats *stats, enum kw_doubt cause)
{
	uint64_t *counters[KW_DOUBTS] = {
		[KW_DOUBT_CONNECTION] = &stats->reconciles_connection,
		[KW_DOUBT_FLAGS] = &stats->reconciles_flags,
		[KW_DOUBT_FLUSH] = &stats->reconciles_flush,
		[KW_DOUBT_SWAPDB] = &stats->reconciles_swapdb,
		[KW_DOUBT_RESET] = &stats->reconciles_swapdb,
		[KW_DOUBT_IDENTITY] = &stats->reconciles_identity,
		[KW_DOUBT_AUDIT] = &stats->reconciles_audit,
		[KW_DOUBT_ASKED] = &stats->reconciles_asked,
	};

	return counters[cause];
}

/*
 * Settings may be changed, counters reset, a database flushed or exchanged every second for ever.
 * If each time the scan began anew, it would never end; so it is finished first. A flush or an
 * exchange begins it anew once, as the rest of it is likely to be in vain.
 */
static bool keeps_for_later(const struct kw_source *source, enum kw_doubt cause)
{
	if (cause == KW_DOUBT_FLUSH || cause == KW_DOUBT_SWAPDB)
		return source->sweep.renewed;
	return cause == KW_DOUBT_FLAGS || cause == KW_DOUBT_RESET;
}

void kw_source_doubt(struct kw_source *source, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why)
{
	bool mending = kw_sweep_mending(source);

	if (source->link != KW_LINK_UP)
		return; /* it begins with a sweep over everything when it is up again */
	if (mending && keeps_for_later(source, cause)) {
		kw_sweep_later(source, cause, databases, why);
		source->fresh.fresh_us = 0;
		return;
	}
	kw_log_info("source", "reconcile: %s", why);
	source->stats.reconciles++;
	++*counter_of(&source->stats, cause);
	kw_fresh_abandon(source);
	/* What was claimed may have been wrong already; a lost connection and a wish say no such
	 * thing. */
	if (cause != KW_DOUBT_CONNECTION && cause != KW_DOUBT_ASKED)
		source->fresh.fresh_us = 0;
	kw_sweep_begin(source, kw_sweep_any_ended(source) ? KW_SWEEP_RECONCILE : KW_SWEEP_FIRST,
		databases, why);
	source->sweep.renewed = mending;
}

/* The loop turn. */

static void on_busy(uv_idle_t *busy)
{
	/* Its being active is all: the loop does not block, and check comes round. */
}

static void on_wake(uv_timer_t *timer)
{
	struct kw_source *source = timer->data;

	source->wake_us = UINT64_MAX;
	kw_source_wake(source);
}

/* The check that ends a loop turn comes behind the poll: keep that from blocking. */
void kw_source_wake(struct kw_source *source)
{
	kw_source_want_turn(source);
	if (!source->closing && !uv_is_active((uv_handle_t *)&source->busy))
		uv_idle_start(&source->busy, on_busy);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t next_turn_us(struct kw_source *source, uint64_t now_us)
{
	uint64_t next_us = kw_fetch_ready_us(source->fetch, now_us);

	next_us = earliest(next_us, kw_sweep_ready_us(source, now_us));
	next_us = earliest(next_us, source->retry_us);
	next_us = earliest(next_us, kw_feed_ready_us(source->feed, now_us));
	if (kw_dirty_count(source->dirty, KW_DIRTY_PARKED) > 0)
		next_us = earliest(next_us, source->unpark_us);
	return next_us;
}

/* See to it that there is a turn when one is due, if nothing else brings it about. */
static void arrange_next(struct kw_source *source, uint64_t now_us)
{
	uint64_t next_us = next_turn_us(source, now_us);

	if (next_us <= now_us) {
		kw_source_wake(source);
		return;
	}
	uv_idle_stop(&source->busy);
	if (next_us >= source->wake_us)
		return;
	source->wake_us = next_us;
	uv_timer_start(&source->wake, on_wake, (next_us - now_us + 999) / 1000, 0);
}

static void work(struct kw_source *source, uint64_t now_us)
{
	kw_source_unpark(source, now_us);
	kw_source_retry_unreadable(source, now_us);
	kw_sweep_turn(source, now_us);
	kw_fetch_pump(source->fetch, now_us);
	kw_fresh_turn(source);
	if (!source->lane.broken) {
		kw_redis_flush(source->lane.redis);
		arrange_next(source, now_us);
	}
}

/* Once a loop turn, when all input of the turn was taken. */
static void on_check(uv_check_t *check)
{
	struct kw_source *source = check->data;
	uint64_t now_us;

	if ((!source->turn_wanted && !source->lane.heard) || source->closing)
		return;
	source->turn_wanted = false;
	source->lane.heard = false;
	now_us = kw_clock_us();
	kw_feed_turn(source->feed, now_us);
	kw_table_set_time(source->table, now_us);
	if (source->link == KW_LINK_UP)
		work(source, now_us);
	else
		uv_idle_stop(&source->busy);
	update_state(source);
}

static void on_watching(uv_timer_t *timer)
{
	struct kw_source *source = timer->data;

	if (source->link == KW_LINK_UP)
		kw_feed_look(source->feed);
}

static void on_freshening(uv_timer_t *timer)
{
	kw_fresh_tick(timer->data);
}

static void on_pacing(uv_timer_t *timer)
{
	kw_pacing_tick(timer->data);
}

/* What callers see. */

static int follow_databases(
	struct kw_source *source, const struct kw_source_options *options, struct kw_error *error)
{
	if (!options->databases || options->database_count == 0) {
		kw_databases_add_all(&source->scope.databases);
		return 0;
	}
	for (size_t i = 0; i < options->database_count; i++) {
		int64_t database = options->databases[i];

		if (database < 0 || !kw_databases_add(&source->scope.databases, (uint64_t)database))
			return kw_error_set(error, KW_E_CONFIG,
				"source.databases: %lld is none: give numbers from 0 to %d",
				(long long)database, KW_DATABASES_MOST - 1);
	}
	return 0;
}

static void init_handles(struct kw_source *source)
{
	uv_timer_t *timers[] = {&source->wake, &source->watching, &source->freshening,
		&source->retrying, &source->pacing_tick};

	for (size_t i = 0; i < sizeof(timers) / sizeof(*timers); i++) {
		uv_timer_init(source->loop, timers[i]);
		timers[i]->data = source;
	}
	uv_check_init(source->loop, &source->check);
	source->check.data = source;
	uv_idle_init(source->loop, &source->busy);
	source->handles = 7;
	source->wake_us = UINT64_MAX;
}

static void init_options(struct kw_source *source, const struct kw_source_options *options)
{
	source->options = *options;
	source->options.databases = NULL;
	source->options.cursor_name = NULL;
	if (options->cursor_name)
		source->scope.cursor_name = kw_slice_text(kw_strdup(options->cursor_name));
	if (options->redis.password.length > 0) {
		void *password = kw_alloc(options->redis.password.length);

		memcpy(password, options->redis.password.data, options->redis.password.length);
		source->options.redis.password.data = password;
	}
	if (source->options.window == 0)
		source->options.window = DEFAULT_WINDOW;
	if (source->options.watch_interval_ms == 0)
		source->options.watch_interval_ms = DEFAULT_WATCH_MS;
	if (source->options.fresh_interval_ms == 0)
		source->options.fresh_interval_ms = DEFAULT_FRESH_MS;
	if (source->options.unreadable_pause_ms == 0)
		source->options.unreadable_pause_ms = DEFAULT_UNREADABLE_PAUSE_MS;
	if (source->options.primary_share <= 0)
		source->options.primary_share = 1;
}

/* What the feed tells. */

static void feed_ready(void *arg, enum kw_feed_server server)
{
	kw_link_ready(arg, server);
}

static void feed_dirty(void *arg, const struct kw_dirty_key *keys, size_t count)
{
	struct kw_source *source = arg;
	const unsigned expiry = KW_DIRTY_EVENT | KW_DIRTY_TTL;

	/* An expiry was set: the scan may not take the database for one without any. */
	for (size_t i = 0; i < count; i++)
		if ((keys[i].flags & expiry) == expiry)
			kw_databases_remove(&source->sweep.lasting, keys[i].database);
	kw_dirty_add_all(source->dirty, keys, count);
	kw_source_want_turn(source);
}

static bool feed_flushed(void *arg, uint32_t database)
{
	return kw_source_empty_database(arg, database);
}

static void feed_doubts(
	void *arg, enum kw_doubt cause, const struct kw_databases *databases, const char *why)
{
	kw_source_doubt(arg, cause, databases, why);
	kw_source_want_turn(arg);
}

static void feed_passed(void *arg)
{
	kw_fresh_passed(arg);
	kw_source_want_turn(arg);
}

static void feed_lost(void *arg, const struct kw_error *why)
{
	kw_link_feed_lost(arg, why);
}

static void feed_stopped(void *arg)
{
	kw_link_part_closed(arg);
}

static void feed_wants_turn(void *arg)
{
	kw_source_want_turn(arg);
}

static void held(void *arg, struct kw_databases *databases)
{
	const struct kw_source *source = arg;

	for (uint32_t db = 0; kw_databases_next(&source->held, &db); db++)
		if (kw_table_database_keys(source->table, db) > 0)
			kw_databases_add(databases, db);
}

static void make_feed(struct kw_source *source, uint64_t seed)
{
	const struct kw_feed_handlers handlers = {feed_ready, feed_dirty, feed_flushed, feed_doubts,
		feed_passed, feed_lost, feed_stopped, feed_wants_turn, held, source};
	struct kw_notify_options options = {
		.loop = source->loop,
		.lane = &source->lane,
		.scope = &source->scope,
		.watch_interval_ms = source->options.watch_interval_ms,
		.seed = seed,
	};

	kw_link_options(source, "events", &options.redis);
	source->feed = kw_notify_new(&options, &handlers);
}

static void init_parts(struct kw_source *source)
{
	struct kw_fetch_handlers fetch = {kw_source_store, kw_source_expiry, kw_source_expires,
		kw_source_expect, kw_source_expect_again, kw_source_approach, kw_source_unreadable,
		kw_source_unreadable_mark, source};
	struct kw_scan_handlers scan = {kw_sweep_scanned, source};
	uint64_t seed = kw_clock_us();

	/* Unpredictable, so that nobody can choose keys that share a bucket; if not, then at least
	 * new. */
	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != sizeof(seed))
		seed ^= (uint64_t)(uintptr_t)source;
	source->dirty = kw_dirty_new(seed);
	kw_keyset_init(&source->too_large, sizeof(struct kw_key), seed);
	kw_unreadable_init(source, seed);
	source->fetch = kw_fetch_new(&source->lane, source->dirty, source->options.window, &fetch);
	kw_pace_init(&source->pace, source->options.primary_share, kw_clock_us());
	kw_fetch_set_pace(source->fetch, &source->pace);
	source->scan = kw_scan_new(&source->lane, &scan);
	kw_link_init(source);
	make_feed(source, seed);
}

static void free_source(struct kw_source *source)
{
	struct kw_slice password = source->options.redis.password;

	kw_feed_free(source->feed);
	kw_scan_free(source->scan);
	kw_fetch_free(source->fetch);
	kw_keyset_close(&source->too_large);
	kw_keyset_close(&source->unreadable);
	kw_dirty_free(source->dirty);
	kw_databases_close(&source->sweep.wanted);
	kw_databases_close(&source->sweep.lasting);
	kw_databases_close(&source->sweep.later);
	kw_databases_close(&source->held);
	kw_databases_close(&source->expiring);
	kw_databases_close(&source->scope.databases);
	if (password.length > 0) {
		explicit_bzero((void *)(uintptr_t)password.data, password.length);
		free((void *)(uintptr_t)password.data);
	}
	free((void *)(uintptr_t)source->scope.cursor_name.data);
	free(source);
}

int kw_source_new(uv_loop_t *loop, const struct kw_source_options *options, struct kw_table *table,
	const struct kw_source_handlers *handlers, struct kw_source **result,
	struct kw_error *error)
{
	struct kw_source *source = kw_zalloc(sizeof(*source));
	uint64_t now_us = kw_clock_us();
	int code = follow_databases(source, options, error);

	if (code) {
		kw_databases_close(&source->scope.databases);
		free(source);
		return code;
	}
	source->loop = loop;
	source->table = table;
	if (handlers)
		source->handlers = *handlers;
	init_options(source, options);
	init_parts(source);
	init_handles(source);
	kw_sm_init(&source->sm, &machine, source, KW_SOURCE_CONNECTING);
	kw_bucket_init(&source->too_large_log, TOO_LARGE_LOGS_PER_SECOND, now_us);
	kw_source_set_limits(source, options->keys_per_second, options->bytes_per_second,
		options->audit_keys_per_second);
	kw_source_tell_table(source);
	*result = source;
	return 0;
}

void kw_source_start(struct kw_source *source)
{
	uv_check_start(&source->check, on_check);
	uv_timer_start(&source->watching, on_watching, source->options.watch_interval_ms,
		source->options.watch_interval_ms);
	uv_timer_start(&source->freshening, on_freshening, source->options.fresh_interval_ms,
		source->options.fresh_interval_ms);
	uv_timer_start(
		&source->pacing_tick, on_pacing, KW_PACE_LOOK_US / 1000, KW_PACE_LOOK_US / 1000);
	kw_link_open(source);
}

void kw_source_reconcile(struct kw_source *source, const char *why)
{
	kw_source_doubt(source, KW_DOUBT_ASKED, NULL, why);
	kw_source_wake(source);
}

void kw_source_set_limits(struct kw_source *source, uint64_t keys_per_second,
	uint64_t bytes_per_second, uint64_t audit_keys_per_second)
{
	uint64_t now_us = kw_clock_us();

	kw_fetch_limit(source->fetch, keys_per_second, bytes_per_second, now_us);
	kw_bucket_init(&source->sweep.pace, audit_keys_per_second, now_us);
	if (audit_keys_per_second == 0 && source->sweep.kind == KW_SWEEP_AUDIT)
		kw_sweep_stop(source);
	kw_source_wake(source);
}

void kw_source_set_primary_share(struct kw_source *source, double share)
{
	kw_pace_set_share(&source->pace, share);
	kw_source_wake(source);
}

void kw_source_pace(const struct kw_source *source, struct kw_pace_report *report)
{
	kw_pace_report(&source->pace, report);
}

enum kw_source_state kw_source_state(const struct kw_source *source)
{
	return (enum kw_source_state)source->sm.state;
}

const char *kw_source_reason(const struct kw_source *source)
{
	return source->reason;
}

const char *kw_source_state_name(enum kw_source_state state)
{
	return (unsigned)state <= KW_SOURCE_DOWN ? states[state].name : "unknown";
}

void kw_source_stats(const struct kw_source *source, struct kw_source_stats *stats)
{
	const struct kw_fetch_stats *fetch = kw_fetch_stats(source->fetch);

	struct kw_feed_stats feed;

	kw_feed_stats(source->feed, &feed);
	*stats = source->stats;
	stats->events = feed.events;
	stats->silent_refetches = feed.silent_refetches;
	stats->fetches = fetch->fetches;
	stats->fetched_bytes = fetch->bytes;
	stats->rejected_payloads = fetch->rejected;
	stats->full_waiting = kw_dirty_count(source->dirty, KW_DIRTY_PARKED);
	stats->dirty_keys = kw_dirty_total(source->dirty) - stats->full_waiting;
	stats->too_large = source->too_large.count;
	stats->unreadable = source->unreadable.count;
	stats->clock_skew_us = feed.clock_skew_us;
}

/* One of the things that closing waits for is done. */
void kw_source_closed_part(struct kw_source *source)
{
	void (*done)(void *arg) = source->closed;
	void *arg = source->closed_arg;

	if (source->handles > 0 || !kw_link_closed(source))
		return;
	free_source(source);
	if (done)
		done(arg);
}

static void handle_closed(uv_handle_t *handle)
{
	struct kw_source *source = handle->data;

	source->handles--;
	kw_source_closed_part(source);
}

void kw_source_close(struct kw_source *source, void (*done)(void *arg), void *arg)
{
	uv_handle_t *handles[] = {(uv_handle_t *)&source->wake, (uv_handle_t *)&source->watching,
		(uv_handle_t *)&source->freshening, (uv_handle_t *)&source->retrying,
		(uv_handle_t *)&source->pacing_tick, (uv_handle_t *)&source->check,
		(uv_handle_t *)&source->busy};

	assert(!source->closing);
	source->closing = true;
	source->closed = done;
	source->closed_arg = arg;
	kw_link_fail(source, &(struct kw_error){.code = KW_OK});
	for (size_t i = 0; i < sizeof(handles) / sizeof(*handles); i++) {
		handles[i]->data = source;
		uv_close(handles[i], handle_closed);
	}
}
