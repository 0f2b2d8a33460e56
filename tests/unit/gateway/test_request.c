/* Requests as they come: whole, in pieces of any size, and broken. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "gateway/resp/request.h"

#define TEXT_MAX 512

/* The words of all requests in the input, as text: [GET|key][PING]. */
static void read_all(const char *input, size_t length, size_t piece, char text[TEXT_MAX])
{
	struct kw_request request = {0};
	struct kw_error error;
	size_t from = 0, seen = 0, at = 0;

	text[0] = '\0';
	while (from < length) {
		enum kw_request_state state;
		char *copy;

		seen = seen + piece < length ? seen + piece : length;
		/* In a block of just its size: a byte too many is found by the sanitizer. */
		copy = malloc(seen - from + 1);
		memcpy(copy, input + from, seen - from);
		state = kw_request_parse(&request, kw_slice(copy, seen - from), &error);
		if (state == KW_REQUEST_WHOLE) {
			at += (size_t)snprintf(text + at, TEXT_MAX - at, "[");
			for (size_t i = 0; i < request.count; i++)
				at += (size_t)snprintf(text + at, TEXT_MAX - at, "%s%.*s",
					i ? "|" : "", (int)request.words[i].length,
					(const char *)request.words[i].data);
			at += (size_t)snprintf(text + at, TEXT_MAX - at, "]");
			from += request.bytes;
			seen = from;
			kw_request_next(&request);
		}
		free(copy);
		if (state == KW_REQUEST_BROKEN) {
			snprintf(text + at, TEXT_MAX - at, "!%s", error.text);
			break;
		}
		if (state == KW_REQUEST_PARTIAL && seen == length) {
			snprintf(text + at, TEXT_MAX - at, "...");
			break;
		}
	}
	kw_request_close(&request);
}

/* It may say AUTH and HELLO, and needs no more for that (networking.c). */
static void a_stranger_may_send_little(void **state)
{
	static const struct {
		const char *input, *error;
	} cases[] = {
		{"*10\r\n", NULL},
		{"*11\r\n", "Protocol error: unauthenticated multibulk length"},
		{"*1\r\n$16384\r\n", NULL},
		{"*1\r\n$16385\r\n", "Protocol error: unauthenticated bulk length"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_request known = {0}, stranger = {.from = KW_REQUEST_FROM_STRANGER};
		struct kw_error error = {0};

		assert_int_equal(kw_request_parse(&known, kw_slice_text(cases[i].input), &error),
			KW_REQUEST_PARTIAL);
		assert_int_equal(kw_request_parse(&stranger, kw_slice_text(cases[i].input), &error),
			cases[i].error ? KW_REQUEST_BROKEN : KW_REQUEST_PARTIAL);
		assert_string_equal(error.text, cases[i].error ? cases[i].error : "");
		kw_request_close(&known);
		kw_request_close(&stranger);
	}
}

static void requests_are_read_in_pieces_of_any_size(void **state)
{
	static const struct {
		const char *input, *expected;
	} cases[] = {
		{"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "[GET|key]"},
		{"*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n", "[PING][PING]"},
		{"*2\r\n$3\r\nGET\r\n$0\r\n\r\n", "[GET|]"},
		{"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\r\n\r\n", "[GET|\r\n\r\n]"},
		{"PING\r\nGET  key\t1\n\r\n", "[PING][GET|key|1][]"},
		{"*0\r\n*-1\r\nPING\r\n", "[][][PING]"},
		{"*2\r\n$3\r\nGET\r\n$3\r\nke", "..."},
		{"*2\r\n$3\r\nGET\r\n:3\r\n", "!Protocol error: expected '$' before each word"},
		{"*x\r\n", "!Protocol error: invalid multibulk length"},
		{"*1048577\r\n", "!Protocol error: invalid multibulk length"},
		{"*1\r\n$536870913\r\n", "!Protocol error: invalid bulk length"},
		{"*1\r\n$-1\r\n", "!Protocol error: invalid bulk length"},
		{"*1\r\n$\r\n", "!Protocol error: invalid bulk length"},
		{"*1\r\n$99999999999999999999999\r\n", "!Protocol error: invalid bulk length"},
		{"*1\r\n$3\r\nGETxx", "!Protocol error: a word is longer than its length"},
		{"GET \"quoted key\"\r\n",
			"!Protocol error: quotes in an inline request are not understood"},
	};
	char text[TEXT_MAX];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (size_t piece = 1; piece <= strlen(cases[i].input); piece++) {
			read_all(cases[i].input, strlen(cases[i].input), piece, text);
			assert_string_equal(text, cases[i].expected);
		}
}

static void a_line_without_end_is_refused_at_its_bound(void **state)
{
	char *line = malloc(KW_REQUEST_LINE_MAX);
	struct kw_request request = {0};
	struct kw_error error;

	memset(line, 'x', KW_REQUEST_LINE_MAX);
	assert_int_equal(
		kw_request_parse(&request, kw_slice(line, KW_REQUEST_LINE_MAX - 1), &error),
		KW_REQUEST_PARTIAL);
	assert_int_equal(kw_request_parse(&request, kw_slice(line, KW_REQUEST_LINE_MAX), &error),
		KW_REQUEST_BROKEN);
	kw_request_close(&request);
	free(line);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_stranger_may_send_little),
		cmocka_unit_test(requests_are_read_in_pieces_of_any_size),
		cmocka_unit_test(a_line_without_end_is_refused_at_its_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
