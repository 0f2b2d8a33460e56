/* The replication stream in commands: whole, in pieces, beyond the bounds, and from an enemy. */
#include "stream/parse.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct kw_repl_bounds wide = {1 << 20, 1 << 20, 1024};
static const struct kw_repl_bounds narrow = {10, 24, 4};

/* What was told, as text: "begin-end[!]:word,word,…;"; "~" stands for a word too long to keep. */
struct heard {
	struct kw_buffer text;
	unsigned commands;
};

static void hear(void *arg, const struct kw_repl_command *command)
{
	struct heard *heard = arg;

	heard->commands++;
	kw_buffer_printf(&heard->text, "%llu-%llu%s:", (unsigned long long)command->begin,
		(unsigned long long)command->end, command->cut ? "!" : "");
	for (uint32_t i = 0; i < command->count; i++) {
		const struct kw_repl_word *word = &command->words[i];

		kw_buffer_append(&heard->text, word->text.data, word->text.length);
		kw_buffer_printf(&heard->text, "%s,", word->too_long ? "~" : "");
	}
	kw_buffer_append(&heard->text, ";", 1);
}

static const char *text_of(struct heard *heard)
{
	kw_buffer_append(&heard->text, "", 1);
	heard->text.end--;
	return (const char *)kw_buffer_bytes(&heard->text);
}

/* In pieces of this size, each in memory of its own that is gone after the call. */
static int feed(struct kw_repl_parser *parser, const char *bytes, size_t length, size_t piece)
{
	struct kw_error error = {0};
	int code = KW_OK;

	for (size_t at = 0; at < length && !code; at += piece) {
		size_t take = length - at < piece ? length - at : piece;
		char *exact = malloc(take);

		memcpy(exact, bytes + at, take);
		code = kw_repl_parser_feed(parser, exact, take, &error);
		memset(exact, 'X', take);
		free(exact);
		assert_true(code == KW_OK || error.text[0] != '\0');
	}
	return code;
}

struct stream_case {
	const struct kw_repl_bounds *bounds;
	const char *bytes, *told;
};

static const struct stream_case cases[] = {
	{&wide, "", ""},
	{&wide, "*1\r\n$4\r\nPING\r\n", "100-114:PING,;"},
	{&wide, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2\r\nvw\r\n", "100-128:SET,k,vw,;"},
	{&wide, "*2\r\n$3\r\nDEL\r\n$0\r\n\r\n", "100-119:DEL,,;"},
	{&wide, "*1\r\n$4\r\n\r\n\r\n\r\n", "100-114:\r\n\r\n,;"},
	/* Newlines keep a connection alive, and count. */
	{&wide, "\n\n\r\n*1\r\n$4\r\nPING\r\n\n", "104-118:PING,;"},
	{&wide, "*2\r\n$6\r\nSELECT\r\n$1\r\n0\r\n*1\r\n$5\r\nMULTI\r\n*1\r\n$4\r\nEXEC\r\n",
		"100-123:SELECT,0,;123-138:MULTI,;138-152:EXEC,;"},
	{&wide, "*3\r\n$8\r\nREPLCONF\r\n$6\r\nGETACK\r\n$1\r\n*\r\n",
		"100-137:REPLCONF,GETACK,*,;"},
	/* Of a command that is not whole nothing is told. */
	{&wide, "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nDEL\r\n$3\r\nk", "100-114:PING,;"},
	/* A word of ten bytes is kept, one of eleven is not, and the next command is right. */
	{&narrow, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$10\r\n0123456789\r\n",
		"100-137:SET,k,0123456789,;"},
	{&narrow,
		"*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$11\r\n0123456789a\r\n$2\r\nNX\r\n"
		"*1\r\n$4\r\nPING\r\n",
		"100-146:SET,k,~,NX,;146-160:PING,;"},
	/* Four words and 24 bytes are kept. */
	{&narrow, "*5\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n$1\r\ne\r\n",
		"100-139!:a,b,c,d,;"},
	{&narrow, "*4\r\n$4\r\naaaa\r\n$10\r\nbbbbbbbbbb\r\n$10\r\ncccccccccc\r\n$1\r\nd\r\n",
		"100-155!:aaaa,bbbbbbbbbb,cccccccccc,;"},
	/* What comes after the cut is not told, although it would fit. */
	{&narrow, "*4\r\n$9\r\naaaaaaaaa\r\n$9\r\nbbbbbbbbb\r\n$9\r\nccccccccc\r\n$1\r\nd\r\n",
		"100-156!:aaaaaaaaa,bbbbbbbbb,;"},
};

static void each_command_is_told_with_its_offsets_however_it_is_cut(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t length = strlen(cases[i].bytes);

		for (size_t piece = 1; piece <= length + 1; piece++) {
			struct heard heard = {0};
			struct kw_repl_parser *parser =
				kw_repl_parser_new(cases[i].bounds, 100, hear, &heard);

			assert_int_equal(feed(parser, cases[i].bytes, length, piece), KW_OK);
			assert_string_equal(text_of(&heard), cases[i].told);
			assert_int_equal(kw_repl_parser_taken(parser), 100 + length);
			kw_repl_parser_free(parser);
			kw_buffer_close(&heard.text);
		}
	}
}

static void what_no_server_sends_is_refused_with_its_offset(void **state)
{
	static const char *const garbage[] = {
		"PING\r\n",                /* inline */
		"+OK\r\n",                 /* a reply */
		"$4\r\nPING\r\n",          /* no array */
		"*0\r\n",                  /* no words */
		"*-1\r\n",                 /* nil */
		"*\r\n",                   /* no count */
		"*1\n$4\r\nPING\r\n",      /* a line end of one byte */
		"*1\r\n:4\r\n",            /* a number for a word */
		"*1\r\n*1\r\n$1\r\na\r\n", /* an array in an array */
		"*1\r\n$-1\r\n",           /* nil for a word */
		"*1\r\n$\r\n",             /* no length */
		"*1\r\n$4\r\nPINGS\r\n",   /* longer than it said */
		"*1\r\n$4\r\nPING\n\r",
		"*1\r\n$4\r\nPIN\r\n\r\n", /* shorter than it said */
		"*1234567890123456\r\n",
		"*1\r\n$1234567890123456\r\n",
		"*1\r\n$ 4\r\n",
	};

	for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
		size_t length = strlen(garbage[i]);

		for (size_t piece = 1; piece <= length; piece++) {
			struct heard heard = {0};
			struct kw_repl_parser *parser = kw_repl_parser_new(&wide, 7, hear, &heard);
			struct kw_error error;

			assert_int_equal(feed(parser, garbage[i], length, piece), KW_E_PROTOCOL);
			assert_int_equal(
				kw_repl_parser_feed(parser, "*", 1, &error), KW_E_PROTOCOL);
			assert_non_null(strstr(error.text, "offset"));
			assert_int_equal(heard.commands, 0);
			kw_repl_parser_restart(parser, 7);
			assert_int_equal(feed(parser, "*1\r\n$1\r\na\r\n", 11, piece), KW_OK);
			assert_int_equal(heard.commands, 1);
			kw_repl_parser_free(parser);
			kw_buffer_close(&heard.text);
		}
	}
}

static void another_connection_goes_on_after_the_last_whole_command(void **state)
{
	static const char stream[] = "*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n";

	for (size_t lost = 0; lost < sizeof stream - 1; lost++) {
		struct heard heard = {0};
		struct kw_repl_parser *parser = kw_repl_parser_new(&wide, 0, hear, &heard);
		uint64_t offset;

		assert_int_equal(feed(parser, stream, lost, sizeof stream), KW_OK);
		offset = kw_repl_parser_offset(parser);
		assert_int_equal(offset, lost < 14 ? 0 : 14);
		kw_repl_parser_restart(parser, offset);
		assert_int_equal(kw_repl_parser_taken(parser), offset);
		assert_int_equal(
			feed(parser, stream + offset, sizeof stream - 1 - offset, 5), KW_OK);
		assert_string_equal(text_of(&heard), "0-14:PING,;14-34:DEL,k,;");
		kw_repl_parser_free(parser);
		kw_buffer_close(&heard.text);
	}
}

static void memory_is_bounded_whatever_is_announced(void **state)
{
	static const struct kw_repl_bounds bounds = {1 << 16, 1 << 17, 1000};
	static const char head[] = "*900000000000000\r\n$3\r\nSET\r\n$1\r\nk\r\n";
	struct heard heard = {0};
	struct kw_repl_parser *parser = kw_repl_parser_new(&bounds, 0, hear, &heard);
	char *junk = calloc(1, 1 << 20);

	assert_int_equal(feed(parser, head, sizeof head - 1, 9), KW_OK);
	for (int i = 0; i < 100000; i++)
		assert_int_equal(feed(parser, "$1\r\nx\r\n", 7, 7), KW_OK);
	assert_int_equal(feed(parser, "$900000000000000\r\n", 18, 18), KW_OK);
	for (int i = 0; i < 64; i++)
		assert_int_equal(feed(parser, junk, 1 << 20, 1 << 20), KW_OK);
	assert_true(kw_repl_parser_held_bytes(parser) < (size_t)1 << 18);
	assert_int_equal(heard.commands, 0);
	free(junk);
	kw_repl_parser_free(parser);
}

static void a_large_command_leaves_little_memory_behind(void **state)
{
	static const struct kw_repl_bounds bounds = {8 << 20, 16 << 20, 100000};
	struct heard heard = {0};
	struct kw_repl_parser *parser = kw_repl_parser_new(&bounds, 0, hear, &heard);
	struct kw_buffer bytes = {0};

	kw_buffer_printf(&bytes, "*20001\r\n$8000000\r\n");
	memset(kw_buffer_reserve(&bytes, 8000000), 'v', 8000000);
	kw_buffer_filled(&bytes, 8000000);
	kw_buffer_append(&bytes, "\r\n", 2);
	for (int i = 0; i < 20000; i++)
		kw_buffer_append(&bytes, "$1\r\nx\r\n", 7);
	assert_int_equal(feed(parser, (const char *)kw_buffer_bytes(&bytes),
				 kw_buffer_length(&bytes), 65536),
		KW_OK);
	assert_int_equal(heard.commands, 1);
	assert_true(kw_repl_parser_held_bytes(parser) <= (size_t)256 << 10);
	kw_buffer_close(&bytes);
	kw_buffer_close(&heard.text);
	kw_repl_parser_free(parser);
}

/* Each command is kept twice: told three times. */
struct keeper {
	struct heard heard;
	struct kw_repl_parser *parser;
	unsigned times;
};

static void hear_and_keep(void *arg, const struct kw_repl_command *command)
{
	struct keeper *keeper = arg;

	hear(&keeper->heard, command);
	if (++keeper->times % 3 != 0)
		kw_repl_parser_keep(keeper->parser);
}

static void a_kept_command_is_told_again_before_what_follows(void **state)
{
	static const char bytes[] = "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n\n*1\r\n$4\r\nPING\r\n";
	const char *del = "0-20:DEL,k,;", *ping = "21-35:PING,;";

	for (size_t piece = 1; piece <= sizeof bytes - 1; piece++) {
		struct keeper keeper = {0};
		struct kw_error error;
		char expected[128];

		keeper.parser = kw_repl_parser_new(&wide, 0, hear_and_keep, &keeper);
		assert_int_equal(feed(keeper.parser, bytes, sizeof bytes - 1, piece), KW_OK);
		assert_string_equal(text_of(&keeper.heard), del);
		assert_int_equal(kw_repl_parser_offset(keeper.parser), 0);
		for (int i = 0; i < 4; i++)
			assert_int_equal(kw_repl_parser_again(keeper.parser, &error), KW_OK);
		assert_int_equal(kw_repl_parser_offset(keeper.parser), sizeof bytes - 1);
		snprintf(
			expected, sizeof expected, "%s%s%s%s%s%s", del, del, del, ping, ping, ping);
		assert_string_equal(text_of(&keeper.heard), expected);
		kw_repl_parser_free(keeper.parser);
		kw_buffer_close(&keeper.heard.text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_command_is_told_with_its_offsets_however_it_is_cut),
		cmocka_unit_test(what_no_server_sends_is_refused_with_its_offset),
		cmocka_unit_test(another_connection_goes_on_after_the_last_whole_command),
		cmocka_unit_test(memory_is_bounded_whatever_is_announced),
		cmocka_unit_test(a_large_command_leaves_little_memory_behind),
		cmocka_unit_test(a_kept_command_is_told_again_before_what_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
