#include "session.h"

#include "calls.h"
#include "catalog.h"
#include "permission.h"

#include "gateway/answers/command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTED_MAX 128 /* bytes of a request that an error quotes, as the server's own */

/* In the order of their names: found by halves. */
static const struct line {
	const char *name;
	void (*answer)(struct kw_call *call);
} lines[] = {
	{"acl|whoami", kw_call_whoami},
	{"auth", kw_call_auth},
	{"client|caching", kw_call_client_caching},
	{"client|getname", kw_call_client_getname},
	{"client|getredir", kw_call_client_getredir},
	{"client|id", kw_call_client_id},
	{"client|info", kw_call_client_info},
	{"client|list", kw_call_client_list},
	{"client|no-evict", kw_call_client_switch},
	{"client|no-touch", kw_call_client_switch},
	{"client|reply", kw_call_client_reply},
	{"client|setinfo", kw_call_client_setinfo},
	{"client|setname", kw_call_client_setname},
	{"client|tracking", kw_call_client_tracking},
	{"client|trackinginfo", kw_call_client_trackinginfo},
	{"command", kw_call_command},
	{"command|count", kw_call_command_count},
	{"command|docs", kw_call_command_docs},
	{"command|getkeys", kw_call_command_getkeys},
	{"command|info", kw_call_command_info},
	{"command|list", kw_call_command_list},
	{"config|get", kw_call_config_get},
	{"echo", kw_call_echo},
	{"hello", kw_call_hello},
	{"info", kw_call_info},
	{"ping", kw_call_ping},
	{"quit", kw_call_quit},
	{"readonly", kw_call_ok},
	{"readwrite", kw_call_ok},
	{"reset", kw_call_reset},
	{"select", kw_call_select},
	{"time", kw_call_time},
};

/* Of these commands no subcommand ever goes to the primary: it would speak of another client. */
static const char *const owned[] = {"acl", "client", "cluster", "command", "config"};

static int by_name(const void *name, const void *line)
{
	return strcmp(name, ((const struct line *)line)->name);
}

static bool is_owned(const struct kw_catalog_row *row)
{
	size_t length = strcspn(row->name, "|");

	for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
		if (strlen(owned[i]) == length && strncmp(owned[i], row->name, length) == 0)
			return true;
	return false;
}

static void (*find_answer(const struct kw_catalog_row *row))(struct kw_call *call)
{
	const struct line *line =
		bsearch(row->name, lines, sizeof lines / sizeof *lines, sizeof *lines, by_name);

	if (line)
		return line->answer;
	if (!is_owned(row))
		return NULL;
	return strncmp(row->name, "cluster", 7) == 0 ? kw_call_cluster : kw_call_refuse;
}

bool kw_session_serves(const struct kw_session_host *host, const struct kw_catalog_row *row)
{
	struct kw_slice name = kw_slice_text(row->name);

	if (bsearch(row->name, lines, sizeof lines / sizeof *lines, sizeof *lines, by_name))
		return true;
	for (size_t i = 1; i <= kw_catalog_subcommands(row); i++)
		if (kw_session_serves(host, row + i))
			return true;
	return kw_command_find(name) || (host->forwards && host->forwards(host->arg, name));
}

/* ---- the life of a session ---- */

void kw_session_become(struct kw_session *session, const struct kw_user *user)
{
	session->user = user;
	session->unnamed = false;
	session->may_all = user && kw_user_may_all(user);
}

void kw_session_forget(struct kw_session *session, const struct kw_session_host *host)
{
	free(session->name);
	session->name = NULL;
	session->version = KW_RESP_2;
	session->database = 0;
	kw_session_become(session, kw_users_unnamed(host->users));
	session->unnamed = true;
}

void kw_session_init(
	struct kw_session *session, const struct kw_session_host *host, uint64_t id, void *owner)
{
	*session = (struct kw_session){.id = id, .owner = owner};
	session->since_us = kw_session_look(session, host).now_us;
	kw_session_forget(session, host);
}

void kw_session_close(struct kw_session *session)
{
	free(session->name);
	free(session->library);
	free(session->library_version);
	*session = (struct kw_session){0};
}

bool kw_session_take_users(struct kw_session *session, const struct kw_users *users)
{
	bool unnamed = session->unnamed;
	const struct kw_user *user;

	if (unnamed)
		user = kw_users_unnamed(users);
	else
		user = kw_users_find(users, kw_slice_text(session->user->name));
	if (user && !unnamed && !kw_user_admits(user, session->secret))
		user = NULL;
	if (session->user && !user) {
		kw_session_become(session, NULL);
		session->unnamed = true;
		return false;
	}
	kw_session_become(session, user);
	session->unnamed = unnamed;
	return true;
}

struct kw_session_facts kw_session_look(
	const struct kw_session *session, const struct kw_session_host *host)
{
	struct kw_session_facts facts = {.name = "", .state = ""};

	if (host->look)
		host->look(host->arg, session, &facts);
	return facts;
}

/* Valkey tells clients of Redis that it is the last release before the fork. */
const char *kw_session_server_version(
	const struct kw_session_host *host, char text[KW_SESSION_VERSION_MAX])
{
	uint32_t number = host->release.number;

	if (host->server_version)
		return host->server_version;
	if (host->release.fork == KW_FORK_VALKEY)
		return "7.2.4";
	if (number < KW_RELEASE(7, 0))
		number = KW_RELEASE(7, 0);
	snprintf(text, KW_SESSION_VERSION_MAX, "%u.%u.0", (unsigned)(number / 100),
		(unsigned)(number % 100));
	return text;
}

/* ---- refusals, in the server's words (server.c, commandCheckExistence) ---- */

static void refuse_unknown(const struct kw_call *call)
{
	char quoted[QUOTED_MAX + 8] = "", name[32];
	size_t length = 0, first = call->words[0].length;
	const struct kw_catalog_row *row = kw_catalog_find(call->words[0]);

	if (row && call->count > 1 && kw_catalog_subcommands(row) > 0) {
		size_t sub = call->words[1].length;

		for (size_t i = 0; i <= strlen(row->name) && i < sizeof name; i++)
			name[i] = (char)toupper(row->name[i]);
		kw_reply_error(call->to, "ERR unknown subcommand '%.*s'. Try %.*s HELP.",
			sub < QUOTED_MAX ? (int)sub : QUOTED_MAX, (const char *)call->words[1].data,
			(int)sizeof name, name);
		return;
	}
	for (size_t i = 1; i < call->count && length < QUOTED_MAX; i++) {
		size_t most = QUOTED_MAX - length, take = call->words[i].length;

		length += (size_t)snprintf(quoted + length, sizeof quoted - length, "'%.*s' ",
			take < most ? (int)take : (int)most, (const char *)call->words[i].data);
	}
	kw_reply_error(call->to, "ERR unknown command '%.*s', with args beginning with: %s",
		first < QUOTED_MAX ? (int)first : QUOTED_MAX, (const char *)call->words[0].data,
		quoted);
}

/* A command that is not in the catalog passes if a user who may all can have it forwarded. */
static bool is_forwarded(const struct kw_call *call)
{
	return call->session->may_all && call->host->forwards && !kw_catalog_find(call->words[0]) &&
	       call->host->forwards(call->host->arg, call->words[0]);
}

/* False: an error was replied. */
static bool is_permitted(const struct kw_call *call)
{
	const struct kw_session *session = call->session;

	if (session->may_all && session->user->all_channels)
		return true;
	if (!session->user) {
		if (call->row->flags & KW_FLAG_NOAUTH)
			return true;
		kw_reply_error(call->to, "NOAUTH Authentication required.");
		return false;
	}
	switch (kw_user_may(session->user, call->row, call->words, call->count)) {
	case KW_PERMITTED:
		return true;
	case KW_PERMITTED_NOT_COMMAND:
		kw_reply_error(call->to,
			"NOPERM this user has no permissions to run the '%s' command",
			call->row->name);
		return false;
	case KW_PERMITTED_NOT_CHANNEL:
		kw_reply_error(call->to,
			"NOPERM this user has no permissions to access one of the channels used "
			"as arguments");
		return false;
	case KW_PERMITTED_NOT_KEYS:
		break;
	}
	kw_reply_error(call->to,
		"NOPERM this user has no permissions to access one of the keys used "
		"as arguments");
	return false;
}

static void refuse(const struct kw_reply_to *to, const struct kw_catalog_row *row)
{
	if (row->flags & KW_FLAG_WRITE)
		kw_reply_error(to, "READONLY You can't write against a read only replica.");
	else
		kw_reply_error(to, "ERR '%s' is not served by keywake-gateway: ask the primary",
			row->name);
}

void kw_call_refuse(struct kw_call *call)
{
	refuse(call->to, call->row);
}

void kw_session_refuse(const struct kw_session *session, const struct kw_session_host *host,
	const struct kw_slice *words, struct kw_buffer *out)
{
	const struct kw_reply_to to = kw_session_reply_to(session, host, out);
	const struct kw_catalog_row *row = kw_catalog_find(words[0]);

	if (row)
		refuse(&to, row);
	else
		kw_reply_error(&to, "ERR unknown command");
}

enum kw_session_verdict kw_session_begin(struct kw_session *session,
	const struct kw_session_host *host, const struct kw_slice *words, size_t count,
	struct kw_buffer *out)
{
	const struct kw_reply_to to = kw_session_reply_to(session, host, out);
	struct kw_call call = {.session = session,
		.host = host,
		.row = kw_catalog_resolve(words, count),
		.words = words,
		.count = count,
		.to = &to,
		.verdict = KW_SESSION_REPLIED};
	void (*answer)(struct kw_call *);

	if (!call.row) {
		if (is_forwarded(&call))
			return KW_SESSION_PASSES;
		refuse_unknown(&call);
		return KW_SESSION_REPLIED;
	}
	if (!kw_catalog_fits(call.row, count)) {
		kw_reply_error(
			&to, "ERR wrong number of arguments for '%s' command", call.row->name);
		return KW_SESSION_REPLIED;
	}
	if (!is_permitted(&call))
		return KW_SESSION_REPLIED;
	answer = find_answer(call.row);
	if (!answer)
		return KW_SESSION_PASSES;
	answer(&call);
	return call.verdict;
}
