/* Which keys a value of the stream may not be used for: those of which the table can be ahead. */
#include "source/order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

static struct kw_order order;

static bool guards(const char *key)
{
	return kw_order_guards(&order, 3, kw_slice_text(key));
}

static void fetched(const char *key)
{
	kw_order_fetched(&order, 3, kw_slice_text(key));
}

static int make(void **state)
{
	kw_order_init(&order, 42);
	return 0;
}

/* The first order has passed. */
static int make_even(void **state)
{
	make(state);
	guards("any");
	kw_order_asked(&order);
	kw_order_passed(&order);
	return 0;
}

static void every_key_is_guarded_until_the_first_order_passed(void **state)
{
	assert_false(kw_order_is_due(&order)); /* a feed without values never needs one */
	fetched("a");
	assert_true(guards("a"));
	assert_true(guards("b"));
	assert_true(kw_order_is_due(&order));
	kw_order_asked(&order);
	assert_false(kw_order_is_due(&order));
	assert_true(guards("b"));
	kw_order_passed(&order);
	assert_false(guards("a"));
	assert_false(guards("b"));
	assert_false(kw_order_is_due(&order));
}

static void what_was_fetched_meanwhile_waits_for_the_next_order(void **state)
{
	guards("any");
	kw_order_asked(&order);
	fetched("a");
	kw_order_passed(&order);
	assert_true(guards("a"));
	assert_false(guards("b"));
	assert_true(kw_order_is_due(&order));
}

static void a_fetched_key_is_guarded_until_an_order_asked_after_it_passed(void **state)
{
	fetched("a");
	assert_true(guards("a"));
	assert_false(guards("b"));
	kw_order_asked(&order);
	assert_true(guards("a"));
	fetched("b");
	assert_false(kw_order_is_due(&order)); /* one at a time */
	kw_order_passed(&order);
	assert_false(guards("a"));
	assert_true(guards("b"));
	assert_true(kw_order_is_due(&order));
	kw_order_asked(&order);
	kw_order_passed(&order);
	assert_false(guards("b"));
	assert_false(kw_order_is_due(&order));
}

static void the_same_name_in_another_database_is_another_key(void **state)
{
	fetched("a");
	assert_false(kw_order_guards(&order, 4, kw_slice_text("a")));
}

static void nothing_is_known_after_a_reset(void **state)
{
	fetched("a");
	kw_order_asked(&order);
	kw_order_reset(&order);
	assert_false(kw_order_is_due(&order));
	assert_true(guards("b"));
	assert_true(kw_order_is_due(&order));
}

/* Keys share bits: some are guarded in vain, but most are not, and none is left out. */
static void many_keys_are_all_guarded_and_few_others(void **state)
{
	uint32_t in_vain = 0;
	char name[16];

	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "key:%d", i);
		fetched(name);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof name, "key:%d", i);
		assert_true(guards(name));
		snprintf(name, sizeof name, "other:%d", i);
		in_vain += guards(name);
	}
	assert_true(in_vain < 1000);
	kw_order_asked(&order);
	kw_order_passed(&order);
	assert_false(guards("key:1"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(every_key_is_guarded_until_the_first_order_passed, make),
		cmocka_unit_test_setup(what_was_fetched_meanwhile_waits_for_the_next_order, make),
		cmocka_unit_test_setup(
			a_fetched_key_is_guarded_until_an_order_asked_after_it_passed, make_even),
		cmocka_unit_test_setup(the_same_name_in_another_database_is_another_key, make_even),
		cmocka_unit_test_setup(nothing_is_known_after_a_reset, make_even),
		cmocka_unit_test_setup(many_keys_are_all_guarded_and_few_others, make_even),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
