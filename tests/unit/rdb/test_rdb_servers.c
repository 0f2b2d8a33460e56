/*
 * An RDB file composed from DUMP payloads, judged by real servers: redis-check-rdb finds nothing,
 * another server loads it, and the two have the same DEBUG DIGEST.
 *
 *   test_rdb_servers [server [checking program]]
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "payload_build.h"
#include "payload_peer.h"
#include "rdb/libraries.h"
#include "rdb/payload.h"
#include "rdb/rdb.h"

#define EXPIRES_MS UINT64_C(4102444800123) /* in 2100 */
#define MANY 2000

static const char *binary = "/usr/bin/redis-server";
static const char *checker = "/usr/bin/redis-check-rdb";
static struct peer first, second;
static struct kw_buffer file, payload, libraries;
static struct kw_rdb rdb;

static int start_servers(void **state)
{
	static const char *const debug[] = {"--enable-debug-command", "yes", NULL};

	peer_start(&first, binary, debug);
	peer_start(&second, binary, debug);
	return 0;
}

static int stop_servers(void **state)
{
	char path[128];

	snprintf(path, sizeof path, "%s/dump.rdb", second.folder);
	unlink(path);
	peer_stop(&first);
	peer_stop(&second);
	kw_buffer_close(&file);
	kw_buffer_close(&payload);
	kw_buffer_close(&libraries);
	return 0;
}

static void put(uint32_t database, const char *key, uint64_t expires_ms)
{
	struct kw_rdb_entry entry = {database, expires_ms, kw_slice_text(key), {0}};
	struct kw_error error;
	char number[16];

	snprintf(number, sizeof number, "%u", database);
	peer_words(&first, NULL, "SELECT", number, NULL);
	kw_buffer_clear(&payload);
	if (peer_words(&first, &payload, "DUMP", key, NULL) != '$')
		fail_msg("DUMP %s gave nothing", key);
	entry.payload = build_slice(&payload);
	if (kw_rdb_put(&rdb, &entry, &file, &error))
		fail_msg("%s: %s", key, error.text);
}

/* What the server writes says which version its RDB files have. */
static void begin(void)
{
	uint16_t version = 0;

	peer_words(&first, NULL, "SET", "probe", "", NULL);
	kw_buffer_clear(&payload);
	peer_words(&first, &payload, "DUMP", "probe", NULL);
	assert_int_equal(kw_payload_check(build_slice(&payload), &version, NULL), KW_OK);
	peer_words(&first, NULL, "DEL", "probe", NULL);
	kw_buffer_clear(&file);
	kw_rdb_begin(&rdb, version, true, &file);
}

static void check(const char *path)
{
	int status;
	pid_t pid = fork();

	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		if (!freopen("/dev/null", "w", stdout))
			_exit(126);
		execl(checker, "redis-check-rdb", path, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		fail_msg("%s %s ends with status %d", checker, path, status);
}

static void assert_loaded_equal(void)
{
	struct kw_buffer here = {0}, there = {0};
	char path[128];
	FILE *stream;

	kw_rdb_end(&rdb, &file);
	snprintf(path, sizeof path, "%s/dump.rdb", second.folder);
	stream = fopen(path, "wb");
	assert_non_null(stream);
	assert_int_equal(fwrite(kw_buffer_bytes(&file), 1, kw_buffer_length(&file), stream),
		kw_buffer_length(&file));
	assert_int_equal(fclose(stream), 0);
	check(path);
	assert_int_equal(peer_words(&second, NULL, "DEBUG", "RELOAD", "NOSAVE", NULL), '+');
	peer_words(&first, &here, "DEBUG", "DIGEST", NULL);
	peer_words(&second, &there, "DEBUG", "DIGEST", NULL);
	assert_int_equal(kw_buffer_length(&here), 40);
	assert_memory_equal(kw_buffer_bytes(&here), kw_buffer_bytes(&there), 40);
	kw_buffer_close(&here);
	kw_buffer_close(&there);
}

static void fill_each_type(void)
{
	char number[16], text[64];

	peer_words(&first, NULL, "SELECT", "0", NULL);
	peer_words(&first, NULL, "SET", "string", "text", NULL);
	peer_words(&first, NULL, "SET", "", "the empty key", NULL);
	peer_words(&first, NULL, "SETRANGE", "sparse", "100000", "end", NULL);
	peer_words(&first, NULL, "SET", "number", "-12345", NULL);
	for (int i = 0; i < MANY; i++) {
		snprintf(number, sizeof number, "%d", i);
		snprintf(text, sizeof text, "an element of some length, number %d", i);
		peer_words(&first, NULL, "RPUSH", "list", text, NULL);
		peer_words(&first, NULL, "SADD", "integers", number, NULL);
		peer_words(&first, NULL, "SADD", "texts", text, NULL);
		peer_words(&first, NULL, "ZADD", "zset", number, text, NULL);
		peer_words(&first, NULL, "HSET", "hash", number, text, NULL);
		peer_words(&first, NULL, "XADD", "stream", "*", "field", text, NULL);
	}
	peer_words(&first, NULL, "XGROUP", "CREATE", "stream", "group", "0", NULL);
	peer_words(&first, NULL, "XREADGROUP", "GROUP", "group", "consumer", "COUNT", "10",
		"STREAMS", "stream", ">", NULL);
	peer_words(&first, NULL, "HSET", "small hash", "f", "v", NULL);
	peer_words(&first, NULL, "PFADD", "log", "a", "b", "c", NULL);
	peer_words(&first, NULL, "SET", "expires", "v", "PXAT", "4102444800123", NULL);
	peer_words(&first, NULL, "SELECT", "9", NULL);
	peer_words(&first, NULL, "SET", "string", "in another database", NULL);
}

static void each_type_loads_and_has_the_same_digest(void **state)
{
	static const char *const keys[] = {"string", "", "sparse", "number", "list", "integers",
		"texts", "zset", "hash", "stream", "small hash", "log"};

	fill_each_type();
	begin();
	kw_rdb_sizes(&rdb, 0, sizeof keys / sizeof *keys + 1, 1, &file);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		put(0, keys[i], 0);
	put(9, "string", 0);
	put(0, "expires", EXPIRES_MS); /* back in a database that was left */
	assert_loaded_equal();
}

static void libraries_come_along_less_one(void **state)
{
	static const char kept[] = "#!lua name=kept\nredis.register_function('kept', function() "
				   "return 'kept' end)";
	static const char left[] = "#!lua name=left\nredis.register_function('left', function() "
				   "return 'left' end)";
	static const char added[] = "#!lua name=added\nredis.register_function('added', function() "
				    "return 'added' end)";
	const struct kw_slice call[] = {
		kw_slice_text("FCALL"), kw_slice_text("left"), kw_slice_text("0")};
	const struct kw_rdb_except except = {.name = "left"};
	struct kw_error error;

	peer_words(&first, NULL, "FLUSHALL", NULL);
	begin();
	peer_words(&first, &libraries, "FUNCTION", "DUMP", NULL);
	assert_int_equal(
		kw_rdb_functions(&rdb, build_slice(&libraries), NULL, &file, &error), KW_OK);
	kw_buffer_clear(&libraries);
	peer_words(&first, NULL, "FUNCTION", "LOAD", kept, NULL);
	peer_words(&first, NULL, "FUNCTION", "LOAD", left, NULL);
	peer_words(&first, &libraries, "FUNCTION", "DUMP", NULL);
	if (kw_rdb_functions(&rdb, build_slice(&libraries), &except, &file, &error))
		fail_msg("%s", error.text);
	kw_rdb_function(&rdb, kw_slice_text(added), &file);
	assert_loaded_equal();
	assert_int_equal(peer_words(&second, NULL, "FCALL", "kept", "0", NULL), '$');
	assert_int_equal(peer_words(&second, NULL, "FCALL", "added", "0", NULL), '$');
	assert_int_equal(peer_command(&second, NULL, 3, call), '-');
}

static void read_set(struct peer *peer, struct kw_libraries *set)
{
	struct kw_error error;

	kw_libraries_close(set);
	kw_buffer_clear(&libraries);
	peer_words(peer, &libraries, "FUNCTION", "DUMP", NULL);
	if (kw_libraries_read(set, build_slice(&libraries), 1 << 20, &error))
		fail_msg("%s", error.text);
}

/* Packed by the first server, and plain for the second, which says the same of it. */
static void a_set_of_libraries_goes_from_server_to_server(void **state)
{
	static const char long_code[] =
		"#!lua name=long\n-- aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n"
		"redis.register_function('long', function() return 1 end)";
	static const char short_code[] =
		"#!lua name=short\nredis.register_function('short', function() return 2 end)";
	struct kw_libraries set = {0};
	struct kw_hash128 sent, found;

	peer_words(&first, NULL, "FUNCTION", "FLUSH", NULL);
	peer_words(&second, NULL, "FUNCTION", "FLUSH", NULL);
	peer_words(&first, NULL, "FUNCTION", "LOAD", short_code, NULL);
	peer_words(&first, NULL, "FUNCTION", "LOAD", long_code, NULL);
	read_set(&first, &set);
	assert_int_equal(set.count, 2);
	sent = kw_libraries_digest(&set);
	kw_buffer_clear(&file);
	kw_libraries_write(&set, 10, &file);
	{
		const struct kw_slice restore[] = {kw_slice_text("FUNCTION"),
			kw_slice_text("RESTORE"), build_slice(&file), kw_slice_text("REPLACE")};

		assert_int_equal(peer_command(&second, NULL, 4, restore), '+');
	}
	assert_int_equal(peer_words(&second, NULL, "FCALL", "long", "0", NULL), ':');
	read_set(&second, &set);
	found = kw_libraries_digest(&set);
	assert_memory_equal(&sent, &found, sizeof sent);
	kw_libraries_close(&set);
	peer_words(&first, NULL, "FUNCTION", "FLUSH", NULL);
	read_set(&first, &set);
	assert_int_equal(set.count, 0);
	kw_libraries_close(&set);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_type_loads_and_has_the_same_digest),
		cmocka_unit_test(libraries_come_along_less_one),
		cmocka_unit_test(a_set_of_libraries_goes_from_server_to_server),
	};

	if (argc > 1)
		binary = argv[1];
	if (argc > 2)
		checker = argv[2];
	return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
