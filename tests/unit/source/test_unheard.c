/* Writes that raise no event, and a load at full speed. */
#include "fixture.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct test test;

static bool is_same(struct test *t)
{
	return test_same(t, false);
}

static void silent_writes_to_streams_arrive(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "XADD early 1-1 f v");
	test_ask(&test, "XGROUP CREATE early g 0");
	test_follow(&test);
	for (int i = 1; i < 10; i++)
		test_ask(&test, "XADD late %d-1 f v", i);
	test_ask(&test, "XGROUP CREATE late g 0");
	test_ask(&test, "XGROUP CREATECONSUMER late g me");
	test_ask(&test, "XGROUP CREATECONSUMER early g me");
	test_settle(&test);
	test_ask(&test, "XREADGROUP GROUP g me COUNT 5 STREAMS late early > >");
	test_until(&test, is_same, "what XREADGROUP did");
	test_ask(&test, "XACK late g 1-1 2-1");
	test_until(&test, is_same, "what XACK did");
	test_ask(&test, "XCLAIM late g you 0 3-1");
	test_until(&test, is_same, "what XCLAIM did");
	test_ask(&test, "XAUTOCLAIM late g you 0 0");
	test_until(&test, is_same, "what XAUTOCLAIM did");
	test_ask(&test, "EVAL return{redis.call('XACK','late','g','3-1')} 0");
	test_until(&test, is_same, "what XACK in a script did");
	assert_true(test_stats(&test).silent_refetches >= 5);
	assert_int_equal(test_stats(&test).reconciles, 0);
	test_end(&test);
}

static void the_cache_of_pfcount_arrives(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "PFADD hll a b c");
	for (int i = 0; i < 30; i++)
		test_ask(&test, "PFADD dense %d", i);
	test_ask(&test, "CONFIG SET hll-sparse-max-bytes 1");
	test_ask(&test, "PFADD dense x y z");
	test_follow(&test);
	test_settle(&test);
	test_ask(&test, "PFCOUNT hll");
	test_ask(&test, "PFCOUNT dense");
	test_until(&test, is_same, "what PFCOUNT did");
	assert_true(test_stats(&test).silent_refetches >= 2);
	test_end(&test);
}

/* Both make a sparse one dense. */
static void what_pfdebug_does_arrives(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "PFADD read a b c");
	test_ask(&test, "PFADD dense a b c");
	test_follow(&test);
	test_settle(&test);
	test_ask(&test, "EVAL redis.call('PFDEBUG','GETREG','read')return(1) 0");
	test_ask(&test, "PFDEBUG TODENSE dense");
	test_until(&test, is_same, "what PFDEBUG did");
	assert_int_equal(test_stats(&test).reconciles, 0);
	test_end(&test);
}

static void an_idle_stream_is_left_alone(void **state)
{
	uint64_t fetches;

	test_begin(&test, "", 0);
	test_ask(&test, "XADD stream 1-1 f v");
	test_follow(&test);
	test_settle(&test);
	fetches = test_stats(&test).fetches;
	test_run_ms(&test, 500);
	assert_int_equal(test_stats(&test).fetches, fetches);
	assert_int_equal(test_stats(&test).silent_refetches, 0);
	test_end(&test);
}

static void a_hundred_thousand_keys_at_full_speed_end_equal(void **state)
{
	uint64_t before_us = kw_clock_us();

	srandom(11);
	test_begin(&test, "", 0);
	test_follow(&test);
	for (int i = 0; i < 300000; i++) {
		int key = (int)(random() % 100000);

		if (i % 5000 == 0)
			test_post(&test, "SELECT %d", (int)(random() % 3));
		switch (random() % 8) {
		case 0:
			test_post(&test, "SET s:%d %d PX %d", key, i,
				100 + (int)(random() % 100000000));
			break;
		case 1:
			test_post(&test, "HSET h:%d f%d v g%d w", key, i % 7, i % 5);
			break;
		case 2:
			test_post(&test, "SADD set:%d %d %d", key % 1000, i % 50, key);
			break;
		case 3:
			test_post(&test, "DEL s:%d h:%d z:%d", key, key, key);
			break;
		case 4:
			test_post(&test, "ZADD z:%d %d m%d", key, i, i % 9);
			break;
		case 5:
			test_post(&test, "LPUSH l:%d %d", key % 5000, i);
			break;
		case 6:
			test_post(&test, "RPOP l:%d", key % 5000);
			break;
		default:
			test_post(&test, "SET s:%d %0100d", key, i);
		}
		if (i % 1000 == 0)
			test_try(&test, "PING");
	}
	test_ask(&test, "SELECT 0");
	print_message("written in %.2f s\n", (double)(kw_clock_us() - before_us) * 1e-6);
	test_run_ms(&test, 300); /* short expiries pass */
	test_settle(&test);
	print_message("settled after %.2f s, %llu events, %llu fetches\n",
		(double)(kw_clock_us() - before_us) * 1e-6,
		(unsigned long long)test_stats(&test).events,
		(unsigned long long)test_stats(&test).fetches);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_int_equal(test_stats(&test).rejected_payloads, 0);
	test_end(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silent_writes_to_streams_arrive),
		cmocka_unit_test(the_cache_of_pfcount_arrives),
		cmocka_unit_test(what_pfdebug_does_arrives),
		cmocka_unit_test(an_idle_stream_is_left_alone),
		cmocka_unit_test(a_hundred_thousand_keys_at_full_speed_end_equal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
