#include "source/pause.h"

#include "base/clock.h"
#include "fetch/errand.h"
#include "redis/server.h"
#include "source/source_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *words_of(const struct kw_source_pause *pause)
{
	return pause->ms ? "CLIENT PAUSE" : "CLIENT UNPAUSE";
}

/* The oldest one has its answer, whatever it is. */
static void tell(struct kw_source *source, const struct kw_source_paused *paused,
	const struct kw_error *error)
{
	struct kw_source_pauses *pauses = &source->pauses;
	const struct kw_source_pause oldest = pauses->asked[0];

	assert(pauses->count > 0 && pauses->sent <= pauses->count);
	pauses->count--;
	pauses->sent -= pauses->sent > 0;
	memmove(pauses->asked, pauses->asked + 1, pauses->count * sizeof *pauses->asked);
	oldest.done(oldest.arg, paused, error);
}

/* Refused, nothing waits for it. After a lost connection it may have been taken all the same. */
static void tell_error(struct kw_source *source, const struct kw_error *error)
{
	if (error->code == KW_E_REFUSED)
		source->pauses.until_us = source->pauses.asked[0].before_us;
	tell(source, NULL, error);
}

static void note_taken(struct kw_source *source, const struct kw_source_pause *pause)
{
	uint64_t until_us = kw_clock_us() + (uint64_t)pause->ms * 1000;

	if (pause->ms == 0)
		source->pauses.until_us = 0;
	else if (until_us > source->pauses.until_us)
		source->pauses.until_us = until_us;
	kw_turn_wake(&source->turn);
}

static void on_paused(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	struct kw_source_pause *pause = &source->pauses.asked[0];
	struct kw_error error;

	if (!reply)
		return; /* the errand is closed next */
	if (reply->type != KW_REPLY_ERROR) {
		pause->taken = true;
		note_taken(source, pause);
		return;
	}
	kw_data_refusal(&error, source->options.redis.username, words_of(pause),
		pause->ms ? "+client|pause" : "+client|unpause", reply);
	tell_error(source, &error);
}

/* A save begins the count anew, and so does another run. */
static int64_t since(const struct kw_source_counted *last, const struct kw_source_paused *paused)
{
	if (!last->known || strcmp(last->run_id, paused->run_id) != 0 ||
		last->saved_s != paused->saved_s || last->changes > paused->changes)
		return -1;
	return (int64_t)(paused->changes - last->changes);
}

static void count(
	struct kw_slice info, struct kw_source_counted *last, struct kw_source_paused *paused)
{
	bool known = kw_info_number(info, "rdb_changes_since_last_save", &paused->changes) &&
		     kw_info_number(info, "rdb_last_save_time", &paused->saved_s);

	paused->since_last = known ? since(last, paused) : -1;
	last->known = known;
	last->changes = paused->changes;
	last->saved_s = paused->saved_s;
	snprintf(last->run_id, sizeof last->run_id, "%s", paused->run_id);
}

/* That of a pause that was refused comes after it was told. */
static void on_counted(void *arg, const struct kw_reply *reply)
{
	struct kw_source *source = arg;
	struct kw_source_pauses *pauses = &source->pauses;
	struct kw_source_paused paused = {.run_id = kw_source_run_id(source)};
	struct kw_error error;

	if (!reply)
		return;
	if (pauses->count > 0 && pauses->asked[0].taken) {
		if (reply->type == KW_REPLY_STRING) {
			count(reply->text, &pauses->last, &paused);
			tell(source, &paused, NULL);
		} else {
			kw_data_refusal(&error, source->options.redis.username, "INFO persistence",
				"+info", reply);
			tell(source, NULL, &error);
		}
	}
	if (pauses->count == 0)
		kw_errand_end(pauses->errand);
}

static void send_one(struct kw_source *source, const struct kw_source_pause *pause)
{
	struct kw_redis *redis = kw_errand_redis(source->pauses.errand);
	char text[16];

	snprintf(text, sizeof text, "%" PRIu32, pause->ms);
	if (pause->ms)
		kw_redis_words(redis, on_paused, source, "CLIENT", "PAUSE", text, "WRITE", NULL);
	else
		kw_redis_words(redis, on_paused, source, "CLIENT", "UNPAUSE", NULL);
	kw_redis_words(redis, on_counted, source, "INFO", "persistence", NULL);
}

static void send_all(void *arg)
{
	struct kw_source *source = arg;
	struct kw_source_pauses *pauses = &source->pauses;

	while (pauses->sent < pauses->count)
		send_one(source, &pauses->asked[pauses->sent++]);
	kw_redis_flush(kw_errand_redis(pauses->errand));
}

static void tell_lost(struct kw_source *source, const struct kw_error *why)
{
	struct kw_error error;

	while (source->pauses.count > 0) {
		kw_error_set(&error, why->code == KW_E_STATE ? KW_E_STATE : KW_E_IO,
			"the connection to the primary was lost before it answered %s: %.200s",
			words_of(&source->pauses.asked[0]), why->text);
		tell_error(source, &error);
	}
}

/* What was asked for while the connection was being closed needs another one. */
static void begin(struct kw_source *source)
{
	struct kw_error error;

	source->pauses.sent = 0;
	if (kw_errand_begin(source->pauses.errand, source->options.redis.address,
		    kw_source_run_id(source), &error))
		tell_lost(source, &error);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_source *source = arg;

	if (why->code != KW_OK)
		tell_lost(source, why);
	if (source->parts_open > 0)
		kw_source_part_closed(source);
	else if (source->pauses.count > 0)
		begin(source);
}

static bool can_ask(const struct kw_source *source, uint32_t ms, struct kw_error *error)
{
	if (!kw_source_link_is_up(&source->link) && (ms > 0 || source->link.ups == 0))
		kw_error_set(error, KW_E_STATE, "the proxy is not connected to its primary: %s",
			source->state.reason);
	else if (source->pauses.count == KW_SOURCE_PAUSES)
		kw_error_set(error, KW_E_STATE,
			"the primary has not answered the %d pauses before this one: try again",
			KW_SOURCE_PAUSES);
	else
		return true;
	return false;
}

void kw_source_pause_writes(
	struct kw_source *source, uint32_t ms, kw_source_paused_fn done, void *arg)
{
	struct kw_source_pauses *pauses = &source->pauses;
	uint64_t until_us = kw_clock_us() + (uint64_t)ms * 1000;
	struct kw_error error;

	if (source->parts_open > 0 || !can_ask(source, ms, &error)) {
		if (source->parts_open > 0)
			kw_error_set(&error, KW_E_STATE, "the proxy is shutting down");
		done(arg, NULL, &error);
		return;
	}
	pauses->asked[pauses->count++] =
		(struct kw_source_pause){ms, pauses->until_us, false, done, arg};
	if (ms > 0 && until_us > pauses->until_us)
		pauses->until_us = until_us;
	kw_turn_wake(&source->turn);
	if (kw_errand_is_idle(pauses->errand))
		begin(source);
	else if (kw_errand_is_open(pauses->errand))
		send_all(source);
}

void kw_source_pauses_init(struct kw_source *source)
{
	const struct kw_errand_handlers handlers = {send_all, on_closed, source};
	struct kw_redis_options options;

	kw_source_link_options(&source->options.redis, "fence", &options);
	source->pauses.errand =
		kw_errand_new(source->turn.check.loop, &options, "fence", &handlers);
}

bool kw_source_pauses_end(struct kw_source *source)
{
	const struct kw_error why = {.code = KW_E_IO, .text = "the proxy is shutting down"};

	tell_lost(source, &why);
	kw_errand_end(source->pauses.errand);
	return kw_errand_is_idle(source->pauses.errand);
}

void kw_source_pauses_free(struct kw_source_pauses *pauses)
{
	kw_errand_free(pauses->errand);
}
