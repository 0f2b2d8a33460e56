#include "databases.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#define RETRY_US 200000

static bool holds(const void *owner, int state)
{
	const struct kw_databases *databases = owner;

	if (databases->taken_at > databases->answers || databases->strayed_at > databases->answers)
		return false;
	switch (state) {
	case KW_DATABASES_PLACED:
	case KW_DATABASES_PENDING:
		return databases->redis && databases->database >= 0 &&
		       databases->database <= KW_DATABASE_MAX;
	case KW_DATABASES_PUT_OFF:
		return databases->delay.retry_us > 0 && databases->database < 0;
	default:
		return databases->database < 0;
	}
}

static const struct kw_sm_state states[] = {
	[KW_DATABASES_PLACED] = {"placed",
		KW_SM_TO(KW_DATABASES_PENDING) | KW_SM_TO(KW_DATABASES_PUT_OFF)},
	[KW_DATABASES_PENDING] = {"pending", KW_SM_TO(KW_DATABASES_PLACED) |
						     KW_SM_TO(KW_DATABASES_PUT_OFF) |
						     KW_SM_TO(KW_DATABASES_LOST)},
	[KW_DATABASES_PUT_OFF] = {"put off", KW_SM_TO(KW_DATABASES_LOST)},
	[KW_DATABASES_LOST] = {"lost",
		KW_SM_TO(KW_DATABASES_PENDING) | KW_SM_TO(KW_DATABASES_PLACED) |
			KW_SM_TO(KW_DATABASES_PUT_OFF),
		KW_SM_INITIAL},
};
static const struct kw_sm_conf machine = {
	"databases", states, sizeof states / sizeof *states, holds};

static void move(struct kw_databases *databases, enum kw_databases_state state, int64_t database)
{
	databases->database = database;
	kw_sm_move(&databases->sm, state, "");
}

void kw_databases_init(struct kw_databases *databases, const struct kw_databases_handlers *handlers)
{
	*databases = (struct kw_databases){.handlers = *handlers, .database = -1};
	kw_sm_init(&databases->sm, &machine, databases, KW_DATABASES_LOST);
}

void kw_databases_begin(struct kw_databases *databases, struct kw_redis *redis)
{
	const struct kw_databases_handlers handlers = databases->handlers;

	assert(redis);
	kw_databases_init(databases, &handlers);
	databases->redis = redis;
	databases->confirmed[0] = 1;
	move(databases, KW_DATABASES_PLACED, 0);
}

static bool has_bit(const uint64_t *words, uint32_t database)
{
	return words[database / 64] >> (database % 64) & 1;
}

static void set_bit(uint64_t *words, uint32_t database)
{
	words[database / 64] |= UINT64_C(1) << (database % 64);
}

static void harm(struct kw_databases *databases)
{
	databases->handlers.harmed(databases->handlers.arg);
}

static void note_delay(
	struct kw_databases *databases, int64_t database, const struct kw_reply *reply)
{
	struct kw_databases_delay *delay = &databases->delay;

	delay->database = database;
	delay->retry_us = kw_clock_us() + RETRY_US;
	delay->class = kw_server_error(reply->text);
	snprintf(delay->words, sizeof delay->words, "%.*s",
		(int)(reply->text.length < 120 ? reply->text.length : 120),
		(const char *)reply->text.data);
}

/* ---- a database is used for the first time ---- */

static void on_select(void *arg, const struct kw_reply *reply)
{
	struct kw_databases *databases = arg;
	uint32_t database = (uint32_t)databases->database;

	if (!reply)
		return;
	assert(databases->sm.state == KW_DATABASES_PENDING);
	databases->answers++;
	if (reply->type == KW_REPLY_STATUS) {
		set_bit(databases->confirmed, database);
		databases->taken_at = databases->answers;
		move(databases, KW_DATABASES_PLACED, database);
	} else if (kw_server_error(reply->text) != KW_SERVER_E_OTHER) {
		/* A busy server or an ACL: neither says that there is no such database. */
		note_delay(databases, database, reply);
		move(databases, KW_DATABASES_PUT_OFF, -1);
	} else {
		kw_log_database(KW_LOG_WARN, "local", database, "SELECT %u: %.*s", database,
			(int)reply->text.length, (const char *)reply->text.data);
		set_bit(databases->refused, database);
		move(databases, KW_DATABASES_LOST, -1);
	}
	databases->handlers.selected(databases->handlers.arg);
}

/* ---- a database is used again ---- */

/* A busy server. From now on the answer to each SELECT is awaited. */
static void put_off_again(struct kw_databases *databases, const struct kw_reply *reply)
{
	databases->strayed_at = databases->answers;
	memset(databases->confirmed, 0, sizeof databases->confirmed);
	note_delay(databases, -1, reply);
	/* A later SELECT, which is awaited, tells which database is selected. */
	if (databases->sm.state != KW_DATABASES_PENDING)
		move(databases, KW_DATABASES_PUT_OFF, -1);
}

static void on_select_again(void *arg, const struct kw_reply *reply)
{
	struct kw_databases *databases = arg;

	if (!reply)
		return;
	databases->answers++;
	if (reply->type == KW_REPLY_STATUS) {
		databases->taken_at = databases->answers;
		return;
	}
	if (kw_server_error_passes(kw_server_error(reply->text))) {
		put_off_again(databases, reply);
		return;
	}
	/* The database was confirmed before: so an operator has changed the ACL of our user. */
	kw_log_error("local", "SELECT is refused in mid-stream (%.*s): reconciling",
		(int)reply->text.length, (const char *)reply->text.data);
	harm(databases);
}

bool kw_databases_in_place(struct kw_databases *databases, const struct kw_reply *reply)
{
	assert(databases->taken_at <= databases->answers);
	if (databases->strayed_at <= databases->taken_at || !reply || reply->type == KW_REPLY_ERROR)
		return true;
	kw_log_error("local",
		"a command went through behind a SELECT that was refused (%s): "
		"reconciling",
		databases->delay.words);
	harm(databases);
	return false;
}

static void send_select(struct kw_databases *databases, uint32_t database, kw_reply_fn done)
{
	char number[16];

	snprintf(number, sizeof number, "%u", database);
	kw_redis_words(databases->redis, done, databases, "SELECT", number, NULL);
}

enum kw_local_use kw_databases_use(struct kw_databases *databases, uint32_t database)
{
	assert(databases->redis);
	if (database > KW_DATABASE_MAX || has_bit(databases->refused, database))
		return KW_USE_REFUSED;
	if (databases->sm.state == KW_DATABASES_PENDING ||
		databases->sm.state == KW_DATABASES_PUT_OFF)
		return KW_USE_WAIT;
	if (databases->database == (int64_t)database)
		return KW_USE_OK;
	if (has_bit(databases->confirmed, database)) {
		move(databases, KW_DATABASES_PLACED, database);
		send_select(databases, database, on_select_again);
		return KW_USE_OK;
	}
	move(databases, KW_DATABASES_PENDING, database);
	send_select(databases, database, on_select);
	return KW_USE_WAIT;
}

void kw_databases_tick(struct kw_databases *databases, uint64_t now_us)
{
	if (databases->sm.state != KW_DATABASES_PUT_OFF || now_us < databases->delay.retry_us)
		return;
	move(databases, KW_DATABASES_LOST, -1);
	databases->handlers.selected(databases->handlers.arg);
}

const struct kw_databases_delay *kw_databases_delayed(const struct kw_databases *databases)
{
	return databases->sm.state == KW_DATABASES_PUT_OFF ? &databases->delay : NULL;
}
