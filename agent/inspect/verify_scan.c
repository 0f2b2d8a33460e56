#include "redis/server.h"
#include "verify_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* No server has more databases with keys than this that we would walk. */
#define DATABASES_MAX 65536
#define SCAN_COUNT "1000"

static void take_keys(struct kw_verify *verify, const struct kw_reply *keys)
{
	const struct kw_filter *filter = verify->options.filter;
	uint32_t database = verify->databases[verify->database_at].table;

	for (size_t i = 0; i < keys->count; i++) {
		struct kw_slice key;

		/* A key that has no name in the table belongs to others. */
		if (keys->elements[i].type != KW_REPLY_STRING ||
			!kw_filter_finds_key(
				filter, keys->elements[i].text, &verify->scan_name, &key) ||
			!kw_verify_wants(verify, database, key))
			continue;
		verify->result.scanned++;
		/* add: SCAN can show a key twice */
		if (kw_keyset_add(&verify->seen, kw_keyset_hash(database, key)))
			kw_verify_suspect(verify, database, key, true);
	}
}

static void on_scan(void *arg, const struct kw_reply *reply)
{
	struct kw_verify *verify = arg;
	struct kw_slice cursor;

	if (!reply || kw_verify_over(verify))
		return;
	verify->scanning = false;
	if (reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		reply->elements[0].type != KW_REPLY_STRING ||
		reply->elements[0].text.length >= sizeof verify->cursor ||
		reply->elements[1].type != KW_REPLY_ARRAY) {
		kw_verify_fail_reply(verify, "SCAN", reply);
		return;
	}
	take_keys(verify, &reply->elements[1]);
	cursor = reply->elements[0].text;
	snprintf(verify->cursor, sizeof verify->cursor, "%.*s", (int)cursor.length,
		(const char *)cursor.data);
	if (strcmp(verify->cursor, "0") == 0)
		verify->database_at++;
	kw_verify_step(verify);
}

static void scan(struct kw_verify *verify)
{
	verify->scanning = true;
	kw_ask_select(&verify->ask, verify->databases[verify->database_at].local);
	kw_redis_words(
		verify->redis, on_scan, verify, "SCAN", verify->cursor, "COUNT", SCAN_COUNT, NULL);
}

void kw_verify_scan_step(struct kw_verify *verify)
{
	if (verify->scanning || verify->suspects >= KW_VERIFY_SUSPECTS_MAX)
		return;
	if (verify->database_at < verify->database_count)
		scan(verify);
	else
		verify->phase = KW_VERIFY_SETTLE;
}

static void add_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	struct kw_verify *verify = arg;
	uint32_t table;

	if (!kw_filter_finds_database(verify->options.filter, database, &table) ||
		verify->database_count == DATABASES_MAX)
		return;
	if (verify->database_count == verify->database_capacity) {
		verify->database_capacity = 2 * verify->database_capacity + 16;
		verify->databases = kw_realloc(
			verify->databases, verify->database_capacity * sizeof *verify->databases);
	}
	verify->databases[verify->database_count++] = (struct kw_verify_database){database, table};
}

static void on_keyspace(void *arg, const struct kw_reply *reply)
{
	struct kw_verify *verify = arg;

	if (!reply || kw_verify_over(verify))
		return;
	verify->scanning = false;
	if (reply->type != KW_REPLY_STRING) {
		kw_verify_fail_reply(verify, "INFO", reply);
		return;
	}
	kw_info_keyspace(reply->text, add_database, verify);
	kw_verify_step(verify);
}

void kw_verify_scan_start(struct kw_verify *verify)
{
	verify->phase = KW_VERIFY_SCAN;
	verify->scanning = true;
	snprintf(verify->cursor, sizeof verify->cursor, "0");
	kw_redis_words(verify->redis, on_keyspace, verify, "INFO", "keyspace", NULL);
}
