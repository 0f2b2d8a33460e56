/*
 * The source does what its feed tells, and nothing else makes it read a key. The feed is a fake, so
 * the server's own notifications stay off.
 */
#include "fake_feed.h"
#include "fixture.h"

#include "base/clock.h"
#include "source/source_internal.h"

#include <stdio.h>
#include <string.h>

#define KEYS 300

static struct test test;

/* Live, with KEYS keys in databases 0 and 1 each. */
static void begin(void)
{
	test_begin(&test, "", 0);
	for (int db = 1; db >= 0; db--) {
		test_ask(&test, "SELECT %d", db);
		test_ask(&test, "DEBUG POPULATE %d key 20", KEYS);
	}
	test.options.feed = fake_feed_new;
	test_follow(&test);
	test_until(&test, fake_feed_is_starting, "the start of the feed");
	fake_feed_ready(KW_FEED_SAME_SERVER);
	test_settle(&test);
	test_assert_same(&test);
	test.states[0] = '\0';
}

static void end(void)
{
	fake_feed_end(&test);
}

static void tell_dirty(int from, int count)
{
	struct kw_dirty_key keys[KEYS];
	char names[KEYS][16];

	for (int i = 0; i < count; i++) {
		snprintf(names[i], sizeof names[i], "key:%d", (from + i) % KEYS);
		keys[i] = (struct kw_dirty_key){kw_slice_text(names[i]), 0, KW_DIRTY_EVENT};
	}
	fake_feed_dirty(keys, (size_t)count);
}

static void a_batch_of_dirty_keys_is_read_once_each(void **state)
{
	uint64_t fetches;

	begin();
	fetches = test_stats(&test).fetches;
	for (int i = 0; i < KEYS; i++)
		test_ask(&test, i % 3 ? "SET key:%d new" : "DEL key:%d", i);
	tell_dirty(0, KEYS);
	tell_dirty(KEYS / 2, KEYS); /* again, in another order */
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).fetches, fetches + KEYS);
	assert_int_equal(fake_feed.removed, KEYS / 3);
	assert_int_equal(test_stats(&test).reconciles, 0);
	end();
}

static void a_change_that_is_not_told_is_not_read(void **state)
{
	begin();
	test_ask(&test, "SET key:1 new");
	test_ask(&test, "DEL key:2");
	test_settle(&test);
	assert_false(test_same(&test, false));
	assert_true(test_has(&test, 0, "key:2"));
	tell_dirty(1, 2);
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static void an_expiry_is_asked_for_when_an_event_may_have_set_it(void **state)
{
	struct kw_dirty_key key = {kw_slice_text("key:1"), 0, KW_DIRTY_EVENT | KW_DIRTY_TTL};

	begin();
	test_ask(&test, "EXPIRE key:1 1000");
	fake_feed_dirty(&key, 1);
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static void a_flush_empties_its_database_alone(void **state)
{
	begin();
	test_ask(&test, "SELECT 1");
	test_ask(&test, "FLUSHDB");
	assert_true(fake_feed_empty(1));
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(fake_feed.emptied, 1);
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_string_equal(test.states, "");
	end();
}

static bool has_reconciled(struct test *t)
{
	return strstr(t->states, "reconciling live") && test_is_live(t);
}

static void a_doubt_about_everything_is_reconciled(void **state)
{
	begin();
	for (int db = 0; db < 3; db++) {
		test_ask(&test, "SELECT %d", db);
		test_ask(&test, "SET untold 1");
		test_ask(&test, "DEL key:7");
	}
	fake_feed_doubt(KW_DOUBT_FLAGS, -1);
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles_flags, 1);
	assert_string_equal(test.states, "reconciling live ");
	end();
}

static void a_doubt_about_one_database_reads_that_alone(void **state)
{
	begin();
	test_ask(&test, "SET untold 1");
	test_ask(&test, "SELECT 1");
	test_ask(&test, "SET untold 1");
	fake_feed_doubt(KW_DOUBT_FLUSH, 1);
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	assert_true(test_has(&test, 1, "untold"));
	assert_false(test_has(&test, 0, "untold"));
	assert_int_equal(test_stats(&test).scanned, KEYS + 1);
	assert_int_equal(test_stats(&test).reconciles_flush, 1);
	end();
}

/*
 * Deletes that events named wait to be fetched while another database is in doubt. The reconcile
 * reads that database alone, so it would not find these keys again.
 */
static void a_doubt_about_one_database_leaves_the_events_of_others_their_worth(void **state)
{
	begin();
	test_ask(&test, "DEL key:1 key:2");
	test_ask(&test, "SELECT 1");
	test_ask(&test, "DEL key:3");
	tell_dirty(1, 2);
	fake_feed_doubt(KW_DOUBT_LOADED, 1);
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).scanned, KEYS - 1);
	end();
}

static void become(const char *replid)
{
	snprintf(fake_feed.identity.replid, sizeof fake_feed.identity.replid, "%s", replid);
	fake_feed_doubt(KW_DOUBT_IDENTITY, -1);
	assert_string_equal(kw_table_history(test.table)->replid, replid);
}

/* Also if the state and its reason stay what they are: the second comes in the same reconcile. */
static void another_history_is_told_before_its_data(void **state)
{
	begin();
	become("1111111111111111111111111111111111111111");
	test_until_state(&test, KW_SOURCE_RECONCILING);
	become("2222222222222222222222222222222222222222");
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	end();
}

static const struct kw_superblock *published(void)
{
	kw_table_publish(test.table, kw_wall_us());
	return (const struct kw_superblock *)test.memory;
}

static uint64_t fresh_us(void)
{
	return published()->fresh_us;
}

static uint64_t fresh_before_us;

static bool is_fresher(struct test *t)
{
	return fresh_us() > fresh_before_us;
}

static bool barrier_is_asked(struct test *t)
{
	return fake_feed.barriers_owed > 0;
}

static void the_table_is_fresh_only_after_a_barrier_passed(void **state)
{
	begin();
	fake_feed.barriers = FAKE_HOLD;
	test_until(&test, barrier_is_asked, "a barrier");
	fresh_before_us = fresh_us();
	test_run_ms(&test, 50);
	assert_int_equal(fresh_us(), fresh_before_us);
	fake_feed_passed();
	test_until(&test, is_fresher, "what the barrier proves");
	end();
}

static void a_barrier_proves_nothing_after_doubt_came_up(void **state)
{
	begin();
	fake_feed.barriers = FAKE_HOLD;
	test_until(&test, barrier_is_asked, "a barrier");
	fake_feed_doubt(KW_DOUBT_SWAPDB, -1);
	test_until(&test, has_reconciled, "a reconcile");
	assert_int_equal(fake_feed.barriers_owed, 1);
	assert_int_equal(fresh_us(), 0);
	fake_feed_passed();
	test_run_ms(&test, 5);
	assert_int_equal(fresh_us(), 0);
	fake_feed.barriers = FAKE_PASS;
	test_settle(&test);
	end();
}

static bool has_passed(struct test *t)
{
	return t->source->ticket.sm.state == KW_TICKET_IDLE;
}

/* It was asked for before the examination ended. Nothing but the ticket asks for the next one. */
static void a_ticket_does_not_wait_for_the_next_tick_after_a_barrier_it_missed(void **state)
{
	uint16_t number;

	begin();
	fake_feed.barriers = FAKE_HOLD;
	test_until(&test, barrier_is_asked, "a barrier");
	uv_timer_stop(&test.source->timers[KW_SOURCE_FRESHENING]);
	number = kw_source_ticket(test.source);
	assert_true(kw_source_want_ticket(test.source, kw_ticket_drawn(number)));
	kw_source_begin_ticket(test.source);
	fake_feed_examined();
	fake_feed_passed();
	test_until(&test, barrier_is_asked, "the barrier of the ticket");
	assert_false(has_passed(&test));
	fake_feed_passed();
	test_until(&test, has_passed, "the ticket");
	fake_feed.barriers = FAKE_PASS;
	end();
}

static bool is_judged(struct test *t)
{
	return t->source->store.found.suspected == 0;
}

/* The feed tells of such keys at a pace: the change of this one may be among those to come. */
static void no_difference_is_judged_before_silent_commands_are_told(void **state)
{
	begin();
	fake_feed.silent_due = 1;
	kw_found_suspect(&test.source->store.found, 0, kw_slice_text("key:1"), 0, 1);
	for (int i = 0; i < 5; i++)
		test_settle(&test);
	assert_false(is_judged(&test));
	fake_feed.silent_due = 0;
	test_until(&test, is_judged, "a judgement");
	assert_int_equal(test_stats(&test).audit_differences, 1);
	end();
}

static bool is_down(struct test *t)
{
	return kw_source_state(t->source) == KW_SOURCE_DOWN;
}

/* The data connection answers all the while: the feed's own connection alone is dead. */
static void a_feed_that_waits_in_vain_stalls_the_source_until_it_hears(void **state)
{
	uint64_t reconciles;

	begin();
	reconciles = test_stats(&test).reconciles;
	fake_feed.silent_us = kw_clock_us();
	test_until_state(&test, KW_SOURCE_STALLED);
	assert_string_equal(kw_source_reason_row(test.source)->code, "primary_silent");
	assert_int_equal(published()->source_state, KW_SOURCE_STALLED);
	fake_feed.silent_us = 0;
	test_until_state(&test, KW_SOURCE_LIVE);
	assert_int_equal(test_stats(&test).reconciles, reconciles);
	end();
}

static void lose_and_return(enum kw_feed_server server)
{
	fake_feed.barriers = FAKE_HOLD; /* one under way is forgotten */
	test_until(&test, barrier_is_asked, "a barrier");
	fake_feed_lost("the test took the feed away");
	assert_int_equal(fake_feed.state, FAKE_STOPPING);
	test_until(&test, is_down, "source_down");
	assert_string_equal(kw_source_reason(test.source), "the test took the feed away");
	test_ask(&test, "SET missed 1");
	test_run_ms(&test, 300); /* longer than the pause before the next attempt */
	assert_int_equal(fake_feed.starts, 1);
	fake_feed_stopped();
	test_until(&test, fake_feed_is_starting, "the second start of the feed");
	assert_int_equal(fake_feed.starts, 2);
	fake_feed.barriers = FAKE_PASS;
	fake_feed_ready(server);
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
}

static void a_feed_that_was_lost_and_is_back_costs_a_reconcile(void **state)
{
	begin();
	lose_and_return(KW_FEED_SAME_SERVER);
	assert_int_equal(test_stats(&test).reconciles_connection, 1);
	assert_int_equal(test_stats(&test).reconciles_identity, 0);
	end();
}

static void a_feed_that_is_back_at_another_server_says_so(void **state)
{
	begin();
	lose_and_return(KW_FEED_ANOTHER_SERVER);
	assert_int_equal(test_stats(&test).reconciles_connection, 0);
	assert_int_equal(test_stats(&test).reconciles_identity, 1);
	end();
}

static void lose_and_go_on(void)
{
	fake_feed_lost("the test took the feed away");
	test_until(&test, is_down, "source_down");
	fake_feed_stopped();
	test_until(&test, fake_feed_is_starting, "the second start of the feed");
	fake_feed_ready(KW_FEED_CONTINUED_SERVER);
}

static void a_feed_that_goes_on_where_it_was_costs_no_scan(void **state)
{
	begin();
	tell_dirty(0, KEYS); /* some are in flight when it breaks */
	lose_and_go_on();
	test_ask(&test, "SET key:1 new");
	tell_dirty(1, 1);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0);
	assert_int_equal(test_stats(&test).scanned, 2 * KEYS);
	end();
}

/* That the feed missed nothing says nothing of what was in doubt before. */
static void a_doubt_that_was_not_mended_is_mended_after_the_break(void **state)
{
	begin();
	test_ask(&test, "SET untold 1");
	fake_feed_doubt(KW_DOUBT_FLAGS, -1);
	lose_and_go_on();
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static void what_the_operator_asks_during_a_break_is_done_after_it(void **state)
{
	begin();
	test_ask(&test, "SET untold 1");
	fake_feed_lost("the test took the feed away");
	kw_source_reconcile(test.source, "the test asks for it");
	fake_feed_stopped();
	test_until(&test, fake_feed_is_starting, "the second start of the feed");
	fake_feed_ready(KW_FEED_CONTINUED_SERVER);
	test_until(&test, has_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static void a_feed_that_is_lost_before_it_was_ready_is_started_again(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "SET key 1");
	test.options.feed = fake_feed_new;
	test_follow(&test);
	test_until(&test, fake_feed_is_starting, "the start of the feed");
	fake_feed_lost("no");
	test_until(&test, is_down, "source_down");
	fake_feed_stopped();
	test_until(&test, fake_feed_is_starting, "the second start of the feed");
	fake_feed_ready(KW_FEED_SAME_SERVER);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles, 0); /* it was the first scan */
	end();
}

static bool has_looked(struct test *t)
{
	return fake_feed.looks > 2;
}

static void the_feed_is_asked_to_look_and_learns_what_is_stored(void **state)
{
	begin();
	assert_int_equal(fake_feed.stored, 2 * KEYS);
	test_until(&test, has_looked, "looks");
	end();
}

static bool reads_at_once(struct test *t)
{
	return fake_feed.waits == FAKE_READS_AT_ONCE;
}

static bool may_wait(struct test *t)
{
	return fake_feed.waits == FAKE_WAITS;
}

static void the_feed_may_wait_unless_the_primary_has_time_to_spare(void **state)
{
	struct kw_pace *pace;

	begin();
	assert_true(may_wait(&test));
	kw_source_set_primary_share(test.source, 0.5); /* with 1 it need not look */
	test_until(&test, reads_at_once, "the look that finds a primary at rest");
	pace = &test.source->pacing.pace;
	pace->load = KW_PACE_SATURATED; /* until the next look */
	pace->looked_us = pace->asked_us = kw_clock_us();
	test_until(&test, may_wait, "the feed being told");
	test_until(&test, reads_at_once, "the look that finds it at rest again");
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_of_dirty_keys_is_read_once_each),
		cmocka_unit_test(a_change_that_is_not_told_is_not_read),
		cmocka_unit_test(an_expiry_is_asked_for_when_an_event_may_have_set_it),
		cmocka_unit_test(a_flush_empties_its_database_alone),
		cmocka_unit_test(a_doubt_about_everything_is_reconciled),
		cmocka_unit_test(a_doubt_about_one_database_reads_that_alone),
		cmocka_unit_test(
			a_doubt_about_one_database_leaves_the_events_of_others_their_worth),
		cmocka_unit_test(another_history_is_told_before_its_data),
		cmocka_unit_test(the_table_is_fresh_only_after_a_barrier_passed),
		cmocka_unit_test(a_barrier_proves_nothing_after_doubt_came_up),
		cmocka_unit_test(a_feed_that_waits_in_vain_stalls_the_source_until_it_hears),
		cmocka_unit_test(
			a_ticket_does_not_wait_for_the_next_tick_after_a_barrier_it_missed),
		cmocka_unit_test(no_difference_is_judged_before_silent_commands_are_told),
		cmocka_unit_test(a_feed_that_was_lost_and_is_back_costs_a_reconcile),
		cmocka_unit_test(a_feed_that_is_back_at_another_server_says_so),
		cmocka_unit_test(a_feed_that_goes_on_where_it_was_costs_no_scan),
		cmocka_unit_test(a_doubt_that_was_not_mended_is_mended_after_the_break),
		cmocka_unit_test(what_the_operator_asks_during_a_break_is_done_after_it),
		cmocka_unit_test(a_feed_that_is_lost_before_it_was_ready_is_started_again),
		cmocka_unit_test(the_feed_may_wait_unless_the_primary_has_time_to_spare),
		cmocka_unit_test(the_feed_is_asked_to_look_and_learns_what_is_stored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
