#include "feed/notify/flush.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A call that is not counted yet is asked for again after 1 ms, then 2, and so on: for a second. */
#define COUNT_ASKED_MOST 22
#define COUNT_PAUSE_US UINT64_C(1000)
#define COUNT_DOUBLED_MOST 6

struct kw_flush_question {
	uint32_t database;
	uint8_t place;  /* of the canary */
	int64_t exists; /* 1: the canary is there */
};

static void begin(struct kw_flush_check *flush);

static bool holds(const void *owner, int state)
{
	const struct kw_flush_check *flush = owner;

	switch (state) {
	case KW_FLUSH_IDLE:
		return flush->question_count == 0;
	case KW_FLUSH_LISTING:
	case KW_FLUSH_COUNTING:
		return flush->seen > 0 && flush->question_count == 0;
	case KW_FLUSH_CANARIES:
		return flush->answered < flush->question_count;
	default:
		return flush->answered == flush->question_count;
	}
}

static const struct kw_sm_state states[] = {
	[KW_FLUSH_IDLE] = {"idle", KW_SM_TO(KW_FLUSH_LISTING), KW_SM_INITIAL},
	[KW_FLUSH_LISTING] = {"listing", KW_SM_TO(KW_FLUSH_COUNTING) | KW_SM_TO(KW_FLUSH_CANARIES) |
						 KW_SM_TO(KW_FLUSH_EVENTS) |
						 KW_SM_TO(KW_FLUSH_IDLE)},
	[KW_FLUSH_COUNTING] = {"counting", KW_SM_TO(KW_FLUSH_LISTING) | KW_SM_TO(KW_FLUSH_IDLE)},
	[KW_FLUSH_CANARIES] = {"canaries", KW_SM_TO(KW_FLUSH_EVENTS) | KW_SM_TO(KW_FLUSH_IDLE)},
	[KW_FLUSH_EVENTS] = {"events", KW_SM_TO(KW_FLUSH_IDLE)},
};

static const struct kw_sm_conf machine = {"flush", states, KW_FLUSH_EVENTS + 1, holds};

void kw_flush_init(struct kw_flush_check *flush)
{
	assert(flush->data && flush->canaries && flush->watch && flush->handlers);
	assert(flush->ask_events && flush->ended);
	kw_sm_init(&flush->sm, &machine, flush, KW_FLUSH_IDLE);
}

void kw_flush_close(struct kw_flush_check *flush)
{
	free(flush->questions);
	kw_databases_close(&flush->doubted);
	kw_databases_close(&flush->unexplained);
}

static void rest(struct kw_flush_check *flush, const char *why)
{
	free(flush->questions);
	flush->questions = NULL;
	flush->question_count = flush->answered = 0;
	kw_sm_move(&flush->sm, KW_FLUSH_IDLE, why);
}

/* What was told is explained, or nobody waits for an explanation any more. */
static void forget_uncounted(struct kw_flush_check *flush)
{
	flush->told = flush->seen;
	flush->uncounted = 0;
	kw_databases_clear(&flush->unexplained);
}

void kw_flush_abandon(struct kw_flush_check *flush)
{
	kw_databases_clear(&flush->doubted);
	forget_uncounted(flush);
	rest(flush, "abandoned");
}

static void tell_doubt(struct kw_flush_check *flush)
{
	const struct kw_feed_handlers *handlers = flush->handlers;
	enum kw_doubt cause = flush->explained ? KW_DOUBT_FLUSH : KW_DOUBT_LOADED;
	uint32_t database = 0;
	char why[160];

	if (flush->extent == KW_FLUSH_OF_DATA_SET) {
		/* Databases that the table has nothing of can hold keys now. */
		handlers->doubt(handlers->arg, cause, NULL,
			flush->late ? "the server counted a flush, and without CLIENT TRACKING it "
				      "does not say when"
				    : "the server's data set may have been replaced (DEBUG, or a "
				      "resync)");
		return;
	}
	if (!kw_databases_next(&flush->doubted, &database))
		return;
	snprintf(why, sizeof why, "a flush, and database %u cannot be shown to have been spared",
		database);
	handlers->doubt(handlers->arg, cause, &flush->doubted, why);
}

/*
 * FLUSHDB does not say which database it was of. Keys that were known to be missing before the
 * calls may be of another one. A sweep can also find what a flush took before the flush is told.
 */
static bool lacked_before(const struct kw_flush_check *flush)
{
	return flush->handlers->lacked(flush->handlers->arg, flush->counted.since_us);
}

/* Calls that the server counted and that this check did not need may be those of earlier ones. */
static void balance(struct kw_flush_check *flush)
{
	uint64_t calls = flush->counted.all + flush->counted.one;

	flush->uncounted += flush->seen - flush->told;
	flush->uncounted -= calls < flush->uncounted ? calls : flush->uncounted;
	flush->told = flush->seen;
	if (flush->uncounted == 0)
		kw_databases_clear(&flush->unexplained);
	else if (!flush->explained && flush->extent == KW_FLUSH_OF_DATABASES &&
		 !lacked_before(flush))
		kw_databases_merge(&flush->unexplained, &flush->doubted);
	kw_watch_flushes_told(flush->watch);
}

void kw_flush_looked(struct kw_flush_check *flush)
{
	const struct kw_feed_handlers *handlers = flush->handlers;
	struct kw_watch_flushes untold;

	if (kw_flush_under_way(flush) || flush->uncounted == 0)
		return;
	untold = kw_watch_flushes(flush->watch);
	if (handlers->mends(handlers->arg)) {
		if (untold.all + untold.one < flush->uncounted)
			return;
		if (untold.all > 0)
			kw_databases_add_all(&flush->unexplained);
		handlers->explain(handlers->arg, &flush->unexplained);
		kw_watch_flushes_told(flush->watch);
	}
	forget_uncounted(flush);
}

static void conclude(struct kw_flush_check *flush)
{
	for (uint32_t i = 0; i < flush->question_count; i++) {
		const struct kw_flush_question *question = &flush->questions[i];
		const struct kw_canary *canary =
			kw_canary_of(flush->canaries, question->database) + question->place;

		if (question->exists == 1 && canary->state == KW_CANARY_UNTOUCHED)
			kw_databases_remove(&flush->doubted, question->database);
	}
	rest(flush, "concluded");
	if (flush->checked < flush->seen) {
		begin(flush); /* the findings do not count */
		return;
	}
	balance(flush);
	tell_doubt(flush);
	flush->ended(flush->arg);
}

void kw_flush_passed(struct kw_flush_check *flush)
{
	if (flush->sm.state == KW_FLUSH_EVENTS)
		conclude(flush);
}

/*
 * Also without canaries: the flushes that were counted have all been told by the pong, so none of
 * them is told again after its count was used up.
 */
static void await_events(struct kw_flush_check *flush)
{
	kw_sm_move(&flush->sm, KW_FLUSH_EVENTS, "");
	flush->ask_events(flush->arg);
}

static void canary_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_flush_check *flush = arg;

	reply = kw_data_reply(flush->data, reply);
	if (!reply) {
		kw_flush_abandon(flush);
		return;
	}
	if (flush->sm.state != KW_FLUSH_CANARIES)
		return;
	assert(flush->answered < flush->question_count);
	if (reply->type == KW_REPLY_INTEGER)
		flush->questions[flush->answered].exists = reply->integer;
	else if (reply->type != KW_REPLY_ERROR ||
		 kw_server_error(reply->text) == KW_SERVER_E_PERMISSION)
		kw_data_refused(flush->data, "EXISTS", "+exists", reply);
	/* A refusal gives up the connections, and so this check. */
	if (flush->sm.state != KW_FLUSH_CANARIES || ++flush->answered < flush->question_count)
		return;
	await_events(flush);
}

static void ask_canaries(struct kw_flush_check *flush, uint32_t database)
{
	const struct kw_canary *canaries = kw_canary_of(flush->canaries, database);

	for (uint8_t i = 0; canaries && i < KW_CANARIES; i++) {
		struct kw_slice argv[2] = {
			kw_slice_text("EXISTS"), kw_slice(canaries[i].name, canaries[i].length)};

		if (canaries[i].state != KW_CANARY_UNTOUCHED)
			continue;
		flush->questions = kw_realloc(
			flush->questions, (flush->question_count + 1) * sizeof *flush->questions);
		flush->questions[flush->question_count++] =
			(struct kw_flush_question){.database = database, .place = i};
		kw_data_select(flush->data, database);
		kw_data_send(flush->data, canary_answered, flush, 2, argv);
	}
}

static void note_listed(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	kw_databases_add(arg, database);
}

/*
 * Do the calls that the server counted explain that so many databases are empty? SWAPDB can leave
 * one of its two empty.
 */
static bool are_explained(const struct kw_flush_check *flush, uint64_t empty)
{
	if (flush->counted.all > 0)
		return true;
	return flush->counted.one > 0 && empty <= flush->counted.one + flush->counted.swaps &&
	       !lacked_before(flush);
}

static bool is_master(const struct kw_flush_check *flush)
{
	return strcmp(kw_watch_identity(flush->watch)->role, "master") == 0;
}

/* The table has no key of these to lose. */
static void empty_lacking(struct kw_flush_check *flush, const struct kw_databases *listed,
	const struct kw_databases *held)
{
	const struct kw_feed_handlers *handlers = flush->handlers;
	struct kw_databases lacking = {0};

	handlers->lacking(handlers->arg, &lacking);
	for (uint32_t db = 0; kw_databases_next(&lacking, &db); db++)
		if (flush->explained && !kw_databases_has(listed, db) &&
			!kw_databases_has(held, db))
			(void)handlers->empty(handlers->arg, db);
	kw_databases_close(&lacking);
}

/*
 * A database that is not listed is empty as of this reply. The others are in doubt, and so is one
 * that was not flushed, or that the table has no room to empty.
 */
static void take_listing(struct kw_flush_check *flush, struct kw_slice keyspace)
{
	const struct kw_feed_handlers *handlers = flush->handlers;
	struct kw_databases listed = {0}, held = {0}, explained = {0};
	uint64_t empty = 0;

	kw_info_keyspace(keyspace, note_listed, &listed);
	handlers->held(handlers->arg, &held);
	handlers->explained(handlers->arg, &explained);
	for (uint32_t db = 0; kw_databases_next(&held, &db); db++)
		empty += !kw_databases_has(&listed, db) && !kw_databases_has(&explained, db);
	flush->explained = are_explained(flush, empty);
	for (uint32_t db = 0; kw_databases_next(&held, &db); db++)
		if (kw_databases_has(&listed, db) || !flush->explained ||
			!handlers->empty(handlers->arg, db))
			kw_databases_add(&flush->doubted, db);
	empty_lacking(flush, &listed, &held);
	kw_databases_close(&listed);
	kw_databases_close(&held);
	kw_databases_close(&explained);
}

/* Are there calls that the server has told, and may count yet? A replica tells of resyncs as well.
 */
static bool counts_late(const struct kw_flush_check *flush)
{
	return !flush->late && is_master(flush) && flush->asked < COUNT_ASKED_MOST &&
	       flush->counted.all + flush->counted.one < flush->checked - flush->told;
}

static void await_count(struct kw_flush_check *flush)
{
	const uint32_t doubled =
		flush->asked < COUNT_DOUBLED_MOST ? flush->asked : COUNT_DOUBLED_MOST;

	flush->again_us = kw_clock_us() + (COUNT_PAUSE_US << doubled);
	kw_sm_move(&flush->sm, KW_FLUSH_COUNTING, "");
	flush->handlers->turn_wanted(flush->handlers->arg);
}

static void keyspace_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_flush_check *flush = arg;

	reply = kw_data_reply(flush->data, reply);
	if (!reply || flush->sm.state != KW_FLUSH_LISTING) {
		kw_flush_abandon(flush);
		return;
	}
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refused(flush->data, "INFO keyspace", "+info", reply);
		return;
	}
	if (counts_late(flush)) {
		await_count(flush);
		return;
	}
	take_listing(flush, reply->text);
	if (flush->extent == KW_FLUSH_OF_DATABASES)
		for (uint32_t db = 0; kw_databases_next(&flush->doubted, &db); db++)
			ask_canaries(flush, db);
	if (flush->question_count > 0)
		kw_sm_move(&flush->sm, KW_FLUSH_CANARIES, "");
	else
		await_events(flush);
}

static void commandstats_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_flush_check *flush = arg;

	reply = kw_data_reply(flush->data, reply);
	if (!reply || flush->sm.state != KW_FLUSH_LISTING)
		return;
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refused(flush->data, "INFO commandstats", "+info", reply);
		return;
	}
	kw_watch_see_flushes(flush->watch, reply->text);
	flush->counted = kw_watch_flushes(flush->watch);
	if (kw_watch_debugged(flush->watch, reply->text, flush->debug_us) || !is_master(flush))
		flush->extent = KW_FLUSH_OF_DATA_SET;
}

static void ask(struct kw_flush_check *flush)
{
	flush->asked++;
	kw_sm_move(&flush->sm, KW_FLUSH_LISTING, "");
	kw_data_info(flush->data, commandstats_answered, flush, "commandstats");
	kw_data_info(flush->data, keyspace_answered, flush, "keyspace");
}

void kw_flush_turn(struct kw_flush_check *flush, uint64_t now_us)
{
	if (flush->sm.state == KW_FLUSH_COUNTING && now_us >= flush->again_us)
		ask(flush);
}

uint64_t kw_flush_ready_us(const struct kw_flush_check *flush)
{
	return flush->sm.state == KW_FLUSH_COUNTING ? flush->again_us : UINT64_MAX;
}

static void begin(struct kw_flush_check *flush)
{
	assert(flush->checked < flush->seen && flush->question_count == 0);
	flush->checked = flush->seen;
	flush->extent = flush->late ? KW_FLUSH_OF_DATA_SET : KW_FLUSH_OF_DATABASES;
	flush->counted = (struct kw_watch_flushes){0};
	flush->explained = false;
	kw_databases_clear(&flush->doubted);
	flush->asked = 0;
	ask(flush);
}

void kw_flush_seen(struct kw_flush_check *flush)
{
	flush->seen++;
	/* The canaries that were touched since the first flush count as touched for this one. */
	if (kw_flush_under_way(flush))
		return;
	kw_canary_watch(flush->canaries);
	begin(flush);
}
