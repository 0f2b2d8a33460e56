/*
 * The first commands on a connection: AUTH, when a user or a password is configured, and CLIENT
 * SETNAME, which shows in CLIENT LIST. Callers' commands wait until both are answered: if AUTH
 * fails, they must not run as the default user.
 */
#include "redis/connection.h"

#include <assert.h>
#include <stdio.h>

/* As much of the server's answer as a sentence quotes. */
#define QUOTE_BYTES 200
#define REMEDY_BYTES 160

static bool says(const struct kw_reply *reply, const char *words)
{
	return memmem(reply->text.data, reply->text.length, words, strlen(words)) != NULL;
}

static void refused(
	struct kw_redis *redis, enum kw_code code, const struct kw_reply *reply, const char *remedy)
{
	int length = reply->text.length < QUOTE_BYTES ? (int)reply->text.length : QUOTE_BYTES;

	kw_redis_failf(redis, code, "the server refused: %.*s; %s", length,
		(const char *)reply->text.data, remedy);
}

/* The remedy for a refused AUTH; it can name the keys of the configuration. */
static void say_auth_remedy(
	const struct kw_redis *redis, const struct kw_reply *reply, char remedy[REMEDY_BYTES])
{
	const char *keys = redis->keys;

	if (says(reply, "WRONGPASS") || says(reply, "invalid password"))
		snprintf(remedy, REMEDY_BYTES,
			"check %s.username and the content of %s.password_file "
			"(a line end does not belong to the password)",
			keys, keys);
	else if (says(reply, "without any password configured"))
		snprintf(remedy, REMEDY_BYTES,
			"the server asks for none: leave out %s.password_file, or give the user "
			"a password (ACL SETUSER, requirepass)",
			keys);
	else if (says(reply, "wrong number of arguments"))
		snprintf(remedy, REMEDY_BYTES,
			"a server this old knows no users: leave out %s.username", keys);
	else
		snprintf(remedy, REMEDY_BYTES, "see ACL LIST and ACL LOG on the server");
}

/* What a server answers before it looks at the command. True: the connection is over. */
static bool turned_away(struct kw_redis *redis, const struct kw_reply *reply)
{
	if (says(reply, "max number of clients"))
		refused(redis, KW_E_IO, reply, "raise maxclients, or close other clients");
	else if (says(reply, "DENIED"))
		refused(redis, KW_E_REFUSED, reply,
			"protected mode: set a password, or protected-mode no");
	return kw_redis_is_over(redis);
}

static void on_auth(void *arg, const struct kw_reply *reply)
{
	struct kw_redis *redis = arg;
	char remedy[REMEDY_BYTES];

	if (!reply || reply->type != KW_REPLY_ERROR || turned_away(redis, reply))
		return;
	say_auth_remedy(redis, reply, remedy);
	refused(redis, KW_E_REFUSED, reply, remedy);
}

static void on_name(void *arg, const struct kw_reply *reply)
{
	struct kw_redis *redis = arg;
	char remedy[REMEDY_BYTES];

	if (!reply)
		return;
	if (reply->type == KW_REPLY_ERROR) {
		if (turned_away(redis, reply))
			return;
		if (says(reply, "NOAUTH")) {
			snprintf(remedy, sizeof remedy,
				"set %s.password_file (and %s.username for an ACL user)",
				redis->keys, redis->keys);
			refused(redis, KW_E_REFUSED, reply, remedy);
			return;
		}
		/* No right to CLIENT SETNAME, or a name that the server refuses: no harm. */
	}
	kw_redis_logged_in(redis);
}

static void send_auth(struct kw_redis *redis, const struct kw_redis_options *options)
{
	struct kw_slice password =
		options->present_password ? *options->present_password : options->password;
	struct kw_slice argv[3] = {kw_slice_text("AUTH")};
	int argc = 1;

	if (password.length == 0 && !options->username[0])
		return;
	if (options->username[0])
		argv[argc++] = kw_slice_text(options->username);
	argv[argc++] = password;
	kw_redis_send_secret(redis, on_auth, redis, argc, argv);
}

void kw_redis_login(struct kw_redis *redis, const struct kw_redis_options *options)
{
	assert(redis->pending.count == 0 && redis->output.bytes == 0);
	send_auth(redis, options);
	kw_redis_words(redis, on_name, redis, "CLIENT", "SETNAME", redis->client_name, NULL);
	redis->login_bytes = redis->output.bytes;
}
