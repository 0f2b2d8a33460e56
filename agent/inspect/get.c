#include "get.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "rdb/payload.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define TICK_MS 5 /* between two tries of an uncertain lookup */

struct question {
	struct question *next;
	kw_get_fn fn;
	void *arg;
	uint64_t deadline_us;
	uint32_t database;
	size_t key_length;
	uint8_t key[];
};

struct kw_get {
	struct kw_reads reads;
	struct kw_lookups *lookups;
	uv_timer_t tick; /* active while a question waits */
	struct question *first, *last;
	size_t waiting;
	struct kw_error uncertain; /* why the last try was uncertain */
	struct kw_buffer text;
	bool closing, closed;
	void (*done)(void *arg);
	void *done_arg;
};

static void look_up(struct kw_get *get);

/* The first question is answered. */
static void answer(
	struct kw_get *get, const struct kw_get_result *result, const struct kw_error *error)
{
	struct question *question = get->first;

	get->first = question->next;
	if (!get->first)
		get->last = NULL;
	get->waiting--;
	get->uncertain = (struct kw_error){0};
	question->fn(question->arg, error ? NULL : result, error);
	free(question);
	kw_buffer_clear(&get->text);
}

static void describe(
	struct kw_get *get, const struct kw_record_view *record, struct kw_get_result *result)
{
	struct kw_hash128 digest;

	*result = (struct kw_get_result){
		.found = true,
		.type = kw_payload_type_name(record->value),
		.bytes = record->value.length,
		.expires_ms = record->expires_ms,
		.version = record->version,
	};
	kw_payload_check(record->value, &result->rdb_version, NULL);
	if (!kw_payload_digest(record->value, &digest, NULL))
		snprintf(result->digest, sizeof result->digest, "%016" PRIx64 "%016" PRIx64,
			digest.high, digest.low);
	kw_buffer_reserve(&get->text, 1); /* an empty text is one, too */
	if (!kw_payload_text(record->value, KW_GET_TEXT_MAX, &get->text, NULL))
		result->text = kw_slice(kw_buffer_bytes(&get->text), kw_buffer_length(&get->text));
}

static void on_looked_up(void *arg, const struct kw_lookup_result *found)
{
	struct kw_get *get = arg;
	struct kw_get_result result = {0};
	struct kw_error error;

	switch (found->outcome) {
	case KW_LOOKUP_UNCERTAIN:
		get->uncertain = found->error;
		return;           /* the tick tries again */
	case KW_LOOKUP_TOO_LARGE: /* never: no bound is set */
	case KW_LOOKUP_FAILED:
		error = found->error;
		kw_error_wrap(&error, "get");
		answer(get, NULL, &error);
		break;
	case KW_LOOKUP_FOUND:
		describe(get, &found->record, &result);
		answer(get, &result, NULL);
		break;
	case KW_LOOKUP_ABSENT:
		answer(get, &result, NULL);
		break;
	}
	look_up(get);
}

static void look_up(struct kw_get *get)
{
	struct question *question = get->first;

	if (question && !get->closing && kw_lookups_have_room(get->lookups))
		kw_lookups_begin(get->lookups, question->database,
			kw_slice(question->key, question->key_length), on_looked_up, get);
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct kw_get *get = handle->data;

	kw_lookups_free(get->lookups);
	kw_reads_close(&get->reads);
	kw_buffer_close(&get->text);
	get->done(get->done_arg);
	free(get);
}

/* A READ that is out writes into our memory: wait for it. */
static void close_when_quiet(struct kw_get *get)
{
	if (get->reads.outstanding > 0 || get->closed)
		return;
	get->closed = true;
	uv_close((uv_handle_t *)&get->tick, on_timer_closed);
}

static void give_up_late(struct kw_get *get)
{
	struct kw_error error;

	if (!get->first || kw_clock_us() < get->first->deadline_us)
		return;
	kw_lookups_stop(get->lookups);
	kw_error_set(&error, KW_E_TIMEOUT, "get: no certain answer within %d ms: %s",
		KW_GET_TIMEOUT_MS,
		get->uncertain.text[0] ? get->uncertain.text
				       : "the proxy's memory does not answer");
	answer(get, NULL, &error);
}

static void on_tick(uv_timer_t *timer)
{
	struct kw_get *get = timer->data;

	kw_reads_tick(&get->reads);
	if (get->closing) {
		close_when_quiet(get);
		return;
	}
	give_up_late(get);
	kw_lookups_tick(get->lookups);
	look_up(get);
	kw_lookups_post(get->lookups);
	if (!get->first && get->reads.outstanding == 0)
		uv_timer_stop(timer);
}

struct kw_get *kw_get_new(uv_loop_t *loop, kw_reads_remote_fn remote, void *arg)
{
	struct kw_get *get = kw_zalloc(sizeof *get);
	const struct kw_lookups_options options = {0};
	struct kw_lookups_io io;

	kw_reads_init(&get->reads, remote, arg);
	io = kw_reads_lookups_io(&get->reads);
	get->lookups = kw_lookups_new(&options, &io);
	uv_timer_init(loop, &get->tick);
	get->tick.data = get;
	return get;
}

int kw_get_ask(struct kw_get *get, uint32_t database, struct kw_slice key, kw_get_fn fn, void *arg,
	struct kw_error *error)
{
	struct question *question;

	if (get->closing)
		return kw_error_set(error, KW_E_STATE, "get: the agent is shutting down");
	if (get->waiting == KW_GET_WAITING_MAX)
		return kw_error_set(error, KW_E_FULL,
			"get: %d questions are waiting already; ask again later",
			KW_GET_WAITING_MAX);
	question = kw_zalloc(sizeof *question + key.length);
	question->fn = fn;
	question->arg = arg;
	question->database = database;
	question->deadline_us = kw_clock_us() + KW_GET_TIMEOUT_MS * 1000;
	question->key_length = key.length;
	if (key.length)
		memcpy(question->key, key.data, key.length);
	if (get->last)
		get->last->next = question;
	else
		get->first = question;
	get->last = question;
	get->waiting++;
	if (!uv_is_active((uv_handle_t *)&get->tick))
		uv_timer_start(&get->tick, on_tick, TICK_MS, TICK_MS);
	look_up(get);
	kw_lookups_post(get->lookups);
	return KW_OK;
}

void kw_get_lost(struct kw_get *get)
{
	struct kw_error error;
	bool asked = get->first && kw_lookups_busy(get->lookups);

	kw_lookups_stop(get->lookups);
	if (!asked)
		return;
	kw_error_set(&error, KW_E_IO, "get: the connection to the proxy was lost");
	answer(get, NULL, &error);
}

void kw_get_close(struct kw_get *get, void (*done)(void *arg), void *arg)
{
	struct kw_error error;

	get->closing = true;
	get->done = done;
	get->done_arg = arg;
	kw_lookups_stop(get->lookups);
	kw_error_set(&error, KW_E_STATE, "get: the agent is shutting down");
	while (get->first)
		answer(get, NULL, &error);
	if (!uv_is_active((uv_handle_t *)&get->tick))
		uv_timer_start(&get->tick, on_tick, TICK_MS, TICK_MS);
	close_when_quiet(get);
}
