#include "line.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BACKOFF_LOWEST_MS 50
#define BACKOFF_HIGHEST_MS 1000
#define FIRST_ROOM 64
#define QUOTE_BYTES 200
#define ERROR_BYTES (KW_ERROR_TEXT + 256)

#define CLOSES "the gateway ends"
#define ANOTHER                                                                                    \
	"redis.address leads to another server than the one that the proxy reads, or the proxy "   \
	"has not seen yet that it was restarted: give the gateway the address that the proxy has"
#define UNKNOWN                                                                                    \
	"it is not known yet whether redis.address leads to the confirmed primary: if this "       \
	"lasts, give the gateway's user +info there"

#define TO(state) KW_SM_TO(KW_LINE_##state)
static const struct kw_sm_state states[] = {
	[KW_LINE_REST] = {"rest", TO(OPENING) | TO(DOWN) | TO(CLOSED), KW_SM_INITIAL},
	[KW_LINE_OPENING] = {"opening", TO(UP) | TO(LEAVING) | TO(CLOSING)},
	[KW_LINE_UP] = {"up", TO(LEAVING) | TO(CLOSING)},
	[KW_LINE_LEAVING] = {"leaving", TO(DOWN) | TO(CLOSING)},
	[KW_LINE_DOWN] = {"down", TO(OPENING) | TO(CLOSED)},
	[KW_LINE_CLOSING] = {"closing", TO(CLOSED)},
	[KW_LINE_CLOSED] = {"closed", 0, KW_SM_FINAL},
};

static bool holds(const void *owner, int state)
{
	const struct kw_line *line = owner;
	bool held = kw_buffer_length(&line->held) > 0;

	switch ((enum kw_line_state)state) {
	case KW_LINE_REST:
		return !line->redis && line->count == 0;
	case KW_LINE_OPENING:
		return line->redis && held == (line->count > 0);
	case KW_LINE_UP:
		return line->redis && !held && line->greetings == 0;
	case KW_LINE_LEAVING:
		return line->redis && line->why.code != KW_OK;
	case KW_LINE_DOWN:
		return !line->redis && !held && line->count == 0 && line->why.code != KW_OK;
	case KW_LINE_CLOSING:
		return line->redis;
	case KW_LINE_CLOSED:
		return !line->redis && !held && line->count == 0;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "forward",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = holds,
};

static bool is(const struct kw_line *line, enum kw_line_state state)
{
	return line->sm.state == (int)state;
}

/* The requests without an answer. */

static void push(struct kw_line *line, const struct kw_line_request *request)
{
	if (line->count == line->room) {
		size_t room = line->room ? line->room * 2 : FIRST_ROOM;
		struct kw_line_request *requests = kw_alloc(room * sizeof *requests);

		for (size_t i = 0; i < line->count; i++)
			requests[i] = line->requests[(line->first + i) & (line->room - 1)];
		free(line->requests);
		line->requests = requests;
		line->room = room;
		line->first = 0;
	}
	if (line->count == 0)
		line->oldest_us = kw_clock_us();
	line->requests[(line->first + line->count++) & (line->room - 1)] = *request;
	line->forward->requests++;
	line->forward->bytes += request->bytes;
}

static struct kw_line_request pop(struct kw_line *line)
{
	struct kw_line_request request = line->requests[line->first];

	assert(line->count > 0 && line->forward->requests > 0);
	assert(line->forward->bytes >= request.bytes);
	line->first = (line->first + 1) & (line->room - 1);
	line->count--;
	line->forward->requests--;
	line->forward->bytes -= request.bytes;
	return request;
}

static void end(const struct kw_line_request *request, enum kw_forward_end how, const char *text)
{
	char reply[ERROR_BYTES];
	int length = snprintf(reply, sizeof reply - 2, "-%s", text);

	assert(length > 0);
	if ((size_t)length >= sizeof reply - 2)
		length = sizeof reply - 3;
	for (int i = 0; i < length; i++) {
		/* A sentence can quote the server: no line end within it. */
		if ((unsigned char)reply[i] < ' ')
			reply[i] = ' ';
	}
	memcpy(reply + length, "\r\n", 2);
	request->fn(request->arg, how, kw_slice(reply, (size_t)length + 2));
}

static void end_not_executed(struct kw_line *line, const struct kw_line_request *request)
{
	char text[ERROR_BYTES];

	line->forward->counts.lost_not_executed++;
	snprintf(text, sizeof text, "MASTERDOWN this request was not executed: %s", line->why.text);
	end(request, KW_FORWARD_NOT_EXECUTED, text);
}

static void end_perhaps(struct kw_line *line, const struct kw_line_request *request)
{
	char text[ERROR_BYTES];

	line->forward->counts.lost_perhaps++;
	snprintf(
		text, sizeof text, "IOERR this request may have been executed: %s", line->why.text);
	end(request, KW_FORWARD_PERHAPS, text);
}

static void end_too_long(struct kw_line *line, const struct kw_line_request *request, int64_t bytes)
{
	char text[ERROR_BYTES];

	line->forward->counts.too_long++;
	snprintf(text, sizeof text,
		"ERR this request was executed, but its reply of %lld bytes is longer than the "
		"gateway hands on (%zu); send it to the primary itself",
		(long long)bytes, line->forward->options.primary.raw_bytes);
	end(request, KW_FORWARD_PERHAPS, text);
}

/* What is under way on the connection ends with errors. */
static void give_up(struct kw_line *line, enum kw_code code, const char *why)
{
	kw_error_set(&line->why, code, "%s", why);
	kw_sm_move(&line->sm, KW_LINE_LEAVING, line->why.text);
	kw_redis_close(line->redis);
}

static bool is_another(const struct kw_line *line)
{
	const uint64_t wanted = line->forward->server;

	return wanted != 0 && line->server != 0 && line->server != wanted;
}

/* Why this connection's server may not get requests. NULL: it may. */
static const char *why_not(const struct kw_line *line)
{
	if (is_another(line))
		return ANOTHER;
	switch (line->forward->guard) {
	case KW_GUARD_OFF:
		break;
	case KW_GUARD_NAMED:
		return line->server == 0 || line->forward->server == 0 ? UNKNOWN : NULL;
	case KW_GUARD_CLOSED:
		return KW_LINE_UNCONFIRMED;
	}
	return NULL;
}

/* The mandate is lost, or it is another server's: what this one answers counts no more. */
static bool is_fenced(const struct kw_line *line)
{
	enum kw_forward_guard guard = line->forward->guard;

	return guard == KW_GUARD_CLOSED || (guard == KW_GUARD_NAMED && is_another(line));
}

/* A reply, or the loss of the connection, for the oldest request. */
static void on_reply(void *arg, const struct kw_reply *reply)
{
	struct kw_line *line = arg;
	struct kw_line_request request = pop(line);

	if (!reply) {
		const char *lost = kw_redis_lost(line->redis);

		if (line->why.code == KW_OK)
			kw_error_set(&line->why, KW_E_IO, "%s", lost ? lost : CLOSES);
		/* What the kernel did not take whole, the server cannot have executed. */
		if (request.queued_to > kw_redis_written_to(line->redis))
			end_not_executed(line, &request);
		else
			end_perhaps(line, &request);
		return;
	}
	if (is(line, KW_LINE_UP) && is_fenced(line))
		give_up(line, KW_E_STATE, why_not(line));
	if (is(line, KW_LINE_LEAVING) && line->why.code == KW_E_STATE) {
		end_perhaps(line, &request);
		return;
	}
	line->oldest_us = kw_clock_us();
	if (reply->type == KW_REPLY_TOO_LONG) {
		end_too_long(line, &request, reply->integer);
		return;
	}
	line->forward->counts.answered++;
	request.fn(request.arg, KW_FORWARD_ANSWERED, reply->text);
}

/* The connection. */

static void send_bytes(struct kw_line *line, struct kw_line_request *request, struct kw_slice bytes)
{
	kw_redis_send_copy(line->redis, on_reply, line, bytes);
	request->queued_to = kw_redis_queued_to(line->redis);
}

static void go_up(struct kw_line *line)
{
	struct kw_buffer held = line->held;
	const uint8_t *bytes = kw_buffer_bytes(&held);

	if (why_not(line)) {
		give_up(line, KW_E_STATE, why_not(line));
		return;
	}
	line->oldest_us = kw_clock_us();
	line->held = (struct kw_buffer){0};
	kw_backoff_reset(&line->backoff);
	line->forward->counts.connections++;
	kw_sm_move(&line->sm, KW_LINE_UP, "");
	for (size_t i = 0; i < line->count; i++) {
		struct kw_line_request *request =
			&line->requests[(line->first + i) & (line->room - 1)];

		send_bytes(line, request, kw_slice(bytes, request->bytes));
		bytes += request->bytes;
	}
	kw_buffer_close(&held);
}

/* The primary does not want this version, or has no such database. */
static void leave(struct kw_line *line, struct kw_slice reply)
{
	unsigned after = (line->database > 0) + (line->asked ? 1U : 0U);
	bool hello = line->resp_version == 3 && line->greetings == 1U + after;
	const char *text = reply.data;
	size_t length = 0;

	while (length < reply.length && length < QUOTE_BYTES && text[length] != '\r')
		length++;
	if (hello)
		kw_error_set(&line->why, KW_E_ARGUMENT, "the primary refused HELLO 3: %.*s",
			(int)length, length ? text : "");
	else
		kw_error_set(&line->why, KW_E_ARGUMENT, "the primary refused SELECT %u: %.*s",
			line->database, (int)length, length ? text : "");
	kw_sm_move(&line->sm, KW_LINE_LEAVING, line->why.text);
	kw_redis_close(line->redis);
}

static void on_greeted(void *arg, const struct kw_reply *reply)
{
	struct kw_line *line = arg;

	if (!reply || !is(line, KW_LINE_OPENING))
		return; /* on_closed follows */
	assert(line->greetings > 0);
	if (reply->text.length == 0 || *(const char *)reply->text.data == '-') {
		leave(line, reply->text);
		return;
	}
	if (--line->greetings == 0)
		go_up(line);
}

static uint64_t server_of(struct kw_slice info)
{
	struct kw_server_identity identity = {0};
	struct kw_slice id;

	if (!kw_info_text(info, "run_id", &id) || id.length >= sizeof identity.run_id)
		return 0;
	memcpy(identity.run_id, id.data, id.length);
	return kw_server_id(&identity);
}

static void on_introduced(void *arg, const struct kw_reply *reply)
{
	struct kw_line *line = arg;
	struct kw_forward *forward = line->forward;

	if (!reply || (!is(line, KW_LINE_OPENING) && !is(line, KW_LINE_UP)))
		return; /* on_closed follows */
	line->server = reply->type == KW_REPLY_RAW ? server_of(reply->text) : 0;
	if (line->server == 0 && !forward->said_unasked) {
		forward->said_unasked = true;
		kw_log_warn("forward",
			"the primary does not say which server it is (INFO server), so it is not "
			"checked that the proxy reads the same one: give the gateway's user +info");
	}
	if (is(line, KW_LINE_OPENING) && --line->greetings == 0)
		go_up(line);
}

static void ask_who_it_is(struct kw_line *line)
{
	line->asked = true;
	kw_redis_words(line->redis, on_introduced, line, "INFO", "server", NULL);
}

static void on_ready(void *arg)
{
	struct kw_line *line = arg;
	char database[16];

	if (!is(line, KW_LINE_OPENING))
		return;
	if (line->resp_version == 3) {
		line->greetings++;
		kw_redis_words(line->redis, on_greeted, line, "HELLO", "3", NULL);
	}
	if (line->database > 0) {
		line->greetings++;
		snprintf(database, sizeof database, "%u", line->database);
		kw_redis_words(line->redis, on_greeted, line, "SELECT", database, NULL);
	}
	if (line->forward->server != 0) {
		line->greetings++;
		ask_who_it_is(line);
	}
	if (line->greetings == 0)
		go_up(line);
}

/* Those that waited for a connection. */
static void end_held(struct kw_line *line)
{
	kw_buffer_close(&line->held);
	/* A function can try to send the next request; it is refused, as the state says. */
	while (line->count > 0) {
		struct kw_line_request request = pop(line);

		end_not_executed(line, &request);
	}
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_line *line = arg;
	bool closing = is(line, KW_LINE_CLOSING);

	if (line->why.code == KW_OK)
		kw_error_set(&line->why, KW_E_IO, "%s", why->code ? why->text : CLOSES);
	if (!closing)
		kw_sm_move(&line->sm, KW_LINE_LEAVING, line->why.text);
	end_held(line);
	line->greetings = 0;
	kw_redis_free(line->redis);
	line->redis = NULL;
	if (closing || is(line, KW_LINE_CLOSING)) {
		kw_sm_move(&line->sm, KW_LINE_CLOSED, "");
		kw_forward_line_closed(line->forward);
		return;
	}
	line->next_us = kw_clock_us() + kw_backoff_next_us(&line->backoff);
	kw_sm_move(&line->sm, KW_LINE_DOWN, line->why.text);
}

static void open_connection(struct kw_line *line)
{
	struct kw_redis_handlers handlers = {.ready = on_ready, .closed = on_closed, .arg = line};
	struct kw_redis_options options = line->forward->options.primary;
	int result;

	if (options.connect_timeout_ms == 0)
		options.connect_timeout_ms = KW_LINE_CONNECT_MS;
	line->why = (struct kw_error){0};
	line->asked = false;
	line->server = 0;
	/* The address was checked by kw_forward_init: nothing else can be refused here. */
	result = kw_redis_open(
		line->forward->options.loop, &options, &handlers, &line->redis, &line->why);
	assert(result == 0);
	kw_sm_move(&line->sm, KW_LINE_OPENING, "");
}

/* What callers see. */

struct kw_line *kw_line_new(struct kw_forward *forward, int resp_version, uint32_t database)
{
	struct kw_line *line = kw_zalloc(sizeof *line);

	line->forward = forward;
	line->resp_version = resp_version;
	line->database = database;
	kw_backoff_init(&line->backoff, BACKOFF_LOWEST_MS, BACKOFF_HIGHEST_MS);
	kw_sm_init(&line->sm, &machine, line, KW_LINE_REST);
	return line;
}

void kw_line_free(struct kw_line *line)
{
	if (!line)
		return;
	assert(is(line, KW_LINE_CLOSED) && line->count == 0);
	kw_buffer_close(&line->held);
	free(line->requests);
	free(line);
}

void kw_line_tick(struct kw_line *line, uint64_t now_us)
{
	const uint32_t most_ms = line->forward->options.reply_timeout_ms;
	char why[80];

	if (is(line, KW_LINE_UP) && line->count > 0 && is_fenced(line))
		give_up(line, KW_E_STATE, why_not(line));
	if (!is(line, KW_LINE_UP) || line->count == 0 ||
		now_us <= line->oldest_us + (uint64_t)most_ms * 1000)
		return;
	snprintf(why, sizeof why, "there was no whole reply within %u ms", most_ms);
	give_up(line, KW_E_TIMEOUT, why);
}

/* Something on this connection keeps it from taking requests. The last ones can end yet. */
static const char *check_connection(struct kw_line *line)
{
	if (!is(line, KW_LINE_UP))
		return NULL;
	if (is_another(line)) {
		if (line->count == 0)
			give_up(line, KW_E_STATE, ANOTHER);
		return ANOTHER;
	}
	if (line->forward->server != 0 && !line->asked)
		ask_who_it_is(line);
	return why_not(line);
}

const char *kw_line_send(struct kw_line *line, const struct kw_forward_request *request)
{
	struct kw_line_request entry = {
		.fn = request->fn, .arg = request->arg, .bytes = request->bytes.length};
	const char *why;

	if (is(line, KW_LINE_REST) || (is(line, KW_LINE_DOWN) && kw_clock_us() >= line->next_us))
		open_connection(line);
	if (!is(line, KW_LINE_OPENING) && !is(line, KW_LINE_UP))
		return line->why.text;
	if (kw_redis_lost(line->redis))
		return kw_redis_lost(line->redis);
	why = check_connection(line);
	if (why)
		return why;
	if (is(line, KW_LINE_OPENING))
		kw_buffer_append(&line->held, request->bytes.data, request->bytes.length);
	else
		send_bytes(line, &entry, request->bytes);
	push(line, &entry);
	line->used_us = kw_clock_us();
	return NULL;
}

void kw_line_close(struct kw_line *line)
{
	if (is(line, KW_LINE_CLOSING) || is(line, KW_LINE_CLOSED))
		return;
	if (!line->redis) {
		kw_sm_move(&line->sm, KW_LINE_CLOSED, "");
		kw_forward_line_closed(line->forward);
		return;
	}
	kw_sm_move(&line->sm, KW_LINE_CLOSING, "");
	kw_redis_close(line->redis);
}
