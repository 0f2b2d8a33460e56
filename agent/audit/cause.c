#include "cause.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define LOWEST_MS 1000
#define HIGHEST_MS 600000
/* After so long without a cause, the next one is met at once again. */
#define FORGIVEN_US 1200000000

void kw_causes_init(struct kw_causes *causes)
{
	*causes = (struct kw_causes){0};
	kw_backoff_init(&causes->backoff, LOWEST_MS, HIGHEST_MS);
	kw_backoff_init(&causes->resets.backoff, LOWEST_MS, HIGHEST_MS);
}

void kw_causes_forget(struct kw_causes *causes)
{
	causes->looked = false;
	causes->unexplained = causes->beyond_us = 0;
	causes->usual = causes->lately = 0;
}

void kw_causes_tell(struct kw_causes *causes, enum kw_cause cause, uint64_t now_us)
{
	assert(cause != KW_CAUSE_NONE && cause != KW_CAUSE_RESET);
	if (now_us - causes->last_us > FORGIVEN_US)
		kw_backoff_reset(&causes->backoff);
	causes->last_us = now_us;
	causes->last = ++causes->told;
	/* The first reason stays until it is met: it is the one that was logged. RESET knows less.
	 */
	if (causes->present == KW_CAUSE_NONE || causes->present == KW_CAUSE_RESET)
		causes->present = cause;
}

/* ---- counts that began anew ---- */

/* Can a round follow within so long? True: resets are the cause from now on. */
static bool wake(struct kw_causes *causes, uint64_t patience_us, uint64_t now_us)
{
	if (!causes->resets.waits || causes->present != KW_CAUSE_NONE ||
		causes->resets.due_us > now_us + patience_us)
		return false;
	causes->present = KW_CAUSE_RESET;
	causes->resets.since_us = now_us;
	return true;
}

static void note_reset(struct kw_causes *causes, uint64_t now_us)
{
	if (now_us - causes->resets.last_us > FORGIVEN_US)
		kw_backoff_reset(&causes->resets.backoff);
	causes->resets.last_us = now_us;
	causes->resets.last = ++causes->told;
	causes->resets.waits = true;
}

bool kw_causes_counted(
	struct kw_causes *causes, const char *run_id, uint64_t resets, uint64_t now_us)
{
	/* What a restart may have hidden is judged by the cursor (local/continuity.h). */
	bool reset = strcmp(causes->resets.run_id, run_id) == 0 && causes->resets.known != resets;

	if (reset)
		note_reset(causes, now_us);
	snprintf(causes->resets.run_id, sizeof causes->resets.run_id, "%s", run_id);
	causes->resets.known = resets;
	return wake(causes, reset ? KW_CAUSE_PATIENCE_US : 0, now_us);
}

/* ---- rounds ---- */

/* Resets that come again and again cost a bounded share of the time. */
static void rest_from_resets(struct kw_causes *causes, uint64_t began_us, uint64_t now_us)
{
	uint64_t pause_us = kw_backoff_next_us(&causes->resets.backoff);
	uint64_t least_us = (now_us - began_us) * KW_CAUSE_RESET_REST;

	causes->resets.due_us = now_us + (pause_us > least_us ? pause_us : least_us);
}

void kw_causes_snapshot(struct kw_causes *causes, uint64_t now_us)
{
	if (!causes->resets.waits)
		return;
	rest_from_resets(causes, now_us, now_us);
	causes->resets.waits = false;
	if (causes->present == KW_CAUSE_RESET)
		causes->present = KW_CAUSE_NONE;
}

void kw_causes_met(struct kw_causes *causes, uint64_t told, uint64_t began_us, uint64_t now_us)
{
	assert(began_us <= now_us);
	if (causes->present == KW_CAUSE_RESET)
		rest_from_resets(causes, began_us, now_us);
	else
		causes->due_us = now_us + kw_backoff_next_us(&causes->backoff);
	causes->resets.waits = causes->resets.waits && causes->resets.last > told;
	if (causes->present == KW_CAUSE_RESET || causes->last <= told)
		causes->present = KW_CAUSE_NONE;
	wake(causes, KW_CAUSE_PATIENCE_US, now_us);
}

/* ---- the clock, and expired keys ---- */

/* The server's clock was read at some moment between question and answer. */
static bool has_jumped(struct kw_causes *causes, const struct kw_cause_look *look)
{
	uint64_t earliest_us = look->server_us - look->told_us;
	uint64_t latest_us = look->server_us - look->asked_us;
	int64_t forward = (int64_t)(earliest_us - causes->latest_us);
	int64_t back = (int64_t)(causes->earliest_us - latest_us);

	causes->earliest_us = earliest_us;
	causes->latest_us = latest_us;
	return causes->looked && look->server_us > 0 &&
	       (forward > KW_CAUSE_JUMP_US || back > KW_CAUSE_JUMP_US);
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/*
 * While the table has its seconds to explain them, changes that come as they came before explain
 * only keys that expire as before. Otherwise a primary that is written all the time explains every
 * jump of a clock.
 */
static void count(struct kw_causes *causes, uint64_t expired, uint64_t handed)
{
	uint64_t usual = causes->beyond_us > 0 ? lesser(handed, causes->usual) : 0;

	expired -= lesser(expired, usual);
	handed -= usual;
	causes->unexplained += expired;
	causes->unexplained -= lesser(handed, causes->unexplained);
}

/*
 * Nothing waits for an explanation now. What came in two such looks is usual. What ended a wait was
 * the explanation, and is not.
 */
static void rest(struct kw_causes *causes, uint64_t handed)
{
	bool waited = causes->beyond_us > 0;

	causes->beyond_us = 0;
	if (waited)
		return;
	causes->usual = lesser(handed, causes->lately);
	causes->lately = handed;
}

/* Are they too many for long? The table has some seconds to explain them. */
static bool lasts(struct kw_causes *causes, uint64_t now_us)
{
	if (causes->beyond_us == 0)
		causes->beyond_us = now_us;
	if (now_us - causes->beyond_us < KW_CAUSE_EXPIRED_US)
		return false;
	causes->unexplained = causes->beyond_us = 0;
	return true;
}

/*
 * A key that expires on both sides comes as a change, a delete or the next value. So does every
 * other change, which makes this a coarse measure: a primary that is written more than before hides
 * what expires too soon.
 */
static bool has_expired_too_much(struct kw_causes *causes, const struct kw_cause_look *look)
{
	uint64_t more, handed = look->handed - causes->handed;
	uint64_t limit = KW_CAUSE_EXPIRED_KEYS + causes->expires / 4;

	causes->handed = look->handed;
	if (!causes->looked) {
		kw_counter_begin(&causes->expired, look->expired, look->resets);
		causes->expires = look->expires;
		return false;
	}
	more = kw_counter_others(&causes->expired, look->expired, look->resets);
	count(causes, lesser(more, UINT32_MAX), handed);
	/* Keys with a TTL as there were before these expired. */
	if (causes->unexplained == 0 || look->expires > causes->expires)
		causes->expires = look->expires;
	if (causes->unexplained > limit)
		return look->level && lasts(causes, look->told_us);
	rest(causes, handed);
	return false;
}

enum kw_cause kw_causes_look(struct kw_causes *causes, const struct kw_cause_look *look)
{
	bool jumped = has_jumped(causes, look);
	bool expired = has_expired_too_much(causes, look);
	enum kw_cause cause = jumped ? KW_CAUSE_CLOCK : expired ? KW_CAUSE_EXPIRED : KW_CAUSE_NONE;

	causes->looked = true;
	if (cause != KW_CAUSE_NONE)
		kw_causes_tell(causes, cause, look->told_us);
	return cause;
}

const char *kw_cause_text(enum kw_cause cause)
{
	switch (cause) {
	case KW_CAUSE_CLOCK:
		return "the local server's clock jumped, so keys with a TTL may have expired too "
		       "soon";
	case KW_CAUSE_EXPIRED:
		return "the local server expired more keys than the table explains";
	case KW_CAUSE_WRITES:
		return "other clients wrote to the local server";
	case KW_CAUSE_RESET:
		return "the local server's counts began anew (CONFIG RESETSTAT), so it does not "
		       "tell what it evicted, or others wrote, before";
	case KW_CAUSE_NONE:
		break;
	}
	return "";
}
