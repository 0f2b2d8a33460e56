/*
 * memcached: requests of its clients, answered from the table.
 *
 * The keys of one line are parts of one reply. Once one of them cannot be answered, the reply is an
 * error: no other part of the line counts any more, neither one that was answered before its turn
 * nor one that is answered later. So a line of many keys has exactly one end.
 */
#include "internal.h"

#include "gateway/memcached/request.h"
#include "gateway/memcached/stats.h"

#include "base/clock.h"

#include <assert.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Lines of one client that can be under way: each has a part, or is the one that is being begun. */
#define LINES 256
static_assert(LINES > KW_CLIENT_PARTS + 1, "two lines that are under way would have one number");
static_assert(sizeof(struct kw_memcached_how) == sizeof(uint64_t), "it is kept in a part's flags");

/* kw_part.words of the part whose error ends its line. */
enum { ANSWER = 0, ERROR = 1 };

struct memcached {
	struct kw_memcached_request request;
	size_t left;                 /* of the request's keys: those that were not begun yet */
	uint32_t line;               /* which the keys belong to: kw_part.at */
	uint64_t failed[LINES / 64]; /* a set of lines */
};

static struct memcached *memcached_of(struct kw_client *client)
{
	return kw_client_own(client);
}

static bool has_failed(const struct memcached *memcached, uint32_t line)
{
	return memcached->failed[line / 64] >> line % 64 & 1;
}

static void set_failed(struct memcached *memcached, uint32_t line, bool failed)
{
	const uint64_t bit = UINT64_C(1) << line % 64;

	if (failed)
		memcached->failed[line / 64] |= bit;
	else
		memcached->failed[line / 64] &= ~bit;
}

static void on_closed(struct kw_client *client)
{
	kw_memcached_request_close(&memcached_of(client)->request);
}

/* ---- answers ---- */

static const char *class_of(enum kw_get_outcome outcome)
{
	switch (outcome) {
	case KW_GOT_LOADING:
		return "loading";
	case KW_GOT_STALE:
		return "stale";
	case KW_GOT_LOST:
		return "lost";
	case KW_GOT_TRY_AGAIN:
		return "try again";
	case KW_GOT_TOO_LARGE:
		return "too large";
	case KW_GOT_VALUE:
	case KW_GOT_MISSING:
		break;
	}
	assert(!"an answer needs no excuse");
	return "";
}

static int answer_key(const struct kw_part *part, const struct kw_got *got, struct kw_buffer *out,
	struct kw_error *error)
{
	struct kw_memcached_found found = {
		.key = part->question.key,
		.payload = got->payload,
		.kind = got->kind,
		.version = got->version,
		.expires_ms = got->expires_ms,
		.now_ms = got->now_ms,
	};
	struct kw_memcached_how how;

	if (got->outcome != KW_GOT_VALUE && got->outcome != KW_GOT_MISSING)
		return kw_error_set(error, KW_E_STATE, "%s: %s", class_of(got->outcome), got->why);
	memcpy(&how, &part->flags, sizeof how);
	if (how.verb == KW_MEMCACHED_META_GET)
		found.opaque = *kw_part_words(part);
	return kw_memcached_answer(&how, &found, out, error);
}

static void on_answer(struct kw_client *client, struct kw_part *part, const struct kw_got *got,
	struct kw_buffer *out)
{
	struct memcached *memcached = memcached_of(client);
	struct kw_error error;

	if (has_failed(memcached, part->at) || !answer_key(part, got, out, &error))
		return;
	kw_memcached_append_error(out, error.text);
	part->words = ERROR;
	set_failed(memcached, part->at, true);
}

static bool on_counts(struct kw_client *client, const struct kw_part *part)
{
	const bool is_key = part->what == &kw_protocol_memcached;

	return !is_key || part->words == ERROR || !has_failed(memcached_of(client), part->at);
}

/* ---- requests ---- */

static void begin_key(struct kw_client *client)
{
	struct memcached *memcached = memcached_of(client);
	const struct kw_memcached_request *request = &memcached->request;
	struct kw_slice key = request->keys[request->count - memcached->left];
	const struct kw_frontend *server = kw_client_server(client);
	struct kw_memcached_how how = request->how;
	struct kw_part *part = kw_client_get(client, server->options.memcached_database, key);

	memcached->left--;
	how.ends = how.ends && memcached->left == 0;
	part->what = &kw_protocol_memcached;
	part->at = memcached->line;
	part->words = ANSWER;
	memcpy(&part->flags, &how, sizeof how);
	if (how.verb == KW_MEMCACHED_META_GET)
		part->words_at = kw_client_keep_words(client, &request->opaque, 1);
}

/* As many keys as there is room for. */
static enum kw_begun begin_keys(struct kw_client *client, size_t *taken)
{
	struct memcached *memcached = memcached_of(client);

	for (uint32_t room = kw_client_room(client); room > 0 && memcached->left > 0; room--)
		begin_key(client);
	if (memcached->left > 0)
		return KW_BEGUN_SOME;
	*taken = memcached->request.bytes;
	return KW_BEGUN_WHOLE;
}

static enum kw_begun begin_line(struct kw_client *client, size_t *taken)
{
	struct memcached *memcached = memcached_of(client);
	const struct kw_memcached_request *request = &memcached->request;

	if (request->part == KW_MEMCACHED_WHOLE || request->part == KW_MEMCACHED_FRONT) {
		memcached->line = (memcached->line + 1) % LINES;
		set_failed(memcached, memcached->line, false);
	}
	memcached->left = request->count;
	return begin_keys(client, taken);
}

static void say(struct kw_client *client, struct kw_slice text)
{
	if (text.length == 0)
		return;
	kw_buffer_append(kw_client_reply(client), text.data, text.length);
	kw_client_replied(client);
}

static struct kw_memcached_figures figures_of(const struct kw_frontend *server)
{
	struct kw_gets_stats gets;

	kw_gets_stats(server->options.gets, &gets);
	return (struct kw_memcached_figures){
		.pid = (uint64_t)getpid(),
		.uptime = (kw_clock_us() - server->started_us) / 1000000,
		.time = (uint64_t)time(NULL),
		.max_connections = server->options.max_clients,
		.curr_connections = server->stats.clients,
		.total_connections = server->stats.accepted,
		.rejected_connections = server->stats.closed[KW_CLOSED_FULL],
		.cmd_get = gets.asked,
		.cmd_set = server->stats.refused,
		.get_hits = gets.told[KW_GOT_VALUE],
		.get_misses = gets.told[KW_GOT_MISSING],
		.get_expired = gets.expired,
		.bytes_read = server->stats.bytes_in,
		.bytes_written = server->stats.bytes_out,
		.curr_items = kw_gets_follow(server->options.gets)->superblock.keys,
	};
}

static void say_figures(struct kw_client *client,
	void (*write)(const struct kw_memcached_figures *figures, struct kw_buffer *out))
{
	const struct kw_memcached_figures figures = figures_of(kw_client_server(client));

	write(&figures, kw_client_reply(client));
	kw_client_replied(client);
}

static enum kw_begun on_begin(struct kw_client *client, struct kw_slice input, size_t *taken)
{
	struct memcached *memcached = memcached_of(client);
	struct kw_memcached_request *request = &memcached->request;
	enum kw_memcached_act act;

	if (memcached->left > 0)
		return begin_keys(client, taken);
	/* The input is the client's own buffer: a key in base64 is decoded there. */
	act = kw_memcached_parse(request, (uint8_t *)input.data, input.length);
	if (act == KW_MEMCACHED_KEYS)
		return begin_line(client, taken);
	*taken = request->bytes;
	say(client, request->says);
	switch (act) {
	case KW_MEMCACHED_PARTIAL:
		return KW_BEGUN_PARTIAL;
	case KW_MEMCACHED_REFUSE:
		kw_client_refused(client);
		break;
	case KW_MEMCACHED_STATS:
		say_figures(client, kw_memcached_stats);
		break;
	case KW_MEMCACHED_SETTINGS:
		say_figures(client, kw_memcached_settings);
		break;
	case KW_MEMCACHED_CLOSE:
		if (request->says.length > 0)
			kw_client_ends(client, KW_CLOSED_PROTOCOL);
		return KW_BEGUN_LAST;
	case KW_MEMCACHED_SAY:
	case KW_MEMCACHED_KEYS:
		break;
	}
	return KW_BEGUN_WHOLE;
}

static void on_refuse(struct kw_client *client, const char *why, struct kw_buffer *out)
{
	kw_memcached_append_error(out, why);
}

const struct kw_protocol kw_protocol_memcached = {
	.name = "memcached",
	.bytes = sizeof(struct memcached),
	.closed = on_closed,
	.begin = on_begin,
	.answer = on_answer,
	.counts = on_counts,
	.refuse = on_refuse,
};
