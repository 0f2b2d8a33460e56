/* Which changes of the stream a fetch has, and of which that is not known. */
#include "source/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

static struct kw_order order;

/* A change of ten bytes that begins here. */
static enum kw_order_age age(const char *key, uint64_t begin)
{
	return kw_order_age(
		&order, 3, kw_slice_text(key), (struct kw_order_span){begin, begin + 10});
}

static void fetched(const char *key)
{
	kw_order_fetched(&order, 3, kw_slice_text(key));
}

static void asked_for(const char *key)
{
	kw_order_asked_for(&order, 3, kw_slice_text(key));
}

static void offset_is(uint64_t offset)
{
	assert_true(kw_order_is_due(&order));
	kw_order_asked(&order);
	assert_false(kw_order_is_due(&order)); /* one at a time */
	kw_order_told(&order, offset);
}

static int make(void **state)
{
	kw_order_init(&order, 42);
	return 0;
}

/* The server was at 100 when the first offset was asked for; the stream is at 0. */
static int make_even(void **state)
{
	make(state);
	age("any", 0);
	offset_is(100);
	return 0;
}

static int end(void **state)
{
	kw_order_close(&order);
	return 0;
}

static void all_is_unsure_until_the_stream_is_at_the_first_offset(void **state)
{
	assert_false(kw_order_is_due(&order)); /* a feed without values never needs one */
	fetched("a");
	assert_int_equal(age("a", 0), KW_ORDER_UNSURE);
	assert_int_equal(age("b", 0), KW_ORDER_UNSURE);
	assert_true(kw_order_is_due(&order));
	kw_order_asked(&order);
	assert_false(kw_order_is_due(&order));
	assert_int_equal(age("b", 20), KW_ORDER_UNSURE);
	fetched("c");
	kw_order_told(&order, 100);
	assert_int_equal(age("a", 90), KW_ORDER_UNSURE);
	assert_int_equal(age("a", 100), KW_ORDER_NEW);
	assert_int_equal(age("c", 100), KW_ORDER_NEW);
	assert_false(kw_order_is_due(&order));
}

static void a_change_is_old_before_a_fetch_and_new_after_it(void **state)
{
	fetched("a");
	offset_is(200);
	fetched("b");
	offset_is(300);
	assert_int_equal(age("b", 100), KW_ORDER_OLD);
	assert_int_equal(age("a", 120), KW_ORDER_UNSURE);
	assert_int_equal(age("b", 190), KW_ORDER_OLD);
	assert_int_equal(age("b", 191), KW_ORDER_UNSURE); /* its end decides */
	assert_int_equal(age("a", 199), KW_ORDER_UNSURE); /* its begin does */
	assert_int_equal(age("a", 200), KW_ORDER_NEW);
	assert_int_equal(age("b", 299), KW_ORDER_UNSURE);
	assert_int_equal(age("b", 300), KW_ORDER_NEW);
	assert_false(kw_order_is_due(&order));
}

static void other_keys_are_new(void **state)
{
	fetched("a");
	assert_int_equal(age("b", 100), KW_ORDER_NEW);
	assert_int_equal(
		kw_order_age(&order, 4, kw_slice_text("a"), (struct kw_order_span){100, 110}),
		KW_ORDER_NEW);
}

static void a_fetch_is_unsure_until_the_next_offset_is_told(void **state)
{
	fetched("a");
	assert_int_equal(age("a", 5000), KW_ORDER_UNSURE);
	kw_order_asked(&order);
	fetched("b"); /* answered before the question for the offset is */
	assert_int_equal(age("a", 6000), KW_ORDER_UNSURE);
	kw_order_told(&order, 7000);
	assert_int_equal(age("a", 7000), KW_ORDER_NEW);
	assert_int_equal(age("b", 7000), KW_ORDER_NEW);
	assert_false(kw_order_is_due(&order));
}

static bool has_passed(uint32_t database, uint64_t offset)
{
	struct kw_databases one = {0};
	bool passed;

	kw_databases_add(&one, database);
	passed = kw_order_has_passed(&order, &one, offset);
	kw_databases_close(&one);
	return passed;
}

static void the_stream_has_passed_what_was_fetched_from_the_next_offset_on(void **state)
{
	const struct kw_databases all = {.all = true};

	assert_false(has_passed(3, 99)); /* before the first offset */
	assert_true(has_passed(3, 100));
	fetched("a");
	assert_false(has_passed(3, 5000));
	assert_true(has_passed(4, 5000));
	assert_false(kw_order_has_passed(&order, &all, 5000));
	offset_is(7000);
	assert_false(has_passed(3, 6999));
	assert_true(has_passed(3, 7000));
	assert_true(kw_order_has_passed(&order, &all, 7000));
	kw_order_emptied(&order, 4);
	assert_true(has_passed(3, 7001));
	assert_false(has_passed(4, 7001));
	kw_order_reset(&order);
	assert_false(has_passed(3, 8000));
	assert_true(kw_order_is_due(&order));
}

static void the_last_fetch_of_a_key_counts(void **state)
{
	fetched("a");
	offset_is(200);
	fetched("a");
	offset_is(300);
	assert_int_equal(age("a", 150), KW_ORDER_OLD);
	assert_int_equal(age("a", 200), KW_ORDER_UNSURE);
	assert_int_equal(age("a", 300), KW_ORDER_NEW);
}

/* The fetch may be from before that piece of a command, or from after its last one. */
static void a_change_whose_end_is_not_known_is_not_old(void **state)
{
	fetched("a");
	offset_is(200);
	fetched("a");
	offset_is(300);
	assert_int_equal(kw_order_age(&order, 3, kw_slice_text("a"),
				 (struct kw_order_span){110, UINT64_MAX}),
		KW_ORDER_UNSURE);
}

static void nothing_is_old_for_a_key_whose_answer_was_not_stored(void **state)
{
	fetched("any");
	offset_is(200);
	asked_for("a");
	offset_is(300);
	assert_int_equal(age("a", 110), KW_ORDER_UNSURE);
	assert_int_equal(age("a", 300), KW_ORDER_NEW);
}

/* FLUSHDB │ SET a │ DEL a │ the answer, which is ahead of the stream. */
static void a_database_that_was_emptied_is_one_whose_keys_were_fetched(void **state)
{
	fetched("a");
	offset_is(200);
	kw_order_emptied(&order, 3);
	offset_is(300);
	assert_int_equal(age("a", 110), KW_ORDER_OLD);
	assert_int_equal(age("b", 110), KW_ORDER_OLD);
	assert_int_equal(age("b", 191), KW_ORDER_UNSURE);
	assert_int_equal(age("b", 299), KW_ORDER_UNSURE);
	assert_int_equal(age("b", 300), KW_ORDER_NEW);
}

static void other_databases_are_as_before(void **state)
{
	kw_order_emptied(&order, 4);
	fetched("a");
	offset_is(200);
	assert_int_equal(age("b", 110), KW_ORDER_NEW);
	assert_int_equal(age("a", 110), KW_ORDER_UNSURE);
}

static void a_key_that_was_fetched_after_its_database_was_emptied(void **state)
{
	kw_order_emptied(&order, 3);
	offset_is(200);
	fetched("a");
	offset_is(300);
	assert_int_equal(age("a", 150), KW_ORDER_OLD);
	assert_int_equal(age("b", 150), KW_ORDER_UNSURE);
	assert_int_equal(age("a", 250), KW_ORDER_UNSURE);
	assert_int_equal(age("b", 250), KW_ORDER_NEW);
}

static void none_of_many_databases_is_left_out(void **state)
{
	for (uint32_t db = 0; db <= KW_ORDER_PLACES; db++)
		kw_order_emptied(&order, db);
	offset_is(200);
	for (uint32_t db = 0; db <= KW_ORDER_PLACES; db++)
		assert_int_equal(kw_order_age(&order, db, kw_slice_text("a"),
					 (struct kw_order_span){150, 160}),
			KW_ORDER_UNSURE);
	assert_int_equal(age("a", 200), KW_ORDER_NEW);
}

static void nothing_is_known_after_a_reset(void **state)
{
	fetched("b");
	offset_is(1000);
	fetched("a");
	kw_order_asked(&order);
	kw_order_reset(&order);
	assert_false(kw_order_is_due(&order));
	assert_int_equal(age("b", 0), KW_ORDER_UNSURE);
	offset_is(50); /* another stream: its offsets can be less */
	assert_int_equal(age("a", 50), KW_ORDER_NEW);
	assert_int_equal(age("b", 50), KW_ORDER_NEW);
	fetched("a");
	assert_int_equal(age("a", 60), KW_ORDER_UNSURE);
}

#define MANY (KW_ORDER_BUCKETS * KW_ORDER_PLACES * 2)

static const char *name_of(const char *what, int number)
{
	static char name[32];

	snprintf(name, sizeof name, "%s:%d", what, number);
	return name;
}

/* More than there is room for: none is taken for new, and others are new again when they passed. */
static void none_of_many_fetches_is_left_out(void **state)
{
	for (int i = 0; i < MANY; i++)
		fetched(name_of("key", i));
	for (int i = 0; i < MANY; i++)
		assert_int_equal(age(name_of("key", i), 150), KW_ORDER_UNSURE);
	offset_is(1000);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(age(name_of("key", i), 900), KW_ORDER_UNSURE);
	for (int i = 0; i < MANY; i++)
		assert_int_equal(age(name_of("key", i), 1000), KW_ORDER_NEW);
	fetched("a");
	assert_int_equal(age(name_of("key", 0), 1010), KW_ORDER_NEW);
	assert_int_equal(age("a", 1010), KW_ORDER_UNSURE);
}

/* A tenth of the places: keys that were not fetched are hardly ever taken for fetched ones. */
static void few_others_are_unsure(void **state)
{
	int unsure = 0;

	for (int i = 0; i < MANY / 20; i++)
		fetched(name_of("key", i));
	for (int i = 0; i < MANY; i++)
		unsure += age(name_of("other", i), 150) != KW_ORDER_NEW;
	assert_true(unsure < MANY / 1000);
}

/*
 * A model of a server beside which the stream is late: 50 changes a millisecond, evenly of a
 * million keys. The stream is 1.5 s behind, and ten keys are fetched in a millisecond at most.
 */
#define STORM_KEYS 1000000
#define STORM_RATE 50
#define STORM_LATE_MS 1500
#define STORM_FETCHES 10
#define STORM_BURST 16000 /* fetched at once, as at the end of a sweep */
#define STORM_MS 8000

static struct {
	uint8_t waits[STORM_KEYS];
	uint32_t queue[STORM_RATE * STORM_MS];
	size_t first, count;
	uint64_t random;
} storm = {.random = 88172645463325252};

static struct kw_slice storm_key(uint32_t *number)
{
	storm.random ^= storm.random << 13;
	storm.random ^= storm.random >> 7;
	storm.random ^= storm.random << 17;
	*number = (uint32_t)(storm.random % STORM_KEYS);
	return kw_slice(number, sizeof *number);
}

static void fetch_some(void)
{
	for (int i = 0; i < STORM_FETCHES && storm.first < storm.count; i++) {
		uint32_t *number = &storm.queue[storm.first++];

		storm.waits[*number] = 0;
		kw_order_fetched(&order, 0, kw_slice(number, sizeof *number));
	}
}

/* Returns how many are unsure. */
static int tell_some(uint64_t begin)
{
	uint32_t number;
	int unsure = 0;

	for (uint64_t at = begin; at < begin + STORM_RATE; at++) {
		struct kw_slice key = storm_key(&number);

		if (kw_order_age(&order, 0, key, (struct kw_order_span){at, at + 1}) !=
			KW_ORDER_UNSURE)
			continue;
		unsure++;
		if (!storm.waits[number])
			storm.queue[storm.count++] = number;
		storm.waits[number] = 1;
	}
	return unsure;
}

/* Fetches must not make fetches: some seconds after a burst of them there are none. */
static void a_burst_of_fetches_comes_to_rest(void **state)
{
	uint32_t number;
	int unsure = 0;

	for (uint64_t ms = 0; ms < STORM_MS; ms++) {
		uint64_t server = 100 + (STORM_LATE_MS + ms) * STORM_RATE;

		for (int i = 0; ms == 0 && i < STORM_BURST; i++)
			kw_order_fetched(&order, 0, storm_key(&number));
		fetch_some();
		if (kw_order_is_due(&order))
			offset_is(server);
		if (ms == STORM_MS - 1000)
			unsure = 0;
		unsure += tell_some(100 + ms * STORM_RATE);
	}
	assert_true(unsure < STORM_RATE * 1000 / 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			all_is_unsure_until_the_stream_is_at_the_first_offset, make, end),
		cmocka_unit_test_setup_teardown(
			a_change_is_old_before_a_fetch_and_new_after_it, make_even, end),
		cmocka_unit_test_setup_teardown(other_keys_are_new, make_even, end),
		cmocka_unit_test_setup_teardown(
			a_fetch_is_unsure_until_the_next_offset_is_told, make_even, end),
		cmocka_unit_test_setup_teardown(
			the_stream_has_passed_what_was_fetched_from_the_next_offset_on, make_even,
			end),
		cmocka_unit_test_setup_teardown(the_last_fetch_of_a_key_counts, make_even, end),
		cmocka_unit_test_setup_teardown(
			a_change_whose_end_is_not_known_is_not_old, make_even, end),
		cmocka_unit_test_setup_teardown(
			nothing_is_old_for_a_key_whose_answer_was_not_stored, make_even, end),
		cmocka_unit_test_setup_teardown(
			a_database_that_was_emptied_is_one_whose_keys_were_fetched, make_even, end),
		cmocka_unit_test_setup_teardown(other_databases_are_as_before, make_even, end),
		cmocka_unit_test_setup_teardown(
			a_key_that_was_fetched_after_its_database_was_emptied, make_even, end),
		cmocka_unit_test_setup_teardown(none_of_many_databases_is_left_out, make_even, end),
		cmocka_unit_test_setup_teardown(nothing_is_known_after_a_reset, make_even, end),
		cmocka_unit_test_setup_teardown(none_of_many_fetches_is_left_out, make_even, end),
		cmocka_unit_test_setup_teardown(few_others_are_unsure, make_even, end),
		cmocka_unit_test_setup_teardown(a_burst_of_fetches_comes_to_rest, make_even, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
