/* The handshake, by what a primary answers and what is sent then, in pieces of every length. */
#include "stream/attach.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#define ID "0123456789abcdef0123456789abcdef01234567"
#define ID2 "ffffffffffffffffffffffffffffffffffffffff"
#define MARK "EOFEOmark123456789abcdef0123456789abcdef"

#define PING "*1\r\n$4\r\nPING\r\n"
#define CAPA "*5\r\n$8\r\nREPLCONF\r\n$4\r\ncapa\r\n$3\r\neof\r\n$4\r\ncapa\r\n$6\r\npsync2\r\n"
#define FILTER "*3\r\n$8\r\nREPLCONF\r\n$15\r\nrdb-filter-only\r\n$0\r\n\r\n"
#define ANEW "*3\r\n$5\r\nPSYNC\r\n$1\r\n?\r\n$2\r\n-1\r\n"
#define GO_ON "*3\r\n$5\r\nPSYNC\r\n$40\r\n" ID "\r\n$3\r\n101\r\n"
#define ACK "*3\r\n$8\r\nREPLCONF\r\n$3\r\nACK\r\n$1\r\n0\r\n"

#define GREETED "+PONG\r\n+OK\r\n+OK\r\n"
#define OLD "+PONG\r\n+OK\r\n-ERR Unrecognized REPLCONF option: rdb-filter-only\r\n"

static const struct kw_repl_attach_options anew = {.payload_most = 100};
static const struct kw_repl_attach_options go_on = {.id = ID, .offset = 100, .payload_most = 100};

struct attach_case {
	const struct kw_repl_attach_options *options;
	const char *said; /* by the primary */
	const char *sent; /* to it */
	int code;
	enum kw_repl_attach_state state;
	const char *id; /* FOLLOWING */
	uint64_t offset;
	const char *payload;
	const char *stream; /* what was left over */
};

static const struct attach_case cases[] = {
	/* Partial. */
	{&go_on, GREETED "+CONTINUE\r\n*1\r\n", PING CAPA FILTER GO_ON, KW_OK, KW_ATTACH_FOLLOWING,
		ID, 100, "", "*1\r\n"},
	{&go_on, GREETED "+CONTINUE " ID2 "\r\n", PING CAPA FILTER GO_ON, KW_OK,
		KW_ATTACH_FOLLOWING, ID2, 100, "", ""},
	{&go_on, OLD "+CONTINUE\r\n", PING CAPA FILTER GO_ON, KW_OK, KW_ATTACH_FOLLOWING, ID, 100,
		"", ""},
	/* Full: with a mark, or a length, and newlines while the primary prepares it. */
	{&anew, GREETED "+FULLRESYNC " ID " 77\r\n$EOF:" MARK "\r\nREDIS" MARK "*1\r\n",
		PING CAPA FILTER ANEW, KW_OK, KW_ATTACH_FOLLOWING, ID, 77, "REDIS", "*1\r\n"},
	{&go_on, GREETED "\n+FULLRESYNC " ID2 " 77\r\n\n\n$EOF:" MARK "\r\nEOF\nREDISEOFEO" MARK,
		PING CAPA FILTER GO_ON, KW_OK, KW_ATTACH_FOLLOWING, ID2, 77, "EOF\nREDISEOFEO", ""},
	{&anew, GREETED "+FULLRESYNC " ID " 0\r\n$5\r\nREDIS*1", PING CAPA FILTER ANEW, KW_OK,
		KW_ATTACH_FOLLOWING, ID, 0, "REDIS", "*1"},
	/* Not whole yet. */
	{&anew, "", PING, KW_OK, KW_ATTACH_GREETING, NULL, 0, "", ""},
	{&anew, "+PON", PING, KW_OK, KW_ATTACH_GREETING, NULL, 0, "", ""},
	{&anew, "+PONG\r\n", PING CAPA, KW_OK, KW_ATTACH_ABLE, NULL, 0, "", ""},
	{&anew, GREETED "\n\n\n", PING CAPA FILTER ANEW, KW_OK, KW_ATTACH_ASKING, NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC " ID " 0\r\n$5\r\nREDI", PING CAPA FILTER ANEW, KW_OK,
		KW_ATTACH_PAYLOAD, NULL, 0, "REDI", ""},
	/* Not now. */
	{&anew, "-LOADING Redis is loading the dataset in memory\r\n", PING, KW_E_STATE,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, "-MASTERDOWN Link with MASTER is down\r\n", PING, KW_E_STATE, KW_ATTACH_FAILED,
		NULL, 0, "", ""},
	{&anew, GREETED "-NOMASTERLINK Can't SYNC while not connected with my master\r\n",
		PING CAPA FILTER ANEW, KW_E_STATE, KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, GREETED "-LOADING x\r\n", PING CAPA FILTER ANEW, KW_E_STATE, KW_ATTACH_FAILED, NULL,
		0, "", ""},
	{&anew, "-MISCONF Redis is configured to save RDB snapshots\r\n", PING, KW_E_STATE,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew,
		GREETED "+FULLRESYNC " ID
			" 0\r\n-ERR BGSAVE failed, replication can't continue\r\n",
		PING CAPA FILTER ANEW, KW_E_STATE, KW_ATTACH_FAILED, NULL, 0, "", ""},
	/* Not allowed, or not without all data. */
	{&anew, "-NOAUTH Authentication required.\r\n", PING, KW_E_REFUSED, KW_ATTACH_FAILED, NULL,
		0, "", ""},
	{&anew, GREETED "-NOPERM User u has no permissions to run the 'psync' command\r\n",
		PING CAPA FILTER ANEW, KW_E_REFUSED, KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, "+PONG\r\n-ERR unknown command 'REPLCONF'\r\n", PING CAPA, KW_E_REFUSED,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, OLD, PING CAPA FILTER, KW_E_REFUSED, KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&go_on, OLD "+FULLRESYNC " ID " 77\r\n", PING CAPA FILTER GO_ON, KW_E_REFUSED,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC " ID " 77\r\n-ERR no child\r\n", PING CAPA FILTER ANEW,
		KW_E_REFUSED, KW_ATTACH_FAILED, NULL, 0, "", ""},
	/* What no server says. */
	{&anew, "+OK\r\n", PING, KW_E_PROTOCOL, KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, "*1\r\n", PING, KW_E_PROTOCOL, KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, "+PONG\r\n+NO\r\n", PING CAPA, KW_E_PROTOCOL, KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, "+PONG\r\n+OK\r\n+NO\r\n", PING CAPA FILTER, KW_E_PROTOCOL, KW_ATTACH_FAILED, NULL,
		0, "", ""},
	{&anew, GREETED "+CONTINUE\r\n", PING CAPA FILTER ANEW, KW_E_PROTOCOL, KW_ATTACH_FAILED,
		NULL, 0, "", ""},
	{&go_on, GREETED "+CONTINUE " ID2 "0\r\n", PING CAPA FILTER GO_ON, KW_E_PROTOCOL,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&go_on, GREETED "+CONTINUED\r\n", PING CAPA FILTER GO_ON, KW_E_PROTOCOL, KW_ATTACH_FAILED,
		NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC abc 77\r\n", PING CAPA FILTER ANEW, KW_E_PROTOCOL,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC " ID " -1\r\n", PING CAPA FILTER ANEW, KW_E_PROTOCOL,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC " ID " 7\r\n+OK\r\n", PING CAPA FILTER ANEW, KW_E_PROTOCOL,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC " ID " 7\r\n$0\r\n", PING CAPA FILTER ANEW, KW_E_PROTOCOL,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC " ID " 7\r\n$EOF:abc\r\n", PING CAPA FILTER ANEW,
		KW_E_PROTOCOL, KW_ATTACH_FAILED, NULL, 0, "", ""},
	{&anew, GREETED "+FULLRESYNC " ID " 7\r\n$101\r\n", PING CAPA FILTER ANEW, KW_E_FULL,
		KW_ATTACH_FAILED, NULL, 0, "", ""},
};

static int say(struct kw_repl_attach *attach, const char *said, size_t piece, size_t *left)
{
	size_t length = strlen(said), at = 0;
	struct kw_error error = {0};
	int code = KW_OK;

	while (at < length && !code && kw_repl_attach_state(attach) != KW_ATTACH_FOLLOWING) {
		size_t take = length - at < piece ? length - at : piece, used;
		char *exact = malloc(take);

		memcpy(exact, said + at, take);
		code = kw_repl_attach_feed(attach, exact, take, &used, &error);
		free(exact);
		assert_true(used <= take);
		assert_true(code == KW_OK || error.text[0] != '\0');
		at += used;
	}
	*left = length - at;
	return code;
}

static void assert_bytes(const struct kw_buffer *buffer, const char *wanted)
{
	assert_int_equal(kw_buffer_length(buffer), strlen(wanted));
	if (wanted[0])
		assert_memory_equal(kw_buffer_bytes(buffer), wanted, strlen(wanted));
}

static void assert_case(const struct attach_case *one, size_t piece)
{
	struct kw_repl_attach attach;
	size_t left;

	kw_repl_attach_init(&attach, one->options);
	assert_int_equal(say(&attach, one->said, piece, &left), one->code);
	assert_int_equal(kw_repl_attach_state(&attach), one->state);
	assert_bytes(&attach.output, one->sent);
	if (one->code == KW_OK) {
		assert_bytes(&attach.payload, one->payload);
		assert_string_equal(one->said + strlen(one->said) - left, one->stream);
	}
	if (one->state == KW_ATTACH_FOLLOWING) {
		assert_string_equal(attach.id, one->id);
		assert_int_equal(attach.offset, one->offset);
		assert_int_equal(attach.full, one->payload[0] != '\0');
	}
	kw_repl_attach_close(&attach);
}

static void each_answer_leads_on_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t piece = 1; piece <= strlen(cases[i].said) + 1; piece++)
			assert_case(&cases[i], piece);
}

static void the_functions_are_asked_for_on_demand(void **state)
{
	const struct kw_repl_attach_options options = {.functions = true, .payload_most = 100};
	struct kw_repl_attach attach;
	size_t left;

	kw_repl_attach_init(&attach, &options);
	assert_int_equal(say(&attach, "+PONG\r\n+OK\r\n", 99, &left), KW_OK);
	assert_bytes(&attach.output,
		PING CAPA "*3\r\n$8\r\nREPLCONF\r\n$15\r\nrdb-filter-only\r\n$9\r\nfunctions\r\n");
	kw_repl_attach_close(&attach);
}

static void a_payload_without_an_end_is_given_up_at_its_bound(void **state)
{
	for (size_t piece = 1; piece < 200; piece++) {
		struct kw_repl_attach attach;
		char said[512] = GREETED "+FULLRESYNC " ID " 7\r\n$EOF:" MARK "\r\n";
		size_t left;

		memset(said + strlen(said), 'x', 141);
		kw_repl_attach_init(&attach, &anew);
		assert_int_equal(say(&attach, said, piece, &left), KW_E_FULL);
		assert_true(attach.payload.capacity <= 1024);
		kw_repl_attach_close(&attach);
	}
}

static void a_payload_of_just_its_bound_is_taken(void **state)
{
	for (size_t piece = 1; piece < 200; piece++) {
		struct kw_repl_attach attach;
		char said[512] = GREETED "+FULLRESYNC " ID " 7\r\n$EOF:" MARK "\r\n";
		size_t left;

		memset(said + strlen(said), 'x', 100);
		strcat(said, MARK "*1\r\n");
		kw_repl_attach_init(&attach, &anew);
		assert_int_equal(say(&attach, said, piece, &left), KW_OK);
		assert_int_equal(kw_repl_attach_state(&attach), KW_ATTACH_FOLLOWING);
		assert_int_equal(kw_buffer_length(&attach.payload), 100);
		assert_int_equal(left, 4);
		kw_repl_attach_close(&attach);
	}
}

static void a_line_without_an_end_is_refused(void **state)
{
	struct kw_repl_attach attach;
	char said[2048] = "+";
	size_t left;

	memset(said + 1, 'x', sizeof said - 2);
	kw_repl_attach_init(&attach, &anew);
	assert_int_equal(say(&attach, said, 100, &left), KW_E_PROTOCOL);
	assert_int_equal(say(&attach, "+PONG\r\n", 100, &left), KW_E_STATE);
	kw_repl_attach_close(&attach);
}

static void after_a_full_one_the_ack_is_repeated_until_the_stream_begins(void **state)
{
	static const uint64_t times[] = {0, 20000, 60000, 140000, 300000, 620000, 1260000, 2260000};
	struct kw_repl_attach attach;
	size_t left;

	kw_repl_attach_init(&attach, &anew);
	assert_int_equal(kw_repl_attach_due_us(&attach), UINT64_MAX);
	assert_int_equal(
		say(&attach, GREETED "+FULLRESYNC " ID " 7\r\n$5\r\nREDIS", 99, &left), KW_OK);
	for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
		kw_buffer_clear(&attach.output);
		assert_int_equal(kw_repl_attach_due_us(&attach), times[i]);
		if (times[i] > 0)
			kw_repl_attach_turn(&attach, times[i] - 1);
		assert_bytes(&attach.output, "");
		kw_repl_attach_turn(&attach, times[i]);
		assert_bytes(&attach.output, ACK);
	}
	kw_repl_attach_heard(&attach);
	assert_int_equal(kw_repl_attach_due_us(&attach), UINT64_MAX);
	kw_repl_attach_close(&attach);
}

static void after_a_partial_one_only_a_getack_is_answered(void **state)
{
	struct kw_repl_attach attach;
	size_t left;

	kw_repl_attach_init(&attach, &go_on);
	assert_int_equal(say(&attach, GREETED "+CONTINUE\r\n", 99, &left), KW_OK);
	assert_int_equal(kw_repl_attach_due_us(&attach), UINT64_MAX);
	kw_buffer_clear(&attach.output);
	kw_repl_attach_ack(&attach);
	assert_bytes(&attach.output, ACK);
	kw_repl_attach_close(&attach);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_answer_leads_on_however_it_is_cut),
		cmocka_unit_test(the_functions_are_asked_for_on_demand),
		cmocka_unit_test(a_payload_without_an_end_is_given_up_at_its_bound),
		cmocka_unit_test(a_payload_of_just_its_bound_is_taken),
		cmocka_unit_test(a_line_without_an_end_is_refused),
		cmocka_unit_test(after_a_full_one_the_ack_is_repeated_until_the_stream_begins),
		cmocka_unit_test(after_a_partial_one_only_a_getack_is_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
