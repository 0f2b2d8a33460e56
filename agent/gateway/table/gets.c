#include "gets_internal.h"

#include "base/buffer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 50
#define LOOK_EACH_US (KW_GETS_LOOK_US / 2)
#define BATCH 16   /* lookups that are approached before the first of them begins */
#define BRISK_MS 1 /* while questions are under way */
#define REPORT_US 1000000
#define ROOM (UINT64_C(1) << 20) /* the near cache takes records as they come */
#define OPEN_PARTS 5             /* follow, scouts, tick, brisk, step */

static bool is_busy(const struct kw_gets *gets)
{
	return gets->waiting.first || gets->looked.first || gets->again.first ||
	       gets->watch_until_us > 0;
}

/* ---- lookups ---- */

static void start_waiting(struct kw_gets *gets);

static bool is_sure(const struct kw_lookup_result *result)
{
	return result->outcome == KW_LOOKUP_FOUND || result->outcome == KW_LOOKUP_ABSENT ||
	       result->outcome == KW_LOOKUP_TOO_LARGE;
}

/* Its lookup is over. Returns the questions of the same key that wait for it. */
static struct kw_question *land(struct kw_gets *gets, struct kw_question *question)
{
	kw_questions_take_out(&gets->looked, question);
	return kw_flights_land(&gets->flights, question);
}

static void try_again(struct kw_gets *gets, struct kw_question *question)
{
	gets->stats.again++;
	kw_questions_push(&gets->again, question);
}

static void on_looked_up(void *arg, const struct kw_lookup_result *result)
{
	struct kw_question *question = arg, *joined;
	struct kw_gets *gets = question->gets;
	struct kw_sight_verdict verdict;

	joined = land(gets, question);
	verdict = kw_gets_judge(gets, kw_gets_turn_us(gets), question->fresh_us);
	if (is_sure(result) && verdict.state == KW_GATEWAY_SERVING) {
		kw_gets_tell_found(gets, question, joined, result, verdict.age_us);
		start_waiting(gets);
		return;
	}
	/* Another try, by the newest look; or that look says that it is no use (start_waiting). */
	try_again(gets, question);
	while ((question = joined)) {
		joined = joined->next;
		try_again(gets, question);
	}
}

static void begin_lookup(struct kw_gets *gets, struct kw_question *question)
{
	question->fresh_us = gets->follow.superblock.fresh_us;
	question->looked_us = gets->follow.superblock_begun_us;
	kw_questions_push(&gets->looked, question);
	kw_flights_add(&gets->flights, question);
	if (gets->near.cache)
		question->ticket = kw_cache_ticket(gets->near.cache);
	kw_lookups_begin(gets->lookups, question->database, question->key, on_looked_up, question);
}

/* False: there is no room for another lookup. It is on the waiting list, at its front. */
static bool start(struct kw_gets *gets, struct kw_question *question)
{
	struct kw_question *leader = kw_flights_find(&gets->flights, question);

	if (!leader && !kw_lookups_have_room(gets->lookups))
		return false;
	kw_questions_take_out(&gets->waiting, question);
	if (leader)
		kw_flights_join(&gets->flights, leader, question);
	else
		begin_lookup(gets, question);
	return true;
}

/* ---- questions ---- */

/* The next ones that wait will be looked up at once. */
static void approach_waiting(const struct kw_gets *gets)
{
	const struct kw_question *question = gets->waiting.first;

	for (int i = 0; question && i < BATCH; i++, question = question->next)
		kw_lookups_approach(gets->lookups, question->database, question->key);
}

/* Those for which the newest look counts. For the others a look is under way. */
static void begin_waiting(struct kw_gets *gets)
{
	const uint64_t looked_us = gets->follow.superblock_begun_us;
	struct kw_question *question;

	for (uint32_t begun = 0; (question = gets->waiting.first); begun++) {
		if (begun % BATCH == 0)
			approach_waiting(gets);
		if (!kw_gets_is_proved(looked_us, question->asked_us) || !start(gets, question))
			return;
	}
}

/* Begin what may be begun, tell what the sight does not allow. */
static void start_waiting(struct kw_gets *gets)
{
	struct kw_sight_verdict verdict;

	if (!gets->waiting.first)
		return;
	verdict = kw_gets_judge(gets, kw_gets_turn_us(gets), 0);
	if (verdict.state == KW_GATEWAY_SERVING) {
		begin_waiting(gets);
		return;
	}
	while (gets->waiting.first && kw_gets_may_refuse(gets))
		kw_gets_tell_verdict(gets, kw_questions_pop(&gets->waiting), &verdict);
}

void kw_gets_ask(struct kw_gets *gets, struct kw_question *question)
{
	question->gets = gets;
	question->asked_us = kw_gets_turn_us(gets);
	question->seen_us = gets->follow.superblock_begun_us;
	gets->stats.asked++;
	kw_questions_push(&gets->waiting, question);
}

static void on_brisk(uv_timer_t *timer);

void kw_gets_watch(struct kw_gets *gets, uint64_t until_us)
{
	if (until_us > gets->watch_until_us)
		gets->watch_until_us = until_us;
}

/*
 * The newest look will soon be too old for what waits, or is: look, before the lookups. A carrier
 * that copies has that look's bytes first, so the lookups that count on it begin in the same turn.
 */
static void look(struct kw_gets *gets)
{
	uint64_t now_us;

	if (!kw_follow_up(&gets->follow) ||
		(!gets->waiting.first && !gets->again.first && gets->watch_until_us == 0))
		return;
	now_us = kw_gets_turn_us(gets);
	if (now_us > gets->follow.superblock_begun_us + LOOK_EACH_US &&
		gets->follow.probed_us == 0) {
		gets->stats.looks++;
		kw_follow_look(&gets->follow, now_us);
	}
}

void kw_gets_post(struct kw_gets *gets)
{
	kw_gets_tell_near(gets);
	if (gets->waiting.first) {
		look(gets);
		start_waiting(gets);
		kw_lookups_post(gets->lookups);
	}
	gets->turn_us = 0;
	if (is_busy(gets) && !uv_is_active((uv_handle_t *)&gets->brisk) && !gets->closing)
		uv_timer_start(&gets->brisk, on_brisk, BRISK_MS, BRISK_MS);
}

/* All of them, as the sight says now. The lookups were stopped. */
static void tell_all(struct kw_gets *gets)
{
	struct questions *const lists[] = {&gets->again, &gets->waiting};
	struct kw_sight_verdict verdict = kw_gets_judge(gets, kw_clock_us(), 0);
	struct kw_question *question;

	assert(verdict.state != KW_GATEWAY_SERVING);
	while ((question = gets->looked.first)) {
		struct kw_question *joined = land(gets, question);

		kw_questions_push(&gets->again, question);
		while ((question = joined)) {
			joined = joined->next;
			kw_questions_push(&gets->again, question);
		}
	}
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		while ((question = kw_questions_pop(lists[i])))
			kw_gets_tell_verdict(gets, question, &verdict);
}

static void tell_overdue(struct kw_gets *gets, uint64_t now_us)
{
	struct questions *const lists[] = {&gets->again, &gets->waiting};

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		uint32_t left = lists[i]->count;
		struct kw_question *question;

		while (left-- > 0 && (question = kw_questions_pop(lists[i]))) {
			if (now_us - question->asked_us > KW_GETS_DEADLINE_US)
				kw_gets_tell_late(gets, question);
			else
				kw_questions_push(lists[i], question);
		}
	}
}

/* The proxy hangs, and the table is too old by now: what was read for lookups will not come. */
static void give_up_lookups(struct kw_gets *gets)
{
	if (!gets->looked.first || !kw_gets_look_is_late(gets) ||
		kw_gets_judge(gets, kw_gets_turn_us(gets), 0).state == KW_GATEWAY_SERVING)
		return;
	kw_lookups_stop(gets->lookups);
	tell_all(gets);
}

static void on_brisk(uv_timer_t *timer)
{
	struct kw_gets *gets = timer->data;
	uint32_t again;

	gets->turn_us = 0;
	kw_reads_tick(&gets->reads);
	kw_lookups_tick(gets->lookups);
	tell_overdue(gets, kw_gets_turn_us(gets));
	give_up_lookups(gets);
	if (gets->watch_until_us <= kw_gets_turn_us(gets))
		gets->watch_until_us = 0;
	look(gets);
	for (again = gets->again.count; again > 0; again--)
		kw_questions_push(&gets->waiting, kw_questions_pop(&gets->again));
	start_waiting(gets);
	kw_lookups_post(gets->lookups);
	if (!is_busy(gets))
		uv_timer_stop(&gets->brisk);
	gets->turn_us = 0;
}

/* ---- the table that is followed ---- */

static void report(struct kw_gets *gets, uint64_t now_us)
{
	const struct kw_lookups_stats *lookups = kw_lookups_stats(gets->lookups);
	struct kw_sight_verdict verdict = kw_gets_judge(gets, now_us, 0);
	struct kw_remote_progress progress = {
		.passed = gets->follow.superblock.version,
		.applied = gets->follow.superblock.version,
		.lag_us = verdict.age_us,
		.reads = lookups->reads + gets->stats.looks,
		.bytes = lookups->bytes + gets->stats.looks * sizeof(struct kw_superblock),
	};

	snprintf(progress.state, sizeof progress.state, "%s", kw_gateway_state_name(verdict.state));
	gets->reported_us = now_us;
	kw_follow_report(&gets->follow, &progress);
}

static void on_tick(uv_timer_t *timer)
{
	struct kw_gets *gets = timer->data;
	uint64_t now_us = kw_clock_us();

	kw_reads_tick(&gets->reads);
	if (gets->closing)
		return;
	kw_follow_tick(&gets->follow, now_us);
	kw_scouts_tick(&gets->scouts, now_us);
	kw_near_step(&gets->near, now_us);
	kw_gets_evaluate(gets, now_us);
	if (kw_follow_up(&gets->follow) && now_us - gets->reported_us >= REPORT_US)
		report(gets, now_us);
}

static void on_link(void *arg, bool up)
{
	struct kw_gets *gets = arg;

	kw_lookups_stop(gets->lookups);
	kw_near_link(&gets->near);
	/* While it is down the clock goes on: so the age of the table grows. */
	if (up)
		gets->clock = (struct kw_proxy_clock){0};
	else
		tell_all(gets);
	kw_gets_evaluate(gets, kw_clock_us());
}

/* Of tables that were not confirmed there is no term, and yet they had a mandate. */
static enum kw_term_standing standing_of(const struct kw_gets *gets, const struct kw_history *table)
{
	enum kw_term_standing standing = kw_term_judge(&gets->term, table);

	return standing == KW_TERM_UNASKED && gets->had_mandate ? KW_TERM_UNFENCED : standing;
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct kw_gets *gets = arg;
	const struct kw_follow *follow = &gets->follow;

	/* A pass of the reader's can end after a look that began later, and knows more. */
	if (superblock->publication < follow->superblock.publication &&
		superblock->epoch == follow->superblock.epoch)
		return;
	gets->term = kw_term_raised(&gets->term, &follow->history);
	gets->standing = standing_of(gets, &follow->history);
	gets->had_mandate |= gets->standing != KW_TERM_UNASKED;
	kw_proxy_clock_learn(&gets->clock, superblock->heartbeat_us, follow->superblock_begun_us,
		follow->superblock_us);
	kw_lookups_seen(gets->lookups, superblock);
	kw_near_superblock(&gets->near, superblock);
	start_waiting(gets);
	kw_lookups_post(gets->lookups);
}

/* ---- the log, for near values; without them the reader is never started ---- */

static void on_step(uv_idle_t *step)
{
	struct kw_gets *gets = step->data;

	uv_idle_stop(step);
	if (!gets->closing)
		kw_near_step(&gets->near, kw_clock_us());
}

static void on_due(void *arg)
{
	struct kw_gets *gets = arg;

	if (!gets->closing)
		uv_idle_start(&gets->step, on_step);
}

static void on_snapshot(void *arg, uint64_t epoch, uint64_t version)
{
	(void)arg;
	(void)epoch;
	(void)version;
	assert(!"near values begin at a cursor");
}

static void on_records(void *arg, const struct kw_record_view *records, size_t count)
{
	kw_near_records(&((struct kw_gets *)arg)->near, records, count);
}

static uint64_t room(void *arg)
{
	(void)arg;
	return ROOM;
}

static void on_pass_done(void *arg, const struct kw_reader_pass *pass)
{
	kw_near_pass_done(&((struct kw_gets *)arg)->near, pass);
}

/* It does not see another segment: only a pass counts. */
static void on_look_done(void *arg, bool found)
{
	(void)arg;
	(void)found;
}

static void on_lapsed(void *arg, const char *why)
{
	kw_near_lapsed(&((struct kw_gets *)arg)->near, why);
}

static void on_reader_failed(void *arg, const struct kw_error *error)
{
	kw_near_lapsed(&((struct kw_gets *)arg)->near, error->text);
}

static struct kw_remote *remote_of(void *arg)
{
	const struct kw_gets *gets = arg;

	return kw_follow_up(&gets->follow) ? gets->follow.remote : NULL;
}

/* ---- begin and end ---- */

static void part_closed(struct kw_gets *gets)
{
	struct kw_gets_handlers handlers = gets->handlers;

	if (--gets->open > 0)
		return;
	kw_lookups_free(gets->lookups);
	kw_near_close(&gets->near);
	kw_reads_close(&gets->reads);
	free(gets);
	handlers.closed(handlers.arg);
}

static void on_judge(void *arg, const struct kw_history *table, struct kw_choice *choice)
{
	const struct kw_gets *gets = arg;
	const struct kw_term *term = &gets->term;
	enum kw_term_standing standing = standing_of(gets, table);

	choice->confirmed = standing == KW_TERM_CURRENT;
	choice->allowed = choice->confirmed || standing == KW_TERM_UNASKED;
	choice->same_domain = term->domain == 0 || term->domain == table->domain;
	choice->term = choice->confirmed ? table->term : 0;
}

/* Nothing of the present table must be applied anywhere. */
static bool is_level(void *arg)
{
	(void)arg;
	return true;
}

static void on_scouts_closed(void *arg)
{
	part_closed(arg);
}

static void open_scouts(struct kw_gets *gets)
{
	const struct kw_scouts_handlers handlers = {
		.judge = on_judge,
		.level = is_level,
		.closed = on_scouts_closed,
		.arg = gets,
	};

	kw_scouts_init(&gets->scouts, &gets->follow, &gets->options.proxies, &gets->options.follow,
		&handlers);
}

int kw_gets_new(const struct kw_gets_options *options, const struct kw_gets_handlers *handlers,
	struct kw_gets **made, struct kw_error *error)
{
	const struct kw_lookups_options lookups = {.depth = options->depth,
		.places = options->places,
		.max_value_bytes = options->max_value_bytes};
	struct kw_gets *gets = kw_zalloc(sizeof *gets);
	const struct kw_follow_handlers follow = {on_link, on_due, NULL, gets};
	const struct kw_reader_sink sink = {
		.snapshot_begin = on_snapshot,
		.records = on_records,
		.room = room,
		.superblock = on_superblock,
		.pass_done = on_pass_done,
		.look_done = on_look_done,
		.lapsed = on_lapsed,
		.failed = on_reader_failed,
		.arg = gets,
	};
	struct kw_lookups_io io;
	int code;

	gets->options = *options;
	gets->options.follow.loop = options->loop;
	gets->options.follow.idle_us = kw_near_pause_us(options->coherence_ms);
	gets->handlers = *handlers;
	code = kw_proxies_check(&options->proxies, error);
	if (!code)
		code = kw_follow_init(&gets->follow, options->proxies.address[0],
			&gets->options.follow, &follow, &sink, error);
	if (code) {
		free(gets);
		return code;
	}
	open_scouts(gets);
	kw_near_init(&gets->near, &gets->follow, options->cache_bytes, options->coherence_ms);
	kw_reads_init(&gets->reads, remote_of, gets);
	io = kw_reads_lookups_io(&gets->reads);
	gets->lookups = kw_lookups_new(&lookups, &io);
	uv_timer_init(options->loop, &gets->tick);
	uv_timer_init(options->loop, &gets->brisk);
	uv_idle_init(options->loop, &gets->step);
	gets->tick.data = gets->brisk.data = gets->step.data = gets;
	uv_timer_start(&gets->tick, on_tick, 0, TICK_MS);
	snprintf(gets->too_large, sizeof gets->too_large,
		"the value of this key takes more than gateway.max_value_bytes (%" PRIu64
		"): read it from the primary itself, or raise the key",
		options->max_value_bytes);
	gets->told.reason = KW_SIGHT_NONE; /* the first evaluation tells */
	*made = gets;
	return KW_OK;
}

/* Each READ was told back, but for those that found no connection. */
static void on_follow_closed(void *arg)
{
	struct kw_gets *gets = arg;

	kw_reads_tick(&gets->reads);
	assert(gets->reads.outstanding == 0);
	part_closed(gets);
}

static void on_handle_closed(uv_handle_t *handle)
{
	part_closed(handle->data);
}

void kw_gets_close(struct kw_gets *gets)
{
	assert(!gets->closing);
	gets->closing = true;
	gets->open = OPEN_PARTS;
	gets->follow.handlers.closed = on_follow_closed;
	kw_lookups_stop(gets->lookups);
	uv_close((uv_handle_t *)&gets->tick, on_handle_closed);
	uv_close((uv_handle_t *)&gets->brisk, on_handle_closed);
	uv_close((uv_handle_t *)&gets->step, on_handle_closed);
	kw_follow_close(&gets->follow);
	kw_scouts_close(&gets->scouts);
	tell_all(gets);
}

void kw_gets_set_max_staleness(struct kw_gets *gets, uint32_t max_staleness_ms)
{
	gets->options.max_staleness_ms = max_staleness_ms;
}

void kw_gets_set_coherence(struct kw_gets *gets, uint32_t coherence_ms)
{
	kw_near_set_coherence(&gets->near, coherence_ms);
	kw_follow_set_pace(&gets->follow, kw_near_pause_us(coherence_ms), false);
}

void kw_gets_set_key(struct kw_gets *gets, const char *id, struct kw_slice secret)
{
	kw_follow_set_key(&gets->follow, id, secret);
	kw_scouts_set_key(&gets->scouts, id, secret);
}

int kw_gets_retarget(struct kw_gets *gets, const struct kw_proxies *proxies, struct kw_error *error)
{
	return kw_scouts_retarget(&gets->scouts, proxies, error);
}

const struct kw_scouts *kw_gets_scouts(const struct kw_gets *gets)
{
	return &gets->scouts;
}

const struct kw_follow *kw_gets_follow(const struct kw_gets *gets)
{
	return &gets->follow;
}

void kw_gets_stats(const struct kw_gets *gets, struct kw_gets_stats *stats)
{
	const struct kw_lookups_stats *lookups = kw_lookups_stats(gets->lookups);
	const struct kw_reader_stats *reader = kw_reader_stats(gets->follow.reader);
	const uint64_t found = gets->stats.told[KW_GOT_VALUE];
	uint64_t other;

	*stats = gets->stats;
	if (gets->near.cache)
		kw_cache_stats(gets->near.cache, &stats->near);
	stats->by_place = lookups->guesses - lookups->misses;
	other = stats->by_place + stats->near.hits + stats->shared;
	stats->by_slots = found > other ? found - other : 0;
	stats->reads = lookups->reads + stats->looks + reader->reads;
	stats->bytes = lookups->bytes + stats->looks * sizeof(struct kw_superblock) + reader->bytes;
	stats->waiting = gets->waiting.count + gets->again.count + gets->flights.joined;
	stats->looked_up = gets->looked.count;
}

const struct kw_lag *kw_gets_staleness(const struct kw_gets *gets)
{
	return &gets->staleness;
}

uint64_t kw_gets_staleness_us(const struct kw_gets *gets, double share)
{
	return kw_lag_quantile_us(&gets->staleness, share);
}
