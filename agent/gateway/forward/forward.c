#include "forward.h"

#include "line.h"

#include "redis/address.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

#define DEFAULT_REPLY_BYTES ((size_t)64 << 20)
#define DEFAULT_REQUESTS 65536
#define DEFAULT_BYTES ((size_t)256 << 20)
#define DEFAULT_REPLY_MS 120000

int kw_forward_init(struct kw_forward *forward, const struct kw_forward_options *options,
	struct kw_error *error)
{
	*forward = (struct kw_forward){.options = *options};
	if (forward->options.primary.raw_bytes == 0)
		forward->options.primary.raw_bytes = DEFAULT_REPLY_BYTES;
	if (forward->options.max_requests == 0)
		forward->options.max_requests = DEFAULT_REQUESTS;
	if (forward->options.max_bytes == 0)
		forward->options.max_bytes = DEFAULT_BYTES;
	if (forward->options.reply_timeout_ms == 0)
		forward->options.reply_timeout_ms = DEFAULT_REPLY_MS;
	return kw_redis_address_check(options->primary.address, error);
}

static const char *refuse(struct kw_forward *forward, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

static const char *refuse(struct kw_forward *forward, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(forward->refusal, sizeof forward->refusal, format, args);
	va_end(args);
	forward->counts.refused++;
	return forward->refusal;
}

/* Of the lines on which nothing is under way, the one that was used least of late begins to close.
 */
static void begin_to_make_room(struct kw_forward *forward)
{
	struct kw_line *oldest = NULL;

	for (int i = 0; i < forward->line_count; i++) {
		struct kw_line *line = forward->lines[i];

		if (line->sm.state == KW_LINE_CLOSING)
			return; /* one is enough for now */
		if (line->sm.state == KW_LINE_UP && line->count == 0 &&
			(!oldest || line->used_us < oldest->used_us))
			oldest = line;
	}
	if (oldest)
		kw_line_close(oldest);
}

/*
 * If there are as many as there may be, one that is down or closed makes room. Otherwise an idle
 * one does, soon: databases that were used once must not keep others out for ever.
 */
static struct kw_line **place_for_a_line(struct kw_forward *forward)
{
	if (forward->line_count < KW_FORWARD_LINES)
		return &forward->lines[forward->line_count++];
	for (int i = 0; i < forward->line_count; i++) {
		struct kw_line *line = forward->lines[i];

		if (line->sm.state != KW_LINE_DOWN && line->sm.state != KW_LINE_CLOSED)
			continue;
		kw_line_close(line);
		kw_line_free(line);
		return &forward->lines[i];
	}
	begin_to_make_room(forward);
	return NULL;
}

static bool is_ending(const struct kw_line *line)
{
	return line->sm.state == KW_LINE_CLOSING || line->sm.state == KW_LINE_CLOSED;
}

/* NULL: no line is left. */
static struct kw_line *line_for(struct kw_forward *forward, int resp_version, uint32_t database)
{
	struct kw_line **place;

	for (int i = 0; i < forward->line_count; i++) {
		struct kw_line *line = forward->lines[i];

		if (line->database == database && line->resp_version == resp_version &&
			!is_ending(line))
			return line;
	}
	place = place_for_a_line(forward);
	if (place)
		*place = kw_line_new(forward, resp_version, database);
	return place ? *place : NULL;
}

const char *kw_forward_send(struct kw_forward *forward, const struct kw_forward_request *request)
{
	const struct kw_forward_options *options = &forward->options;
	struct kw_line *line;
	const char *why;

	assert(request->bytes.length > 0 && request->fn);
	assert(request->resp_version == 2 || request->resp_version == 3);
	if (forward->state != KW_FORWARD_OPEN)
		return refuse(forward, "MASTERDOWN the gateway ends; not executed");
	if (forward->guard == KW_GUARD_CLOSED)
		return refuse(
			forward, "MASTERDOWN this request was not executed: " KW_LINE_UNCONFIRMED);
	if (forward->requests >= options->max_requests ||
		request->bytes.length > options->max_bytes - forward->bytes)
		return refuse(forward,
			"TRYAGAIN %u requests (%zu bytes) wait for the primary, as many as the "
			"gateway keeps; this one was not executed",
			forward->requests, forward->bytes);
	line = line_for(forward, request->resp_version, request->database);
	if (!line)
		return refuse(forward,
			"TRYAGAIN the gateway keeps at most %d connections to the primary, one for "
			"each database and version of RESP; not executed: ask again, or use fewer "
			"databases",
			KW_FORWARD_LINES);
	why = kw_line_send(line, request);
	return why ? refuse(forward, "MASTERDOWN this request was not executed: %s", why) : NULL;
}

const char *kw_forward_down(const struct kw_forward *forward)
{
	const struct kw_line *newest = NULL;

	for (int i = 0; i < forward->line_count; i++) {
		const struct kw_line *line = forward->lines[i];

		if (line->sm.state == KW_LINE_DOWN && line->why.code != KW_E_ARGUMENT &&
			(!newest || line->next_us > newest->next_us))
			newest = line;
	}
	return newest ? newest->why.text : NULL;
}

static void end_when_all_are_closed(struct kw_forward *forward)
{
	/* While kw_forward_close still asks one line after the other, it looks itself. */
	if (forward->state != KW_FORWARD_CLOSING)
		return;
	for (int i = 0; i < forward->line_count; i++) {
		if (forward->lines[i]->sm.state != KW_LINE_CLOSED)
			return;
	}
	for (int i = 0; i < forward->line_count; i++)
		kw_line_free(forward->lines[i]);
	forward->line_count = 0;
	forward->state = KW_FORWARD_CLOSED;
	assert(forward->requests == 0 && forward->bytes == 0);
	forward->closed(forward->closed_arg);
}

void kw_forward_line_closed(struct kw_forward *forward)
{
	end_when_all_are_closed(forward);
}

void kw_forward_tick(struct kw_forward *forward, uint64_t now_us)
{
	for (int i = 0; i < forward->line_count; i++)
		kw_line_tick(forward->lines[i], now_us);
}

void kw_forward_close(struct kw_forward *forward, void (*closed)(void *arg), void *arg)
{
	assert(forward->state == KW_FORWARD_OPEN);
	forward->closed = closed;
	forward->closed_arg = arg;
	for (int i = 0; i < forward->line_count; i++)
		kw_line_close(forward->lines[i]);
	forward->state = KW_FORWARD_CLOSING;
	end_when_all_are_closed(forward);
}
