#include "feed/flushed.h"

#include "redis/server.h"

#include <assert.h>
#include <stdio.h>

static void ask(struct kw_flushed *flushed);

void kw_flushed_close(struct kw_flushed *flushed)
{
	kw_databases_close(&flushed->asked);
	kw_databases_close(&flushed->later);
}

void kw_flushed_stop(struct kw_flushed *flushed)
{
	kw_databases_clear(&flushed->asked);
	kw_databases_clear(&flushed->later);
	flushed->state = KW_FLUSHED_IDLE;
}

static void note_listed(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	kw_databases_add(arg, database);
}

static void tell_doubt(const struct kw_flushed *flushed, const struct kw_databases *doubted)
{
	uint32_t database = 0;
	char why[160];

	if (!kw_databases_next(doubted, &database))
		return;
	snprintf(why, sizeof why, "database %u was flushed, and has keys again", database);
	flushed->handlers->doubt(flushed->handlers->arg, KW_DOUBT_FLUSH, doubted, why);
}

static void take_listing(struct kw_flushed *flushed, struct kw_slice keyspace)
{
	const struct kw_feed_handlers *handlers = flushed->handlers;
	struct kw_databases listed = {0}, held = {0}, doubted = {0};

	kw_info_keyspace(keyspace, note_listed, &listed);
	handlers->held(handlers->arg, &held);
	for (uint32_t db = 0; kw_databases_next(&held, &db); db++) {
		if (!kw_databases_has(&flushed->asked, db))
			continue;
		if (kw_databases_has(&listed, db) || !handlers->flushed(handlers->arg, db))
			kw_databases_add(&doubted, db);
	}
	tell_doubt(flushed, &doubted);
	kw_databases_close(&listed);
	kw_databases_close(&held);
	kw_databases_close(&doubted);
}

static void keyspace_answered(void *arg, const struct kw_reply *reply)
{
	struct kw_flushed *flushed = arg;

	reply = kw_data_reply(flushed->data, reply);
	if (!reply || flushed->state != KW_FLUSHED_ASKING)
		return;
	if (reply->type != KW_REPLY_STRING) {
		kw_data_refused(flushed->data, "INFO keyspace", "+info", reply);
		return;
	}
	take_listing(flushed, reply->text);
	kw_databases_clear(&flushed->asked);
	flushed->state = KW_FLUSHED_IDLE;
	if (!kw_databases_empty(&flushed->later)) {
		kw_databases_merge(&flushed->asked, &flushed->later);
		kw_databases_clear(&flushed->later);
		ask(flushed);
	}
	flushed->handlers->turn_wanted(flushed->handlers->arg);
}

static void ask(struct kw_flushed *flushed)
{
	assert(flushed->state == KW_FLUSHED_IDLE);
	flushed->state = KW_FLUSHED_ASKING;
	kw_data_info(flushed->data, keyspace_answered, flushed, "keyspace");
}

void kw_flushed_add(struct kw_flushed *flushed, const uint32_t *database)
{
	bool asking = kw_flushed_under_way(flushed);
	struct kw_databases *set = asking ? &flushed->later : &flushed->asked;

	if (!database || !kw_databases_add(set, *database))
		kw_databases_add_all(set);
	if (!asking)
		ask(flushed);
}
