#include "feed/watch/range.h"

#include "keys/databases.h"
#include "redis/server.h"

#include <assert.h>
#include <stdio.h>

/* The servers' default, asked for first (databases in redis.conf). */
#define USUAL 16

static void returned(void *arg, const struct kw_reply *reply)
{
	struct kw_range *range = arg;

	reply = kw_data_reply(range->data, reply);
	if (reply && reply->type == KW_REPLY_ERROR)
		kw_data_refused(range->data, "SELECT", "+select", reply);
}

static void answered(void *arg, const struct kw_reply *reply);

static void probe(struct kw_range *range, uint32_t database)
{
	char number[16];

	snprintf(number, sizeof number, "%u", database);
	range->probes[range->asked++] = database;
	kw_data_words(range->data, answered, range, "SELECT", number, NULL);
	kw_data_words(range->data, returned, range, "SELECT", "0", NULL);
}

static void go_on(struct kw_range *range)
{
	if (range->answered < range->asked)
		return;
	range->asked = range->answered = 0;
	if (range->least < range->most)
		probe(range, range->least + (range->most - range->least) / 2);
	else
		range->found(range->arg);
}

static void answered(void *arg, const struct kw_reply *reply)
{
	struct kw_range *range = arg;
	uint32_t database = range->probes[range->answered++];
	bool missing;

	reply = kw_data_reply(range->data, reply);
	if (!reply)
		return;
	missing = reply->type == KW_REPLY_ERROR;
	if (missing && kw_server_error_passes(kw_server_error(reply->text))) {
		/* It loads, which INFO says too: the first look ends with that. */
		range->least = range->most;
		missing = false;
	} else if (missing && kw_server_error(reply->text) != KW_SERVER_E_OTHER) {
		kw_data_refused(range->data, "SELECT", "+select", reply);
		return;
	}
	if (missing && database < range->most)
		range->most = database;
	else if (!missing && database >= range->least)
		range->least = database + 1;
	/* A server that contradicts itself. */
	if (range->most < range->least)
		range->most = range->least;
	go_on(range);
}

void kw_range_begin(struct kw_range *range)
{
	assert(range->data && range->found);
	range->least = 1;
	range->most = KW_DATABASES_MOST;
	range->asked = range->answered = 0;
	probe(range, USUAL - 1);
	probe(range, USUAL);
}
