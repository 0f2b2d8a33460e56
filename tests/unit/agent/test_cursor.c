#include "local/cursor.h"
#include "rdb/libraries.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct kw_local_cursor sample = {
	.epoch = 0xfedcba9876543210,
	.version = 18446744073709551615u,
	.run_id = "0123456789abcdef0123456789abcdef01234567",
	.flushes = 12,
	.quarantined = 3,
	.key_counts = {"d--a"},
	.refused = 7,
	.evicted = 9,
	.filter = 0x00fedcba98765432,
	.history =
		{
			.standing = KW_HISTORY_TOLD,
			.replid = "1234567890123456789012345678901234567890",
			.replid2 = "abcdefabcdefabcdefabcdefabcdefabcdefabcd",
			.second_offset = 4711,
			.proxy = 0x00123456789abcde,
			.proxy_name = "hosta/unix:///run/redis.sock",
		},
	.agent = "hostb",
	.writes = {true, 0},
	.ended = {true, 77},
	.lease = {0x0102030405060708, "hostb", "host.example"},
	.consented = 3300,
	.term = {0x0fedcba987654321, 7},
};

/* What an agent of before wrote. */
static const char first_version[] =
	"keywake-cursor 1 epoch=fedcba9876543210 version=18446744073709551615 "
	"run_id=0123456789abcdef0123456789abcdef01234567 flushes=12 held=d--a refused=7 evicted=9 "
	"filter=00fedcba98765432 quarantined=3";

static void assert_position(const struct kw_local_cursor *cursor)
{
	assert_true(cursor->epoch == sample.epoch);
	assert_true(cursor->version == sample.version);
	assert_string_equal(cursor->run_id, sample.run_id);
	assert_int_equal(cursor->flushes, 12);
	assert_int_equal(cursor->quarantined, 3);
	assert_string_equal(cursor->key_counts.text, "d--a");
	assert_int_equal(cursor->refused, 7);
	assert_int_equal(cursor->evicted, 9);
	assert_true(cursor->filter == sample.filter);
}

static void assert_sample(const struct kw_local_cursor *cursor)
{
	assert_position(cursor);
	assert_true(kw_history_equal(&cursor->history, &sample.history));
	assert_string_equal(cursor->agent, sample.agent);
	assert_true(
		cursor->writes.said && cursor->writes.calls == 0); /* none is not nothing said */
	assert_true(cursor->ended.said && cursor->ended.calls == 77);
	assert_memory_equal(&cursor->lease, &sample.lease, sizeof sample.lease);
	assert_int_equal(cursor->consented, 3300);
	assert_true(kw_term_equal(&cursor->term, &sample.term));
}

/* A cursor whose agent said nothing of this: between two versions. */
static void what_is_not_said_is_read_as_not_said(void **state)
{
	struct kw_local_cursor cursor = sample, found;
	char text[KW_CURSOR_TEXT];

	cursor.writes.said = cursor.ended.said = false;
	cursor.writes.calls = cursor.ended.calls = 0;
	cursor.lease = (struct kw_lease_owner){0};
	cursor.consented = 0;
	cursor.term = (struct kw_term){0};
	kw_cursor_format(&cursor, text);
	assert_null(strstr(text, "lease="));
	assert_null(strstr(text, "term="));
	assert_null(strstr(text, "consented="));
	assert_true(kw_cursor_parse(kw_slice_text(text), &found));
	assert_false(found.writes.said || found.ended.said);
	assert_int_equal(found.lease.session, 0);
	assert_int_equal(found.consented, 0);
	assert_int_equal(found.term.term, 0);
}

/* Sentinel begins with term 0. Without its domain it would be no term. */
static void term_0_is_said_with_its_domain(void **state)
{
	struct kw_local_cursor cursor = sample, found;
	char text[KW_CURSOR_TEXT];

	cursor.term = (struct kw_term){0xabc, 0};
	kw_cursor_format(&cursor, text);
	assert_non_null(strstr(text, " term=0@0000000000000abc "));
	assert_true(kw_cursor_parse(kw_slice_text(text), &found));
	assert_true(kw_term_equal(&found.term, &cursor.term));
	memcpy(strstr(text, "abc "), "000 ", 4);
	assert_false(kw_cursor_parse(kw_slice_text(text), &found));
}

static void what_is_written_is_read_back(void **state)
{
	struct kw_local_cursor cursor = {0};
	char text[KW_CURSOR_TEXT];

	kw_cursor_format(&sample, text);
	assert_true(kw_cursor_parse(kw_slice_text(text), &cursor));
	assert_sample(&cursor);
}

/* An upgrade: the position counts, and whose data they are is not known. */
static void a_cursor_of_version_1_is_read(void **state)
{
	struct kw_local_cursor cursor = {0};

	assert_true(kw_cursor_parse(kw_slice_text(first_version), &cursor));
	assert_position(&cursor);
	assert_int_equal(cursor.history.standing, KW_HISTORY_NONE);
	assert_string_equal(cursor.history.replid, "");
	assert_true(cursor.history.proxy == 0);
	assert_string_equal(cursor.agent, "");
}

/* The filter of other agents' cursors must know the libraries that agents of before wrote. */
static void a_library_of_version_1_is_a_cursor(void **state)
{
	struct kw_buffer code = {0};

	kw_buffer_printf(&code,
		"#!lua name=old\n-- a replica of keywake-agent\n"
		"redis.register_function{function_name='old', flags={'no-writes'},\n"
		"callback=function() return '%s' end}\n",
		first_version);
	assert_true(
		kw_cursor_is_library(kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code))));
	kw_buffer_close(&code);
}

static void every_part_of_the_history_may_be_missing(void **state)
{
	static const char zeros[] = "0000000000000000000000000000000000000000";
	struct kw_local_cursor cursor, found;
	char text[KW_CURSOR_TEXT];

	for (int missing = 0; missing < 16; missing++) {
		cursor = sample;
		if (missing & 1)
			cursor.history.replid[0] = '\0';
		if (missing & 2) {
			cursor.history.replid2[0] = '\0';
			cursor.history.second_offset = 0;
		}
		if (missing & 4) {
			cursor.history.proxy = 0;
			cursor.history.proxy_name[0] = '\0';
		}
		if (missing & 8)
			cursor.agent[0] = '\0';
		cursor.history.standing = !(missing & 1)   ? KW_HISTORY_TOLD
					  : !(missing & 4) ? KW_HISTORY_UNTOLD
							   : KW_HISTORY_NONE;
		kw_cursor_format(&cursor, text);
		assert_true(kw_cursor_parse(kw_slice_text(text), &found));
		assert_true(kw_history_equal(&found.history, &cursor.history));
		assert_string_equal(found.agent, cursor.agent);
	}
	cursor = sample;
	memcpy(cursor.history.replid, zeros, sizeof zeros);
	kw_cursor_format(&cursor, text);
	assert_false(kw_cursor_parse(kw_slice_text(text), &found));
}

/* Any printable name, as long as it may be, in a string of Lua. */
static void names_are_kept_whatever_they_are(void **state)
{
	struct kw_local_cursor cursor = sample, found;
	struct kw_buffer code = {0};
	char text[KW_CURSOR_TEXT];

	for (int i = 0; i < KW_PROXY_NAME_MAX; i++)
		cursor.history.proxy_name[i] = (char)(0x21 + i);
	memset(cursor.agent, '\'', KW_CURSOR_AGENT_MAX);
	cursor.agent[1] = '%';
	cursor.agent[2] = '\\';
	kw_cursor_format(&cursor, text);
	assert_null(strchr(text, '\''));
	assert_null(strchr(text, '\\'));
	assert_true(kw_cursor_parse(kw_slice_text(text), &found));
	assert_string_equal(found.history.proxy_name, cursor.history.proxy_name);
	assert_string_equal(found.agent, cursor.agent);
	kw_cursor_library("keywake_cursor", &cursor, &code);
	assert_true(
		kw_cursor_is_library(kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code))));
	kw_buffer_close(&code);
}

/* Of what is longest everywhere, nothing is cut off. */
static void the_longest_cursor_fits(void **state)
{
	struct kw_local_cursor cursor = sample, found;
	char text[KW_CURSOR_TEXT];

	cursor.flushes = cursor.quarantined = cursor.refused = cursor.evicted = UINT64_MAX;
	cursor.history.second_offset = UINT64_MAX;
	memset(cursor.key_counts.text, 'a', KW_KEY_COUNTS_DATABASES);
	memset(cursor.history.proxy_name, '$', KW_PROXY_NAME_MAX);
	memset(cursor.agent, '$', KW_CURSOR_AGENT_MAX);
	cursor.writes.calls = cursor.ended.calls = UINT64_MAX;
	memset(cursor.lease.agent, 'x', KW_LEASE_TEXT - 1);
	memset(cursor.lease.host, 'x', KW_LEASE_TEXT - 1);
	kw_cursor_format(&cursor, text);
	assert_true(kw_cursor_parse(kw_slice_text(text), &found));
	assert_string_equal(found.agent, cursor.agent);
}

static void a_library_carries_the_cursor(void **state)
{
	struct kw_local_cursor cursor = {0};
	struct kw_buffer code = {0};

	kw_cursor_library("keywake_cursor", &sample, &code);
	assert_int_equal(
		kw_cursor_from_library(
			kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code)), &cursor),
		KW_CURSOR_OURS);
	assert_sample(&cursor);
	kw_buffer_close(&code);
}

static void anything_else_is_refused(void **state)
{
	static const char *const texts[] = {
		"",
		"keywake-cursor 1",
		"keywake-cursor 3 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"agent=a quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"agent= quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"agent=a%41 quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"agent=a%4 quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"agent=a$ quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"replid=abc quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"second=1 quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"proxy_name=a quarantined=0",
		"keywake-cursor 2 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"proxy=0000000000000001 quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=-1 run_id=ab flushes=0 "
		"quarantined=0",
		"keywake-cursor 1 epoch=fedcba987654321 version=1 run_id=ab flushes=0 "
		"quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=xy flushes=0 "
		"quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"quarantined=0 ",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1  run_id=ab flushes=0 "
		"quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=99999999999999999999 run_id=ab "
		"flushes=0 quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"held= quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"held=a- quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"held=aZ quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"refused=0 quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"refused=1 held=a quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"filter=0000000000000000 quarantined=0",
		"keywake-cursor 1 epoch=fedcba9876543210 version=1 run_id=ab flushes=0 "
		"filter=1 quarantined=0",
	};
	struct kw_local_cursor cursor = {.version = 77};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		assert_false(kw_cursor_parse(kw_slice_text(texts[i]), &cursor));
	assert_int_equal(cursor.version, 77);
}

/* As agents wrote them before they counted keys. */
static void a_cursor_without_key_counts_is_a_cursor(void **state)
{
	struct kw_local_cursor cursor = {0};

	assert_true(kw_cursor_parse(
		kw_slice_text("keywake-cursor 1 epoch=fedcba9876543210 version=7 run_id=ab "
			      "flushes=0 quarantined=0"),
		&cursor));
	assert_int_equal(cursor.version, 7);
	assert_string_equal(cursor.key_counts.text, "");
}

static struct kw_key_counts counts_of(uint64_t first, uint64_t second)
{
	uint64_t keys[KW_KEY_COUNTS_DATABASES] = {first, second};
	struct kw_key_counts counts;

	keys[KW_KEY_COUNTS_DATABASES - 1] = UINT64_MAX;
	kw_key_counts_set(&counts, keys);
	assert_true(kw_key_counts_valid(&counts));
	return counts;
}

static int against(uint64_t then_first, uint64_t then_second, uint64_t first, uint64_t second)
{
	struct kw_key_counts then = counts_of(then_first, then_second);
	struct kw_key_counts now = counts_of(first, second);

	return kw_key_counts_shrunk(&then, &now);
}

static void a_database_that_lost_its_keys_speaks_against_the_cursor(void **state)
{
	struct kw_key_counts nothing = {""}, then = counts_of(1, 2);

	assert_int_equal(against(0, 0, 0, 0), -1);
	assert_int_equal(against(0, 0, 1000, 0), -1);
	assert_int_equal(against(1, 1000, 1, 0), 1);
	assert_int_equal(against(1, 0, 0, 1), 0);
	assert_int_equal(against(1000, 0, 999, 0), -1);
	assert_int_equal(against(1024, 0, 512, 0), -1); /* half */
	assert_int_equal(against(1024, 0, 511, 0), 0);
	assert_int_equal(against(5000000000, 0, UINT64_MAX, 0), -1);
	assert_int_equal(kw_key_counts_shrunk(&nothing, &then), -1);
	assert_int_equal(kw_key_counts_shrunk(&then, &nothing), 0);
}

static void every_truncation_is_refused(void **state)
{
	struct kw_local_cursor cursor;
	char text[KW_CURSOR_TEXT];

	kw_cursor_format(&sample, text);
	for (size_t length = 0; length < strlen(text); length++)
		assert_false(kw_cursor_parse(kw_slice(text, length), &cursor));
}

static void a_library_of_somebody_else_is_foreign(void **state)
{
	struct kw_local_cursor cursor;

	assert_int_equal(
		kw_cursor_from_library(kw_slice_text("#!lua name=keywake_cursor\n"), &cursor),
		KW_CURSOR_FOREIGN);
	assert_int_equal(kw_cursor_from_library(kw_slice_text("keywake-cursor 1 epoch"), &cursor),
		KW_CURSOR_FOREIGN);
	assert_int_equal(kw_cursor_from_library(kw_slice(NULL, 0), &cursor), KW_CURSOR_FOREIGN);
}

static void a_cursor_of_any_name_is_told_from_what_quotes_one(void **state)
{
	static const char longest[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_x";
	struct kw_local_cursor cursor = sample;
	struct kw_buffer code = {0};

	for (int bond = KW_BOND_NONE; bond <= KW_BOND_PROMOTED; bond++) {
		cursor.bond = (enum kw_cursor_bond)bond;
		kw_buffer_clear(&code);
		kw_cursor_library(bond ? "another" : longest, &cursor, &code);
		assert_true(kw_cursor_is_library(
			kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code))));
		/* So no set of functions has it, neither the proxy's nor the agent's. */
		assert_true(kw_library_is_cursor(
			kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code))));
	}
	/* A library of somebody's who keeps one as an example. */
	kw_buffer_append(&code, "\n", 1);
	assert_false(
		kw_cursor_is_library(kw_slice(kw_buffer_bytes(&code), kw_buffer_length(&code))));
	assert_false(kw_cursor_is_library(kw_slice_text("#!lua name=mine\nreturn 1")));
	assert_false(kw_cursor_is_library(kw_slice_text("#!lua name=")));
	assert_false(kw_cursor_is_library(kw_slice("", 0)));
	kw_buffer_close(&code);
}

static void only_names_a_library_can_have_are_allowed(void **state)
{
	struct kw_error error;

	assert_int_equal(kw_cursor_name_check("keywake_cursor", &error), KW_OK);
	assert_int_equal(kw_cursor_name_check("", &error), KW_E_CONFIG);
	assert_int_equal(kw_cursor_name_check("a b", &error), KW_E_CONFIG);
	assert_int_equal(kw_cursor_name_check("a'b", &error), KW_E_CONFIG);
	assert_int_equal(kw_cursor_name_check("a*", &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "apply.cursor_name"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cursor_without_key_counts_is_a_cursor),
		cmocka_unit_test(a_database_that_lost_its_keys_speaks_against_the_cursor),
		cmocka_unit_test(what_is_written_is_read_back),
		cmocka_unit_test(term_0_is_said_with_its_domain),
		cmocka_unit_test(what_is_not_said_is_read_as_not_said),
		cmocka_unit_test(a_cursor_of_version_1_is_read),
		cmocka_unit_test(a_library_of_version_1_is_a_cursor),
		cmocka_unit_test(every_part_of_the_history_may_be_missing),
		cmocka_unit_test(names_are_kept_whatever_they_are),
		cmocka_unit_test(the_longest_cursor_fits),
		cmocka_unit_test(a_library_carries_the_cursor),
		cmocka_unit_test(anything_else_is_refused),
		cmocka_unit_test(every_truncation_is_refused),
		cmocka_unit_test(a_library_of_somebody_else_is_foreign),
		cmocka_unit_test(a_cursor_of_any_name_is_told_from_what_quotes_one),
		cmocka_unit_test(only_names_a_library_can_have_are_allowed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
