/* What the link and the feed tell the source, and what it doubts then. */
#include "source/source_internal.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"
#include "source/swap.h"

#include <assert.h>

/* What was told with its value goes into the table before something else is done about it. */
void kw_source_settle(struct kw_source *source)
{
	if (kw_values_wait(&source->store.values))
		kw_store_settle(&source->store);
}

/* Doubts. */

/* A sweep over these databases begins (NULL: over all). */
static void reconcile(struct kw_source *source, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why)
{
	kw_log_info("source", "reconcile: %s", why);
	kw_doubts_count(&source->doubts, cause);
	kw_fresh_spoil(&source->fresh);
	kw_ticket_spoil(&source->ticket);
	if (kw_doubt_revokes(cause))
		kw_fresh_revoke(&source->fresh);
	kw_sweep_begin(&source->sweep,
		source->sweep.ended > 0 ? KW_SWEEP_RECONCILE : KW_SWEEP_FIRST, databases, why);
}

/* Events might have been missed in these databases (NULL: in all). */
void kw_source_doubt(
	void *arg, enum kw_doubt cause, const struct kw_databases *databases, const char *why)
{
	struct kw_source *source = arg;

	if (!kw_source_link_is_up(&source->link)) {
		source->unmended = true; /* all is read again after it is up */
		return;
	}
	kw_turn_want(&source->turn);
	kw_source_settle(source);
	kw_found_forget(&source->store.found);
	if (cause == KW_DOUBT_IDENTITY || cause == KW_DOUBT_LOADED) {
		kw_dirty_stale(source->dirty, databases);
		kw_source_functions_doubt(&source->functions);
	}
	if (cause == KW_DOUBT_IDENTITY) {
		kw_sweep_forget_explanations(&source->sweep);
		kw_source_tell_table(source); /* whose data come now, before the first of them */
	}
	if (kw_doubt_explains(cause))
		kw_sweep_explain(&source->sweep, databases);
	if (kw_doubt_waits(&source->sweep, cause)) {
		kw_sweep_postpone(&source->sweep, cause, databases, why);
		kw_fresh_revoke(&source->fresh);
		return;
	}
	reconcile(source, cause, databases, why);
}

/* What waited for its end, together. What explains losses the sweep knows since each was told. */
void kw_source_sweep_ended(void *arg)
{
	struct kw_source *source = arg;
	struct kw_sweep_later later;

	kw_source_link_is_well(&source->link);
	if (!kw_sweep_take_later(&source->sweep, &later))
		return;
	kw_source_settle(source);
	reconcile(source, later.cause, later.databases.all ? NULL : &later.databases, later.why);
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

static void begin_first(struct kw_source *source)
{
	if (source->sweep.ended > 0)
		kw_sweep_begin(&source->sweep, KW_SWEEP_RECONCILE, NULL,
			"the table was kept over a restart of the proxy, and is compared with the "
			"primary");
	else
		kw_sweep_begin(&source->sweep, KW_SWEEP_FIRST, NULL, "the first scan is under way");
}

void kw_source_link_came_up(void *arg, enum kw_feed_server server)
{
	struct kw_source *source = arg;
	const struct kw_server_identity *identity = kw_feed_server(source->feed);
	bool another = server == KW_FEED_ANOTHER_SERVER;
	bool goes_on =
		server == KW_FEED_CONTINUED_SERVER && source->sweep.ended > 0 && !source->unmended;

	source->unmended = false;
	kw_fetch_set_pexpiretime(source->fetch, identity->valkey || identity->major >= 7);
	if (identity->major > 7 || (identity->major == 7 && identity->minor >= 2))
		kw_data_no_touch(&source->link.data);
	kw_fetch_set_databases(source->fetch, kw_feed_databases(source->feed));
	if (another) {
		kw_fetch_forget_version(source->fetch);
		note_restart(source);
	} else if (server == KW_FEED_FLUSHED_SERVER) {
		kw_sweep_explain(&source->sweep, NULL);
	}
	kw_source_functions_up(&source->functions, server, identity);
	kw_pace_forget(&source->pacing.pace);
	kw_log_info("source", "following %s: %s %d.%d.%d, role %s", source->options.redis.address,
		identity->valkey ? "Valkey" : "Redis", identity->major, identity->minor,
		identity->patch, identity->role);
	if (goes_on)
		kw_log_info(
			"source", "no change was missed while the connection was lost: no scan");
	else if (source->link.ups > 0)
		kw_source_doubt(source, another ? KW_DOUBT_IDENTITY : KW_DOUBT_CONNECTION, NULL,
			another ? "the server is not the one of before"
				: "the connection was lost, so events were missed");
	else
		begin_first(source);
}

void kw_source_link_went_down(void *arg)
{
	struct kw_source *source = arg;

	source->chain = KW_CHAIN_WHOLE;
	source->unmended |= kw_sweep_is_mending(&source->sweep);
	kw_sweep_stop(&source->sweep);
	kw_source_functions_down(&source->functions);
	kw_fresh_reset(&source->fresh);
	kw_heard_reset(&source->heard);
	kw_ticket_reset(&source->ticket);
	kw_trace_forget(&source->trace);
	kw_source_settle(source);
	kw_found_forget(&source->store.found);
	kw_order_reset(&source->store.values.order);
	kw_turn_wake(&source->turn);
}

/* What the feed tells; its doubts are told by kw_source_doubt. */

static void feed_ready(void *arg, enum kw_feed_server server)
{
	struct kw_source *source = arg;

	kw_source_link_ready(&source->link, server);
	kw_source_tell_table(source); /* whose data come now, before the first of them */
	kw_turn_want(&source->turn);
}

/* One of these changes is followed to its publication, if one more may be. */
static void follow_one(struct kw_source *source, const struct kw_dirty_key *keys, size_t count)
{
	uint32_t number = kw_trace_free(&source->trace);
	const struct kw_dirty_key *key;
	struct kw_feed_stats stats;

	if (number == KW_TRACE_CHANGES || count == 0)
		return;
	key = &keys[kw_trace_choose(&source->trace, count)];
	if (!(key->flags & KW_DIRTY_EVENT) ||
		!kw_dirty_watch(source->dirty, number, key->database, key->name))
		return;
	kw_feed_stats(source->feed, &stats);
	kw_trace_begin(&source->trace, number, stats.arrived_us, kw_clock_us());
}

static void add_dirty(struct kw_source *source, const struct kw_dirty_key *keys, size_t count)
{
	const unsigned expiry = KW_DIRTY_EVENT | KW_DIRTY_TTL;

	kw_source_settle(source); /* what was told before must not overtake these */
	for (size_t i = 0; i < count; i++) {
		kw_found_told(&source->store.found, keys[i].database, keys[i].name);
		if ((keys[i].flags & expiry) == expiry)
			kw_sweep_expiry_set(&source->sweep, keys[i].database);
	}
	kw_dirty_add_all(source->dirty, keys, count);
	follow_one(source, keys, count);
}

static void feed_dirty(void *arg, const struct kw_dirty_key *keys, size_t count)
{
	struct kw_source *source = arg;

	add_dirty(source, keys, count);
	kw_turn_want(&source->turn);
}

/* As for what is fetched: nothing is taken from a server that may not be read now. */
static bool takes_values(const struct kw_source *source)
{
	return kw_source_link_is_up(&source->link) && source->chain == KW_CHAIN_WHOLE &&
	       !kw_sweep_is_listing(&source->sweep) && kw_source_fence(source) == KW_FENCE_OPEN;
}

static enum kw_values_exact exactness(const struct kw_source *source)
{
	if (source->sweep.ended == 0 || kw_sweep_is_mending(&source->sweep))
		return KW_VALUES_INEXACT;
	return kw_feed_server(source->feed)->upstream == KW_UPSTREAM_NONE ? KW_VALUES_EXACT
									  : KW_VALUES_EXACT_HAS;
}

/* An audit's answer that waits to be stored can be ahead of this change, and is suspected first. */
static void note_told(struct kw_source *source, const struct kw_feed_value *value)
{
	if (source->sweep.kind == KW_SWEEP_AUDIT)
		kw_fetch_settle(source->fetch);
	kw_found_told(&source->store.found, value->database, value->name);
}

static void feed_value(void *arg, const struct kw_feed_value *value)
{
	struct kw_source *source = arg;
	bool expires = kw_feed_value_expires(value);
	const struct kw_dirty_key key = {
		value->name, value->database, kw_values_dirty_flags(expires)};

	if (expires)
		kw_sweep_expiry_set(&source->sweep, value->database);
	note_told(source, value);
	if (!takes_values(source) ||
		!kw_values_add(&source->store.values, value, exactness(source)))
		add_dirty(source, &key, 1);
	kw_turn_want(&source->turn);
}

static bool feed_flushed(void *arg, const struct kw_databases *databases, uint64_t begin)
{
	struct kw_source *source = arg;

	if (!takes_values(source) || !kw_store_flush(&source->store, databases, begin))
		return false;
	kw_sweep_unexplain(&source->sweep, databases);
	kw_found_forget(&source->store.found);
	kw_turn_want(&source->turn);
	return true;
}

static bool feed_swapped(void *arg, const uint32_t databases[2], uint64_t begin)
{
	struct kw_source *source = arg;

	if (!takes_values(source) || exactness(source) == KW_VALUES_INEXACT ||
		!kw_swap(&source->store, &source->scope, databases, begin))
		return false;
	kw_found_forget(&source->store.found);
	kw_sweep_swapped(&source->sweep, databases);
	kw_turn_want(&source->turn);
	return true;
}

static bool feed_empty(void *arg, uint32_t database)
{
	struct kw_source *source = arg;
	struct kw_databases one = {0};
	bool emptied;

	kw_turn_want(&source->turn);
	kw_found_forget(&source->store.found);
	emptied = kw_store_empty(&source->store, database);
	if (emptied && kw_databases_add(&one, database))
		kw_sweep_unexplain(&source->sweep, &one);
	kw_databases_close(&one);
	return emptied;
}

/* A difference by a silent command is none: the feed tells of such keys at a pace of its own. */
static void judge_differences(struct kw_source *source)
{
	struct kw_feed_stats feed;

	kw_feed_stats(source->feed, &feed);
	if (feed.silent_due == 0)
		kw_store_passed(&source->store, source->fresh.told);
}

static void feed_passed(void *arg)
{
	struct kw_source *source = arg;

	kw_source_settle(source);
	assert(kw_source_link_is_up(&source->link));
	kw_trace_passed(&source->trace, kw_clock_us());
	kw_fresh_passed(&source->fresh);
	judge_differences(source);
	kw_turn_want(&source->turn);
}

/* Barriers prove something only once all keys were read, and while none is in doubt. */
static bool may_ask_barrier(const struct kw_source *source)
{
	return kw_source_link_is_up(&source->link) && source->sweep.ended > 0 &&
	       !kw_sweep_is_mending(&source->sweep) && kw_source_chain(source) == KW_CHAIN_WHOLE &&
	       kw_source_fence(source) == KW_FENCE_OPEN && kw_fresh_is_idle(&source->fresh);
}

static bool is_replica(const struct kw_source *source)
{
	return kw_feed_server(source->feed)->upstream != KW_UPSTREAM_NONE;
}

/* As of when the server has what its own primary did: now, unless it is a replica. */
static uint64_t current_as_of(const struct kw_source *source, uint64_t now_us)
{
	uint64_t wall_us = kw_wall_us(), silent_us = 0;

	if (is_replica(source))
		silent_us = now_us - source->heard.us;
	return wall_us > silent_us ? wall_us - silent_us : 1;
}

void kw_source_begin_barrier(void *arg)
{
	struct kw_source *source = arg;
	uint64_t now_us = kw_clock_us();

	if (!may_ask_barrier(source) || (is_replica(source) && source->heard.us == 0))
		return;
	kw_fresh_ask(&source->fresh, current_as_of(source, now_us));
	source->store.barriers = source->fresh.asked;
	kw_trace_asked(&source->trace, now_us);
	kw_ticket_asked(&source->ticket);
	kw_turn_want(&source->turn);
}

/* A replica is asked first when it heard of its primary last. */
void kw_source_ask_barrier(struct kw_source *source)
{
	if (!may_ask_barrier(source))
		return;
	if (is_replica(source))
		kw_heard_ask(&source->heard, kw_clock_us());
	else
		kw_source_begin_barrier(source);
}

static void feed_examined(void *arg)
{
	struct kw_source *source = arg;

	kw_ticket_told(&source->ticket, kw_source_functions_question(&source->functions));
	kw_turn_want(&source->turn);
}

static void feed_functions(void *arg, enum kw_feed_functions what)
{
	struct kw_source *source = arg;

	kw_source_functions_told(&source->functions, what);
	kw_turn_want(&source->turn);
}

static void feed_ordered(void *arg, uint64_t offset)
{
	struct kw_source *source = arg;

	kw_fetch_settle(source->fetch);
	kw_order_told(&source->store.values.order, offset);
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

static void feed_asks_lacking(void *arg, struct kw_databases *databases)
{
	struct kw_source *source = arg;

	kw_store_lacking(&source->store, databases);
}

static void feed_asks_explained(void *arg, struct kw_databases *databases)
{
	const struct kw_source *source = arg;

	kw_databases_merge(databases, &source->sweep.explained);
}

static bool feed_asks_mends(void *arg)
{
	const struct kw_source *source = arg;

	return kw_sweep_is_mending(&source->sweep);
}

static void feed_explains(void *arg, const struct kw_databases *databases)
{
	struct kw_source *source = arg;

	kw_found_forget(&source->store.found);
	if (source->sweep.kind != KW_SWEEP_NONE)
		kw_sweep_explain(&source->sweep, databases);
	kw_turn_want(&source->turn);
}

static void feed_unexplains(void *arg, const struct kw_databases *databases)
{
	struct kw_source *source = arg;

	kw_sweep_unexplain(&source->sweep, databases);
}

static bool feed_asks_lacked(void *arg, uint64_t before_us)
{
	const struct kw_source *source = arg;

	return kw_sweep_is_held(&source->sweep) && source->sweep.brake.held_us < before_us;
}

static bool feed_asks_may_write(void *arg)
{
	return kw_source_may_write(arg);
}

struct kw_feed_handlers kw_source_hears_feed(struct kw_source *source)
{
	return (struct kw_feed_handlers){feed_ready, feed_dirty, feed_value, feed_flushed,
		feed_swapped, feed_empty, kw_source_doubt, feed_passed, feed_examined, feed_ordered,
		feed_lost, feed_stopped, feed_wants_turn, feed_asks_held, feed_asks_lacking,
		feed_asks_explained, feed_asks_mends, feed_explains, feed_unexplains,
		feed_asks_lacked, feed_asks_may_write, feed_functions, source};
}
