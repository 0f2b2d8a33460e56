/* Requests on their way to the primary: in order, bounded, and each has one end, whatever fails. */
#include "gateway/forward/forward.h"
#include "gateway/forward/line.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define PATIENCE_US 20000000

struct gate {
	uv_loop_t loop;
	uv_timer_t tick;
	struct kw_forward forward;
	struct kw_buffer heard;
	int ended, answered, not_executed, perhaps, closed;
	bool ticks; /* the forward is told of the time */
};

static void on_tick(uv_timer_t *timer)
{
	struct gate *gate = timer->data;

	if (gate->ticks)
		kw_forward_tick(&gate->forward, kw_clock_us());
}

static void open_gate(struct gate *gate, const char *address)
{
	struct kw_forward_options options = {.loop = &gate->loop};
	struct kw_error error;

	memset(gate, 0, sizeof *gate);
	uv_loop_init(&gate->loop);
	uv_timer_init(&gate->loop, &gate->tick);
	gate->tick.data = gate;
	uv_timer_start(&gate->tick, on_tick, 2, 2);
	snprintf(options.primary.address, sizeof options.primary.address, "%s", address);
	options.primary.raw_bytes = 1 << 20;
	options.max_requests = 100;
	options.max_bytes = 1 << 20;
	assert_int_equal(kw_forward_init(&gate->forward, &options, &error), 0);
}

static void run_until(struct gate *gate, const int *counter, int wanted)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;

	while (*counter < wanted) {
		if (kw_clock_us() > until)
			fail_msg("waited in vain: %s", gate->heard.data ? "" : "nothing came");
		uv_run(&gate->loop, UV_RUN_ONCE);
	}
}

/* The first line is up, and what was asked is under way to the primary. */
static void run_until_up(struct gate *gate)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;

	while (gate->forward.lines[0]->sm.state != KW_LINE_UP) {
		assert_true(kw_clock_us() < until);
		uv_run(&gate->loop, UV_RUN_ONCE);
	}
}

static void on_gate_closed(void *arg)
{
	((struct gate *)arg)->closed++;
}

static void close_gate(struct gate *gate)
{
	kw_forward_close(&gate->forward, on_gate_closed, gate);
	run_until(gate, &gate->closed, 1);
	assert_int_equal(gate->forward.requests, 0);
	uv_close((uv_handle_t *)&gate->tick, NULL);
	uv_run(&gate->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&gate->loop), 0);
	kw_buffer_close(&gate->heard);
}

static void on_end(void *arg, enum kw_forward_end end, struct kw_slice reply)
{
	struct gate *gate = arg;

	gate->ended++;
	gate->answered += end == KW_FORWARD_ANSWERED;
	gate->not_executed += end == KW_FORWARD_NOT_EXECUTED;
	gate->perhaps += end == KW_FORWARD_PERHAPS;
	assert_true(reply.length >= 3);
	assert_memory_equal((const char *)reply.data + reply.length - 2, "\r\n", 2);
	if (end != KW_FORWARD_ANSWERED) {
		const char *class = end == KW_FORWARD_PERHAPS ? "-IOERR this request may have been "
								"executed"
							      : "-MASTERDOWN this request was not "
								"executed";

		assert_memory_equal(reply.data, class, strlen(class));
		assert_null(memchr(reply.data, '\r', reply.length - 2));
	}
	kw_buffer_append(&gate->heard, reply.data, reply.length);
}

static const char *ask(struct gate *gate, int version, uint32_t database, const char *words)
{
	struct kw_buffer bytes = {0};
	struct kw_slice argv[8];
	struct kw_forward_request request = {
		.resp_version = version, .database = database, .fn = on_end, .arg = gate};
	char line[256];
	int argc = 0;
	const char *why;

	snprintf(line, sizeof line, "%s", words);
	for (char *word = strtok(line, " "); word; word = strtok(NULL, " "))
		argv[argc++] = kw_slice_text(word);
	kw_resp_command(&bytes, argc, argv);
	request.bytes = kw_slice(kw_buffer_bytes(&bytes), kw_buffer_length(&bytes));
	why = kw_forward_send(&gate->forward, &request);
	kw_buffer_close(&bytes);
	return why;
}

static const char *heard(struct gate *gate)
{
	kw_buffer_append(&gate->heard, "", 1);
	return (const char *)kw_buffer_bytes(&gate->heard);
}

static void replies_are_the_primarys_own_bytes_in_order(void **state)
{
	struct test_server server;
	struct gate gate;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	/* Before there is a connection, and after. */
	assert_null(ask(&gate, 2, 0, "HSET h f v"));
	assert_null(ask(&gate, 2, 0, "HGETALL h"));
	run_until(&gate, &gate.ended, 2);
	assert_null(ask(&gate, 2, 0, "GET none"));
	assert_null(ask(&gate, 2, 0, "GET h"));
	run_until(&gate, &gate.ended, 4);
	assert_string_equal(heard(&gate),
		":1\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n$-1\r\n-WRONGTYPE Operation against a key "
		"holding the wrong kind of value\r\n");
	assert_int_equal(gate.answered, 4);
	close_gate(&gate);
	test_server_stop(&server);
}

static void each_version_and_database_has_a_line_of_its_own(void **state)
{
	struct test_server server;
	struct gate gate;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	assert_null(ask(&gate, 2, 3, "SET where three"));
	run_until(&gate, &gate.ended, 1);
	assert_null(ask(&gate, 2, 0, "SET where zero"));
	run_until(&gate, &gate.ended, 2);
	assert_null(ask(&gate, 3, 3, "HSET h f v"));
	assert_null(ask(&gate, 3, 3, "GET where"));
	assert_null(ask(&gate, 3, 3, "GET none"));
	assert_null(ask(&gate, 3, 3, "HGETALL h"));
	run_until(&gate, &gate.ended, 6);
	assert_null(ask(&gate, 2, 0, "GET where"));
	run_until(&gate, &gate.ended, 7);
	assert_string_equal(heard(&gate),
		"+OK\r\n+OK\r\n:1\r\n$5\r\nthree\r\n_\r\n%1\r\n$1\r\nf\r\n$1\r\nv\r\n"
		"$4\r\nzero\r\n");
	assert_int_equal(gate.forward.line_count, 3);
	close_gate(&gate);
	test_server_stop(&server);
}

/* A place becomes free if one line was idle; until then the request is refused. */
static void ask_until_taken(struct gate *gate, int version, uint32_t database, const char *words)
{
	uint64_t until = kw_clock_us() + PATIENCE_US;
	int before = gate->ended;

	while (ask(gate, version, database, words)) {
		if (kw_clock_us() > until)
			fail_msg("database %u is kept out", database);
		uv_run(&gate->loop, UV_RUN_ONCE);
	}
	run_until(gate, &gate->ended, before + 1);
}

static void databases_that_were_used_once_keep_no_other_out(void **state)
{
	static const char *const options[] = {"--databases", "40", NULL};
	struct test_server server;
	struct gate gate;

	test_server_start(&server, options);
	open_gate(&gate, server.address);
	for (uint32_t i = 0; i < KW_FORWARD_LINES; i++)
		assert_null(ask(&gate, 2, i, "SET k v"));
	run_until(&gate, &gate.ended, KW_FORWARD_LINES);
	ask_until_taken(&gate, 2, 0, "GET k");
	ask_until_taken(&gate, 3, 0, "GET k");
	ask_until_taken(&gate, 2, 39, "SET k v");
	assert_null(ask(&gate, 2, 0, "GET k")); /* it was used of late, and stays */
	run_until(&gate, &gate.ended, KW_FORWARD_LINES + 4);
	assert_int_equal(gate.answered, gate.ended);
	assert_int_equal(gate.forward.line_count, KW_FORWARD_LINES);
	close_gate(&gate);
	test_server_stop(&server);
}

static void a_database_that_is_not_there_is_refused_and_nothing_is_executed(void **state)
{
	struct test_server server;
	struct gate gate;
	const char *why;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	assert_null(ask(&gate, 2, 99, "SET k v"));
	run_until(&gate, &gate.ended, 1);
	assert_int_equal(gate.not_executed, 1);
	assert_non_null(strstr(heard(&gate), "SELECT 99"));
	why = ask(&gate, 2, 99, "SET k v");
	assert_non_null(why);
	assert_non_null(strstr(why, "out of range"));
	/* Others are not disturbed. */
	assert_null(ask(&gate, 2, 0, "DBSIZE"));
	run_until(&gate, &gate.ended, 2);
	assert_int_equal(gate.answered, 1);
	/* Databases that are not there do not use up the lines. */
	for (int i = 0; i < 2 * KW_FORWARD_LINES; i++) {
		int before = gate.ended;

		assert_null(ask(&gate, 2, 100 + (uint32_t)i, "SET k v"));
		run_until(&gate, &gate.ended, before + 1);
		while (gate.forward.lines[gate.forward.line_count - 1]->sm.state == KW_LINE_LEAVING)
			uv_run(&gate.loop, UV_RUN_ONCE);
	}
	assert_int_equal(gate.answered, 1);
	close_gate(&gate);
	test_server_stop(&server);
}

static void a_primary_that_is_away_is_said_at_once(void **state)
{
	struct gate gate;
	const char *why;

	open_gate(&gate, "unix:///nonexistent/kw/socket");
	assert_null(ask(&gate, 2, 0, "SET k v")); /* it waits for the attempt */
	run_until(&gate, &gate.ended, 1);
	assert_int_equal(gate.not_executed, 1);
	/* DOWN now, or in a moment: either way it is refused. */
	why = ask(&gate, 2, 0, "SET k v");
	assert_non_null(why);
	assert_non_null(
		strstr(why, "MASTERDOWN this request was not executed: redis unix:///nonex"));
	while (!kw_forward_down(&gate.forward))
		uv_run(&gate.loop, UV_RUN_ONCE);
	assert_int_equal(gate.forward.counts.refused, 1);
	close_gate(&gate);
}

static void a_primary_that_returns_is_used_again(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_RECEIVE, 1, NULL}, {TEST_END, 0, NULL}};
	struct test_server server;
	struct test_fake fake;
	struct gate gate;
	int tries = 0;

	test_fake_start(&fake, script);
	open_gate(&gate, fake.address);
	assert_null(ask(&gate, 2, 0, "SET k v"));
	run_until(&gate, &gate.ended, 1);
	assert_int_equal(gate.perhaps, 1);
	test_fake_stop(&fake);
	/* Another server, reached by the same line. */
	test_server_start(&server, NULL);
	snprintf(gate.forward.options.primary.address, sizeof gate.forward.options.primary.address,
		"%s", server.address);
	while (ask(&gate, 2, 0, "GET k") && tries++ < 100000)
		uv_run(&gate.loop, UV_RUN_ONCE);
	run_until(&gate, &gate.answered, 1);
	assert_int_equal(gate.forward.counts.connections, 2);
	close_gate(&gate);
	test_server_stop(&server);
}

/* The replies to three requests, ended after each byte: what was answered whole counts. */
static void a_loss_at_any_byte_of_the_replies_ends_each_request_once(void **state)
{
	static const char replies[] = "+OK\r\n%1\r\n+k\r\n_\r\n$3\r\nabc\r\n";
	static const size_t ends[] = {5, 16, 25};

	for (size_t cut = 0; cut <= strlen(replies); cut++) {
		char text[64];
		const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 3, NULL},
			{TEST_SEND, 0, text}, {TEST_END, 0, NULL}};
		struct test_fake fake;
		struct gate gate;
		int whole = 0;

		snprintf(text, sizeof text, "%.*s", (int)cut, replies);
		for (int i = 0; i < 3; i++)
			whole += cut >= ends[i];
		test_fake_start(&fake, script);
		open_gate(&gate, fake.address);
		for (int i = 0; i < 3; i++)
			assert_null(ask(&gate, 2, 0, "SET k v"));
		run_until(&gate, &gate.ended, 3);
		assert_int_equal(gate.answered, whole);
		assert_int_equal(gate.perhaps, 3 - whole);
		close_gate(&gate);
		test_fake_stop(&fake);
	}
}

/* The greeting of RESP 3 and a database, ended after each byte: nothing was executed. */
static void a_loss_at_any_byte_of_the_greeting_executes_nothing(void **state)
{
	static const char greeting[] = "+OK\r\n%1\r\n+proto\r\n:3\r\n+OK\r\n";

	for (size_t cut = 0; cut < strlen(greeting); cut++) {
		char text[64];
		struct test_step script[] = {{TEST_RECEIVE, 1, NULL}, {TEST_SEND, 0, text},
			{TEST_RECEIVE, 2, NULL}, {TEST_SEND, 0, text + 6}, {TEST_END, 0, NULL}};
		struct test_fake fake;
		struct gate gate;

		/* The reply to SETNAME first; HELLO and SELECT come after it. */
		memset(text, 0, sizeof text);
		memcpy(text, greeting, cut < 5 ? cut : 5);
		memcpy(text + 6, greeting + 5, cut < 5 ? 0 : cut - 5);
		if (cut < 5)
			script[2].act = TEST_END;
		test_fake_start(&fake, script);
		open_gate(&gate, fake.address);
		assert_null(ask(&gate, 3, 7, "SET k v"));
		assert_null(ask(&gate, 3, 7, "SET k v"));
		run_until(&gate, &gate.ended, 2);
		assert_int_equal(gate.not_executed, 2);
		close_gate(&gate);
		test_fake_stop(&fake);
	}
}

/* A primary that does not read: what the kernel took may have been executed, and no other. */
static void requests_that_were_not_written_were_not_executed(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_SULK, 0, NULL}, {TEST_END, 0, NULL}};
	static char large[40001];
	struct kw_slice argv[] = {
		kw_slice_text("SET"), kw_slice_text("k"), kw_slice(large, sizeof large - 1)};
	struct kw_forward_request request = {.resp_version = 2, .fn = on_end};
	struct kw_buffer bytes = {0};
	struct test_fake fake;
	struct gate gate;
	uint64_t until;
	int sent = 0;

	memset(large, 'x', sizeof large - 1);
	kw_resp_command(&bytes, 3, argv);
	request.bytes = kw_slice(kw_buffer_bytes(&bytes), kw_buffer_length(&bytes));
	test_fake_start(&fake, script);
	open_gate(&gate, fake.address);
	gate.forward.options.max_bytes = 4 << 20;
	request.arg = &gate;
	while (!kw_forward_send(&gate.forward, &request))
		sent++;
	assert_true(sent > 90 && sent <= 100);
	run_until_up(&gate);
	until = kw_clock_us() + 300000;
	do
		uv_run(&gate.loop, UV_RUN_ONCE);
	while (kw_clock_us() < until);
	test_fake_stop(&fake);
	run_until(&gate, &gate.ended, sent);
	assert_true(gate.perhaps > 0);
	assert_true(gate.not_executed > 0);
	assert_int_equal(gate.answered, 0);
	close_gate(&gate);
	kw_buffer_close(&bytes);
}

static void requests_are_bounded_in_number_and_in_bytes(void **state)
{
	struct test_server server;
	struct gate gate;
	const char *why;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	for (int i = 0; i < 100; i++)
		assert_null(ask(&gate, 2, (uint32_t)i % 3, "PING"));
	why = ask(&gate, 2, 0, "PING");
	assert_non_null(why);
	assert_non_null(strstr(why, "TRYAGAIN 100 requests"));
	assert_non_null(strstr(why, "not executed"));
	run_until(&gate, &gate.ended, 100);
	gate.forward.options.max_bytes = 30;
	assert_null(ask(&gate, 2, 0, "PING"));
	assert_null(ask(&gate, 2, 0, "PING"));
	assert_non_null(ask(&gate, 2, 0, "PING"));
	run_until(&gate, &gate.ended, 102);
	assert_int_equal(gate.answered, 102);
	assert_int_equal(gate.forward.bytes, 0);
	close_gate(&gate);
	test_server_stop(&server);
}

static void on_long(void *arg, enum kw_forward_end end, struct kw_slice reply)
{
	struct gate *gate = arg;

	gate->ended++;
	assert_int_equal(end, KW_FORWARD_PERHAPS);
	kw_buffer_append(&gate->heard, reply.data, reply.length);
}

static void a_reply_beyond_the_bound_is_an_error_and_the_next_one_comes(void **state)
{
	struct test_server server;
	struct gate gate;
	struct kw_forward_request request = {.resp_version = 2,
		.bytes = kw_slice_text("*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"),
		.fn = on_long};

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	request.arg = &gate;
	assert_null(ask(&gate, 2, 0, "SETRANGE k 2000000 x"));
	assert_null(kw_forward_send(&gate.forward, &request));
	assert_null(ask(&gate, 2, 0, "STRLEN k"));
	run_until(&gate, &gate.ended, 3);
	assert_string_equal(heard(&gate),
		":2000001\r\n-ERR this request was executed, but its reply of 2000013 bytes is "
		"longer than the gateway hands on (1048576); send it to the primary itself\r\n"
		":2000001\r\n");
	close_gate(&gate);
	test_server_stop(&server);
}

/* Ten bytes a second would come for two minutes; the others on the line do not wait for them. */
static void a_reply_that_does_not_end_in_time_ends_the_line(void **state)
{
	static char drip[2000];
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_DRIP_SLOW, 10, drip}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct gate gate;

	memset(drip, 'x', sizeof drip - 1);
	memcpy(drip, "$1500\r\n", 7);
	test_fake_start(&fake, script);
	open_gate(&gate, fake.address);
	gate.forward.options.reply_timeout_ms = 300;
	gate.ticks = true;
	assert_null(ask(&gate, 2, 0, "SET k v"));
	run_until(&gate, &gate.ended, 1); /* no other request comes */
	assert_int_equal(gate.forward.requests, 0);
	assert_int_equal(gate.answered, 0);
	assert_non_null(strstr(heard(&gate), "no whole reply within 300 ms"));
	close_gate(&gate);
	test_fake_stop(&fake);
}

static void a_server_that_the_table_is_not_of_executes_nothing(void **state)
{
	static const uint64_t another = 4711;
	struct test_server server;
	struct gate gate;
	uint64_t id;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	kw_forward_expect(&gate.forward, another);
	assert_null(ask(&gate, 2, 0, "SET k v")); /* it waits for the connection */
	run_until(&gate, &gate.ended, 1);
	assert_int_equal(gate.not_executed, 1);
	assert_non_null(strstr(heard(&gate), "another server"));
	assert_non_null(strstr(ask(&gate, 2, 0, "SET k v"), "another server"));
	id = gate.forward.lines[0]->server;
	assert_true(id != 0 && id != another);
	kw_forward_expect(&gate.forward, id);
	ask_until_taken(&gate, 2, 0, "GET k");
	assert_int_equal(gate.answered, 1);
	/* The table is of another one from now on: the line that is up serves no more. */
	kw_forward_expect(&gate.forward, another);
	assert_non_null(strstr(ask(&gate, 2, 0, "SET k v"), "another server"));
	kw_forward_expect(&gate.forward, id);
	ask_until_taken(&gate, 3, 1, "GET k");
	ask_until_taken(&gate, 2, 0, "GET k");
	assert_int_equal(gate.forward.counts.connections, 3);
	assert_int_equal(gate.not_executed, 1);
	close_gate(&gate);
	test_server_stop(&server);
}

/* The table has a mandate: a server that is not known to be its primary gets nothing. */
static void with_a_guard_only_the_named_server_gets_requests(void **state)
{
	struct test_server server;
	struct gate gate;
	uint64_t id;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	kw_forward_set_guard(&gate.forward, KW_GUARD_CLOSED);
	assert_non_null(strstr(ask(&gate, 2, 0, "SET k v"), "MASTERDOWN"));
	kw_forward_set_guard(&gate.forward, KW_GUARD_OFF);
	kw_forward_expect(&gate.forward, 4711);
	assert_null(ask(&gate, 2, 0, "SET k v")); /* it waits for the connection */
	run_until(&gate, &gate.ended, 1);
	id = gate.forward.lines[0]->server;
	kw_forward_set_guard(&gate.forward, KW_GUARD_NAMED);
	kw_forward_expect(&gate.forward, id);
	ask_until_taken(&gate, 2, 0, "GET k");
	assert_int_equal(gate.answered, 1);
	/* The table does not say any more which server it is of. */
	kw_forward_expect(&gate.forward, 0);
	assert_non_null(strstr(ask(&gate, 2, 0, "SET k v"), "confirmed primary"));
	kw_forward_expect(&gate.forward, id);
	ask_until_taken(&gate, 2, 0, "GET k");
	assert_int_equal(gate.answered, 2);
	close_gate(&gate);
	test_server_stop(&server);
}

/* What waits for the connection is not sent if the mandate is lost meanwhile. */
static void what_waits_is_not_sent_once_the_guard_is_closed(void **state)
{
	struct test_server server;
	struct gate gate;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	assert_null(ask(&gate, 2, 0, "SET k v"));
	kw_forward_set_guard(&gate.forward, KW_GUARD_CLOSED);
	run_until(&gate, &gate.ended, 1);
	assert_int_equal(gate.not_executed, 1);
	assert_non_null(strstr(heard(&gate), "not confirmed"));
	close_gate(&gate);
	test_server_stop(&server);
}

/* What a primary answers after it was deposed says nothing to the client. */
static void a_reply_after_the_guard_was_closed_is_not_handed_on(void **state)
{
	static const struct test_step script[] = {TEST_GREETING, {TEST_RECEIVE, 1, NULL},
		{TEST_DRIP_SLOW, 50, "+OK\r\n"}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct gate gate;

	test_fake_start(&fake, script);
	open_gate(&gate, fake.address);
	assert_null(ask(&gate, 2, 0, "SET k v"));
	run_until_up(&gate);
	kw_forward_set_guard(&gate.forward, KW_GUARD_CLOSED);
	run_until(&gate, &gate.ended, 1);
	assert_int_equal(gate.answered, 0);
	assert_int_equal(gate.perhaps, 1);
	assert_non_null(strstr(heard(&gate), "not confirmed"));
	close_gate(&gate);
	test_fake_stop(&fake);
}

/* A primary that was stopped and deposed may never answer: its clients need not wait for it. */
static void what_is_in_flight_ends_once_the_guard_is_closed(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_RECEIVE, 1, NULL}, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct gate gate;

	test_fake_start(&fake, script);
	open_gate(&gate, fake.address);
	gate.ticks = true;
	assert_null(ask(&gate, 2, 0, "SET k v"));
	run_until_up(&gate);
	kw_forward_set_guard(&gate.forward, KW_GUARD_CLOSED);
	run_until(&gate, &gate.ended, 1);
	assert_int_equal(gate.perhaps, 1);
	close_gate(&gate);
	test_fake_stop(&fake);
}

/* A line that was opened before the table was known asks as soon as it is. */
static void a_line_that_is_up_learns_its_server_when_that_is_wanted(void **state)
{
	struct test_server server;
	struct gate gate;

	test_server_start(&server, NULL);
	open_gate(&gate, server.address);
	ask_until_taken(&gate, 2, 0, "SET k v");
	assert_int_equal(gate.forward.lines[0]->server, 0);
	kw_forward_expect(&gate.forward, 4711);
	ask_until_taken(&gate, 2, 0, "GET k");
	assert_non_null(strstr(ask(&gate, 2, 0, "SET k w"), "another server"));
	close_gate(&gate);
	test_server_stop(&server);
}

static void closing_ends_what_is_in_flight(void **state)
{
	static const struct test_step script[] = {
		TEST_GREETING, {TEST_HOLD, 0, NULL}, {TEST_END, 0, NULL}};
	struct test_fake fake;
	struct gate gate;

	for (int turns = 0; turns < 6; turns++) {
		test_fake_start(&fake, script);
		open_gate(&gate, fake.address);
		assert_null(ask(&gate, 2, 0, "SET k v"));
		for (int i = 0; i < turns; i++)
			uv_run(&gate.loop, UV_RUN_ONCE);
		close_gate(&gate);
		assert_int_equal(gate.ended, 1);
		assert_int_equal(gate.answered, 0);
		assert_non_null(kw_forward_send(&gate.forward,
			&(struct kw_forward_request){
				.resp_version = 2, .bytes = kw_slice_text("x"), .fn = on_end}));
		test_fake_stop(&fake);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replies_are_the_primarys_own_bytes_in_order),
		cmocka_unit_test(each_version_and_database_has_a_line_of_its_own),
		cmocka_unit_test(databases_that_were_used_once_keep_no_other_out),
		cmocka_unit_test(a_database_that_is_not_there_is_refused_and_nothing_is_executed),
		cmocka_unit_test(a_primary_that_is_away_is_said_at_once),
		cmocka_unit_test(a_primary_that_returns_is_used_again),
		cmocka_unit_test(a_loss_at_any_byte_of_the_replies_ends_each_request_once),
		cmocka_unit_test(a_loss_at_any_byte_of_the_greeting_executes_nothing),
		cmocka_unit_test(requests_that_were_not_written_were_not_executed),
		cmocka_unit_test(requests_are_bounded_in_number_and_in_bytes),
		cmocka_unit_test(a_reply_beyond_the_bound_is_an_error_and_the_next_one_comes),
		cmocka_unit_test(a_reply_that_does_not_end_in_time_ends_the_line),
		cmocka_unit_test(a_server_that_the_table_is_not_of_executes_nothing),
		cmocka_unit_test(with_a_guard_only_the_named_server_gets_requests),
		cmocka_unit_test(what_waits_is_not_sent_once_the_guard_is_closed),
		cmocka_unit_test(a_reply_after_the_guard_was_closed_is_not_handed_on),
		cmocka_unit_test(what_is_in_flight_ends_once_the_guard_is_closed),
		cmocka_unit_test(a_line_that_is_up_learns_its_server_when_that_is_wanted),
		cmocka_unit_test(closing_ends_what_is_in_flight),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
