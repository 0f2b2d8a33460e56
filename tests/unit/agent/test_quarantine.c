#include "keys/quarantine.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void enter(struct kw_quarantine *quarantine, uint32_t database, int number)
{
	char key[32];

	snprintf(key, sizeof key, "key:%d", number);
	kw_quarantine_enter(quarantine, database, kw_slice_text(key), kw_slice_text("Bad data"));
}

static void a_key_leaves_when_it_was_applied(void **state)
{
	struct kw_quarantine quarantine = {0};

	enter(&quarantine, 0, 1);
	enter(&quarantine, 0, 2);
	kw_quarantine_leave(&quarantine, 1, kw_slice_text("key:1"));
	assert_int_equal(kw_quarantine_count(&quarantine), 2);
	kw_quarantine_leave(&quarantine, 0, kw_slice_text("key:1"));
	assert_int_equal(kw_quarantine_count(&quarantine), 1);
	assert_memory_equal(quarantine.keys[0].key, "key:2", 5);
	kw_quarantine_close(&quarantine);
}

static void a_key_refused_again_counts_once(void **state)
{
	struct kw_quarantine quarantine = {0};

	enter(&quarantine, 0, 1);
	enter(&quarantine, 0, 1);
	assert_int_equal(kw_quarantine_count(&quarantine), 1);
	assert_int_equal(quarantine.ever, 2);
	kw_quarantine_close(&quarantine);
}

static void names_are_bounded_and_the_rest_is_counted(void **state)
{
	struct kw_quarantine quarantine = {0};

	for (int i = 0; i < KW_QUARANTINE_NAMES + 10; i++)
		enter(&quarantine, 0, i);
	assert_int_equal(quarantine.listed, KW_QUARANTINE_NAMES);
	assert_int_equal(kw_quarantine_count(&quarantine), KW_QUARANTINE_NAMES + 10);
	kw_quarantine_clear(&quarantine);
	assert_int_equal(kw_quarantine_count(&quarantine), 0);
	kw_quarantine_close(&quarantine);
}

static void leave(struct kw_quarantine *quarantine, int number)
{
	char key[32];

	snprintf(key, sizeof key, "key:%d", number);
	kw_quarantine_leave(quarantine, 0, kw_slice_text(key));
}

#define MANY 20000

/* As by a database that the server does not have, whose keys go on changing. */
static void keys_without_a_name_count_once_and_leave_too(void **state)
{
	struct kw_quarantine quarantine = {0};

	for (int turn = 0; turn < 3; turn++)
		for (int i = 0; i < MANY; i++)
			enter(&quarantine, 0, i);
	assert_int_equal(kw_quarantine_count(&quarantine), MANY);
	assert_int_equal(quarantine.ever, 3 * MANY);
	for (int i = MANY; i-- > 0;) {
		leave(&quarantine, i);
		assert_int_equal(kw_quarantine_count(&quarantine), i);
	}
	assert_int_equal(quarantine.listed, 0);
	kw_quarantine_close(&quarantine);
}

static void a_name_that_becomes_free_is_given_again(void **state)
{
	struct kw_quarantine quarantine = {0};

	for (int i = 0; i < 2 * KW_QUARANTINE_NAMES; i++)
		enter(&quarantine, 0, i);
	for (int i = 0; i < KW_QUARANTINE_NAMES; i += 2)
		leave(&quarantine, i);
	assert_int_equal(quarantine.listed, KW_QUARANTINE_NAMES / 2);
	for (int i = 0; i < 2 * KW_QUARANTINE_NAMES; i++)
		enter(&quarantine, 0, i);
	assert_int_equal(quarantine.listed, KW_QUARANTINE_NAMES);
	for (int i = 0; i < 2 * KW_QUARANTINE_NAMES; i++)
		leave(&quarantine, i);
	assert_int_equal(kw_quarantine_count(&quarantine), 0);
	assert_int_equal(quarantine.listed, 0);
	kw_quarantine_close(&quarantine);
}

static void many_keys_leave_with_their_database(void **state)
{
	struct kw_quarantine quarantine = {0};

	for (int i = 0; i < MANY; i++)
		enter(&quarantine, (uint32_t)i % 3, i);
	kw_quarantine_leave_database(&quarantine, 1);
	kw_quarantine_leave_database(&quarantine, 2);
	assert_int_equal(kw_quarantine_count(&quarantine), (MANY + 2) / 3);
	for (int i = 0; i < MANY; i += 3)
		leave(&quarantine, i);
	assert_int_equal(kw_quarantine_count(&quarantine), 0);
	kw_quarantine_close(&quarantine);
}

static void beyond_its_bound_refusals_are_counted(void **state)
{
	struct kw_quarantine quarantine = {0};

	for (int i = 0; i < (int)KW_QUARANTINE_KEYS + 10; i++)
		enter(&quarantine, 0, i);
	assert_int_equal(quarantine.count, KW_QUARANTINE_KEYS);
	assert_int_equal(quarantine.unknown, 10);
	leave(&quarantine, 0);
	assert_int_equal(kw_quarantine_count(&quarantine), KW_QUARANTINE_KEYS + 9);
	kw_quarantine_clear(&quarantine);
	assert_int_equal(kw_quarantine_count(&quarantine), 0);
	kw_quarantine_close(&quarantine);
}

static void a_flush_frees_one_database(void **state)
{
	struct kw_quarantine quarantine = {0};

	for (int i = 0; i < 10; i++)
		enter(&quarantine, (uint32_t)i % 2, i);
	kw_quarantine_leave_database(&quarantine, 1);
	assert_int_equal(kw_quarantine_count(&quarantine), 5);
	for (uint32_t i = 0; i < quarantine.listed; i++)
		assert_int_equal(quarantine.keys[i].database, 0);
	kw_quarantine_close(&quarantine);
}

static void what_was_refused_behind_an_applied_change_stays(void **state)
{
	struct kw_quarantine quarantine = {0};

	quarantine.entering = 5;
	enter(&quarantine, 0, 1);
	quarantine.leaving = 4;
	kw_quarantine_leave_database(&quarantine, 0);
	assert_int_equal(kw_quarantine_count(&quarantine), 1);
	quarantine.leaving = 5;
	kw_quarantine_leave_database(&quarantine, 0);
	assert_int_equal(kw_quarantine_count(&quarantine), 0);
	kw_quarantine_close(&quarantine);
}

static void a_long_key_and_binary_words_are_kept_printable_and_cut(void **state)
{
	struct kw_quarantine quarantine = {0};
	char key[1000];

	memset(key, 'x', sizeof key);
	kw_quarantine_enter(&quarantine, 3, kw_slice(key, sizeof key), kw_slice("\xff\x01ok", 4));
	assert_int_equal(quarantine.keys[0].key_length, 1000);
	assert_string_equal(quarantine.keys[0].reason, "??ok");
	kw_quarantine_leave(&quarantine, 3, kw_slice(key, sizeof key));
	assert_int_equal(kw_quarantine_count(&quarantine), 0);
	kw_quarantine_enter(&quarantine, 3, kw_slice(NULL, 0), kw_slice(NULL, 0));
	assert_int_equal(kw_quarantine_count(&quarantine), 1);
	kw_quarantine_close(&quarantine);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_key_leaves_when_it_was_applied),
		cmocka_unit_test(a_key_refused_again_counts_once),
		cmocka_unit_test(names_are_bounded_and_the_rest_is_counted),
		cmocka_unit_test(keys_without_a_name_count_once_and_leave_too),
		cmocka_unit_test(a_name_that_becomes_free_is_given_again),
		cmocka_unit_test(many_keys_leave_with_their_database),
		cmocka_unit_test(beyond_its_bound_refusals_are_counted),
		cmocka_unit_test(a_flush_frees_one_database),
		cmocka_unit_test(what_was_refused_behind_an_applied_change_stays),
		cmocka_unit_test(a_long_key_and_binary_words_are_kept_printable_and_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
