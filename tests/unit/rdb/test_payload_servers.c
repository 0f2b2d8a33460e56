/*
 * The canonical digest against real servers: what one server wrote, another with other limits loads
 * and writes again; the digests must agree, and part with the first changed element.
 *
 *   test_payload_servers [server [another server, as new or newer]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "payload_build.h"
#include "payload_peer.h"
#include "rdb/payload.h"
#include "rdb/payload_visit.h"

static const char *first_binary = "/usr/bin/redis-server";
static const char *second_binary = "/usr/bin/redis-server";
static struct peer first, second;

#define ELEMENT_ROOM 6000

/* What the second server does differently; the names differ by version, so all are tried. */
static const char *const other_limits[][2] = {
	{"hash-max-listpack-entries", "0"},
	{"hash-max-ziplist-entries", "0"},
	{"zset-max-listpack-entries", "0"},
	{"zset-max-ziplist-entries", "0"},
	{"set-max-intset-entries", "0"},
	{"set-max-listpack-entries", "0"},
	{"list-max-listpack-size", "7"},
	{"list-max-ziplist-size", "7"},
	{"list-compress-depth", "1"},
	{"rdbcompression", "no"},
};

static int start_servers(void **state)
{
	peer_start(&first, first_binary, NULL);
	peer_start(&second, second_binary, NULL);
	for (size_t i = 0; i < sizeof other_limits / sizeof *other_limits; i++) {
		const struct kw_slice words[] = {kw_slice_text("CONFIG"), kw_slice_text("SET"),
			kw_slice_text(other_limits[i][0]), kw_slice_text(other_limits[i][1])};

		peer_command(&second, NULL, 4, words);
	}
	return 0;
}

static int stop_servers(void **state)
{
	peer_stop(&first);
	peer_stop(&second);
	return 0;
}

static void dump(struct peer *peer, const char *key, struct kw_buffer *payload)
{
	kw_buffer_clear(payload);
	if (peer_words(peer, payload, "DUMP", key, NULL) != '$')
		fail_msg("DUMP %s gave nothing", key);
}

/* false: this server does not know the payload's type yet. */
static bool restore(struct peer *peer, const char *key, struct kw_slice payload)
{
	uint8_t type = *(const uint8_t *)payload.data;
	bool done;
	const struct kw_slice words[] = {kw_slice_text("RESTORE"), kw_slice_text(key),
		kw_slice_text("0"), payload, kw_slice_text("REPLACE")};
	struct kw_buffer reply = {0};

	done = peer_command(peer, &reply, 5, words) == '+';
	if (!done && type != 20)
		fail_msg("RESTORE %s (type %u): %.*s", key, type, (int)kw_buffer_length(&reply),
			(const char *)kw_buffer_bytes(&reply));
	kw_buffer_close(&reply);
	return done;
}

static struct kw_hash128 digest_of(struct kw_slice payload)
{
	struct kw_hash128 digest = {0};
	struct kw_error error;

	if (kw_payload_check(payload, NULL, &error) || kw_payload_digest(payload, &digest, &error))
		fail_msg("%s", error.text);
	return digest;
}

static struct kw_hash128 key_digest(struct peer *peer, const char *key)
{
	struct kw_buffer payload = {0};
	struct kw_hash128 digest;

	dump(peer, key, &payload);
	digest = digest_of(build_slice(&payload));
	kw_buffer_close(&payload);
	return digest;
}

static void assert_digests(struct kw_hash128 a, struct kw_hash128 b, bool equal, const char *what)
{
	if ((a.low == b.low && a.high == b.high) != equal)
		fail_msg("%s: the digests %s", what, equal ? "differ" : "agree");
}

/* What the payload says of its size is what the server says. */
static void assert_size(struct peer *peer, const char *key, struct kw_slice payload)
{
	static const char *const commands[] = {
		[KW_VALUE_STRING] = "STRLEN",
		[KW_VALUE_LIST] = "LLEN",
		[KW_VALUE_SET] = "SCARD",
		[KW_VALUE_HASH] = "HLEN",
		[KW_VALUE_ZSET] = "ZCARD",
		[KW_VALUE_MODULE] = NULL,
	};
	const char *command = commands[kw_payload_kind(payload)];
	struct kw_buffer reply = {0};
	struct kw_error error;
	uint64_t size;

	if (!command)
		return;
	if (kw_payload_size(payload, &size, &error))
		fail_msg("%s: %s", key, error.text);
	assert_int_equal(peer_words(peer, &reply, command, key, NULL), ':');
	kw_buffer_append(&reply, "", 1);
	assert_int_equal(size, strtoull((const char *)kw_buffer_bytes(&reply), NULL, 10));
	kw_buffer_close(&reply);
}

/* first -> second -> first under another name: three digests that agree. */
static void assert_travels(const char *key)
{
	struct kw_buffer payload = {0};
	struct kw_hash128 here, there, back;

	dump(&first, key, &payload);
	here = digest_of(build_slice(&payload));
	assert_size(&first, key, build_slice(&payload));
	restore(&second, key, build_slice(&payload));
	dump(&second, key, &payload);
	there = digest_of(build_slice(&payload));
	assert_size(&second, key, build_slice(&payload));
	assert_digests(here, there, true, key);
	if (strcmp(first_binary, second_binary) == 0) {
		restore(&first, "back", build_slice(&payload));
		back = key_digest(&first, "back");
		assert_digests(here, back, true, key);
	}
	kw_buffer_close(&payload);
}

/* Copy key to "changed"; the caller then changes that. */
static void copy_key(const char *key)
{
	struct kw_buffer payload = {0};

	dump(&first, key, &payload);
	restore(&first, "changed", build_slice(&payload));
	kw_buffer_close(&payload);
	assert_digests(key_digest(&first, key), key_digest(&first, "changed"), true, key);
}

static void assert_changed(const char *key)
{
	assert_digests(key_digest(&first, key), key_digest(&first, "changed"), false, key);
}

/* An element: sometimes a number, sometimes text of `length` bytes; all different. */
static struct kw_slice element(char *room, size_t i, size_t length)
{
	static const char *const zeros[] = {"", "000", "000000", "00000000000"};

	if (length == 0 || i % 3 == 0) {
		snprintf(room, ELEMENT_ROOM, "%s%zu%s", i % 2 ? "-" : "", i + 1,
			zeros[length ? i / 3 % 4 : 0]);
		return kw_slice_text(room);
	}
	if (length < 12)
		length = 12;
	memset(room, 'a' + (int)(i % 26), length);
	memcpy(room, &i, 8); /* binary, too */
	return kw_slice(room, length);
}

static const size_t counts[] = {1, 2, 31, 127, 128, 129, 511, 512, 513, 1200};
static const size_t lengths[] = {0, 12, 63, 64, 65, 300, 5000};

typedef void (*add_fn)(const char *key, size_t i, struct kw_slice element);

static void add(const char *command, const char *key, const char *word, struct kw_slice element,
	struct kw_slice last)
{
	struct kw_slice words[5] = {kw_slice_text(command), kw_slice_text(key)};
	int argc = 2;

	if (word)
		words[argc++] = kw_slice_text(word);
	words[argc++] = element;
	if (last.data)
		words[argc++] = last;
	assert_int_equal(peer_command(&first, NULL, argc, words), ':');
}

static void add_to_list(const char *key, size_t i, struct kw_slice element)
{
	add("RPUSH", key, NULL, element, kw_slice(NULL, 0));
}

static void add_to_set(const char *key, size_t i, struct kw_slice element)
{
	add("SADD", key, NULL, element, kw_slice(NULL, 0));
}

static void add_to_hash(const char *key, size_t i, struct kw_slice element)
{
	char room[ELEMENT_ROOM];

	snprintf(room, sizeof room, i % 2 ? "%zu" : "field-%zu", i);
	add("HSET", key, NULL, kw_slice_text(room), element);
}

static void add_to_zset(const char *key, size_t i, struct kw_slice element)
{
	static const char *const scores[] = {"0", "-0", "1", "-1", "1.5", "0.1", "1e300", "-1e-300",
		"inf", "-inf", "9007199254740993", "3.0517578125e-05", "100000",
		"-9223372036854775808"};
	char text[64];

	if (i < 14)
		snprintf(text, sizeof text, "%s", scores[i]);
	else
		snprintf(text, sizeof text, "%zu.25", i);
	add("ZADD", key, text, element, kw_slice(NULL, 0));
}

static void travels_at_every_boundary(const char *key, add_fn add_one)
{
	char *room = kw_alloc(ELEMENT_ROOM);

	for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
		size_t done = 0;

		peer_words(&first, NULL, "DEL", key, NULL);
		for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
			for (; done < counts[c]; done++)
				add_one(key, done, element(room, done, lengths[l]));
			assert_travels(key);
		}
	}
	free(room);
}

static void a_list_travels_at_every_boundary(void **state)
{
	travels_at_every_boundary("list", add_to_list);
	copy_key("list");
	peer_words(&first, NULL, "LSET", "changed", "700", "other", NULL);
	assert_changed("list");
}

static void a_set_travels_at_every_boundary(void **state)
{
	travels_at_every_boundary("set", add_to_set);
	copy_key("set");
	peer_words(&first, NULL, "SPOP", "changed", NULL);
	assert_changed("set");
	peer_words(&first, NULL, "SADD", "changed", "other", NULL);
	assert_changed("set");
}

static void a_hash_travels_at_every_boundary(void **state)
{
	travels_at_every_boundary("hash", add_to_hash);
	copy_key("hash");
	peer_words(&first, NULL, "HSET", "changed", "field-700", "other", NULL);
	assert_changed("hash");
}

static void a_zset_travels_at_every_boundary(void **state)
{
	travels_at_every_boundary("zset", add_to_zset);
	copy_key("zset");
	peer_words(&first, NULL, "ZREMRANGEBYRANK", "changed", "700", "700", NULL);
	assert_changed("zset");
	peer_words(&first, NULL, "DEL", "zset", NULL);
	peer_words(&first, NULL, "ZADD", "zset", "0.1", "m", "5", "n", NULL);
	copy_key("zset");
	peer_words(&first, NULL, "ZADD", "changed", "0.10000000000000002", "m", NULL);
	assert_changed("zset");
}

static void a_string_travels_at_every_length(void **state)
{
	static const char *const texts[] = {"", "0", "-1", "127", "128", "32768", "2147483648",
		"9223372036854775807", "007", "1.5"};
	char *room = kw_alloc(200000);

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		peer_words(&first, NULL, "SET", "string", texts[i], NULL);
		assert_travels("string");
	}
	for (size_t length = 1; length < 150000; length += 1 + length / 2) {
		for (size_t i = 0; i < length; i++)
			room[i] = (char)('a' + i / 7 * 31 % 26);
		room[length] = '\0';
		peer_words(&first, NULL, "SET", "string", room, NULL);
		assert_travels("string");
	}
	copy_key("string");
	peer_words(&first, NULL, "SETRANGE", "changed", "70000", "#", NULL);
	assert_changed("string");
	peer_words(&first, NULL, "PFADD", "hll", "a", "b", "c", NULL);
	assert_travels("hll");
	peer_words(&first, NULL, "SETBIT", "bits", "100000", "1", NULL);
	assert_travels("bits");
	peer_words(&first, NULL, "GEOADD", "geo", "13.361389", "38.115556", "Palermo", NULL);
	assert_travels("geo");
	free(room);
}

static void a_stream_travels_with_its_groups(void **state)
{
	char text[32];

	for (int i = 1; i <= 500; i++) {
		snprintf(text, sizeof text, "%d-1", i);
		peer_words(&first, NULL, "XADD", "stream", text, "temperature", text, "unit",
			"celsius, as everywhere but in three countries", NULL);
	}
	assert_travels("stream");
	peer_words(&first, NULL, "XDEL", "stream", "3-1", "250-1", NULL);
	peer_words(&first, NULL, "XGROUP", "CREATE", "stream", "g1", "0", NULL);
	peer_words(&first, NULL, "XGROUP", "CREATE", "stream", "g2", "$", NULL);
	peer_words(&first, NULL, "XREADGROUP", "GROUP", "g1", "alice", "COUNT", "20", "STREAMS",
		"stream", ">", NULL);
	peer_words(&first, NULL, "XREADGROUP", "GROUP", "g1", "bob", "COUNT", "20", "STREAMS",
		"stream", ">", NULL);
	assert_travels("stream");
	copy_key("stream");
	peer_words(&first, NULL, "XACK", "changed", "g1", "5-1", NULL);
	assert_changed("stream");
	copy_key("stream");
	peer_words(&first, NULL, "XADD", "changed", "501-1", "a", "b", NULL);
	assert_changed("stream");
}

/* What present servers load, but no longer write. */
static void what_old_servers_wrote_equals_what_this_one_makes_of_it(void **state)
{
	static const char *const words[] = {"m1", "0", "12", "13", "-1", "127", "-4096", "70000",
		"-8388608", "8388607", "2147483647", "123456789012345", "text", "5.5", "two words",
		"-7"};
	static const uint8_t packed[] = {9, 10, 13, 16, 20};
	struct kw_buffer payload = {0}, inner = {0};
	struct kw_slice elements[16];
	char long_text[400];

	memset(long_text, 'l', sizeof long_text);
	for (int i = 0; i < 16; i++)
		elements[i] = kw_slice_text(words[i]);
	elements[15] = kw_slice(long_text, sizeof long_text);
	for (size_t i = 0; i < sizeof packed; i++) {
		kw_buffer_clear(&inner);
		(packed[i] == 9          ? pack_zipmap
			: packed[i] < 16 ? pack_ziplist
					 : pack_listpack)(&inner, elements, 16);
		build_begin(&payload, packed[i]);
		build_string(&payload, build_slice(&inner));
		build_end(&payload, 9);
		/* 20, the set as a listpack, only since 7.2 */
		if (restore(&first, "old", build_slice(&payload)))
			assert_digests(digest_of(build_slice(&payload)), key_digest(&first, "old"),
				true, "packed");
	}
	for (uint8_t type = 1; type <= 4; type++) {
		build_begin(&payload, type);
		build_length(&payload, type == 4 ? 8 : 16);
		for (int i = 0; i < 16; i++) {
			build_string(&payload, elements[i]);
			if (type == 3)
				kw_buffer_append(&payload,
					"\x03"
					"1.5",
					4);
		}
		build_end(&payload, 9);
		restore(&first, "old", build_slice(&payload));
		assert_digests(
			digest_of(build_slice(&payload)), key_digest(&first, "old"), true, "plain");
	}
	build_begin(&payload, 14);
	build_length(&payload, 2);
	for (int i = 0; i < 16; i += 8) {
		kw_buffer_clear(&inner);
		pack_ziplist(&inner, elements + i, 8);
		build_string(&payload, build_slice(&inner));
	}
	build_end(&payload, 9);
	restore(&first, "old", build_slice(&payload));
	assert_digests(
		digest_of(build_slice(&payload)), key_digest(&first, "old"), true, "quicklist");
	kw_buffer_close(&payload);
	kw_buffer_close(&inner);
}

static void fields_that_expire_travel_where_the_server_has_them(void **state)
{
	const struct kw_slice words[] = {kw_slice_text("HPEXPIREAT"), kw_slice_text("ttl"),
		kw_slice_text("1893456000123"), kw_slice_text("FIELDS"), kw_slice_text("2"),
		kw_slice_text("a"), kw_slice_text("c")};

	peer_words(&first, NULL, "HSET", "ttl", "a", "1", "b", "two", "c", "3", NULL);
	if (peer_command(&first, NULL, 7, words) == '-') {
		print_message("%s has none: the captured payloads must do\n", first_binary);
		return;
	}
	assert_travels("ttl");
	copy_key("ttl");
	peer_words(&first, NULL, "HPERSIST", "changed", "FIELDS", "1", "c", NULL);
	assert_changed("ttl");
	copy_key("ttl");
	peer_words(
		&first, NULL, "HPEXPIREAT", "changed", "1893456000124", "FIELDS", "1", "c", NULL);
	assert_changed("ttl");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_string_travels_at_every_length),
		cmocka_unit_test(a_list_travels_at_every_boundary),
		cmocka_unit_test(a_set_travels_at_every_boundary),
		cmocka_unit_test(a_hash_travels_at_every_boundary),
		cmocka_unit_test(a_zset_travels_at_every_boundary),
		cmocka_unit_test(a_stream_travels_with_its_groups),
		cmocka_unit_test(fields_that_expire_travel_where_the_server_has_them),
		cmocka_unit_test(what_old_servers_wrote_equals_what_this_one_makes_of_it),
	};

	if (argc > 1)
		first_binary = second_binary = argv[1];
	if (argc > 2)
		second_binary = argv[2];
	return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
