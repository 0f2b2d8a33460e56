/* What the local server says of its clock and of expired keys, and the rounds that follow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/cause.h"

#define SECOND UINT64_C(1000000)
#define EPOCH (UINT64_C(1700000000) * SECOND)

/* A server that is asked each second. */
struct server {
	struct kw_causes causes;
	struct kw_cause_look look;
	int64_t ahead_us;
};

static struct server begin(void)
{
	struct server server = {
		.look = {.told_us = 50 * SECOND, .expires = 5000, .level = true},
	};

	kw_causes_init(&server.causes);
	return server;
}

static enum kw_cause look_late(struct server *server, uint64_t late_us)
{
	struct kw_cause_look *look = &server->look;

	look->asked_us = look->told_us + SECOND;
	look->told_us = look->asked_us + late_us;
	look->server_us = (uint64_t)((int64_t)(EPOCH + look->asked_us) + server->ahead_us);
	return kw_causes_look(&server->causes, look);
}

static enum kw_cause look(struct server *server)
{
	return look_late(server, 200);
}

/* The first cause of all looks in that time. */
static enum kw_cause look_for(struct server *server, uint64_t us)
{
	uint64_t end_us = server->look.told_us + us;
	enum kw_cause cause = KW_CAUSE_NONE;

	while (server->look.told_us <= end_us && cause == KW_CAUSE_NONE)
		cause = look(server);
	return cause;
}

static void a_clock_that_runs_is_no_cause(void **state)
{
	struct server server = begin();

	for (int i = 0; i < 1000; i++) {
		server.ahead_us += 2000; /* slewed, and badly */
		assert_int_equal(look(&server), KW_CAUSE_NONE);
	}
	assert_false(kw_causes_due(&server.causes, UINT64_MAX));
}

static void a_jump_is_a_cause_either_way(void **state)
{
	struct server server = begin();

	look(&server);
	server.ahead_us = 3600 * (int64_t)SECOND;
	assert_int_equal(look(&server), KW_CAUSE_CLOCK);
	assert_int_equal(look(&server), KW_CAUSE_NONE);
	server.ahead_us = 0;
	assert_int_equal(look(&server), KW_CAUSE_CLOCK);
	assert_int_equal(look(&server), KW_CAUSE_NONE);
	assert_int_equal(server.causes.told, 2);
}

/* A server that answers after seconds has read its clock at any moment of them. */
static void an_answer_that_comes_late_is_no_jump(void **state)
{
	struct server server = begin();

	look(&server);
	for (int i = 0; i < 20; i++)
		assert_int_equal(look_late(&server, i % 3 == 0 ? 5 * SECOND : 100), KW_CAUSE_NONE);
}

static void another_connection_begins_anew(void **state)
{
	struct server server = begin();

	look(&server);
	server.ahead_us = 3600 * (int64_t)SECOND;
	kw_causes_forget(&server.causes);
	assert_int_equal(look(&server), KW_CAUSE_NONE);
	assert_int_equal(look(&server), KW_CAUSE_NONE);
}

static void a_server_that_does_not_tell_its_clock_never_jumps(void **state)
{
	struct server server = begin();

	for (int i = 0; i < 5; i++) {
		server.look.asked_us += SECOND;
		server.look.told_us = server.look.asked_us + 10;
		server.look.server_us = 0;
		assert_int_equal(kw_causes_look(&server.causes, &server.look), KW_CAUSE_NONE);
	}
}

static void keys_that_expire_unexplained_are_a_cause(void **state)
{
	struct server server = begin();

	server.look.expired = 100000; /* before it was looked at: of no interest */
	look(&server);
	server.look.expired += 5000;
	server.look.expires = 0;
	assert_int_equal(look_for(&server, 2 * KW_CAUSE_EXPIRED_US), KW_CAUSE_EXPIRED);
	assert_int_equal(look_for(&server, 2 * KW_CAUSE_EXPIRED_US), KW_CAUSE_NONE);
}

/* The local server is quicker: a whole generation of keys expires there before the primary's. */
static void keys_that_expire_here_first_are_none(void **state)
{
	struct server server = begin();

	server.look.expires = 100000;
	look(&server);
	server.look.expired += 100000;
	server.look.expires = 0;
	for (int i = 0; i < 4; i++) {
		assert_int_equal(look(&server), KW_CAUSE_NONE);
		server.look.handed += 20000;
	}
	assert_int_equal(look_for(&server, 2 * KW_CAUSE_EXPIRED_US), KW_CAUSE_NONE);
}

/* A second generation does not inherit the patience that the first one used up. */
static void each_generation_has_its_own_time(void **state)
{
	struct server server = begin();

	server.look.expires = 10000;
	look(&server);
	for (int i = 0; i < 5; i++) {
		server.look.expired += 10000;
		for (int second = 0; second < 4; second++)
			assert_int_equal(look(&server), KW_CAUSE_NONE);
		server.look.handed += 10000;
		assert_int_equal(look(&server), KW_CAUSE_NONE);
	}
}

/* A primary that is written as before says nothing about the keys that expired here. */
static void writes_that_go_on_as_before_explain_nothing(void **state)
{
	struct server server = begin();
	enum kw_cause cause = KW_CAUSE_NONE;

	for (int i = 0; i < 20 && cause == KW_CAUSE_NONE; i++) {
		if (i == 5)
			server.look.expired += 5000;
		server.look.handed += 2000;
		cause = look(&server);
	}
	assert_int_equal(cause, KW_CAUSE_EXPIRED);
}

/* … and what comes beyond that does. */
static void expiries_among_other_writes_are_explained(void **state)
{
	struct server server = begin();

	server.look.expires = 100000;
	for (int i = 0; i < 100; i++) {
		server.look.handed += 2000 + (i % 20 > 11 && i % 20 < 15 ? 20000 : 0);
		server.look.expired += 1000 + (i % 20 == 11 ? 60000 : 0);
		assert_int_equal(look(&server), KW_CAUSE_NONE);
	}
}

static void keys_that_expire_on_both_sides_are_none(void **state)
{
	struct server server = begin();

	server.look.expires = 100000;
	look(&server);
	for (int i = 0; i < 100; i++) {
		server.look.expired += 5000;
		server.look.handed += i % 2 ? 8000 : 2500; /* the primary is late at times */
		assert_int_equal(look(&server), KW_CAUSE_NONE);
	}
}

static void nothing_is_concluded_while_changes_are_still_to_come(void **state)
{
	struct server server = begin();

	look(&server);
	server.look.level = false;
	server.look.expired += 5000;
	assert_int_equal(look(&server), KW_CAUSE_NONE);
	server.look.handed += 4000;
	server.look.level = true;
	assert_int_equal(look(&server), KW_CAUSE_NONE);
}

static void counts_that_begin_anew_are_not_taken_for_expired_keys(void **state)
{
	struct server server = begin();

	server.look.expired = 1000000;
	look(&server);
	server.look.expired = 10;
	server.look.resets = 1;
	assert_int_equal(look(&server), KW_CAUSE_NONE);
}

/* ---- rounds ---- */

static void the_first_cause_is_met_at_once_and_repeated_ones_later_and_later(void **state)
{
	struct kw_causes causes;
	uint64_t now = 5000 * SECOND, pause = 0;

	kw_causes_init(&causes);
	for (int i = 0; i < 8; i++) {
		kw_causes_tell(&causes, KW_CAUSE_WRITES, now);
		if (i == 0)
			assert_true(kw_causes_due(&causes, now));
		else
			assert_false(kw_causes_due(&causes, now));
		assert_true(causes.due_us <= now + 600 * SECOND);
		if (i > 0) {
			assert_true(causes.due_us - now > pause);
			pause = causes.due_us - now;
			now = causes.due_us;
		}
		assert_true(kw_causes_due(&causes, now));
		kw_causes_met(&causes, causes.told, now);
		assert_false(kw_causes_due(&causes, UINT64_MAX));
	}
	now += 1300 * SECOND;
	kw_causes_tell(&causes, KW_CAUSE_WRITES, now);
	assert_true(kw_causes_due(&causes, now));
}

static void a_cause_that_comes_during_a_round_asks_for_another(void **state)
{
	struct kw_causes causes;
	uint64_t now = 5000 * SECOND, told;

	kw_causes_init(&causes);
	kw_causes_tell(&causes, KW_CAUSE_CLOCK, now);
	told = causes.told;
	kw_causes_tell(&causes, KW_CAUSE_CLOCK, now + 1);
	kw_causes_met(&causes, told, now + 2);
	assert_int_equal(causes.present, KW_CAUSE_CLOCK);
	assert_false(kw_causes_due(&causes, now + 3));
	assert_true(kw_causes_due(&causes, now + 2 * SECOND));
	kw_causes_met(&causes, causes.told, now + 3 * SECOND);
	assert_int_equal(causes.present, KW_CAUSE_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clock_that_runs_is_no_cause),
		cmocka_unit_test(a_jump_is_a_cause_either_way),
		cmocka_unit_test(an_answer_that_comes_late_is_no_jump),
		cmocka_unit_test(another_connection_begins_anew),
		cmocka_unit_test(a_server_that_does_not_tell_its_clock_never_jumps),
		cmocka_unit_test(keys_that_expire_unexplained_are_a_cause),
		cmocka_unit_test(keys_that_expire_here_first_are_none),
		cmocka_unit_test(each_generation_has_its_own_time),
		cmocka_unit_test(writes_that_go_on_as_before_explain_nothing),
		cmocka_unit_test(expiries_among_other_writes_are_explained),
		cmocka_unit_test(keys_that_expire_on_both_sides_are_none),
		cmocka_unit_test(nothing_is_concluded_while_changes_are_still_to_come),
		cmocka_unit_test(counts_that_begin_anew_are_not_taken_for_expired_keys),
		cmocka_unit_test(the_first_cause_is_met_at_once_and_repeated_ones_later_and_later),
		cmocka_unit_test(a_cause_that_comes_during_a_round_asks_for_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
