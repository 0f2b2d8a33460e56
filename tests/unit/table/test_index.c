#include "fixture.h"

#include "table/fault.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/hash.h"
#include "table/index.h"
#include "table/view.h"

#define KEYS 1000000u
#define VALUE_BYTES 16
#define OVERFLOW_LOOK 4096 /* slots a lookup may look at before it is called too long */

struct lookup {
	const uint8_t *memory;
	struct kw_index_root root;
	uint64_t longest; /* slots looked at */
};

static void begin(struct lookup *lookup, const struct fixture *fixture)
{
	lookup->memory = fixture->memory.base;
	memcpy(&lookup->root, lookup->memory + KW_INDEX_ROOT_OFFSET, sizeof lookup->root);
	assert_int_equal(kw_index_root_check(&lookup->root, NULL), KW_OK);
	assert_int_equal(lookup->root.moves % 2, 0);
}

/* Find a key by what layout.h promises alone, as somebody at the other end of a wire does. */
static const struct kw_record *find(struct lookup *lookup, uint32_t database, struct kw_slice key)
{
	const struct kw_index_root *root = &lookup->root;
	uint64_t hash = kw_hash_key(root->hash_seed, database, key.data, key.length);
	uint64_t slots = hash >= root->boundary ? root->grown_slots : root->slots;
	uint64_t at = (uint64_t)((unsigned __int128)hash * slots >> 64);
	uint64_t end = root->grown_slots + root->overflow;
	const struct kw_index_slot *slot =
		(const struct kw_index_slot *)(lookup->memory + root->offset);

	for (uint64_t looked = 1; at < end && slot[at].place != 0; at++, looked++) {
		uint64_t place = slot[at].place & ((UINT64_C(1) << KW_PLACE_OFFSET_BITS) - 1);
		const struct kw_record *record =
			(const struct kw_record *)(lookup->memory + place * 8);

		if (looked > lookup->longest)
			lookup->longest = looked;
		assert_in_range(looked, 1, OVERFLOW_LOOK);
		if (slot[at].hash == hash && kw_record_database(record) == database &&
			kw_slice_equal(key, kw_record_key(record)))
			return record;
	}
	return NULL;
}

static void lookups_are_right_all_along_while_a_million_keys_come(void **state)
{
	struct lookup lookup = {0};
	struct fixture fixture;
	uint64_t slots = 0, growths = 0;

	fixture_open(&fixture,
		&(struct kw_table_options){.max_bytes = 512 << 20, .segment_bytes = 1 << 20});
	for (uint32_t number = 0; number < KEYS; number++) {
		assert_int_equal(fixture_put(&fixture, number, number, VALUE_BYTES), KW_PUT_STORED);
		if (number % 97 == 0) {
			uint32_t other = number / 97 * 53 % (number + 1);

			assert_true(fixture_has(&fixture, other, other, VALUE_BYTES));
			assert_true(fixture_gone(&fixture, number + 1));
			begin(&lookup, &fixture);
			assert_non_null(find(&lookup, 0, fixture_key(other)));
			assert_null(find(&lookup, 0, fixture_key(number + 1)));
			assert_null(find(&lookup, 1, fixture_key(other)));
		}
		if (fixture_stats(&fixture).index_slots != slots) {
			slots = fixture_stats(&fixture).index_slots;
			growths++;
		}
		if (number % 1000 == 0)
			fixture_publish(&fixture);
	}
	assert_true(growths > 10);
	begin(&lookup, &fixture);
	lookup.longest = 0;
	for (uint32_t number = 0; number < KEYS; number++) {
		const struct kw_record *record = find(&lookup, 0, fixture_key(number));

		assert_non_null(record);
		assert_true(kw_slice_equal(
			fixture_value(number, VALUE_BYTES), kw_record_value(record)));
	}
	print_message("%u keys, %llu slots, longest run looked at %llu\n", KEYS,
		(unsigned long long)slots, (unsigned long long)lookup.longest);
	/* 16 bytes an entry at a load of two thirds at the least. */
	assert_true(slots * 16 < KEYS * 26ull);
	fixture_close(&fixture);
}

static bool one_in_four(void *arg)
{
	static unsigned asked;

	return asked++ % 4 == 0;
}

/* Where tombstones leave the index, entries close ranks: none may become unreachable. */
static void removing_entries_loses_no_other(void **state)
{
	struct lookup lookup = {0};
	struct fixture fixture;

	fixture_open(
		&fixture, &(struct kw_table_options){
				  .max_bytes = 4 << 20, .segment_bytes = 4096, .retention_us = 1});
	kw_fault_hook.drop = one_in_four;
	for (uint32_t round = 0; round < 6; round++) {
		for (uint32_t i = 0; i < 20000; i++) {
			uint32_t number = (i * 7919 + round * 131) % 20000;

			assert_int_not_equal(
				fixture_put(&fixture, number, round, VALUE_BYTES), KW_PUT_FULL);
			if (i % 3 == 0)
				fixture_delete(&fixture, (number + 777) % 20000);
			if (i % 100 == 0) {
				fixture_advance(&fixture, 1000);
				fixture_publish(&fixture);
			}
		}
		begin(&lookup, &fixture);
		for (uint32_t number = 0; number < 20000; number++) {
			const struct kw_record *record = find(&lookup, 0, fixture_key(number));
			bool live = record && kw_record_kind(record) == KW_RECORD_PUT;

			assert_int_equal(live, !fixture_gone(&fixture, number));
		}
	}
	/* Otherwise nothing was removed, and nothing shown. */
	assert_true(fixture_stats(&fixture).tombstone_floor > 0);
	kw_fault_hook.drop = NULL;
	fixture_close(&fixture);
}

static void a_flush_empties_the_index(void **state)
{
	struct lookup lookup = {0};
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	for (uint32_t number = 0; number < 5000; number++)
		kw_table_put(
			fixture.table, number % 2, fixture_key(number), fixture_value(1, 8), 0);
	assert_int_equal(kw_table_flush(fixture.table, 0), KW_PUT_STORED);
	begin(&lookup, &fixture);
	for (uint32_t number = 0; number < 5000; number++) {
		assert_null(find(&lookup, 0, fixture_key(number)));
		assert_int_equal(find(&lookup, 1, fixture_key(number)) != NULL, number % 2);
	}
	fixture_close(&fixture);
}

/* The index alone: room for `most` slots. */
struct bare {
	struct kw_index index;
	struct kw_index_root root;
	struct kw_index_slot *slots;
	uint64_t most;
};

static void bare_open(struct bare *bare, uint64_t most)
{
	bare->most = most;
	bare->slots = calloc(most, sizeof *bare->slots);
	kw_index_init(&bare->index, &bare->root, bare->slots, 0, most, 1);
}

static void bare_close(struct bare *bare)
{
	kw_index_close(&bare->index);
	free(bare->slots);
}

static uint64_t number_hash(uint64_t number)
{
	return kw_hash_key(1, 0, &number, sizeof number);
}

static bool has_number(const struct bare *bare, uint64_t number)
{
	uint64_t hash = number_hash(number);
	struct kw_index_slot *slot = kw_index_first(&bare->index, hash);

	for (; slot; slot = kw_index_next(&bare->index, slot, hash))
		if (slot->place == number + 1)
			return true;
	return false;
}

/* Slots that still have their home by the old size. */
static uint64_t unswept(const struct bare *bare)
{
	const struct kw_index_root *root = &bare->root;

	if (root->slots == root->grown_slots)
		return 0;
	return (uint64_t)((unsigned __int128)root->boundary * root->slots >> 64);
}

/* Memory comes when the index is as full as it may be: no insert may pay for all of the growth. */
static void growth_that_begins_late_is_spread_over_inserts(void **state)
{
	uint64_t slots, left, number = 0, most_moved = 0, inserts = 0;
	struct bare bare;

	bare_open(&bare, 1 << 20);
	bare.index.limit_slots = 300000;
	while (kw_index_insert(&bare.index, number_hash(number), number + 1))
		number++;
	slots = bare.root.slots;
	assert_true(slots > 200000);
	assert_true(number >= slots / 100 * 96);
	bare.index.limit_slots = bare.most;
	left = slots;
	do {
		uint64_t now;

		assert_true(kw_index_insert(&bare.index, number_hash(number), number + 1));
		number++;
		inserts++;
		now = unswept(&bare);
		if (left - now > most_moved)
			most_moved = left - now;
		left = now;
		assert_true(has_number(&bare, inserts * 7919 % number));
	} while (left > 0);
	print_message("%llu slots grown over %llu inserts, at most %llu in one\n",
		(unsigned long long)slots, (unsigned long long)inserts,
		(unsigned long long)most_moved);
	assert_true(inserts >= slots / 2048);
	assert_in_range(most_moved, 1, 8192); /* 256, and the run of entries it ends in */
	assert_true(number < slots / 100 * 97);
	for (uint64_t i = 0; i < number; i++)
		assert_true(has_number(&bare, i));
	bare_close(&bare);
}

/* Which entries stand elsewhere than before, and which stripes were counted meanwhile? */
static void expect_counted(const struct bare *bare, const struct kw_index_slot *slots_before,
	const uint64_t *stripes_before)
{
	for (uint64_t i = 0; i < bare->most; i++) {
		const struct kw_index_slot *before = &slots_before[i];
		uint32_t stripe = kw_index_stripe(KW_INDEX_STRIPES, before->hash);

		assert_int_equal(bare->index.stripes[stripe] % 2, 0);
		if (before->place == 0 || bare->slots[i].place == before->place ||
			!has_number(bare, before->place - 1))
			continue;
		assert_true(bare->index.stripes[stripe] > stripes_before[stripe]);
	}
}

static void every_entry_that_moves_is_counted_in_its_stripe(void **state)
{
	static uint64_t stripes[KW_INDEX_STRIPES], before[KW_INDEX_STRIPES];
	const uint64_t most = 4096;
	struct kw_index_slot *slots = calloc(most, sizeof *slots);
	struct bare bare;

	bare_open(&bare, most);
	kw_index_count_stripes(&bare.index, stripes);
	bare.index.limit_slots = most;
	for (uint64_t i = 0; i < 1500; i++) {
		memcpy(slots, bare.slots, most * sizeof *slots);
		memcpy(before, stripes, sizeof before);
		if (i % 5 == 4)
			kw_index_remove(
				&bare.index, kw_index_first(&bare.index, number_hash(i * 3 / 4)));
		assert_true(kw_index_insert(&bare.index, number_hash(i), i + 1));
		expect_counted(&bare, slots, before);
	}
	assert_true(bare.root.grown_slots > KW_INDEX_FIRST_SLOTS);
	free(slots);
	bare_close(&bare);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lookups_are_right_all_along_while_a_million_keys_come),
		cmocka_unit_test(removing_entries_loses_no_other),
		cmocka_unit_test(a_flush_empties_the_index),
		cmocka_unit_test(growth_that_begins_late_is_spread_over_inserts),
		cmocka_unit_test(every_entry_that_moves_is_counted_in_its_stripe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
