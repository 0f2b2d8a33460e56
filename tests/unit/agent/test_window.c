#include "apply/window.h"

#include "base/buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void add(struct kw_window *window, int number)
{
	char text[32];
	struct kw_window_entry *entry;

	snprintf(text, sizeof text, "%d", number);
	entry = kw_window_add(window, strlen(text) + 1);
	memcpy(entry->bytes, text, strlen(text) + 1);
}

static int number_of(const struct kw_window_entry *entry)
{
	return atoi((const char *)entry->bytes);
}

static int send_next(struct kw_window *window)
{
	struct kw_window_entry *entry = kw_window_unsent(window);

	if (!entry)
		return -1;
	kw_window_mark_sent(window);
	return number_of(entry);
}

static void commands_are_sent_and_acknowledged_in_order(void **state)
{
	struct kw_window window = {0};

	for (int i = 0; i < 5000; i++)
		add(&window, i);
	for (int i = 0; i < 5000; i++)
		assert_int_equal(send_next(&window), i);
	assert_int_equal(send_next(&window), -1);
	for (int i = 0; i < 5000; i++) {
		assert_int_equal(number_of(kw_window_awaited(&window)), i);
		assert_false(kw_window_answer(&window, true));
		assert_int_equal(window.first, (uint64_t)i + 1);
	}
	assert_int_equal(window.bytes, 0);
	kw_window_close(&window);
}

static void after_a_failure_all_from_it_on_is_sent_again_once_answers_drained(void **state)
{
	struct kw_window window = {0};

	for (int i = 0; i < 6; i++)
		add(&window, i);
	for (int i = 0; i < 5; i++)
		send_next(&window);
	assert_false(kw_window_answer(&window, true));  /* 0 */
	assert_false(kw_window_answer(&window, false)); /* 1 fails */
	assert_null(kw_window_unsent(&window));         /* nothing new while draining */
	assert_false(kw_window_answer(&window, true));  /* 2: went through, counts for nothing */
	assert_false(kw_window_answer(&window, false)); /* 3: fails as well */
	assert_true(kw_window_answer(&window, true));   /* 4: drained */
	for (int i = 1; i < 6; i++)
		assert_int_equal(send_next(&window), i);
	assert_int_equal(window.first, 1);
	kw_window_close(&window);
}

static void a_failure_with_nothing_behind_it_is_drained_at_once(void **state)
{
	struct kw_window window = {0};

	add(&window, 0);
	send_next(&window);
	assert_true(kw_window_answer(&window, false));
	assert_int_equal(send_next(&window), 0);
	kw_window_close(&window);
}

static void a_lost_connection_makes_all_unacknowledged_unsent(void **state)
{
	struct kw_window window = {0};

	for (int i = 0; i < 4; i++)
		add(&window, i);
	for (int i = 0; i < 4; i++)
		send_next(&window);
	kw_window_answer(&window, true);
	kw_window_answer(&window, false);
	kw_window_rewind(&window);
	for (int i = 1; i < 4; i++)
		assert_int_equal(send_next(&window), i);
	kw_window_close(&window);
}

static void dropping_counts_all_as_done_with(void **state)
{
	struct kw_window window = {0};

	for (int i = 0; i < 100; i++)
		add(&window, i);
	send_next(&window);
	kw_window_rewind(&window);
	kw_window_drop(&window);
	assert_int_equal(window.first, 100);
	assert_int_equal(window.end, 100);
	assert_int_equal(window.bytes, 0);
	add(&window, 100);
	assert_int_equal(send_next(&window), 100);
	kw_window_close(&window);
}

/* Bytes must lie still while they are in flight, whatever is added behind them. */
static void bytes_stay_in_place_until_acknowledged(void **state)
{
	struct kw_window window = {0};
	const uint8_t *place;

	add(&window, 0);
	place = kw_window_unsent(&window)->bytes;
	for (int i = 1; i < 200000; i++)
		add(&window, i);
	assert_ptr_equal(kw_window_unsent(&window)->bytes, place);
	assert_int_equal(number_of(kw_window_unsent(&window)), 0);
	kw_window_close(&window);
}

static void a_command_larger_than_a_block_stands_alone_between_small_ones(void **state)
{
	struct kw_window window = {0};
	struct kw_window_entry *large;

	add(&window, 0);
	large = kw_window_add(&window, KW_WINDOW_BLOCK * 3);
	memset(large->bytes, 'x', KW_WINDOW_BLOCK * 3);
	add(&window, 2);
	assert_int_equal(send_next(&window), 0);
	assert_int_equal(kw_window_unsent(&window)->length, KW_WINDOW_BLOCK * 3);
	kw_window_mark_sent(&window);
	assert_int_equal(send_next(&window), 2);
	for (int i = 0; i < 3; i++)
		kw_window_answer(&window, true);
	assert_int_equal(window.bytes, 0);
	kw_window_close(&window);
}

/* Blocks are reused: a long run through a small window must not grow it (ASan finds what leaks). */
static void a_long_run_reuses_its_blocks(void **state)
{
	struct kw_window window = {0};

	for (int i = 0; i < 1000000; i++) {
		add(&window, i);
		assert_int_equal(send_next(&window), i);
		if (i >= 100)
			kw_window_answer(&window, true);
	}
	assert_true(window.capacity <= 1024);
	assert_true(window.spares <= 2);
	kw_window_close(&window);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(commands_are_sent_and_acknowledged_in_order),
		cmocka_unit_test(after_a_failure_all_from_it_on_is_sent_again_once_answers_drained),
		cmocka_unit_test(a_failure_with_nothing_behind_it_is_drained_at_once),
		cmocka_unit_test(a_lost_connection_makes_all_unacknowledged_unsent),
		cmocka_unit_test(dropping_counts_all_as_done_with),
		cmocka_unit_test(bytes_stay_in_place_until_acknowledged),
		cmocka_unit_test(a_command_larger_than_a_block_stands_alone_between_small_ones),
		cmocka_unit_test(a_long_run_reuses_its_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
