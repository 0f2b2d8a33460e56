/*
 * The pace against a simulated primary: one thread, others that want so much of its time, and a
 * proxy with more keys to fetch than it can ever get.
 */
#include "fetch/pace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define TICK_US 1000

struct world {
	struct kw_pace pace;
	struct kw_pace_counts counts;
	uint64_t now_us;
	double wanted;   /* by others, part of the time; above 1: they take whatever they get */
	double capacity; /* part of a core that the server gets */
	double wait_us;  /* of each of our fetches, besides our own work */
	double usec, overhead;     /* of a key: what the server counts, and what it does not */
	double cron_us;            /* of the server's own, each tick */
	double ours_us, others_us; /* truly taken since the last world_reset */
	double left_cpu_us, left_wait_us, left_usec, left_ours_usec;
	bool told; /* the server's waiting for a core is known */
	bool backlog;
};

static void world_init(struct world *world, double share)
{
	*world = (struct world){
		.now_us = 1000000,
		.capacity = 1,
		.wait_us = 30,
		.usec = 0.5,
		.overhead = 0.7,
		.backlog = true,
	};
	kw_pace_init(&world->pace, share, world->now_us);
}

static void world_look(struct world *world)
{
	world->counts.cpu_us = (uint64_t)world->left_cpu_us;
	world->counts.wait_us = (uint64_t)world->left_wait_us;
	world->counts.usec = (uint64_t)world->left_usec;
	world->counts.ours_usec = (uint64_t)world->left_ours_usec;
	kw_pace_look(&world->pace, &world->counts, world->now_us);
}

static void fetch_one(struct world *world)
{
	kw_pace_asked(&world->pace);
	kw_pace_answered(&world->pace);
	world->left_ours_usec += world->usec;
	world->left_usec += world->usec;
	world->left_cpu_us += world->usec + world->overhead;
	world->counts.calls++;
	world->counts.ours_calls++;
	world->counts.dumps++;
}

/* Both have work: a server that serves them in turn gives ours 60 % of a tick at most. */
static double fetch(struct world *world, double capacity_us)
{
	double cost_us = world->usec + world->overhead;
	double by_clock = world->told ? world->usec / world->capacity : world->usec;
	double most_us = world->wanted > 0 ? 0.6 * capacity_us : capacity_us;
	double taken_us = 0;
	bool timed = false;

	while (world->backlog && taken_us + cost_us / 2 <= most_us &&
		kw_pace_allows(&world->pace, world->now_us)) {
		kw_pace_asked(&world->pace);
		kw_pace_answered(&world->pace);
		if (!timed)
			kw_pace_waited(&world->pace, (uint64_t)(world->wait_us + cost_us), 1);
		timed = true;
		taken_us += cost_us;
		world->left_ours_usec += by_clock;
		world->left_usec += by_clock;
		world->counts.calls++;
		world->counts.ours_calls++;
		world->counts.dumps++;
	}
	return taken_us;
}

static void world_tick(struct world *world)
{
	double capacity_us = world->capacity * TICK_US;
	double ours_us = fetch(world, capacity_us);
	double others_us = world->wanted * TICK_US;

	if (others_us > capacity_us - ours_us)
		others_us = capacity_us - ours_us > 0 ? capacity_us - ours_us : 0;
	world->left_usec += others_us * 0.4 / (world->told ? world->capacity : 1);
	if (world->told && (world->backlog || world->wanted > world->capacity))
		world->left_wait_us += TICK_US - capacity_us;
	world->left_cpu_us += others_us + ours_us + world->cron_us;
	world->counts.calls += (uint64_t)(others_us / 1.2);
	world->ours_us += ours_us;
	world->others_us += others_us;
	world->now_us += TICK_US;
	if (kw_pace_due(&world->pace, world->now_us))
		world_look(world);
}

static void world_run(struct world *world, uint32_t ms)
{
	world->ours_us = world->others_us = 0;
	for (uint32_t i = 0; i < ms; i++)
		world_tick(world);
	world->ours_us /= ms * (double)TICK_US;
	world->others_us /= ms * (double)TICK_US;
}

static void assert_between(double value, double least, double most)
{
	if (value < least || value > most)
		fail_msg("%g is not between %g and %g", value, least, most);
}

static struct kw_pace_report report_of(const struct world *world)
{
	struct kw_pace_report report;

	kw_pace_report(&world->pace, &report);
	return report;
}

static void an_idle_primary_is_used_fully(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world_run(&world, 2000);
	assert_between(world.ours_us, 0.99, 1.01);
	assert_false(report_of(&world).holding);
	assert_between(report_of(&world).allowed, 1, 1);
}

static void a_saturated_primary_keeps_all_but_the_share(void **state)
{
	static const double shares[] = {0.05, 0.1, 0.3, 0.5};

	for (size_t i = 0; i < sizeof shares / sizeof *shares; i++) {
		struct world world;

		world_init(&world, shares[i]);
		world.wanted = 2;
		world_run(&world, 1000);
		world_run(&world, 5000);
		assert_between(world.ours_us, shares[i] * 0.7, shares[i] * 1.3);
		assert_between(world.others_us, 1 - shares[i] * 1.3, 1);
		assert_true(report_of(&world).holding);
		assert_between(report_of(&world).taken, shares[i] * 0.7, shares[i] * 1.3);
		assert_between(report_of(&world).busy, 0.99, 1);
	}
}

/* Beside a load, and alone: what fetching took adds up. */
static void what_fetching_cost_the_primary_adds_up(void **state)
{
	static const double wanted[] = {2, 0.5, 0};

	for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
		struct world world;
		double before_us, cost_us;

		world_init(&world, 0.1);
		world.wanted = wanted[i];
		world_run(&world, 1000);
		before_us = report_of(&world).cost_us;
		world_run(&world, 5000);
		cost_us = report_of(&world).cost_us - before_us;
		assert_between(cost_us / (world.ours_us * 5000 * TICK_US), 0.7, 1.3);
	}
}

/* A load that sets in while everything was ours gets its time back at once. */
static void it_yields_within_half_a_second(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world_run(&world, 1000);
	world.wanted = 2;
	world_run(&world, 500);
	world_run(&world, 1000);
	assert_between(world.ours_us, 0.05, 0.13);
}

static void it_is_free_again_within_half_a_second(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 3000);
	world.wanted = 0;
	world_run(&world, 500);
	world_run(&world, 500);
	assert_between(world.ours_us, 0.99, 1.01);
	assert_false(report_of(&world).holding);
}

static void time_left_over_is_taken_and_no_more(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wanted = 0.4;
	world_run(&world, 2000);
	world_run(&world, 5000);
	assert_between(world.others_us, 0.39, 0.41);
	assert_between(world.ours_us, 0.35, 0.5);
}

/* Two processes too many on the machine: never 90 % busy, and saturated all the same. */
static void a_primary_short_of_a_core_is_saturated_too(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world_run(&world, 500); /* what a fetch takes when nobody waits */
	world.capacity = 0.6;
	world.wanted = 2;
	world.wait_us = 3000;
	world_run(&world, 1000);
	world_run(&world, 5000);
	assert_between(world.ours_us, 0.03, 0.09);
	assert_between(world.others_us, 0.5, 0.6);
}

/* Its own waiting tells at once, and the time of its commands by the clock, waits in them, misleads
 * nobody. */
static void a_primary_that_waits_for_a_core_is_saturated(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.told = true;
	world_run(&world, 500);
	world.capacity = 0.4;
	world.wanted = 2;
	world_run(&world, 1000);
	world_run(&world, 5000);
	assert_between(world.ours_us, 0.4 * 0.07, 0.4 * 0.13);
	assert_between(report_of(&world).waiting, 0.55, 0.65);
	assert_between(report_of(&world).key_us, 1.0, 1.4);
	assert_true(report_of(&world).holding);
	world.wanted = 0;
	world_run(&world, 500);
	world_run(&world, 500);
	assert_between(world.ours_us, 0.39, 0.41);
}

/* The host has a tenth of a core left for the server: little is taken by others, but most is
 * wanted. */
static void others_are_known_by_their_part_of_what_the_server_ran(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.told = true;
	world_run(&world, 500);
	world.capacity = 0.08;
	world.wanted = 2;
	world_run(&world, 1000);
	world_run(&world, 5000);
	assert_true(report_of(&world).holding);
	assert_between(world.ours_us, 0.01, 0.03);
}

/* A server that nobody else wants is ours, however little of the machine it gets. */
static void nobody_is_held_back_for_a_host_that_is_busy(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.told = true;
	world.capacity = 0.5;
	world_run(&world, 3000);
	assert_between(world.ours_us, 0.49, 0.51);
	assert_between(report_of(&world).waiting, 0.4, 0.6);
	assert_false(report_of(&world).holding);
}

static void the_share_can_be_changed_at_any_time(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 2000);
	kw_pace_set_share(&world.pace, 0.4);
	world_run(&world, 1000);
	world_run(&world, 2000);
	assert_between(world.ours_us, 0.3, 0.5);
	kw_pace_set_share(&world.pace, 0.02);
	world_run(&world, 1000);
	world_run(&world, 2000);
	assert_between(world.ours_us, 0.01, 0.03);
	kw_pace_set_share(&world.pace, 1);
	world_run(&world, 1000);
	assert_between(world.ours_us, 0.59, 0.61);
	assert_false(report_of(&world).holding);
}

/* From small values to large ones under load: what a key costs is found, the excess paid back. */
static void costs_that_change_are_learnt(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 2000);
	world.usec = 150;
	world_run(&world, 2000);
	world_run(&world, 5000);
	assert_between(world.ours_us, 0.05, 0.13);
	world.usec = 0.5;
	world_run(&world, 10000);
	world_run(&world, 5000);
	assert_between(world.ours_us, 0.05, 0.13);
}

/* What the server does not count is learnt while nobody else is served, and known afterwards. */
static void uncounted_time_is_learnt_while_alone(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.usec = 2;
	world.overhead = 8;
	world_run(&world, 4000);
	assert_between(report_of(&world).key_us, 9, 11);
	world.wanted = 2;
	world_run(&world, 1000);
	world_run(&world, 3000);
	assert_between(world.ours_us, 0.06, 0.13);
}

/*
 * At rest an audit fetches a few keys a second, each in a turn of the server's own, and the
 * server's timers go on: what that comes to a key says nothing of a primary that is at work.
 */
static void a_quiet_primary_teaches_nothing(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world_run(&world, 1000);
	world.backlog = false;
	world.cron_us = 2;
	for (int i = 0; i < 60000; i++) {
		if (i % 10 == 0)
			fetch_one(&world);
		world_tick(&world);
	}
	assert_between(report_of(&world).key_us, 1, 2);
	world.backlog = true;
	world.wanted = 2;
	world_run(&world, 1000);
	world_run(&world, 3000);
	assert_between(world.ours_us, 0.07, 0.13);
	assert_true(report_of(&world).holding);
}

/* Somebody else's DUMPs are not ours: a migration would be taken for our own fetching. */
static void dumps_of_others_are_not_counted(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wanted = 2;
	for (int i = 0; i < 5000; i++) {
		world_tick(&world);
		world.counts.dumps += 500;
		world.counts.ours_calls += 500;
		world.left_ours_usec += 250;
	}
	world_run(&world, 5000);
	assert_between(world.ours_us, 0.05, 0.14);
}

static void counters_set_back_are_no_measurement(void **state)
{
	struct world world;
	struct kw_pace_report before;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 2000);
	before = report_of(&world);
	world.left_usec = world.left_ours_usec = 0;
	world.counts = (struct kw_pace_counts){0};
	world_look(&world);
	assert_true(report_of(&world).allowed == before.allowed);
	world_run(&world, 2000);
	assert_between(world.ours_us, 0.07, 0.13);
}

static void no_share_is_no_limit(void **state)
{
	struct world world;

	world_init(&world, 1);
	world.wanted = 2;
	for (int i = 0; i < 3000; i++) {
		world_tick(&world);
		assert_true(kw_pace_allows(&world.pace, world.now_us));
		assert_int_equal(kw_pace_ready_us(&world.pace, world.now_us), world.now_us);
	}
	assert_false(report_of(&world).holding);
}

/*
 * Short of a core everything costs much, and our own INFO is most of what the server does: that is
 * nobody who could be made to wait.
 */
static void looking_is_no_load(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wait_us = 5000;
	for (int i = 0; i < 3000; i++) {
		world_tick(&world);
		if (i % 100 == 0) {
			world.counts.calls += 2;
			world.counts.looks_calls += 2;
			world.counts.looks_usec += 15000;
			world.left_usec += 15000;
			world.left_cpu_us += 15000;
			world.now_us += 15000;
		}
	}
	assert_between(report_of(&world).allowed, 1, 1);
	assert_between(report_of(&world).key_us, 1, 1.5);
}

/* A key measured to cost ten seconds (the server was stopped meanwhile) does not end fetching. */
static void fetching_goes_on_whatever_a_key_was_measured_to_cost(void **state)
{
	struct world world;
	int keys = 0;

	world_init(&world, 0.01);
	world.wanted = 2;
	world_run(&world, 1000);
	world.pace.key_us = 100000;
	for (int i = 0; i < 60; i++)
		kw_pace_asked(&world.pace);
	world.pace.key_us = 2;
	for (int i = 0; i < 1000; i++) {
		world.now_us += TICK_US;
		assert_true(kw_pace_ready_us(&world.pace, world.now_us) <=
			    world.now_us + KW_PACE_PATIENCE_US);
		if (kw_pace_allows(&world.pace, world.now_us)) {
			kw_pace_asked(&world.pace);
			keys++;
		}
	}
	assert_in_range(keys, 45, 51);
}

static void it_says_when_it_allows_again(void **state)
{
	struct world world;
	uint64_t ready_us;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 3000);
	while (kw_pace_allows(&world.pace, world.now_us))
		kw_pace_asked(&world.pace);
	ready_us = kw_pace_ready_us(&world.pace, world.now_us);
	assert_true(ready_us > world.now_us);
	assert_false(kw_pace_allows(&world.pace, ready_us - 2));
	assert_true(kw_pace_allows(&world.pace, ready_us + 1));
}

/* Key by key, each would cost the server a turn of its loop, with a read and a write. */
static void keys_that_are_held_back_go_in_batches(void **state)
{
	struct world world;
	int batches = 0, keys = 0;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 3000);
	for (int i = 0; i < 100000; i++) {
		bool first = true;

		world.now_us += 10;
		for (; kw_pace_allows(&world.pace, world.now_us); keys++, first = false)
			kw_pace_asked(&world.pace);
		batches += !first;
	}
	assert_in_range(batches, 100, 250);
	assert_in_range(keys, 60000, 110000);
}

static void it_looks_often_only_while_much_is_fetched(void **state)
{
	struct world world;
	int looks = 0;

	world_init(&world, 0.1);
	world.backlog = false;
	for (int i = 0; i < 10000; i++) {
		world.now_us += TICK_US;
		if (kw_pace_due(&world.pace, world.now_us)) {
			world_look(&world);
			looks++;
		}
	}
	assert_in_range(looks, 9, 11);
	world.backlog = true;
	world_run(&world, 1000);
	looks = 0;
	for (int i = 0; i < 1000; i++) {
		kw_pace_asked(&world.pace);
		for (int key = 0; key < 100; key++)
			kw_pace_asked(&world.pace);
		world.now_us += TICK_US;
		if (kw_pace_due(&world.pace, world.now_us)) {
			world_look(&world);
			looks++;
		}
	}
	assert_in_range(looks, 9, 11);
}

/* Another server counts from zero, and is not held to what the last one suffered from. */
static void a_new_connection_begins_without_limit(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 3000);
	assert_false(report_of(&world).allowed == 1);
	kw_pace_forget(&world.pace);
	assert_true(report_of(&world).allowed == 1);
	world.left_cpu_us = world.left_usec = world.left_ours_usec = 0;
	world.counts = (struct kw_pace_counts){0};
	world_run(&world, 1000);
	world_run(&world, 2000);
	assert_between(world.ours_us, 0.07, 0.13);
}

static enum kw_pace_load load_of(const struct world *world)
{
	return kw_pace_load(&world->pace, world->now_us);
}

/* Fetching takes all of it, but nobody else wants it. */
static void a_primary_that_only_fetching_wants_has_time_to_spare(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	assert_int_equal(load_of(&world), KW_PACE_UNKNOWN);
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SPARE);
	world.backlog = false;
	world.wanted = 0.5;
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SPARE);
}

static void a_saturated_primary_is_so_until_much_of_its_time_is_left(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.backlog = false;
	world.wanted = 2;
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SATURATED);
	world.wanted = 0.85;
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SATURATED);
	world.wanted = 0.6;
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SPARE);
	world.wanted = 0.85;
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SPARE);
}

static void saturation_ends_with_the_load(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world.wanted = 2;
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SATURATED);
	world.wanted = 0;
	world_run(&world, 3000);
	assert_int_equal(load_of(&world), KW_PACE_SPARE);
}

static bool lets_wait(const struct world *world)
{
	return kw_pace_lets_wait(&world->pace, world->now_us);
}

static void a_feed_may_wait_beside_a_saturated_primary_alone(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	assert_false(lets_wait(&world)); /* a look tells soon */
	world.backlog = false;
	world.wanted = 0.5;
	world_run(&world, 3000);
	assert_false(lets_wait(&world));
	world.wanted = 2;
	world_run(&world, 3000);
	assert_true(lets_wait(&world));
}

static void a_feed_may_wait_if_nobody_looks_at_the_primary(void **state)
{
	struct world world;

	world_init(&world, 1);
	assert_true(lets_wait(&world));
}

static void the_load_of_a_primary_that_was_not_looked_at_is_unknown(void **state)
{
	struct world world;

	world_init(&world, 0.1);
	world_run(&world, 3000);
	assert_int_equal(kw_pace_load(&world.pace, world.pace.looked_us + KW_PACE_LOAD_US - 1),
		KW_PACE_SPARE);
	assert_int_equal(
		kw_pace_load(&world.pace, world.pace.looked_us + KW_PACE_LOAD_US), KW_PACE_UNKNOWN);
	kw_pace_forget(&world.pace);
	assert_int_equal(load_of(&world), KW_PACE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_primary_is_used_fully),
		cmocka_unit_test(what_fetching_cost_the_primary_adds_up),
		cmocka_unit_test(a_saturated_primary_keeps_all_but_the_share),
		cmocka_unit_test(it_yields_within_half_a_second),
		cmocka_unit_test(it_is_free_again_within_half_a_second),
		cmocka_unit_test(time_left_over_is_taken_and_no_more),
		cmocka_unit_test(a_primary_short_of_a_core_is_saturated_too),
		cmocka_unit_test(a_primary_that_waits_for_a_core_is_saturated),
		cmocka_unit_test(others_are_known_by_their_part_of_what_the_server_ran),
		cmocka_unit_test(nobody_is_held_back_for_a_host_that_is_busy),
		cmocka_unit_test(the_share_can_be_changed_at_any_time),
		cmocka_unit_test(costs_that_change_are_learnt),
		cmocka_unit_test(uncounted_time_is_learnt_while_alone),
		cmocka_unit_test(a_quiet_primary_teaches_nothing),
		cmocka_unit_test(dumps_of_others_are_not_counted),
		cmocka_unit_test(counters_set_back_are_no_measurement),
		cmocka_unit_test(no_share_is_no_limit),
		cmocka_unit_test(looking_is_no_load),
		cmocka_unit_test(fetching_goes_on_whatever_a_key_was_measured_to_cost),
		cmocka_unit_test(it_says_when_it_allows_again),
		cmocka_unit_test(keys_that_are_held_back_go_in_batches),
		cmocka_unit_test(it_looks_often_only_while_much_is_fetched),
		cmocka_unit_test(a_new_connection_begins_without_limit),
		cmocka_unit_test(a_primary_that_only_fetching_wants_has_time_to_spare),
		cmocka_unit_test(a_saturated_primary_is_so_until_much_of_its_time_is_left),
		cmocka_unit_test(saturation_ends_with_the_load),
		cmocka_unit_test(a_feed_may_wait_beside_a_saturated_primary_alone),
		cmocka_unit_test(a_feed_may_wait_if_nobody_looks_at_the_primary),
		cmocka_unit_test(the_load_of_a_primary_that_was_not_looked_at_is_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
