/* What must be done for the libraries of a table: a table of cases. */
#include "functions/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CURSOR "#!lua name=%s\ncallback=function() return 'keywake-cursor 2' end}\n"

/*
 * A set in words: "a1 b2 c!" is library a with code 1, library b with code 2, and a cursor that is
 * called c.
 */
static void make_set(struct kw_libraries *set, const char *words)
{
	struct kw_buffer dump = {0};
	struct kw_error error;

	for (const char *at = words; *at; at += at[2] ? 3 : 2) {
		const char name[2] = {at[0], '\0'};
		char code[128];

		if (at[1] == '!')
			snprintf(code, sizeof code, CURSOR, name);
		else
			snprintf(code, sizeof code, "#!lua name=%s\n-- %c", name, at[1]);
		kw_libraries_put(kw_slice_text(code), &dump);
	}
	kw_libraries_end(10, 0, &dump);
	*set = (struct kw_libraries){0};
	if (kw_libraries_read(set, kw_slice(kw_buffer_bytes(&dump), kw_buffer_length(&dump)),
		    1 << 20, &error))
		fail_msg("%s: %s", words, error.text);
	kw_buffer_close(&dump);
}

/* "-a +b2": a is deleted, b loaded with code 2. */
static void tell_change(const struct kw_plan *plan, uint16_t rdb_version, char text[128])
{
	struct kw_slice payload = plan->change.payload;
	struct kw_libraries loaded = {0};
	struct kw_error error;
	size_t at = 0;

	text[0] = '\0';
	for (size_t i = 0; i < plan->change.deleted_count; i++)
		at += (size_t)snprintf(text + at, 128 - at, "-%.*s ",
			(int)plan->change.deleted[i].length,
			(const char *)plan->change.deleted[i].data);
	if (payload.length == 0)
		return;
	assert_int_equal(((const uint8_t *)payload.data)[payload.length - 10], rdb_version);
	if (kw_libraries_read(&loaded, payload, 1 << 20, &error))
		fail_msg("%s", error.text);
	assert_int_equal(loaded.cursor_count, 0);
	for (size_t i = 0; i < loaded.count; i++)
		at += (size_t)snprintf(text + at, 128 - at, "+%.*s%c ",
			(int)loaded.all[i].name.length, (const char *)loaded.all[i].name.data,
			((const char *)loaded.all[i].code.data)[loaded.all[i].code.length - 1]);
	kw_libraries_close(&loaded);
}

#define MEANT KW_PLAN_ABSENCE_MEANT
#define DOUBTED KW_PLAN_ABSENCE_DOUBTED

static const struct {
	const char *table, *local;
	enum kw_plan_absence absence;
	enum kw_plan_verdict verdict;
	const char *change;
} cases[] = {
	{"", "", DOUBTED, KW_PLAN_EQUAL, ""},
	{"a1", "a1", DOUBTED, KW_PLAN_EQUAL, ""},
	{"a1 b1", "b1 a1", DOUBTED, KW_PLAN_EQUAL, ""},

	/* What is the same is not loaded again. */
	{"a1", "", DOUBTED, KW_PLAN_CHANGE, "+a1 "},
	{"a1 b1", "a1", DOUBTED, KW_PLAN_CHANGE, "+b1 "},
	{"a2 b1", "a1 b1", DOUBTED, KW_PLAN_CHANGE, "+a2 "},

	/* What the table lacks goes, if it has any. */
	{"a1", "a1 b1", DOUBTED, KW_PLAN_CHANGE, "-b "},
	{"a1", "b1 c1", DOUBTED, KW_PLAN_CHANGE, "-b -c +a1 "},
	{"", "a1", DOUBTED, KW_PLAN_HELD, ""},
	{"", "a1 b1 c1", DOUBTED, KW_PLAN_HELD, ""},
	{"", "a1 b1", MEANT, KW_PLAN_CHANGE, "-a -b "},
	{"", "", MEANT, KW_PLAN_EQUAL, ""},

	/* Cursors are in neither set. */
	{"a1", "a1 k!", DOUBTED, KW_PLAN_EQUAL, ""},
	{"", "k! l!", DOUBTED, KW_PLAN_EQUAL, ""},
	{"", "a1 k!", MEANT, KW_PLAN_CHANGE, "-a "},
	{"a1 k!", "a1", DOUBTED, KW_PLAN_EQUAL, ""},
	{"k!", "a1", DOUBTED, KW_PLAN_HELD, ""},

	/* RESTORE … REPLACE of such a name would take the cursor away. */
	{"k1", "k!", DOUBTED, KW_PLAN_CLASH, ""},
	{"a1 k1", "b1 k!", MEANT, KW_PLAN_CLASH, ""},
	{"k1", "k2 l!", DOUBTED, KW_PLAN_CHANGE, "+k1 "},
};

static void each_case_has_its_plan(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_libraries table, local;
		struct kw_plan plan = {0};
		char change[128];

		make_set(&table, cases[i].table);
		make_set(&local, cases[i].local);
		kw_plan_make(&plan, &table, &local, cases[i].absence, 10);
		tell_change(&plan, 10, change);
		if (plan.verdict != cases[i].verdict || strcmp(change, cases[i].change) != 0)
			fail_msg("case %zu, \"%s\" in \"%s\": verdict %d, \"%s\"", i,
				cases[i].table, cases[i].local, (int)plan.verdict, change);
		assert_int_equal(plan.held, plan.verdict == KW_PLAN_HELD ? local.count : 0);
		assert_int_equal(plan.clash.length, plan.verdict == KW_PLAN_CLASH);
		kw_plan_close(&plan);
		kw_libraries_close(&table);
		kw_libraries_close(&local);
	}
}

/* A server refuses payloads of a later version, though libraries are written the same. */
static void what_is_loaded_has_the_version_of_the_local_server(void **state)
{
	struct kw_libraries table, none = {0};
	struct kw_plan plan = {0};
	char change[128];

	make_set(&table, "a1");
	kw_plan_make(&plan, &table, &none, DOUBTED, 80);
	tell_change(&plan, 80, change);
	kw_plan_close(&plan);
	kw_libraries_close(&table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_has_its_plan),
		cmocka_unit_test(what_is_loaded_has_the_version_of_the_local_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
