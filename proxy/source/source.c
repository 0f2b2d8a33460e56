#include "source/source.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"
#include "source/history.h"
#include "source/options.h"
#include "source/source_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* What closing waits for: the link, the turn, the pauses and the timers. */
#define PARTS_TO_CLOSE (3 + KW_SOURCE_TIMERS)

/* The state that is told outside. */

enum kw_chain kw_source_chain(const struct kw_source *source)
{
	enum kw_server_upstream upstream;

	if (!kw_source_link_is_up(&source->link))
		return KW_CHAIN_WHOLE;
	upstream = kw_feed_server(source->feed)->upstream;
	if (kw_upstream_is_well(upstream))
		return KW_CHAIN_WHOLE;
	return upstream == KW_UPSTREAM_SILENT ? KW_CHAIN_SILENT : KW_CHAIN_CUT;
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
		.kept = kw_table_is_kept(source->table),
		.missing = source->sweep.brake.finding.missing,
		.whole = kw_brake_whole(&source->sweep.brake.finding),
		.max_missing = source->sweep.brake.share,
		.waiting = kw_store_waiting(&source->store),
		.unreadable = source->unreadable.keys.count,
		.too_large = source->store.too_large.count,
		.chain = kw_source_chain(source),
		.script = script_of(source),
		.silent_s = kw_silence_seconds(&source->silence),
		.mandate = kw_source_mandate(source),
		.fence = kw_source_fence(source),
		.stands_by = kw_source_stands_by(source),
		.beyond = source->sweep.beyond,
	};
}

void kw_source_tell_table(struct kw_source *source)
{
	const struct kw_server_identity *identity =
		source->link.ups > 0 ? kw_feed_server(source->feed) : NULL;
	const struct kw_table_facts *before = kw_table_facts(source->table);
	uint16_t rdb_version = kw_fetch_rdb_version(source->fetch);

	if (identity) {
		kw_source_history_told(&source->history, identity);
		kw_source_history_server(
			&source->history, identity, kw_feed_databases(source->feed));
	}
	if (source->options.mandate)
		kw_mandate_tell(
			source->options.mandate, &source->history, kw_table_version(source->table));
	kw_table_set_history(source->table, &source->history);
	if (rdb_version == 0 && identity)
		rdb_version = kw_server_rdb_version(identity);
	if (rdb_version == 0)
		rdb_version = before->rdb_version;
	kw_table_set_facts(source->table,
		&(struct kw_table_facts){
			.source_state = (enum kw_source_state)source->state.sm.state,
			.complete = source->state.completeness == KW_COMPLETENESS_COMPLETE,
			.rdb_version = rdb_version,
			.ticket = source->ticket.number,
			.fresh_us = source->fresh.fresh_us,
			.source_id = identity ? kw_server_id(identity) : before->source_id,
		});
}

static void update_state(struct kw_source *source)
{
	const struct kw_facts facts = facts_of(source);
	const struct kw_error *refused = kw_table_refused(source->table);
	/* Where the primary is was not told yet: who shall tell it says why. */
	const bool nowhere = source->options.follow_scheme && !source->options.redis.address[0];
	const struct kw_claim_words words = {
		.down = nowhere ? source->options.mandate->why : source->link.down.text,
		.refused = refused ? refused->text : NULL,
		.sweep = source->sweep.why,
		.mandate = source->options.mandate ? source->options.mandate->why : "",
	};

	if (!kw_state_update(&source->state, &facts, &words))
		return;
	kw_source_tell_table(source);
	if (source->handlers.state)
		source->handlers.state(
			source->handlers.arg, kw_source_state(source), source->state.reason);
}

/* Agents find by it what a failover has lost. */
static bool is_looked_at(struct kw_source *source)
{
	return source->options.mandate && source->link.ups > 0 &&
	       kw_source_history_looked(&source->history, &source->look,
		       kw_feed_server(source->feed), kw_table_version(source->table));
}

void kw_source_confirm(struct kw_source *source)
{
	bool looked;

	if (source->parts_open > 0)
		return;
	looked = is_looked_at(source);
	if (kw_source_judge(source))
		update_state(source);
	else if (!looked)
		return;
	kw_source_tell_table(source);
}

/* The loop turn. */

static uint64_t earliest(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Nothing is read from the server, but the feed goes on. */
static uint64_t idle_turn_us(struct kw_source *source, uint64_t now_us)
{
	return earliest(
		kw_feed_ready_us(source->feed, now_us), kw_data_ready_us(&source->link.data));
}

static uint64_t next_turn_us(struct kw_source *source, uint64_t now_us)
{
	uint64_t next_us = kw_fetch_ready_us(source->fetch, now_us);

	next_us = earliest(next_us, kw_sweep_ready_us(&source->sweep, now_us));
	next_us = earliest(next_us, kw_source_functions_ready_us(&source->functions));
	next_us = earliest(next_us, source->unreadable.retry_us);
	next_us = earliest(next_us, idle_turn_us(source, now_us));
	return earliest(next_us, kw_store_ready_us(&source->store));
}

/*
 * While a replica has lost its own primary its data can be emptied or replaced at any moment, and
 * nothing is read from it. A sweep that was under way then begins anew. If the data were replaced,
 * the feed tells a doubt about it, and a break without that costs nothing. Nor does a silence: the
 * link stands, and the data with it. What is remembered is therefore the worst since it was whole.
 */
static void follow_chain(struct kw_source *source)
{
	enum kw_chain chain = kw_source_chain(source), before = source->chain;

	if (chain == before || (before == KW_CHAIN_CUT && chain == KW_CHAIN_SILENT))
		return;
	source->chain = chain;
	if (chain != KW_CHAIN_WHOLE && source->sweep.kind == KW_SWEEP_AUDIT)
		kw_sweep_stop(&source->sweep);
	else if (before == KW_CHAIN_CUT && kw_sweep_is_mending(&source->sweep))
		kw_source_doubt(source, KW_DOUBT_LOADED, NULL,
			"the server followed has its own primary again, and may have its data "
			"anew");
}

/* What was fetched since the last offset lies between that and the next one. */
static void ask_order(struct kw_source *source)
{
	struct kw_order *order = &source->store.values.order;

	if (!kw_order_is_due(order) || kw_data_is_broken(&source->link.data))
		return;
	kw_feed_order(source->feed);
	kw_order_asked(order);
}

/* A ticket goes on when the libraries that its examination told of are in the table. */
static void read_functions(struct kw_source *source, uint64_t now_us)
{
	kw_source_functions_turn(&source->functions, now_us);
	if (!kw_ticket_is_reading(&source->ticket) ||
		!kw_source_functions_has(&source->functions, source->ticket.question))
		return;
	kw_ticket_examined(&source->ticket);
	kw_source_ask_barrier(source);
}

/* A ticket that the barrier does not cover, because it began earlier, has the next one at once. */
static void pass_barrier(struct kw_source *source)
{
	if (kw_fresh_turn(&source->fresh)) {
		if (kw_ticket_passed(&source->ticket) && source->handlers.ticket_passed)
			source->handlers.ticket_passed(source->handlers.arg);
		kw_source_tell_table(source);
	}
	if (kw_ticket_wants_barrier(&source->ticket))
		kw_source_ask_barrier(source);
}

/* Whose data the server has is known, and by the word of those who must confirm it. */
static bool may_read(void *arg)
{
	struct kw_source *source = arg;

	return source->chain == KW_CHAIN_WHOLE && kw_source_fence(source) != KW_FENCE_CLOSED;
}

static void work(struct kw_source *source, uint64_t now_us)
{
	bool was_held;

	assert(kw_source_link_is_up(&source->link) && source->link.data.redis);
	kw_feed_let_wait(source->feed, kw_pace_lets_wait(&source->pacing.pace, now_us));
	follow_chain(source);
	if (!may_read(source)) {
		kw_redis_flush(source->link.data.redis);
		kw_turn_next(&source->turn, idle_turn_us(source, now_us), now_us);
		return;
	}
	kw_store_unpark(&source->store, now_us);
	kw_unreadable_retry(&source->unreadable, source->dirty, now_us);
	was_held = kw_sweep_is_held(&source->sweep);
	kw_sweep_turn(&source->sweep, now_us);
	if (!was_held && kw_sweep_is_held(&source->sweep))
		kw_feed_look(source->feed); /* flushes that are counted later explain nothing */
	read_functions(source, now_us);
	ask_order(source);
	kw_fetch_pump(source->fetch, now_us);
	pass_barrier(source);
	if (!kw_data_is_broken(&source->link.data)) {
		kw_redis_flush(source->link.data.redis);
		kw_turn_next(&source->turn, next_turn_us(source, now_us), now_us);
	}
}

/* A promotion that goes on raises no doubt, but its data have another history from now on. */
static void follow_history(struct kw_source *source)
{
	if (kw_source_link_is_up(&source->link) && source->history.standing == KW_HISTORY_TOLD &&
		strcmp(source->history.replid, kw_feed_server(source->feed)->replid) != 0)
		kw_source_tell_table(source);
}

static void look_at_trace(struct kw_source *source, uint64_t now_us)
{
	kw_trace_look(&source->trace, source->dirty, kw_table_unpublished(source->table), now_us);
}

void kw_source_published(struct kw_source *source)
{
	if (source->trace.stored > 0)
		kw_trace_published(&source->trace, kw_clock_us());
}

/* True: what is told of it changes. It is looked at in each turn, because nothing wakes for it. */
static bool is_silence_told_otherwise(struct kw_source *source, uint64_t now_us)
{
	uint64_t since_us = UINT64_MAX;

	if (kw_source_link_is_up(&source->link))
		since_us = earliest(kw_redis_silent_since(source->link.data.redis),
			kw_feed_silent_since(source->feed));
	kw_silence_look(&source->silence, since_us, now_us);
	return kw_silence_seconds(&source->silence) != source->state.facts.silent_s;
}

/* Once a loop turn, after all input of the turn was taken. */
static void on_turn(void *arg)
{
	struct kw_source *source = arg;
	bool wanted = kw_turn_take(&source->turn);
	uint64_t now_us = kw_clock_us();

	wanted |= is_silence_told_otherwise(source, now_us);
	if (!wanted && source->answers == source->link.data.answers)
		return;
	source->answers = source->link.data.answers;
	kw_table_set_time(source->table, now_us);
	kw_source_confirm(source); /* a term is told before its first record */
	follow_history(source);
	kw_store_settle(&source->store);
	look_at_trace(source, now_us);
	kw_data_turn(&source->link.data, now_us);
	kw_feed_turn(source->feed, now_us);
	if (kw_source_link_is_up(&source->link))
		work(source, now_us);
	else
		kw_turn_next(&source->turn, idle_turn_us(source, now_us), now_us);
	if (source->trace.followed > 0)
		look_at_trace(source, kw_clock_us());
	kw_trace_next_turn(&source->trace);
	update_state(source);
	kw_source_comparison_turn(source);
}

static void on_watching(uv_timer_t *timer)
{
	struct kw_source *source = timer->data;

	if (kw_source_link_is_up(&source->link))
		kw_feed_look(source->feed);
}

/* A replica is asked during a sweep as well: an operator is told how long its primary is silent. */
static void on_freshening(uv_timer_t *timer)
{
	struct kw_source *source = timer->data;

	if (kw_source_link_is_up(&source->link) &&
		kw_feed_server(source->feed)->upstream != KW_UPSTREAM_NONE)
		kw_heard_ask(&source->heard, kw_clock_us());
	else
		kw_source_ask_barrier(source);
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
	const struct kw_feed_handlers handlers = kw_source_hears_feed(source);
	struct kw_feed_options options = {
		.loop = loop,
		.address = source->options.redis.address,
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

static uint64_t primary_ms(const struct kw_source *source)
{
	struct kw_feed_stats feed;

	kw_feed_stats(source->feed, &feed);
	return (uint64_t)((int64_t)kw_wall_us() + feed.clock_skew_us) / 1000;
}

static uint64_t sweep_asks_ms(void *arg)
{
	return primary_ms(arg);
}

static bool audits(const struct kw_source *source)
{
	return source->sweep.kind == KW_SWEEP_AUDIT;
}

static void init_reading(struct kw_source *source, uv_loop_t *loop, uint64_t seed)
{
	const struct kw_source_options *options = &source->options;
	const struct kw_source_link_handlers link = {
		kw_source_link_came_up, kw_source_link_went_down, kw_source_part_closed, source};
	struct kw_fetch_handlers fetch;

	source->dirty = kw_dirty_new(seed);
	kw_source_link_init(&source->link, loop, &options->redis, &link);
	kw_pacing_init(&source->pacing, &source->link.data, options->redis.address,
		options->primary_share, kw_clock_us());
	kw_unreadable_init(&source->unreadable, options->unreadable_pause_ms, seed);
	kw_store_init(&source->store, source->table, source->dirty, &source->unreadable, seed);
	source->store.fence = kw_source_fence_now;
	source->store.primary_ms = primary_ms;
	source->store.audits = audits;
	source->store.found.watch_us = (uint64_t)options->watch_interval_ms * 1000;
	source->store.source = source;
	fetch = kw_store_handlers(&source->store);
	source->fetch = kw_fetch_new(&source->link.data, source->dirty, options->window, &fetch);
	kw_fetch_set_pace(source->fetch, &source->pacing.pace);
	source->store.fetch = source->fetch;
}

static void init_parts(struct kw_source *source, uv_loop_t *loop)
{
	uint64_t seed = hash_seed(source);

	init_reading(source, loop, seed);
	kw_sweep_init(&source->sweep, &(struct kw_sweep_parts){
					      .data = &source->link.data,
					      .table = source->table,
					      .store = &source->store,
					      .fresh = &source->fresh,
					      .dirty = source->dirty,
					      .pace = &source->pacing.pace,
					      .scope = &source->scope,
					      .window = source->options.window,
					      .ended = kw_source_sweep_ended,
					      .may_read = may_read,
					      .primary_ms = sweep_asks_ms,
					      .arg = source,
				      });
	make_feed(source, loop, seed);
	kw_fresh_init(&source->fresh, source->dirty, source->feed);
	kw_heard_init(&source->heard, &source->link.data, kw_source_begin_barrier, source);
	kw_ticket_init(&source->ticket);
	kw_source_functions_init(&source->functions, source->options.functions, &source->link.data,
		source->table, source->options.redis.username);
	kw_trace_init(&source->trace, seed, kw_clock_us());
	kw_turn_init(&source->turn, loop, on_turn, source);
	kw_source_pauses_init(source);
	for (int i = 0; i < KW_SOURCE_TIMERS; i++) {
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
	kw_redial_init(&source->redial);
	if (kw_table_is_kept(table))
		kw_source_go_on(source);
	kw_sweep_set_max_missing(&source->sweep, source->options.max_missing);
	kw_source_set_limits(source, options->keys_per_second, options->bytes_per_second,
		options->audit_keys_per_second);
	kw_source_tell_table(source);
	*result = source;
	return KW_OK;
}

void kw_source_start(struct kw_source *source)
{
	uint64_t watch_ms = source->options.watch_interval_ms;
	uint64_t fresh_ms = source->options.fresh_interval_ms;
	uint64_t pace_ms = KW_PACE_LOOK_US / 1000;

	kw_turn_start(&source->turn);
	uv_timer_start(&source->timers[KW_SOURCE_WATCHING], on_watching, watch_ms, watch_ms);
	uv_timer_start(&source->timers[KW_SOURCE_FRESHENING], on_freshening, fresh_ms, fresh_ms);
	uv_timer_start(&source->timers[KW_SOURCE_PACING], on_pacing, pace_ms, pace_ms);
	kw_source_link_open(&source->link);
}

/* Closing. */

static void free_source(struct kw_source *source)
{
	kw_feed_free(source->feed);
	kw_source_pauses_free(&source->pauses);
	kw_sweep_close(&source->sweep);
	kw_fetch_free(source->fetch);
	kw_store_close(&source->store);
	kw_unreadable_close(&source->unreadable);
	kw_dirty_free(source->dirty);
	kw_source_options_close(&source->options, &source->scope);
	free(source);
}

void kw_source_part_closed(void *owner)
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
	kw_source_part_closed(handle->data);
}

void kw_source_close(struct kw_source *source, void (*done)(void *arg), void *arg)
{
	assert(source->parts_open == 0);
	source->parts_open = PARTS_TO_CLOSE;
	source->closed = done;
	source->closed_arg = arg;
	kw_turn_close(&source->turn, kw_source_part_closed);
	for (int i = 0; i < KW_SOURCE_TIMERS; i++)
		uv_close((uv_handle_t *)&source->timers[i], timer_closed);
	kw_source_comparison_end(source);
	if (kw_source_pauses_end(source))
		kw_source_part_closed(source);
	kw_source_link_close(&source->link);
}
