/* What is believed of a server that was not watched all the time: its cursor, and that it keeps. */
#include "sync/sync.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A server with data and a cursor of its present run; and nobody else did anything there. */
struct world {
	struct kw_filter filter;
	struct kw_local local;
	struct kw_sync sync;
};

static struct kw_local_facts *setup(struct world *world)
{
	struct kw_local_facts *facts = &world->local.facts;

	*world = (struct world){.sync = {.local = &world->local, .filter = &world->filter}};
	facts->keys = facts->database_keys[0] = 100;
	facts->cursor_kind = KW_CURSOR_OURS;
	facts->cursor.epoch = 1;
	facts->cursor.version = 7;
	facts->cursor.filter = kw_filter_hash(&world->filter);
	kw_key_counts_set(&facts->cursor.key_counts, facts->database_keys);
	snprintf(facts->identity.run_id, sizeof facts->identity.run_id, "this");
	snprintf(facts->cursor.run_id, sizeof facts->cursor.run_id, "this");
	snprintf(facts->policy, sizeof facts->policy, "noeviction");
	assert_true(kw_sync_cursor_holds(&world->sync));
	return facts;
}

static struct kw_local_facts *setup_restarted(struct world *world)
{
	struct kw_local_facts *facts = setup(world);

	snprintf(facts->cursor.run_id, sizeof facts->cursor.run_id, "before");
	facts->cursor.flushes = 3; /* that run's, and gone with it */
	facts->cursor.evicted = 5;
	assert_true(kw_sync_cursor_holds(&world->sync));
	return facts;
}

static void what_this_run_did_since_is_a_doubt(void **state)
{
	struct world world;

	setup(&world)->flushes++;
	assert_false(kw_sync_cursor_holds(&world.sync));
	setup(&world)->evicted++;
	assert_false(kw_sync_cursor_holds(&world.sync));
	setup(&world)->refused++;
	assert_true(kw_sync_cursor_holds(&world.sync));
	world.local.facts.cursor.bond = KW_BOND_LED;
	assert_false(kw_sync_cursor_holds(&world.sync));
}

static void a_policy_that_evicted_nothing_in_this_run_is_none(void **state)
{
	struct world world;
	struct kw_local_facts *facts = setup(&world);

	facts->maxmemory = 1 << 20;
	snprintf(facts->policy, sizeof facts->policy, "allkeys-lru");
	assert_true(kw_sync_cursor_holds(&world.sync));
}

/* An RDB that no longer fits: it evicts before anybody looks. */
static void what_a_restarted_server_evicted_before_the_first_look_is_a_doubt(void **state)
{
	struct world world;

	setup_restarted(&world)->evicted = 1;
	assert_false(kw_sync_cursor_holds(&world.sync));
	/* Nor does it matter that the run before had evicted as many. */
	setup_restarted(&world)->evicted = 5;
	assert_false(kw_sync_cursor_holds(&world.sync));
}

/* Evicted while no agent ran, then saved and restarted: no count says it any more. */
static void a_restarted_server_that_may_evict_is_a_doubt(void **state)
{
	struct world world;
	struct kw_local_facts *facts = setup_restarted(&world);

	facts->maxmemory = 1 << 20;
	assert_true(kw_sync_cursor_holds(&world.sync));
	snprintf(facts->policy, sizeof facts->policy, "volatile-ttl");
	assert_false(kw_sync_cursor_holds(&world.sync));
	facts->maxmemory = 0;
	assert_true(kw_sync_cursor_holds(&world.sync));
}

/* It has no memory even for a claim, and nothing of ours that it could evict to get some. */
static void a_doubt_about_evictions_lets_the_cursor_stand(void **state)
{
	struct world world;
	struct kw_local_facts *facts = setup_restarted(&world);

	facts->maxmemory = 1 << 20;
	snprintf(facts->policy, sizeof facts->policy, "volatile-lru");
	assert_false(kw_sync_cursor_holds(&world.sync));
	assert_true(kw_sync_cursor_stands(&world.sync));
	facts->evicted = 3;
	assert_false(kw_sync_cursor_holds(&world.sync));
	assert_true(kw_sync_cursor_stands(&world.sync));
	setup(&world)->evicted++;
	assert_false(kw_sync_cursor_holds(&world.sync));
	assert_true(kw_sync_cursor_stands(&world.sync));
}

static void a_cursor_whose_data_are_gone_does_not_stand(void **state)
{
	struct world world;

	setup(&world)->flushes++;
	assert_false(kw_sync_cursor_stands(&world.sync));
	setup_restarted(&world)->flushes = 1;
	assert_false(kw_sync_cursor_stands(&world.sync));
	setup_restarted(&world)->database_keys[0] = 1;
	assert_false(kw_sync_cursor_stands(&world.sync));
	setup(&world)->keys = 0;
	assert_false(kw_sync_cursor_stands(&world.sync));
	setup(&world)->cursor.version = 0;
	assert_false(kw_sync_cursor_stands(&world.sync));
	setup(&world)->cursor_kind = KW_CURSOR_NONE;
	assert_false(kw_sync_cursor_stands(&world.sync));
}

static void a_flush_of_a_restarted_server_before_the_first_look_is_a_doubt(void **state)
{
	struct world world;

	setup_restarted(&world)->flushes = 1;
	assert_false(kw_sync_cursor_holds(&world.sync));
	setup_restarted(&world)->flushes = 3;
	assert_false(kw_sync_cursor_holds(&world.sync));
}

/* An INFO that was answered BUSY told nothing. */
static void a_server_has_kept_only_what_an_answer_behind_it_says(void **state)
{
	struct world world;
	struct kw_local_facts *facts = setup(&world);

	assert_true(kw_sync_kept(&world.sync));
	facts->maxmemory = 1 << 20;
	snprintf(facts->policy, sizeof facts->policy, "allkeys-lru");
	assert_false(kw_sync_kept(&world.sync));
	world.local.asks = 5;
	world.local.looks = 4;
	world.sync.kept_ask = 5;
	assert_false(kw_sync_kept(&world.sync));
	world.local.looks = world.local.asks = 6;
	assert_true(kw_sync_kept(&world.sync));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_this_run_did_since_is_a_doubt),
		cmocka_unit_test(a_policy_that_evicted_nothing_in_this_run_is_none),
		cmocka_unit_test(what_a_restarted_server_evicted_before_the_first_look_is_a_doubt),
		cmocka_unit_test(a_restarted_server_that_may_evict_is_a_doubt),
		cmocka_unit_test(a_doubt_about_evictions_lets_the_cursor_stand),
		cmocka_unit_test(a_cursor_whose_data_are_gone_does_not_stand),
		cmocka_unit_test(a_flush_of_a_restarted_server_before_the_first_look_is_a_doubt),
		cmocka_unit_test(a_server_has_kept_only_what_an_answer_behind_it_says),
	};

	return cmocka_run_group_tests_name("agent-trust", tests, NULL, NULL);
}
