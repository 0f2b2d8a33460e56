/* The last changes of a daemon's state: a bounded ring, told with the newest first. */
#include "control/transitions.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const char *reason_of(const json_t *list, size_t i)
{
	return json_string_value(json_object_get(json_array_get(list, i), "reason"));
}

static void the_newest_is_told_first(void **state)
{
	struct kw_transitions ring = {0};
	json_t *list = kw_transitions_json(&ring, 10);

	assert_int_equal(json_array_size(list), 0);
	json_decref(list);
	kw_transitions_add(&ring, 1, "connecting", "code", "no proxy");
	kw_transitions_add(&ring, 2, "warm", "code", "");
	list = kw_transitions_json(&ring, 10);
	assert_int_equal(json_array_size(list), 2);
	assert_string_equal(reason_of(list, 0), "");
	assert_string_equal(reason_of(list, 1), "no proxy");
	assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 1), "at_us")), 1);
	json_decref(list);
	list = kw_transitions_json(&ring, 1);
	assert_int_equal(json_array_size(list), 1);
	json_decref(list);
	kw_transitions_close(&ring);
}

struct pair {
	const char *before, *after;
	uint64_t count;
};

static void a_reason_that_counts_takes_one_place(void **state)
{
	static const struct pair pairs[] = {
		{"silent for 3 s", "silent for 12 s", 1},
		{"silent for 3 s", "silent for 3 s", 1},
		{"3 keys of 10", "4 keys of 9", 1},
		{"", "", 1},
		{"silent for 3 s", "silent for 3 minutes", 2},
		{"silent for 3 s", "silent for s", 2},
		{"silent", "silent 3", 2},
		{"3", "", 2},
		{"refused by a", "refused by b", 2},
	};

	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
		struct kw_transitions ring = {0};
		json_t *list;

		print_message("%s, %s\n", pairs[i].before, pairs[i].after);
		kw_transitions_add(&ring, 1, "stalled", "code", pairs[i].before);
		kw_transitions_add(&ring, 2, "stalled", "code", pairs[i].after);
		assert_int_equal(ring.count, pairs[i].count);
		list = kw_transitions_json(&ring, 1);
		assert_string_equal(reason_of(list, 0), pairs[i].after);
		json_decref(list);
		kw_transitions_add(&ring, 3, "failed", "code", pairs[i].after);
		assert_int_equal(ring.count, pairs[i].count + 1);
		kw_transitions_close(&ring);
	}
}

static void a_state_lasts_through_all_of_its_reasons(void **state)
{
	struct kw_transitions ring = {0};

	assert_int_equal(kw_transitions_since_us(&ring, "warm"), 0);
	kw_transitions_add(&ring, 1, "lagging", "code", "long ago");
	kw_transitions_add(&ring, 2, "warm", "code", "");
	kw_transitions_add(&ring, 3, "lagging", "code", "paused");
	kw_transitions_add(&ring, 4, "lagging", "code", "behind");
	assert_int_equal(kw_transitions_since_us(&ring, "lagging"), 3);
	assert_int_equal(kw_transitions_since_us(&ring, "warm"), 0);
	kw_transitions_close(&ring);
}

static void the_oldest_is_forgotten_and_a_long_reason_is_cut(void **state)
{
	struct kw_transitions ring = {0};
	char reason[2 * KW_TRANSITION_REASON];
	json_t *list;

	memset(reason, 'x', sizeof reason);
	reason[sizeof reason - 1] = '\0';
	for (uint64_t i = 0; i < 3 * KW_TRANSITIONS; i++)
		kw_transitions_add(&ring, i, i % 2 ? "warm" : "lagging", "code", reason);
	list = kw_transitions_json(&ring, SIZE_MAX);
	assert_int_equal(json_array_size(list), KW_TRANSITIONS);
	assert_int_equal(strlen(reason_of(list, 0)), KW_TRANSITION_REASON);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "at_us")),
		3 * KW_TRANSITIONS - 1);
	json_decref(list);
	kw_transitions_close(&ring);
}

static void a_reason_of_any_bytes_is_told(void **state)
{
	struct kw_transitions ring = {0};
	json_t *list;

	kw_transitions_add(&ring, 1, "failed", "code", "key \xff\xc0");
	list = kw_transitions_json(&ring, 1);
	assert_string_equal(reason_of(list, 0), "key \\xff\\xc0");
	json_decref(list);
	kw_transitions_close(&ring);
}

static void a_list_that_was_told_is_taken_as_it_was(void **state)
{
	struct kw_transitions ring = {0}, other = {0};
	json_t *told, *again;

	for (uint64_t i = 1; i < 2 * KW_TRANSITIONS; i++)
		kw_transitions_add(&ring, i, i % 2 ? "warm" : "lagging", "code", "why");
	told = kw_transitions_json(&ring, SIZE_MAX);
	assert_true(kw_transitions_take(&other, told));
	again = kw_transitions_json(&other, SIZE_MAX);
	assert_true(json_equal(told, again));
	json_decref(told);
	json_decref(again);
	kw_transitions_close(&ring);
	kw_transitions_close(&other);
}

static void a_list_of_another_kind_is_refused_whole(void **state)
{
	static const char *const lists[] = {
		"{}",
		"[1]",
		"[{}]",
		"[{\"at_us\":0,\"state\":\"warm\",\"reason_code\":\"none\",\"reason\":\"\"}]",
		"[{\"at_us\":1,\"state\":\"\",\"reason_code\":\"none\",\"reason\":\"\"}]",
		"[{\"at_us\":1,\"state\":\"warm\",\"reason_code\":\"no code\",\"reason\":\"\"}]",
		"[{\"at_us\":1,\"state\":\"warm\",\"reason_code\":\"none\"}]",
		"[{\"at_us\":1,\"state\":\"warm\",\"reason_code\":\"none\",\"reason\":\"\"},null]",
	};

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		struct kw_transitions ring = {0};
		json_t *list = json_loads(lists[i], 0, NULL);

		assert_false(kw_transitions_take(&ring, list));
		assert_int_equal(ring.count, 0);
		json_decref(list);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_that_was_told_is_taken_as_it_was),
		cmocka_unit_test(a_list_of_another_kind_is_refused_whole),
		cmocka_unit_test(the_newest_is_told_first),
		cmocka_unit_test(a_reason_that_counts_takes_one_place),
		cmocka_unit_test(a_state_lasts_through_all_of_its_reasons),
		cmocka_unit_test(the_oldest_is_forgotten_and_a_long_reason_is_cut),
		cmocka_unit_test(a_reason_of_any_bytes_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
