#include "feed/stream/seeker.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/sm.h"
#include "feed/stream/forks.h"
#include "fetch/errand.h"
#include "stream/attach.h"
#include "stream/meaning.h"
#include "stream/preamble.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAYLOAD_BYTES ((size_t)64 << 10) /* it has some 200; functions are left out, too */
#define PAUSE_US UINT64_C(60000000)      /* after one that failed */

enum state { IDLE, CONNECTING, SYNCING, CLOSING };

struct kw_seeker {
	struct kw_sm sm;
	uv_loop_t *loop;
	struct kw_redis_options options;
	struct kw_seeker_handlers handlers;
	struct kw_redis *redis; /* NULL: IDLE */
	struct kw_repl_attach attach;
	struct kw_forks forks;
	uint64_t begun_us, next_us; /* next_us UINT64_MAX: it was refused */
	uint64_t synchronisations;
	enum { UNTRIED, REFUSED } server;
};

static bool holds(const void *owner, int state)
{
	const struct kw_seeker *seeker = owner;

	return (state == IDLE) == !seeker->redis;
}

static const struct kw_sm_state states[] = {
	[IDLE] = {"idle", KW_SM_TO(CONNECTING), KW_SM_INITIAL},
	[CONNECTING] = {"connecting", KW_SM_TO(SYNCING) | KW_SM_TO(CLOSING)},
	[SYNCING] = {"syncing", KW_SM_TO(CLOSING)},
	[CLOSING] = {"closing", KW_SM_TO(IDLE)},
};

static const struct kw_sm_conf machine = {"seeker", states, CLOSING + 1, holds};

static bool is_asking(const struct kw_seeker *seeker)
{
	return seeker->sm.state == CONNECTING || seeker->sm.state == SYNCING;
}

static void end(struct kw_seeker *seeker, const char *why)
{
	kw_sm_move(&seeker->sm, CLOSING, why);
	kw_redis_close(seeker->redis);
}

static void fail(struct kw_seeker *seeker, const struct kw_error *why)
{
	seeker->next_us = kw_clock_us() + PAUSE_US;
	if (why->code == KW_E_REFUSED) {
		seeker->next_us = UINT64_MAX;
		if (seeker->server == UNTRIED)
			kw_log_info("source",
				"the server cannot tell in which database its stream is, so each "
				"changed key is fetched from all databases until it writes in "
				"another one than now: %s. Fewer databases in source.databases are "
				"fewer fetches",
				why->text);
		seeker->server = REFUSED;
	}
	end(seeker, why->text);
}

static void send_output(struct kw_seeker *seeker)
{
	struct kw_buffer *output = &seeker->attach.output;
	size_t length = kw_buffer_length(output);

	if (length == 0)
		return;
	kw_redis_put(seeker->redis, kw_slice(kw_buffer_bytes(output), length));
	kw_buffer_consume(output, length);
}

/* The RDB is whole. */
static void tell(struct kw_seeker *seeker)
{
	const struct kw_repl_attach *attach = &seeker->attach;
	const struct kw_buffer *payload = &attach->payload;
	struct kw_slice rdb = kw_slice(kw_buffer_bytes(payload), kw_buffer_length(payload));
	uint64_t database;

	seeker->synchronisations++;
	kw_forks_note(&seeker->forks, kw_clock_us());
	if (kw_repl_preamble_number(rdb, "repl-stream-db", &database) &&
		database <= KW_REPL_DATABASE_LAST) {
		kw_log_info("source",
			"the replication stream is in database %" PRIu64 ", at offset %" PRIu64
			": a full synchronisation without keys has told it",
			database, attach->offset);
		seeker->handlers.found(
			seeker->handlers.arg, attach->id, attach->offset, (uint32_t)database);
	}
	end(seeker, "told");
}

static void on_bytes(void *arg, struct kw_slice bytes)
{
	struct kw_seeker *seeker = arg;
	struct kw_error why;
	size_t used = 0;

	if (seeker->sm.state != SYNCING)
		return;
	if (kw_repl_attach_feed(&seeker->attach, bytes.data, bytes.length, &used, &why)) {
		fail(seeker, &why);
		return;
	}
	send_output(seeker);
	if (kw_repl_attach_state(&seeker->attach) == KW_ATTACH_FOLLOWING)
		tell(seeker);
}

static void on_ready(void *arg)
{
	struct kw_seeker *seeker = arg;

	if (seeker->sm.state != CONNECTING)
		return;
	kw_sm_move(&seeker->sm, SYNCING, "");
	kw_redis_take_over(seeker->redis, on_bytes, seeker);
	send_output(seeker);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_seeker *seeker = arg;
	struct kw_redis *gone = seeker->redis;

	if (is_asking(seeker)) {
		kw_log_debug("source", "the database of the stream was not told: %s", why->text);
		kw_sm_move(&seeker->sm, CLOSING, "lost");
	}
	seeker->redis = NULL;
	kw_redis_free(gone);
	kw_repl_attach_close(&seeker->attach);
	kw_sm_move(&seeker->sm, IDLE, "");
	seeker->handlers.closed(seeker->handlers.arg);
}

void kw_seeker_ask(struct kw_seeker *seeker, const char *address, uint64_t now_us)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .arg = seeker};
	const struct kw_repl_attach_options anew = {.payload_most = PAYLOAD_BYTES};
	struct kw_error why;

	if (seeker->sm.state != IDLE || now_us < seeker->next_us ||
		kw_forks_wait_us(&seeker->forks, 0, now_us) > 0)
		return;
	seeker->begun_us = now_us;
	seeker->next_us = now_us + PAUSE_US;
	snprintf(seeker->options.address, sizeof seeker->options.address, "%s", address);
	if (kw_redis_open(seeker->loop, &seeker->options, &handlers, &seeker->redis, &why)) {
		seeker->redis = NULL;
		kw_log_debug("source", "the database of the stream was not asked: %s", why.text);
		return;
	}
	kw_repl_attach_init(&seeker->attach, &anew);
	kw_sm_move(&seeker->sm, CONNECTING, "");
}

void kw_seeker_stop(struct kw_seeker *seeker)
{
	seeker->next_us = 0;
	if (is_asking(seeker))
		end(seeker, "asked to stop");
}

bool kw_seeker_is_idle(const struct kw_seeker *seeker)
{
	return seeker->sm.state == IDLE;
}

uint64_t kw_seeker_synchronisations(const struct kw_seeker *seeker)
{
	return seeker->synchronisations;
}

void kw_seeker_turn(struct kw_seeker *seeker, uint64_t now_us)
{
	struct kw_error why = {.code = KW_E_TIMEOUT, .text = "no RDB came in time"};

	if (now_us >= kw_seeker_ready_us(seeker))
		fail(seeker, &why);
}

uint64_t kw_seeker_ready_us(const struct kw_seeker *seeker)
{
	return is_asking(seeker) ? seeker->begun_us + KW_SEEKER_PATIENCE_US : UINT64_MAX;
}

struct kw_seeker *kw_seeker_new(uv_loop_t *loop, const struct kw_redis_options *options,
	const struct kw_seeker_handlers *handlers)
{
	struct kw_seeker *seeker = kw_zalloc(sizeof *seeker);

	seeker->loop = loop;
	seeker->options = *options;
	kw_errand_name(&seeker->options, "locator");
	seeker->handlers = *handlers;
	kw_sm_init(&seeker->sm, &machine, seeker, IDLE);
	return seeker;
}

void kw_seeker_free(struct kw_seeker *seeker)
{
	if (!seeker)
		return;
	assert(seeker->sm.state == IDLE);
	free(seeker);
}
