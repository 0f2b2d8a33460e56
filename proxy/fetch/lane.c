#include "fetch/lane.h"

#include "redis/server.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTED_BYTES 160 /* of the server's own words in a sentence */

void kw_lane_open(struct kw_lane *lane, struct kw_redis *redis)
{
	assert(redis && lane->failed);
	lane->redis = redis;
	lane->selected = 0;
	lane->broken = false;
}

static void selected(void *arg, const struct kw_reply *reply)
{
	struct kw_lane *lane = arg;

	reply = kw_lane_reply(lane, reply);
	if (reply && reply->type == KW_REPLY_ERROR)
		kw_lane_refused(lane, "SELECT", "+select", reply);
}

void kw_lane_info(struct kw_lane *lane, kw_reply_fn fn, void *arg, const char *section)
{
	assert(lane->redis);
	lane->infos++;
	kw_redis_words(lane->redis, fn, arg, "INFO", section, NULL);
}

void kw_lane_select(struct kw_lane *lane, uint32_t database)
{
	char number[16];

	if (lane->selected == (int64_t)database)
		return;
	snprintf(number, sizeof number, "%u", database);
	kw_redis_words(lane->redis, selected, lane, "SELECT", number, NULL);
	lane->selected = database;
}

void kw_lane_fail(struct kw_lane *lane, enum kw_code code, const char *format, ...)
{
	struct kw_error why = {.code = code};
	va_list args;

	if (lane->broken)
		return;
	assert(code != KW_OK);
	lane->broken = true;
	va_start(args, format);
	vsnprintf(why.text, sizeof why.text, format, args);
	va_end(args);
	lane->failed(lane->arg, &why);
}

int kw_lane_refusal(struct kw_error *error, const char *user, const char *command, const char *acl,
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

void kw_lane_refused(
	struct kw_lane *lane, const char *command, const char *acl, const struct kw_reply *reply)
{
	struct kw_error why;

	if (lane->broken)
		return;
	kw_lane_refusal(&why, lane->user, command, acl, reply);
	kw_lane_fail(lane, why.code, "%s", why.text);
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

bool kw_lane_time(const struct kw_reply *reply, int64_t *us)
{
	int64_t seconds, rest;

	if (reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		!number(&reply->elements[0], &seconds) || !number(&reply->elements[1], &rest) ||
		seconds > INT64_MAX / 1000000 - 1 || rest >= 1000000)
		return false;
	*us = seconds * 1000000 + rest;
	return true;
}
