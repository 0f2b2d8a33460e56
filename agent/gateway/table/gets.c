#include "gets.h"

#include "clock.h"
#include "near.h"
#include "sync/lag.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "table/lookup.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TICK_MS 50
#define LOOK_EACH_US (KW_GETS_LOOK_US / 2)
#define BRISK_MS 1 /* while questions are under way */
#define REPORT_US 1000000
#define ROOM (UINT64_C(1) << 20) /* the near cache takes records as they come */
#define NEAR_BATCH 32            /* questions whose near values are loaded at once */
#define OPEN_PARTS 4             /* follow, tick, brisk, step */

struct questions {
	struct kw_question *first, *last;
	uint32_t count;
};

struct kw_gets {
	struct kw_gets_options options;
	struct kw_gets_handlers handlers;
	struct kw_follow follow;
	struct kw_near near;
	struct kw_reads reads;
	struct kw_lookups *lookups;
	struct kw_proxy_clock clock;
	struct questions waiting, looked, again;
	struct kw_sight_verdict told; /* the last that handlers.state was told */
	struct kw_gets_stats stats;
	struct kw_lag staleness;
	uv_timer_t tick;
	uv_idle_t step;          /* active in a turn of the loop in which the follow is due */
	uv_timer_t brisk;        /* active while questions are under way */
	uint64_t turn_us;        /* our clock in this turn of the loop; 0: not asked for yet */
	uint64_t reported_us;    /* to the proxy */
	uint64_t watch_until_us; /* the superblock is looked at until then; 0: if questions wait */
	bool closing;
	int open; /* parts not yet closed */
};

/* ---- lists ---- */

static void push(struct questions *list, struct kw_question *question)
{
	question->next = NULL;
	question->before = list->last;
	if (list->last)
		list->last->next = question;
	else
		list->first = question;
	list->last = question;
	list->count++;
}

static void take_out(struct questions *list, struct kw_question *question)
{
	if (question->before)
		question->before->next = question->next;
	else
		list->first = question->next;
	if (question->next)
		question->next->before = question->before;
	else
		list->last = question->before;
	assert(list->count > 0);
	list->count--;
}

static struct kw_question *pop(struct questions *list)
{
	struct kw_question *question = list->first;

	if (question)
		take_out(list, question);
	return question;
}

static bool is_busy(const struct kw_gets *gets)
{
	return gets->waiting.first || gets->looked.first || gets->again.first ||
	       gets->watch_until_us > 0;
}

/* ---- the sight ---- */

/* One turn of the loop is one moment, but for what expires. */
static uint64_t turn_us(struct kw_gets *gets)
{
	if (gets->turn_us == 0)
		gets->turn_us = kw_clock_us();
	return gets->turn_us;
}

static enum kw_sight_link link_of(const struct kw_follow *follow)
{
	if (kw_follow_up(follow))
		return KW_SIGHT_UP;
	return follow->code == KW_E_REFUSED || follow->code == KW_E_PROTOCOL ||
			       follow->code == KW_E_CONFIG
		       ? KW_SIGHT_HOPELESS
		       : KW_SIGHT_AWAY;
}

/* As of a moment up to which the table was known to be current; 0: the newest that is known. */
static struct kw_sight_verdict judge_since(
	const struct kw_gets *gets, uint64_t now_us, uint64_t fresh_us)
{
	const struct kw_superblock *superblock = &gets->follow.superblock;
	const struct kw_sight_facts facts = {
		.link = link_of(&gets->follow),
		.seen = superblock->epoch != 0,
		.complete = superblock->complete,
		.source = (enum kw_source_state)superblock->source_state,
		.fresh_us = fresh_us ? fresh_us : superblock->fresh_us,
		.heartbeat_us = superblock->heartbeat_us,
		.now_us = kw_proxy_clock_now_us(&gets->clock, now_us),
		.max_staleness_us = (uint64_t)gets->options.max_staleness_ms * 1000,
	};

	return kw_sight_judge(&facts);
}

static struct kw_sight_verdict judge(const struct kw_gets *gets, uint64_t now_us)
{
	return judge_since(gets, now_us, 0);
}

static void say(const struct kw_gets *gets, const struct kw_sight_verdict *verdict,
	char words[KW_SIGHT_WORDS])
{
	kw_sight_say(verdict, (enum kw_source_state)gets->follow.superblock.source_state,
		gets->closing ? "the gateway is shutting down" : gets->follow.why, words);
}

/* Tell the owner of another state, or of another reason for it. */
static void evaluate(struct kw_gets *gets, uint64_t now_us)
{
	struct kw_sight_verdict verdict = judge(gets, now_us);
	char words[KW_SIGHT_WORDS];

	if (gets->closing ||
		(verdict.state == gets->told.state && verdict.reason == gets->told.reason))
		return;
	gets->told = verdict;
	say(gets, &verdict, words);
	gets->handlers.state(gets->handlers.arg, verdict.state, words);
}

/* Was the newest look begun late enough for a question that was asked then? */
static bool is_proved(const struct kw_gets *gets, uint64_t asked_us)
{
	return gets->follow.superblock_begun_us + KW_GETS_LOOK_US >= asked_us;
}

/*
 * Is the verdict about this question? If it allows an answer, the lookup may begin. A table that is
 * too old by the newest look might be younger by the next one, if that look is older than the
 * question's wait in our own queue.
 */
static bool may_tell(struct kw_gets *gets, const struct kw_question *question,
	const struct kw_sight_verdict *verdict)
{
	if (verdict->state == KW_GATEWAY_SERVING)
		return is_proved(gets, question->asked_us);
	return !kw_follow_up(&gets->follow) || is_proved(gets, turn_us(gets));
}

/* ---- answers ---- */

/* It is on no list any more. */
static void tell(struct kw_gets *gets, struct kw_question *question, const struct kw_got *got)
{
	gets->stats.told[got->outcome]++;
	question->fn(question->arg, got);
}

static enum kw_get_outcome outcome_of(enum kw_gateway_state state)
{
	switch (state) {
	case KW_GATEWAY_LOADING:
		return KW_GOT_LOADING;
	case KW_GATEWAY_STALE:
		return KW_GOT_STALE;
	default:
		return KW_GOT_LOST;
	}
}

/* The sight does not allow an answer. */
static void tell_verdict(
	struct kw_gets *gets, struct kw_question *question, const struct kw_sight_verdict *verdict)
{
	char words[KW_SIGHT_WORDS];
	struct kw_got got = {.outcome = outcome_of(verdict->state), .why = words};

	assert(verdict->state != KW_GATEWAY_SERVING);
	say(gets, verdict, words);
	tell(gets, question, &got);
}

static void tell_late(struct kw_gets *gets, struct kw_question *question)
{
	const struct kw_got got = {.outcome = KW_GOT_TRY_AGAIN,
		.why = "the table changed too fast to be read, or does not verify"};
	struct kw_sight_verdict verdict = judge(gets, kw_clock_us());

	if (verdict.state == KW_GATEWAY_SERVING)
		tell(gets, question, &got);
	else
		tell_verdict(gets, question, &verdict);
}

/* value NULL: there is no such key. */
static void tell_value(struct kw_gets *gets, struct kw_question *question,
	const struct kw_cache_value *value, uint64_t age_us)
{
	struct kw_got got = {.outcome = KW_GOT_MISSING};
	uint64_t now_us = turn_us(gets);

	if (value) {
		got.outcome = KW_GOT_VALUE;
		got.payload = value->payload;
		got.kind = value->kind;
		got.expires_ms = value->expires_ms;
		got.version = value->version;
		/* Fields of a hash can expire, too. */
		if (got.expires_ms != 0 || got.kind == KW_VALUE_HASH)
			now_us = kw_clock_us();
	}
	got.now_ms = kw_proxy_clock_now_us(&gets->clock, now_us) / 1000;
	if (got.expires_ms != 0 && got.expires_ms <= got.now_ms) {
		gets->stats.expired++;
		got = (struct kw_got){.outcome = KW_GOT_MISSING, .now_ms = got.now_ms};
	}
	kw_lag_add(&gets->staleness, age_us);
	tell(gets, question, &got);
}

static void tell_found(struct kw_gets *gets, struct kw_question *question,
	const struct kw_lookup_result *result, uint64_t age_us)
{
	const struct kw_record_view *record = &result->record;
	struct kw_cache *cache = gets->near.cache;
	struct kw_cache_value value;

	if (result->outcome != KW_LOOKUP_FOUND) {
		if (cache)
			kw_cache_forget(cache, question->database, question->key);
		tell_value(gets, question, NULL, age_us);
		return;
	}
	value = (struct kw_cache_value){.payload = record->value,
		.kind = kw_payload_kind(record->value),
		.expires_ms = record->expires_ms,
		.version = record->version};
	if (cache)
		kw_cache_put(cache, question->ticket, question->database, question->key, &value);
	tell_value(gets, question, &value, age_us);
}

/* Load what some questions will look at, so that their memory comes at the same time. */
static struct kw_question *approach_near(struct kw_gets *gets, struct kw_question *first)
{
	const struct kw_cache *cache = gets->near.cache;
	struct kw_question *end = first;

	for (int i = 0; end && i < NEAR_BATCH; i++, end = end->next)
		end->ticket = kw_cache_aim(cache, end->database, end->key);
	for (; first != end; first = first->next)
		kw_cache_approach(cache, first->ticket);
	return end;
}

/* What waits and is near is told without a READ. */
static void tell_near(struct kw_gets *gets)
{
	struct kw_question *question = gets->waiting.first, *end = question, *next;
	uint32_t left = gets->waiting.count;
	struct kw_sight_verdict verdict;
	struct kw_cache_value value;

	if (!question || !gets->near.cache || !kw_near_counts(&gets->near, turn_us(gets)))
		return;
	verdict = judge(gets, turn_us(gets));
	if (verdict.state != KW_GATEWAY_SERVING)
		return;
	/* What fn asks comes after those that waited at first. */
	for (; left > 0; left--, question = next) {
		if (question == end)
			end = approach_near(gets, question);
		next = question->next;
		if (!kw_cache_find(gets->near.cache, question->database, question->key, &value))
			continue;
		take_out(&gets->waiting, question);
		tell_value(gets, question, &value, verdict.age_us);
	}
}

static void start_waiting(struct kw_gets *gets);

static void on_looked_up(void *arg, const struct kw_lookup_result *result)
{
	const bool sure = result->outcome == KW_LOOKUP_FOUND || result->outcome == KW_LOOKUP_ABSENT;
	struct kw_question *question = arg;
	struct kw_gets *gets = question->gets;
	struct kw_sight_verdict verdict;

	take_out(&gets->looked, question);
	verdict = judge_since(gets, turn_us(gets), question->fresh_us);
	if (sure && verdict.state == KW_GATEWAY_SERVING) {
		tell_found(gets, question, result, verdict.age_us);
		start_waiting(gets);
		return;
	}
	/* Another try, by the newest look; or that look says that it is no use (start_waiting). */
	gets->stats.again++;
	push(&gets->again, question);
}

/* ---- questions ---- */

/* Begin what may be begun, tell what the sight does not allow. */
static void start_waiting(struct kw_gets *gets)
{
	struct kw_sight_verdict verdict;
	struct kw_question *question;

	if (!gets->waiting.first)
		return;
	verdict = judge(gets, turn_us(gets));
	while ((question = gets->waiting.first)) {
		const bool serving = verdict.state == KW_GATEWAY_SERVING;

		/* A look is under way: what it shows decides, and the lookup counts on it. */
		if (!may_tell(gets, question, &verdict))
			return;
		if (serving && !kw_lookups_have_room(gets->lookups))
			return;
		take_out(&gets->waiting, question);
		if (!serving) {
			tell_verdict(gets, question, &verdict);
			continue;
		}
		question->fresh_us = gets->follow.superblock.fresh_us;
		push(&gets->looked, question);
		if (gets->near.cache)
			question->ticket = kw_cache_ticket(gets->near.cache);
		kw_lookups_begin(
			gets->lookups, question->database, question->key, on_looked_up, question);
	}
}

void kw_gets_ask(struct kw_gets *gets, struct kw_question *question)
{
	question->gets = gets;
	question->asked_us = turn_us(gets);
	gets->stats.asked++;
	push(&gets->waiting, question);
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
	now_us = turn_us(gets);
	if (now_us > gets->follow.superblock_begun_us + LOOK_EACH_US &&
		gets->follow.probed_us == 0) {
		gets->stats.looks++;
		kw_follow_look(&gets->follow, now_us);
	}
}

void kw_gets_post(struct kw_gets *gets)
{
	tell_near(gets);
	if (gets->waiting.first) {
		look(gets);
		start_waiting(gets);
		kw_lookups_post(gets->lookups);
	}
	gets->turn_us = 0;
	if (is_busy(gets) && !uv_is_active((uv_handle_t *)&gets->brisk) && !gets->closing)
		uv_timer_start(&gets->brisk, on_brisk, BRISK_MS, BRISK_MS);
}

/* All of them, as the sight says now. */
static void tell_all(struct kw_gets *gets)
{
	struct questions *const lists[] = {&gets->looked, &gets->again, &gets->waiting};
	struct kw_sight_verdict verdict = judge(gets, kw_clock_us());
	struct kw_question *question;

	assert(verdict.state != KW_GATEWAY_SERVING);
	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		while ((question = pop(lists[i])))
			tell_verdict(gets, question, &verdict);
}

static void tell_overdue(struct kw_gets *gets, uint64_t now_us)
{
	struct questions *const lists[] = {&gets->again, &gets->waiting};

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		uint32_t left = lists[i]->count;
		struct kw_question *question;

		while (left-- > 0 && (question = pop(lists[i]))) {
			if (now_us - question->asked_us > KW_GETS_DEADLINE_US)
				tell_late(gets, question);
			else
				push(lists[i], question);
		}
	}
}

static void on_brisk(uv_timer_t *timer)
{
	struct kw_gets *gets = timer->data;
	uint32_t again;

	gets->turn_us = 0;
	kw_reads_tick(&gets->reads);
	kw_lookups_tick(gets->lookups);
	tell_overdue(gets, turn_us(gets));
	if (gets->watch_until_us <= turn_us(gets))
		gets->watch_until_us = 0;
	look(gets);
	for (again = gets->again.count; again > 0; again--)
		push(&gets->waiting, pop(&gets->again));
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
	struct kw_sight_verdict verdict = judge(gets, now_us);
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
	kw_near_step(&gets->near, now_us);
	evaluate(gets, now_us);
	if (kw_follow_up(&gets->follow) && now_us - gets->reported_us >= REPORT_US)
		report(gets, now_us);
}

static void on_link(void *arg, bool up)
{
	struct kw_gets *gets = arg;

	kw_lookups_stop(gets->lookups);
	kw_near_link(&gets->near);
	gets->clock = (struct kw_proxy_clock){0};
	if (!up)
		tell_all(gets);
	evaluate(gets, kw_clock_us());
}

static void on_superblock(void *arg, const struct kw_superblock *superblock)
{
	struct kw_gets *gets = arg;
	const struct kw_follow *follow = &gets->follow;

	/* A pass of the reader's can end after a look that began later, and knows more. */
	if (superblock->publication < follow->superblock.publication &&
		superblock->epoch == follow->superblock.epoch)
		return;
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

int kw_gets_new(const struct kw_gets_options *options, const struct kw_gets_handlers *handlers,
	struct kw_gets **made, struct kw_error *error)
{
	const struct kw_lookups_options lookups = {
		.depth = options->depth, .places = options->places};
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
	code = kw_follow_init(
		&gets->follow, options->proxy, &gets->options.follow, &follow, &sink, error);
	if (code) {
		free(gets);
		return code;
	}
	kw_near_init(&gets->near, &gets->follow, options->cache_bytes, options->coherence_ms);
	kw_reads_init(&gets->reads, remote_of, gets);
	io = kw_reads_lookups_io(&gets->reads);
	gets->lookups = kw_lookups_new(&lookups, &io);
	uv_timer_init(options->loop, &gets->tick);
	uv_timer_init(options->loop, &gets->brisk);
	uv_idle_init(options->loop, &gets->step);
	gets->tick.data = gets->brisk.data = gets->step.data = gets;
	uv_timer_start(&gets->tick, on_tick, 0, TICK_MS);
	gets->told.reason = KW_SIGHT_NONE; /* the first evaluation tells */
	*made = gets;
	return KW_OK;
}

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

int kw_gets_retarget(struct kw_gets *gets, const char *proxy, struct kw_error *error)
{
	return kw_follow_retarget(&gets->follow, proxy, error);
}

/* ---- what is known ---- */

void kw_gets_sight(const struct kw_gets *gets, struct kw_gets_sight *sight)
{
	const struct kw_superblock *superblock = &gets->follow.superblock;
	const uint64_t now_us = kw_clock_us();
	struct kw_sight_verdict verdict = judge(gets, now_us);

	*sight = (struct kw_gets_sight){
		.state = verdict.state,
		.epoch = superblock->epoch,
		.version = superblock->version,
		.fresh_us = superblock->fresh_us,
		.now_us = kw_proxy_clock_now_us(&gets->clock, now_us),
		.clock_error_us = kw_proxy_clock_error_us(&gets->clock),
		.age_us = verdict.age_us,
	};
	say(gets, &verdict, sight->why);
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

	*stats = gets->stats;
	if (gets->near.cache)
		kw_cache_stats(gets->near.cache, &stats->near);
	stats->by_place = lookups->guesses - lookups->misses;
	stats->by_slots = found > stats->by_place + stats->near.hits
				  ? found - stats->by_place - stats->near.hits
				  : 0;
	stats->reads = lookups->reads + stats->looks + reader->reads;
	stats->bytes = lookups->bytes + stats->looks * sizeof(struct kw_superblock) + reader->bytes;
	stats->waiting = gets->waiting.count + gets->again.count;
	stats->looked_up = gets->looked.count;
}

uint64_t kw_gets_staleness_us(const struct kw_gets *gets, double share)
{
	return kw_lag_quantile_us(&gets->staleness, share);
}
