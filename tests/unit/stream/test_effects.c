/*
 * Effects in batches: SELECT, transactions, bounds. A batch is told as "begin-end{effects}"; the
 * command number n of a case has the offsets 10 n to 10 n + 10.
 */
#include "catalog_replies.h"
#include "stream/effects.h"
#include "told.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>

struct heard {
	struct kw_buffer text;
	unsigned acks;
};

static struct kw_repl_catalog *catalog;

static int make_catalog(void **state)
{
	catalog = catalog_from(usual_catalog);
	return 0;
}

static int free_catalog(void **state)
{
	kw_repl_catalog_free(catalog);
	return 0;
}

static void hear_batch(void *arg, const struct kw_repl_batch *batch)
{
	struct heard *heard = arg;

	assert_true(batch->count > 0);
	kw_buffer_printf(&heard->text, "%llu-%llu{", (unsigned long long)batch->begin,
		(unsigned long long)batch->end);
	for (size_t i = 0; i < batch->count; i++)
		told_effect(&heard->text, &batch->effects[i]);
	kw_buffer_append(&heard->text, "}", 1);
}

static void hear_ack(void *arg)
{
	((struct heard *)arg)->acks++;
}

static struct kw_repl_effects *effects_new(struct heard *heard, size_t bytes, uint32_t count)
{
	const struct kw_repl_effects_options options = {
		.transaction_bytes = bytes,
		.transaction_effects = count,
		.command_effects = count,
		.batch = hear_batch,
		.ack_wanted = hear_ack,
		.arg = heard,
	};
	struct kw_repl_effects *effects = kw_repl_effects_new(&options);

	kw_repl_effects_catalog(effects, catalog);
	return effects;
}

/* Each command's text is gone after it was taken: what must stay was copied. */
static int take(struct kw_repl_effects *effects, const char *text, uint64_t number)
{
	struct kw_error error = {0};
	struct told_command made;
	char *copy = malloc(strlen(text) + 1);
	int code;

	strcpy(copy, text);
	told_command(&made, copy);
	made.command.begin = 10 * number;
	made.command.end = 10 * number + 10;
	code = kw_repl_effects_take(effects, &made.command, &error);
	free(copy);
	assert_true(code == KW_OK || strstr(error.text, "offset"));
	return code;
}

/* Commands with a semicolon between them; the code of the last one. */
static int take_all(struct kw_repl_effects *effects, const char *commands)
{
	char line[1024], *saved = NULL;
	int code = KW_OK, number = 0;

	snprintf(line, sizeof line, "%s", commands);
	for (char *one = strtok_r(line, ";", &saved); one && !code;
		one = strtok_r(NULL, ";", &saved))
		code = take(effects, one, (uint64_t)number++);
	return code;
}

struct effects_case {
	const char *commands, *batches;
	uint64_t offset;
};

static void assert_batches(
	const struct effects_case *cases, size_t count, size_t bytes, uint32_t effects_most)
{
	for (size_t i = 0; i < count; i++) {
		struct heard heard = {0};
		struct kw_repl_effects *effects = effects_new(&heard, bytes, effects_most);

		assert_int_equal(take_all(effects, cases[i].commands), KW_OK);
		if (strcmp(told_text(&heard.text), cases[i].batches) != 0)
			fail_msg("%s: %s, not %s", cases[i].commands, told_text(&heard.text),
				cases[i].batches);
		assert_int_equal(kw_repl_effects_offset(effects), cases[i].offset);
		kw_repl_effects_free(effects);
		kw_buffer_close(&heard.text);
	}
}

static void each_command_by_itself_is_a_batch_in_its_database(void **state)
{
	static const struct effects_case cases[] = {
		{"PING", "", 10},
		{"SET k v", "0-10{*:TOUCH k;}", 10},
		{"SELECT 0;SET k v", "10-20{VALUE k=v;}", 20},
		{"SELECT 3;SET k v;select 0;DEL k", "10-20{3:VALUE k=v;}30-40{DELETE k;}", 40},
		{"SELECT 0;MSET a 1 b 2;PING;DEL a", "10-20{VALUE a=1;VALUE b=2;}30-40{DELETE a;}",
			40},
		{"SELECT 65535;FLUSHDB", "10-20{65535:FLUSH;}", 20},
	};

	assert_batches(cases, sizeof cases / sizeof *cases, 1000, 1000);
}

static void a_transaction_is_told_whole_at_exec(void **state)
{
	static const struct effects_case cases[] = {
		{"SELECT 0;MULTI;SET a 1;DEL b;EXEC", "10-50{VALUE a=1;DELETE b;}", 50},
		{"SELECT 0;MULTI;SET a 1;SELECT 5;SET a 2;EXEC;SET c 3",
			"10-60{VALUE a=1;5:VALUE a=2;}60-70{5:VALUE c=3;}", 70},
		{"SELECT 0;multi;set a 1;exec", "10-40{VALUE a=1;}", 40},
		{"SELECT 0;MULTI;EXEC;SET a 1", "30-40{VALUE a=1;}", 40},
		{"SELECT 0;MULTI;RENAME a b;FLUSHALL;FUNCTION FLUSH;NEWER x;EXEC",
			"10-70{MOVE a>b;*:FLUSHALL;FLUSHED;*:DOUBT;}", 70},
		/* Until then nothing is told, and the offset stands still. */
		{"SELECT 0;SET a 1;MULTI;SET a 2;SET a 3", "10-20{VALUE a=1;}", 20},
		{"SELECT 0;MULTI;PING;REPLCONF GETACK *", "", 10},
	};

	assert_batches(cases, sizeof cases / sizeof *cases, 1000, 1000);
}

static void a_transaction_beyond_its_bounds_is_told_in_pieces(void **state)
{
	static const struct effects_case few[] = {
		{"SELECT 0;MULTI;SET a 1;SET b 2;EXEC", "10-50{VALUE a=1;VALUE b=2;}", 50},
		{"SELECT 0;MULTI;SET a 1;SET b 2;SET c 3;EXEC",
			"10-10{VALUE a=1;VALUE b=2;}10-60{VALUE c=3;}", 60},
		{"SELECT 7;MULTI;DEL a b;SELECT 2;DEL c;MOVE d 4;EXEC;SET e 5",
			"10-10{7:DELETE a;7:DELETE b;}10-70{2:DELETE c;2:MOVE d>4:d;}"
			"70-80{2:VALUE e=5;}",
			80},
		{"SELECT 7;MULTI;DEL a b c;SWAPDB 1 2;EXEC",
			"10-10{7:DELETE a;7:DELETE b;}10-50{7:DELETE c;1:SWAP 2;}", 50},
		{"SELECT 0;MULTI;FLUSHDB;SET a 1;SET b 2;EXEC",
			"10-10{FLUSH;VALUE a=1;}10-60{VALUE b=2;}", 60},
		{"SELECT 0;MULTI;FUNCTION FLUSH;DEL a b c;EXEC",
			"10-10{FLUSHED;DELETE a;}10-50{DELETE b;DELETE c;}", 50},
		/* The offset stands still until EXEC. */
		{"SELECT 0;MULTI;SET a 1;SET b 2;SET c 3", "10-10{VALUE a=1;VALUE b=2;}", 10},
	};
	static const struct effects_case short_ones[] = {
		{"SELECT 0;MULTI;SET a 12345;EXEC", "10-40{VALUE a=12345;}", 40},
		/* This one has no room even alone. */
		{"SELECT 0;MULTI;SET a 123456;EXEC;SET b 1",
			"10-10{VALUE a=123456;}40-50{VALUE b=1;}", 50},
		{"SELECT 0;MULTI;DEL x;SET a 123456;DEL y;EXEC",
			"10-10{DELETE x;}10-10{VALUE a=123456;}10-60{DELETE y;}", 60},
		{"SELECT 0;MULTI;SET a 123;RENAME a b;EXEC", "10-50{VALUE a=123;MOVE a>b;}", 50},
		{"SELECT 0;MULTI;SET a 123;RENAME a bb;EXEC",
			"10-10{VALUE a=123;}10-50{MOVE a>bb;}", 50},
	};

	assert_batches(few, sizeof few / sizeof *few, 1000, 2);
	assert_batches(short_ones, sizeof short_ones / sizeof *short_ones, 6, 1000);
}

static void a_command_of_many_keys_is_told_in_pieces(void **state)
{
	static const struct effects_case cases[] = {
		{"SELECT 0;DEL a b", "10-20{DELETE a;DELETE b;}", 20},
		{"SELECT 0;SET x 1;DEL a b c d e",
			"10-20{VALUE x=1;}20-20{DELETE a;DELETE b;}20-20{DELETE c;DELETE d;}"
			"20-30{DELETE e;}",
			30},
	};

	assert_batches(cases, sizeof cases / sizeof *cases, 1000, 2);
}

/* Two effects at a time, and the owner may do other things between. */
static struct kw_repl_effects *effects_in_parts(struct heard *heard, uint32_t transaction)
{
	struct kw_repl_effects_options options = {
		.transaction_bytes = 1000,
		.transaction_effects = transaction,
		.command_effects = 1000,
		.take_effects = 2,
		.batch = hear_batch,
		.ack_wanted = hear_ack,
		.arg = heard,
	};
	struct kw_repl_effects *effects = kw_repl_effects_new(&options);

	kw_repl_effects_catalog(effects, catalog);
	return effects;
}

static void a_command_is_taken_again_until_no_effects_are_left(void **state)
{
	struct heard heard = {0};
	struct kw_repl_effects *effects = effects_in_parts(&heard, 1000);

	assert_int_equal(take_all(effects, "SELECT 0;DEL a b c d e"), KW_OK);
	assert_true(kw_repl_effects_has_more(effects));
	assert_string_equal(told_text(&heard.text), "10-10{DELETE a;DELETE b;}");
	assert_int_equal(kw_repl_effects_offset(effects), 10);
	assert_int_equal(take(effects, "DEL a b c d e", 1), KW_OK);
	assert_true(kw_repl_effects_has_more(effects));
	assert_int_equal(kw_repl_effects_offset(effects), 10);
	assert_int_equal(take(effects, "DEL a b c d e", 1), KW_OK);
	assert_false(kw_repl_effects_has_more(effects));
	assert_int_equal(kw_repl_effects_offset(effects), 20);
	assert_int_equal(take(effects, "DEL f g", 2), KW_OK);
	assert_false(kw_repl_effects_has_more(effects));
	assert_string_equal(told_text(&heard.text),
		"10-10{DELETE a;DELETE b;}10-10{DELETE c;DELETE d;}10-20{DELETE e;}"
		"20-30{DELETE f;DELETE g;}");
	kw_repl_effects_free(effects);
	kw_buffer_close(&heard.text);
}

/* Each effect on a key of an unknown database is work for each database. */
static void parts_are_shorter_while_the_database_is_not_known(void **state)
{
	struct heard heard = {0};
	struct kw_repl_effects *effects = effects_in_parts(&heard, 1000);

	kw_repl_effects_set_weight(effects, 2);
	assert_int_equal(take(effects, "DEL a b", 0), KW_OK);
	assert_true(kw_repl_effects_has_more(effects));
	assert_string_equal(told_text(&heard.text), "0-0{*:TOUCH a;}");
	assert_int_equal(take(effects, "DEL a b", 0), KW_OK);
	assert_false(kw_repl_effects_has_more(effects));
	kw_repl_effects_set_weight(effects, 100); /* one at a time, at least */
	assert_int_equal(take(effects, "DEL c d", 1), KW_OK);
	assert_int_equal(take(effects, "DEL c d", 1), KW_OK);
	assert_int_equal(take_all(effects, "SELECT 0;DEL e f"), KW_OK);
	assert_false(kw_repl_effects_has_more(effects));
	kw_repl_effects_free(effects);
	kw_buffer_close(&heard.text);
}

static void a_command_in_parts_does_not_break_a_transaction_up(void **state)
{
	struct heard heard = {0};
	struct kw_repl_effects *effects = effects_in_parts(&heard, 1000);

	assert_int_equal(take_all(effects, "SELECT 0;MULTI;DEL a b c"), KW_OK);
	assert_true(kw_repl_effects_has_more(effects));
	assert_int_equal(take(effects, "DEL a b c", 2), KW_OK);
	assert_false(kw_repl_effects_has_more(effects));
	assert_string_equal(told_text(&heard.text), "");
	assert_int_equal(take(effects, "EXEC", 3), KW_OK);
	assert_string_equal(told_text(&heard.text), "10-40{DELETE a;DELETE b;DELETE c;}");
	kw_repl_effects_free(effects);
	kw_buffer_close(&heard.text);
}

/* With another catalog, or in another stream, the same words can have other effects. */
static void a_part_that_was_taken_is_forgotten(void **state)
{
	struct heard heard = {0};
	struct kw_repl_effects *effects = effects_in_parts(&heard, 1000);

	assert_int_equal(take_all(effects, "SELECT 0;DEL a b c"), KW_OK);
	kw_repl_effects_catalog(effects, catalog);
	assert_false(kw_repl_effects_has_more(effects));
	assert_int_equal(take(effects, "DEL a b c", 1), KW_OK);
	kw_repl_effects_reset(effects, 50);
	assert_false(kw_repl_effects_has_more(effects));
	assert_int_equal(take(effects, "SELECT 0", 5), KW_OK);
	assert_int_equal(take(effects, "DEL d e", 6), KW_OK);
	assert_string_equal(told_text(&heard.text),
		"10-10{DELETE a;DELETE b;}10-10{DELETE a;DELETE b;}60-70{DELETE d;DELETE e;}");
	kw_repl_effects_free(effects);
	kw_buffer_close(&heard.text);
}

static void what_no_primary_sends_is_refused(void **state)
{
	static const char *const streams[] = {"EXEC", "SELECT 0;SET a 1;EXEC", "MULTI;EXEC;EXEC",
		"MULTI;MULTI", "MULTI;SET a 1;MULTI", "SELECT", "SELECT x", "SELECT -1",
		"SELECT 2147483648", "SELECT 1 2", "MULTI;SELECT x"};

	for (size_t i = 0; i < sizeof streams / sizeof *streams; i++) {
		struct heard heard = {0};
		struct kw_repl_effects *effects = effects_new(&heard, 1000, 1000);

		assert_int_equal(take_all(effects, streams[i]), KW_E_PROTOCOL);
		kw_repl_effects_free(effects);
		kw_buffer_close(&heard.text);
	}
}

/* A server can have more databases than are followed. */
static void a_database_beyond_those_that_are_followed_is_one(void **state)
{
	struct heard heard = {0};
	struct kw_repl_effects *effects = effects_new(&heard, 1000, 1000);

	assert_int_equal(take_all(effects, "SELECT 70000;SET a 1;SELECT 1;SET b 2"), KW_OK);
	assert_non_null(strstr(told_text(&heard.text), "70000:"));
	assert_non_null(strstr(told_text(&heard.text), "1:"));
	kw_repl_effects_free(effects);
	kw_buffer_close(&heard.text);
}

static void another_stream_begins_without_a_database_and_without_a_transaction(void **state)
{
	struct heard heard = {0};
	struct kw_repl_effects *effects = effects_new(&heard, 1000, 1000);

	assert_int_equal(take_all(effects, "SELECT 3;MULTI;SET a 1"), KW_OK);
	kw_repl_effects_reset(effects, 70);
	assert_int_equal(kw_repl_effects_offset(effects), 70);
	assert_int_equal(take(effects, "SET b 2", 7), KW_OK);
	assert_string_equal(told_text(&heard.text), "70-80{*:TOUCH b;}");
	kw_repl_effects_free(effects);
	kw_buffer_close(&heard.text);
}

static void a_getack_asks_the_owner(void **state)
{
	struct heard heard = {0};
	struct kw_repl_effects *effects = effects_new(&heard, 1000, 1000);

	assert_int_equal(
		take_all(effects, "REPLCONF GETACK *;MULTI;replconf getack *;EXEC"), KW_OK);
	assert_int_equal(heard.acks, 2);
	kw_repl_effects_free(effects);
	kw_buffer_close(&heard.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_command_by_itself_is_a_batch_in_its_database),
		cmocka_unit_test(a_transaction_is_told_whole_at_exec),
		cmocka_unit_test(a_transaction_beyond_its_bounds_is_told_in_pieces),
		cmocka_unit_test(a_command_of_many_keys_is_told_in_pieces),
		cmocka_unit_test(a_command_is_taken_again_until_no_effects_are_left),
		cmocka_unit_test(parts_are_shorter_while_the_database_is_not_known),
		cmocka_unit_test(a_command_in_parts_does_not_break_a_transaction_up),
		cmocka_unit_test(a_part_that_was_taken_is_forgotten),
		cmocka_unit_test(what_no_primary_sends_is_refused),
		cmocka_unit_test(a_database_beyond_those_that_are_followed_is_one),
		cmocka_unit_test(
			another_stream_begins_without_a_database_and_without_a_transaction),
		cmocka_unit_test(a_getack_asks_the_owner),
	};

	return cmocka_run_group_tests(tests, make_catalog, free_catalog);
}
