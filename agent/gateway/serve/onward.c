#include "onward.h"

#include "internal.h"
#include "own_keys.h"

#include "base/clock.h"
#include "gateway/answers/words.h"
#include "gateway/forward/commands.h"
#include "gateway/resp/reply.h"

#include <assert.h>
#include <stdlib.h>

/* While a client's reads go to the primary for its own writes, the table is looked at briskly. */
#define WATCH_US 20000
/* The memory of the request that is being written, kept for the next. */
#define REQUEST_KEPT ((size_t)64 << 10)
#define BARRIER "keywake.barrier"

/* A barrier that a client waits for. */
struct kw_onward_wait {
	struct kw_barrier barrier;
	struct kw_part *part;
	struct kw_onward *onward;
	uint32_t ms;
};

/* ---- what the table covers ---- */

static uint64_t covered_us(struct kw_frontend *server)
{
	const struct kw_follow *follow = kw_gets_follow(server->options.gets);
	const struct kw_superblock *superblock = &follow->superblock;

	if (!kw_follow_up(follow) || superblock->epoch == 0 || follow->superblock_begun_us == 0)
		return 0;
	kw_horizon_look(&server->horizon, &(struct kw_horizon_look){
						  .begun_us = follow->superblock_begun_us,
						  .epoch = superblock->epoch,
						  .publication = superblock->publication,
						  .heartbeat_us = superblock->heartbeat_us,
						  .fresh_us = superblock->fresh_us,
					  });
	return server->horizon.covered_us;
}

void kw_onward_turn(struct kw_frontend *server)
{
	uint64_t covered = covered_us(server);

	if (server->barriers.first)
		kw_barriers_step(&server->barriers, kw_clock_us(), covered);
}

void kw_onward_close(struct kw_frontend *server)
{
	kw_barriers_step(&server->barriers, UINT64_MAX, 0);
}

/* ---- where to ---- */

static enum kw_own_want want_of(
	const struct kw_onward_request *request, enum kw_forward_class class)
{
	if (request->answerable)
		return KW_OWN_READS_TABLE;
	return class == KW_FORWARD_WRITES ? KW_OWN_WRITES : KW_OWN_READS_PRIMARY;
}

static enum kw_own_place place_of(struct kw_frontend *server, const struct kw_onward *onward,
	const struct kw_onward_request *request, enum kw_own_want want)
{
	struct kw_own_keys keys;
	struct kw_own_facts facts = {
		.want = want,
		.line = kw_forward_line_of(request->resp_version, request->database),
		.gets = onward->gets,
		.covered_us = covered_us(server), /* another table can have come in this turn */
	};
	enum kw_own_place place;

	if (want == KW_OWN_READS_TABLE && !kw_own_all_covered(&onward->own, facts.covered_us)) {
		kw_own_keys_read(request->words, request->count, request->database, &keys);
		facts.keys = &keys;
	}
	place = kw_own_judge(&onward->own, &facts);
	if (want == KW_OWN_READS_TABLE && place != KW_OWN_TABLE)
		kw_gets_watch(server->options.gets, kw_clock_us() + WATCH_US);
	return place;
}

struct kw_onward_verdict kw_onward_judge(struct kw_frontend *server, const struct kw_onward *onward,
	const struct kw_onward_request *request)
{
	struct kw_forward_verdict may = {.class = KW_FORWARD_READS};
	enum kw_own_want want;

	if (onward->wait)
		return (struct kw_onward_verdict){.place = KW_ONWARD_WAIT};
	if (!server->options.forward)
		return (struct kw_onward_verdict){
			.place = request->answerable ? KW_ONWARD_TABLE : KW_ONWARD_REFUSED};
	if (!request->answerable)
		may = kw_forward_may(request->words, request->count);
	if (may.why)
		return (struct kw_onward_verdict){.place = KW_ONWARD_REFUSED, .why = may.why};
	want = want_of(request, may.class);
	switch (place_of(server, onward, request, want)) {
	case KW_OWN_TABLE:
		return (struct kw_onward_verdict){.place = KW_ONWARD_TABLE};
	case KW_OWN_WAIT:
		return (struct kw_onward_verdict){.place = KW_ONWARD_WAIT};
	case KW_OWN_PRIMARY:
		break;
	}
	return (struct kw_onward_verdict){
		.place = KW_ONWARD_PRIMARY, .writes = want == KW_OWN_WRITES};
}

/* ---- to the primary ---- */

static enum kw_forward_guard guard_of(enum kw_sight_fence fence)
{
	switch (fence) {
	case KW_FENCE_OPEN:
		return KW_GUARD_OFF;
	case KW_FENCE_NAMED:
		return KW_GUARD_NAMED;
	case KW_FENCE_CLOSED:
		break;
	}
	return KW_GUARD_CLOSED;
}

void kw_onward_guard(struct kw_frontend *server)
{
	kw_forward_expect(server->options.forward,
		kw_gets_follow(server->options.gets)->superblock.source_id);
	kw_forward_set_guard(
		server->options.forward, guard_of(kw_gets_fence(server->options.gets)));
}

/* The words are written anew: the primary must cut the request where this gateway did. */
static const char *send_words(struct kw_frontend *server, const struct kw_onward_request *request,
	kw_forward_fn fn, struct kw_part *part)
{
	const char *why;

	kw_onward_guard(server);
	kw_buffer_clear(&server->request);
	kw_resp_command(&server->request, (int)request->count, request->words);
	why = kw_forward_send(server->options.forward,
		&(struct kw_forward_request){
			.resp_version = request->resp_version,
			.database = request->database,
			.bytes = kw_slice(kw_buffer_bytes(&server->request),
				kw_buffer_length(&server->request)),
			.fn = fn,
			.arg = part,
		});
	kw_buffer_clear(&server->request);
	kw_buffer_trim(&server->request, REQUEST_KEPT);
	server->stats.forwarded += !why;
	return why;
}

static void on_forwarded(void *arg, enum kw_forward_end end, struct kw_slice reply)
{
	struct kw_part *part = arg;

	kw_own_answered(&part->onward->own, part->flags,
		end == KW_FORWARD_NOT_EXECUTED ? 0 : kw_clock_us());
	if (kw_part_wanted(part))
		kw_part_append(part, reply);
	kw_part_end(part);
}

void kw_onward_begin(struct kw_client *client, struct kw_onward *onward,
	const struct kw_onward_request *request, bool writes)
{
	struct kw_part *part = kw_client_defer(client);
	struct kw_own_keys keys;
	const char *why;

	part->onward = onward;
	why = send_words(client->server, request, on_forwarded, part);
	if (why) {
		const struct kw_reply_to to = {.out = kw_part_reply(part)};

		kw_reply_error(&to, "%s", why);
		kw_part_end(part);
		return;
	}
	if (writes)
		kw_own_keys_written(request->words, request->count, request->database, &keys);
	part->flags = kw_own_sent(&onward->own,
		kw_forward_line_of(request->resp_version, request->database), writes ? &keys : NULL,
		client->server->horizon.covered_us);
}

void kw_onward_closed(struct kw_onward *onward)
{
	kw_own_close(&onward->own);
}

bool kw_onward_instead(
	struct kw_part *part, const struct kw_onward_request *request, kw_forward_fn fn)
{
	struct kw_frontend *server = part->client->server;

	return server->options.forward && !send_words(server, request, fn, part);
}

/* ---- barriers ---- */

bool kw_onward_is_barrier(struct kw_slice name)
{
	return kw_word_is(name, BARRIER);
}

static void on_barrier(void *arg, enum kw_barrier_end end)
{
	struct kw_onward_wait *wait = arg;
	struct kw_part *part = wait->part;
	struct kw_reply_to to;

	wait->onward->wait = NULL;
	if (kw_part_wanted(part)) {
		to = (struct kw_reply_to){.out = kw_part_reply(part)};
		if (end == KW_BARRIER_PASSED)
			kw_reply_simple(&to, "OK");
		else
			kw_reply_error(&to,
				"TRYAGAIN the table did not come level within %u ms: see the state "
				"of the gateway, or wait longer",
				wait->ms);
	}
	free(wait);
	kw_part_end(part);
}

void kw_onward_left(struct kw_onward *onward)
{
	struct kw_onward_wait *wait = onward->wait;

	if (!wait)
		return;
	kw_barrier_cancel(&wait->part->client->server->barriers, &wait->barrier);
	on_barrier(wait, KW_BARRIER_TOO_LATE);
}

static void refuse_barrier(struct kw_client *client)
{
	const struct kw_reply_to to = {.out = kw_client_reply(client)};

	kw_reply_error(&to,
		"ERR KEYWAKE.BARRIER takes one word: how long to wait at most, in ms (0 to %d)",
		KW_BARRIER_MAX_MS);
	kw_client_replied(client);
}

enum kw_onward_place kw_onward_begin_barrier(
	struct kw_client *client, struct kw_onward *onward, const struct kw_onward_request *request)
{
	struct kw_frontend *server = client->server;
	struct kw_onward_wait *wait;
	uint32_t ms;

	if (onward->wait || place_of(server, onward, request, KW_OWN_BARRIER) == KW_OWN_WAIT)
		return KW_ONWARD_WAIT;
	if (request->count != 2 || !kw_barrier_parse(request->words[1], &ms)) {
		refuse_barrier(client);
		return KW_ONWARD_REFUSED;
	}
	wait = kw_zalloc(sizeof *wait);
	wait->barrier.ended = on_barrier;
	wait->barrier.arg = wait;
	wait->part = kw_client_defer(client);
	wait->onward = onward;
	wait->ms = ms;
	onward->wait = wait;
	kw_barrier_begin(&server->barriers, &wait->barrier, kw_clock_us(), ms);
	/* A little longer than it waits: the last turn tells it that it is too late. */
	kw_gets_watch(server->options.gets, wait->barrier.until_us + WATCH_US);
	return KW_ONWARD_TABLE;
}
