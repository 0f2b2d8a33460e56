/* What callers see: open, send, close. Everything here only queues; connection.c moves the bytes.
 */
#include "redis/redis.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "redis/connection.h"
#include "redis/stream_drain.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define DEFAULT_CONNECT_TIMEOUT_MS 5000
#define DEFAULT_REPLY_TIMEOUT_MS 30000

/* The longest command that kw_redis_words takes. */
#define WORDS_MAX 16

static void copy_text(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%s", from);
}

int kw_redis_open(uv_loop_t *loop, const struct kw_redis_options *options,
	const struct kw_redis_handlers *handlers, struct kw_redis **result, struct kw_error *error)
{
	struct kw_redis_address address;
	struct kw_redis *redis;

	assert(loop && handlers && result);
	if (kw_redis_address_parse(options->address, &address, error) != 0)
		return KW_E_CONFIG;
	if (address.scheme == KW_REDIS_TLS && (!options->tls || !options->tls->context))
		return kw_error_set(error, KW_E_CONFIG,
			"redis address \"%s\": no certificates were loaded for it (redis.tls)",
			options->address);
	redis = kw_zalloc(sizeof *redis);
	redis->tls = options->tls;
	redis->ports = options->ports;
	redis->keys = options->keys ? options->keys : "redis";
	redis->loop = loop;
	redis->handlers = *handlers;
	redis->address = address;
	snprintf(redis->place, sizeof redis->place, "redis %.300s", options->address);
	copy_text(redis->client_name, sizeof redis->client_name,
		options->client_name[0] ? options->client_name : "keywake");
	redis->connect_timeout_ms = options->connect_timeout_ms ? options->connect_timeout_ms
								: DEFAULT_CONNECT_TIMEOUT_MS;
	redis->reply_timeout_ms =
		options->reply_timeout_ms ? options->reply_timeout_ms : DEFAULT_REPLY_TIMEOUT_MS;
	redis->ready_until_us = kw_clock_us() + (uint64_t)redis->connect_timeout_ms * 1000;
	redis->reading = KW_REDIS_READ_DIRECT;
	redis->reader = kw_reply_reader_new(kw_redis_take, redis);
	if (options->raw_bytes > 0)
		redis->raw = kw_raw_reader_new(options->raw_bytes, kw_redis_take, redis);
	kw_redis_init_handles(redis);
	kw_redis_login(redis, options);
	kw_sm_init(&redis->sm, &kw_redis_machine, redis, KW_REDIS_OPENING);
	kw_redis_wake(redis);
	*result = redis;
	return 0;
}

/* Its reply is pending from now on. False: it is closing; nothing is written, and NULL is told. */
static bool expect_reply(struct kw_redis *redis, struct kw_pending command)
{
	assert(redis->sm.state != KW_REDIS_CLOSED);
	if (redis->pending.count == 0)
		redis->moved_us = redis->silent_us = kw_clock_us();
	kw_pending_push(&redis->pending, command);
	return !kw_redis_is_over(redis);
}

void kw_redis_send(
	struct kw_redis *redis, kw_reply_fn fn, void *arg, int argc, const struct kw_slice *argv)
{
	const struct kw_pending command = {.fn = fn, .arg = arg, .bound = kw_bound_of(argc, argv)};

	if (!expect_reply(redis, command))
		return;
	kw_output_command(&redis->output, argc, argv);
	kw_redis_wake(redis);
}

void kw_redis_send_secret(
	struct kw_redis *redis, kw_reply_fn fn, void *arg, int argc, const struct kw_slice *argv)
{
	const struct kw_pending command = {
		.fn = fn,
		.arg = arg,
		.kind = KW_PENDING_SECRET,
		.bound = kw_bound_of(argc, argv),
	};

	if (!expect_reply(redis, command))
		return;
	kw_output_secret(&redis->output, argc, argv);
	kw_redis_wake(redis);
}

void kw_redis_words(struct kw_redis *redis, kw_reply_fn fn, void *arg, const char *word, ...)
{
	struct kw_slice argv[WORDS_MAX];
	va_list words;
	int argc = 0;

	va_start(words, word);
	for (; word; word = va_arg(words, const char *)) {
		assert(argc < WORDS_MAX);
		argv[argc++] = kw_slice_text(word);
	}
	va_end(words);
	kw_redis_send(redis, fn, arg, argc, argv);
}

void kw_redis_send_raw(struct kw_redis *redis, kw_reply_fn fn, void *arg, struct kw_slice resp)
{
	if (!expect_reply(redis, (struct kw_pending){.fn = fn, .arg = arg}))
		return;
	kw_output_raw(&redis->output, resp);
	kw_redis_wake(redis);
}

void kw_redis_send_copy(struct kw_redis *redis, kw_reply_fn fn, void *arg, struct kw_slice resp)
{
	if (!expect_reply(redis, (struct kw_pending){.fn = fn, .arg = arg}))
		return;
	kw_output_copy(&redis->output, resp);
	kw_redis_wake(redis);
}

uint64_t kw_redis_queued_to(const struct kw_redis *redis)
{
	return redis->written + redis->output.bytes;
}

uint64_t kw_redis_written_to(const struct kw_redis *redis)
{
	return redis->written;
}

void kw_redis_subscribe(
	struct kw_redis *redis, bool pattern, const char *channel, kw_reply_fn fn, void *arg)
{
	struct kw_slice argv[] = {
		kw_slice_text(pattern ? "PSUBSCRIBE" : "SUBSCRIBE"),
		kw_slice_text(channel),
	};

	if (!expect_reply(redis,
		    (struct kw_pending){.fn = fn, .arg = arg, .kind = KW_PENDING_SUBSCRIPTION}))
		return;
	kw_output_command(&redis->output, 2, argv);
	kw_redis_wake(redis);
}

void kw_redis_take_over(struct kw_redis *redis, kw_redis_stream_fn fn, void *arg)
{
	struct kw_error error;

	assert(fn && redis->sm.state == KW_REDIS_READY && redis->pending.count == 0);
	assert(redis->input_kind == KW_REDIS_REPLIES && redis->output.bytes == 0);
	redis->stream_fn = fn;
	redis->stream_arg = arg;
	redis->input_kind = KW_REDIS_STREAM;
	/* Without the thread the loop alone reads it. */
	(void)kw_redis_stream_drain(&redis->link->stream, &redis->drained, &error);
}

void kw_redis_put(struct kw_redis *redis, struct kw_slice bytes)
{
	assert(redis->input_kind == KW_REDIS_STREAM && redis->sm.state != KW_REDIS_CLOSED);
	if (kw_redis_is_over(redis) || bytes.length == 0)
		return;
	kw_output_copy(&redis->output, bytes);
	kw_redis_wake(redis);
}

void kw_redis_flush(struct kw_redis *redis)
{
	kw_redis_write(redis);
}

const char *kw_redis_lost(const struct kw_redis *redis)
{
	return kw_redis_is_over(redis) && redis->why.code != KW_OK ? redis->why.text : NULL;
}

uint64_t kw_redis_silent_since(const struct kw_redis *redis)
{
	return redis->pending.count > 0 ? redis->silent_us : UINT64_MAX;
}

size_t kw_redis_pending(const struct kw_redis *redis)
{
	return redis->pending.count;
}

size_t kw_redis_unsent_bytes(const struct kw_redis *redis)
{
	return redis->output.bytes;
}

void kw_redis_close(struct kw_redis *redis)
{
	struct kw_error why = {0};

	kw_redis_fail(redis, &why);
}

void kw_redis_free(struct kw_redis *redis)
{
	if (!redis)
		return;
	assert(redis->sm.state == KW_REDIS_CLOSED);
	assert(redis->pending.count == 0);
	kw_reply_reader_free(redis->reader);
	kw_raw_reader_free(redis->raw);
	kw_output_close(&redis->output);
	kw_pending_close(&redis->pending);
	free(redis);
}
