/* May the local data go on with a table? Every pair of histories, in one table of cases. */
#include "authority/history.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccc"
#define ZEROS "0000000000000000000000000000000000000000"

/* What a cursor or a table says: first and second id, and the number of the proxy; 0: nothing. */
struct said {
	const char *replid, *replid2;
	unsigned proxy;
};

static const struct said nothing = {"", "", 0};
static const struct kw_term no_term = {0};

static struct kw_history history_of(struct said said)
{
	struct kw_history history = {.proxy = said.proxy};

	snprintf(history.replid, sizeof history.replid, "%s", said.replid);
	snprintf(history.replid2, sizeof history.replid2, "%s", said.replid2);
	if (said.proxy)
		snprintf(history.proxy_name, sizeof history.proxy_name, "host%u/redis", said.proxy);
	history.standing = said.replid[0] ? KW_HISTORY_TOLD
			   : said.proxy   ? KW_HISTORY_UNTOLD
					  : KW_HISTORY_NONE;
	return history;
}

static void each_pair_has_one_verdict(void **state)
{
	const struct {
		const char *name;
		struct said data, table;
		enum kw_authority expected;
	} cases[] = {
		{"nothing has happened", {A, "", 1}, {A, "", 1}, KW_AUTHORITY_SAME},
		{"its proxy was renamed", {A, "", 1}, {A, "", 2}, KW_AUTHORITY_SAME},
		{"a replica of the same data", {A, "", 1}, {A, "", 3}, KW_AUTHORITY_SAME},
		{"the same, and both were promoted", {B, A, 1}, {B, A, 2}, KW_AUTHORITY_SAME},
		{"the second id was forgotten", {B, A, 1}, {B, "", 2}, KW_AUTHORITY_SAME},
		{"a promotion under the same proxy", {A, "", 1}, {B, A, 1}, KW_AUTHORITY_LINKED},
		{"a failover to another host", {A, "", 1}, {B, A, 2}, KW_AUTHORITY_LINKED},
		{"the second of two, followed", {B, A, 1}, {C, B, 2}, KW_AUTHORITY_LINKED},
		{"two at once, elsewhere", {A, "", 1}, {C, B, 2}, KW_AUTHORITY_FOREIGN},
		{"two at once, same proxy", {A, "", 1}, {C, B, 1}, KW_AUTHORITY_RESTARTED},
		{"a restart from an AOF", {A, "", 1}, {B, "", 1}, KW_AUTHORITY_RESTARTED},
		{"a restart from an RDB keeps a link", {A, "", 1}, {B, A, 1}, KW_AUTHORITY_LINKED},
		{"promoted, then reset", {A, "", 1}, {C, "", 2}, KW_AUTHORITY_FOREIGN},
		{"promoted, then reset, same proxy", {B, A, 1}, {C, "", 1}, KW_AUTHORITY_RESTARTED},
		{"another data set", {A, "", 1}, {B, "", 2}, KW_AUTHORITY_FOREIGN},
		{"… with a past of its own", {A, "", 1}, {C, B, 2}, KW_AUTHORITY_FOREIGN},
		{"back to the deposed primary", {B, A, 2}, {A, "", 1}, KW_AUTHORITY_FOREIGN},
		{"… behind the proxy of before", {B, A, 1}, {A, "", 1}, KW_AUTHORITY_RESTARTED},
		{"two promoted from the same", {B, A, 1}, {C, A, 2}, KW_AUTHORITY_FOREIGN},
		{"zeros are no second id", {A, "", 1}, {B, ZEROS, 2}, KW_AUTHORITY_FOREIGN},
		{"zeros are no link", {ZEROS, "", 1}, {B, ZEROS, 2}, KW_AUTHORITY_FOREIGN},
		{"zeros are no id", {ZEROS, "", 1}, {ZEROS, "", 2}, KW_AUTHORITY_FOREIGN},
		{"a cursor of before", nothing, {A, "", 1}, KW_AUTHORITY_UNKNOWN},
		{"a proxy of before", {A, "", 1}, nothing, KW_AUTHORITY_UNKNOWN},
		{"both of before", nothing, nothing, KW_AUTHORITY_UNKNOWN},
		{"no id is told, same proxy", {"", "", 1}, {"", "", 1}, KW_AUTHORITY_RESTARTED},
		{"no id is told, another proxy", {"", "", 1}, {"", "", 2}, KW_AUTHORITY_FOREIGN},
		{"no id is told any more", {A, "", 1}, {"", "", 1}, KW_AUTHORITY_RESTARTED},
		{"no id is told elsewhere", {A, "", 1}, {"", "", 2}, KW_AUTHORITY_FOREIGN},
		{"an id is told now", {"", "", 1}, {A, "", 1}, KW_AUTHORITY_RESTARTED},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_history data = history_of(cases[i].data);
		struct kw_history table = history_of(cases[i].table);
		enum kw_authority found = kw_authority_judge(&data, &table);

		if (found != cases[i].expected)
			fail_msg("%s: %s instead of %s", cases[i].name, kw_authority_name(found),
				kw_authority_name(cases[i].expected));
	}
}

static void a_table_that_does_not_know_yet_is_awaited(void **state)
{
	const struct said cursors[] = {{A, "", 1}, {A, "", 2}, nothing};
	struct kw_history table = history_of((struct said){"", "", 1});

	table.standing = KW_HISTORY_AWAITED;
	for (size_t i = 0; i < sizeof cursors / sizeof *cursors; i++) {
		struct kw_history data = history_of(cursors[i]), none = {0};
		struct kw_authority_facts facts = {
			&data, &no_term, &table, &none, KW_FOREIGN_FOLLOW};

		assert_int_equal(kw_authority_judge(&data, &table), KW_AUTHORITY_AWAITED);
		assert_int_equal(kw_authority_permission(&facts), KW_PERMISSION_AWAITED);
	}
}

static enum kw_permission ask(
	struct said data, struct said table, struct said approved, enum kw_foreign foreign)
{
	struct kw_history histories[] = {history_of(data), history_of(table), history_of(approved)};
	struct kw_authority_facts facts = {
		&histories[0], &no_term, &histories[1], &histories[2], foreign};

	return kw_authority_permission(&facts);
}

static void only_a_foreign_table_needs_a_person(void **state)
{
	const struct said ours = {A, "", 1}, foreign = {B, "", 2};
	const struct said elsewhere = {B, "", 3}, later = {C, "", 2};

	assert_int_equal(ask(ours, foreign, nothing, KW_FOREIGN_REFUSE), KW_PERMISSION_REFUSED);
	assert_int_equal(ask(ours, foreign, nothing, KW_FOREIGN_FOLLOW), KW_PERMISSION_GRANTED);
	assert_int_equal(ask(ours, foreign, foreign, KW_FOREIGN_REFUSE), KW_PERMISSION_GRANTED);
	assert_int_equal(ask(ours, ours, nothing, KW_FOREIGN_REFUSE), KW_PERMISSION_GRANTED);
	assert_int_equal(ask(nothing, foreign, nothing, KW_FOREIGN_REFUSE), KW_PERMISSION_GRANTED);
	/* An approval is for one data set of one proxy. */
	assert_int_equal(ask(ours, elsewhere, foreign, KW_FOREIGN_REFUSE), KW_PERMISSION_REFUSED);
	assert_int_equal(ask(ours, later, foreign, KW_FOREIGN_REFUSE), KW_PERMISSION_REFUSED);
}

static void the_sentence_names_both_and_the_remedy(void **state)
{
	struct kw_history data = history_of((struct said){B, A, 1});
	struct kw_history table = history_of((struct said){C, "", 2});
	char text[512];

	kw_authority_refusal(&data, &table, text, sizeof text);
	assert_non_null(strstr(text, "this table follows another data set"));
	assert_non_null(strstr(text, "history cccccccc of proxy host2/redis"));
	assert_non_null(strstr(text, "history bbbbbbbb of proxy host1/redis"));
	assert_non_null(strstr(text, "keywakectl approve"));
	assert_null(strstr(text, "deposed"));
	table = history_of((struct said){A, "", 2});
	kw_authority_refusal(&data, &table, text, sizeof text);
	assert_non_null(strstr(text, "deposed"));
}

/* The longest names fit into the reason of a state. */
static void the_longest_sentence_is_whole(void **state)
{
	struct kw_history data = history_of((struct said){B, A, 1});
	struct kw_history table = history_of((struct said){A, "", 2});
	char text[512];

	memset(data.proxy_name, 'n', KW_PROXY_NAME_MAX);
	memset(table.proxy_name, 'm', KW_PROXY_NAME_MAX);
	kw_authority_refusal(&data, &table, text, sizeof text);
	assert_non_null(strstr(text, "`keywakectl approve`"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_pair_has_one_verdict),
		cmocka_unit_test(a_table_that_does_not_know_yet_is_awaited),
		cmocka_unit_test(only_a_foreign_table_needs_a_person),
		cmocka_unit_test(the_sentence_names_both_and_the_remedy),
		cmocka_unit_test(the_longest_sentence_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
