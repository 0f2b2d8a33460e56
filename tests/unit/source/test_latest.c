/* The changes that wait to be stored: the last one of each key. */
#include "source/latest.h"

#include "base/hash.h"
#include "rdb/payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RDB_VERSION 10

static struct kw_latest latest;

static int make(void **state)
{
	kw_latest_init(&latest, 42);
	return 0;
}

static int drop(void **state)
{
	kw_latest_close(&latest);
	return 0;
}

static void set(uint32_t database, const char *name, enum kw_latest_form form, const char *bytes,
	uint64_t expires_ms)
{
	assert_true(kw_latest_has_room(&latest));
	kw_latest_set(&latest, database, kw_slice_text(name),
		&(struct kw_latest_value){form, kw_slice_text(bytes), expires_ms});
}

static struct kw_latest_change *find(uint32_t database, const char *name)
{
	return kw_latest_find(&latest, database, kw_slice_text(name));
}

static void assert_has(uint32_t database, const char *name, const char *text, uint64_t expires_ms)
{
	struct kw_latest_value value;

	assert_non_null(find(database, name));
	value = kw_latest_value(&latest, find(database, name));
	assert_int_equal(value.form, KW_LATEST_TEXT);
	assert_true(kw_slice_equal(value.bytes, kw_slice_text(text)));
	assert_int_equal(value.expires_ms, expires_ms);
}

static void the_last_change_of_each_key_stays(void **state)
{
	assert_null(find(0, "a"));
	set(0, "a", KW_LATEST_TEXT, "first", 0);
	set(0, "b", KW_LATEST_TEXT, "other", 7);
	set(0, "a", KW_LATEST_TEXT, "the second one", 5);
	assert_int_equal(latest.count, 2);
	assert_has(0, "a", "the second one", 5);
	assert_has(0, "b", "other", 7);
	assert_int_equal(find(0, "a")->count, 2);
	assert_int_equal(find(0, "b")->count, 1);
	set(0, "a", KW_LATEST_GONE, "", 0);
	assert_int_equal(find(0, "a")->form, KW_LATEST_GONE);
	assert_int_equal(latest.count, 2);
}

static void keys_are_told_apart_by_name_and_database(void **state)
{
	set(0, "a", KW_LATEST_TEXT, "0a", 0);
	set(3, "a", KW_LATEST_TEXT, "3a", 0);
	set(0, "", KW_LATEST_TEXT, "no name", 0);
	set(0, "ab", KW_LATEST_TEXT, "", 0);
	assert_int_equal(latest.count, 4);
	assert_has(0, "a", "0a", 0);
	assert_has(3, "a", "3a", 0);
	assert_has(0, "", "no name", 0);
	assert_has(0, "ab", "", 0);
	assert_null(find(1, "a"));
}

static void a_hash_alone_makes_no_key(void **state)
{
	set(0, "a", KW_LATEST_TEXT, "0a", 0);
	latest.changes[0].hash = 0;
	assert_null(find(0, "a"));
	set(0, "b", KW_LATEST_TEXT, "0b", 0);
	latest.changes[0].hash = latest.changes[1].hash;
	assert_has(0, "b", "0b", 0);
	latest.changes[1].hash = kw_hash_key(latest.seed, 3, "b", 1);
	assert_null(find(3, "b"));
}

static void another_expiry_leaves_the_value(void **state)
{
	set(0, "a", KW_LATEST_TEXT, "v", 0);
	kw_latest_expire(find(0, "a"), 99, (struct kw_order_span){0});
	assert_has(0, "a", "v", 99);
	assert_int_equal(find(0, "a")->count, 2);
}

static void it_is_full_by_keys_and_by_bytes(void **state)
{
	static char large[KW_LATEST_BYTES];
	char name[16];

	for (int i = 0; i < KW_LATEST_KEYS; i++) {
		snprintf(name, sizeof name, "%d", i);
		set(0, name, KW_LATEST_TEXT, "v", 0);
	}
	assert_false(kw_latest_has_room(&latest));
	kw_latest_clear(&latest);
	assert_true(kw_latest_has_room(&latest));
	assert_null(find(0, "1"));
	kw_latest_set(&latest, 0, kw_slice_text("large"),
		&(struct kw_latest_value){KW_LATEST_TEXT, kw_slice(large, sizeof large), 0});
	assert_false(kw_latest_has_room(&latest));
	kw_latest_clear(&latest);
	assert_true(latest.bytes.capacity < sizeof large); /* given back */
}

static void assert_payload(const struct kw_table_change *change, const char *text)
{
	struct kw_buffer back = {0};
	struct kw_error error;
	uint16_t version;

	assert_int_equal(change->kind, KW_RECORD_PUT);
	assert_int_equal(kw_payload_check(change->value, &version, &error), KW_OK);
	assert_int_equal(version, RDB_VERSION);
	assert_int_equal(kw_payload_text(change->value, 100, &back, &error), KW_OK);
	assert_true(kw_slice_equal(
		kw_slice(kw_buffer_bytes(&back), kw_buffer_length(&back)), kw_slice_text(text)));
	kw_buffer_close(&back);
}

/* Returns how long the payload is. */
static size_t encoded(const char *text)
{
	size_t length;

	set(0, "a", KW_LATEST_TEXT, text, 0);
	kw_latest_encode(&latest, find(0, "a"), RDB_VERSION);
	length = find(0, "a")->encoded_length;
	kw_latest_clear(&latest);
	return length;
}

#define PLAIN "the quick brown fox jumps over a lazy dog"
#define LONGER 5000
#define PACKS "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

/* Those that are too short, and integers, say nothing about it. */
static void lzf_rests_while_it_packs_nothing(void **state)
{
	static char longer[LONGER + 1];
	uint32_t tried = 0;

	memset(longer, 'a', LONGER);
	for (int i = 0; i < KW_LATEST_VAIN * 3; i++) {
		assert_true(encoded("short") > 5);
		assert_true(encoded("123456789") < 20);
	}
	assert_true(encoded(PACKS) < strlen(PACKS));
	for (int i = 0; i < KW_LATEST_VAIN + 1; i++)
		assert_true(encoded(PLAIN) > strlen(PLAIN));
	assert_true(encoded(PACKS) > strlen(PACKS));
	assert_true(encoded(longer) > LONGER); /* however long: it would cost the more */
	while (encoded(PACKS) > strlen(PACKS))
		assert_true(++tried < KW_LATEST_TRIED);
	assert_true(encoded(PACKS) < strlen(PACKS));
}

static void the_table_gets_payloads_and_tombstones(void **state)
{
	struct kw_table_change changes[4];

	set(0, "text", KW_LATEST_TEXT, "replaced", 0);
	set(5, "number", KW_LATEST_TEXT, "12", 8);
	set(0, "gone", KW_LATEST_GONE, "", 0);
	set(0, "payload", KW_LATEST_PAYLOAD, "as it is", 0);
	set(0, "text", KW_LATEST_TEXT, "value", 0);
	for (uint32_t i = 0; i < latest.count; i++)
		kw_latest_encode(&latest, &latest.changes[i], RDB_VERSION);
	for (uint32_t i = 0; i < latest.count; i++)
		changes[i] = kw_latest_change(&latest, &latest.changes[i]);
	assert_payload(&changes[0], "value");
	assert_payload(&changes[1], "12");
	assert_int_equal(changes[1].database, 5);
	assert_int_equal(changes[1].expires_ms, 8);
	assert_true(kw_slice_equal(changes[1].key, kw_slice_text("number")));
	assert_int_equal(changes[2].kind, KW_RECORD_DELETE);
	assert_true(kw_slice_equal(changes[3].value, kw_slice_text("as it is")));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, drop)
	const struct CMUnitTest tests[] = {
		TEST(the_last_change_of_each_key_stays),
		TEST(keys_are_told_apart_by_name_and_database),
		TEST(a_hash_alone_makes_no_key),
		TEST(another_expiry_leaves_the_value),
		TEST(it_is_full_by_keys_and_by_bytes),
		TEST(lzf_rests_while_it_packs_nothing),
		TEST(the_table_gets_payloads_and_tombstones),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
