#include "fetch/errand.h"

#include "base/buffer.h"
#include "base/sm.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ID 41

enum state { IDLE, OPENING, OPEN, CLOSING };

struct kw_errand {
	struct kw_sm sm;
	uv_loop_t *loop;
	struct kw_redis_options options;
	struct kw_errand_handlers handlers;
	struct kw_redis *redis; /* NULL: IDLE */
	char run_id[RUN_ID];    /* "": any */
	struct kw_error why;    /* why it is being closed; code KW_OK: the owner has ended it */
};

static bool holds(const void *owner, int state)
{
	const struct kw_errand *errand = owner;

	return (state == IDLE) == !errand->redis;
}

static const struct kw_sm_state states[] = {
	[IDLE] = {"idle", KW_SM_TO(OPENING), KW_SM_INITIAL},
	[OPENING] = {"opening", KW_SM_TO(OPEN) | KW_SM_TO(CLOSING)},
	[OPEN] = {"open", KW_SM_TO(CLOSING)},
	[CLOSING] = {"closing", KW_SM_TO(IDLE)},
};

static const struct kw_sm_conf machine = {"errand", states, CLOSING + 1, holds};

static void open_now(struct kw_errand *errand)
{
	kw_sm_move(&errand->sm, OPEN, "");
	errand->handlers.open(errand->handlers.arg);
}

static void run_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_errand *errand = arg;
	struct kw_slice run_id;

	if (!reply || errand->sm.state != OPENING)
		return;
	if (reply->type == KW_REPLY_STRING && kw_info_text(reply->text, "run_id", &run_id) &&
		kw_slice_equal(run_id, kw_slice_text(errand->run_id))) {
		open_now(errand);
		return;
	}
	kw_error_set(&errand->why, KW_E_STATE,
		"%.100s: another server answers there than the one that is followed",
		errand->options.address);
	kw_sm_move(&errand->sm, CLOSING, errand->why.text);
	kw_redis_close(errand->redis);
}

static void on_ready(void *arg)
{
	struct kw_errand *errand = arg;

	if (errand->sm.state != OPENING)
		return;
	if (errand->run_id[0])
		kw_redis_words(errand->redis, run_answered, errand, "INFO", "server", NULL);
	else
		open_now(errand);
}

/* `why` lies in the connection, which is freed here. */
static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_errand *errand = arg;
	struct kw_redis *gone = errand->redis;
	struct kw_error told = errand->why;

	if (errand->sm.state != CLOSING) {
		told = *why;
		kw_sm_move(&errand->sm, CLOSING, told.text);
	}
	errand->redis = NULL;
	kw_redis_free(gone);
	kw_sm_move(&errand->sm, IDLE, "");
	errand->handlers.closed(errand->handlers.arg, &told);
}

int kw_errand_begin(
	struct kw_errand *errand, const char *address, const char *run_id, struct kw_error *error)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready, .closed = on_closed, .arg = errand};
	int code;

	assert(errand->sm.state == IDLE);
	snprintf(errand->options.address, sizeof errand->options.address, "%s", address);
	snprintf(errand->run_id, sizeof errand->run_id, "%s", run_id);
	errand->why = (struct kw_error){0};
	code = kw_redis_open(errand->loop, &errand->options, &handlers, &errand->redis, error);
	if (code)
		errand->redis = NULL;
	else
		kw_sm_move(&errand->sm, OPENING, "");
	return code;
}

void kw_errand_end(struct kw_errand *errand)
{
	if (errand->sm.state != OPENING && errand->sm.state != OPEN)
		return;
	kw_sm_move(&errand->sm, CLOSING, "asked to end");
	kw_redis_close(errand->redis);
}

bool kw_errand_is_idle(const struct kw_errand *errand)
{
	return errand->sm.state == IDLE;
}

bool kw_errand_is_open(const struct kw_errand *errand)
{
	return errand->sm.state == OPEN;
}

struct kw_redis *kw_errand_redis(struct kw_errand *errand)
{
	assert(errand->sm.state == OPEN);
	return errand->redis;
}

void kw_errand_name(struct kw_redis_options *options, const char *name)
{
	char *end = strrchr(options->client_name, '-');

	if (end)
		snprintf(end, sizeof options->client_name - (size_t)(end - options->client_name),
			"-%s", name);
}

struct kw_errand *kw_errand_new(uv_loop_t *loop, const struct kw_redis_options *options,
	const char *name, const struct kw_errand_handlers *handlers)
{
	struct kw_errand *errand = kw_zalloc(sizeof *errand);

	errand->loop = loop;
	errand->options = *options;
	errand->options.reply_timeout_ms = KW_ERRAND_ANSWER_MS;
	errand->handlers = *handlers;
	kw_errand_name(&errand->options, name);
	kw_sm_init(&errand->sm, &machine, errand, IDLE);
	return errand;
}

void kw_errand_free(struct kw_errand *errand)
{
	if (!errand)
		return;
	assert(errand->sm.state == IDLE);
	free(errand);
}
