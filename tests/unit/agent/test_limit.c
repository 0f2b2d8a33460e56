#include "load/limit.h"
#include "table/record.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000000)
#define START UINT64_C(5000000)
#define RATE UINT64_C(1000000)
#define PLENTY (UINT64_C(4) << 20)

static struct kw_record_view record_of(size_t bytes)
{
	static const char key[32];

	assert_true(bytes >= KW_LIMIT_RECORD + sizeof key);
	return (struct kw_record_view){
		.key = kw_slice(key, sizeof key),
		.value = {key, bytes - KW_LIMIT_RECORD - sizeof key},
	};
}

static void spend(struct kw_limit *limit, size_t bytes, uint64_t now_us)
{
	struct kw_record_view record = record_of(bytes);

	kw_limit_spend(limit, &record, 1, now_us);
}

static void without_a_limit_the_server_alone_says_what_it_takes(void **state)
{
	struct kw_limit limit = {0};

	kw_limit_set(&limit, 0, START);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(kw_limit_room(&limit, PLENTY, START), PLENTY);
		spend(&limit, 1000000, START);
	}
	assert_false(kw_limit_holds(&limit, START));
	assert_int_equal(limit.bytes, 100000000);
}

/* Whatever the sizes, and however often it is asked. */
static void no_more_than_the_rate_gets_through(void **state)
{
	const size_t most = 300000;
	struct kw_limit limit = {0};
	uint64_t now_us = START;

	srandom(1);
	kw_limit_set(&limit, RATE, now_us);
	while (now_us < START + 100 * SECOND) {
		uint64_t allowed = (now_us - START) * RATE / SECOND + RATE / 20 + most;

		if (kw_limit_room(&limit, PLENTY, now_us) > 0)
			spend(&limit, 100 + (size_t)random() % (most - 100), now_us);
		assert_true(limit.bytes <= allowed);
		now_us += (uint64_t)random() % 20000;
	}
	/* And not much less, if it is asked often. */
	assert_true(limit.bytes >= 95 * RATE);
}

static void a_large_record_is_paid_off_before_another_goes(void **state)
{
	struct kw_limit limit = {0};

	kw_limit_set(&limit, RATE, START);
	assert_true(kw_limit_room(&limit, PLENTY, START) > 0);
	spend(&limit, 10 * RATE + RATE / 20, START); /* a twentieth was saved */
	assert_int_equal(kw_limit_room(&limit, PLENTY, START + 9900000), 0);
	assert_true(kw_limit_room(&limit, PLENTY, START + 10100000) > 0);
	/* A new limit begins without the debt. */
	spend(&limit, 10 * RATE, START + 10100000);
	kw_limit_set(&limit, 2 * RATE, START + 10200000);
	assert_true(kw_limit_room(&limit, PLENTY, START + 10200000) > 0);
}

static void room_is_given_in_pieces_that_a_second_has_many_of(void **state)
{
	struct kw_limit limit = {0};

	kw_limit_set(&limit, 100 * RATE, START);
	assert_int_equal(kw_limit_room(&limit, UINT64_MAX, START), 5 * RATE);
	assert_int_equal(kw_limit_room(&limit, 1000, START), 1000);
	kw_limit_set(&limit, 65536, START);
	assert_int_equal(kw_limit_room(&limit, PLENTY, START), KW_LIMIT_GRANT_LEAST);
}

static void it_holds_back_only_what_was_wanted(void **state)
{
	struct kw_limit limit = {0};
	uint64_t now_us = START + SECOND / 10;

	kw_limit_set(&limit, RATE, START);
	spend(&limit, RATE, START);
	assert_false(kw_limit_holds(&limit, now_us));
	/* The server has no room either: it is what holds back. */
	assert_int_equal(kw_limit_room(&limit, 0, now_us), 0);
	assert_false(kw_limit_holds(&limit, now_us));
	assert_int_equal(kw_limit_room(&limit, PLENTY, now_us), 0);
	assert_true(kw_limit_holds(&limit, now_us));
	assert_true(kw_limit_holds(&limit, now_us + KW_LIMIT_HOLDS_US - 1));
	assert_false(kw_limit_holds(&limit, now_us + KW_LIMIT_HOLDS_US));
	assert_int_equal(kw_limit_room(&limit, PLENTY, now_us), 0);
	kw_limit_set(&limit, 0, now_us);
	assert_false(kw_limit_holds(&limit, now_us));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_limit_the_server_alone_says_what_it_takes),
		cmocka_unit_test(no_more_than_the_rate_gets_through),
		cmocka_unit_test(a_large_record_is_paid_off_before_another_goes),
		cmocka_unit_test(room_is_given_in_pieces_that_a_second_has_many_of),
		cmocka_unit_test(it_holds_back_only_what_was_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
