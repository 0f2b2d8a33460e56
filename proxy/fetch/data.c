#include "fetch/data.h"

#include "base/clock.h"
#include "base/log.h"
#include "redis/server.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUOTED_BYTES 160 /* of the server's answer in a sentence */
#define PAUSE_FIRST_US 100000
#define PAUSE_MOST_US 1000000

void kw_data_open(struct kw_data_connection *data, struct kw_redis *redis)
{
	assert(redis && data->failed);
	data->redis = redis;
	data->selected = 0;
	data->state = KW_DATA_OPEN;
	data->flow = KW_DATA_FLOWING;
	data->strayed = false;
	assert(data->questions.count == 0 && data->sent == 0);
}

/* Asking, and asking again. */

static void answered(void *arg, const struct kw_reply *reply);

static void send_one(struct kw_data_connection *data, const struct kw_question *question)
{
	kw_redis_send(data->redis, answered, data, question->argc, question->argv);
	data->sent++;
}

void kw_data_send(struct kw_data_connection *data, kw_reply_fn fn, void *arg, int argc,
	const struct kw_slice *argv)
{
	struct kw_question question = {fn, arg, data->selected, argc, {{0}}};

	assert(data->redis && fn && argc <= KW_QUESTION_WORDS);
	memcpy(question.argv, argv, (size_t)argc * sizeof *argv);
	kw_questions_add(&data->questions, &question);
	if (data->flow == KW_DATA_FLOWING)
		send_one(data, &question);
}

void kw_data_words(
	struct kw_data_connection *data, kw_reply_fn fn, void *arg, const char *word, ...)
{
	struct kw_slice argv[KW_QUESTION_WORDS];
	int argc = 0;
	va_list args;

	va_start(args, word);
	for (; word; word = va_arg(args, const char *)) {
		assert(argc < KW_QUESTION_WORDS);
		argv[argc++] = kw_slice_text(word);
	}
	va_end(args);
	kw_data_send(data, fn, arg, argc, argv);
}

/* Tell the first asker. */
static void tell(struct kw_data_connection *data, const struct kw_reply *reply)
{
	struct kw_question question;
	size_t at = 0;
	bool any = kw_questions_next(&data->questions, &at, &question);

	assert(any);
	(void)any;
	kw_questions_remove(&data->questions);
	question.fn(question.arg, reply);
}

void kw_data_closed(struct kw_data_connection *data)
{
	assert(data->sent == 0 && kw_data_is_broken(data));
	while (data->questions.count > 0)
		tell(data, NULL);
	kw_questions_close(&data->questions);
}

static bool is_busy(const struct kw_reply *reply)
{
	return reply->type == KW_REPLY_ERROR && kw_server_error(reply->text) == KW_SERVER_E_BUSY;
}

static void rest(struct kw_data_connection *data)
{
	data->flow = KW_DATA_RESTING;
	data->ask_us = kw_clock_us() + data->pause_us;
	data->pause_us = data->pause_us * 2 < PAUSE_MOST_US ? data->pause_us * 2 : PAUSE_MOST_US;
}

/* `but`: so many of the first ones are sent already. */
static void resume(struct kw_data_connection *data, uint32_t but)
{
	struct kw_question question;

	kw_log_info("source", "the primary is not busy with a script any more");
	data->flow = KW_DATA_FLOWING;
	data->resumed_us = kw_clock_us();
	for (size_t at = 0; kw_questions_next(&data->questions, &at, &question);) {
		if (but > 0)
			but--;
		else
			send_one(data, &question);
	}
}

/*
 * An answer that came after one of -BUSY is not used, because answers are told in order. But a
 * SELECT among them did what it says; +OK is its answer.
 */
static void drop(struct kw_data_connection *data, const struct kw_reply *reply)
{
	data->strayed |= reply->type == KW_REPLY_STATUS;
	data->answers++;
	if (data->sent == 0)
		rest(data);
}

static void begin_busy(struct kw_data_connection *data)
{
	kw_log_info("source", "the primary is busy with a script (BUSY): questions wait");
	data->flow = KW_DATA_DRAINING;
	data->busy_times++;
	data->pause_us = PAUSE_FIRST_US;
}

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_data_connection *data = arg;

	assert(data->sent > 0);
	data->sent--;
	if (!reply || kw_data_is_broken(data)) {
		tell(data, NULL);
		return;
	}
	if (data->flow == KW_DATA_FLOWING && is_busy(reply))
		begin_busy(data);
	if (data->flow == KW_DATA_DRAINING) {
		drop(data, reply);
		return;
	}
	if (data->flow == KW_DATA_ASKING && is_busy(reply)) {
		data->answers++;
		rest(data);
		return;
	}
	if (data->flow == KW_DATA_ASKING)
		resume(data, 1);
	tell(data, reply);
}

/* The database is again that of the first question. */
static void returned(void *arg, const struct kw_reply *reply)
{
	struct kw_data_connection *data = arg;

	assert(data->sent > 0);
	data->sent--;
	data->answers++;
	if (!reply || kw_data_is_broken(data))
		return;
	if (is_busy(reply)) {
		rest(data);
	} else if (reply->type == KW_REPLY_ERROR) {
		kw_data_refused(data, "SELECT", "+select", reply);
	} else {
		data->strayed = false;
		resume(data, 0);
	}
}

void kw_data_turn(struct kw_data_connection *data, uint64_t now_us)
{
	struct kw_question question;
	char number[24];
	size_t at = 0;

	if (data->flow != KW_DATA_RESTING || kw_data_is_broken(data) || now_us < data->ask_us ||
		!kw_questions_next(&data->questions, &at, &question))
		return;
	data->flow = KW_DATA_ASKING;
	if (!data->strayed) {
		send_one(data, &question);
		return;
	}
	snprintf(number, sizeof number, "%lld", (long long)question.database);
	kw_redis_words(data->redis, returned, data, "SELECT", number, NULL);
	data->sent++;
}

uint64_t kw_data_ready_us(const struct kw_data_connection *data)
{
	return data->flow == KW_DATA_RESTING && !kw_data_is_broken(data) ? data->ask_us
									 : UINT64_MAX;
}

/* Questions of this module. */

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
	kw_data_words(data, fn, arg, "INFO", section, NULL);
}

void kw_data_select(struct kw_data_connection *data, uint32_t database)
{
	char number[16];

	if (data->selected == (int64_t)database)
		return;
	snprintf(number, sizeof number, "%u", database);
	kw_data_words(data, selected, data, "SELECT", number, NULL);
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
	kw_data_words(data, untouched, data, "CLIENT", "NO-TOUCH", "ON", NULL);
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
