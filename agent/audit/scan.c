/* The local keys, by SCAN: some of them wait here until lanes take them. */
#include "internal.h"

#include "redis/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DATABASES_MAX 65536
/* A round at full speed asks for more at once. */
#define COUNT_STEADY "100"
#define COUNT_FULL "1000"

static bool is_wanted(const struct kw_audit *audit)
{
	return audit->link == KW_AUDIT_LINK_READY && kw_audit_state(audit) == KW_AUDIT_LOCAL;
}

static void add_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	struct kw_audit *audit = arg;
	struct kw_audit_scan *scan = &audit->scan;
	uint32_t table;

	if (!kw_filter_finds_database(audit->options.sync->filter, database, &table) ||
		scan->count == DATABASES_MAX)
		return;
	if (scan->count == scan->capacity) {
		scan->capacity = 2 * scan->capacity + 16;
		scan->databases =
			kw_realloc(scan->databases, scan->capacity * sizeof *scan->databases);
	}
	scan->databases[scan->count++] = (struct kw_audit_scan_database){database, table};
}

static void on_keyspace(void *arg, const struct kw_reply *reply)
{
	struct kw_audit *audit = arg;

	if (!reply || !is_wanted(audit))
		return;
	audit->scan.asking = false;
	if (reply->type != KW_REPLY_STRING) {
		kw_audit_refused(audit, "INFO", reply);
		return;
	}
	kw_info_keyspace(reply->text, add_database, audit);
	kw_audit_go(audit);
}

void kw_scan_begin(struct kw_audit *audit)
{
	struct kw_audit_scan *scan = &audit->scan;

	scan->count = scan->at = 0;
	scan->over = scan->begun = false;
	scan->asking = true;
	kw_buffer_clear(&scan->keys);
	snprintf(scan->cursor, sizeof scan->cursor, "0");
	kw_redis_words(audit->redis, on_keyspace, audit, "INFO", "keyspace", NULL);
}

/* By their names in the table. Those that have none belong to others. */
static void keep_keys(struct kw_audit *audit, const struct kw_reply *keys)
{
	const struct kw_filter *filter = audit->options.sync->filter;
	struct kw_audit_scan *scan = &audit->scan;
	uint32_t database = scan->databases[scan->at].table;

	for (size_t i = 0; i < keys->count; i++) {
		struct kw_slice key;
		uint32_t length;

		if (keys->elements[i].type != KW_REPLY_STRING ||
			!kw_filter_finds_key(filter, keys->elements[i].text, &scan->name, &key) ||
			!kw_audit_wants(audit, database, key))
			continue;
		length = (uint32_t)key.length;
		kw_buffer_append(&scan->keys, &length, sizeof length);
		kw_buffer_append(&scan->keys, key.data, key.length);
	}
}

static void on_scan(void *arg, const struct kw_reply *reply)
{
	struct kw_audit *audit = arg;
	struct kw_audit_scan *scan = &audit->scan;
	struct kw_slice cursor;

	if (!reply || !is_wanted(audit))
		return;
	scan->asking = false;
	if (reply->type != KW_REPLY_ARRAY || reply->count != 2 ||
		reply->elements[0].type != KW_REPLY_STRING ||
		reply->elements[0].text.length >= sizeof scan->cursor ||
		reply->elements[1].type != KW_REPLY_ARRAY) {
		kw_audit_refused(audit, "SCAN", reply);
		return;
	}
	keep_keys(audit, &reply->elements[1]);
	cursor = reply->elements[0].text;
	snprintf(scan->cursor, sizeof scan->cursor, "%.*s", (int)cursor.length,
		(const char *)cursor.data);
	kw_audit_go(audit);
}

/* "0" after the first question: the server has shown all keys of the database. */
static bool is_database_over(const struct kw_audit_scan *scan)
{
	return strcmp(scan->cursor, "0") == 0;
}

static void ask(struct kw_audit *audit)
{
	struct kw_audit_scan *scan = &audit->scan;

	scan->asking = true;
	kw_ask_select(&audit->ask, scan->databases[scan->at].local);
	kw_redis_words(audit->redis, on_scan, audit, "SCAN", scan->cursor, "COUNT",
		audit->round.full ? COUNT_FULL : COUNT_STEADY, NULL);
	scan->begun = true;
}

void kw_scan_step(struct kw_audit *audit)
{
	struct kw_audit_scan *scan = &audit->scan;

	if (scan->asking || scan->over || kw_buffer_length(&scan->keys) > 0)
		return;
	if (scan->at < scan->count && scan->begun && is_database_over(scan)) {
		scan->at++;
		scan->begun = false;
	}
	if (scan->at < scan->count)
		ask(audit);
	else
		scan->over = true;
}

bool kw_scan_next(struct kw_audit *audit, uint32_t *database, struct kw_slice *key)
{
	struct kw_audit_scan *scan = &audit->scan;
	const uint8_t *bytes = kw_buffer_bytes(&scan->keys);
	uint32_t length;

	if (kw_buffer_length(&scan->keys) == 0)
		return false;
	memcpy(&length, bytes, sizeof length);
	*database = scan->databases[scan->at].table;
	*key = kw_slice(bytes + sizeof length, length);
	return true;
}

void kw_scan_taken(struct kw_audit *audit, struct kw_slice key)
{
	kw_buffer_consume(&audit->scan.keys, sizeof(uint32_t) + key.length);
}

void kw_scan_close(struct kw_audit_scan *scan)
{
	free(scan->databases);
	kw_buffer_close(&scan->keys);
	kw_buffer_close(&scan->name);
	*scan = (struct kw_audit_scan){0};
}
