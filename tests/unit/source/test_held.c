/*
 * The brake on deletions by inference: what a sweep does when the primary lacks too many keys. The
 * feed is a fake, so keys can go without an event, and nothing else makes the source read a key.
 */
#include "fake_feed.h"
#include "fixture.h"

#include "base/clock.h"
#include "redis/server.h"
#include "source/source_internal.h"

#include <stdio.h>
#include <string.h>

#define KEYS 2000 /* in each of two databases; the floor is 1000 */

static struct test test;
static uint64_t sweeps_before;

static void begin(double max_missing)
{
	test_begin(&test, "", 0);
	for (int db = 1; db >= 0; db--) {
		test_ask(&test, "SELECT %d", db);
		test_ask(&test, "DEBUG POPULATE %d key 20", KEYS);
	}
	test.options.feed = fake_feed_new;
	test.options.max_missing = max_missing;
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

static uint64_t keys(void)
{
	struct kw_table_stats stats;

	kw_table_stats(test.table, &stats);
	return stats.keys;
}

/* Keys go, and no event tells it: then a sweep. */
static void lose(const char *command, enum kw_doubt cause)
{
	test_ask(&test, "%s", command);
	fake_feed_doubt(cause, -1);
}

static void until_held(void)
{
	test_until_state(&test, KW_SOURCE_HELD);
	assert_int_equal(keys(), 2 * KEYS);
	assert_non_null(strstr(kw_source_reason(test.source), "keywakectl approve"));
}

static void tell(const char *name, uint32_t database)
{
	struct kw_dirty_key key = {kw_slice_text(name), database, KW_DIRTY_EVENT | KW_DIRTY_TTL};

	fake_feed_dirty(&key, 1);
}

static void a_primary_that_lacks_too_much_is_held(void **state)
{
	const struct kw_superblock *superblock;

	begin(0.2);
	superblock = (const struct kw_superblock *)test.memory;
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	assert_int_equal(test_stats(&test).missing_keys, 2 * KEYS);
	assert_int_equal(test_stats(&test).missing_of, 2 * KEYS);
	test_run_ms(&test, 1500);
	assert_int_equal(keys(), 2 * KEYS);
	assert_int_equal(superblock->source_state, KW_SOURCE_HELD);
	assert_int_equal(superblock->complete, 1);
	end();
}

static void one_of_many_databases_is_a_share_of_all_keys(void **state)
{
	begin(0.6);
	lose("FLUSHDB", KW_DOUBT_CONNECTION); /* half of all */
	test_settle(&test);
	test_assert_same(&test);
	end();
	begin(0.4);
	lose("FLUSHDB", KW_DOUBT_CONNECTION);
	until_held();
	end();
}

static void an_approval_lets_them_go(void **state)
{
	char finding[KW_ERROR_TEXT];
	struct kw_error error;

	begin(0.2);
	assert_int_equal(kw_source_approve(test.source, finding, &error), KW_E_STATE);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	assert_int_equal(kw_source_approve(test.source, finding, &error), KW_OK);
	assert_non_null(strstr(finding, "4000 of 4000"));
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(keys(), 0);
	assert_int_equal(fake_feed.emptied, 0); /* what was approved, and not whole databases */
	assert_int_equal(test_stats(&test).approvals, 1);
	/* It was for that finding alone. */
	test_ask(&test, "DEBUG POPULATE %d key 20", KEYS);
	fake_feed_doubt(KW_DOUBT_CONNECTION, -1);
	test_settle(&test);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	test_until_state(&test, KW_SOURCE_HELD);
	assert_int_equal(keys(), KEYS);
	end();
}

static void an_approval_takes_nothing_that_came_back(void **state)
{
	char finding[KW_ERROR_TEXT];
	struct kw_error error;

	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	test_ask(&test, "SELECT 0");
	test_ask(&test, "SET key:7 back");
	tell("key:7", 0);
	assert_int_equal(kw_source_approve(test.source, finding, &error), KW_OK);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(keys(), 1);
	end();
}

static bool told_changes_are_here(struct test *t)
{
	return test_has(t, 0, "fresh") && !test_has(t, 0, "key:3");
}

static void changes_that_are_told_go_on_while_it_is_held(void **state)
{
	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	test_ask(&test, "SELECT 0");
	test_ask(&test, "SET fresh 1");
	tell("fresh", 0);
	tell("key:3", 0); /* it is gone: an event says so */
	test_until(&test, told_changes_are_here, "two changes that were told");
	assert_int_equal(keys(), 2 * KEYS);
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_HELD);
	end();
}

static void keys_that_come_back_release_it(void **state)
{
	char name[32];

	begin(0.2);
	test_ask(&test, "SELECT 1");
	lose("FLUSHDB", KW_DOUBT_CONNECTION);
	until_held();
	test_ask(&test, "DEBUG POPULATE %d key 20", KEYS - 100);
	for (int i = 0; i < KEYS - 100; i++) {
		snprintf(name, sizeof name, "key:%d", i);
		tell(name, 1);
	}
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(keys(), 2 * KEYS - 100);
	assert_int_equal(test_stats(&test).missing_keys, 0);
	end();
}

static void a_flush_that_was_counted_is_not_held(void **state)
{
	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_FLUSH);
	test_settle(&test);
	test_assert_same(&test);
	assert_null(strstr(test.states, "held"));
	end();
}

/* What was missing before a call of FLUSHDB is not explained by it; what is found after it may be.
 */
static void it_is_known_since_when_keys_are_missing(void **state)
{
	const struct kw_feed_handlers *handlers = &fake_feed.handlers;
	uint64_t before_us, looks;

	begin(0.2);
	looks = fake_feed.looks;
	assert_false(handlers->lacked(handlers->arg, UINT64_MAX));
	before_us = kw_clock_us();
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	assert_false(handlers->lacked(handlers->arg, before_us));
	assert_true(handlers->lacked(handlers->arg, kw_clock_us() + 1));
	assert_true(
		fake_feed.looks > looks); /* at once, so that later calls are told from earlier */
	end();
}

static bool is_auditing(struct test *t)
{
	return test_stats(t).reconciles_audit > 0;
}

static bool other_is_empty(struct test *t)
{
	return kw_table_database_keys(t->table, 1) == 0;
}

/*
 * The replication stream names the database of a flush, and tells it while the audit has not
 * counted yet what is missing. (So slow an audit is at its first steps still.)
 */
static void a_flush_that_explains_itself_during_an_audit_is_not_held(void **state)
{
	const struct kw_feed_handlers *handlers = &fake_feed.handlers;
	struct kw_databases other = {0};

	begin(0.2);
	kw_source_set_limits(test.source, 0, 0, 1);
	test_until(&test, is_auditing, "the audit");
	test_ask(&test, "SELECT 1");
	test_ask(&test, "FLUSHDB");
	kw_databases_add(&other, 1);
	handlers->explain(handlers->arg, &other);
	kw_databases_close(&other);
	kw_source_set_limits(test.source, 0, 0, 1000000);
	test_until(&test, other_is_empty, "the end of its keys");
	assert_null(strstr(test.states, "held"));
	end();
}

/* The answer about a flush comes while an audit walks, which takes hours. */
static void what_is_used_up_explains_no_later_loss(void **state)
{
	const struct kw_feed_handlers *handlers = &fake_feed.handlers;
	const struct kw_databases all = {.all = true};
	struct kw_databases other = {0};

	for (int of_all = 0; of_all < 2; of_all++) {
		begin(0.2);
		kw_source_set_limits(test.source, 0, 0, 1);
		test_until(&test, is_auditing, "the audit");
		kw_databases_add(&other, 1);
		handlers->explain(handlers->arg, of_all ? &all : &other);
		handlers->unexplain(handlers->arg, of_all ? &all : &other);
		kw_databases_close(&other);
		test_ask(&test, "SELECT 1");
		test_ask(&test, "FLUSHDB");
		kw_source_set_limits(test.source, 0, 0, 1000000);
		until_held();
		end();
	}
}

static bool other_has_one(struct test *t)
{
	return kw_table_database_keys(t->table, 1) == 1;
}

/*
 * A DEL of more keys than are kept of a command is a doubt and its own explanation. The doubt waits
 * for the sweep under way, and its keys are found gone by the next one.
 */
static void a_delete_that_explains_itself_during_a_sweep_explains_the_next_one(void **state)
{
	const struct kw_feed_handlers *handlers = &fake_feed.handlers;
	uint64_t ended;
	struct kw_databases other = {0};

	begin(0.2);
	ended = test.source->sweep.ended;
	test_ask(&test, "SELECT 1");
	test_ask(&test, "EVAL %s 0", "for\ti=1,1999\tdo\tredis.call('DEL','key:'..i)\tend");
	kw_databases_add(&other, 1);
	fake_feed_doubt(KW_DOUBT_FLAGS, 0);
	fake_feed_doubt(KW_DOUBT_COMMAND, 1);
	handlers->explain(handlers->arg, &other);
	kw_databases_close(&other);
	test_until(&test, other_has_one, "the end of its keys");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test.source->sweep.ended, ended + 2);
	assert_null(strstr(test.states, "held"));
	end();
}

static bool postponed_is_under_way(struct test *t)
{
	return t->source->sweep.ended > sweeps_before && kw_sweep_is_mending(&t->source->sweep);
}

/* Doubts that wait are scanned together. That one of them explains a loss says nothing of others.
 */
static void a_doubt_that_waits_explains_its_own_databases_alone(void **state)
{
	begin(0.2);
	sweeps_before = test.source->sweep.ended;
	fake_feed_doubt(KW_DOUBT_FLAGS, -1); /* is swept at once, … */
	fake_feed_doubt(KW_DOUBT_SWAPDB, 1); /* … and again from here; the others wait */
	fake_feed_doubt(KW_DOUBT_COMMAND, -1);
	fake_feed_doubt(KW_DOUBT_SWAPDB, 1);
	test_until(&test, postponed_is_under_way, "the scan of what waited");
	assert_true(kw_databases_has(&test.source->sweep.explained, 1));
	assert_false(kw_databases_has(&test.source->sweep.explained, 0));
	test_settle(&test);
	end();
}

static void a_flush_that_is_told_releases_it(void **state)
{
	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	assert_true(fake_feed_empty(0));
	assert_true(fake_feed_empty(1));
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static bool untold_is_here(struct test *t)
{
	return test_has(t, 0, "untold");
}

static void a_doubt_while_it_is_held_begins_another_scan(void **state)
{
	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	test_ask(&test, "SELECT 0");
	test_ask(&test, "SET untold 1");
	test.states[0] = '\0';
	fake_feed_doubt(KW_DOUBT_FLAGS, -1); /* which would wait for the end of a scan */
	test_until(&test, untold_is_here, "another scan");
	assert_int_equal(keys(), 2 * KEYS + 1);
	test_until_state(&test, KW_SOURCE_HELD);
	assert_null(strstr(test.states, "reconciling")); /* held all the while */
	fake_feed_doubt(KW_DOUBT_SWAPDB, -1); /* counted: it explains that keys are gone */
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static bool is_down(struct test *t)
{
	return kw_source_state(t->source) == KW_SOURCE_DOWN;
}

static void come_back(enum kw_feed_server server)
{
	fake_feed_lost("the test took the feed away");
	test_until(&test, is_down, "source_down");
	fake_feed_stopped();
	test_until(&test, fake_feed_is_starting, "the next start of the feed");
	fake_feed_ready(server);
}

static void a_connection_that_is_lost_while_held_is_held_again(void **state)
{
	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	come_back(KW_FEED_SAME_SERVER);
	until_held();
	come_back(KW_FEED_ANOTHER_SERVER);
	until_held();
	come_back(KW_FEED_FLUSHED_SERVER);
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static void what_another_server_counted_explains_nothing(void **state)
{
	begin(0.2);
	fake_feed.barriers = FAKE_HOLD;
	lose("FLUSHALL", KW_DOUBT_SWAPDB);
	come_back(KW_FEED_ANOTHER_SERVER); /* before the sweep has ended */
	until_held();
	end();
}

static void keys_that_waited_when_the_server_lost_its_data_wait_for_the_count(void **state)
{
	char name[32];

	begin(0.2);
	kw_source_set_limits(test.source, 1, 0, 0); /* so that they wait */
	for (int i = 0; i < KEYS; i++) {
		snprintf(name, sizeof name, "key:%d", i);
		tell(name, 0);
	}
	test_run_ms(&test, 20);
	test_ask(&test, "FLUSHALL");
	come_back(KW_FEED_ANOTHER_SERVER);
	kw_source_set_limits(test.source, 0, 0, 0);
	until_held();
	end();
}

static uint64_t expires_ms(void)
{
	struct kw_slice value;
	uint64_t ms = 0;

	kw_table_get(test.table, 1, kw_slice_text("key:1999"), &value, &ms);
	return ms;
}

static bool expiry_is_known(struct test *t)
{
	return test_is_live(t) && expires_ms() > 0;
}

static bool expiry_has_passed(struct test *t)
{
	return kw_wall_us() / 1000 > expires_ms() + 100;
}

static void expired_keys_are_not_missing(void **state)
{
	begin(0.2);
	test_ask(&test, "SELECT 1");
	test_ask(
		&test, "EVAL %s 0", "for\ti=0,1999\tdo\tredis.call('PEXPIRE','key:'..i,3000)\tend");
	fake_feed_doubt(KW_DOUBT_FLAGS, -1);
	test_until(&test, expiry_is_known, "the expiry of a key in the table");
	come_back(KW_FEED_SAME_SERVER);
	test_until(&test, expiry_has_passed, "the expiry");
	test_ask(&test, "FLUSHDB"); /* as if the server had expired them all */
	fake_feed_doubt(KW_DOUBT_FLAGS, -1);
	test_settle(&test);
	test_assert_same(&test);
	assert_null(strstr(test.states, "held"));
	end();
}

static void a_share_of_1_holds_nothing(void **state)
{
	begin(1);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	test_settle(&test);
	test_assert_same(&test);
	assert_null(strstr(test.states, "held"));
	end();
}

static void another_share_releases_it(void **state)
{
	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	kw_source_set_max_missing(test.source, 1);
	test_settle(&test);
	test_assert_same(&test);
	end();
}

static void an_audit_is_held_too(void **state)
{
	begin(0.2);
	test_ask(&test, "FLUSHALL");
	kw_source_set_limits(test.source, 0, 0, 1000000);
	until_held();
	end();
}

static bool is_ordering_or_even(struct test *t)
{
	return fake_feed.orders_owed > 0 || t->source->store.values.order.state == KW_ORDER_EVEN;
}

static bool is_fetched(struct test *t)
{
	return test_stats(t).dirty_keys == 0;
}

/* What was fetched is behind the stream: the table is exact. */
static void pass_orders(void)
{
	struct kw_order *order = &test.source->store.values.order;
	const struct kw_databases all = {.all = true};

	fake_feed_value(&(struct kw_feed_value){.kind = KW_FEED_APPEND,
		.name = kw_slice_text("key:0"),
		.bytes = kw_slice_text("x")});
	while (order->state != KW_ORDER_EVEN ||
		!kw_order_has_passed(order, &all, fake_feed.offset)) {
		test_until(&test, is_ordering_or_even, "an order");
		if (fake_feed.orders_owed > 0)
			fake_feed_ordered();
	}
	test_until(&test, is_fetched, "the last fetch");
}

static bool is_awaiting(struct test *t)
{
	return t->source->sweep.sm.state == KW_SWEEP_AWAITING;
}

static bool is_asked_for_barrier(struct test *t)
{
	return fake_feed.barriers_owed > 0;
}

/* What the feed has still to tell may explain why keys are gone. */
static void an_audit_counts_after_a_barrier_that_was_asked_for_after_its_fetches(void **state)
{
	begin(0.2);
	fake_feed.barriers = FAKE_HOLD;
	test_until(&test, is_asked_for_barrier, "a barrier");
	test_ask(&test, "FLUSHALL");
	kw_source_set_limits(test.source, 0, 0, 1000000);
	test_until(&test, is_awaiting, "the end of the audit's fetches");
	fake_feed_passed(); /* it was asked for before them */
	test_until(&test, is_asked_for_barrier, "another barrier");
	test_run_ms(&test, 50);
	assert_true(is_awaiting(&test));
	assert_null(strstr(test.states, "held"));
	fake_feed_passed();
	fake_feed.barriers = FAKE_PASS;
	until_held();
	end();
}

/* The table has keys that the server lost. What is done to them there begins anew. */
static void a_value_that_the_server_may_have_lost_is_not_amended(void **state)
{
	begin(0.2);
	pass_orders();
	test_ask(&test, "FLUSHALL");
	kw_source_set_limits(test.source, 0, 0, 1000000);
	until_held();
	test_ask(&test, "APPEND key:2 x");
	test_run_ms(&test, 1);
	fake_feed_value(&(struct kw_feed_value){.kind = KW_FEED_APPEND,
		.name = kw_slice_text("key:2"),
		.bytes = kw_slice_text("x")});
	test_until(&test, is_fetched, "its fetch");
	assert_int_equal(test_stats(&test).values, 0);
	end();
}

static bool is_past_its_listing(struct test *t)
{
	return t->source->sweep.sm.state == KW_SWEEP_SCANNING;
}

static void what_is_emptied_during_a_sweep_is_no_part_of_the_whole(void **state)
{
	begin(0.6);
	lose("FLUSHDB", KW_DOUBT_CONNECTION); /* half of all, but all of the rest */
	test_until(&test, is_past_its_listing, "the listing");
	test_ask(&test, "SELECT 1");
	test_ask(&test, "FLUSHDB");
	assert_true(fake_feed_empty(1));
	test_until_state(&test, KW_SOURCE_HELD);
	end();
}

static uint64_t answered_since_us;

static bool is_answered(struct test *t)
{
	return t->source->heard.answered_us > answered_since_us;
}

/* A question to the replica that began after this moment is answered. */
static void until_answered(void)
{
	answered_since_us = kw_clock_us();
	test_until(&test, is_answered, "an answer of the replica");
}

/* The server is a replica with this link to its own primary; remembered: the worst of late. */
static void chain_is(enum kw_server_upstream upstream, enum kw_chain remembered)
{
	fake_feed.identity.upstream = upstream;
	until_answered();
	until_answered(); /* a turn of the source lies between them */
	assert_int_equal(test.source->chain, remembered);
}

/* An operator is told meanwhile for how long its primary is silent. */
static void a_replica_is_asked_for_a_sign_of_its_primary_during_a_sweep_too(void **state)
{
	begin(0.2);
	fake_feed.identity.upstream = KW_UPSTREAM_UP;
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	until_answered();
	assert_true(kw_sweep_is_held(&test.source->sweep));
	end();
}

/* Link and data stand, so the sweep goes on where it was. A link that broke is another matter. */
static void a_chain_that_was_silent_during_a_sweep_is_no_doubt(void **state)
{
	uint64_t reconciles;

	begin(0.2);
	lose("FLUSHALL", KW_DOUBT_CONNECTION);
	until_held();
	reconciles = test_stats(&test).reconciles;
	chain_is(KW_UPSTREAM_SILENT, KW_CHAIN_SILENT);
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_DOWN);
	chain_is(KW_UPSTREAM_UP, KW_CHAIN_WHOLE);
	until_held();
	assert_int_equal(test_stats(&test).reconciles, reconciles);
	chain_is(KW_UPSTREAM_DOWN, KW_CHAIN_CUT);
	chain_is(KW_UPSTREAM_SILENT, KW_CHAIN_CUT); /* it is back, and silent */
	chain_is(KW_UPSTREAM_UP, KW_CHAIN_WHOLE);
	until_held();
	assert_int_equal(test_stats(&test).reconciles, reconciles + 1);
	end();
}

static bool is_cut(struct test *at)
{
	return at->source->chain == KW_CHAIN_CUT;
}

static bool is_scanning(struct test *at)
{
	return at->source->sweep.sm.state == KW_SWEEP_SCANNING && at->source->sweep.scanned > 0;
}

/* The step that is in flight when the chain breaks may come, and no other is asked for. */
static void a_scan_of_a_replica_stops_when_its_primary_is_gone(void **state)
{
	uint64_t scanned;

	begin(0.2);
	test_ask(&test, "DEBUG POPULATE 300000 key 20");
	fake_feed_doubt(KW_DOUBT_CONNECTION, -1);
	test_until(&test, is_scanning, "a scan");
	fake_feed.identity.upstream = KW_UPSTREAM_DOWN;
	test_until(&test, is_cut, "a broken chain");
	scanned = test.source->sweep.scanned;
	test_run_ms(&test, 300);
	assert_int_equal(test.source->sweep.sm.state, KW_SWEEP_SCANNING);
	assert_in_range(test.source->sweep.scanned, scanned, scanned + 2 * KW_SCAN_COUNT);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_primary_that_lacks_too_much_is_held),
		cmocka_unit_test(a_scan_of_a_replica_stops_when_its_primary_is_gone),
		cmocka_unit_test(one_of_many_databases_is_a_share_of_all_keys),
		cmocka_unit_test(an_approval_lets_them_go),
		cmocka_unit_test(an_approval_takes_nothing_that_came_back),
		cmocka_unit_test(changes_that_are_told_go_on_while_it_is_held),
		cmocka_unit_test(keys_that_come_back_release_it),
		cmocka_unit_test(a_flush_that_was_counted_is_not_held),
		cmocka_unit_test(it_is_known_since_when_keys_are_missing),
		cmocka_unit_test(a_doubt_that_waits_explains_its_own_databases_alone),
		cmocka_unit_test(a_flush_that_is_told_releases_it),
		cmocka_unit_test(a_doubt_while_it_is_held_begins_another_scan),
		cmocka_unit_test(a_connection_that_is_lost_while_held_is_held_again),
		cmocka_unit_test(what_another_server_counted_explains_nothing),
		cmocka_unit_test(keys_that_waited_when_the_server_lost_its_data_wait_for_the_count),
		cmocka_unit_test(expired_keys_are_not_missing),
		cmocka_unit_test(a_share_of_1_holds_nothing),
		cmocka_unit_test(another_share_releases_it),
		cmocka_unit_test(an_audit_is_held_too),
		cmocka_unit_test(
			an_audit_counts_after_a_barrier_that_was_asked_for_after_its_fetches),
		cmocka_unit_test(a_value_that_the_server_may_have_lost_is_not_amended),
		cmocka_unit_test(what_is_emptied_during_a_sweep_is_no_part_of_the_whole),
		cmocka_unit_test(a_flush_that_explains_itself_during_an_audit_is_not_held),
		cmocka_unit_test(what_is_used_up_explains_no_later_loss),
		cmocka_unit_test(
			a_delete_that_explains_itself_during_a_sweep_explains_the_next_one),
		cmocka_unit_test(a_replica_is_asked_for_a_sign_of_its_primary_during_a_sweep_too),
		cmocka_unit_test(a_chain_that_was_silent_during_a_sweep_is_no_doubt),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
