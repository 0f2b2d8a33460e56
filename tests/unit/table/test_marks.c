#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define KEYS_MAX 3000

struct handed {
	int times[KEYS_MAX];
	int strange; /* of another database, or not of ours */
};

static void hand(void *arg, uint32_t database, struct kw_slice key)
{
	struct handed *handed = arg;
	char text[16] = "";

	if (database != 0 || key.length != 11) {
		handed->strange++;
		return;
	}
	memcpy(text, key.data, key.length);
	handed->times[strtoul(text + 4, NULL, 10)]++;
}

static void fill(struct fixture *fixture, uint32_t keys)
{
	for (uint32_t number = 0; number < keys; number++)
		assert_int_equal(fixture_put(fixture, number, number, 100), KW_PUT_STORED);
	fixture_publish(fixture);
}

/* Whatever the budget, so wherever in a segment the walk is interrupted. */
static void exactly_the_unseen_keys_are_handed_out(void **state)
{
	const uint32_t budgets[] = {1, 2, 7, 13, 100, 5000};

	for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
		struct handed handed = {0};
		struct fixture fixture;
		uint64_t cursor = 0;
		int calls = 0;

		fixture_open(&fixture, &(struct kw_table_options){.segment_bytes = 4096});
		fill(&fixture, 1000);
		kw_table_marks_begin(fixture.table);
		for (uint32_t number = 0; number < 1000; number += 3)
			kw_table_mark(fixture.table, 0, fixture_key(number));
		while (kw_table_unseen(fixture.table, &cursor, budgets[i], hand, &handed))
			assert_in_range(++calls, 0, 3000);
		assert_true((uint64_t)(calls + 1) * budgets[i] >= 1000);
		assert_int_equal(handed.strange, 0);
		for (uint32_t number = 0; number < 1000; number++)
			assert_int_equal(handed.times[number], number % 3 != 0);
		fixture_close(&fixture);
	}
}

static void count_one(void *arg, uint32_t database, uint64_t expires_ms)
{
	uint64_t *counts = arg;

	assert_int_equal(database, 0);
	counts[expires_ms == 5000]++;
}

static void exactly_the_unseen_keys_are_counted(void **state)
{
	const uint32_t budgets[] = {1, 7, 100, 5000};

	for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
		uint64_t cursor = 0, counts[2] = {0};
		struct fixture fixture;
		int calls = 0;

		fixture_open(&fixture, &(struct kw_table_options){.segment_bytes = 4096});
		fill(&fixture, 1000);
		kw_table_put(fixture.table, 0, kw_slice_text("expires"), kw_slice_text("a"), 5000);
		kw_table_marks_begin(fixture.table);
		for (uint32_t number = 0; number < 1000; number += 4)
			kw_table_mark(fixture.table, 0, fixture_key(number));
		for (uint32_t number = 1; number < 1000; number += 4)
			fixture_delete(&fixture, number);
		while (kw_table_count_unseen(fixture.table, &cursor, budgets[i], count_one, counts))
			assert_in_range(++calls, 0, 5000);
		assert_int_equal(counts[0], 500);
		assert_int_equal(counts[1], 1);
		fixture_close(&fixture);
	}
}

static void every_way_of_touching_a_key_makes_it_seen(void **state)
{
	struct handed handed = {0};
	struct fixture fixture;
	uint64_t cursor = 0;

	fixture_open(&fixture, &(struct kw_table_options){0});
	fill(&fixture, 6);
	kw_table_marks_begin(fixture.table);
	fixture_put(&fixture, 0, 77, 100); /* another value */
	fixture_put(&fixture, 1, 1, 100);  /* the same value */
	fixture_delete(&fixture, 2);
	kw_table_mark(fixture.table, 0, fixture_key(3));
	fixture_put(&fixture, 100, 1, 100);                /* a new key */
	kw_table_mark(fixture.table, 0, fixture_key(999)); /* one that is not there */
	kw_table_mark(fixture.table, 5, fixture_key(4));   /* nor in that database */
	assert_false(kw_table_unseen(fixture.table, &cursor, 1000, hand, &handed));
	for (uint32_t number = 0; number < 200; number++)
		assert_int_equal(handed.times[number], number == 4 || number == 5);
	fixture_close(&fixture);
}

static void a_new_round_forgets_the_marks_of_the_last(void **state)
{
	struct handed handed = {0};
	struct fixture fixture;

	fixture_open(&fixture, &(struct kw_table_options){0});
	fill(&fixture, 100);
	for (int round = 1; round <= 3; round++) {
		uint64_t cursor = 0;

		kw_table_marks_begin(fixture.table);
		for (uint32_t number = 0; number < 50; number++)
			kw_table_mark(fixture.table, 0, fixture_key(number));
		assert_false(kw_table_unseen(fixture.table, &cursor, 1000, hand, &handed));
		for (uint32_t number = 0; number < 100; number++)
			assert_int_equal(handed.times[number], number < 50 ? 0 : round);
	}
	fixture_close(&fixture);
}

/* The cleaner moves records, and marks with them, while the walk is under way. */
static void cleaning_meanwhile_leaves_none_out(void **state)
{
	static struct handed handed;
	struct fixture fixture;
	uint64_t cursor = 0;
	uint32_t next = 0;

	memset(&handed, 0, sizeof handed);
	fixture_open(
		&fixture, &(struct kw_table_options){.max_bytes = 1 << 20, .segment_bytes = 4096});
	fill(&fixture, KEYS_MAX);
	kw_table_marks_begin(fixture.table);
	for (uint32_t number = 0; number < KEYS_MAX; number += 2)
		kw_table_mark(fixture.table, 0, fixture_key(number));
	/* The walk is faster than the writes, or it would not end; see kw_table_unseen. */
	while (kw_table_unseen(fixture.table, &cursor, 20, hand, &handed)) {
		/* Keys of the seen half are overwritten, so that segments get worth cleaning. */
		for (int i = 0; i < 8; i++, next += 2)
			assert_int_not_equal(
				fixture_put(&fixture, next % KEYS_MAX, next + KEYS_MAX, 100),
				KW_PUT_FULL);
		fixture_publish(&fixture);
	}
	assert_true(fixture_stats(&fixture).cleaned_segments > 10);
	assert_int_equal(handed.strange, 0);
	for (uint32_t number = 0; number < KEYS_MAX; number++) {
		if (number % 2 == 0)
			assert_int_equal(handed.times[number], 0);
		else
			assert_in_range(handed.times[number], 1, 1000);
	}
	fixture_close(&fixture);
}

static void an_empty_table_has_nothing_unseen(void **state)
{
	struct handed handed = {0};
	struct fixture fixture;
	uint64_t cursor = 0;

	fixture_open(&fixture, &(struct kw_table_options){0});
	kw_table_marks_begin(fixture.table);
	assert_false(kw_table_unseen(fixture.table, &cursor, 10, hand, &handed));
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exactly_the_unseen_keys_are_handed_out),
		cmocka_unit_test(exactly_the_unseen_keys_are_counted),
		cmocka_unit_test(every_way_of_touching_a_key_makes_it_seen),
		cmocka_unit_test(a_new_round_forgets_the_marks_of_the_last),
		cmocka_unit_test(cleaning_meanwhile_leaves_none_out),
		cmocka_unit_test(an_empty_table_has_nothing_unseen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
