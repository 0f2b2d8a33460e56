#include "ask.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>

#define WORDS_MAX 300

struct kw_slice kw_ask_words(const struct kw_reply *reply)
{
	struct kw_slice words = kw_slice_text("something unexpected");

	if (reply->type == KW_REPLY_ERROR || reply->type == KW_REPLY_STATUS)
		words = reply->text;
	if (words.length > WORDS_MAX)
		words.length = WORDS_MAX;
	return words;
}

static void on_selected(void *arg, const struct kw_reply *reply)
{
	struct kw_ask *ask = arg;

	/* The answers that follow are of another database: they must not be believed. */
	if (reply && reply->type != KW_REPLY_STATUS)
		ask->failed(ask->arg, "SELECT", reply);
}

void kw_ask_select(struct kw_ask *ask, uint32_t database)
{
	char number[16];

	if (ask->database == (int64_t)database)
		return;
	ask->database = database;
	snprintf(number, sizeof number, "%u", database);
	kw_redis_words(ask->redis, on_selected, ask, "SELECT", number, NULL);
}

static void on_expiry(void *arg, const struct kw_reply *reply)
{
	struct kw_ask *ask = arg;

	if (!reply)
		return;
	if (reply->type != KW_REPLY_INTEGER) {
		ask->failed(ask->arg, ask->pexpiretime ? "PEXPIRETIME" : "PTTL", reply);
		return;
	}
	ask->answer.expires_ms = reply->integer;
	if (!ask->pexpiretime && reply->integer >= 0)
		ask->answer.expires_ms += (int64_t)(kw_wall_us() / 1000);
}

void kw_ask_key(
	struct kw_ask *ask, uint32_t database, struct kw_slice key, kw_reply_fn fn, void *arg)
{
	struct kw_slice argv[2];

	assert(ask->redis && ask->failed && ask->names);
	kw_ask_select(ask, kw_naming_local_database(ask->names, database));
	argv[1] = kw_naming_local_key(ask->names, key, &ask->name);
	argv[0] = kw_slice_text(ask->pexpiretime ? "PEXPIRETIME" : "PTTL");
	kw_redis_send(ask->redis, on_expiry, ask, 2, argv);
	argv[0] = kw_slice_text("DUMP");
	kw_redis_send(ask->redis, fn, arg, 2, argv);
}

void kw_ask_close(struct kw_ask *ask)
{
	kw_buffer_close(&ask->name);
}

bool kw_ask_answered(struct kw_ask *ask, const struct kw_reply *reply)
{
	if (!reply)
		return false;
	if (reply->type != KW_REPLY_STRING && reply->type != KW_REPLY_NIL) {
		ask->failed(ask->arg, "DUMP", reply);
		return false;
	}
	/* -2: it was deleted between the two questions. */
	ask->answer.there = reply->type == KW_REPLY_STRING && ask->answer.expires_ms != -2;
	ask->answer.payload = reply->text;
	return true;
}
