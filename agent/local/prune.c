#include "prune.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static void proceed(struct kw_prune *prune);

/* ---- the states ---- */

static bool holds(const void *owner, int state)
{
	const struct kw_prune *prune = owner;

	if (prune->ignored > prune->owed)
		return false;
	switch (state) {
	case KW_PRUNE_IDLE:
		return true;
	case KW_PRUNE_LISTING:
		return prune->owed > prune->ignored && prune->done;
	case KW_PRUNE_WAITING:
		return prune->owed == prune->ignored && prune->database < prune->database_count;
	case KW_PRUNE_DELETING:
		return prune->pass == KW_PRUNE_DELETES && prune->remembered == prune->matched;
	default:
		return prune->database < prune->database_count;
	}
}

static const struct kw_sm_state states[] = {
	[KW_PRUNE_IDLE] = {"idle", KW_SM_TO(KW_PRUNE_LISTING), KW_SM_INITIAL},
	[KW_PRUNE_LISTING] = {"listing",
		KW_SM_TO(KW_PRUNE_WAITING) | KW_SM_TO(KW_PRUNE_SCANNING) | KW_SM_TO(KW_PRUNE_IDLE)},
	[KW_PRUNE_WAITING] = {"waiting", KW_SM_TO(KW_PRUNE_SCANNING) | KW_SM_TO(KW_PRUNE_DELETING) |
						 KW_SM_TO(KW_PRUNE_IDLE)},
	[KW_PRUNE_SCANNING] = {"scanning",
		KW_SM_TO(KW_PRUNE_SCANNED) | KW_SM_TO(KW_PRUNE_WAITING) | KW_SM_TO(KW_PRUNE_IDLE)},
	[KW_PRUNE_SCANNED] = {"scanned", KW_SM_TO(KW_PRUNE_SCANNING) | KW_SM_TO(KW_PRUNE_DELETING) |
						 KW_SM_TO(KW_PRUNE_WAITING) |
						 KW_SM_TO(KW_PRUNE_IDLE)},
	[KW_PRUNE_DELETING] = {"deleting", KW_SM_TO(KW_PRUNE_WAITING) | KW_SM_TO(KW_PRUNE_IDLE)},
};
static const struct kw_sm_conf machine = {"prune", states, sizeof states / sizeof *states, holds};

static void move(struct kw_prune *prune, enum kw_prune_state state)
{
	kw_sm_move(&prune->sm, state, "");
}

void kw_prune_init(struct kw_prune *prune, struct kw_local *local)
{
	*prune = (struct kw_prune){.local = local};
	kw_sm_init(&prune->sm, &machine, prune, KW_PRUNE_IDLE);
}

void kw_prune_stop(struct kw_prune *prune)
{
	prune->ignored = prune->owed;
	prune->removing = 0;
	kw_buffer_close(&prune->found);
	kw_buffer_close(&prune->name);
	move(prune, KW_PRUNE_IDLE);
}

/* An answer is in: is it of the present walk? */
static bool answered(struct kw_prune *prune, const struct kw_reply *reply)
{
	assert(prune->owed > 0);
	prune->owed--;
	if (prune->ignored > 0) {
		prune->ignored--;
		return false;
	}
	return reply && kw_prune_running(prune);
}

/* The same, of a command that is of a database. */
static bool answered_in_place(struct kw_prune *prune, const struct kw_reply *reply)
{
	bool in_place = kw_local_in_place(prune->local, reply);

	return answered(prune, reply) && in_place;
}

static void finish(struct kw_prune *prune)
{
	if (prune->plan.sample == 0)
		kw_buffer_close(&prune->found);
	kw_buffer_close(&prune->name);
	move(prune, KW_PRUNE_IDLE);
	prune->done(prune->arg, kw_failed(&prune->failure) ? &prune->failure : NULL);
}

static void fail_reply(struct kw_prune *prune, const char *command, const struct kw_reply *reply)
{
	kw_failure_answered(&prune->failure, reply, "%s answers \"%.*s\"", command,
		(int)(reply->text.length < 180 ? reply->text.length : 180),
		reply->text.length ? (const char *)reply->text.data : "");
}

/* ---- keys remembered: a head and the bytes, one after the other ---- */

struct remembered {
	uint32_t database, length;
};

/* The first of those matched, without a gap: once one does not fit, no other is remembered. */
static void remember(struct kw_prune *prune, uint32_t database, struct kw_slice key)
{
	struct remembered head = {database, (uint32_t)key.length};
	size_t length = kw_buffer_length(&prune->found) + sizeof head + key.length;

	if (prune->pass == KW_PRUNE_DELETES || prune->remembered + 1 != prune->matched ||
		length > KW_PRUNE_REMEMBER_BYTES)
		return;
	kw_buffer_append(&prune->found, &head, sizeof head);
	kw_buffer_append(&prune->found, key.data, key.length);
	prune->remembered++;
}

bool kw_prune_next_key(const struct kw_buffer *found, struct kw_prune_key *key)
{
	struct remembered head;

	if (kw_buffer_length(found) == 0)
		return false;
	assert(kw_buffer_length(found) >= sizeof head);
	memcpy(&head, kw_buffer_bytes(found), sizeof head);
	assert(kw_buffer_length(found) >= sizeof head + head.length);
	*key = (struct kw_prune_key){
		head.database, kw_slice(kw_buffer_bytes(found) + sizeof head, head.length)};
	return true;
}

void kw_prune_drop_key(struct kw_buffer *found)
{
	struct kw_prune_key key;

	if (kw_prune_next_key(found, &key))
		kw_buffer_consume(found, sizeof(struct remembered) + key.key.length);
}

/* ---- the walk ---- */

/* The count is complete: delete what was found, if that is allowed. False: the walk is over. */
static bool begin_deleting(struct kw_prune *prune)
{
	if (prune->pass == KW_PRUNE_DELETES || !prune->plan.allows || prune->matched == 0 ||
		!prune->plan.allows(prune->arg, prune->matched, prune->in_scope))
		return false;
	prune->pass = KW_PRUNE_DELETES;
	prune->database = 0;
	if (prune->remembered == prune->matched)
		return true;
	/* Too many to remember: walk again. */
	kw_buffer_close(&prune->found);
	prune->looked_at = prune->in_scope = prune->matched = prune->remembered = 0;
	return true;
}

/* DELETES, and all that is deleted is remembered. */
static bool deletes_remembered(const struct kw_prune *prune)
{
	return prune->pass == KW_PRUNE_DELETES && prune->remembered > 0;
}

static bool is_over(struct kw_prune *prune)
{
	if (kw_failed(&prune->failure))
		return true;
	if (deletes_remembered(prune))
		return kw_buffer_length(&prune->found) == 0;
	/* For consent, "at least so many" is enough. */
	if (prune->plan.count_only && prune->matched >= KW_PRUNE_COUNT_MAX)
		return true;
	return prune->database == prune->database_count && !begin_deleting(prune);
}

/* Called at each answer: a database is walked when its last SCAN and every UNLINK are answered. */
static void go_on(struct kw_prune *prune)
{
	if (prune->owed > prune->ignored || prune->removing > 0)
		return;
	if (prune->sm.state == KW_PRUNE_SCANNED) {
		prune->database++;
		prune->matched_before = prune->matched;
		snprintf(prune->cursor, sizeof prune->cursor, "0");
	}
	if (is_over(prune))
		finish(prune);
	else
		proceed(prune);
}

static void on_unlink(void *arg, const struct kw_reply *reply)
{
	struct kw_prune *prune = arg;

	if (!answered_in_place(prune, reply))
		return;
	if (reply->type != KW_REPLY_INTEGER)
		fail_reply(prune, "UNLINK", reply);
	go_on(prune);
}

/* Has it the name of a key that is followed? Then *own is that key's, in the table. */
static bool is_in_scope(
	struct kw_prune *prune, uint32_t database, struct kw_slice key, struct kw_slice *own)
{
	return kw_filter_finds_key(prune->plan.filter, key, &prune->name, own) &&
	       !kw_local_owns_key(prune->local, database, key);
}

/* By the names of the table. */
static bool is_kept(const struct kw_prune *prune, uint32_t database, struct kw_slice key)
{
	return prune->plan.keeps && prune->plan.keeps(prune->arg, database, key);
}

/* argv: UNLINK and keys of this database. */
static void unlink_batch(struct kw_prune *prune, uint32_t database, struct kw_slice *argv, int argc)
{
	prune->deleted += (uint64_t)argc - 1;
	if (prune->plan.remove) {
		prune->removing += (uint64_t)argc - 1;
		for (int i = 1; i < argc; i++)
			prune->plan.remove(prune->arg, database, argv[i]);
		return;
	}
	prune->owed++;
	kw_redis_send(prune->local->redis, on_unlink, prune, argc, argv);
}

/* Is the present database's part of the sample complete? */
static bool is_sampled(const struct kw_prune *prune)
{
	uint64_t keys = prune->database_keys[prune->database], all = 0, quota;

	if (prune->plan.sample == 0)
		return false;
	for (int i = 0; i < prune->database_count; i++)
		all += prune->database_keys[i];
	quota = (uint64_t)((double)prune->plan.sample * (double)keys / (double)all);
	return prune->matched - prune->matched_before > quota;
}

/* Returns how many were looked at: a sample can be complete before the last. */
static size_t take_keys(struct kw_prune *prune, const struct kw_reply *keys)
{
	struct kw_slice argv[KW_PRUNE_BATCH + 1];
	uint32_t database = prune->databases[prune->database], table;
	int argc = 1;
	size_t i;

	if (!kw_filter_finds_database(prune->plan.filter, database, &table))
		return keys->count;
	argv[0] = kw_slice_text("UNLINK");
	for (i = 0; i < keys->count && !is_sampled(prune); i++) {
		struct kw_slice key = keys->elements[i].text, own;

		prune->looked_at++;
		if (!is_in_scope(prune, database, key, &own))
			continue;
		prune->in_scope++;
		if (is_kept(prune, table, own))
			continue;
		prune->matched++;
		if (prune->plan.allows || prune->plan.sample > 0)
			remember(prune, database, key);
		if (prune->pass == KW_PRUNE_COUNTS)
			continue;
		argv[argc++] = key;
		if (argc <= KW_PRUNE_BATCH)
			continue;
		unlink_batch(prune, database, argv, argc);
		argc = 1;
	}
	if (argc > 1)
		unlink_batch(prune, database, argv, argc);
	return i;
}

static void on_scan(void *arg, const struct kw_reply *reply)
{
	struct kw_prune *prune = arg;
	struct kw_slice cursor;
	size_t taken;

	if (!answered_in_place(prune, reply))
		return;
	if (reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		reply->elements[0].type != KW_REPLY_STRING ||
		reply->elements[0].text.length >= sizeof prune->cursor ||
		reply->elements[1].type != KW_REPLY_ARRAY) {
		fail_reply(prune, "SCAN", reply);
		finish(prune);
		return;
	}
	cursor = reply->elements[0].text;
	snprintf(prune->cursor, sizeof prune->cursor, "%.*s", (int)cursor.length,
		(const char *)cursor.data);
	if (strcmp(prune->cursor, "0") == 0)
		move(prune, KW_PRUNE_SCANNED);
	/* Another part of the agent can have used another database since the SCAN went out. */
	if (kw_local_use(prune->local, prune->databases[prune->database]) != KW_USE_OK) {
		const struct kw_databases_delay *delay = &prune->local->databases.delay;

		kw_failure_of_class(&prune->failure, delay->class,
			"a SELECT in its midst answers \"%s\"", delay->words);
		finish(prune);
		return;
	}
	taken = take_keys(prune, &reply->elements[1]);
	if (is_sampled(prune) && prune->sm.state != KW_PRUNE_SCANNED) {
		prune->left_out++;
		move(prune, KW_PRUNE_SCANNED);
	} else if (taken < reply->elements[1].count) {
		prune->left_out++;
	}
	go_on(prune);
}

static void scan(struct kw_prune *prune)
{
	prune->owed++;
	move(prune, KW_PRUNE_SCANNING);
	kw_redis_words(prune->local->redis, on_scan, prune, "SCAN", prune->cursor, "COUNT",
		KW_PRUNE_SCAN_COUNT, NULL);
}

/* One batch of keys of one database. */
static void delete_remembered(struct kw_prune *prune, uint32_t database)
{
	struct kw_slice argv[KW_PRUNE_BATCH + 1];
	struct kw_buffer ahead = prune->found; /* a view: the keys stay until the batch is sent */
	struct kw_prune_key key;
	int argc = 1;

	argv[0] = kw_slice_text("UNLINK");
	while (argc <= KW_PRUNE_BATCH && kw_prune_next_key(&ahead, &key) &&
		key.database == database) {
		argv[argc++] = key.key;
		kw_prune_drop_key(&ahead);
	}
	assert(argc > 1);
	move(prune, KW_PRUNE_DELETING);
	unlink_batch(prune, database, argv, argc);
	for (int i = 1; i < argc; i++)
		kw_prune_drop_key(&prune->found);
}

/* The next SCAN, or the next batch of keys remembered, when the database can be used. */
static void proceed(struct kw_prune *prune)
{
	struct kw_prune_key key;
	bool remembered = deletes_remembered(prune) && kw_prune_next_key(&prune->found, &key);
	uint32_t database = remembered ? key.database : prune->databases[prune->database];
	enum kw_local_use use = kw_local_use(prune->local, database);
	const struct kw_databases_delay *delay = kw_databases_delayed(&prune->local->databases);

	switch (use) {
	case KW_USE_WAIT:
		/*
		 * If the SELECT of another database was put off a moment ago, wait until that is
		 * over.
		 */
		if (delay && delay->database == database) {
			kw_failure_of_class(&prune->failure, delay->class, "SELECT answers \"%s\"",
				delay->words);
			finish(prune);
		} else {
			move(prune, KW_PRUNE_WAITING);
		}
		return;
	case KW_USE_REFUSED:
		kw_failure_set(&prune->failure, KW_E_REFUSED, "SELECT %u is refused (see the log)",
			database);
		finish(prune);
		return;
	case KW_USE_OK:
		break;
	}
	if (remembered)
		delete_remembered(prune, database);
	else
		scan(prune);
}

void kw_prune_removed(struct kw_prune *prune)
{
	if (prune->removing == 0)
		return;
	prune->removing = 0;
	go_on(prune);
}

void kw_prune_selected(struct kw_prune *prune)
{
	if (prune->sm.state == KW_PRUNE_WAITING)
		proceed(prune);
}

static void add_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	struct kw_prune *prune = arg;
	uint32_t table;

	if (!kw_filter_finds_database(prune->plan.filter, database, &table))
		return;
	if (prune->plan.database >= 0 && prune->plan.database != (int64_t)database)
		return;
	if (prune->database_count < KW_PRUNE_DATABASES_MAX) {
		prune->databases[prune->database_count] = database;
		prune->database_keys[prune->database_count] = keys;
	}
	prune->database_count++;
}

static void on_keyspace(void *arg, const struct kw_reply *reply)
{
	struct kw_prune *prune = arg;

	if (!answered(prune, reply))
		return;
	if (reply->type != KW_REPLY_STRING) {
		fail_reply(prune, "INFO", reply);
		finish(prune);
		return;
	}
	kw_info_keyspace(reply->text, add_database, prune);
	if (prune->database_count > KW_PRUNE_DATABASES_MAX) {
		kw_failure_set(&prune->failure, KW_E_FULL,
			"more than %d databases hold keys: name those to follow in "
			"filter.databases",
			KW_PRUNE_DATABASES_MAX);
		finish(prune);
		return;
	}
	go_on(prune);
}

void kw_prune_start(
	struct kw_prune *prune, const struct kw_prune_plan *plan, kw_local_done_fn done, void *arg)
{
	bool deletes = !plan->count_only && !plan->allows;

	assert(!kw_prune_running(prune));
	assert(plan->sample == 0 || (plan->count_only && plan->sample < KW_PRUNE_COUNT_MAX));
	kw_buffer_close(&prune->found);
	kw_buffer_close(&prune->name);
	*prune = (struct kw_prune){
		.local = prune->local,
		.plan = *plan,
		.done = done,
		.arg = arg,
		.sm = prune->sm,
		.pass = deletes ? KW_PRUNE_DELETES : KW_PRUNE_COUNTS,
		.cursor = "0",
		.owed = prune->owed + 1,
		.ignored = prune->ignored,
	};
	move(prune, KW_PRUNE_LISTING);
	kw_redis_words(prune->local->redis, on_keyspace, prune, "INFO", "keyspace", NULL);
}
