#include "keys/keyset.h"

#include <stdio.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KEYS 200000
#define LARGE 1500000

static struct kw_hash128 hash_of(uint64_t number)
{
	return kw_keyset_hash(0, kw_slice(&number, sizeof number));
}

static void a_set_holds_what_was_added_and_nothing_else(void **state)
{
	struct kw_keyset set = {0};

	for (uint64_t i = 0; i < KEYS; i++)
		assert_true(kw_keyset_add(&set, hash_of(i)));
	assert_int_equal(set.count, KEYS);
	for (uint64_t i = 0; i < KEYS; i++) {
		assert_true(kw_keyset_has(&set, hash_of(i)));
		assert_false(kw_keyset_has(&set, hash_of(i + KEYS)));
	}
	kw_keyset_close(&set);
}

static void a_key_counts_once(void **state)
{
	struct kw_keyset set = {0};

	assert_true(kw_keyset_add(&set, hash_of(1)));
	assert_false(kw_keyset_add(&set, hash_of(1)));
	assert_int_equal(set.count, 1);
	kw_keyset_close(&set);
}

static void the_hash_that_marks_free_slots_can_be_a_member(void **state)
{
	const struct kw_hash128 zero = {0, 0};
	struct kw_keyset set = {0};

	assert_false(kw_keyset_has(&set, zero));
	assert_true(kw_keyset_add(&set, zero));
	assert_true(kw_keyset_has(&set, zero));
	assert_false(kw_keyset_add(&set, zero));
	kw_keyset_close(&set);
}

static void the_same_key_in_another_database_is_another_key(void **state)
{
	struct kw_keyset set = {0};

	kw_keyset_add(&set, kw_keyset_hash(0, kw_slice_text("key")));
	assert_false(kw_keyset_has(&set, kw_keyset_hash(1, kw_slice_text("key"))));
	kw_keyset_close(&set);
}

/* Keys as people name them: short, counted up, the same in several databases. */
static void neighbours_in_neighbouring_databases_are_told_apart(void **state)
{
	static const char *const prefixes[] = {"h", "k", "z", "key:", "user:", ""};
	struct kw_keyset set = {0};
	char key[32];

	for (uint32_t database = 0; database < 16; database++)
		for (size_t prefix = 0; prefix < sizeof prefixes / sizeof *prefixes; prefix++)
			for (int i = 0; i < 5000; i++) {
				snprintf(key, sizeof key, "%s%d", prefixes[prefix], i);
				assert_true(kw_keyset_add(
					&set, kw_keyset_hash(database, kw_slice_text(key))));
			}
	kw_keyset_close(&set);
}

static void an_empty_set_has_nothing(void **state)
{
	struct kw_keyset set = {0};

	assert_false(kw_keyset_has(&set, hash_of(1)));
	kw_keyset_reserve(&set, KEYS);
	assert_false(kw_keyset_has(&set, hash_of(1)));
	kw_keyset_close(&set);
}

/* Whoever waits for the next key does not wait for the memory of all that follow. */
static void what_is_reserved_is_touched_bit_by_bit_and_used_before_it_is_needed(void **state)
{
	struct kw_keyset set = {0};
	size_t touched = 0;

	kw_keyset_reserve(&set, LARGE);
	assert_true(set.reserved_capacity / 4 * 3 >= LARGE);
	for (uint64_t i = 0; i < LARGE; i++) {
		assert_true(kw_keyset_add(&set, hash_of(i)));
		assert_false(kw_keyset_add(&set, hash_of(i)));
		if (!set.reserved)
			continue;
		assert_true(set.touched - touched <= set.reserved_capacity / 8);
		touched = set.touched;
		assert_true(i < LARGE / 8);
	}
	assert_null(set.reserved);
	assert_true(set.capacity / 4 * 3 >= LARGE);
	for (uint64_t i = 0; i < LARGE; i++)
		assert_true(kw_keyset_has(&set, hash_of(i)));
	kw_keyset_close(&set);
}

static void a_few_keys_have_their_room_at_once_and_more_may_come_than_were_reserved(void **state)
{
	struct kw_keyset set = {0};

	kw_keyset_reserve(&set, 10000);
	assert_null(set.reserved);
	assert_true(set.capacity / 4 * 3 >= 10000);
	kw_keyset_reserve(&set, KEYS);
	kw_keyset_reserve(&set, KEYS / 2);
	kw_keyset_reserve(&set, KEYS * 2);
	for (uint64_t i = 0; i < LARGE; i++)
		assert_true(kw_keyset_add(&set, hash_of(i)));
	kw_keyset_close(&set);
}

/* As a snapshot that is given up at once does. */
static void what_is_reserved_and_not_used_is_given_back(void **state)
{
	struct kw_keyset set = {0};

	kw_keyset_reserve(&set, LARGE);
	assert_true(kw_keyset_add(&set, hash_of(1)));
	assert_non_null(set.reserved);
	kw_keyset_close(&set);
	assert_null(set.reserved);
	assert_int_equal(set.count, 0);
}

/* In batches of any size, of which any are chosen. */
static void records_are_added_in_batches(void **state)
{
	static const uint64_t choices[] = {
		0, 1, 0xff, 0x5555555555555555, 0xfffffffe, UINT64_C(1) << 63, UINT64_MAX};
	struct kw_record_view records[64] = {0};
	uint64_t numbers[64], added = 0;
	struct kw_keyset set = {0};

	for (uint64_t first = 0; first < KEYS; first += 64) {
		uint64_t chosen = choices[first / 64 % (sizeof choices / sizeof *choices)];

		for (uint32_t i = 0; i < 64; i++) {
			numbers[i] = first + i;
			records[i].key = kw_slice(&numbers[i], sizeof numbers[i]);
		}
		assert_true(kw_keyset_add_records(&set, records, chosen) == chosen);
		for (uint32_t i = 0; i < 64; i++) {
			assert_int_equal(kw_keyset_has(&set, hash_of(first + i)), chosen >> i & 1);
			added += chosen >> i & 1;
		}
		assert_true(kw_keyset_add_records(&set, records, UINT64_MAX) == ~chosen);
		added += (uint64_t)__builtin_popcountll(~chosen);
	}
	assert_int_equal(set.count, added);
	kw_keyset_close(&set);
}

static void a_key_twice_in_a_batch_counts_once(void **state)
{
	struct kw_record_view records[3] = {0};
	struct kw_keyset set = {0};

	for (int i = 0; i < 3; i++)
		records[i].key = kw_slice_text("same");
	assert_int_equal(kw_keyset_add_records(&set, records, kw_batch_bits(3)), 1);
	assert_int_equal(set.count, 1);
	kw_keyset_close(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_holds_what_was_added_and_nothing_else),
		cmocka_unit_test(a_key_counts_once),
		cmocka_unit_test(the_hash_that_marks_free_slots_can_be_a_member),
		cmocka_unit_test(neighbours_in_neighbouring_databases_are_told_apart),
		cmocka_unit_test(the_same_key_in_another_database_is_another_key),
		cmocka_unit_test(records_are_added_in_batches),
		cmocka_unit_test(a_key_twice_in_a_batch_counts_once),
		cmocka_unit_test(an_empty_set_has_nothing),
		cmocka_unit_test(
			what_is_reserved_is_touched_bit_by_bit_and_used_before_it_is_needed),
		cmocka_unit_test(
			a_few_keys_have_their_room_at_once_and_more_may_come_than_were_reserved),
		cmocka_unit_test(what_is_reserved_and_not_used_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
