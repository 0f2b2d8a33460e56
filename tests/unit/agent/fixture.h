/*
 * What the agent's tests stand on: a loop that is run until something holds, a real local server,
 * and a proxy without its source: a table, its memory and a carrier, in this very process.
 */
#ifndef KW_TEST_AGENT_FIXTURE_H
#define KW_TEST_AGENT_FIXTURE_H

#include "../redis/fixture.h"
#include "local/local.h"
#include "remote/memory.h"
#include "remote/server.h"
#include "table/table.h"

#include <stdbool.h>
#include <uv.h>

/* Run the loop until holds(arg); the test fails after 20 s, naming `what`. */
void test_run(uv_loop_t *loop, bool (*holds)(void *arg), void *arg, const char *what);
void test_run_ms(uv_loop_t *loop, unsigned ms);

/* redis-cli with these words (as a shell would read them); its output, newlines at the end cut. */
const char *test_cli(const struct test_server *server, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void test_server_restart(struct test_server *server, const char *const *extra);

/* A local connection that is ticked by a timer, and counts what it is told. */
struct test_local {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct kw_filter filter;
	struct kw_local local;
	int assessed, gone, flushed, selected, closed;
	bool continuous;
	void (*on_assessed)(void *arg, bool continuous); /* may be NULL, as all of these */
	void (*on_gone)(void *arg);
	void (*on_selected)(void *arg);
	void *arg;
};

void test_local_open(
	struct test_local *test, uv_loop_t *loop, const char *address, enum kw_cursor_store store);
void test_local_wait_ready(struct test_local *test);
void test_local_stop(struct test_local *test);

/* The proxy's side. */
struct test_proxy {
	uv_loop_t *loop;
	uv_timer_t timer;
	struct kw_memory memory;
	struct kw_table *table;
	struct kw_server *server;
	struct kw_table_facts facts;
	char folder[32];
	char address[96];
	uint64_t epoch;
	int joined, closed;
	bool silent; /* publishes nothing, no heartbeat either */
};

/* complete: the first scan is done from the start; otherwise set facts when it shall be. */
void test_proxy_start(struct test_proxy *proxy, uv_loop_t *loop, uint64_t epoch, bool complete);
void test_proxy_stop(struct test_proxy *proxy);
/* The DUMP payload of a string value, as a 7.0 server writes it. */
struct kw_slice test_payload(const char *value, uint8_t bytes[static 256]);
void test_proxy_put(
	struct test_proxy *proxy, uint32_t database, const char *key, const char *value);
void test_proxy_delete(struct test_proxy *proxy, uint32_t database, const char *key);
void test_proxy_publish(struct test_proxy *proxy);

#endif
