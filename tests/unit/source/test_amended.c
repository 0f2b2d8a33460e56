/*
 * Values that follow from the one before: INCRBY, APPEND, SETRANGE, KEEPTTL, and keys that get the
 * value of another one. The feed is a fake. Where both are compared, the server does the same.
 */
#include "values_fixture.h"

#include "base/clock.h"
#include "source/missing.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPIRES UINT64_C(4102444800123)
#define EXPIRES_TEXT "4102444800123"
#define MIB ((size_t)1 << 20)

static uint64_t fetches; /* when no_fetch_from_here was called */

static void no_fetch_from_here(void)
{
	fetches = test_stats(&test).fetches;
}

static void assert_no_fetch(void)
{
	test_run_ms(&test, 20);
	assert_int_equal(test_stats(&test).fetches, fetches);
	assert_int_equal(test_stats(&test).dirty_keys, 0);
}

static void await_fetch(void)
{
	test_until(&test, is_at_rest, "its fetch");
	assert_true(test_stats(&test).fetches > fetches);
}

static void tell_dirty_expiry(const char *name)
{
	fake_feed_dirty(
		&(struct kw_dirty_key){kw_slice_text(name), 0, KW_DIRTY_EVENT | KW_DIRTY_TTL}, 1);
}

/* A key that the table is exact about. */
static void fetch(const char *name)
{
	tell_dirty_expiry(name);
	test_until(&test, is_at_rest, "its fetch");
	pass_orders();
}

/* Told at once, or with others within one turn of the loop; the texts stay. */
#define TOGETHER 40 /* more than a batch has */

static struct kw_feed_value waiting[TOGETHER];
static uint32_t waiting_count, waiting_most;

static void say_all(void)
{
	for (uint32_t i = 0; i < waiting_count; i++)
		fake_feed_value(&waiting[i]);
	waiting_count = 0;
}

static void say(const struct kw_feed_value *value)
{
	waiting[waiting_count++] = *value;
	if (waiting_count > waiting_most)
		say_all();
}

static void add(const char *name, int64_t number)
{
	say(&(struct kw_feed_value){
		.kind = KW_FEED_ADD, .name = kw_slice_text(name), .number = number});
}

static void append(const char *name, const char *text)
{
	say(&(struct kw_feed_value){
		.kind = KW_FEED_APPEND, .name = kw_slice_text(name), .bytes = kw_slice_text(text)});
}

static void write_at(const char *name, int64_t at, const char *text)
{
	say(&(struct kw_feed_value){.kind = KW_FEED_WRITE,
		.name = kw_slice_text(name),
		.bytes = kw_slice_text(text),
		.number = at});
}

static void copy(uint32_t from_database, const char *from, uint32_t database, const char *name)
{
	say(&(struct kw_feed_value){.kind = KW_FEED_COPY,
		.database = database,
		.name = kw_slice_text(name),
		.from_database = from_database,
		.from = kw_slice_text(from)});
}

/* ---- from the table ---- */

/* Strings in each encoding that DUMP has. */
static const char *const befores[] = {"0", "5", "-1", "127", "-128", "128", "32767", "-32769",
	"2147483647", "-2147483648", "2147483648", "99999999999", "9223372036854775806",
	"-9223372036854775807", "007", "-0", "+1", "1.5", "a", "123456789012345678901234567890",
	"aaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"};

static void set_all(const char *suffix)
{
	for (size_t i = 0; i < sizeof befores / sizeof *befores; i++) {
		char name[32];

		snprintf(name, sizeof name, "%s:%zu", suffix, i);
		test_ask(&test, "SET %s %s PXAT " EXPIRES_TEXT, name, befores[i]);
		tell_dirty_expiry(name);
	}
}

/* What a server refuses it does not send. A minus sign begins a number, too. */
static bool server_does(const char *command, const char *name, const char *more)
{
	const char *reply = test_try(&test, "%s %s %s", command, name, more);

	return reply[0] != '-' || isdigit((unsigned char)reply[1]);
}

static void every_encoding_is_amended_as_the_server_does(void **state)
{
	begin();
	set_all("add");
	set_all("append");
	set_all("write");
	test_until(&test, is_at_rest, "their fetches");
	pass_orders();
	no_fetch_from_here();
	for (size_t i = 0; i < sizeof befores / sizeof *befores; i++) {
		char name[32];

		snprintf(name, sizeof name, "add:%zu", i);
		if (server_does("INCRBY", name, "1"))
			add(name, 1);
		snprintf(name, sizeof name, "append:%zu", i);
		if (server_does("APPEND", name, "7"))
			append(name, "7");
		snprintf(name, sizeof name, "write:%zu", i);
		if (server_does("SETRANGE", name, "2 xy"))
			write_at(name, 2, "xy");
	}
	assert_no_fetch();
	test_assert_same(&test);
	end();
}

static void one_change_after_the_other_needs_no_fetch(void **state)
{
	uint64_t values;

	begin();
	values = test_stats(&test).values;
	no_fetch_from_here();
	tell(KW_FEED_STRING, "n", "7", EXPIRES);
	for (int i = 0; i < 1000; i++)
		add("n", i % 2 ? -3 : 4);
	assert_string_equal(text_of("n"), "507");
	assert_int_equal(expiry_of("n"), EXPIRES);
	add("n", -600); /* from the table */
	append("n", "x");
	write_at("n", 6, "y");
	append("n", "z");
	assert_int_equal(test_stats(&test).values, values + 1001);
	test_run_ms(&test, 1);
	assert_int_equal(test_stats(&test).values, values + 1005);
	assert_no_fetch();
	end();
}

static void a_key_that_is_gone_begins_anew(void **state)
{
	begin();
	no_fetch_from_here();
	tell(KW_FEED_STRING, "n", "7", EXPIRES);
	tell(KW_FEED_GONE, "n", "", 0);
	add("n", 2);
	assert_string_equal(text_of("n"), "2");
	assert_int_equal(expiry_of("n"), 0);
	tell(KW_FEED_GONE, "n", "", 0);
	test_run_ms(&test, 1);
	append("n", "new");
	assert_string_equal(text_of("n"), "new");
	assert_no_fetch();
	end();
}

static void a_key_that_the_table_lacks_is_new(void **state)
{
	begin();
	no_fetch_from_here();
	add("n", -3);
	append("a", "text");
	write_at("w", 0, "written");
	tell(KW_FEED_KEEPTTL, "k", "1.5", 0);
	assert_string_equal(text_of("n"), "-3");
	assert_string_equal(text_of("a"), "text");
	assert_string_equal(text_of("w"), "written");
	assert_string_equal(text_of("k"), "1.5");
	assert_no_fetch();
	end();
}

/* These are on the server although the table has nothing of them. */
static void a_key_that_the_table_cannot_hold_is_not_new(void **state)
{
	struct kw_store *store;

	begin();
	store = &test.source->store;
	test_ask(&test, "SET large 5");
	test_ask(&test, "SET unreadable 6 PXAT " EXPIRES_TEXT);
	kw_missing_add(&store->too_large, 0, kw_slice_text("large"));
	kw_missing_add(&store->unreadable->keys, 0, kw_slice_text("unreadable"));
	no_fetch_from_here();
	add("large", 1);
	assert_int_equal(test_stats(&test).dirty_keys, 1);
	tell(KW_FEED_KEEPTTL, "unreadable", "7", 0);
	assert_int_equal(test_stats(&test).dirty_keys, 2);
	assert_false(test_has(&test, 0, "large"));
	assert_false(test_has(&test, 0, "unreadable"));
	end();
}

static void a_kept_expiry_is_that_of_the_table(void **state)
{
	begin();
	test_ask(&test, "SET key:1 old PXAT " EXPIRES_TEXT);
	fetch("key:1");
	no_fetch_from_here();
	tell(KW_FEED_KEEPTTL, "key:1", "first", 0);
	assert_string_equal(text_of("key:1"), "first");
	assert_int_equal(expiry_of("key:1"), EXPIRES);
	tell(KW_FEED_EXPIRY, "key:1", "", 0);
	tell(KW_FEED_KEEPTTL, "key:1", "second", 0);
	assert_string_equal(text_of("key:1"), "second");
	assert_int_equal(expiry_of("key:1"), 0);
	tell(KW_FEED_STRING, "key:2", "v", EXPIRES);
	tell(KW_FEED_KEEPTTL, "key:2", "w", 0);
	tell(KW_FEED_EXPIRY, "key:2", "", EXPIRES + 1);
	assert_string_equal(text_of("key:2"), "w");
	assert_int_equal(expiry_of("key:2"), EXPIRES + 1);
	assert_no_fetch();
	end();
}

/* ---- what is not exact ---- */

static void tell_each_amendment(void)
{
	add("key:1", 1);
	append("key:2", "x");
	write_at("key:3", 1, "x");
	tell(KW_FEED_KEEPTTL, "key:4", "x", 0);
	copy(0, "key:5", 0, "key:6");
}

/* Each of them must be fetched: what the feed told is not true. */
static void assert_all_fetched(void)
{
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(test_stats(&test).fetches, fetches + 5);
	test_assert_same(&test);
}

static void guarded_keys_are_fetched(void **state)
{
	begin_guarded();
	no_fetch_from_here();
	tell_each_amendment();
	assert_all_fetched();
	end();
}

static void dirty_keys_are_fetched(void **state)
{
	begin();
	test_ask(&test, "CLIENT PAUSE 300 ALL");
	for (int i = 1; i < 6; i++) {
		char name[16];

		snprintf(name, sizeof name, "key:%d", i);
		tell_dirty(name);
	}
	test_run_ms(&test, 20); /* in flight; but key:6 is not */
	tell_each_amendment();
	test_until(&test, is_at_rest, "their fetches");
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).values, 0);
	end();
}

static bool is_scanning(struct test *t)
{
	return t->source->sweep.sm.state == KW_SWEEP_SCANNING;
}

/* The scan has come to none of them yet: they are neither dirty nor guarded. */
static void keys_in_doubt_are_fetched(void **state)
{
	begin();
	fake_feed_doubt(KW_DOUBT_COMMAND, 0);
	test_until(&test, is_scanning, "the scan");
	assert_int_equal(test_stats(&test).dirty_keys, 0);
	no_fetch_from_here();
	tell_each_amendment();
	assert_int_equal(test_stats(&test).dirty_keys, 5);
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).values, 0);
	end();
}

/* The scan saw the key, and then it was gone: the stream is behind that, and its value unknown. */
static void a_key_that_was_gone_unexplained_is_not_copied(void **state)
{
	begin();
	fake_feed_dirty(&(struct kw_dirty_key){kw_slice_text("key:1"), 0, KW_DIRTY_SCAN}, 1);
	test_ask(&test, "RENAME key:1 key:2");
	test_until(&test, is_at_rest, "its fetch");
	assert_true(test_has(&test, 0, "key:1")); /* the feed will say why */
	no_fetch_from_here();
	copy(0, "key:1", 0, "key:2");
	tell(KW_FEED_GONE, "key:1", "", 0);
	await_fetch();
	test_assert_same(&test);
	end();
}

/* The value was told after the question, so the answer is not used: the table is exact. */
static void a_key_in_flight_that_was_overtaken_is_exact(void **state)
{
	begin();
	test_ask(&test, "CLIENT PAUSE 300 ALL");
	tell_dirty("key:1");
	test_run_ms(&test, 20);
	tell(KW_FEED_STRING, "key:1", "5", 0);
	assert_string_equal(text_of("key:1"), "5");
	add("key:1", 6);
	assert_string_equal(text_of("key:1"), "11");
	assert_int_equal(test_stats(&test).dirty_keys, 1);
	test_until(&test, is_at_rest, "the answer");
	assert_string_equal(text_of("key:1"), "11");
	end();
}

/* It waits here, so it is exact. But the table can be ahead, so it is fetched in the end. */
static void a_guarded_key_is_fetched_although_its_value_was_told(void **state)
{
	begin_guarded();
	test_ask(&test, "SET key:1 9");
	tell(KW_FEED_STRING, "key:1", "5", 0);
	add("key:1", 1);
	test_until(&test, is_at_rest, "its fetch");
	assert_string_equal(text_of("key:1"), "9");
	end();
}

/* ---- what no server sends ---- */

struct lie {
	const char *before; /* a command; NULL: the key is not there */
	enum kw_feed_value_kind kind;
	int64_t number;
	const char *bytes;
};

static const struct lie lies[] = {
	{"SET lie 007", KW_FEED_ADD, 1, ""},
	{"SET lie +5", KW_FEED_ADD, 1, ""},
	{"SET lie 5.0", KW_FEED_ADD, 1, ""},
	{"SET lie text", KW_FEED_ADD, 1, ""},
	{"SET lie 9223372036854775807", KW_FEED_ADD, 1, ""},
	{"SET lie -9223372036854775808", KW_FEED_ADD, -1, ""},
	{"SET lie 123456789012345678901", KW_FEED_ADD, 1, ""},
	{"RPUSH lie a b", KW_FEED_ADD, 1, ""},
	{"RPUSH lie a b", KW_FEED_APPEND, 0, "x"},
	{"SADD lie 1 2", KW_FEED_APPEND, 0, "x"},
	{"HSET lie a b", KW_FEED_WRITE, 1, "x"},
	{"SET lie text", KW_FEED_WRITE, (1 << 20) + 1, "x"},
	{"SET lie text", KW_FEED_WRITE, INT64_MAX, "x"},
};

static void what_a_server_refuses_is_fetched(void **state)
{
	begin();
	for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
		test_ask(&test, "DEL lie");
		test_ask(&test, "%s", lies[i].before);
		fetch("lie");
		no_fetch_from_here();
		fake_feed_value(&(struct kw_feed_value){.kind = lies[i].kind,
			.name = kw_slice_text("lie"),
			.bytes = kw_slice_text(lies[i].bytes),
			.number = lies[i].number});
		await_fetch();
		test_assert_same(&test);
		pass_orders();
	}
	end();
}

static void a_string_beyond_the_bound_is_fetched(void **state)
{
	struct kw_slice set[] = {kw_slice_text("SET"), kw_slice_text("large"), {0}};
	char *text = malloc(MIB);

	memset(text, 'x', MIB);
	begin();
	set[2] = kw_slice(text, MIB);
	test_send(&test, 3, set);
	fetch("large");
	no_fetch_from_here();
	append("large", "");
	write_at("large", 5, "written");
	test_ask(&test, "SETRANGE large 5 written");
	assert_no_fetch();
	test_assert_same(&test);
	test_ask(&test, "APPEND large x");
	append("large", "x");
	await_fetch();
	test_assert_same(&test);
	free(text);
	end();
}

/* ---- another key's value ---- */

static void a_copy_has_value_and_expiry(void **state)
{
	begin();
	test_ask(&test, "SET key:1 v PXAT " EXPIRES_TEXT);
	fetch("key:1");
	no_fetch_from_here();
	copy(0, "key:1", 0, "from the table");
	tell(KW_FEED_STRING, "told", "t", EXPIRES);
	copy(0, "told", 0, "from the batch");
	copy(0, "from the batch", 0, "key:2"); /* REPLACE */
	tell(KW_FEED_GONE, "told", "", 0);
	assert_string_equal(text_of("from the table"), "v");
	assert_int_equal(expiry_of("from the table"), EXPIRES);
	assert_string_equal(text_of("from the batch"), "t");
	assert_int_equal(expiry_of("from the batch"), EXPIRES);
	assert_string_equal(text_of("key:2"), "t");
	assert_int_equal(expiry_of("key:2"), EXPIRES);
	assert_false(test_has(&test, 0, "told"));
	copy(0, "key:3", 0, "key:2");
	test_run_ms(&test, 1);
	assert_int_equal(expiry_of("key:2"), 0);
	assert_no_fetch();
	end();
}

static const char *const kinds[] = {"SET string v", "RPUSH list a b c", "SADD set a 1",
	"SADD ints 1 2 3", "HSET hash f v", "ZADD zset 1 a 2.5 b", "SETRANGE sparse 5000 x"};

static void values_of_every_kind_are_copied(void **state)
{
	begin();
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		char name[16];

		test_ask(&test, "%s", kinds[i]);
		sscanf(kinds[i], "%*s %15s", name);
		fetch(name);
	}
	no_fetch_from_here();
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		char name[16], target[24];

		sscanf(kinds[i], "%*s %15s", name);
		snprintf(target, sizeof target, "copy:%s", name);
		test_ask(&test, "COPY %s %s DB 2", name, target);
		copy(0, name, 2, target);
		test_ask(&test, "RENAME %s %s", name, target);
		copy(0, name, 0, target);
		tell(KW_FEED_GONE, name, "", 0);
	}
	assert_no_fetch();
	test_assert_same(&test);
	end();
}

/* Reading changes a consumer's times, and the replication stream does not tell that. */
static void a_stream_is_fetched_for_its_copy(void **state)
{
	begin();
	test_ask(&test, "XADD stream 1-1 f v");
	fetch("stream");
	no_fetch_from_here();
	test_ask(&test, "COPY stream copy");
	copy(0, "stream", 0, "copy");
	await_fetch();
	test_assert_same(&test);
	end();
}

static void the_copy_of_a_key_that_is_not_exact_is_fetched(void **state)
{
	begin();
	no_fetch_from_here();
	test_ask(&test, "SET unknown last PXAT " EXPIRES_TEXT);
	test_ask(&test, "COPY unknown copy");
	tell_dirty_expiry("unknown");
	copy(0, "unknown", 0, "copy");
	copy(0, "nobody has it", 0, "key:7");
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(test_stats(&test).fetches, fetches + 3);
	assert_int_equal(expiry_of("copy"), EXPIRES);
	copy(0, "unknown", 0, "key:8"); /* guarded: what was fetched can be of after the copy */
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(test_stats(&test).fetches, fetches + 4);
	test_assert_same(&test);
	end();
}

/* The table can be ahead of the target, or a sweep waits for it. */
static void a_copy_to_a_guarded_key_is_fetched(void **state)
{
	begin();
	test_ask(&test, "SET key:1 newer PXAT " EXPIRES_TEXT);
	tell_dirty_expiry("key:1");
	test_until(&test, is_at_rest, "its fetch");
	no_fetch_from_here();
	copy(0, "key:2", 0, "key:1"); /* of before that fetch */
	await_fetch();
	assert_string_equal(text_of("key:1"), "newer");
	assert_int_equal(expiry_of("key:1"), EXPIRES);
	end();
}

/* ---- work is bounded ---- */

/* A short command that changes a long value: beyond the bound its key is fetched. */
static void bytes_that_the_stream_did_not_carry_are_bounded(void **state)
{
	struct kw_bucket *derived;

	begin();
	derived = &test.source->store.values.derived;
	kw_bucket_init(derived, 1, kw_clock_us()); /* a byte: in debt for longer than the test */
	tell(KW_FEED_STRING, "n", "5", 0);
	no_fetch_from_here();
	write_at("w", 100000, "x"); /* the last one that is taken */
	add("n", 1);                /* an integer is never long */
	assert_string_equal(text_of("n"), "6");
	assert_no_fetch();
	test_ask(&test, "DEL key:1 key:2 key:3 key:4");
	append("key:1", "x");
	write_at("key:2", 5, "x");
	copy(0, "key:5", 0, "key:3");
	tell(KW_FEED_EXPIRY, "key:4", "", EXPIRES);
	test_until(&test, is_at_rest, "their fetches");
	assert_int_equal(test_stats(&test).fetches, fetches + 4);
	for (int i = 1; i < 5; i++) {
		char name[16];

		snprintf(name, sizeof name, "key:%d", i);
		assert_false(test_has(&test, 0, name));
	}
	end();
}

/* ---- anything, in any order ---- */

#define NAMES 12
#define STEPS 1500

static uint64_t dice;

static uint32_t roll(uint32_t bound)
{
	dice ^= dice << 13;
	dice ^= dice >> 7;
	dice ^= dice << 17;
	return (uint32_t)(dice >> 16) % bound;
}

static const char *some_text(void)
{
	static const char *const texts[] = {"0", "-1", "126", "32767", "2147483647",
		"9223372036854775800", "007", "x", "abcabcabcabcabcabcabcabcabcabcabcabcabcabc",
		"0123456789012345678"};

	return texts[roll(sizeof texts / sizeof *texts)];
}

/* Done by the server, and changed something? */
static bool did(void)
{
	return test.reply[0] != '-' && strcmp(test.reply, "0") != 0;
}

static void say_value(
	enum kw_feed_value_kind kind, const char *name, const char *text, uint64_t expires_ms)
{
	say(&(struct kw_feed_value){.kind = kind,
		.name = kw_slice_text(name),
		.bytes = kw_slice_text(text),
		.expires_ms = expires_ms});
}

static void random_string(const char *name)
{
	const char *text = some_text();
	int64_t number = roll(2) ? (int64_t)roll(300) - 150 : INT64_C(1) << roll(62);
	uint32_t at = roll(60);
	char more[64];

	switch (roll(6)) {
	case 0:
		test_ask(&test, "SET %s %s PXAT " EXPIRES_TEXT, name, text);
		say_value(KW_FEED_STRING, name, text, EXPIRES);
		break;
	case 1:
		test_ask(&test, "SET %s %s KEEPTTL", name, text);
		say_value(KW_FEED_KEEPTTL, name, text, 0);
		break;
	case 2:
		if (server_does("APPEND", name, text))
			append(name, text);
		break;
	case 3:
		snprintf(more, sizeof more, "%u %s", at, text);
		if (server_does("SETRANGE", name, more))
			write_at(name, at, text);
		break;
	default:
		snprintf(more, sizeof more, "%" PRId64, number);
		if (server_does("INCRBY", name, more))
			add(name, number);
		break;
	}
}

static void random_other(const char *name, const char *other)
{
	switch (roll(6)) {
	case 0:
		test_ask(&test, "PEXPIREAT %s " EXPIRES_TEXT, name);
		if (did())
			say_value(KW_FEED_EXPIRY, name, "", EXPIRES);
		break;
	case 1:
		test_ask(&test, "PERSIST %s", name);
		if (did())
			say_value(KW_FEED_EXPIRY, name, "", 0);
		break;
	case 2:
		test_ask(&test, "DEL %s", name);
		if (did())
			say_value(KW_FEED_GONE, name, "", 0);
		break;
	case 3:
		test_try(&test, "RENAME %s %s", name, other);
		if (!did() || strcmp(name, other) == 0)
			break;
		copy(0, name, 0, other);
		say_value(KW_FEED_GONE, name, "", 0);
		break;
	default:
		if (strcmp(name, other) == 0)
			break;
		test_ask(&test, "COPY %s %s REPLACE", name, other);
		if (did())
			copy(0, name, 0, other);
		break;
	}
}

static void a_random_workload_is_followed_without_a_fetch(void **state)
{
	static char names[NAMES][16]; /* half of them are there already */
	const char *seed = getenv("KW_SEED");

	dice = seed ? strtoull(seed, NULL, 10) * 2 + 1 : UINT64_C(88172645463325252);
	print_message("KW_SEED=%s\n", seed ? seed : "none");
	begin();
	no_fetch_from_here();
	for (int i = 0; i < NAMES; i++)
		snprintf(names[i], sizeof names[i], "key:%d", KEYS - NAMES / 2 + i);
	for (int i = 0; i < STEPS; i++) {
		if (waiting_count == 0)
			waiting_most = roll(2) ? 0 : roll(TOGETHER - 1);
		if (roll(3))
			random_string(names[roll(NAMES)]);
		else
			random_other(names[roll(NAMES)], names[roll(NAMES)]);
	}
	say_all();
	waiting_most = 0;
	assert_no_fetch();
	test_assert_same(&test);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_encoding_is_amended_as_the_server_does),
		cmocka_unit_test(one_change_after_the_other_needs_no_fetch),
		cmocka_unit_test(a_key_that_is_gone_begins_anew),
		cmocka_unit_test(a_key_that_the_table_lacks_is_new),
		cmocka_unit_test(a_key_that_the_table_cannot_hold_is_not_new),
		cmocka_unit_test(a_kept_expiry_is_that_of_the_table),
		cmocka_unit_test(guarded_keys_are_fetched),
		cmocka_unit_test(dirty_keys_are_fetched),
		cmocka_unit_test(keys_in_doubt_are_fetched),
		cmocka_unit_test(a_key_that_was_gone_unexplained_is_not_copied),
		cmocka_unit_test(a_key_in_flight_that_was_overtaken_is_exact),
		cmocka_unit_test(a_guarded_key_is_fetched_although_its_value_was_told),
		cmocka_unit_test(what_a_server_refuses_is_fetched),
		cmocka_unit_test(a_string_beyond_the_bound_is_fetched),
		cmocka_unit_test(a_copy_has_value_and_expiry),
		cmocka_unit_test(values_of_every_kind_are_copied),
		cmocka_unit_test(a_stream_is_fetched_for_its_copy),
		cmocka_unit_test(the_copy_of_a_key_that_is_not_exact_is_fetched),
		cmocka_unit_test(a_copy_to_a_guarded_key_is_fetched),
		cmocka_unit_test(bytes_that_the_stream_did_not_carry_are_bounded),
		cmocka_unit_test(a_random_workload_is_followed_without_a_fetch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
