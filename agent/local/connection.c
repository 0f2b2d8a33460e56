/* The connection to the local server: opened, lost, closed, and the states that it goes through. */
#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define ASK_INTERVAL_US 1000000
/* Less than the time after which others take a lease to be expired. */
#define STILL_US (UINT64_C(1000000) * KW_LEASE_IDLE_S / 2)
#define BACKOFF_LOWEST_MS 50
#define BACKOFF_HIGHEST_MS 5000

/* ---- the states ---- */

static bool holds(const void *owner, int state)
{
	const struct kw_local *local = owner;

	if (local->looks.told > local->looks.answered || local->looks.answered > local->looks.sent)
		return false;
	switch (state) {
	case KW_LOCAL_DOWN:
	case KW_LOCAL_CLOSED:
		return !local->redis && !kw_local_asking(local);
	case KW_LOCAL_REFUSED:
		return local->why[0];
	case KW_LOCAL_READY:
		return local->redis && !local->why[0] &&
		       local->continuity.memory == KW_MEMORY_KNOWN;
	case KW_LOCAL_WAITING:
		return local->redis && local->why[0];
	default:
		return local->redis;
	}
}

#define ENDS (KW_SM_TO(KW_LOCAL_CLOSING) | KW_SM_TO(KW_LOCAL_DOWN) | KW_SM_TO(KW_LOCAL_REFUSED))

static const struct kw_sm_state states[] = {
	[KW_LOCAL_DOWN] = {"down",
		KW_SM_TO(KW_LOCAL_CONNECTING) | KW_SM_TO(KW_LOCAL_REFUSED) |
			KW_SM_TO(KW_LOCAL_CLOSED),
		KW_SM_INITIAL},
	[KW_LOCAL_CONNECTING] = {"connecting", KW_SM_TO(KW_LOCAL_ASKING) | ENDS},
	[KW_LOCAL_ASKING] = {"asking",
		KW_SM_TO(KW_LOCAL_READY) | KW_SM_TO(KW_LOCAL_WAITING) | ENDS},
	[KW_LOCAL_WAITING] = {"waiting", KW_SM_TO(KW_LOCAL_ASKING) | ENDS, KW_SM_FAILURE},
	[KW_LOCAL_REFUSED] = {"refused",
		KW_SM_TO(KW_LOCAL_CONNECTING) | KW_SM_TO(KW_LOCAL_ASKING) |
			KW_SM_TO(KW_LOCAL_WAITING) | KW_SM_TO(KW_LOCAL_CLOSED) | ENDS,
		KW_SM_FAILURE},
	[KW_LOCAL_READY] = {"ready", KW_SM_TO(KW_LOCAL_LEAVING) | KW_SM_TO(KW_LOCAL_PARTING) |
					     KW_SM_TO(KW_LOCAL_DOWN) | KW_SM_TO(KW_LOCAL_REFUSED)},
	[KW_LOCAL_LEAVING] = {"leaving",
		KW_SM_TO(KW_LOCAL_PARTING) | KW_SM_TO(KW_LOCAL_DOWN) | KW_SM_TO(KW_LOCAL_REFUSED)},
	[KW_LOCAL_PARTING] = {"parting", KW_SM_TO(KW_LOCAL_CLOSED)},
	[KW_LOCAL_CLOSING] = {"closing", KW_SM_TO(KW_LOCAL_CLOSED)},
	[KW_LOCAL_CLOSED] = {"closed", 0, KW_SM_FINAL},
};
static const struct kw_sm_conf machine = {"local", states, sizeof states / sizeof *states, holds};

void kw_local_move(struct kw_local *local, enum kw_local_state state, const char *reason)
{
	if (state == KW_LOCAL_DOWN || state == KW_LOCAL_WAITING || state == KW_LOCAL_REFUSED ||
		state == KW_LOCAL_READY)
		local->settled = state;
	kw_sm_move(&local->sm, state, reason);
}

/* Was handlers.assessed called, and handlers.gone not yet? */
static bool is_told(const struct kw_local *local)
{
	enum kw_local_state state = kw_local_state(local);

	return state == KW_LOCAL_READY || state == KW_LOCAL_LEAVING || state == KW_LOCAL_PARTING;
}

static bool is_closing(const struct kw_local *local)
{
	enum kw_local_state state = kw_local_state(local);

	return state == KW_LOCAL_PARTING || state == KW_LOCAL_CLOSING || state == KW_LOCAL_CLOSED;
}

/* ---- what the server is refused for ---- */

void kw_local_ask_later(struct kw_local *local)
{
	local->next_us = kw_clock_us() + ASK_INTERVAL_US;
}

void kw_local_leave(struct kw_local *local, const char *reason)
{
	assert(kw_local_ready(local));
	kw_local_move(local, KW_LOCAL_LEAVING, reason);
	kw_redis_close(local->redis);
}

static void not_fit(
	struct kw_local *local, enum kw_local_state state, const char *format, va_list args)
{
	char why[KW_LOCAL_WHY];

	vsnprintf(why, sizeof why, format, args);
	if (strcmp(why, local->why) != 0)
		kw_log_warn("local", "%s", why);
	memcpy(local->why, why, sizeof why);
	kw_local_ask_later(local);
	if (kw_local_ready(local))
		kw_local_leave(local, why);
	else
		kw_local_move(local, state, why);
}

void kw_local_refuse(struct kw_local *local, enum kw_unfit unfit, const char *format, ...)
{
	va_list args;

	kw_local_drop_lease(local);
	local->unfit = unfit;
	va_start(args, format);
	not_fit(local, KW_LOCAL_REFUSED, format, args);
	va_end(args);
}

void kw_local_wait(struct kw_local *local, const char *format, ...)
{
	va_list args;

	local->unfit = KW_UNFIT_PASSES;
	va_start(args, format);
	not_fit(local, KW_LOCAL_WAITING, format, args);
	va_end(args);
}

bool kw_local_defer(struct kw_local *local, const char *command, const struct kw_reply *reply)
{
	if (reply->type != KW_REPLY_ERROR || !kw_server_error_passes(kw_server_error(reply->text)))
		return false;
	if (kw_local_ready(local))
		kw_local_ask_later(local);
	else
		kw_local_wait(local, "the local server cannot be asked yet: %s answers \"%.*s\"",
			command, (int)(reply->text.length < 200 ? reply->text.length : 200),
			(const char *)reply->text.data);
	return true;
}

/* ---- the connection ---- */

static void on_ready(void *arg)
{
	kw_local_begin(arg);
}

/* It is opened again after a pause. A wrong password is refused: a person must mend that. */
static void lose(struct kw_local *local, const struct kw_error *why)
{
	local->next_us = kw_clock_us() + kw_backoff_next_us(&local->backoff);
	if (why->code == KW_OK)
		return;
	snprintf(local->why, sizeof local->why, "local server: %.480s", why->text);
	if (is_told(local) || local->backoff.failures == 1)
		kw_log_warn("local", "%s", why->text);
}

static void on_closed(void *arg, const struct kw_error *why)
{
	struct kw_local *local = arg;
	bool told = is_told(local), closing = is_closing(local);
	bool stranger = why->code == KW_E_CONFIG, refused = why->code == KW_E_REFUSED;
	enum kw_local_state next = closing               ? KW_LOCAL_CLOSED
				   : refused || stranger ? KW_LOCAL_REFUSED
							 : KW_LOCAL_DOWN;

	if (refused || stranger)
		local->unfit = stranger ? KW_UNFIT_UNSUPPORTED : KW_UNFIT_CONNECTION;
	lose(local, why);
	kw_redis_free(local->redis); /* and `why` with it */
	local->redis = NULL;
	kw_local_end(local);
	kw_local_move(local, next, local->why);
	if (told)
		local->handlers.gone(local->handlers.arg);
	if (closing)
		local->handlers.closed(local->handlers.arg);
}

static void on_denied(void *arg)
{
	kw_local_denied(arg);
}

static void open_connection(struct kw_local *local)
{
	const struct kw_redis_handlers handlers = {
		.ready = on_ready,
		.closed = on_closed,
		.denied = on_denied,
		.arg = local,
	};
	struct kw_error error;

	local->reconnects++;
	if (!kw_redis_open(
		    local->options.loop, &local->options.redis, &handlers, &local->redis, &error)) {
		kw_local_move(local, KW_LOCAL_CONNECTING, "");
		return;
	}
	local->redis = NULL;
	local->next_us = kw_clock_us() + kw_backoff_next_us(&local->backoff);
	snprintf(local->why, sizeof local->why, "redis.address: %.480s", error.text);
	local->unfit = KW_UNFIT_CONNECTION;
	kw_local_move(local, KW_LOCAL_REFUSED, local->why);
}

/* ---- the beginning, the clock, the end ---- */

static void on_selected(void *arg)
{
	struct kw_local *local = arg;

	local->handlers.selected(local->handlers.arg);
}

/* It is as if others had flushed: look at all data again, on a new connection. */
static void on_harmed(void *arg)
{
	struct kw_local *local = arg;

	kw_continuity_harmed(&local->continuity);
	snprintf(local->why, sizeof local->why,
		"commands went to another database: looking at the local server anew");
	if (kw_local_ready(local))
		kw_local_leave(local, local->why);
	else
		kw_redis_close(local->redis);
}

void kw_local_init(struct kw_local *local, const struct kw_local_options *options,
	const struct kw_local_handlers *handlers)
{
	const struct kw_databases_handlers database_handlers = {
		.selected = on_selected,
		.harmed = on_harmed,
		.arg = local,
	};

	assert(handlers->assessed && handlers->gone && handlers->flushed && handlers->closed);
	*local = (struct kw_local){.options = *options, .handlers = *handlers};
	local->continuity.session = options->lease.session;
	kw_local_name_connections(local);
	kw_databases_init(&local->databases, &database_handlers);
	kw_backoff_init(&local->backoff, BACKOFF_LOWEST_MS, BACKOFF_HIGHEST_MS);
	snprintf(local->why, sizeof local->why, "not connected to the local server yet");
	kw_sm_init(&local->sm, &machine, local, KW_LOCAL_DOWN);
}

static void look(struct kw_local *local)
{
	bool asks = !kw_local_asking(local);

	kw_local_look(local);
	if (asks && kw_local_ready(local))
		kw_local_read_back(local);
}

/*
 * The agent, or its host, stood still for long: another agent can have taken the lease. A new
 * connection asks for it again, and what waits on this one is not sent.
 */
static void watch_own_clock(struct kw_local *local, uint64_t now_us)
{
	uint64_t still_us = local->ticked_us > 0 ? now_us - local->ticked_us : 0;

	local->ticked_us = now_us;
	if (still_us < STILL_US || !kw_local_ready(local) || local->options.lease.session == 0)
		return;
	snprintf(local->why, sizeof local->why,
		"this agent stood still for %" PRIu64 " s: asking for its lease again",
		still_us / 1000000);
	kw_log_warn("local", "%s", local->why);
	kw_local_leave(local, local->why);
}

void kw_local_tick(struct kw_local *local, uint64_t now_us)
{
	watch_own_clock(local, now_us);
	if (kw_local_ready(local))
		kw_databases_tick(&local->databases, now_us);
	if (now_us < local->next_us || is_closing(local))
		return;
	if (!local->redis)
		open_connection(local);
	else if (kw_local_ready(local) || kw_sm_failed(&local->sm))
		look(local);
}

void kw_local_close(struct kw_local *local)
{
	assert(!is_closing(local));
	if (!local->redis) {
		kw_local_move(local, KW_LOCAL_CLOSED, "");
		local->handlers.closed(local->handlers.arg);
		return;
	}
	kw_local_move(local, is_told(local) ? KW_LOCAL_PARTING : KW_LOCAL_CLOSING, "");
	kw_redis_close(local->redis);
}

const char *kw_local_why(const struct kw_local *local)
{
	return local->why;
}
