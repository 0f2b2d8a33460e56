#include "fixture.h"
#include "table/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void what_is_put_can_be_got_and_what_is_deleted_not(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	assert_true(fixture_gone(&fixture, 1));
	assert_int_equal(fixture_put(&fixture, 1, 10, 100), KW_PUT_STORED);
	assert_int_equal(fixture_put(&fixture, 2, 20, 0), KW_PUT_STORED);
	assert_true(fixture_has(&fixture, 1, 10, 100));
	assert_true(fixture_has(&fixture, 2, 20, 0));
	assert_int_equal(fixture_put(&fixture, 1, 11, 90), KW_PUT_STORED);
	assert_true(fixture_has(&fixture, 1, 11, 90));
	assert_int_equal(fixture_delete(&fixture, 1), KW_PUT_STORED);
	assert_true(fixture_gone(&fixture, 1));
	assert_int_equal(fixture_put(&fixture, 1, 12, 80), KW_PUT_STORED);
	assert_true(fixture_has(&fixture, 1, 12, 80));
	assert_int_equal(fixture_stats(&fixture).keys, 2);
	assert_int_equal(fixture_stats(&fixture).payload_bytes, 11 + 80 + 11);
	assert_int_equal(fixture_stats(&fixture).version, 5);
	fixture_close(&fixture);
}

static void an_equal_value_is_not_published_again(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	fixture_put(&fixture, 1, 10, 100);
	fixture_publish(&fixture);
	assert_false(kw_table_unpublished(fixture.table));
	assert_int_equal(fixture_put(&fixture, 1, 10, 100), KW_PUT_UNCHANGED);
	assert_false(kw_table_unpublished(fixture.table));
	assert_int_equal(fixture_stats(&fixture).version, 1);
	/* Another expiry is another state of the key. */
	assert_int_equal(kw_table_put(fixture.table, 0, fixture_key(1), fixture_value(10, 100), 5),
		KW_PUT_STORED);
	assert_int_equal(kw_table_put(fixture.table, 0, fixture_key(1), fixture_value(10, 100), 5),
		KW_PUT_UNCHANGED);
	assert_int_equal(kw_table_put(fixture.table, 0, fixture_key(1), fixture_value(10, 100), 0),
		KW_PUT_STORED);
	fixture_close(&fixture);
}

static void deleting_what_is_not_there_writes_nothing(void **state)
{
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	assert_int_equal(fixture_delete(&fixture, 1), KW_PUT_UNCHANGED);
	fixture_put(&fixture, 1, 10, 100);
	assert_int_equal(fixture_delete(&fixture, 1), KW_PUT_STORED);
	assert_int_equal(fixture_delete(&fixture, 1), KW_PUT_UNCHANGED);
	assert_int_equal(fixture_stats(&fixture).version, 2);
	assert_int_equal(fixture_stats(&fixture).tombstones, 1);
	fixture_close(&fixture);
}

struct met {
	uint32_t keys, most;
	uint64_t expires_ms; /* their sum */
};

static bool meet(void *arg, struct kw_slice key, struct kw_slice value, uint64_t expires_ms)
{
	struct met *met = arg;

	assert_true(kw_slice_equal(value, fixture_value(7, 50)));
	met->expires_ms += expires_ms;
	return ++met->keys < met->most;
}

static void each_live_key_of_a_database_is_met_once(void **state)
{
	struct met all = {.most = UINT32_MAX}, some = {.most = 10}, none = all;
	struct fixture fixture;
	char name[16];

	fixture_open(&fixture, &(struct kw_table_options){0});
	for (uint32_t i = 0; i < 3000; i++) {
		snprintf(name, sizeof name, "%u", i);
		kw_table_put(
			fixture.table, 3 + i % 3, kw_slice_text(name), fixture_value(7, 50), i);
	}
	kw_table_delete(fixture.table, 3, kw_slice_text("3"));
	kw_table_flush(fixture.table, 5);
	assert_true(kw_table_each(fixture.table, 3, meet, &all));
	assert_int_equal(all.keys, 999);
	assert_int_equal(all.expires_ms, 999 * 1000 / 2 * 3 - 3);
	assert_false(kw_table_each(fixture.table, 4, meet, &some));
	assert_int_equal(some.keys, 10);
	assert_true(kw_table_each(fixture.table, 5, meet, &none));
	assert_true(kw_table_each(fixture.table, KW_DATABASE_MAX, meet, &none));
	assert_int_equal(none.keys, 0);
	fixture_close(&fixture);
}

static void the_same_key_in_two_databases_is_two_keys(void **state)
{
	struct fixture fixture;
	struct kw_slice value;
	uint64_t expires_ms;
	const uint32_t databases[] = {0, 1, 9, 10, 15, KW_DATABASE_MAX};

	fixture_open(&fixture, &(struct kw_table_options){0});
	for (int i = 0; i < 6; i++)
		assert_int_equal(kw_table_put(fixture.table, databases[i], kw_slice_text("k"),
					 fixture_value(databases[i], 50), 1000 + databases[i]),
			KW_PUT_STORED);
	assert_int_equal(kw_table_delete(fixture.table, 9, kw_slice_text("k")), KW_PUT_STORED);
	for (int i = 0; i < 6; i++) {
		bool live = databases[i] != 9;

		assert_int_equal(kw_table_get(fixture.table, databases[i], kw_slice_text("k"),
					 &value, &expires_ms),
			live);
		assert_int_equal(kw_table_database_keys(fixture.table, databases[i]), live);
		if (!live)
			continue;
		assert_true(kw_slice_equal(value, fixture_value(databases[i], 50)));
		assert_int_equal(expires_ms, 1000 + databases[i]);
	}
	assert_int_equal(kw_table_database_keys(fixture.table, 5), 0);
	assert_int_equal(kw_table_put(fixture.table, KW_DATABASE_MAX + 1, kw_slice_text("k"),
				 fixture_value(1, 50), 0),
		KW_PUT_TOO_LARGE);
	/* Nothing of such a key is looked at: it is one byte here. */
	assert_int_equal(kw_table_put(fixture.table, 0, kw_slice("k", KW_RECORD_KEY_MAX + 1),
				 fixture_value(1, 50), 0),
		KW_PUT_TOO_LARGE);
	fixture_close(&fixture);
}

/* Two tables that must be equal: one is changed by batches, the other change by change. */
static void a_batch_of_changes_is_the_same_as_each_by_itself(void **state)
{
	static const size_t counts[] = {0, 1, 2, 5, 6, 7, 11, 12, 13, 32, 100};
	struct kw_table_change changes[100];
	struct fixture batched, single;
	char names[100][8];

	fixture_open(&batched, &(struct kw_table_options){0});
	fixture_open(&single, &(struct kw_table_options){0});
	srand(5);
	for (size_t round = 0; round < 300; round++) {
		size_t count = counts[round % (sizeof counts / sizeof *counts)];

		for (size_t i = 0; i < count; i++) {
			int length = snprintf(names[i], sizeof names[i], "%d", rand() % 500);
			bool put = rand() % 4 > 0;

			changes[i] = (struct kw_table_change){
				.kind = put ? KW_RECORD_PUT : KW_RECORD_DELETE,
				.database = (uint32_t)rand() % 2,
				.key = kw_slice(names[i], (size_t)length),
				.expires_ms = put && rand() % 2 ? 5000 : 0,
			};
			if (put)
				changes[i].value =
					kw_slice("twenty bytes of value", (size_t)rand() % 21);
		}
		kw_table_change_all(batched.table, changes, count);
		for (size_t i = 0; i < count; i++) {
			const struct kw_table_change *c = &changes[i];

			assert_int_equal(c->result,
				c->kind == KW_RECORD_PUT
					? kw_table_put(single.table, c->database, c->key, c->value,
						  c->expires_ms)
					: kw_table_delete(single.table, c->database, c->key));
		}
		assert_int_equal(fixture_stats(&batched).keys, fixture_stats(&single).keys);
		assert_int_equal(fixture_stats(&batched).version, fixture_stats(&single).version);
	}
	fixture_close(&batched);
	fixture_close(&single);
}

static void a_key_that_is_too_long_changes_nothing_in_a_batch(void **state)
{
	struct kw_table_change changes[2] = {
		{.kind = KW_RECORD_PUT, .key = kw_slice("k", KW_RECORD_KEY_MAX + 1)},
		{.kind = KW_RECORD_PUT, .key = kw_slice_text("k")},
	};
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_change_all(fixture.table, changes, 2);
	assert_int_equal(changes[0].result, KW_PUT_TOO_LARGE);
	assert_int_equal(changes[1].result, KW_PUT_STORED);
	assert_int_equal(fixture_stats(&fixture).keys, 1);
	fixture_close(&fixture);
}

static void empty_and_binary_keys_are_keys(void **state)
{
	const struct kw_slice keys[] = {kw_slice("", 0), kw_slice("\0", 1), kw_slice("\0\0", 2),
		kw_slice("\r\n\xff\0x", 5)};
	struct kw_slice value;
	struct fixture fixture;
	uint64_t expires_ms;

	fixture_open(&fixture, &(struct kw_table_options){0});
	for (uint64_t i = 0; i < 4; i++)
		assert_int_equal(kw_table_put(fixture.table, 0, keys[i], fixture_value(i, 9), 0),
			KW_PUT_STORED);
	for (uint64_t i = 0; i < 4; i++) {
		assert_true(kw_table_get(fixture.table, 0, keys[i], &value, &expires_ms));
		assert_true(kw_slice_equal(value, fixture_value(i, 9)));
	}
	assert_int_equal(fixture_stats(&fixture).keys, 4);
	fixture_close(&fixture);
}

static void values_larger_than_a_segment_have_a_run_of_their_own(void **state)
{
	struct fixture fixture;
	struct follower follower;

	fixture_open(&fixture, &(struct kw_table_options){.segment_bytes = 4096});
	for (uint32_t round = 0; round < 6; round++) {
		for (uint32_t number = 0; number < 40; number++)
			assert_int_equal(fixture_put(&fixture, number, round * 100 + number,
						 number % 4 == 0 ? 4000 * number + round : 60),
				KW_PUT_STORED);
		fixture_publish(&fixture);
	}
	for (uint32_t number = 0; number < 40; number++)
		assert_true(fixture_has(
			&fixture, number, 500 + number, number % 4 == 0 ? 4000 * number + 5 : 60));
	/* And a reader whose READs are smaller than any of them gets them whole. */
	follower_open(&follower, &fixture, &(struct kw_reader_options){.chunk_bytes = 1024});
	follower_start(&follower, NULL);
	assert_int_equal(follower.passes, 1);
	follower_assert_equal(&follower, 40);
	follower_close(&follower);
	fixture_close(&fixture);
}

static void a_flush_takes_the_keys_of_its_database_only(void **state)
{
	struct fixture fixture;
	struct kw_slice value;
	uint64_t expires_ms;

	fixture_open(&fixture, &(struct kw_table_options){0});
	for (uint32_t number = 0; number < 3000; number++)
		assert_int_equal(kw_table_put(fixture.table, number % 3, fixture_key(number),
					 fixture_value(number, 60), 0),
			KW_PUT_STORED);
	assert_int_equal(kw_table_flush(fixture.table, 1), KW_PUT_STORED);
	assert_int_equal(fixture_stats(&fixture).keys, 2000);
	assert_int_equal(kw_table_database_keys(fixture.table, 1), 0);
	for (uint32_t number = 0; number < 3000; number++)
		assert_int_equal(kw_table_get(fixture.table, number % 3, fixture_key(number),
					 &value, &expires_ms),
			number % 3 != 1);
	/* A flush of nothing is cheap; the database lives on. */
	assert_int_equal(kw_table_flush(fixture.table, 1), KW_PUT_UNCHANGED);
	assert_int_equal(kw_table_flush(fixture.table, 77), KW_PUT_UNCHANGED);
	assert_int_equal(kw_table_put(fixture.table, 1, fixture_key(1), fixture_value(1, 60), 0),
		KW_PUT_STORED);
	assert_int_equal(kw_table_database_keys(fixture.table, 1), 1);
	fixture_close(&fixture);
}

static void nothing_is_visible_before_it_is_published(void **state)
{
	struct kw_superblock before;
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	fixture_put(&fixture, 1, 1, 100);
	fixture_publish(&fixture);
	before = *fixture_superblock(&fixture);
	for (uint32_t number = 0; number < 2000; number++)
		fixture_put(&fixture, number, 2, 100);
	assert_memory_equal(fixture_superblock(&fixture), &before, sizeof before);
	assert_true(kw_table_unpublished(fixture.table));
	fixture_publish(&fixture);
	assert_false(kw_table_unpublished(fixture.table));
	assert_int_equal(fixture_superblock(&fixture)->version, 2001);
	assert_int_equal(fixture_superblock(&fixture)->keys, 2000);
	assert_true(fixture_superblock(&fixture)->publication > before.publication);
	assert_true(
		fixture_superblock(&fixture)->directory_publication > before.directory_publication);
	fixture_close(&fixture);
}

/* As after a device was removed and came back: only where the extents are has changed. */
static void extents_registered_anew_are_in_the_next_directory(void **state)
{
	const struct kw_superblock *superblock;
	const struct kw_directory_header *header;
	struct kw_extent places[3] = {{.offset = 12345, .address = 1, .rkey = 1}};
	const struct kw_extent *extents;
	struct kw_directory directory;
	struct fixture fixture;
	struct kw_error error;
	uint64_t before;

	fixture_open(&fixture, &(struct kw_table_options){0});
	fixture_put(&fixture, 1, 1, 100);
	fixture_publish(&fixture);
	superblock = fixture_superblock(&fixture);
	before = superblock->directory_publication;
	header = (const void *)(fixture.memory.base + superblock->directory_offset);
	assert_int_equal(kw_directory_parse(header, superblock->directory_bytes, superblock,
				 &directory, &error),
		KW_OK);
	assert_true(header->extents >= 2);
	extents = directory.extents;
	/* In any order, and one that is not there. */
	places[1] = extents[1];
	places[2] = extents[0];
	for (uint32_t i = 1; i < 3; i++) {
		places[i].address = 0x1000 * i;
		places[i].rkey = 70 + i;
	}
	kw_table_set_places(fixture.table, places, 3);
	assert_true(kw_table_unpublished(fixture.table));
	assert_int_equal(superblock->directory_publication, before);
	fixture_publish(&fixture);
	assert_int_equal(superblock->directory_publication, before + 1);
	header = (const void *)(fixture.memory.base + superblock->directory_offset);
	assert_int_equal(kw_directory_parse(header, superblock->directory_bytes, superblock,
				 &directory, &error),
		KW_OK);
	assert_int_equal(directory.extents[0].rkey, 72);
	assert_int_equal(directory.extents[0].address, 0x2000);
	assert_int_equal(directory.extents[1].rkey, 71);
	assert_true(fixture_has(&fixture, 1, 1, 100));
	fixture_close(&fixture);
}

static void the_superblock_says_what_the_source_does(void **state)
{
	const struct kw_superblock *superblock;
	const struct kw_table_facts facts = {.source_state = KW_SOURCE_RECONCILING,
		.complete = true,
		.rdb_version = 11,
		.ticket = 42,
		.fresh_us = 12345,
		.source_id = 777};
	struct fixture fixture;
	struct kw_error error;
	uint64_t published_us;

	fixture_open(&fixture, &(struct kw_table_options){.epoch = 99});
	superblock = fixture_superblock(&fixture);
	/* A reader may connect before anything was written. */
	assert_int_equal(kw_superblock_check(superblock, &error), KW_OK);
	assert_int_equal(superblock->epoch, 99);
	assert_int_equal(superblock->source_state, KW_SOURCE_CONNECTING);
	assert_int_equal(superblock->complete, 0);
	kw_table_set_facts(fixture.table, &facts);
	assert_true(kw_table_unpublished(fixture.table));
	fixture_put(&fixture, 1, 1, 10);
	fixture_publish(&fixture);
	assert_int_equal(kw_superblock_check(superblock, &error), KW_OK);
	assert_int_equal(superblock->source_state, KW_SOURCE_RECONCILING);
	assert_int_equal(superblock->complete, 1);
	assert_int_equal(superblock->rdb_version, 11);
	assert_int_equal(superblock->ticket, 42);
	assert_int_equal(superblock->fresh_us, 12345);
	assert_int_equal(superblock->source_id, 777);
	published_us = superblock->published_us;
	assert_true(published_us == fixture.now_us + FIXTURE_WALL_US);
	/* The heartbeat goes on without writes; the moment of the last version stays. */
	fixture_advance(&fixture, 5000);
	fixture_publish(&fixture);
	assert_true(superblock->heartbeat_us == fixture.now_us + FIXTURE_WALL_US);
	assert_true(superblock->published_us == published_us);
	fixture_close(&fixture);
}

static void options_that_cannot_work_are_refused_with_a_sentence(void **state)
{
	const struct kw_table_options wrong[] = {
		{.max_bytes = 64 << 20, .segment_bytes = 5000, .epoch = 1},
		{.max_bytes = 64 << 20, .segment_bytes = 2048, .epoch = 1},
		{.max_bytes = 64 << 20, .segment_bytes = UINT64_C(2) << 30, .epoch = 1},
		{.max_bytes = 64 << 20, .segment_bytes = 65536, .epoch = 0},
		{.max_bytes = 4096, .segment_bytes = 4096, .epoch = 1},
		{.max_bytes = UINT64_C(2) << 30, .segment_bytes = 65536, .epoch = 1},
		{.max_bytes = 64 << 20, .segment_bytes = 65536, .epoch = 1, .utilisation = 1.5},
	};
	struct fixture fixture;
	struct kw_error error;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_free(fixture.table);
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		memset(&error, 0, sizeof error);
		memset(fixture.memory.base, 0, 1 << 20);
		assert_null(kw_table_new(&wrong[i], &fixture.memory, 1, &error));
		assert_int_not_equal(error.code, KW_OK);
		assert_true(strlen(error.text) > 10);
	}
	fixture.refuse_extents = true;
	assert_null(kw_table_new(&fixture.options, &fixture.memory, 1, &error));
	assert_non_null(strstr(error.text, "the test has no memory"));
	fixture.table = NULL;
	kw_table_free(NULL);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_can_be_got_and_what_is_deleted_not),
		cmocka_unit_test(an_equal_value_is_not_published_again),
		cmocka_unit_test(deleting_what_is_not_there_writes_nothing),
		cmocka_unit_test(each_live_key_of_a_database_is_met_once),
		cmocka_unit_test(the_same_key_in_two_databases_is_two_keys),
		cmocka_unit_test(a_batch_of_changes_is_the_same_as_each_by_itself),
		cmocka_unit_test(a_key_that_is_too_long_changes_nothing_in_a_batch),
		cmocka_unit_test(empty_and_binary_keys_are_keys),
		cmocka_unit_test(values_larger_than_a_segment_have_a_run_of_their_own),
		cmocka_unit_test(a_flush_takes_the_keys_of_its_database_only),
		cmocka_unit_test(nothing_is_visible_before_it_is_published),
		cmocka_unit_test(extents_registered_anew_are_in_the_next_directory),
		cmocka_unit_test(the_superblock_says_what_the_source_does),
		cmocka_unit_test(options_that_cannot_work_are_refused_with_a_sentence),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
