/*
 * What the stream feed tells in parts: a command of many keys, and what waits for its end; a flush,
 * and what became of it. Between the source and
 * the feed stands a tap, so that the test decides when the feed gets a turn.
 */
#include "fixture.h"

#include "feed/stream/stream.h"
#include "source/source_internal.h"

#include <string.h>

/* A first attach is a full synchronisation, for which servers wait some seconds by default. */
#define AT_ONCE "--repl-diskless-sync-delay 0"

#define KEYS 40000 /* of one command: more than are told in a loop turn */

enum turns { TURNS_PASS, TURNS_HELD };

static struct test test;

static struct {
	struct kw_feed_handlers handlers; /* of the source */
	const struct kw_feed_operations *real;
	struct kw_feed_operations operations;
	enum turns turns;
	unsigned barriers; /* asked for, not passed */
	unsigned gone;     /* values told: a key is gone */
	bool is_dirty;     /* `hash` was told */
	bool was_dirty;    /* … before the barrier passed */
	char flushes[16];  /* what was told of them: explained, used up, Empty */
} tap;

static bool answered;

/* ---- the tap ---- */

static void hear_value(void *arg, const struct kw_feed_value *value)
{
	tap.gone += value->kind == KW_FEED_GONE;
	tap.handlers.value(arg, value);
}

static void hear_dirty(void *arg, const struct kw_dirty_key *keys, size_t count)
{
	for (size_t i = 0; i < count; i++)
		tap.is_dirty |= kw_slice_equal(keys[i].name, kw_slice_text("hash"));
	tap.handlers.dirty(arg, keys, count);
}

static void note_flush(char letter)
{
	size_t length = strlen(tap.flushes);

	assert_true(length + 1 < sizeof tap.flushes);
	tap.flushes[length] = letter;
}

static void hear_explain(void *arg, const struct kw_databases *databases)
{
	assert_true(kw_databases_has(databases, 0));
	note_flush('e');
	tap.handlers.explain(arg, databases);
}

static void hear_unexplain(void *arg, const struct kw_databases *databases)
{
	assert_true(kw_databases_has(databases, 0));
	note_flush('u');
	tap.handlers.unexplain(arg, databases);
}

static bool hear_empty(void *arg, uint32_t database)
{
	note_flush('E');
	return tap.handlers.empty(arg, database);
}

static void hear_passed(void *arg)
{
	tap.barriers--;
	tap.was_dirty = tap.is_dirty;
	tap.handlers.passed(arg);
}

/* While turns are held the test asks, later. */
static void ask_barrier(struct kw_feed *feed)
{
	tap.barriers++;
	if (tap.turns == TURNS_PASS)
		tap.real->barrier(feed);
}

static void give_turn(struct kw_feed *feed, uint64_t now_us)
{
	if (tap.turns == TURNS_PASS)
		tap.real->turn(feed, now_us);
}

static struct kw_feed *tapped_feed_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers)
{
	struct kw_feed_handlers heard = *handlers;
	struct kw_feed *feed;

	memset(&tap, 0, sizeof tap);
	tap.handlers = *handlers;
	heard.value = hear_value;
	heard.dirty = hear_dirty;
	heard.passed = hear_passed;
	heard.explain = hear_explain;
	heard.unexplain = hear_unexplain;
	heard.empty = hear_empty;
	feed = kw_stream_feed_new(options, &heard);
	tap.real = feed->operations;
	tap.operations = *feed->operations;
	tap.operations.barrier = ask_barrier;
	tap.operations.turn = give_turn;
	feed->operations = &tap.operations;
	return feed;
}

/* ---- the test ---- */

static bool no_barrier_waits(struct test *t)
{
	return tap.barriers == 0;
}

static bool a_barrier_waits(struct test *t)
{
	return tap.barriers > 0;
}

static bool a_part_is_told(struct test *t)
{
	return tap.gone > 0;
}

static void on_answer(void *arg, const struct kw_reply *reply)
{
	kw_data_reply(&test.source->link.data, reply);
	answered = true;
}

static bool is_answered(struct test *t)
{
	return answered;
}

/* DEL of one key, named again and again: all of it is sent to replicas. */
static void delete_many(void)
{
	static struct kw_slice argv[KEYS + 1];

	argv[0] = kw_slice_text("DEL");
	for (int i = 1; i <= KEYS; i++)
		argv[i] = kw_slice_text("k");
	kw_redis_send(test.client, NULL, NULL, KEYS + 1, argv);
}

static void what_follows_a_command_in_parts_is_told_before_the_barrier(void **state)
{
	test_begin(&test, AT_ONCE, 0);
	test.options.feed = tapped_feed_new;
	test_follow(&test);
	test_ask(&test, "SET k v");
	test_settle(&test);
	test_until(&test, no_barrier_waits, "the barrier under way");
	tap.turns = TURNS_HELD;

	delete_many();
	test_ask(&test, "HSET hash f v");
	test_until(&test, a_part_is_told, "the first part");
	assert_in_range(tap.gone, 1, KEYS - 1);
	assert_false(tap.is_dirty);
	test_until(&test, a_barrier_waits, "the next barrier");
	tap.real->barrier(test.source->feed); /* its offset is after both commands */
	kw_data_words(&test.source->link.data, on_answer, NULL, "PING", NULL);
	test_until(&test, is_answered, "the offset of the barrier");

	tap.turns = TURNS_PASS;
	test_until(&test, no_barrier_waits, "the barrier");
	assert_int_equal(tap.gone, KEYS);
	assert_true(tap.was_dirty);
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

/* The first change of all is asked about, and so is a flush that is told before the answer. */
static void a_flush_explains_until_it_is_known_what_became_of_it(void **state)
{
	test_begin(&test, AT_ONCE, 0);
	test.options.feed = tapped_feed_new;
	test_ask(&test, "SET k v");
	test_follow(&test);
	test_settle(&test);
	test_post(&test, "MULTI");
	test_post(&test, "FLUSHDB");
	test_post(&test, "FLUSHDB");
	test_ask(&test, "EXEC");
	test_settle(&test);
	assert_string_equal(tap.flushes, "eeEueu");
	test_assert_same(&test);
	test_end(&test);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flush_explains_until_it_is_known_what_became_of_it),
		cmocka_unit_test(what_follows_a_command_in_parts_is_told_before_the_barrier),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
