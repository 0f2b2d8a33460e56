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
	assert_false(kw_causes_wonder(&server.causes));
	assert_int_equal(look(&server), KW_CAUSE_NONE);
	assert_true(kw_causes_wonder(&server.causes));
	assert_int_equal(look_for(&server, 2 * KW_CAUSE_EXPIRED_US), KW_CAUSE_EXPIRED);
	assert_false(kw_causes_wonder(&server.causes));
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

/* ---- counts that began anew ---- */

/* A look after `us`. */
struct reset_look {
	const char *run_id;
	uint64_t resets, us;
	bool told;
};

static const struct {
	const char *what;
	struct reset_look looks[3];
} reset_looks[] = {
	{"none", {{"a", 0, 1, false}, {"a", 0, 1, false}, {"a", 0, 1, false}}},
	{"before the first look", {{"a", 7, 1, false}, {"a", 7, 1, false}, {"a", 7, 1, false}}},
	{"between two looks", {{"a", 0, 1, false}, {"a", 1, 1, true}, {"a", 1, 1, false}}},
	{"two of them, as long as none is met",
		{{"a", 0, 1, false}, {"a", 1, 1, true}, {"a", 2, 1, false}}},
	{"of another run", {{"a", 0, 1, false}, {"b", 1, 1, false}, {"b", 1, 1, false}}},
	{"in another run, seen since its first look",
		{{"a", 0, 1, false}, {"b", 1, 1, false}, {"b", 2, 1, true}}},
};

static void counts_that_began_anew_are_a_cause(void **state)
{
	for (size_t i = 0; i < sizeof reset_looks / sizeof *reset_looks; i++) {
		uint64_t now = 5000 * SECOND;
		bool told = false;
		struct kw_causes causes;

		kw_causes_init(&causes);
		for (size_t j = 0; j < 3; j++) {
			const struct reset_look *look = &reset_looks[i].looks[j];

			now += look->us * SECOND;
			if (kw_causes_counted(&causes, look->run_id, look->resets, now) !=
				look->told)
				fail_msg("%s: look %d", reset_looks[i].what, (int)j);
			told = told || look->told;
			assert_int_equal(causes.present, told ? KW_CAUSE_RESET : KW_CAUSE_NONE);
			assert_int_equal(kw_causes_due(&causes, now), told);
		}
	}
}

/* What is known of the server's run outlives a connection. */
static void a_reset_is_told_across_connections(void **state)
{
	struct kw_causes causes;

	kw_causes_init(&causes);
	assert_false(kw_causes_counted(&causes, "a", 0, 5000 * SECOND));
	kw_causes_forget(&causes);
	assert_true(kw_causes_counted(&causes, "a", 1, 5001 * SECOND));
}

static struct kw_causes reset_at(uint64_t now_us)
{
	struct kw_causes causes;

	kw_causes_init(&causes);
	kw_causes_counted(&causes, "a", 0, now_us);
	assert_true(kw_causes_counted(&causes, "a", 1, now_us));
	return causes;
}

static void a_reset_during_a_round_for_one_asks_for_another(void **state)
{
	uint64_t now = 5000 * SECOND, told;
	struct kw_causes causes = reset_at(now);

	told = causes.told;
	assert_false(kw_causes_counted(&causes, "a", 2, now + 1));
	kw_causes_met(&causes, told, now, now + 2);
	assert_int_equal(causes.present, KW_CAUSE_RESET);
	assert_false(kw_causes_due(&causes, now + 3));
	assert_true(kw_causes_due(&causes, now + 2 * SECOND));
	told = causes.told;
	kw_causes_met(&causes, told, now + 2 * SECOND, now + 3 * SECOND);
	assert_int_equal(causes.present, KW_CAUSE_NONE);
}

/* The round for it has compared all keys since. */
static void a_round_for_another_cause_meets_a_reset_before_it(void **state)
{
	uint64_t now = 5000 * SECOND;
	struct kw_causes causes = reset_at(now);

	kw_causes_tell(&causes, KW_CAUSE_CLOCK, now);
	assert_int_equal(causes.present, KW_CAUSE_CLOCK);
	kw_causes_met(&causes, causes.told, now, now + 1);
	assert_int_equal(causes.present, KW_CAUSE_NONE);
	kw_causes_counted(&causes, "a", 1, now + 2);
	assert_int_equal(causes.present, KW_CAUSE_NONE);
}

/* … and a round for a reset does not meet what is known to have happened since. */
static void a_cause_during_a_round_for_a_reset_stays(void **state)
{
	uint64_t now = 5000 * SECOND, told;
	struct kw_causes causes = reset_at(now);

	told = causes.told;
	kw_causes_tell(&causes, KW_CAUSE_WRITES, now + 1);
	kw_causes_met(&causes, told, now, now + 2);
	assert_int_equal(causes.present, KW_CAUSE_WRITES);
}

static void a_snapshot_meets_the_resets_before_it_and_no_other_cause(void **state)
{
	uint64_t now = 5000 * SECOND;
	struct kw_causes causes = reset_at(now);

	kw_causes_snapshot(&causes, now + 1);
	assert_int_equal(causes.present, KW_CAUSE_NONE);
	assert_true(causes.resets.due_us <= now + SECOND + 1);
	kw_causes_snapshot(&causes, now + 2 * SECOND); /* nothing is met: no pause */
	now += 2 * SECOND;
	assert_true(causes.resets.due_us <= now);
	kw_causes_snapshot(&causes, now + 1);
	assert_true(kw_causes_counted(&causes, "a", 2, now + 2));
	assert_true(kw_causes_due(&causes, now + 2));
	kw_causes_snapshot(&causes, now + 2);
	assert_true(kw_causes_counted(&causes, "a", 3, now + 2));
	assert_false(kw_causes_due(&causes, now + 2)); /* it has had its pause to begin with */
	kw_causes_tell(&causes, KW_CAUSE_CLOCK, now + 3);
	kw_causes_snapshot(&causes, now + 4);
	assert_int_equal(causes.present, KW_CAUSE_CLOCK);
}

/* Seconds in an hour in which the agent is not warm, on a server whose counts are reset each … */
static unsigned doubted_in_an_hour(unsigned each_s, unsigned round_s, unsigned *rounds)
{
	uint64_t now = 5000 * SECOND, began = 0, told = 0, resets = 0;
	unsigned doubted = 0;
	struct kw_causes causes;

	kw_causes_init(&causes);
	causes.resets.backoff.seed = 1; /* the same pauses each time */
	*rounds = 0;
	for (unsigned second = 0; second < 3600; second++) {
		now += SECOND;
		resets += second % each_s == each_s - 1;
		kw_causes_counted(&causes, "a", resets, now);
		if (began > 0 && now - began >= round_s * SECOND) {
			kw_causes_met(&causes, told, began, now);
			began = 0;
			++*rounds;
		}
		if (began == 0 && kw_causes_due(&causes, now)) {
			began = now;
			told = causes.told;
		}
		doubted += causes.present != KW_CAUSE_NONE;
	}
	return doubted;
}

static void a_tool_that_resets_the_counts_again_and_again_leaves_the_agent_warm(void **state)
{
	static const struct {
		unsigned each_s, round_s, doubted_s, rounds;
	} cases[] = {
		{1, 1, 280, 20}, /* five rounds in a row; in the end one each ten minutes */
		{60, 1, 60, 20},
		{60, 20, 400, 20}, /* rounds that last: a tenth of the time, and some patience */
		{60, 300, 700, 3},
		{3000, 1, 2, 1},
	};
	unsigned rounds;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		unsigned doubted = doubted_in_an_hour(cases[i].each_s, cases[i].round_s, &rounds);

		if (doubted > cases[i].doubted_s || rounds > cases[i].rounds || rounds == 0)
			fail_msg("each %u s, rounds of %u s: %u s, %u rounds", cases[i].each_s,
				cases[i].round_s, doubted, rounds);
	}
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
		kw_causes_met(&causes, causes.told, now, now);
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
	kw_causes_met(&causes, told, now, now + 2);
	assert_int_equal(causes.present, KW_CAUSE_CLOCK);
	assert_false(kw_causes_due(&causes, now + 3));
	assert_true(kw_causes_due(&causes, now + 2 * SECOND));
	kw_causes_met(&causes, causes.told, now + 2 * SECOND, now + 3 * SECOND);
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
		cmocka_unit_test(counts_that_began_anew_are_a_cause),
		cmocka_unit_test(a_reset_is_told_across_connections),
		cmocka_unit_test(a_reset_during_a_round_for_one_asks_for_another),
		cmocka_unit_test(a_round_for_another_cause_meets_a_reset_before_it),
		cmocka_unit_test(a_cause_during_a_round_for_a_reset_stays),
		cmocka_unit_test(a_snapshot_meets_the_resets_before_it_and_no_other_cause),
		cmocka_unit_test(
			a_tool_that_resets_the_counts_again_and_again_leaves_the_agent_warm),
		cmocka_unit_test(the_first_cause_is_met_at_once_and_repeated_ones_later_and_later),
		cmocka_unit_test(a_cause_that_comes_during_a_round_asks_for_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
