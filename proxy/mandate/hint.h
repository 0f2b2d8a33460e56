/*
 * A hint that another server became the primary: a subscription to +switch-master at one sentinel.
 *
 *   ┌──────┐ kw_hint_open ┌─────────┐ ready ┌─────────────┐ confirmed ┌───────────┐
 *   │ IDLE │─────────────▶│ OPENING │──────▶│ SUBSCRIBING │──────────▶│ LISTENING │
 *   └──────┘              └─────────┘       └─────────────┘           └───────────┘
 *      ▲                       │ lost, refused     │                        │
 *      └───────────────────────┴───────────────────┴────────────────────────┘ CLOSING between
 *
 * A message says nothing that is believed: it is the cause to ask all sentinels at once, instead of
 * at the end of the interval. Without it, each verdict is the same, and comes at most one interval
 * later. So a sentinel whose user may not subscribe costs nothing but that. One that sends messages
 * without end is heard KW_HINT_PACE_US apart.
 *
 * The subscription is asked for again every ten seconds: so the silence of a host that is gone is
 * found, without a right to PING. Loop thread only.
 */
#ifndef KW_PROXY_MANDATE_HINT_H
#define KW_PROXY_MANDATE_HINT_H

#include "base/error.h"
#include "base/sm.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#define KW_HINT_CHANNEL "+switch-master"
#define KW_HINT_PACE_US UINT64_C(50000)

/* All but the first four is its own. */
struct kw_hint {
	uv_loop_t *loop;
	void (*heard)(void *arg);  /* ask now */
	void (*closed)(void *arg); /* it is IDLE again */
	void *arg;

	struct kw_sm sm;
	struct kw_redis *redis;
	char address[300];        /* of the sentinel that is, or was, asked */
	uint64_t opened_us;       /* 0: never */
	uint64_t subscribed_us;   /* when the subscription was asked for last */
	uint64_t heard_us, count; /* the last message, and how many there were */
	char why[KW_ERROR_TEXT];  /* there is no hint: a sentence; otherwise "" */
};

/* The first four fields are filled in by the caller. It has nothing to free. */
void kw_hint_init(struct kw_hint *hint);

bool kw_hint_is_idle(const struct kw_hint *hint);
bool kw_hint_is_listening(const struct kw_hint *hint);

/* Is it idle, and was the last try long enough ago? */
bool kw_hint_is_due(const struct kw_hint *hint, uint64_t now_us);

/* Subscribe at the sentinel of options->address. IDLE only. */
void kw_hint_open(struct kw_hint *hint, const struct kw_redis_options *options, uint64_t now_us);

/* Subscribe again, if it is time. */
void kw_hint_refresh(struct kw_hint *hint, uint64_t now_us);

/* `closed` follows, unless it is IDLE already. */
void kw_hint_close(struct kw_hint *hint);

#endif
