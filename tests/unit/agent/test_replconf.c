/* What a server may say to its primary, and what anybody else may not. */
#include "primary/replconf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define PING "*1\r\n$4\r\nPING\r\n"
#define AUTH "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"
#define PORT "*3\r\n$8\r\nREPLCONF\r\n$14\r\nlistening-port\r\n$4\r\n6379\r\n"
#define CAPA "*5\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n$4\r\ncapa\r\n$6\r\npsync2\r\n"
#define REPLID "0123456789abcdef0123456789abcdef01234567"
#define PSYNC "*3\r\n$5\r\nPSYNC\r\n$40\r\n" REPLID "\r\n$3\r\n101\r\n"
#define ACK(offset, digits) "*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$" digits "\r\n" offset "\r\n"
#define GREETING PING AUTH PORT CAPA PSYNC

struct world {
	struct kw_link_login login;
	struct kw_replconf replconf;
	struct kw_error error;
	int psyncs, acks;
	char replid[KW_REPLID_LENGTH + 1];
	int64_t offset;
	uint64_t acked;
};

static void on_psync(void *arg, const char *replid, int64_t offset)
{
	struct world *world = arg;

	world->psyncs++;
	world->offset = offset;
	snprintf(world->replid, sizeof world->replid, "%s", replid);
}

static void on_ack(void *arg, uint64_t offset)
{
	struct world *world = arg;

	world->acks++;
	world->acked = offset;
}

static void open_world(struct world *world, const char *user)
{
	const struct kw_replconf_handlers handlers = {
		.psync = on_psync, .ack = on_ack, .arg = world};

	memset(world, 0, sizeof *world);
	snprintf(world->login.user, sizeof world->login.user, "%s", user);
	snprintf(world->login.password, sizeof world->login.password, "secret");
	kw_replconf_init(&world->replconf, &world->login, &handlers);
}

static int say(struct world *world, const char *words)
{
	return kw_replconf_feed(&world->replconf, words, strlen(words), &world->error);
}

/* All that was answered since the last call. */
static const char *heard(struct world *world)
{
	static char text[4096];
	struct kw_buffer *output = &world->replconf.output;

	snprintf(text, sizeof text, "%.*s", (int)kw_buffer_length(output),
		kw_buffer_length(output) ? (const char *)kw_buffer_bytes(output) : "");
	kw_buffer_clear(output);
	return text;
}

static void test_a_pipelined_handshake_is_answered_in_order(void **state)
{
	struct world world;

	open_world(&world, "");
	assert_int_equal(say(&world, GREETING), 0);
	assert_string_equal(heard(&world), "+PONG\r\n+OK\r\n+OK\r\n+OK\r\n");
	assert_int_equal(world.psyncs, 1);
	assert_string_equal(world.replid, REPLID);
	assert_int_equal(world.offset, 101);
	kw_replconf_close(&world.replconf);
}

static void test_commands_may_come_byte_by_byte(void **state)
{
	const char words[] = GREETING "\n\n" ACK("7", "1") "\n" ACK("1000", "4");
	struct world world;

	open_world(&world, "");
	for (size_t i = 0; i + 1 < sizeof words; i++)
		assert_int_equal(kw_replconf_feed(&world.replconf, words + i, 1, &world.error), 0);
	assert_int_equal(world.psyncs, 1);
	assert_int_equal(world.acks, 2);
	assert_int_equal(world.acked, 1000);
	kw_replconf_close(&world.replconf);
}

static void test_nothing_is_answered_behind_psync(void **state)
{
	struct world world;

	open_world(&world, "");
	assert_int_equal(say(&world, GREETING), 0);
	heard(&world);
	assert_int_equal(say(&world, "\n\n" ACK("5", "1")), 0);
	/* The version of a Redis that adds words of its own. */
	assert_int_equal(say(&world, "*5\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n6\r\n$4\r\n"
				     "FACK\r\n$1\r\n6\r\n"),
		0);
	assert_int_equal(world.acked, 6);
	assert_int_equal(say(&world, PORT), 0);
	assert_string_equal(heard(&world), "");
	kw_replconf_close(&world.replconf);
}

static void test_no_one_gets_on_without_the_login(void **state)
{
	static const char *const strangers[] = {PORT, CAPA, PSYNC, PING PSYNC,
		"*1\r\n$4\r\nSYNC\r\n", "*1\r\n$4\r\nINFO\r\n",
		"*2\r\n$4\r\nAUTH\r\n$5\r\nsecre\r\n", "*2\r\n$4\r\nAUTH\r\n$0\r\n\r\n",
		"*2\r\n$4\r\nAUTH\r\n$7\r\nsecrets\r\n", "*1\r\n$4\r\nAUTH\r\n",
		"*2\r\n$4\r\nAUTH\r\n$12\r\nsecretsecret\r\n",
		"*3\r\n$4\r\nAUTH\r\n$5\r\nother\r\n$6\r\nsecret\r\n"};

	for (size_t i = 0; i < sizeof strangers / sizeof *strangers; i++) {
		struct world world;

		open_world(&world, "");
		assert_int_equal(say(&world, strangers[i]), KW_E_REFUSED);
		assert_int_equal(world.psyncs, 0);
		assert_non_null(strchr(heard(&world), '-'));
		kw_replconf_close(&world.replconf);
	}
}

static void test_a_user_must_be_the_one_configured(void **state)
{
	struct world world;

	open_world(&world, "repl");
	assert_int_equal(say(&world, AUTH), KW_E_REFUSED);
	kw_replconf_close(&world.replconf);
	open_world(&world, "repl");
	assert_int_equal(
		say(&world, "*3\r\n$4\r\nAUTH\r\n$4\r\nrepl\r\n$6\r\nsecret\r\n" CAPA PSYNC), 0);
	assert_int_equal(world.psyncs, 1);
	kw_replconf_close(&world.replconf);
}

static void test_an_empty_password_admits_nobody(void **state)
{
	struct world world;

	open_world(&world, "");
	world.login.password[0] = '\0';
	assert_int_equal(say(&world, "*2\r\n$4\r\nAUTH\r\n$0\r\n\r\n"), KW_E_REFUSED);
	kw_replconf_close(&world.replconf);
}

static void test_a_replica_that_needs_a_length_is_refused(void **state)
{
	struct world world;

	open_world(&world, "");
	assert_int_equal(say(&world, AUTH PORT PSYNC), KW_E_REFUSED);
	assert_int_equal(world.psyncs, 0);
	kw_replconf_close(&world.replconf);
}

static void test_garbage_is_refused(void **state)
{
	static const char *const garbage[] = {"GET / HTTP/1.1\r\n", "*0\r\n", "*-1\r\n", "*33\r\n",
		"*99999999999999999999\r\n", "*1\r\n+PING\r\n", "*1\r\n$-1\r\n",
		"*1\r\n$4\r\nPINGxx", "*1\r\n$9000\r\n", "*1\n$4\r\nPING\r\n", "*\r\n",
		"\x16\x03\x01"};
	static const char *const behind_login[] = {"*1\r\n$8\r\nSHUTDOWN\r\n",
		"*3\r\n$5\r\nPSYNC\r\n$3\r\nabc\r\n$1\r\n1\r\n",
		"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n1x\r\n",
		"*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$20\r\n99999999999999999999\r\n",
		"*2\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n"};
	static const char *const behind_psync[] = {PING, PSYNC, ACK("-1", "2"), ACK("x", "1"),
		"*2\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n"};
	struct world world;

	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		open_world(&world, "");
		assert_int_equal(say(&world, garbage[i]), KW_E_PROTOCOL);
		kw_replconf_close(&world.replconf);
	}
	for (size_t i = 0; i < sizeof behind_login / sizeof *behind_login; i++) {
		open_world(&world, "");
		assert_int_equal(say(&world, AUTH CAPA), 0);
		assert_int_equal(say(&world, behind_login[i]), KW_E_PROTOCOL);
		assert_int_equal(world.psyncs, 0);
		kw_replconf_close(&world.replconf);
	}
	for (size_t i = 0; i < sizeof behind_psync / sizeof *behind_psync; i++) {
		open_world(&world, "");
		assert_int_equal(say(&world, GREETING), 0);
		assert_int_equal(say(&world, behind_psync[i]), KW_E_PROTOCOL);
		assert_int_equal(world.acks, 0);
		kw_replconf_close(&world.replconf);
	}
}

static void test_a_command_that_never_ends_is_refused(void **state)
{
	char bytes[KW_REPLCONF_BYTES];
	struct world world;

	open_world(&world, "");
	memset(bytes, 'x', sizeof bytes);
	assert_int_equal(say(&world, "*3\r\n$8000\r\n"), 0);
	assert_int_equal(kw_replconf_feed(&world.replconf, bytes, 7000, &world.error), 0);
	assert_int_equal(
		kw_replconf_feed(&world.replconf, bytes, 2000, &world.error), KW_E_PROTOCOL);
	kw_replconf_close(&world.replconf);
}

static void test_newlines_without_end_are_not_kept(void **state)
{
	char bytes[4096];
	struct world world;

	open_world(&world, "");
	memset(bytes, '\n', sizeof bytes);
	for (int i = 0; i < 100; i++)
		assert_int_equal(
			kw_replconf_feed(&world.replconf, bytes, sizeof bytes, &world.error), 0);
	assert_int_equal(kw_buffer_length(&world.replconf.input), 0);
	assert_true(world.replconf.input.capacity <= 16384);
	kw_replconf_close(&world.replconf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_pipelined_handshake_is_answered_in_order),
		cmocka_unit_test(test_commands_may_come_byte_by_byte),
		cmocka_unit_test(test_nothing_is_answered_behind_psync),
		cmocka_unit_test(test_no_one_gets_on_without_the_login),
		cmocka_unit_test(test_a_user_must_be_the_one_configured),
		cmocka_unit_test(test_an_empty_password_admits_nobody),
		cmocka_unit_test(test_a_replica_that_needs_a_length_is_refused),
		cmocka_unit_test(test_garbage_is_refused),
		cmocka_unit_test(test_a_command_that_never_ends_is_refused),
		cmocka_unit_test(test_newlines_without_end_are_not_kept),
	};

	return cmocka_run_group_tests_name("agent-replconf", tests, NULL, NULL);
}
