#include "feed/stream/replication.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/sm.h"
#include "feed/stream/forks.h"
#include "fetch/data.h"
#include "redis/server.h"
#include "stream/attach.h"
#include "stream/parse.h"
#include "stream/preamble.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ACK_EVERY_US UINT64_C(1000000)

/*
 * Without a word for so long the handshake has failed. While a server prepares a synchronisation it
 * sends a newline each second (replicationCron in replication.c).
 */
#define SILENCE_US UINT64_C(60000000)

/* A filtered synchronisation has some 200 bytes; with functions, those too. */
#define PAYLOAD_BYTES ((size_t)64 << 20)

/* Values are not kept: a longer word than this must not be a key. */
#define WORD_BYTES ((size_t)1 << 20)
#define COMMAND_BYTES ((size_t)64 << 20)
#define COMMAND_WORDS (1u << 20)
#define TRANSACTION_BYTES ((size_t)64 << 20)
#define TRANSACTION_EFFECTS (1u << 18)
#define COMMAND_EFFECTS (1u << 12)

/*
 * Of one command in one loop turn, which takes some 20 ms. The others wait for the next turn. While
 * the database is not known, a key counts once for each that is followed (changes.h).
 */
#define TURN_EFFECTS (1u << 15)

enum state { CLOSED, CONNECTING, PROVING, ATTACHING, FOLLOWING, TELLING, CLOSING };

struct kw_replication {
	struct kw_sm sm;
	uv_loop_t *loop;
	struct kw_redis_options options;
	struct kw_replication_handlers handlers;
	struct kw_redis *redis; /* NULL: CLOSED */
	struct kw_repl_attach attach;
	struct kw_repl_parser *parser;
	struct kw_repl_effects *effects;
	char run_id[41]; /* of the server whose stream was followed last; "": begin anew */
	char id[KW_REPL_ID_LENGTH + 1];   /* of the data of that stream */
	enum kw_server_upstream upstream; /* of the server when that stream began */
	char asks_run_id[41];             /* of the server that is asked now, as it was looked at */
	char asks_replid[41];             /* … */
	enum kw_server_upstream asks_upstream;
	char locator[KW_REPLICATION_LOCATOR];
	uint64_t seed, opens, synchronisations;
	uint64_t heard_us, ack_us;
	enum kw_replication_start asks; /* GOES_ON: what the last stream lacks */
	uint32_t located; /* at this offset the stream is there; KW_REPL_ANY_DATABASE: not told */
	uint64_t located_at;
	uint32_t begins_in; /* there is no other one; KW_REPL_ANY_DATABASE: there is */
	struct kw_forks forks;
	uint64_t followed_us;   /* FOLLOWING: since then */
	struct kw_error broken; /* the stream is none; code KW_OK: it is well */
};

static bool holds(const void *owner, int state)
{
	const struct kw_replication *replication = owner;

	if (state == CLOSED)
		return !replication->redis;
	return replication->redis || state == CONNECTING;
}

static const struct kw_sm_state states[] = {
	[CLOSED] = {"closed", KW_SM_TO(CONNECTING), KW_SM_INITIAL},
	[CONNECTING] = {"connecting", KW_SM_TO(PROVING) | KW_SM_TO(CLOSING) | KW_SM_TO(CLOSED)},
	[PROVING] = {"proving", KW_SM_TO(ATTACHING) | KW_SM_TO(CLOSING)},
	[ATTACHING] = {"attaching", KW_SM_TO(FOLLOWING) | KW_SM_TO(CLOSING)},
	[FOLLOWING] = {"following", KW_SM_TO(TELLING) | KW_SM_TO(CLOSING)},
	[TELLING] = {"telling", KW_SM_TO(FOLLOWING) | KW_SM_TO(CLOSING)},
	[CLOSING] = {"closing", KW_SM_TO(CLOSED)},
};

static const struct kw_sm_conf machine = {"replication", states, CLOSING + 1, holds};

static bool is_open(const struct kw_replication *replication)
{
	return replication->sm.state != CLOSED && replication->sm.state != CLOSING;
}

static bool follows(const struct kw_replication *replication)
{
	return replication->sm.state == FOLLOWING || replication->sm.state == TELLING;
}

static void lose(struct kw_replication *replication, const struct kw_error *why)
{
	if (is_open(replication))
		replication->handlers.lost(replication->handlers.arg, why);
}

static void lose_here(struct kw_replication *replication, const struct kw_error *why)
{
	struct kw_error error = *why;

	kw_error_wrap(&error, "%s: the replication stream", replication->options.address);
	lose(replication, &error);
}

static void send_output(struct kw_replication *replication)
{
	struct kw_buffer *output = &replication->attach.output;
	size_t length = kw_buffer_length(output);

	if (length == 0)
		return;
	kw_redis_put(replication->redis, kw_slice(kw_buffer_bytes(output), length));
	kw_buffer_consume(output, length);
}

/* ---- commands ---- */

static bool word_is(const struct kw_repl_command *command, uint32_t index, const char *text)
{
	return command->count > index &&
	       kw_slice_equal(command->words[index].text, kw_slice_text(text));
}

/* The owner published it in database 0. */
static bool locates(const struct kw_replication *replication, const struct kw_repl_command *command)
{
	return kw_repl_is(command, "PUBLISH") && word_is(command, 1, KW_REPLICATION_CHANNEL) &&
	       word_is(command, 2, replication->locator);
}

/* A SELECT would have located it before. In the midst of a command it must stay as it was. */
static void look_where_it_is(
	struct kw_replication *replication, const struct kw_repl_command *command)
{
	if (kw_repl_effects_has_database(replication->effects) ||
		kw_repl_effects_has_more(replication->effects))
		return;
	if (locates(replication, command))
		kw_repl_effects_set_database(replication->effects, 0);
	else if (replication->located != KW_REPL_ANY_DATABASE &&
		 command->begin >= replication->located_at)
		kw_repl_effects_set_database(replication->effects, replication->located);
}

static void take_command(void *arg, const struct kw_repl_command *command)
{
	struct kw_replication *replication = arg;

	if (replication->sm.state != FOLLOWING || replication->broken.code) {
		kw_replication_forget(replication); /* this one is not told */
		return;
	}
	look_where_it_is(replication, command);
	if (kw_repl_effects_take(replication->effects, command, &replication->broken)) {
		kw_replication_forget(replication);
	} else if (kw_repl_effects_has_more(replication->effects)) {
		kw_repl_parser_keep(replication->parser);
		if (replication->sm.state == FOLLOWING)
			kw_sm_move(&replication->sm, TELLING, "a command has many keys");
	}
}

static void tell_batch(void *arg, const struct kw_repl_batch *batch)
{
	struct kw_replication *replication = arg;

	replication->handlers.batch(replication->handlers.arg, batch);
}

static void ack_wanted(void *arg)
{
	struct kw_replication *replication = arg;

	kw_repl_attach_ack(&replication->attach);
	replication->handlers.ack_asked(replication->handlers.arg);
}

/* The parser has told what it could. */
static void told(struct kw_replication *replication, int code, const struct kw_error *why)
{
	if (code) {
		kw_replication_forget(replication);
		lose_here(replication, why);
		return;
	}
	if (replication->broken.code) {
		lose_here(replication, &replication->broken);
		return;
	}
	if (!follows(replication))
		return;
	if (replication->sm.state == TELLING)
		kw_redis_hold(replication->redis);
	else
		kw_redis_release(replication->redis);
	send_output(replication);
	replication->handlers.moved(replication->handlers.arg);
}

static void follow(struct kw_replication *replication, const uint8_t *bytes, size_t length)
{
	struct kw_error why;
	int code;

	kw_repl_attach_heard(&replication->attach);
	code = kw_repl_parser_feed(replication->parser, bytes, length, &why);
	told(replication, code, &why);
}

/* The next part of a command with many keys. */
static void tell_more(struct kw_replication *replication, uint64_t now_us)
{
	struct kw_error why;
	int code;

	kw_sm_move(&replication->sm, FOLLOWING, "");
	replication->heard_us = now_us;
	code = kw_repl_parser_again(replication->parser, &why);
	told(replication, code, &why);
}

/* ---- the handshake ---- */

/*
 * A primary whose data have another id now was a replica since. What it wrote as one, or in a
 * transaction that made it one, is in no stream (replicationFeedSlaves in replication.c). A replica
 * writes nothing of its own, so its stream goes on over its promotion.
 */
static bool was_demoted(const struct kw_replication *replication)
{
	return replication->upstream == KW_UPSTREAM_NONE &&
	       strcmp(replication->id, replication->attach.id) != 0;
}

static enum kw_replication_start how_it_begins(const struct kw_replication *replication)
{
	if (replication->attach.full || was_demoted(replication))
		return KW_REPLICATION_ANEW;
	return replication->asks;
}

/*
 * The server was looked at before it was asked for the stream. If its data have another id since,
 * it may have been promoted in between, so it counts as a primary: that is the careful answer.
 */
static enum kw_server_upstream upstream_now(const struct kw_replication *replication)
{
	bool same = strcmp(replication->attach.id, replication->asks_replid) == 0;

	return same ? replication->asks_upstream : KW_UPSTREAM_NONE;
}

/*
 * A stream that begins anew after a gap of writes, at an offset within a transaction: its MULTI is
 * forgotten, and its EXEC comes. False: this stream cannot be followed.
 */
static bool begins_whole(struct kw_replication *replication)
{
	struct kw_error why;

	if (replication->attach.full || replication->asks == KW_REPLICATION_ANEW ||
		!was_demoted(replication) || !kw_repl_effects_in_transaction(replication->effects))
		return true;
	kw_error_set(&why, KW_E_STATE,
		"the server was a replica for a while, and its stream goes on in the midst of a "
		"transaction (offset %llu): tried again from the server's present offset",
		(unsigned long long)replication->attach.offset);
	kw_replication_forget(replication);
	lose_here(replication, &why);
	return false;
}

/* A primary tells a SELECT as well, before its next command. A replica tells nothing else. */
static void locate_by_payload(struct kw_replication *replication)
{
	const struct kw_buffer *payload = &replication->attach.payload;
	uint64_t database;

	if (kw_repl_preamble_number(kw_slice(kw_buffer_bytes(payload), kw_buffer_length(payload)),
		    "repl-stream-db", &database) &&
		database <= KW_REPL_DATABASE_LAST)
		replication->located = (uint32_t)database;
}

static void attached(struct kw_replication *replication)
{
	const struct kw_repl_attach *attach = &replication->attach;
	enum kw_replication_start start = how_it_begins(replication);

	if (!begins_whole(replication))
		return;
	if (start == KW_REPLICATION_ANEW)
		kw_repl_effects_reset(replication->effects, attach->offset);
	replication->located = replication->begins_in;
	replication->located_at = attach->offset;
	if (attach->full)
		locate_by_payload(replication);
	kw_repl_parser_restart(replication->parser, attach->offset);
	memcpy(replication->id, attach->id, sizeof replication->id);
	memcpy(replication->run_id, replication->asks_run_id, sizeof replication->run_id);
	replication->upstream = upstream_now(replication);
	replication->followed_us = kw_clock_us();
	replication->ack_us = replication->followed_us + ACK_EVERY_US;
	if (attach->full) {
		replication->synchronisations++;
		kw_forks_note(&replication->forks, replication->followed_us);
	}
	kw_sm_move(&replication->sm, FOLLOWING, attach->full ? "synchronised" : "continued");
	replication->handlers.attached(replication->handlers.arg, start);
}

static void on_bytes(void *arg, struct kw_slice bytes)
{
	struct kw_replication *replication = arg;
	struct kw_error why;
	size_t used = 0;

	if (!is_open(replication))
		return;
	replication->heard_us = kw_clock_us();
	if (replication->sm.state == ATTACHING) {
		if (kw_repl_attach_feed(
			    &replication->attach, bytes.data, bytes.length, &used, &why)) {
			lose_here(replication, &why);
			return;
		}
		send_output(replication);
		if (kw_repl_attach_state(&replication->attach) != KW_ATTACH_FOLLOWING)
			return;
		attached(replication);
	}
	if (follows(replication) && used < bytes.length)
		follow(replication, (const uint8_t *)bytes.data + used, bytes.length - used);
}

/* False: this is another server than that of the data connection, or it does not tell. */
static bool is_same_run(
	const struct kw_replication *replication, struct kw_slice info, struct kw_error *why)
{
	const char *asks = replication->asks_run_id;
	struct kw_slice run_id;

	if (!asks[0] || !kw_info_text(info, "run_id", &run_id) || run_id.length == 0) {
		kw_error_set(why, KW_E_REFUSED,
			"INFO server tells no run_id, so it cannot be proved that both connections "
			"end at one server: set source.feed to notifications");
		return false;
	}
	if (kw_slice_equal(run_id, kw_slice_text(asks)))
		return true;
	kw_error_set(why, KW_E_STATE,
		"another server answers here (run_id %.40s) than on the data connection (%s): an "
		"address must lead to one server; tried again",
		run_id.length >= 40 ? (const char *)run_id.data : "unknown", asks);
	return false;
}

static void run_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_replication *replication = arg;
	struct kw_error why;

	if (!reply || replication->sm.state != PROVING)
		return;
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refusal(&why, replication->options.username, "INFO", "+info", reply);
		lose_here(replication, &why);
		return;
	}
	if (!is_same_run(replication, reply->text, &why)) {
		lose_here(replication, &why);
		return;
	}
	kw_sm_move(&replication->sm, ATTACHING, "");
	replication->heard_us = kw_clock_us();
	kw_redis_take_over(replication->redis, on_bytes, replication);
	send_output(replication);
}

static void on_ready(void *arg)
{
	struct kw_replication *replication = arg;

	if (replication->sm.state != CONNECTING)
		return;
	kw_sm_move(&replication->sm, PROVING, "");
	kw_redis_words(replication->redis, run_answered, replication, "INFO", "server", NULL);
}

/* `why` lies in the connection, which is freed after it was told. */
static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_replication *replication = arg;
	struct kw_redis *gone = replication->redis;

	if (why->code != KW_OK)
		lose(replication, why);
	assert(replication->sm.state == CLOSING); /* the owner has closed it, now or before */
	replication->redis = NULL;
	kw_redis_free(gone);
	kw_repl_attach_close(&replication->attach);
	kw_sm_move(&replication->sm, CLOSED, "");
	replication->handlers.closed(replication->handlers.arg);
}

/* ---- what the owner asks ---- */

/* No other client can know it. */
static void make_locator(struct kw_replication *replication)
{
	uint64_t number =
		kw_hash_key(replication->seed, 0, &replication->opens, sizeof replication->opens);

	snprintf(replication->locator, sizeof replication->locator, "%016" PRIx64, number);
}

/*
 * The stream that ended last can go on, unless the server says that it has these bytes no more.
 * Then asking for them would only make it fork. Without a backlog INFO does not tell, and it forks.
 */
static bool can_go_on(
	const struct kw_replication *replication, const struct kw_server_identity *server)
{
	uint64_t next = kw_repl_parser_offset(replication->parser) + 1;

	return replication->run_id[0] && strcmp(replication->run_id, server->run_id) == 0 &&
	       (server->backlog_begin == 0 || next >= server->backlog_begin);
}

/* Returns how far the backlog reaches before the offset that is asked for. */
static uint64_t init_attach(
	struct kw_replication *replication, const struct kw_server_identity *server)
{
	struct kw_repl_attach_options options = {
		.offset = server->offset, .payload_most = PAYLOAD_BYTES};
	bool goes_on = can_go_on(replication, server);

	if (strcmp(replication->asks_run_id, server->run_id) != 0)
		replication->forks = (struct kw_forks){0}; /* those were of another one */
	replication->asks = goes_on ? KW_REPLICATION_GOES_ON : KW_REPLICATION_ANEW;
	snprintf(replication->asks_run_id, sizeof replication->asks_run_id, "%s", server->run_id);
	snprintf(replication->asks_replid, sizeof replication->asks_replid, "%s", server->replid);
	replication->asks_upstream = server->upstream;
	snprintf(options.id, sizeof options.id, "%s", server->replid);
	if (goes_on) {
		memcpy(options.id, replication->id, sizeof options.id);
		options.offset = kw_repl_parser_offset(replication->parser);
	}
	kw_repl_attach_init(&replication->attach, &options);
	if (server->backlog_begin == 0 || options.offset < server->backlog_begin)
		return 0;
	return options.offset - server->backlog_begin + 1;
}

/* False: the primary has forked for this reader too often. */
static bool may_fork(struct kw_replication *replication, uint64_t reach)
{
	uint64_t wait_us = kw_forks_wait_us(&replication->forks, reach, kw_clock_us());
	struct kw_error why;

	if (wait_us == 0)
		return true;
	kw_error_set(&why, KW_E_STATE,
		"the primary forked for %u full synchronisations, because its backlog did not "
		"reach back to where the stream broke; the next one is due in %" PRIu64
		" s. Set repl-backlog-size and client-output-buffer-limit replica of the primary "
		"higher, or source.feed to notifications",
		replication->forks.count, wait_us / 1000000 + 1);
	lose_here(replication, &why);
	return false;
}

void kw_replication_open(struct kw_replication *replication, const char *address,
	const struct kw_server_identity *server)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .arg = replication};
	struct kw_error why;

	kw_sm_move(&replication->sm, CONNECTING, "");
	snprintf(replication->options.address, sizeof replication->options.address, "%s", address);
	replication->opens++;
	replication->broken = (struct kw_error){0};
	replication->heard_us = kw_clock_us();
	make_locator(replication);
	if (!may_fork(replication, init_attach(replication, server)))
		return;
	if (kw_redis_open(
		    replication->loop, &replication->options, &handlers, &replication->redis, &why))
		lose(replication, &why);
}

void kw_replication_close(struct kw_replication *replication)
{
	if (!is_open(replication))
		return;
	if (follows(replication))
		kw_forks_followed(&replication->forks, kw_clock_us() - replication->followed_us);
	if (replication->redis) {
		kw_sm_move(&replication->sm, CLOSING, "asked to close");
		kw_redis_close(replication->redis);
	} else {
		kw_repl_attach_close(&replication->attach);
		kw_sm_move(&replication->sm, CLOSED, "it was never opened");
	}
}

bool kw_replication_is_closed(const struct kw_replication *replication)
{
	return replication->sm.state == CLOSED;
}

void kw_replication_forget(struct kw_replication *replication)
{
	replication->run_id[0] = '\0';
}

void kw_replication_catalog(
	struct kw_replication *replication, const struct kw_repl_catalog *catalog)
{
	kw_repl_effects_catalog(replication->effects, catalog);
}

void kw_replication_databases(struct kw_replication *replication, uint32_t there, uint32_t followed)
{
	replication->begins_in = there == 1 ? 0 : KW_REPL_ANY_DATABASE;
	kw_repl_effects_set_weight(replication->effects, followed);
}

uint64_t kw_replication_offset(const struct kw_replication *replication)
{
	return kw_repl_effects_offset(replication->effects);
}

uint64_t kw_replication_synchronisations(const struct kw_replication *replication)
{
	return replication->synchronisations;
}

const char *kw_replication_id(const struct kw_replication *replication)
{
	return replication->id;
}

uint64_t kw_replication_heard_us(const struct kw_replication *replication)
{
	return replication->heard_us;
}

bool kw_replication_is_telling(const struct kw_replication *replication)
{
	return replication->sm.state == TELLING;
}

bool kw_replication_is_located(const struct kw_replication *replication)
{
	return kw_repl_effects_has_database(replication->effects);
}

void kw_replication_locate(
	struct kw_replication *replication, const char *id, uint64_t offset, uint32_t database)
{
	if (!follows(replication) || strcmp(id, replication->id) != 0)
		return;
	replication->located = database;
	replication->located_at = offset;
}

const char *kw_replication_locator(const struct kw_replication *replication)
{
	return replication->locator;
}

static void look_for_silence(struct kw_replication *replication, uint64_t now_us)
{
	struct kw_error why = {.code = KW_E_TIMEOUT};

	if (now_us < replication->heard_us + SILENCE_US)
		return;
	snprintf(why.text, sizeof why.text,
		"no word for %llu s while it was asked for: see the server's log",
		(unsigned long long)(SILENCE_US / 1000000));
	lose_here(replication, &why);
}

void kw_replication_turn(struct kw_replication *replication, uint64_t now_us)
{
	if (replication->sm.state == ATTACHING) {
		look_for_silence(replication, now_us);
		return;
	}
	if (replication->sm.state == TELLING)
		tell_more(replication, now_us);
	if (!follows(replication))
		return;
	kw_repl_attach_turn(&replication->attach, now_us);
	if (now_us >= replication->ack_us) {
		kw_repl_attach_ack(&replication->attach);
		replication->ack_us = now_us + ACK_EVERY_US;
	}
	send_output(replication);
}

uint64_t kw_replication_ready_us(const struct kw_replication *replication)
{
	uint64_t due_us;

	if (replication->sm.state == ATTACHING)
		return replication->heard_us + SILENCE_US;
	if (replication->sm.state == TELLING)
		return 0;
	if (replication->sm.state != FOLLOWING)
		return UINT64_MAX;
	due_us = kw_repl_attach_due_us(&replication->attach);
	return due_us < replication->ack_us ? due_us : replication->ack_us;
}

struct kw_replication *kw_replication_new(uv_loop_t *loop, const struct kw_redis_options *options,
	uint64_t seed, const struct kw_replication_handlers *handlers)
{
	const struct kw_repl_bounds bounds = {WORD_BYTES, COMMAND_BYTES, COMMAND_WORDS};
	struct kw_replication *replication = kw_zalloc(sizeof *replication);

	replication->loop = loop;
	replication->options = *options;
	replication->handlers = *handlers;
	replication->seed = seed;
	replication->parser = kw_repl_parser_new(&bounds, 0, take_command, replication);
	replication->effects = kw_repl_effects_new(&(struct kw_repl_effects_options){
		.transaction_bytes = TRANSACTION_BYTES,
		.transaction_effects = TRANSACTION_EFFECTS,
		.command_effects = COMMAND_EFFECTS,
		.take_effects = TURN_EFFECTS,
		.batch = tell_batch,
		.ack_wanted = ack_wanted,
		.arg = replication,
	});
	kw_sm_init(&replication->sm, &machine, replication, CLOSED);
	return replication;
}

void kw_replication_free(struct kw_replication *replication)
{
	if (!replication)
		return;
	assert(replication->sm.state == CLOSED);
	kw_repl_parser_free(replication->parser);
	kw_repl_effects_free(replication->effects);
	free(replication);
}
