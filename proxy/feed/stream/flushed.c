#include "feed/stream/flushed.h"

#include "redis/server.h"

#include <assert.h>
#include <stdio.h>

static void ask(struct kw_flushed *flushed);

static void clear(struct kw_flushes *flushes)
{
	kw_databases_clear(&flushes->databases);
	flushes->one = false;
}

static bool are_any(const struct kw_flushes *flushes)
{
	return flushes->one || !kw_databases_empty(&flushes->databases);
}

void kw_flushed_close(struct kw_flushed *flushed)
{
	kw_databases_close(&flushed->asked.databases);
	kw_databases_close(&flushed->later.databases);
}

void kw_flushed_stop(struct kw_flushed *flushed)
{
	clear(&flushed->asked);
	clear(&flushed->later);
	flushed->state = KW_FLUSHED_IDLE;
}

static void note_listed(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	kw_databases_add(arg, database);
}

/* What one answer says of the databases of which the table has keys, or should. */
struct finding {
	struct kw_databases listed, held;
	struct kw_databases doubted;    /* flushed, and with keys again */
	struct kw_databases suspicious; /* one of these may be so */
	bool one;                       /* the one that is not known was found empty */
};

static void tell_doubt(const struct kw_flushed *flushed, enum kw_doubt cause,
	const struct kw_databases *doubted, const char *what)
{
	uint32_t database = 0;
	char why[160];

	if (!kw_databases_next(doubted, &database))
		return;
	snprintf(why, sizeof why, "database %u %s", database, what);
	flushed->handlers->doubt(flushed->handlers->arg, cause, doubted, why);
}

/* A database that was flushed for sure, or one that may be the one. */
static void look_at_database(
	struct kw_flushed *flushed, struct finding *finding, uint32_t database, bool sure)
{
	const struct kw_feed_handlers *handlers = flushed->handlers;
	bool listed = kw_databases_has(&finding->listed, database);

	if (!sure && listed)
		kw_databases_add(&finding->suspicious, database);
	else if (listed || !handlers->empty(handlers->arg, database))
		kw_databases_add(&finding->doubted, database);
	if (!sure && !listed)
		finding->one = true;
}

static void tell_finding(struct kw_flushed *flushed, const struct finding *finding)
{
	tell_doubt(flushed, KW_DOUBT_FLUSH, &finding->doubted, "was flushed, and has keys again");
	tell_doubt(flushed, finding->one ? KW_DOUBT_COMMAND : KW_DOUBT_FLUSH, &finding->suspicious,
		"may have been flushed: the replication stream does not tell yet which one was");
}

/*
 * What was asked about is empty in the table now, or is about to be doubted. In an audit that takes
 * hours nothing must be left that explains a later loss.
 */
static void use_up(const struct kw_flushed *flushed)
{
	const struct kw_feed_handlers *handlers = flushed->handlers;
	const struct kw_databases *later = &flushed->later.databases;

	handlers->unexplain(handlers->arg, &flushed->asked.databases);
	if (!kw_databases_empty(later))
		handlers->explain(handlers->arg, later);
}

static void take_listing(struct kw_flushed *flushed, struct kw_slice keyspace)
{
	const struct kw_feed_handlers *handlers = flushed->handlers;
	struct finding finding = {0};

	kw_info_keyspace(keyspace, note_listed, &finding.listed);
	handlers->held(handlers->arg, &finding.held);
	handlers->lacking(handlers->arg, &finding.held);
	for (uint32_t db = 0; kw_databases_next(&finding.held, &db); db++) {
		bool sure = kw_databases_has(&flushed->asked.databases, db);

		if (sure || flushed->asked.one)
			look_at_database(flushed, &finding, db, sure);
	}
	use_up(flushed);
	tell_finding(flushed, &finding);
	kw_databases_close(&finding.listed);
	kw_databases_close(&finding.held);
	kw_databases_close(&finding.doubted);
	kw_databases_close(&finding.suspicious);
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
	clear(&flushed->asked);
	flushed->state = KW_FLUSHED_IDLE;
	if (are_any(&flushed->later))
		ask(flushed);
	flushed->handlers->turn_wanted(flushed->handlers->arg);
}

/* About those that came since the last question. */
static void ask(struct kw_flushed *flushed)
{
	struct kw_flushes none = flushed->asked;

	assert(flushed->state == KW_FLUSHED_IDLE && !are_any(&none));
	flushed->asked = flushed->later;
	flushed->later = none;
	flushed->state = KW_FLUSHED_ASKING;
	kw_data_info(flushed->data, keyspace_answered, flushed, "keyspace");
}

uint64_t kw_flushed_told(const struct kw_flushed *flushed, uint64_t offset)
{
	return flushed->state == KW_FLUSHED_ASKING ? flushed->asked.begin : offset;
}

static struct kw_flushes *flushes_from(struct kw_flushed *flushed, uint64_t begin)
{
	if (!are_any(&flushed->later))
		flushed->later.begin = begin;
	return &flushed->later;
}

void kw_flushed_add(
	struct kw_flushed *flushed, const struct kw_databases *databases, uint64_t begin)
{
	flushed->handlers->explain(flushed->handlers->arg, databases);
	kw_databases_merge(&flushes_from(flushed, begin)->databases, databases);
	if (!kw_flushed_under_way(flushed))
		ask(flushed);
}

void kw_flushed_add_one(struct kw_flushed *flushed, uint64_t begin)
{
	flushes_from(flushed, begin)->one = true;
	if (!kw_flushed_under_way(flushed))
		ask(flushed);
}
