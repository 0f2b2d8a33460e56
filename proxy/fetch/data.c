#include "fetch/data.h"

#include "base/log.h"
#include "redis/server.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTED_BYTES 160 /* of the server's answer in a sentence */

void kw_data_open(struct kw_data_connection *data, struct kw_redis *redis)
{
	assert(redis && data->failed);
	data->redis = redis;
	data->selected = 0;
	data->state = KW_DATA_OPEN;
}

static void selected(void *arg, const struct kw_reply *reply)
{
	struct kw_data_connection *data = arg;

	reply = kw_data_reply(data, reply);
	if (reply && reply->type == KW_REPLY_ERROR)
		kw_data_refused(data, "SELECT", "+select", reply);
}

void kw_data_info(struct kw_data_connection *data, kw_reply_fn fn, void *arg, const char *section)
{
	assert(data->redis);
	data->infos++;
	kw_redis_words(data->redis, fn, arg, "INFO", section, NULL);
}

void kw_data_select(struct kw_data_connection *data, uint32_t database)
{
	char number[16];

	if (data->selected == (int64_t)database)
		return;
	snprintf(number, sizeof number, "%u", database);
	kw_redis_words(data->redis, selected, data, "SELECT", number, NULL);
	data->selected = database;
}

static void untouched(void *arg, const struct kw_reply *reply)
{
	struct kw_data_connection *data = arg;
	const char *user = data->user[0] ? data->user : "default";

	reply = kw_data_reply(data, reply);
	if (!reply || reply->type != KW_REPLY_ERROR || data->touching)
		return;
	data->touching = true;
	kw_log_warn("source",
		"CLIENT NO-TOUCH was refused (%.*s): each scan counts as use of every key, which "
		"misleads eviction by LRU or LFU; give the permission with ACL SETUSER %s "
		"+client|no-touch",
		(int)(reply->text.length < QUOTED_BYTES ? reply->text.length : QUOTED_BYTES),
		reply->text.length ? (const char *)reply->text.data : "", user);
}

void kw_data_no_touch(struct kw_data_connection *data)
{
	kw_redis_words(data->redis, untouched, data, "CLIENT", "NO-TOUCH", "ON", NULL);
}

void kw_data_fail(struct kw_data_connection *data, enum kw_code code, const char *format, ...)
{
	struct kw_error why = {.code = code};
	va_list args;

	if (kw_data_is_broken(data))
		return;
	assert(code != KW_OK);
	data->state = KW_DATA_BROKEN;
	va_start(args, format);
	vsnprintf(why.text, sizeof why.text, format, args);
	va_end(args);
	data->failed(data->arg, &why);
}

int kw_data_refusal(struct kw_error *error, const char *user, const char *command, const char *acl,
	const struct kw_reply *reply)
{
	int length = (int)(reply->text.length < QUOTED_BYTES ? reply->text.length : QUOTED_BYTES);
	const char *words = length > 0 ? reply->text.data : "";
	const char *name = user[0] ? user : "default";

	if (reply->type != KW_REPLY_ERROR)
		return kw_error_set(error, KW_E_PROTOCOL,
			"%s: the answer has not the form it must have: is this a Redis or Valkey "
			"server, and nothing between that rewrites replies?",
			command);
	if (kw_server_error(reply->text) == KW_SERVER_E_PERMISSION)
		return kw_error_set(error, KW_E_REFUSED,
			"the user '%s' may not run %s (%.*s): give the permission with "
			"ACL SETUSER %s %s",
			name, command, length, words, name, acl);
	return kw_error_set(
		error, KW_E_REFUSED, "%s: the server refused: %.*s", command, length, words);
}

void kw_data_refused(struct kw_data_connection *data, const char *command, const char *acl,
	const struct kw_reply *reply)
{
	struct kw_error why;

	if (kw_data_is_broken(data))
		return;
	kw_data_refusal(&why, data->user, command, acl, reply);
	kw_data_fail(data, why.code, "%s", why.text);
}

static bool number(const struct kw_reply *reply, int64_t *value)
{
	char digits[20], *end;

	if (reply->type != KW_REPLY_STRING || reply->text.length == 0 ||
		reply->text.length >= sizeof digits)
		return false;
	memcpy(digits, reply->text.data, reply->text.length);
	digits[reply->text.length] = '\0';
	*value = strtoll(digits, &end, 10);
	return *end == '\0' && *value >= 0;
}

bool kw_data_time(const struct kw_reply *reply, int64_t *us)
{
	int64_t seconds, rest;

	if (reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		!number(&reply->elements[0], &seconds) || !number(&reply->elements[1], &rest) ||
		seconds > INT64_MAX / 1000000 - 1 || rest >= 1000000)
		return false;
	*us = seconds * 1000000 + rest;
	return true;
}
