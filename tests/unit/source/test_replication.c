/* How a stream begins, from scripted servers: one after the other, each for one connection. */
#include "feed/stream/replication.h"

#include "../redis/fixture.h"
#include "base/clock.h"
#include "redis/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define PATIENCE_US UINT64_C(20000000)

#define RUN_ID "1111111111111111111111111111111111111111"
#define DATA_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define DATA_B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define DATA_C "cccccccccccccccccccccccccccccccccccccccc"

/* The login, the run_id, and the handshake up to PSYNC, which the next text answers. */
#define HANDSHAKE                                                                                  \
	TEST_GREETING, {TEST_RECEIVE, 1, NULL},                                                    \
		{TEST_SEND, 0, "$49\r\nrun_id:" RUN_ID "\r\n\r\n"}, {TEST_RECEIVE, 1, NULL},       \
		{TEST_SEND, 0, "+PONG\r\n"}, {TEST_RECEIVE, 1, NULL}, {TEST_SEND, 0, "+OK\r\n"},   \
		{TEST_RECEIVE, 1, NULL}, {TEST_SEND, 0, "+OK\r\n"},                                \
	{                                                                                          \
		TEST_RECEIVE, 1, NULL                                                              \
	}

#define MULTI "*1\r\n$5\r\nMULTI\r\n"
#define SET "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n"
#define EXEC "*1\r\n$4\r\nEXEC\r\n"

static uv_loop_t loop;
static uv_timer_t tick;
static struct kw_replication *replication;
static struct {
	unsigned attached, lost, closed;
	enum kw_replication_start start; /* as it was told last */
	struct kw_error why;
} heard;

static void on_attached(void *arg, enum kw_replication_start start)
{
	heard.attached++;
	heard.start = start;
}

static void on_batch(void *arg, const struct kw_repl_batch *batch)
{
}

static void on_moved(void *arg)
{
}

static void on_ack_asked(void *arg)
{
}

static void on_lost(void *arg, const struct kw_error *why)
{
	heard.lost++;
	heard.why = *why;
	kw_replication_close(replication);
}

static void on_closed(void *arg)
{
	heard.closed++;
}

static void do_nothing(uv_timer_t *timer)
{
}

static void begin(void)
{
	const struct kw_redis_options options = test_options("unix:///nowhere");
	const struct kw_replication_handlers handlers = {
		on_attached, on_batch, on_moved, on_ack_asked, on_lost, on_closed, NULL};

	memset(&heard, 0, sizeof heard);
	assert_int_equal(uv_loop_init(&loop), 0);
	uv_timer_init(&loop, &tick);
	uv_timer_start(&tick, do_nothing, 10, 10);
	replication = kw_replication_new(&loop, &options, 1, &handlers);
}

static void end(void)
{
	kw_replication_free(replication);
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
}

/* One connection, until the server has ended it or it was lost. */
static void follow(
	const struct test_step *script, const char *replid, enum kw_server_upstream upstream)
{
	struct kw_server_identity server = {
		.run_id = RUN_ID, .offset = 100, .backlog_begin = 1, .upstream = upstream};
	uint64_t until_us = kw_clock_us() + PATIENCE_US;
	unsigned closed = heard.closed;
	struct test_fake fake;

	strcpy(server.replid, replid);
	test_fake_start(&fake, script);
	kw_replication_open(replication, fake.address, &server);
	while (heard.closed == closed) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&loop, UV_RUN_ONCE);
	}
	test_fake_stop(&fake);
}

static const struct test_step goes_on_with_a[] = {
	HANDSHAKE, {TEST_SEND, 0, "+CONTINUE " DATA_A "\r\n"}, {TEST_END, 0, NULL}};
static const struct test_step goes_on_with_b[] = {
	HANDSHAKE, {TEST_SEND, 0, "+CONTINUE " DATA_B "\r\n"}, {TEST_END, 0, NULL}};
static const struct test_step goes_on_with_c[] = {
	HANDSHAKE, {TEST_SEND, 0, "+CONTINUE " DATA_C "\r\n"}, {TEST_END, 0, NULL}};

static void a_stream_goes_on_over_a_promotion(void **state)
{
	begin();
	follow(goes_on_with_a, DATA_A, KW_UPSTREAM_UP);
	assert_int_equal(heard.start, KW_REPLICATION_ANEW);
	follow(goes_on_with_b, DATA_B, KW_UPSTREAM_NONE);
	assert_int_equal(heard.start, KW_REPLICATION_GOES_ON);
	end();
}

static void a_stream_begins_anew_after_a_demotion(void **state)
{
	begin();
	follow(goes_on_with_a, DATA_A, KW_UPSTREAM_NONE);
	follow(goes_on_with_b, DATA_B, KW_UPSTREAM_NONE);
	assert_int_equal(heard.attached, 2);
	assert_int_equal(heard.start, KW_REPLICATION_ANEW);
	end();
}

/* INFO showed a replica with the data A. When it was asked for its stream it was a primary. */
static void a_server_that_was_promoted_after_the_look_is_a_primary(void **state)
{
	begin();
	follow(goes_on_with_b, DATA_A, KW_UPSTREAM_UP);
	follow(goes_on_with_c, DATA_C, KW_UPSTREAM_NONE);
	assert_int_equal(heard.attached, 2);
	assert_int_equal(heard.start, KW_REPLICATION_ANEW);
	end();
}

static void a_demotion_within_a_transaction_is_told_as_that(void **state)
{
	static const struct test_step breaks_within[] = {HANDSHAKE,
		{TEST_SEND, 0, "+CONTINUE " DATA_A "\r\n" MULTI SET}, {TEST_END, 0, NULL}};
	static const struct test_step goes_on_within[] = {HANDSHAKE,
		{TEST_SEND, 0, "+CONTINUE " DATA_B "\r\n" SET EXEC}, {TEST_HOLD, 0, NULL},
		{TEST_END, 0, NULL}};

	begin();
	follow(breaks_within, DATA_A, KW_UPSTREAM_NONE);
	assert_int_equal(heard.attached, 1);
	follow(goes_on_within, DATA_B, KW_UPSTREAM_NONE);
	assert_int_equal(heard.attached, 1);
	assert_int_equal(heard.lost, 2);
	assert_int_equal(heard.why.code, KW_E_STATE);
	assert_non_null(strstr(heard.why.text, "in the midst of a transaction"));
	follow(goes_on_with_b, DATA_B, KW_UPSTREAM_NONE);
	assert_int_equal(heard.attached, 2);
	assert_int_equal(heard.start, KW_REPLICATION_ANEW);
	end();
}

/* Without a demotion the rest of the transaction is the rest. */
static void a_transaction_goes_on_over_a_broken_connection(void **state)
{
	static const struct test_step breaks_within[] = {HANDSHAKE,
		{TEST_SEND, 0, "+CONTINUE " DATA_A "\r\n" MULTI SET}, {TEST_END, 0, NULL}};
	static const struct test_step goes_on_within[] = {HANDSHAKE,
		{TEST_SEND, 0, "+CONTINUE " DATA_A "\r\n" SET EXEC}, {TEST_END, 0, NULL}};

	begin();
	follow(breaks_within, DATA_A, KW_UPSTREAM_NONE);
	assert_int_equal(kw_replication_offset(replication), 100);
	follow(goes_on_within, DATA_A, KW_UPSTREAM_NONE);
	assert_int_equal(heard.start, KW_REPLICATION_GOES_ON);
	assert_int_equal(kw_replication_offset(replication), 100 + sizeof(MULTI SET SET EXEC) - 1);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stream_goes_on_over_a_promotion),
		cmocka_unit_test(a_stream_begins_anew_after_a_demotion),
		cmocka_unit_test(a_server_that_was_promoted_after_the_look_is_a_primary),
		cmocka_unit_test(a_demotion_within_a_transaction_is_told_as_that),
		cmocka_unit_test(a_transaction_goes_on_over_a_broken_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
