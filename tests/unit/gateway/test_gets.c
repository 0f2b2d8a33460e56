/* Gets over a real table in shared memory, which is written to while the gateway does not look. */
#include "gets_world.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define KEYS 40
#define VALUE GETS_VALUE

struct told {
	struct kw_question question;
	char key[16];
	enum kw_get_outcome outcome;
	char value[VALUE];
	bool done;
};

struct world {
	struct gets_world table;
	struct told told[KEYS];
};

static void open_world(struct world *world, uint32_t max_staleness_ms)
{
	const struct kw_gets_options options = {
		.depth = 16, .places = 1 << 12, .max_staleness_ms = max_staleness_ms};

	gets_world_open(&world->table, &options);
}

static void on_got(void *arg, const struct kw_got *got)
{
	struct told *told = arg;

	assert_false(told->done);
	told->done = true;
	told->outcome = got->outcome;
	assert_int_equal(
		got->why == NULL, got->outcome == KW_GOT_VALUE || got->outcome == KW_GOT_MISSING);
	memset(told->value, 0, VALUE);
	if (got->outcome == KW_GOT_VALUE)
		memcpy(told->value, (const char *)got->payload.data + 1, got->payload.length - 1);
}

/* Ask for KEYS keys in one turn, and run until all are told. */
static void ask(struct world *world, const char *name)
{
	uint64_t ends_us = kw_clock_us() + 30000000;

	kw_gets_post(world->table.gets); /* the end of the turn before */
	usleep(KW_GETS_LOOK_US + 200);   /* what was looked at before does not count */
	for (int i = 0; i < KEYS; i++) {
		struct told *told = &world->told[i];

		snprintf(told->key, sizeof told->key, "%s-%d", name, i);
		told->done = false;
		told->question = (struct kw_question){
			.key = kw_slice_text(told->key), .fn = on_got, .arg = told};
		kw_gets_ask(world->table.gets, &told->question);
		assert_false(told->done);
	}
	kw_gets_post(world->table.gets);
	for (int i = 0; i < KEYS; i++)
		while (!world->told[i].done) {
			assert_true(kw_clock_us() < ends_us);
			uv_run(&world->table.loop, UV_RUN_ONCE);
		}
}

static void all_were(const struct world *world, enum kw_get_outcome outcome)
{
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(world->told[i].outcome, outcome);
}

static void an_incomplete_table_an_old_one_and_none_are_told_apart(void **state)
{
	struct world world;

	open_world(&world, 1000);
	ask(&world, "key");
	all_were(&world, KW_GOT_LOST);
	gets_publish(&world.table, false, 0);
	gets_run_until_state(&world.table, KW_GATEWAY_LOADING);
	ask(&world, "key");
	all_were(&world, KW_GOT_LOADING);
	gets_publish(&world.table, true, 0);
	ask(&world, "key");
	all_were(&world, KW_GOT_STALE);
	gets_publish(&world.table, true, kw_wall_us() - 1500000);
	ask(&world, "key");
	all_were(&world, KW_GOT_STALE);
	gets_publish(&world.table, true, kw_wall_us());
	ask(&world, "key");
	all_were(&world, KW_GOT_MISSING);
	gets_stop_server(&world.table);
	gets_run_until_state(&world.table, KW_GATEWAY_CONNECTING);
	ask(&world, "key");
	all_were(&world, KW_GOT_LOST);
	gets_world_close(&world.table);
}

static void a_key_past_its_time_is_missing(void **state)
{
	struct world world;
	uint64_t now_ms = kw_wall_us() / 1000;
	char key[16];

	open_world(&world, 60000);
	for (int i = 0; i < KEYS; i++) {
		snprintf(key, sizeof key, "key-%d", i);
		gets_put(&world.table, key, "v", i % 2 ? now_ms - 1000 : now_ms + 100000);
	}
	gets_publish(&world.table, true, kw_wall_us());
	gets_run_until_state(&world.table, KW_GATEWAY_SERVING);
	ask(&world, "key");
	for (int i = 0; i < KEYS; i++)
		assert_int_equal(world.told[i].outcome, i % 2 ? KW_GOT_MISSING : KW_GOT_VALUE);
	gets_world_close(&world.table);
}

/*
 * A remembered place is as fresh as the newest look that the lookups were told of. A lookup that
 * began beside a look would count on what it shows, and find a copy that the cleaner left behind.
 */
static void an_answer_is_as_fresh_as_the_look_that_it_counts_on(void **state)
{
	struct world world;
	struct kw_gets_stats stats;
	char key[16], value[VALUE];

	open_world(&world, 60000);
	gets_publish(&world.table, true, kw_wall_us());
	gets_run_until_state(&world.table, KW_GATEWAY_SERVING);
	for (int round = 0; round < 300; round++) {
		for (int i = 0; i < 400; i++) {
			snprintf(key, sizeof key, "other-%d", i % 600);
			snprintf(value, sizeof value, "%d of %d and more of it", round, i);
			gets_put(&world.table, key, value, 0);
		}
		world.table.now_us += 10000;
		kw_table_set_time(world.table.table, world.table.now_us);
		kw_table_tidy(world.table.table);
		for (int i = 0; i < KEYS; i++) {
			snprintf(key, sizeof key, "steady-%d", i);
			snprintf(value, sizeof value, "%d of %d", round, i);
			if (round % 7 == i % 7)
				gets_put(&world.table, key, value, 0);
		}
		gets_publish(&world.table, true, kw_wall_us());
		ask(&world, "steady");
		for (int i = 0; i < KEYS; i++) {
			struct kw_slice right;
			uint64_t expires_ms;

			if (!kw_table_get(world.table.table, 0, kw_slice_text(world.told[i].key),
				    &right, &expires_ms)) {
				assert_int_equal(world.told[i].outcome, KW_GOT_MISSING);
				continue;
			}
			assert_int_equal(world.told[i].outcome, KW_GOT_VALUE);
			assert_memory_equal(world.told[i].value, (const char *)right.data + 1,
				right.length - 1);
		}
	}
	kw_gets_stats(world.table.gets, &stats);
	print_message("%llu by place, %llu by slots\n", (unsigned long long)stats.by_place,
		(unsigned long long)stats.by_slots);
	assert_true(stats.by_place > 300);
	gets_world_close(&world.table);
}

/* An alert on the age must not fall silent when the proxy dies. */
static void the_age_of_the_table_grows_while_the_proxy_is_away(void **state)
{
	struct kw_gets_sight last, now;
	struct world world;

	open_world(&world, 60000);
	gets_publish(&world.table, true, kw_wall_us());
	gets_run_until_state(&world.table, KW_GATEWAY_SERVING);
	gets_stop_server(&world.table);
	gets_run_until_state(&world.table, KW_GATEWAY_CONNECTING);
	kw_gets_sight(world.table.gets, &last);
	assert_int_not_equal(last.age_us, KW_SIGHT_AGE_UNKNOWN);
	usleep(20000);
	kw_gets_sight(world.table.gets, &now);
	assert_int_not_equal(now.age_us, KW_SIGHT_AGE_UNKNOWN);
	assert_true(now.age_us >= last.age_us + 20000);
	gets_world_close(&world.table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_incomplete_table_an_old_one_and_none_are_told_apart),
		cmocka_unit_test(a_key_past_its_time_is_missing),
		cmocka_unit_test(an_answer_is_as_fresh_as_the_look_that_it_counts_on),
		cmocka_unit_test(the_age_of_the_table_grows_while_the_proxy_is_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
