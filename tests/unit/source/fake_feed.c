#include "fake_feed.h"

#include "feed/permissions.h"

#include <assert.h>
#include <stdio.h>

struct fake_feed fake_feed;

static const struct kw_server_identity identity = {
	.major = 7, .mode = "standalone", .run_id = "fake", .replid = "fake", .role = "master"};

static void start(struct kw_feed *feed)
{
	assert(fake_feed.state == FAKE_STOPPED);
	fake_feed.state = FAKE_STARTING;
	fake_feed.starts++;
}

/* It stops only when the test says so: connections take time to close. */
static void stop(struct kw_feed *feed)
{
	if (fake_feed.state == FAKE_STOPPED || fake_feed.state == FAKE_STOPPING)
		return;
	fake_feed.state = FAKE_STOPPING;
	fake_feed.barriers_owed = fake_feed.examinations_owed = fake_feed.orders_owed = 0;
	fake_feed.stops++;
}

static bool is_stopped(const struct kw_feed *feed)
{
	return fake_feed.state == FAKE_STOPPED;
}

static void barrier(struct kw_feed *feed)
{
	assert(fake_feed.state == FAKE_RUNNING && fake_feed.barriers_owed == 0);
	fake_feed.barriers_owed = 1;
	fake_feed.handlers.turn_wanted(fake_feed.handlers.arg);
}

static void order(struct kw_feed *feed)
{
	assert(fake_feed.state == FAKE_RUNNING && fake_feed.orders_owed == 0);
	fake_feed.orders_owed = 1;
	fake_feed.orders++;
}

static void look(struct kw_feed *feed)
{
	fake_feed.looks++;
}

static void examine(struct kw_feed *feed)
{
	assert(fake_feed.state == FAKE_RUNNING && fake_feed.examinations_owed == 0);
	fake_feed.examinations++;
	fake_feed.examinations_owed = 1;
	fake_feed.handlers.turn_wanted(fake_feed.handlers.arg);
}

static void let_wait(struct kw_feed *feed, bool may)
{
	fake_feed.waits = may ? FAKE_WAITS : FAKE_READS_AT_ONCE;
}

static uint64_t silent_since(const struct kw_feed *feed)
{
	return fake_feed.silent_us > 0 ? fake_feed.silent_us : UINT64_MAX;
}

static void turn(struct kw_feed *feed, uint64_t now_us)
{
	if (fake_feed.barriers == FAKE_PASS && fake_feed.examinations_owed > 0)
		fake_feed_examined();
	if (fake_feed.barriers == FAKE_PASS && fake_feed.barriers_owed > 0)
		fake_feed_passed();
}

static uint64_t ready_us(const struct kw_feed *feed, uint64_t now_us)
{
	return UINT64_MAX;
}

static void stored(struct kw_feed *feed, uint32_t database, struct kw_slice key,
	const struct kw_slice *payload)
{
	fake_feed.stored += payload != NULL;
	fake_feed.removed += payload == NULL;
}

static void emptied(struct kw_feed *feed, uint32_t database)
{
	fake_feed.emptied++;
}

static const struct kw_server_identity *server(const struct kw_feed *feed)
{
	return &fake_feed.identity;
}

static uint32_t databases(const struct kw_feed *feed)
{
	return 16;
}

static void stats(const struct kw_feed *feed, struct kw_feed_stats *stats)
{
	*stats = (struct kw_feed_stats){
		.silent_due = fake_feed.silent_due, .clock_skew_us = fake_feed.skew_us};
}

static size_t permissions(const struct kw_feed *feed, const struct kw_wanted **first)
{
	return kw_notify_permissions(fake_feed.options.flags, first);
}

static void feed_free(struct kw_feed *feed)
{
	assert(fake_feed.state == FAKE_STOPPED);
	fake_feed.frees++;
}

static const struct kw_feed_operations operations = {start, stop, is_stopped, barrier, order, look,
	examine, let_wait, silent_since, turn, ready_us, stored, emptied, server, databases, stats,
	permissions, feed_free};

struct kw_feed *fake_feed_new(
	const struct kw_feed_options *options, const struct kw_feed_handlers *handlers)
{
	fake_feed = (struct fake_feed){
		.feed = {&operations},
		.options = *options,
		.handlers = *handlers,
		.identity = identity,
	};
	return &fake_feed.feed;
}

void fake_feed_ready(enum kw_feed_server server)
{
	assert(fake_feed.state == FAKE_STARTING);
	fake_feed.state = FAKE_RUNNING;
	fake_feed.handlers.ready(fake_feed.handlers.arg, server);
}

void fake_feed_dirty(const struct kw_dirty_key *keys, size_t count)
{
	fake_feed.handlers.dirty(fake_feed.handlers.arg, keys, count);
}

bool fake_feed_flushed(uint32_t database)
{
	struct kw_databases one = {0};
	bool used;

	kw_databases_add(&one, database);
	used = fake_feed.handlers.flushed(fake_feed.handlers.arg, &one, fake_feed.offset++);
	kw_databases_close(&one);
	return used;
}

bool fake_feed_swapped(uint32_t one, uint32_t other)
{
	const uint32_t databases[] = {one, other};

	return fake_feed.handlers.swapped(fake_feed.handlers.arg, databases, fake_feed.offset++);
}

bool fake_feed_empty(uint32_t database)
{
	return fake_feed.handlers.empty(fake_feed.handlers.arg, database);
}

void fake_feed_doubt(enum kw_doubt cause, int database)
{
	struct kw_databases databases = {0};

	if (database >= 0)
		kw_databases_add(&databases, (uint64_t)database);
	fake_feed.handlers.doubt(fake_feed.handlers.arg, cause, database < 0 ? NULL : &databases,
		"the test says so");
	kw_databases_close(&databases);
}

void fake_feed_passed(void)
{
	assert(fake_feed.barriers_owed == 1);
	fake_feed.barriers_owed = 0;
	fake_feed.handlers.passed(fake_feed.handlers.arg);
}

void fake_feed_examined(void)
{
	assert(fake_feed.examinations_owed == 1);
	fake_feed.examinations_owed = 0;
	fake_feed.handlers.examined(fake_feed.handlers.arg);
}

void fake_feed_value(const struct kw_feed_value *value)
{
	struct kw_feed_value told = *value;

	if (told.end == 0) {
		told.begin = fake_feed.offset;
		told.end = ++fake_feed.offset;
	}
	fake_feed.handlers.value(fake_feed.handlers.arg, &told);
}

void fake_feed_ordered(void)
{
	fake_feed_ordered_at(fake_feed.offset);
}

void fake_feed_ordered_at(uint64_t offset)
{
	assert(fake_feed.orders_owed == 1);
	fake_feed.orders_owed = 0;
	fake_feed.handlers.ordered(fake_feed.handlers.arg, offset);
}

void fake_feed_lost(const char *why)
{
	struct kw_error error = {.code = KW_E_IO};

	assert(fake_feed.state == FAKE_STARTING || fake_feed.state == FAKE_RUNNING);
	snprintf(error.text, sizeof error.text, "%s", why);
	fake_feed.handlers.lost(fake_feed.handlers.arg, &error);
}

void fake_feed_stopped(void)
{
	assert(fake_feed.state == FAKE_STOPPING);
	fake_feed.state = FAKE_STOPPED;
	fake_feed.handlers.stopped(fake_feed.handlers.arg);
}

bool fake_feed_is_starting(struct test *test)
{
	return fake_feed.state == FAKE_STARTING;
}

bool fake_feed_is_stopping(struct test *test)
{
	return fake_feed.state == FAKE_STOPPING;
}

static void on_source_closed(void *arg)
{
	((struct test *)arg)->source_closed = true;
}

static bool source_is_closed(struct test *test)
{
	return test->source_closed;
}

void fake_feed_end(struct test *test)
{
	kw_source_close(test->source, on_source_closed, test);
	test->source = NULL;
	test_until(test, fake_feed_is_stopping, "the stop of the feed");
	assert(!test->source_closed);
	fake_feed_stopped();
	test_until(test, source_is_closed, "the end of the source");
	assert(fake_feed.frees == 1);
	test_end(test);
}
