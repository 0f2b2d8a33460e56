/*
 * A tracking null came: some database was flushed, or the data set was loaded anew. Which one?
 *
 *   INFO keyspace ─▶ not listed: it is empty, one flush record says so
 *                 └▶ listed: EXISTS its canaries ─▶ PING on the events connection ─▶ pong
 *                            one is there, and no event named it: it was spared (see canary.h)
 *                            else: a reconcile of this database
 */
#include "source/internal.h"

#include "base/buffer.h"
#include "redis/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* DEBUG counts when the last so many looks of watch saw it: one may have come before the null did.
 */
#define DEBUG_LOOKS 3

struct kw_flush_ask {
	uint32_t database;
	uint8_t place; /* of the canary */
	bool exists;
};

static void begin(struct kw_source *source);

static void close_asks(struct kw_flush_check *flush)
{
	free(flush->asks);
	flush->asks = NULL;
	flush->ask_count = flush->ask_at = 0;
}

void kw_flush_abandon(struct kw_source *source)
{
	struct kw_flush_check *flush = &source->flush;

	flush->running = false;
	flush->again = false;
	kw_databases_clear(&flush->doubted);
	close_asks(flush);
}

static void doubt(struct kw_source *source)
{
	struct kw_flush_check *flush = &source->flush;
	uint32_t database = 0;
	char why[160];

	if (flush->replaced) {
		/* Also databases that the table has nothing of may hold keys now. */
		kw_source_doubt(source, KW_DOUBT_FLUSH, NULL,
			"the server's data set may have been replaced (DEBUG, or a resync)");
		return;
	}
	if (!kw_databases_next(&flush->doubted, &database))
		return;
	snprintf(why, sizeof(why), "a flush, and database %u cannot be shown to have been spared",
		database);
	kw_source_doubt(source, KW_DOUBT_FLUSH, &flush->doubted, why);
}

static void conclude(struct kw_source *source)
{
	struct kw_flush_check *flush = &source->flush;

	for (uint32_t i = 0; i < flush->ask_count; i++) {
		const struct kw_flush_ask *ask = &flush->asks[i];
		const struct kw_canary *canary = kw_canary_of(source->canaries, ask->database);

		if (ask->exists && canary[ask->place].used && !canary[ask->place].touched)
			kw_databases_remove(&flush->doubted, ask->database);
	}
	close_asks(flush);
	flush->running = false;
	kw_source_want_turn(source);
	if (flush->again) {
		begin(source);
		return;
	}
	doubt(source);
}

static void events_passed(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;

	if (!reply)
		kw_flush_abandon(source);
	else if (source->flush.running)
		conclude(source);
}

static void canary_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	struct kw_flush_check *flush = &source->flush;

	reply = kw_lane_reply(&source->lane, reply);
	if (!reply) {
		kw_flush_abandon(source);
		return;
	}
	if (!flush->running)
		return;
	if (reply->type == KW_REPLY_INTEGER)
		flush->asks[flush->ask_at].exists = reply->integer == 1;
	else if (reply->type != KW_REPLY_ERROR ||
		 kw_server_error(reply->text) == KW_SERVER_E_PERMISSION)
		kw_lane_refused(&source->lane, "EXISTS", "+exists", reply);
	if (++flush->ask_at == flush->ask_count)
		kw_redis_words(source->events, events_passed, source, "PING", NULL);
}

static void ask_canaries(struct kw_source *source, uint32_t database)
{
	struct kw_flush_check *flush = &source->flush;
	const struct kw_canary *canaries = kw_canary_of(source->canaries, database);

	for (uint8_t i = 0; canaries && i < KW_CANARIES; i++) {
		struct kw_slice argv[2] = {
			kw_slice_text("EXISTS"), kw_slice(canaries[i].name, canaries[i].length)};

		if (!canaries[i].used || canaries[i].touched)
			continue;
		flush->asks =
			kw_realloc(flush->asks, (flush->ask_count + 1) * sizeof(*flush->asks));
		flush->asks[flush->ask_count++] =
			(struct kw_flush_ask){.database = database, .place = i};
		kw_lane_select(&source->lane, database);
		kw_redis_send(source->lane.redis, canary_answered, source, 2, argv);
	}
}

static void keyspace_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	struct kw_flush_check *flush = &source->flush;

	reply = kw_lane_reply(&source->lane, reply);
	if (!reply || !flush->running) {
		kw_flush_abandon(source);
		return;
	}
	if (reply->type != KW_REPLY_STRING) {
		kw_lane_refused(&source->lane, "INFO keyspace", "+info", reply);
		return;
	}
	kw_sweep_empty_absent(source, reply->text, &flush->doubted);
	if (!flush->replaced)
		for (uint32_t db = 0; kw_databases_next(&flush->doubted, &db); db++)
			ask_canaries(source, db);
	if (flush->ask_count == 0)
		conclude(source);
}

static void commandstats_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	uint64_t recent_us = (uint64_t)source->options.watch_interval_ms * 1000 * DEBUG_LOOKS;

	reply = kw_lane_reply(&source->lane, reply);
	if (!reply || !source->flush.running)
		return;
	if (reply->type != KW_REPLY_STRING)
		kw_lane_refused(&source->lane, "INFO commandstats", "+info", reply);
	else
		source->flush.replaced =
			kw_watch_debugged(source->watch, reply->text, recent_us) ||
			strcmp(kw_watch_identity(source->watch)->role, "master") != 0;
}

static void begin(struct kw_source *source)
{
	struct kw_flush_check *flush = &source->flush;

	flush->running = true;
	flush->again = false;
	flush->replaced = false;
	kw_databases_clear(&flush->doubted);
	kw_lane_info(&source->lane, commandstats_answered, source, "commandstats");
	kw_lane_info(&source->lane, keyspace_answered, source, "keyspace");
	kw_source_want_turn(source);
}

void kw_flush_seen(struct kw_source *source)
{
	/* Before the link is up nothing was read yet that a flush could take back. */
	if (source->link != KW_LINK_UP)
		return;
	if (source->flush.running) {
		/* What was touched since the first flush counts for this one too. */
		source->flush.again = true;
		return;
	}
	kw_canary_watch(source->canaries);
	begin(source);
}
