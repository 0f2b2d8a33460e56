#include "values_fixture.h"

#include "base/buffer.h"
#include "rdb/payload.h"

#include <ctype.h>
#include <string.h>

struct test test;

static bool is_ordering(struct test *t)
{
	return fake_feed.orders_owed > 0;
}

bool is_at_rest(struct test *t)
{
	return !kw_values_wait(&t->source->store.values) && test_stats(t).dirty_keys == 0;
}

/* … and nothing that was fetched can be ahead of the stream. */
static bool is_even(struct test *t)
{
	struct kw_order *order = &t->source->store.values.order;
	const struct kw_databases all = {.all = true};

	return is_at_rest(t) && order->state == KW_ORDER_EVEN &&
	       kw_order_has_passed(order, &all, fake_feed.offset);
}

static bool is_ordering_or_even(struct test *t)
{
	return is_ordering(t) || is_even(t);
}

void tell(enum kw_feed_value_kind kind, const char *name, const char *text, uint64_t expires_ms)
{
	fake_feed_value(&(struct kw_feed_value){
		.kind = kind,
		.name = kw_slice_text(name),
		.bytes = kw_slice_text(text),
		.expires_ms = expires_ms,
	});
}

void tell_payload(const char *name, struct kw_slice payload)
{
	fake_feed_value(&(struct kw_feed_value){
		.kind = KW_FEED_PAYLOAD, .name = kw_slice_text(name), .bytes = payload});
}

void tell_string(const char *name)
{
	tell(KW_FEED_STRING, name, TOLD, 0);
}

void tell_dirty(const char *name)
{
	fake_feed_dirty(&(struct kw_dirty_key){kw_slice_text(name), 0, KW_DIRTY_EVENT}, 1);
}

void begin_guarded(void)
{
	test_begin(&test, "", 0);
	test_ask(&test, "DEBUG POPULATE %d key 20", KEYS);
	test.options.feed = fake_feed_new;
	test.options.audit_keys_per_second = 0;
	test_follow(&test);
	test_until(&test, fake_feed_is_starting, "the start of the feed");
	fake_feed_ready(KW_FEED_SAME_SERVER);
	test_settle(&test);
	test_assert_same(&test);
}

void pass_orders(void)
{
	while (!is_even(&test)) {
		test_until(&test, is_ordering_or_even, "an order");
		if (is_ordering(&test))
			fake_feed_ordered();
	}
}

void pass_order(uint64_t offset)
{
	test_until(&test, is_at_rest, "its fetch");
	test_until(&test, is_ordering, "an order");
	fake_feed_ordered_at(offset);
}

void begin(void)
{
	begin_guarded();
	tell_string("key:0"); /* it is guarded, and wants an order */
	pass_orders();
}

void end(void)
{
	fake_feed_end(&test);
}

const char *text_of(const char *name)
{
	static struct kw_buffer text;
	struct kw_slice payload;
	uint64_t expires_ms;
	struct kw_error error;

	test_run_ms(&test, 1);
	if (!kw_table_get(test.table, 0, kw_slice_text(name), &payload, &expires_ms))
		return NULL;
	assert_int_equal(kw_payload_check(payload, NULL, &error), KW_OK);
	kw_buffer_clear(&text);
	assert_int_equal(kw_payload_text(payload, SIZE_MAX, &text, &error), KW_OK);
	kw_buffer_append(&text, "", 1);
	return (const char *)kw_buffer_bytes(&text);
}

uint64_t expiry_of(const char *name)
{
	struct kw_slice payload;
	uint64_t expires_ms = 0;

	assert_true(kw_table_get(test.table, 0, kw_slice_text(name), &payload, &expires_ms));
	return expires_ms;
}

static uint64_t fetches; /* when no_fetch_from_here was called */

uint64_t fetches_since(void)
{
	return test_stats(&test).fetches - fetches;
}

void no_fetch_from_here(void)
{
	fetches = test_stats(&test).fetches;
}

void assert_no_fetch(void)
{
	test_run_ms(&test, 20);
	assert_int_equal(fetches_since(), 0);
	assert_int_equal(test_stats(&test).dirty_keys, 0);
}

void await_fetch(void)
{
	test_until(&test, is_at_rest, "its fetch");
	assert_true(fetches_since() > 0);
}

void tell_dirty_expiry(const char *name)
{
	fake_feed_dirty(
		&(struct kw_dirty_key){kw_slice_text(name), 0, KW_DIRTY_EVENT | KW_DIRTY_TTL}, 1);
}

void fetch(const char *name)
{
	tell_dirty_expiry(name);
	test_until(&test, is_at_rest, "its fetch");
	pass_orders();
}

static struct kw_feed_value waiting[TOGETHER];
static uint32_t waiting_count, waiting_most;

bool none_waits(void)
{
	return waiting_count == 0;
}

void say_together(uint32_t most)
{
	assert_true(none_waits() && most <= TOGETHER);
	waiting_most = most;
}

void say_all(void)
{
	for (uint32_t i = 0; i < waiting_count; i++)
		fake_feed_value(&waiting[i]);
	waiting_count = 0;
}

void say(const struct kw_feed_value *value)
{
	waiting[waiting_count++] = *value;
	if (waiting_count >= waiting_most)
		say_all();
}

void add(const char *name, int64_t number)
{
	say(&(struct kw_feed_value){
		.kind = KW_FEED_ADD, .name = kw_slice_text(name), .number = number});
}

void append(const char *name, const char *text)
{
	say(&(struct kw_feed_value){
		.kind = KW_FEED_APPEND, .name = kw_slice_text(name), .bytes = kw_slice_text(text)});
}

void write_at(const char *name, int64_t at, const char *text)
{
	say(&(struct kw_feed_value){.kind = KW_FEED_WRITE,
		.name = kw_slice_text(name),
		.bytes = kw_slice_text(text),
		.number = at});
}

void copy(uint32_t from_database, const char *from, uint32_t database, const char *name)
{
	say(&(struct kw_feed_value){.kind = KW_FEED_COPY,
		.database = database,
		.name = kw_slice_text(name),
		.from_database = from_database,
		.from = kw_slice_text(from)});
}

/* A minus sign begins a number, too. */
bool server_does(const char *command, const char *name, const char *more)
{
	const char *reply = test_try(&test, "%s %s %s", command, name, more);

	return reply[0] != '-' || isdigit((unsigned char)reply[1]);
}
