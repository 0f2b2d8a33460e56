#include "feed/stream/changes.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

/* A key of an unknown database is told in each of at most so many; beyond, all are in doubt. */
#define DATABASES_TOUCHED 64

#define NAME_SHOWN 40 /* bytes */

void kw_changes_doubt(struct kw_changes *changes, enum kw_doubt cause,
	const struct kw_databases *databases, const char *why)
{
	kw_feed_batch_tell(&changes->batch);
	changes->handlers->doubt(changes->handlers->arg, cause, databases, why);
	changes->handlers->turn_wanted(changes->handlers->arg);
}

/* One that is not followed, or that the server does not have, is of no interest. */
static bool is_followed(const struct kw_changes *changes, uint32_t database)
{
	return database < kw_watch_databases(changes->watch) &&
	       kw_databases_has(&changes->scope->databases, database);
}

static void touch(
	struct kw_changes *changes, uint32_t database, struct kw_slice key, bool expiry_may_be_set)
{
	unsigned flags = KW_DIRTY_EVENT | (expiry_may_be_set ? KW_DIRTY_TTL : 0);

	if (!is_followed(changes, database) || !kw_scope_has(changes->scope, database, key))
		return;
	changes->count++;
	kw_feed_batch_add(&changes->batch, (struct kw_dirty_key){key, database, flags});
}

/* How many bytes of the stream has the server written that are not told yet? At least. */
static uint64_t behind(const struct kw_changes *changes)
{
	return changes->server_offset > changes->begin ? changes->server_offset - changes->begin
						       : 0;
}

/*
 * While a database is asked about that was flushed, its keys are fetched: a value told now would be
 * emptied with it, if the answer is older.
 */
static bool must_fetch(struct kw_changes *changes)
{
	if (kw_flushed_under_way(&changes->flushed))
		return true;
	if (behind(changes) <= KW_CHANGES_BEHIND)
		return false;
	changes->shed++;
	return true;
}

static void tell(struct kw_changes *changes, const struct kw_feed_value *value)
{
	if (!is_followed(changes, value->database) ||
		!kw_scope_has(changes->scope, value->database, value->name))
		return;
	if (must_fetch(changes)) {
		touch(changes, value->database, value->name, kw_feed_value_expires(value));
		return;
	}
	changes->count++;
	kw_feed_batch_tell(&changes->batch);
	changes->handlers->value(changes->handlers->arg, value);
}

static void tell_value(struct kw_changes *changes, enum kw_feed_value_kind kind,
	const struct kw_repl_effect *effect)
{
	tell(changes, &(struct kw_feed_value){
			      .kind = kind,
			      .database = effect->database,
			      .name = effect->key,
			      .bytes = effect->bytes,
			      .expires_ms = effect->expiry == KW_REPL_EXPIRES_AT
						    ? (uint64_t)effect->expires_ms
						    : 0,
			      .number = effect->number,
			      .begin = changes->begin,
			      .end = changes->end,
		      });
}

/* The table has nothing of a key that is not followed. */
static void tell_copy(struct kw_changes *changes, const struct kw_repl_effect *effect)
{
	if (!is_followed(changes, effect->database) ||
		!kw_scope_has(changes->scope, effect->database, effect->key)) {
		touch(changes, effect->to_database, effect->to, true);
		return;
	}
	tell(changes, &(struct kw_feed_value){
			      .kind = KW_FEED_COPY,
			      .database = effect->to_database,
			      .name = effect->to,
			      .from_database = effect->database,
			      .from = effect->key,
			      .begin = changes->begin,
			      .end = changes->end,
		      });
}

uint32_t kw_changes_databases(const struct kw_changes *changes)
{
	uint32_t count = 0;

	for (uint32_t db = 0; db < kw_watch_databases(changes->watch); db++)
		count += is_followed(changes, db);
	return count;
}

/* The stream has not told yet in which database it is. */
static void touch_everywhere(struct kw_changes *changes, struct kw_slice key)
{
	uint32_t databases = kw_changes_databases(changes);

	changes->everywhere += databases;
	if (databases > DATABASES_TOUCHED) {
		kw_changes_doubt(changes, KW_DOUBT_COMMAND, NULL,
			"the replication stream does not tell yet in which database a key changed");
		return;
	}
	for (uint32_t db = 0; db < kw_watch_databases(changes->watch); db++)
		touch(changes, db, key, true);
}

/*
 * The stream leaves nothing out, and names the database of a flush. So the flush empties it at
 * once, or explains why its keys are gone (flushed.h). Counted calls, which can be of any database,
 * need the question `lacked` for that; here it is not asked.
 */
static void tell_flush(struct kw_changes *changes, const struct kw_repl_effect *effect)
{
	bool all = effect->kind == KW_REPL_FLUSH_ALL;
	bool one = !all && effect->database == KW_REPL_ANY_DATABASE;
	struct kw_databases databases = {0};

	if (!all && !one && !is_followed(changes, effect->database))
		return;
	changes->count++;
	kw_feed_batch_tell(&changes->batch);
	if (one) {
		kw_flushed_add_one(&changes->flushed, changes->begin);
		return;
	}
	if (all || !kw_databases_add(&databases, effect->database))
		kw_databases_add_all(&databases);
	if (kw_flushed_under_way(&changes->flushed) ||
		!changes->handlers->flushed(changes->handlers->arg, &databases, changes->begin))
		kw_flushed_add(&changes->flushed, &databases, changes->begin);
	kw_databases_close(&databases);
}

/* It is in the table now. */
static bool swap(struct kw_changes *changes, const struct kw_repl_effect *effect)
{
	const uint32_t databases[] = {effect->database, effect->to_database};

	if (!is_followed(changes, databases[0]) || !is_followed(changes, databases[1]) ||
		kw_flushed_under_way(&changes->flushed) || behind(changes) > KW_CHANGES_BEHIND)
		return false;
	kw_feed_batch_tell(&changes->batch);
	return changes->handlers->swapped(changes->handlers->arg, databases, changes->begin);
}

static void tell_swap(struct kw_changes *changes, const struct kw_repl_effect *effect)
{
	struct kw_databases both = {0};

	changes->count++;
	if (effect->database == effect->to_database || swap(changes, effect))
		return;

	if (is_followed(changes, effect->database))
		kw_databases_add(&both, effect->database);
	if (is_followed(changes, effect->to_database))
		kw_databases_add(&both, effect->to_database);
	if (!kw_databases_empty(&both))
		kw_changes_doubt(changes, KW_DOUBT_SWAPDB, &both, "SWAPDB exchanged databases");
	kw_databases_close(&both);
}

/* The name of a command, as far as it can be shown. */
static int shown_name(struct kw_slice name)
{
	const uint8_t *bytes = name.data;
	int length = 0;

	while (length < NAME_SHOWN && (size_t)length < name.length && isgraph(bytes[length]))
		length++;
	return length;
}

/* A delete of more keys than are kept of a command: it explains why they are gone. */
static bool deletes(struct kw_slice name)
{
	const char *text = name.data;

	return (name.length == 3 && strncasecmp(text, "DEL", 3) == 0) ||
	       (name.length == 6 && strncasecmp(text, "UNLINK", 6) == 0);
}

static void tell_unknown(struct kw_changes *changes, const struct kw_repl_effect *effect)
{
	struct kw_databases one = {0};
	char why[192];

	snprintf(why, sizeof why,
		"the replication stream has a command %.*s whose keys are not known: COMMAND does "
		"not "
		"tell them, or they are too many",
		shown_name(effect->key), effect->key.length ? (const char *)effect->key.data : "");
	if (effect->database == KW_REPL_ANY_DATABASE) {
		kw_changes_doubt(changes, KW_DOUBT_COMMAND, NULL, why);
	} else if (is_followed(changes, effect->database)) {
		kw_databases_add(&one, effect->database);
		kw_changes_doubt(changes, KW_DOUBT_COMMAND, &one, why);
		if (deletes(effect->key))
			changes->handlers->explain(changes->handlers->arg, &one);
		kw_databases_close(&one);
	}
	changes->unknown(changes->arg);
}

void kw_changes_tell(struct kw_changes *changes, const struct kw_repl_effect *effect)
{
	switch (effect->kind) {
	case KW_REPL_VALUE:
		tell_value(changes,
			effect->expiry == KW_REPL_EXPIRES_AS_BEFORE ? KW_FEED_KEEPTTL
								    : KW_FEED_STRING,
			effect);
		break;
	case KW_REPL_PAYLOAD:
		tell_value(changes, KW_FEED_PAYLOAD, effect);
		break;
	case KW_REPL_EXPIRY:
		tell_value(changes, KW_FEED_EXPIRY, effect);
		break;
	case KW_REPL_DELETE:
		tell_value(changes, KW_FEED_GONE, effect);
		break;
	case KW_REPL_ADD:
		tell_value(changes, KW_FEED_ADD, effect);
		break;
	case KW_REPL_APPEND:
		tell_value(changes, KW_FEED_APPEND, effect);
		break;
	case KW_REPL_WRITE:
		tell_value(changes, KW_FEED_WRITE, effect);
		break;
	case KW_REPL_MOVE:
		tell_copy(changes, effect);
		tell_value(changes, KW_FEED_GONE, effect);
		break;
	case KW_REPL_COPY:
		tell_copy(changes, effect);
		break;
	case KW_REPL_TOUCH:
		if (effect->database == KW_REPL_ANY_DATABASE)
			touch_everywhere(changes, effect->key);
		else
			touch(changes, effect->database, effect->key, true);
		break;
	case KW_REPL_FLUSH:
	case KW_REPL_FLUSH_ALL:
		tell_flush(changes, effect);
		break;
	case KW_REPL_SWAP:
		tell_swap(changes, effect);
		break;
	case KW_REPL_FUNCTIONS:
		changes->handlers->functions(changes->handlers->arg, KW_FEED_FUNCTIONS_CHANGED);
		break;
	case KW_REPL_FUNCTIONS_FLUSHED:
		changes->handlers->functions(changes->handlers->arg, KW_FEED_FUNCTIONS_FLUSHED);
		break;
	case KW_REPL_DOUBT:
		tell_unknown(changes, effect);
		break;
	}
}

bool kw_changes_stop(struct kw_changes *changes)
{
	bool whole = !kw_flushed_under_way(&changes->flushed);

	changes->everywhere = changes->server_offset = 0; /* of another server they can be less */
	kw_feed_batch_tell(&changes->batch);
	kw_flushed_stop(&changes->flushed);
	return whole;
}

void kw_changes_init(struct kw_changes *changes, struct kw_data_connection *data)
{
	changes->batch.handlers = changes->handlers;
	changes->flushed.handlers = changes->handlers;
	changes->flushed.data = data;
}

void kw_changes_close(struct kw_changes *changes)
{
	kw_flushed_close(&changes->flushed);
}
