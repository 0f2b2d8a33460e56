/*
 * Keys at which the connection breaks (fetch.h): named, counted, and left alone for a while.
 *
 *   it broke ─▶ left alone: only EXISTS ─▶ tried again, alone ─▶ readable: forgotten here
 *      ▲        1 min … 1 h if it changed       │
 *      └────────since, else a day───────────────┘ it broke again: twice as long
 *
 * A value that shrank is found out that way, and the primary does not pay for one that did not. One
 * at which the server itself died is never tried again, until somebody says that this was mended.
 */
#include "source/internal.h"

#include "base/clock.h"
#include "base/log.h"

#define PAUSE_MOST_US UINT64_C(3600000000)
#define PAUSE_UNCHANGED_US UINT64_C(86400000000) /* an event may have been missed */
#define SHOWN_BYTES 80                           /* of a key's name in the log */

struct mark {
	struct kw_key key;
	uint64_t struck_us; /* when the connection broke at it last */
	uint64_t pause_us;  /* from then on; grows */
	bool changed;       /* an event said so since */
	bool deadly;        /* the server died of it */
	bool forgiven;
};

void kw_unreadable_init(struct kw_source *source, uint64_t seed)
{
	kw_keyset_init(&source->unreadable, sizeof(struct mark), seed);
	source->retry_us = UINT64_MAX;
}

static struct mark *find(const struct kw_source *source, uint32_t database, struct kw_slice key)
{
	const struct kw_keyset *set = &source->unreadable;

	if (set->count == 0)
		return NULL;
	return (struct mark *)kw_keyset_find(
		set, kw_keyset_hash(set, database, key), database, key);
}

static uint64_t due_us(const struct mark *mark)
{
	if (mark->forgiven)
		return 0;
	if (mark->deadly)
		return UINT64_MAX;
	return mark->struck_us + (mark->changed ? mark->pause_us : PAUSE_UNCHANGED_US);
}

static void await(struct kw_source *source, const struct mark *mark)
{
	if (due_us(mark) < source->retry_us)
		source->retry_us = due_us(mark);
}

static void struck(struct kw_source *source, struct mark *mark)
{
	mark->pause_us = mark->pause_us ? 2 * mark->pause_us
					: (uint64_t)source->options.unreadable_pause_ms * 1000;
	if (mark->pause_us > PAUSE_MOST_US)
		mark->pause_us = PAUSE_MOST_US;
	mark->struck_us = kw_clock_us();
	mark->changed = mark->forgiven = false;
}

/* Each costs several connections, so that its line in the log needs no limit. */
static struct mark *add(struct kw_source *source, uint32_t database, struct kw_slice key)
{
	struct kw_keyset *set = &source->unreadable;

	kw_log_warn("source",
		"the connection breaks whenever key '%.*s' of database %u is fetched: it is not "
		"replicated; is its value larger than client-output-buffer-limit normal, or than 2 "
		"GiB?",
		(int)(key.length < SHOWN_BYTES ? key.length : SHOWN_BYTES), (const char *)key.data,
		database);
	return (struct mark *)kw_keyset_add(set, kw_keyset_hash(set, database, key), database, key);
}

enum kw_put_result kw_source_unreadable(
	void *arg, uint32_t database, struct kw_slice key, enum kw_fetch_found found)
{
	struct kw_source *source = arg;
	struct mark *mark = find(source, database, key);

	if (!mark)
		mark = add(source, database, key);
	if (found == KW_FETCH_BROKE)
		struck(source, mark);
	else if (found == KW_FETCH_CHANGED)
		mark->changed = true;
	await(source, mark);
	kw_feed_stored(source->feed, database, key, NULL);
	return kw_table_delete(source->table, database, key);
}

enum kw_fetch_mark kw_source_unreadable_mark(void *arg, uint32_t database, struct kw_slice key)
{
	const struct mark *mark = find(arg, database, key);

	if (!mark)
		return KW_FETCH_READABLE;
	return due_us(mark) <= kw_clock_us() ? KW_FETCH_ON_TRIAL : KW_FETCH_UNREADABLE;
}

static void try_if_due(void *arg, struct kw_key *key)
{
	struct kw_source *source = arg;
	const struct mark *mark = (const struct mark *)key;

	if (due_us(mark) <= kw_clock_us())
		kw_dirty_add(source->dirty, key->database, kw_keyset_name(&source->unreadable, key),
			KW_DIRTY_TTL);
	else
		await(source, mark);
}

void kw_source_retry_unreadable(struct kw_source *source, uint64_t now_us)
{
	if (now_us < source->retry_us)
		return;
	source->retry_us = UINT64_MAX;
	kw_keyset_each(&source->unreadable, try_if_due, source);
}

static void forgive(void *arg, struct kw_key *key)
{
	struct mark *mark = (struct mark *)key;

	mark->forgiven = true;
	mark->deadly = false;
	mark->pause_us = 0;
	await(arg, mark);
}

void kw_source_forgive(struct kw_source *source)
{
	kw_keyset_each(&source->unreadable, forgive, source);
	kw_source_wake(source);
}

static void condemn(void *arg, struct kw_key *key)
{
	const struct kw_source *source = arg;
	struct mark *mark = (struct mark *)key;

	if (mark->struck_us >= source->up_us)
		mark->deadly = true;
}

void kw_source_restarted(struct kw_source *source)
{
	if (kw_fetch_was_asking(source->fetch))
		kw_keyset_each(&source->unreadable, condemn, source);
	else
		kw_source_forgive(source);
}
