/*
 * What the agent's user needs on the local server. When the server denies a command, the others are
 * looked at, too: so the operator gives all that is lacking at once, and not one a round.
 *
 * A form that is tried must neither change the server nor count as a write there (writers.h), so
 * commands that change keys are asked about by ACL DRYRUN alone.
 */
#include "permissions.h"

#include "internal.h"

#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>

/* Denied commands are sent again all the time; no more than one look in this time. */
#define INTERVAL_US 1000000

/* On what a row depends. */
enum {
	ALWAYS = 0,
	COMMANDS = KW_LOCAL_BY_COMMANDS,
	LEADS = KW_LOCAL_AS_PRIMARY,
	FUNCTIONS = KW_LOCAL_WITH_FUNCTIONS,
	CURSOR_FUNCTION = 8,
	CURSOR_KEY = 16,
	EXPIRETIME = 32, /* from Redis 7.0 on */
	NO_EXPIRETIME = 64,
	FOLLOWS_NOBODY = 128, /* not AS_PRIMARY */
};

#define TRY(depends, acl, why, ...)                                                                \
	{                                                                                          \
		depends,                                                                           \
		{                                                                                  \
			{__VA_ARGS__}, KW_WANTED_TRIED, acl, why                                   \
		}                                                                                  \
	}
#define ASK(depends, acl, why, ...)                                                                \
	{                                                                                          \
		depends,                                                                           \
		{                                                                                  \
			{__VA_ARGS__}, KW_WANTED_ASKED, acl, why                                   \
		}                                                                                  \
	}

/* clang-format off */
static const struct {
	unsigned depends;
	struct kw_wanted wanted;
} rows[] = {
	TRY(ALWAYS, "+info", "to watch the server", "INFO", "server"),
	TRY(ALWAYS, "+select", "for databases", "SELECT", "-1"),
	TRY(ALWAYS, "+scan", "to find keys", "SCAN", "0", "COUNT", "0"),
	TRY(ALWAYS, "+dump ~*", "to compare values", "DUMP", KW_WANTED_KEY),
	TRY(EXPIRETIME, "+pexpiretime", "to compare TTLs", "PEXPIRETIME", KW_WANTED_KEY),
	TRY(NO_EXPIRETIME, "+pttl", "to compare TTLs", "PTTL", KW_WANTED_KEY),
	TRY(ALWAYS, "+command|info", "to know writers", "COMMAND", "INFO", "info"),
	TRY(ALWAYS, "+client|list", "to see other agents", "CLIENT", "LIST", "TYPE", "x"),
	TRY(ALWAYS, "+client|setname", "to be seen by other agents", "CLIENT", "SETNAME", "x x"),
	TRY(ALWAYS, "+client|kill", "to end agents that hang", "CLIENT", "KILL", "TYPE", "x"),
	ASK(COMMANDS, "+restore ~*", "to write values", "RESTORE", KW_WANTED_KEY, "0", "x"),
	ASK(COMMANDS, "+unlink ~*", "to delete keys", "UNLINK", KW_WANTED_KEY),
	ASK(COMMANDS, "+flushdb", "to empty databases", "FLUSHDB"),
	TRY(CURSOR_FUNCTION, "+function|list", "to read the cursor", "FUNCTION", "LIST", "x"),
	TRY(CURSOR_FUNCTION, "+function|load", "to write the cursor", "FUNCTION", "LOAD", "x"),
	TRY(CURSOR_KEY, "+get", "to read the cursor", "GET", KW_WANTED_KEY),
	ASK(CURSOR_KEY, "+set", "to write the cursor", "SET", KW_WANTED_KEY, "x"),
	TRY(LEADS, "+config|get", "to lead the server", "CONFIG", "GET", KW_WANTED_KEY),
	TRY(LEADS, "+config|set", "to lead the server", "CONFIG", "SET", KW_WANTED_KEY, "x"),
	ASK(LEADS, "+function|dump", "to keep its functions", "FUNCTION", "DUMP"),
	ASK(FUNCTIONS | FOLLOWS_NOBODY, "+function|dump", "to compare functions", "FUNCTION", "DUMP"),
	ASK(FUNCTIONS | COMMANDS, "+function|restore", "to load functions", "FUNCTION", "RESTORE", "x"),
	ASK(FUNCTIONS | COMMANDS, "+function|delete", "to delete functions", "FUNCTION", "DELETE", "x"),
	ASK(LEADS, "+replicaof", "to lead the server", "REPLICAOF", KW_WANTED_KEY, "x"),
};
/* clang-format on */

#define ROWS (sizeof rows / sizeof *rows)
_Static_assert(ROWS <= KW_LOCAL_PERMISSIONS, "each has its place");

size_t kw_local_wanted(enum kw_local_manner manner, bool key, bool expiretime,
	struct kw_wanted wanted[KW_LOCAL_PERMISSIONS])
{
	const unsigned depends = (unsigned)manner | (key ? CURSOR_KEY : CURSOR_FUNCTION) |
				 (expiretime ? EXPIRETIME : NO_EXPIRETIME) |
				 (manner & KW_LOCAL_AS_PRIMARY ? 0 : FOLLOWS_NOBODY);
	size_t count = 0;

	for (size_t i = 0; i < ROWS; i++)
		if ((rows[i].depends & depends) == rows[i].depends)
			wanted[count++] = rows[i].wanted;
	return count;
}

static void send_one(void *arg, kw_reply_fn fn, void *fn_arg, int argc, const struct kw_slice *argv)
{
	kw_redis_send(((struct kw_local *)arg)->redis, fn, fn_arg, argc, argv);
}

static void known(void *arg)
{
	struct kw_local *local = arg;
	struct kw_local_permissions *permissions = &local->permissions;
	struct kw_error error = {0};

	if (kw_wanted_any_lacks(&permissions->check))
		kw_wanted_sentence(&permissions->check, &error);
	snprintf(permissions->lacking, sizeof permissions->lacking, "%.*s", KW_WANTED_TEXT - 1,
		error.text);
	/* It goes on without some of them, so each connection finds the same. */
	if (error.text[0] && strcmp(permissions->lacking, permissions->told) != 0)
		kw_log_warn("local", "the local server denies commands: %s", error.text);
	memcpy(permissions->told, permissions->lacking, sizeof permissions->told);
}

void kw_local_begin_permissions(struct kw_local *local)
{
	struct kw_local_permissions fresh = {0};

	memcpy(fresh.told, local->permissions.told, sizeof fresh.told);
	local->permissions = fresh;
}

void kw_local_denied(struct kw_local *local)
{
	struct kw_local_permissions *permissions = &local->permissions;
	struct kw_wanted_check *check = &permissions->check;
	const struct kw_server_identity *identity = &local->facts.identity;
	const bool expiretime = identity->valkey || identity->major >= 7;
	const uint64_t now_us = kw_clock_us();
	bool runs = check->state == KW_WANTED_TRYING || check->state == KW_WANTED_ASKING;

	if (!local->redis || runs ||
		(permissions->asked_us > 0 && now_us - permissions->asked_us < INTERVAL_US))
		return;
	permissions->asked_us = now_us;
	*check = (struct kw_wanted_check){
		.wanted = permissions->wanted,
		.user = local->options.redis.username,
		.send = send_one,
		.done = known,
		.arg = local,
		.denied = true,
	};
	check->count = kw_local_wanted(local->options.manner, kw_local_store_is_key(local),
		expiretime, permissions->wanted);
	kw_wanted_begin(check);
}

const char *kw_local_grant(const struct kw_local *local, const char *otherwise)
{
	return local->permissions.lacking[0] ? local->permissions.lacking : otherwise;
}

void kw_local_tell_answer(const struct kw_local *local, const struct kw_reply *reply,
	const char *otherwise, char text[KW_LOCAL_ANSWER])
{
	bool denied = reply->type == KW_REPLY_ERROR &&
		      kw_server_error(reply->text) == KW_SERVER_E_PERMISSION;
	int shown = (int)(reply->text.length < 160 ? reply->text.length : 160);

	if (denied && local->permissions.lacking[0])
		snprintf(text, KW_LOCAL_ANSWER, "is denied: %s", local->permissions.lacking);
	else
		snprintf(text, KW_LOCAL_ANSWER, "answers \"%.*s\"%s%s", shown,
			shown ? (const char *)reply->text.data : "", denied ? ": " : "",
			denied ? otherwise : "");
}
