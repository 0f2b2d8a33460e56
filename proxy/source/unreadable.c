#include "source/unreadable.h"

#include "base/log.h"
#include "source/missing.h"

#include <assert.h>

#define PAUSE_MOST_US UINT64_C(3600000000)
#define PAUSE_UNCHANGED_US UINT64_C(86400000000) /* an event might have been missed */

enum mark_state { LEFT_ALONE, CHANGED, DEADLY, FORGIVEN };

struct mark {
	struct kw_key key;
	enum mark_state state;
	uint64_t broke_us; /* when the connection broke at it last */
	uint64_t pause_us; /* from then on; grows */
};

void kw_unreadable_init(struct kw_unreadable *unreadable, uint32_t pause_ms, uint64_t seed)
{
	*unreadable = (struct kw_unreadable){
		.pause_us = (uint64_t)pause_ms * 1000, .retry_us = UINT64_MAX};
	kw_key_table_init(&unreadable->keys, sizeof(struct mark), seed);
}

void kw_unreadable_close(struct kw_unreadable *unreadable)
{
	kw_key_table_close(&unreadable->keys);
}

static uint64_t due_us(const struct mark *mark)
{
	switch (mark->state) {
	case FORGIVEN:
		return 0;
	case DEADLY:
		return UINT64_MAX;
	case CHANGED:
		return mark->broke_us + mark->pause_us;
	default:
		return mark->broke_us + PAUSE_UNCHANGED_US;
	}
}

static void await(struct kw_unreadable *unreadable, const struct mark *mark)
{
	if (due_us(mark) < unreadable->retry_us)
		unreadable->retry_us = due_us(mark);
}

static void broke(struct kw_unreadable *unreadable, struct mark *mark, uint64_t now_us)
{
	mark->pause_us = mark->pause_us ? 2 * mark->pause_us : unreadable->pause_us;
	if (mark->pause_us > PAUSE_MOST_US)
		mark->pause_us = PAUSE_MOST_US;
	mark->broke_us = now_us;
	if (mark->state != DEADLY)
		mark->state = LEFT_ALONE;
}

/* Each costs several connections, so that its line in the log needs no limit. */
static struct mark *add(struct kw_unreadable *unreadable, uint32_t database, struct kw_slice key)
{
	kw_log_database(KW_LOG_WARN, "source", database,
		"the connection breaks whenever key '%.*s' of database %u is fetched: it is not "
		"replicated; is its value larger than client-output-buffer-limit normal, or than 2 "
		"GiB?",
		kw_shown(key), (const char *)key.data, database);
	return (struct mark *)kw_missing_add(&unreadable->keys, database, key);
}

void kw_unreadable_found(struct kw_unreadable *unreadable, uint32_t database, struct kw_slice key,
	enum kw_fetch_found found, uint64_t now_us)
{
	struct mark *mark = (struct mark *)kw_missing_find(&unreadable->keys, database, key);

	if (!mark)
		mark = add(unreadable, database, key);
	if (found == KW_FETCH_BROKE)
		broke(unreadable, mark, now_us);
	else if (found == KW_FETCH_CHANGED && mark->state == LEFT_ALONE)
		mark->state = CHANGED;
	await(unreadable, mark);
	assert(unreadable->keys.count > 0);
}

enum kw_fetch_mark kw_unreadable_mark(const struct kw_unreadable *unreadable, uint32_t database,
	struct kw_slice key, uint64_t now_us)
{
	const struct mark *mark =
		(const struct mark *)kw_missing_find(&unreadable->keys, database, key);

	if (!mark)
		return KW_FETCH_READABLE;
	return due_us(mark) <= now_us ? KW_FETCH_ON_TRIAL : KW_FETCH_UNREADABLE;
}

struct trying {
	struct kw_unreadable *unreadable;
	struct kw_dirty *dirty;
	uint64_t now_us;
};

static void try_if_due(void *arg, struct kw_key *key)
{
	const struct trying *trying = arg;
	const struct mark *mark = (const struct mark *)key;

	if (due_us(mark) <= trying->now_us)
		kw_dirty_add(trying->dirty, key->database,
			kw_key_table_name(&trying->unreadable->keys, key), KW_DIRTY_TTL);
	else
		await(trying->unreadable, mark);
}

void kw_unreadable_retry(struct kw_unreadable *unreadable, struct kw_dirty *dirty, uint64_t now_us)
{
	if (now_us < unreadable->retry_us)
		return;
	unreadable->retry_us = UINT64_MAX;
	kw_key_table_each(
		&unreadable->keys, try_if_due, &(struct trying){unreadable, dirty, now_us});
	assert(unreadable->retry_us > now_us);
}

static void forgive(void *arg, struct kw_key *key)
{
	struct mark *mark = (struct mark *)key;

	mark->state = FORGIVEN;
	mark->pause_us = 0;
	await(arg, mark);
}

void kw_unreadable_forgive(struct kw_unreadable *unreadable)
{
	kw_key_table_each(&unreadable->keys, forgive, unreadable);
}

static void condemn(void *arg, struct kw_key *key)
{
	struct mark *mark = (struct mark *)key;

	if (mark->broke_us >= *(const uint64_t *)arg && mark->state != FORGIVEN)
		mark->state = DEADLY;
}

void kw_unreadable_condemn(struct kw_unreadable *unreadable, uint64_t since_us)
{
	kw_key_table_each(&unreadable->keys, condemn, &since_us);
}
