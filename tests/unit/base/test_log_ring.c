#include "base/log_ring.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ROUNDS 20000

static struct kw_log_ring ring;
static struct kw_log_line line;

static int empty(void **state)
{
	memset(&ring, 0, sizeof ring);
	return 0;
}

static void an_empty_ring_has_no_line(void **state)
{
	assert_false(kw_log_ring_get(&ring, 0, &line));
	assert_false(kw_log_ring_get(&ring, 1, &line));
}

static void lines_come_back_as_they_were_with_numbers_from_1_on(void **state)
{
	kw_log_ring_add(&ring, 5, KW_LOG_WARN, "agent", "slow");
	kw_log_ring_add(&ring, 6, KW_LOG_INFO, "source", "");
	assert_true(kw_log_ring_get(&ring, 0, &line));
	assert_int_equal(line.number, 1);
	assert_int_equal(line.at_us, 5);
	assert_int_equal(line.level, KW_LOG_WARN);
	assert_string_equal(line.where, "agent");
	assert_string_equal(line.text, "slow");
	assert_true(kw_log_ring_get(&ring, 2, &line));
	assert_int_equal(line.number, 2);
	assert_string_equal(line.text, "");
	assert_false(kw_log_ring_get(&ring, 3, &line));
}

static void no_more_lines_are_kept_than_there_are_places(void **state)
{
	for (int i = 0; i < KW_LOG_RING_LINES + 10; i++)
		kw_log_ring_add(&ring, 1, KW_LOG_INFO, "a", "b");
	assert_int_equal(ring.count, KW_LOG_RING_LINES);
	assert_true(kw_log_ring_get(&ring, 1, &line));
	assert_int_equal(line.number, 11);
}

static void what_is_too_long_is_cut(void **state)
{
	char large[2 * KW_LOG_TEXT];

	memset(large, 'x', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	kw_log_ring_add(&ring, 1, KW_LOG_INFO, large, large);
	assert_true(kw_log_ring_get(&ring, 1, &line));
	assert_int_equal(strlen(line.where), KW_LOG_WHERE - 1);
	assert_int_equal(strlen(line.text), KW_LOG_TEXT - 1);
}

/* The text of a line of the test below: known from its number, of any length. */
static void text_of(uint64_t number, char text[KW_LOG_TEXT])
{
	size_t length = (size_t)(number * 7919 % (KW_LOG_TEXT - 1));

	memset(text, (int)('a' + number % 26), length);
	text[length] = '\0';
}

/* Each line that is kept is whole, none between two kept ones is lost, and there are many. */
static void check_kept(uint64_t last)
{
	char text[KW_LOG_TEXT];
	uint64_t number = 0;
	size_t bytes = 0;

	while (kw_log_ring_get(&ring, number + 1, &line)) {
		assert_true(number == 0 || line.number == number + 1);
		number = line.number;
		text_of(number, text);
		assert_string_equal(line.text, text);
		bytes += strlen(text);
	}
	assert_int_equal(number, last);
	if (last > KW_LOG_RING_LINES)
		assert_true(bytes > KW_LOG_RING_BYTES / 2);
}

static void the_oldest_lines_make_room_and_the_others_stay_whole(void **state)
{
	char text[KW_LOG_TEXT];

	for (uint64_t number = 1; number <= ROUNDS; number++) {
		text_of(number, text);
		kw_log_ring_add(&ring, number, KW_LOG_INFO, "w", text);
		if (number < 300 || number % 97 == 0)
			check_kept(number);
	}
}

#define TEST(name) cmocka_unit_test_setup(name, empty)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_empty_ring_has_no_line),
		TEST(lines_come_back_as_they_were_with_numbers_from_1_on),
		TEST(no_more_lines_are_kept_than_there_are_places),
		TEST(what_is_too_long_is_cut),
		TEST(the_oldest_lines_make_room_and_the_others_stay_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
