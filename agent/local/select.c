/* The databases of the connection: which one commands go to, and whether they did. */
#include "local.h"

#include "base/clock.h"
#include "base/log.h"

#include <assert.h>
#include <stdio.h>

#define SELECT_INTERVAL_US 200000

void kw_local_begin_databases(struct kw_local *local)
{
	local->current = 0;
	local->pending = -1;
	memset(local->confirmed, 0, sizeof local->confirmed);
	memset(local->refused, 0, sizeof local->refused);
	local->confirmed[0] = 1; /* a connection begins in database 0 */
	local->select_us = 0;
	local->astray = false;
}

static bool has_bit(const uint64_t *words, uint32_t database)
{
	return words[database / 64] >> (database % 64) & 1;
}

/* It was busy with a script, or we may not: neither says that there is no such database. */
static void select_later(struct kw_local *local, int64_t database, const struct kw_reply *reply)
{
	local->current = -1;
	local->select_database = database;
	local->select_us = kw_clock_us() + SELECT_INTERVAL_US;
	local->select_error = kw_server_error(reply->text);
	snprintf(local->select_words, sizeof local->select_words, "%.*s",
		(int)(reply->text.length < 120 ? reply->text.length : 120),
		(const char *)reply->text.data);
}

static void on_select(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;
	uint32_t database = (uint32_t)local->pending;

	if (!reply)
		return;
	local->pending = -1;
	if (reply->type == KW_REPLY_STATUS) {
		local->confirmed[database / 64] |= UINT64_C(1) << (database % 64);
		local->astray = false;
	} else if (kw_server_error(reply->text) != KW_SERVER_E_OTHER) {
		select_later(local, database, reply);
	} else {
		kw_log_warn("local", "SELECT %u: %.*s", database, (int)reply->text.length,
			(const char *)reply->text.data);
		local->refused[database / 64] |= UINT64_C(1) << (database % 64);
		local->current = -1; /* wherever it was before: ask for the next one by name */
	}
	local->handlers.selected(local->handlers.arg);
}

/*
 * Something was carried out in a database that it was not meant for. Treated as if somebody had
 * flushed: everything is looked at again.
 */
static void doubt_all(struct kw_local *local)
{
	kw_continuity_harmed(&local->continuity);
	kw_redis_close(local->redis);
}

/*
 * A database confirmed before is refused now. By our ACL, which somebody has changed: what was
 * pipelined behind it went elsewhere. By a server that is busy with a script: then that is refused
 * too, but for what comes just as the script ends; and from now on every SELECT is waited for.
 */
static void on_select_again(void *arg, const struct kw_reply *reply)
{
	struct kw_local *local = arg;

	if (!reply)
		return;
	if (reply->type == KW_REPLY_STATUS) {
		local->astray = false;
		return;
	}
	if (kw_server_error_passes(kw_server_error(reply->text))) {
		local->astray = true;
		memset(local->confirmed, 0, sizeof local->confirmed);
		select_later(local, -1, reply);
		return;
	}
	kw_log_error("local", "SELECT is refused in mid-stream (%.*s): reconciling",
		(int)reply->text.length, (const char *)reply->text.data);
	doubt_all(local);
}

bool kw_local_in_place(struct kw_local *local, const struct kw_reply *reply)
{
	if (!local->astray || !reply || reply->type == KW_REPLY_ERROR)
		return true;
	kw_log_error("local",
		"a command went through behind a SELECT that was refused (%s): "
		"reconciling",
		local->select_words);
	doubt_all(local);
	return false;
}

enum kw_local_use kw_local_use(struct kw_local *local, uint32_t database)
{
	char number[16];

	assert(local->redis);
	if (database > KW_DATABASE_MAX || has_bit(local->refused, database))
		return KW_USE_REFUSED;
	if (local->pending >= 0)
		return KW_USE_WAIT;
	if (local->current == (int64_t)database)
		return KW_USE_OK;
	if (local->select_us)
		return KW_USE_WAIT;
	snprintf(number, sizeof number, "%u", database);
	local->current = database;
	if (has_bit(local->confirmed, database)) {
		kw_redis_words(local->redis, on_select_again, local, "SELECT", number, NULL);
		return KW_USE_OK;
	}
	local->pending = database;
	kw_redis_words(local->redis, on_select, local, "SELECT", number, NULL);
	return KW_USE_WAIT;
}
