/*
 * The gateway's answers against a real memcached with the same values: the same bytes, whether the
 * request comes at once or is cut at any byte. Then what only a gateway says.
 *
 *   test_memcached [memcached]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/memcached/base64.h"
#include "gateway/memcached/request.h"
#include "gateway/memcached/stats.h"
#include "memcached_peer.h"
#include "rdb/payload.h"

#define NOW_MS UINT64_C(1700000000000)
#define LONG_VALUE 20000
#define TRIES 5 /* a second can pass between two questions */

#define A50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A250 A50 A50 A50 A50 A50
#define READ_ONLY "SERVER_ERROR this gateway only reads: send writes to the primary\r\n"
#define BAD_LINE "CLIENT_ERROR bad command line format\r\n"

static const char *binary = "/usr/bin/memcached";
static struct memcached_peer peer;
static char long_value[LONG_VALUE + 1];

/* ---- the same values on both sides ---- */

static struct item {
	const char *key, *value;
	int lives;   /* seconds; 0: for ever */
	bool base64; /* its key is binary, and stored so */
	uint64_t version, expires_ms;
} items[] = {
	{.key = "a", .value = "abc"},
	{.key = "b", .value = ""},
	{.key = "number", .value = "17"},
	{.key = "lines", .value = "one\r\nEND\r\nget a\r\n"},
	{.key = "long", .value = long_value},
	{.key = "dying", .value = "soon", .lives = 5000},
	{.key = "\xc3\xa4\xc3\xb6", .value = "umlaut"},
	{.key = A250, .value = "long key"},
	{.key = "se m", .value = "xyz", .base64 = true},
	{.key = "\r\n\t", .value = "white", .base64 = true},
};

#define ITEMS (sizeof items / sizeof *items)

/* The value as the server dumps it. */
static void dump(struct kw_slice value, struct kw_buffer *payload)
{
	const uint8_t large[] = {
		0, 0x80, 0, 0, (uint8_t)(value.length >> 8), (uint8_t)value.length};
	const uint8_t small[] = {0, (uint8_t)value.length};
	const uint8_t footer[KW_PAYLOAD_FOOTER] = {0};

	kw_buffer_clear(payload);
	if (value.length == 2 && memcmp(value.data, "17", 2) == 0)
		kw_buffer_append(payload, "\0\xc0\x11", 3);
	else if (value.length < 64)
		kw_buffer_append(payload, small, sizeof small);
	else
		kw_buffer_append(payload, large, sizeof large);
	if (kw_buffer_length(payload) != 3)
		kw_buffer_append(payload, value.data, value.length);
	kw_buffer_append(payload, footer, sizeof footer);
}

static struct item *find(struct kw_slice key)
{
	for (size_t i = 0; i < ITEMS; i++)
		if (kw_slice_equal(key, kw_slice_text(items[i].key)))
			return &items[i];
	return NULL;
}

static void load(void)
{
	struct kw_buffer out = {0}, reply = {0};

	for (size_t i = 0; i < ITEMS; i++) {
		char key[KW_BASE64_LENGTH(KW_MEMCACHED_KEY_MAX) + 1] = "";

		if (items[i].base64) {
			kw_base64_encode(kw_slice_text(items[i].key), key);
			kw_buffer_printf(&out, "ms %s %zu b\r\n", key, strlen(items[i].value));
		} else {
			kw_buffer_printf(&out, "set %s 0 %d %zu\r\n", items[i].key, items[i].lives,
				strlen(items[i].value));
		}
		kw_buffer_append(&out, items[i].value, strlen(items[i].value));
		kw_buffer_append(&out, "\r\n", 2);
	}
	memcached_peer_ask(&peer, kw_slice(kw_buffer_bytes(&out), kw_buffer_length(&out)), &reply);
	kw_buffer_append(&reply, "", 1);
	assert_null(strstr((const char *)kw_buffer_bytes(&reply), "ERROR"));
	kw_buffer_close(&reply);
	kw_buffer_close(&out);
}

/* The versions and times to live that memcached has for them. */
static void take_over(void)
{
	for (size_t i = 0; i < ITEMS; i++) {
		struct kw_buffer out = {0}, reply = {0};
		char key[KW_BASE64_LENGTH(KW_MEMCACHED_KEY_MAX) + 1] = "";
		long lives;

		if (items[i].base64)
			kw_base64_encode(kw_slice_text(items[i].key), key);
		kw_buffer_printf(&out, "mg %s t c %s\r\n", items[i].base64 ? key : items[i].key,
			items[i].base64 ? "b" : "");
		memcached_peer_ask(
			&peer, kw_slice(kw_buffer_bytes(&out), kw_buffer_length(&out)), &reply);
		kw_buffer_append(&reply, "", 1);
		assert_int_equal(sscanf((const char *)kw_buffer_bytes(&reply), "HD t%ld c%lu",
					 &lives, &items[i].version),
			2);
		items[i].expires_ms = lives < 0 ? 0 : NOW_MS + (uint64_t)lives * 1000;
		kw_buffer_close(&reply);
		kw_buffer_close(&out);
	}
}

static int start(void **state)
{
	memset(long_value, 'v', LONG_VALUE);
	memcached_peer_start(&peer, binary);
	load();
	return 0;
}

static int stop(void **state)
{
	memcached_peer_stop(&peer);
	return 0;
}

/* ---- one client of the gateway ---- */

struct client {
	struct kw_memcached_request request;
	struct kw_buffer in, out;
	bool closed, failed;
	unsigned refused;
};

/* False: the reply is an error. */
static bool answer_key(
	struct client *client, const struct kw_memcached_how *how, struct kw_slice key)
{
	const struct item *item = find(key);
	struct kw_memcached_found found = {
		.key = key, .opaque = client->request.opaque, .now_ms = NOW_MS};
	struct kw_buffer payload = {0};
	struct kw_error error = {.text = "the table is being filled\r\nEND"};
	int code = kw_slice_equal(key, kw_slice_text("loading")) ? KW_E_STATE : KW_OK;

	if (item) {
		dump(kw_slice_text(item->value), &payload);
		found.payload = kw_slice(kw_buffer_bytes(&payload), kw_buffer_length(&payload));
		found.version = item->version;
		found.expires_ms = item->expires_ms;
	} else if (kw_slice_equal(key, kw_slice_text("a-list"))) {
		found.payload = kw_slice("\x01\x01\x01x\0\0\0\0\0\0\0\0\0\0", 14);
	} else if (kw_slice_equal(key, kw_slice_text("torn"))) {
		found.payload = kw_slice("\0\x3fx\0\0\0\0\0\0\0\0\0\0", 13);
	}
	found.kind = kw_payload_kind(found.payload);
	if (!code)
		code = kw_memcached_answer(how, &found, &client->out, &error);
	if (code)
		kw_memcached_append_error(&client->out, error.text);
	kw_buffer_close(&payload);
	return code == KW_OK;
}

/* As a listener does it: nothing follows an error, until the line has ended. */
static void answer(struct client *client, const struct kw_memcached_request *request)
{
	if (request->part == KW_MEMCACHED_WHOLE || request->part == KW_MEMCACHED_FRONT)
		client->failed = false;
	assert_true(request->count > 0);
	for (size_t i = 0; i < request->count && !client->failed; i++) {
		struct kw_memcached_how how = request->how;

		how.ends = how.ends && i + 1 == request->count;
		client->failed = !answer_key(client, &how, request->keys[i]);
	}
}

static void act(struct client *client, enum kw_memcached_act act)
{
	static const struct kw_memcached_figures figures = {.pid = 7, .max_connections = 10};
	struct kw_memcached_request *request = &client->request;

	switch (act) {
	case KW_MEMCACHED_PARTIAL:
		break;
	case KW_MEMCACHED_KEYS:
		answer(client, request);
		break;
	case KW_MEMCACHED_STATS:
		kw_memcached_stats(&figures, &client->out);
		break;
	case KW_MEMCACHED_SETTINGS:
		kw_memcached_settings(&figures, &client->out);
		break;
	case KW_MEMCACHED_REFUSE:
		client->refused++;
		/* fallthrough */
	case KW_MEMCACHED_SAY:
	case KW_MEMCACHED_CLOSE:
		kw_buffer_append(&client->out, request->says.data, request->says.length);
		client->closed |= act == KW_MEMCACHED_CLOSE;
	}
}

static void feed(struct client *client, const char *bytes, size_t length)
{
	enum kw_memcached_act came = KW_MEMCACHED_SAY;

	kw_buffer_append(&client->in, bytes, length);
	while (came != KW_MEMCACHED_PARTIAL && !client->closed) {
		size_t there = kw_buffer_length(&client->in);
		/* In a block of just its size: a byte too many is found by the sanitizer. */
		uint8_t *copy = malloc(there + 1);

		if (there > 0)
			memcpy(copy, kw_buffer_bytes(&client->in), there);
		came = kw_memcached_parse(&client->request, copy, there);
		act(client, came);
		kw_buffer_consume(&client->in, client->request.bytes);
		free(copy);
	}
}

/* Cut at one byte; 0: not at all. All pieces of one byte: SIZE_MAX. */
static void ask_cut(struct kw_slice bytes, size_t cut, struct client *client)
{
	const char *text = bytes.data;

	*client = (struct client){.closed = false};
	if (cut == SIZE_MAX) {
		for (size_t i = 0; i < bytes.length; i++)
			feed(client, text + i, 1);
	} else {
		feed(client, text, cut);
		feed(client, text + cut, bytes.length - cut);
	}
	kw_buffer_append(&client->out, "", 1);
}

static void forget(struct client *client)
{
	kw_memcached_request_close(&client->request);
	kw_buffer_close(&client->in);
	kw_buffer_close(&client->out);
}

/* The same, whole and cut anywhere; then only the whole one is kept. */
static void ask(struct kw_slice bytes, struct client *client)
{
	ask_cut(bytes, 0, client);
	for (size_t cut = bytes.length > 4096 ? bytes.length : 1; cut <= bytes.length; cut++) {
		struct client other;

		ask_cut(bytes, cut == bytes.length ? SIZE_MAX : cut, &other);
		assert_int_equal(kw_buffer_length(&other.out), kw_buffer_length(&client->out));
		assert_memory_equal(kw_buffer_bytes(&other.out), kw_buffer_bytes(&client->out),
			kw_buffer_length(&client->out));
		assert_int_equal(other.closed, client->closed);
		assert_int_equal(other.refused, client->refused);
		forget(&other);
	}
}

/* ---- against memcached ---- */

static bool is_same(struct kw_slice bytes)
{
	struct kw_buffer reply = {0};
	struct client client;
	bool same;

	take_over();
	memcached_peer_ask(&peer, bytes, &reply);
	kw_buffer_append(&reply, "", 1);
	ask(bytes, &client);
	same = kw_buffer_length(&reply) == kw_buffer_length(&client.out) &&
	       memcmp(kw_buffer_bytes(&reply), kw_buffer_bytes(&client.out),
		       kw_buffer_length(&reply)) == 0;
	if (!same)
		print_message("%.*s\nmemcached: %.2000s\nthe gateway: %.2000s\n",
			(int)(bytes.length < 2000 ? bytes.length : 2000), (const char *)bytes.data,
			(const char *)kw_buffer_bytes(&reply),
			(const char *)kw_buffer_bytes(&client.out));
	forget(&client);
	kw_buffer_close(&reply);
	return same;
}

static void compare(struct kw_slice bytes)
{
	for (int i = 0; i < TRIES; i++)
		if (is_same(bytes))
			return;
	fail_msg("memcached answers otherwise");
}

static void compare_all(const char *const *requests, size_t count)
{
	struct kw_buffer all = {0};

	for (size_t i = 0; i < count; i++) {
		compare(kw_slice_text(requests[i]));
		kw_buffer_append(&all, requests[i], strlen(requests[i]));
	}
	/* And all of them in one stream. */
	compare(kw_slice(kw_buffer_bytes(&all), kw_buffer_length(&all)));
	kw_buffer_close(&all);
}

#define COMPARE_ALL(requests) compare_all(requests, sizeof requests / sizeof *requests)

static void get_answers_as_memcached(void **state)
{
	static const char *const requests[] = {
		"get a\r\n",
		"gets a\r\n",
		"get nothing\r\n",
		"gets nothing\r\n",
		"get b\r\n",
		"get number\r\n",
		"get lines\r\n",
		"get long\r\n",
		"get dying\r\n",
		"get \xc3\xa4\xc3\xb6\r\n",
		"get " A250 "\r\n",
		"get a b nothing number a a\r\n",
		"gets a b nothing number long a a\r\n",
		"get  a   b \r\n",
		" get a\r\n",
		"get a\n",
		"get a\r\nget b\r\nget nothing\r\ngets number\r\n",
		"gets a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a a "
		"b\r\n",
		"get\r\n",
		"gets \r\n",
		"GET a\r\n",
		"gett a\r\n",
		"get\ta\r\n",
	};

	COMPARE_ALL(requests);
}

static void mg_answers_as_memcached(void **state)
{
	static const char *const requests[] = {
		"mg a\r\n",
		"mg a v\r\n",
		"mg b v s\r\n",
		"mg nothing v\r\n",
		"mg a s v t f c k Oabc q\r\n",
		"mg a Oabc k c f t v s\r\n",
		"mg a s t f c k\r\n",
		"mg dying t v\r\n",
		"mg dying t s\r\n",
		"mg long v t c\r\n",
		"mg lines v\r\n",
		"mg number s v k\r\n",
		"mg nothing k Oabc\r\n",
		"mg nothing Oabc k t\r\n",
		"mg nothing q k Oabc\r\n",
		"mg nothing q\r\nmg a q\r\nmg nothing q v\r\nmg a q v\r\nmn\r\n",
		"mg a O\r\n",
		"mg a u v P L\r\n",
		"mg a v Phint Lpath/\r\n",
		"mg YQ== b v\r\n",
		"mg bm90aGluZw== b k v\r\n",
		"mg bm90aGluZw== b Ox k\r\n",
		"mg c2UgbQ== b k v\r\n",
		"mg c2UgbQ== k b Ox s t\r\n",
		"mg DQoJ b k v\r\n",
		"mg c2UgbQ== k v\r\n",
		"mg " A250 " k v\r\n",
		"mg a O1234567890123456789012345678901 v\r\n",
		"mn\r\n",
		"mn a b\r\n",
		"mn\nmn\n",
		"me nothing\r\n",
		"me bm90aGluZw== b\r\n",
	};

	COMPARE_ALL(requests);
}

static void errors_are_memcacheds(void **state)
{
	static const char *const requests[] = {
		"\r\n",
		"\n",
		"x\r\n",
		"no such command\r\n",
		"mg\r\n",
		"mg \r\n",
		"mx a\r\n",
		"mgx a\r\n",
		"mg a v v\r\n",
		"mg a vv\r\n",
		"mg a z\r\n",
		"mg a 1 v\r\n",
		"mg a \xff v\r\n",
		"mg a x v v\r\n",
		"mg a O12345678901234567890123456789012 v\r\n",
		"mg nothing O12345678901234567890123456789012 v\r\n",
		"mg " A250 "k v\r\n",
		"mg a q q\r\nmn\r\n",
		"mg a b c f h k l q s t u v L O P R1 T1 1 2 3 4 5\r\n",
		"mg YQ b v k\r\n",
		"mg YQ=== b v k\r\n",
		"mg !!!! b v k\r\n",
		"me\r\n",
		"me !!!! b\r\n",
		"me " A250 "k\r\n",
		"verbosity\r\n",
		"verbosity 1\r\n",
		"verbosity x\r\n",
		"verbosity x noreply\r\n",
		"verbosity 1 2\r\n",
		"verbosity 1 2 3\r\n",
		"verbosity 1 noreply\r\nmn\r\n",
		"verbosity noreply\r\nmn\r\n",
		"stats sizes\r\n",
		"shutdown\r\n",
		"set a 0 0\r\n",
		"set a 0 0 y\r\n",
		"set a 0 0 -1\r\n",
		"set a 0 0 y noreply\r\nmn\r\n",
		"set a 0 0 1 2 3\r\n",
		"cas a 0 0 1\r\n",
		"ms a\r\n",
		"ms a y\r\n",
		"ms a -3\r\n",
		"ms a S3\r\n",
		"incr a\r\n",
		"incr a 1 2 3\r\n",
		"touch a\r\n",
		"delete\r\n",
		"delete 1 2 3 4 5\r\n",
		"flush_all 1 2 3\r\n",
		"md\r\n",
		"ma\r\n",
		"gat\r\n",
		"set nothing 0 0 3\r\nabcd\r\nmn\r\n",
		"set nothing 0 0 3\r\nabcde\r\nmn\r\n",
		"set nothing 0 0 3\r\nabcdef\r\nmn\r\n",
		"set nothing 0 0 3 noreply\r\nabcd\r\nmn\r\n",
		"ms nothing 3 q\r\nabcdef\r\nmn\r\n",
	};

	COMPARE_ALL(requests);
}

/* memcached forgets replies of the same batch over this: they are asked for one by one. */
static void one_bad_key_spoils_the_whole_get(void **state)
{
	static const char *const requests[] = {
		"get " A250 "k\r\n",
		"get a " A250 "k a\r\n",
		"gets a a a a a a a a a a a a a a a a a a a a a a a a a a a a " A250 "k\r\n",
	};

	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
		compare(kw_slice_text(requests[i]));
}

static void the_connection_ends_where_memcached_ends_it(void **state)
{
	static const char *const requests[] = {
		"quit\r\nget a\r\n",
		"quit now\r\nget a\r\n",
		"get a\r\nquit\r\n",
		"GET / HTTP/1.1\r\nget a\r\n",
	};

	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++) {
		struct client client;

		compare(kw_slice_text(requests[i]));
		ask(kw_slice_text(requests[i]), &client);
		assert_true(client.closed);
		forget(&client);
	}
}

static void any_number_of_keys_can_be_asked_for_at_once(void **state)
{
	static const unsigned counts[] = {100, 1000, 4000, 50000};

	for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
		struct kw_buffer out = {0};

		kw_buffer_append(&out, "gets", 4);
		for (unsigned n = 0; n < counts[i]; n++)
			kw_buffer_append(&out, n % 3 ? " nothing" : " a       ", n % 3 ? 8 : 9);
		kw_buffer_append(&out, "\r\nget number\r\n", 14);
		compare(kw_slice(kw_buffer_bytes(&out), kw_buffer_length(&out)));
		kw_buffer_close(&out);
	}
}

/* ---- what only a gateway says ---- */

struct says {
	const char *request, *expected;
	unsigned refused;
};

static void check_all(const struct says *cases, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct client client;

		ask(kw_slice_text(cases[i].request), &client);
		assert_string_equal((const char *)kw_buffer_bytes(&client.out), cases[i].expected);
		assert_int_equal(client.refused, cases[i].refused);
		assert_false(client.closed);
		forget(&client);
	}
}

#define CHECK_ALL(cases) check_all(cases, sizeof cases / sizeof *cases)

static void writes_are_refused_and_the_connection_goes_on(void **state)
{
	static const struct says cases[] = {
		{"set a 0 0 3\r\nabc\r\nmn\r\n", READ_ONLY "MN\r\n", 1},
		{"set a 0 0 0\r\n\r\nmn\r\n", READ_ONLY "MN\r\n", 1},
		{"set a 1 -1 9\r\nget a\r\nmn\r\nmn\r\n", READ_ONLY "MN\r\n", 1},
		{"set a 0 0 3 noreply\r\nabc\r\nmn\r\n", "MN\r\n", 1},
		{"add a 0 0 3\r\nabc\r\nappend a 0 0 3\r\nabc\r\nprepend a 0 0 3\r\nabc\r\n"
		 "replace a 0 0 3\r\nabc\r\ncas a 0 0 3 17\r\nabc\r\nmn\r\n",
			READ_ONLY READ_ONLY READ_ONLY READ_ONLY READ_ONLY "MN\r\n", 5},
		{"cas a 0 0 3 17 noreply\r\nabc\r\nmn\r\n", "MN\r\n", 1},
		{"ms a 3\r\nabc\r\nms a 3 q c\r\nabc\r\nmn\r\n", READ_ONLY READ_ONLY "MN\r\n", 2},
		{"md a\r\nmd a q\r\nma a\r\nmn\r\n", READ_ONLY READ_ONLY READ_ONLY "MN\r\n", 3},
		{"incr a 1\r\ndecr a 1\r\ntouch a 1\r\ndelete a\r\nmn\r\n",
			READ_ONLY READ_ONLY READ_ONLY READ_ONLY "MN\r\n", 4},
		{"incr a 1 noreply\r\ndecr a 1 noreply\r\ntouch a 1 noreply\r\n"
		 "delete a noreply\r\nmn\r\n",
			"MN\r\n", 4},
		{"gat 0 a\r\ngats 0 a\r\nmn\r\n", READ_ONLY READ_ONLY "MN\r\n", 2},
		{"flush_all\r\nflush_all 10\r\nflush_all noreply\r\nmn\r\n",
			"CLIENT_ERROR flush_all not allowed\r\n"
			"CLIENT_ERROR flush_all not allowed\r\nMN\r\n",
			3},
		{"lru_crawler metadump all\r\nwatch\r\nmn\r\n",
			"CLIENT_ERROR lru crawler disabled\r\n"
			"CLIENT_ERROR watch commands not allowed\r\nMN\r\n",
			2},
	};

	CHECK_ALL(cases);
}

static void a_data_block_is_passed_over_whatever_is_wrong(void **state)
{
	static const struct says cases[] = {
		{"set " A250 "k 0 0 9\r\nflush_all\r\nmn\r\n", BAD_LINE "MN\r\n", 1},
		{"set a x 0 9\r\nflush_all\r\nmn\r\n", BAD_LINE "MN\r\n", 1},
		{"set a 0 x 9\r\nflush_all\r\nmn\r\n", BAD_LINE "MN\r\n", 1},
		{"set a x 0 9 noreply\r\nflush_all\r\nmn\r\n", "MN\r\n", 1},
		{"cas a 0 0 9 x\r\nflush_all\r\nmn\r\n", BAD_LINE "MN\r\n", 1},
		{"ms " A250 "k 9\r\nflush_all\r\nmn\r\n", BAD_LINE "MN\r\n", 1},
	};

	CHECK_ALL(cases);
}

static void a_data_block_needs_no_memory(void **state)
{
	enum { PIECE = 1 << 16, PIECES = 512 };
	char *piece = calloc(1, PIECE);
	struct client client = {.closed = false};
	char line[64];

	snprintf(line, sizeof line, "set a 0 0 %d\r\n", PIECE * PIECES);
	feed(&client, line, strlen(line));
	for (int i = 0; i < PIECES; i++) {
		feed(&client, piece, PIECE);
		assert_true(kw_buffer_length(&client.in) <= 2);
	}
	feed(&client, "\r\nmn\r\n", 6);
	kw_buffer_append(&client.out, "", 1);
	assert_string_equal((const char *)kw_buffer_bytes(&client.out), READ_ONLY "MN\r\n");
	free(piece);
	forget(&client);
}

static void a_key_that_cannot_be_answered_is_an_error_never_a_miss(void **state)
{
	static const char no_string[] =
		"SERVER_ERROR the key holds no string: read it by a Redis client\r\n";
	static const char loading[] = "SERVER_ERROR the table is being filled  END\r\n";
	const struct says cases[] = {
		{"get a-list\r\nmn\r\n", "", 0},
		{"get a-list a\r\nmn\r\n", "", 0},
		{"mg a-list\r\nmn\r\n", "", 0},
		{"mg a-list q k v\r\nmn\r\n", "", 0},
		{"me a-list\r\nmn\r\n", "", 0},
		{"get loading\r\nmn\r\n", loading, 0},
		{"gets loading a a\r\nmn\r\n", loading, 0},
		{"mg loading q\r\nmn\r\n", loading, 0},
		{"me loading\r\nmn\r\n", loading, 0},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char expected[128];

		snprintf(expected, sizeof expected, "%sMN\r\n",
			*cases[i].expected ? cases[i].expected : no_string);
		check_all(&(struct says){cases[i].request, expected, 0}, 1);
	}
}

static void nothing_follows_an_error_among_many_keys(void **state)
{
	static const struct says cases[] = {
		{"get a loading a\r\nmn\r\n",
			"VALUE a 0 3\r\nabc\r\nSERVER_ERROR the table is being filled  "
			"END\r\nMN\r\n",
			0},
		{"get a a-list a a-list a\r\nget b\r\n",
			"VALUE a 0 3\r\nabc\r\nSERVER_ERROR the key holds no string: read it by a "
			"Redis client\r\nVALUE b 0 0\r\n\r\nEND\r\n",
			0},
	};

	CHECK_ALL(cases);
}

static void a_value_that_is_not_understood_is_an_error(void **state)
{
	static const char begins[] = "SERVER_ERROR the gateway cannot read this value: ";
	struct client client;

	ask(kw_slice_text("get torn a\r\nmn\r\n"), &client);
	assert_memory_equal(kw_buffer_bytes(&client.out), begins, sizeof begins - 1);
	assert_null(strstr((const char *)kw_buffer_bytes(&client.out), "VALUE"));
	assert_false(client.closed);
	forget(&client);
}

static void what_a_gateway_cannot_know_or_do_is_refused(void **state)
{
	static const char changes[] =
		"SERVER_ERROR this gateway only reads: leave out the flags N, R and T\r\nMN\r\n";
	static const char reads[] = "SERVER_ERROR this gateway does not know when a key was read "
				    "last: leave out the flags h and l\r\nMN\r\n";
	const struct says cases[] = {
		{"mg a v N30\r\nmn\r\n", changes, 0},
		{"mg a v R30 q\r\nmn\r\n", changes, 0},
		{"mg a T30\r\nmn\r\n", changes, 0},
		{"mg a v h\r\nmn\r\n", reads, 0},
		{"mg a l v\r\nmn\r\n", reads, 0},
		{"mg Y=Q= b v k\r\nmn\r\n", "CLIENT_ERROR error decoding key\r\nMN\r\n", 0},
		{"mg a T30 z\r\nmn\r\n", "CLIENT_ERROR invalid flag\r\nMN\r\n", 0},
	};

	CHECK_ALL(cases);
}

static void keys_with_control_characters_are_refused(void **state)
{
	static const struct says cases[] = {
		{"get a\tb\r\nmn\r\n", BAD_LINE "MN\r\n", 0},
		{"get a\x01\r\nmn\r\n", BAD_LINE "MN\r\n", 0},
		{"get a \x7f\r\nmn\r\n", BAD_LINE "MN\r\n", 0},
		{"get a\r\r\nmn\r\n", BAD_LINE "MN\r\n", 0},
		{"mg a\tb v\r\nmn\r\n", BAD_LINE "MN\r\n", 0},
		{"me a\x1f\r\nmn\r\n", BAD_LINE "MN\r\n", 0},
	};

	CHECK_ALL(cases);
}

static void me_tells_what_is_known(void **state)
{
	struct says cases[] = {
		{"me a\r\n", "ME a exp=-1 cas=17 size=3\r\n", 0},
		{"me c2UgbQ== b\r\n", "ME c2UgbQ== exp=-1 cas=17 size=3\r\n", 0},
		{"me dying\r\n", "ME dying exp=2 cas=17 size=4\r\n", 0},
	};

	for (size_t i = 0; i < ITEMS; i++)
		items[i].version = 17;
	/* A second that has begun counts. */
	find(kw_slice_text("dying"))->expires_ms = NOW_MS + 1001;
	CHECK_ALL(cases);
}

static void stats_have_the_names_that_clients_ask_for(void **state)
{
	static const struct says cases[] = {
		{"stats items\r\nstats conns\r\n", "END\r\nEND\r\n", 0},
		{"stats slabs\r\n", "STAT active_slabs 0\r\nSTAT total_malloced 0\r\nEND\r\n", 0},
		{"stats cachedump 1 1\r\n", "CLIENT_ERROR stats cachedump not allowed\r\n", 0},
		{"stats detail on\r\n", "CLIENT_ERROR stats detail not allowed\r\n", 0},
		{"version\r\n", "VERSION " KW_MEMCACHED_VERSION "\r\n", 0},
	};
	static const char *const figures[] = {"STAT pid 7\r\n", "STAT get_hits 0\r\n",
		"STAT max_connections 10\r\n", "STAT version 1.", "STAT pointer_size 64\r\nSTAT"};
	struct client client;
	const char *text;

	CHECK_ALL(cases);
	ask(kw_slice_text("stats\r\nstats settings\r\n"), &client);
	text = (const char *)kw_buffer_bytes(&client.out);
	for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
		assert_non_null(strstr(text, figures[i]));
	assert_non_null(strstr(text, "END\r\nSTAT maxconns 10\r\n"));
	forget(&client);
}

static void the_binary_protocol_is_refused_in_its_own_words(void **state)
{
	static const char asked[] = "\x80\xfb\0\0\0\0\0\0\0\0\0\0\1\2\3\4\0\0\0\0\0\0\0";
	struct kw_slice bytes = kw_slice(asked, sizeof asked);
	struct kw_buffer reply = {0};
	struct client client;

	/* An opcode that memcached does not know either. */
	memcached_peer_ask(&peer, bytes, &reply);
	ask(bytes, &client);
	assert_int_equal(kw_buffer_length(&client.out), kw_buffer_length(&reply) + 1);
	assert_memory_equal(
		kw_buffer_bytes(&client.out), kw_buffer_bytes(&reply), kw_buffer_length(&reply));
	assert_true(client.closed);
	kw_buffer_close(&reply);
	forget(&client);
}

static void a_line_that_is_too_long_ends_the_connection(void **state)
{
	static const char *const fronts[] = {"", "get ", "get a ", "gets", "mg a O"};
	char *line = malloc(2 * KW_MEMCACHED_LINE_MAX);

	for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
		struct client client = {.closed = false};

		memset(line, 'x', 2 * KW_MEMCACHED_LINE_MAX);
		memcpy(line, fronts[i], strlen(fronts[i]));
		feed(&client, line, KW_MEMCACHED_LINE_MAX - 1);
		assert_false(client.closed);
		feed(&client, line, 1);
		assert_true(client.closed);
		kw_buffer_append(&client.out, "", 1);
		assert_string_equal((const char *)kw_buffer_bytes(&client.out),
			"CLIENT_ERROR line too long\r\n");
		forget(&client);
	}
	free(line);
}

/* A line in parts: "get a a a … <late> a" and then "get b". */
static void ask_late(const char *late, struct client *client)
{
	struct kw_buffer line = {0};

	*client = (struct client){.closed = false};
	kw_buffer_append(&line, "get", 3);
	for (int n = 0; n < 10000; n++)
		kw_buffer_append(&line, " a", 2);
	kw_buffer_printf(&line, " %s a\r\nget b\r\n", late);
	feed(client, (const char *)kw_buffer_bytes(&line), kw_buffer_length(&line));
	kw_buffer_append(&client->out, "", 1);
	kw_buffer_close(&line);
}

static void ends_with(const struct client *client, const char *end)
{
	const char *text = (const char *)kw_buffer_bytes(&client->out);

	assert_string_equal(text + strlen(text) - strlen(end), end);
}

static void a_long_line_has_one_end(void **state)
{
	static const char error[] = "abc\r\nSERVER_ERROR the table is being filled  END\r\n"
				    "VALUE b 0 0\r\n\r\nEND\r\n";
	struct client client;

	ask_late("a", &client);
	ends_with(&client, "abc\r\nEND\r\nVALUE b 0 0\r\n\r\nEND\r\n");
	forget(&client);
	ask_late("loading", &client);
	assert_false(client.closed);
	ends_with(&client, error);
	forget(&client);
	ask_late("a\tb", &client);
	assert_true(client.closed);
	ends_with(&client, "abc\r\n" BAD_LINE);
	forget(&client);
}

static void base64_is_read_as_it_is_written(void **state)
{
	uint8_t bytes[KW_MEMCACHED_KEY_MAX], back[KW_MEMCACHED_KEY_MAX + 2];
	char text[KW_BASE64_LENGTH(KW_MEMCACHED_KEY_MAX)];

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 37 + 11);
	for (size_t length = 1; length <= sizeof bytes; length++) {
		size_t written = kw_base64_encode(kw_slice(bytes, length), text);

		assert_int_equal(written, KW_BASE64_LENGTH(length));
		assert_int_equal(kw_base64_decode(kw_slice(text, written), back), length);
		assert_memory_equal(back, bytes, length);
	}
	assert_int_equal(kw_base64_decode(kw_slice("", 0), back), 0);
	assert_int_equal(kw_base64_decode(kw_slice("====", 4), back), 0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get_answers_as_memcached),
		cmocka_unit_test(mg_answers_as_memcached),
		cmocka_unit_test(errors_are_memcacheds),
		cmocka_unit_test(one_bad_key_spoils_the_whole_get),
		cmocka_unit_test(the_connection_ends_where_memcached_ends_it),
		cmocka_unit_test(any_number_of_keys_can_be_asked_for_at_once),
		cmocka_unit_test(writes_are_refused_and_the_connection_goes_on),
		cmocka_unit_test(a_data_block_is_passed_over_whatever_is_wrong),
		cmocka_unit_test(a_data_block_needs_no_memory),
		cmocka_unit_test(a_key_that_cannot_be_answered_is_an_error_never_a_miss),
		cmocka_unit_test(nothing_follows_an_error_among_many_keys),
		cmocka_unit_test(a_value_that_is_not_understood_is_an_error),
		cmocka_unit_test(what_a_gateway_cannot_know_or_do_is_refused),
		cmocka_unit_test(keys_with_control_characters_are_refused),
		cmocka_unit_test(me_tells_what_is_known),
		cmocka_unit_test(stats_have_the_names_that_clients_ask_for),
		cmocka_unit_test(the_binary_protocol_is_refused_in_its_own_words),
		cmocka_unit_test(a_line_that_is_too_long_ends_the_connection),
		cmocka_unit_test(a_long_line_has_one_end),
		cmocka_unit_test(base64_is_read_as_it_is_written),
	};

	if (argc > 1)
		binary = argv[1];
	return cmocka_run_group_tests(tests, start, stop);
}
