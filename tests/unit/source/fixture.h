/*
 * What the tests of the source stand on: a real server of their own, a real table in plain memory,
 * a source that follows, and a client to write with, all on one loop.
 */
#ifndef KW_TEST_SOURCE_FIXTURE_H
#define KW_TEST_SOURCE_FIXTURE_H

#include "redis/redis.h"
#include "source/source.h"
#include "table/table.h"

/* cmocka.h wants these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/types.h>

#include "../redis/ports.h"

#define TEST_PATIENCE_MS 20000

struct test_server {
	char folder[64];
	char address[96];
	pid_t pid;
};

/* words: further ones of its command line, separated by spaces; "" for none. */
void test_server_start(struct test_server *server, const char *words);
void test_server_kill(struct test_server *server);
/* The same folder and socket again, after a kill. */
void test_server_again(struct test_server *server, const char *words);
void test_server_stop(struct test_server *server); /* and remove its folder */

struct test {
	struct test_server server;
	uv_loop_t loop;
	uv_prepare_t publish;
	uv_timer_t tick; /* so that the loop never sleeps for long */
	uint8_t *memory;
	uint64_t reserve_bytes;
	struct kw_table *table;
	struct kw_source_options options;
	struct kw_source *source;
	struct kw_redis *client;
	bool client_ready, client_closed, source_closed;
	/* The last reply, as text (of an array, its last element); and every state that was told,
	 * by name, with a space each. */
	char reply[4096];
	int64_t integer;
	bool replied, refused;
	char states[2048];
};

/* The server, the loop, the table and the client; options are there to be changed before
 * test_follow. */
void test_begin(struct test *test, const char *server_words, uint64_t table_bytes);
/* The table and the source carry function libraries. Before test_follow. */
void test_carry_functions(struct test *test);
void test_follow(struct test *test);
void test_end(struct test *test);

/* The source ends; the table and the server stay. test_follow begins another one. */
void test_leave(struct test *test);

/* Reach the server again after a restart. */
void test_reconnect(struct test *test);

/* One command in words (separated by one space), and its reply as text. An error fails the test. */
const char *test_ask(struct test *test, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same; errors are let through. */
const char *test_try(struct test *test, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* Command by argv, for binary keys and values. */
void test_send(struct test *test, int argc, const struct kw_slice *argv);

/* Queue a command without waiting for its reply; test_ask waits for all before it. */
void test_post(struct test *test, const char *format, ...) __attribute__((format(printf, 2, 3)));

void test_run_ms(struct test *test, uint64_t ms);
/* Run the loop until done(arg); the test fails after TEST_PATIENCE_MS. */
void test_until(struct test *test, bool (*done)(struct test *test), const char *what);
void test_until_state(struct test *test, enum kw_source_state state);
bool test_is_live(struct test *test);

/* Everything written so far is in the table: by what the freshness barrier says. */
void test_settle(struct test *test);

/* Is the table equal to the server: every key, its value and expiry, and no key more? */
void test_assert_same(struct test *test);
bool test_same(struct test *test, bool loud);

struct kw_source_stats test_stats(const struct test *test);
bool test_has(struct test *test, uint32_t database, const char *key);

#endif
