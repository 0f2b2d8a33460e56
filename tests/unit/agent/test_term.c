/* The fence: every pair of the data's term and a table's mandate, in one table of cases. */
#include "authority/history.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ID "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NONE KW_MANDATE_NONE
#define AWAITED KW_MANDATE_AWAITED
#define CONFIRMED KW_MANDATE_CONFIRMED
#define LOST KW_MANDATE_LOST
#define ELSEWHERE KW_MANDATE_ELSEWHERE

/* `before` is the term of the data, `raised` what the cursor must say before a record of the table,
 * `approved` the same after a person approved the table. */
static const struct {
	const char *name;
	struct kw_term before;
	enum kw_mandate_state mandate;
	uint64_t domain, term;
	enum kw_term_standing standing;
	struct kw_term raised, approved;
} cases[] = {
	{"nobody is asked", {0, 0}, NONE, 0, 0, KW_TERM_UNASKED, {0, 0}, {0, 0}},
	{"nobody is asked any more", {1, 7}, NONE, 0, 0, KW_TERM_UNFENCED, {1, 7}, {0, 0}},
	{"nor before the first failover", {1, 0}, NONE, 0, 0, KW_TERM_UNFENCED, {1, 0}, {0, 0}},
	{"the first term", {0, 0}, CONFIRMED, 1, 3, KW_TERM_CURRENT, {1, 3}, {1, 3}},
	{"a Sentinel that never failed over", {0, 0}, CONFIRMED, 1, 0, KW_TERM_CURRENT, {1, 0},
		{1, 0}},
	{"its first failover", {1, 0}, CONFIRMED, 1, 1, KW_TERM_CURRENT, {1, 1}, {1, 1}},
	{"the same term", {1, 7}, CONFIRMED, 1, 7, KW_TERM_CURRENT, {1, 7}, {1, 7}},
	{"a failover", {1, 7}, CONFIRMED, 1, 8, KW_TERM_CURRENT, {1, 8}, {1, 8}},
	{"a deposed primary", {1, 7}, CONFIRMED, 1, 6, KW_TERM_DEPOSED, {1, 7}, {1, 6}},
	{"Sentinel was set up anew", {1, 7}, CONFIRMED, 1, 0, KW_TERM_DEPOSED, {1, 7}, {1, 0}},
	{"another domain, higher", {1, 7}, CONFIRMED, 2, 9, KW_TERM_CURRENT, {2, 9}, {2, 9}},
	{"another domain, lower", {1, 7}, CONFIRMED, 2, 1, KW_TERM_CURRENT, {2, 1}, {2, 1}},
	{"another domain of term 0", {1, 7}, CONFIRMED, 2, 0, KW_TERM_CURRENT, {2, 0}, {2, 0}},
	{"not confirmed yet", {0, 0}, AWAITED, 1, 0, KW_TERM_UNCONFIRMED, {0, 0}, {0, 0}},
	{"not confirmed any more", {1, 7}, LOST, 1, 7, KW_TERM_UNCONFIRMED, {1, 7}, {1, 7}},
	{"another server is confirmed", {1, 7}, ELSEWHERE, 1, 7, KW_TERM_UNCONFIRMED, {1, 7},
		{1, 7}},
	{"an old term does not count while it is not confirmed", {1, 7}, ELSEWHERE, 1, 6,
		KW_TERM_UNCONFIRMED, {1, 7}, {1, 7}},
	{"nor does a new one", {1, 7}, LOST, 1, 9, KW_TERM_UNCONFIRMED, {1, 7}, {1, 7}},
};

static struct kw_history history_of(enum kw_mandate_state mandate, uint64_t domain, uint64_t term)
{
	return (struct kw_history){
		.standing = KW_HISTORY_TOLD,
		.replid = ID,
		.proxy = 1,
		.proxy_name = "host/redis",
		.mandate = mandate,
		.domain = domain,
		.term = term,
	};
}

static void each_pair_has_one_standing_and_the_term_never_goes_back(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_history table =
			history_of(cases[i].mandate, cases[i].domain, cases[i].term);
		enum kw_term_standing standing = kw_term_judge(&cases[i].before, &table);
		struct kw_term raised = kw_term_raised(&cases[i].before, &table);
		struct kw_term approved = kw_term_approved(&cases[i].before, &table);

		if (standing != cases[i].standing || !kw_term_equal(&raised, &cases[i].raised) ||
			!kw_term_equal(&approved, &cases[i].approved))
			fail_msg("%s: standing %d, raised to %d, approved %d", cases[i].name,
				(int)standing, (int)raised.term, (int)approved.term);
		assert_true(raised.domain != cases[i].before.domain ||
			    raised.term >= cases[i].before.term);
	}
}

static enum kw_permission ask(const struct kw_term *data, const struct kw_history *table,
	const struct kw_history *approved)
{
	struct kw_history local = history_of(NONE, 0, 0);
	struct kw_authority_facts facts = {&local, data, table, approved, KW_FOREIGN_FOLLOW};

	return kw_authority_permission(&facts);
}

/* Whatever the history: the same data set, and apply.foreign=follow. */
static void a_deposed_table_is_refused_until_a_person_approves_that_term(void **state)
{
	const struct kw_history sixth = history_of(CONFIRMED, 1, 6),
				fifth = history_of(CONFIRMED, 1, 5);
	const struct kw_history none = {0};
	const struct kw_term seven = {1, 7};

	assert_int_equal(ask(&seven, &sixth, &none), KW_PERMISSION_REFUSED);
	assert_int_equal(ask(&seven, &sixth, &fifth), KW_PERMISSION_REFUSED);
	assert_int_equal(ask(&seven, &sixth, &sixth), KW_PERMISSION_GRANTED);
}

/* A lost line of the configuration: the server behind that proxy can be a deposed one. */
static void data_of_a_term_refuse_a_table_without_a_mandate_until_a_person_approves_it(void **state)
{
	const struct kw_history table = history_of(NONE, 0, 0), third = history_of(CONFIRMED, 1, 3);
	const struct kw_history none = {0};
	const struct kw_term terms[] = {{1, 3}, {1, 0}}, without = {0};

	for (size_t i = 0; i < sizeof terms / sizeof *terms; i++) {
		assert_int_equal(ask(&terms[i], &table, &none), KW_PERMISSION_REFUSED);
		/* What was approved while the proxy had a mandate is something else. */
		assert_int_equal(ask(&terms[i], &table, &third), KW_PERMISSION_REFUSED);
		assert_int_equal(ask(&terms[i], &table, &table), KW_PERMISSION_GRANTED);
	}
	assert_int_equal(ask(&without, &table, &none), KW_PERMISSION_GRANTED);
}

/* Of a table that no id links to the local data. */
static enum kw_permission ask_unlinked(
	struct kw_term ours, uint64_t domain, uint64_t term, bool listed)
{
	struct kw_history local = history_of(NONE, 0, 0),
			  table = history_of(CONFIRMED, domain, term);
	const struct kw_history none = {0};
	const struct kw_authority_facts facts = {
		.data = &local,
		.term = &ours,
		.table = &table,
		.approved = &none,
		.foreign = KW_FOREIGN_REFUSE,
		.listed = listed,
	};

	table.replid[0] = 'b';
	table.proxy = 2;
	return kw_authority_permission(&facts);
}

static enum kw_permission ask_another(uint64_t data, uint64_t domain, uint64_t term, bool listed)
{
	return ask_unlinked((struct kw_term){data ? 1 : 0, data}, domain, term, listed);
}

static enum kw_permission ask_in(uint64_t domain, uint64_t data, uint64_t term)
{
	return ask_unlinked((struct kw_term){domain, data}, domain, term, true);
}

/* A promotion was missed, so no id links them. The operator listed both as proxies of one primary.
 */
static void a_higher_term_of_a_listed_proxy_needs_no_link(void **state)
{
	assert_int_equal(ask_another(6, 1, 8, true), KW_PERMISSION_GRANTED);
	assert_int_equal(ask_another(6, 1, 8, false), KW_PERMISSION_REFUSED);
	assert_int_equal(ask_another(6, 1, 5, true), KW_PERMISSION_REFUSED);
	assert_int_equal(ask_another(6, 2, 8, true), KW_PERMISSION_REFUSED);
	assert_int_equal(ask_another(0, 1, 8, true), KW_PERMISSION_REFUSED);
}

/* Sentinel begins there: two failovers in a row that an agent missed lead from 0 to 2. */
static void term_0_is_a_term_like_any_other(void **state)
{
	assert_int_equal(ask_in(1, 0, 2), KW_PERMISSION_GRANTED);
	assert_int_equal(ask_in(2, 0, 2), KW_PERMISSION_GRANTED);
	assert_int_equal(ask_unlinked((struct kw_term){2, 0}, 1, 2, true), KW_PERMISSION_REFUSED);
	assert_int_equal(ask_unlinked((struct kw_term){1, 0}, 1, 2, false), KW_PERMISSION_REFUSED);
}

/*
 * Sentinel has one primary in each term, so it was restarted, and its history is another one now.
 * An operator can give one term to two servers by mistake.
 */
static void an_equal_term_names_the_same_primary_if_sentinels_count_it(void **state)
{
	const uint64_t operator= kw_mandate_domain("operator", "");

	assert_int_equal(ask_another(6, 1, 6, true), KW_PERMISSION_GRANTED);
	assert_int_equal(ask_another(6, 1, 6, false), KW_PERMISSION_REFUSED);
	assert_int_equal(ask_in(operator, 6, 6), KW_PERMISSION_REFUSED);
	assert_int_equal(ask_in(operator, 6, 7), KW_PERMISSION_GRANTED);
	/* A Sentinel that is set up again begins with 0, whichever primary it is given. */
	assert_int_equal(ask_in(1, 0, 0), KW_PERMISSION_REFUSED);
}

static void a_table_that_is_not_confirmed_is_waited_for(void **state)
{
	const enum kw_mandate_state mandates[] = {AWAITED, LOST, ELSEWHERE};
	const struct kw_history none = {0};
	const struct kw_term seven = {1, 7};

	for (size_t i = 0; i < sizeof mandates / sizeof *mandates; i++) {
		const struct kw_history table = history_of(mandates[i], 1, 6);

		assert_int_equal(ask(&seven, &table, &none), KW_PERMISSION_UNCONFIRMED);
		/* An approval does not replace the confirmation. */
		assert_int_equal(ask(&seven, &table, &table), KW_PERMISSION_UNCONFIRMED);
	}
}

static void the_sentences_name_both_terms_and_the_remedy(void **state)
{
	const struct kw_history sixth = history_of(CONFIRMED, 1, 6),
				nobody = history_of(NONE, 0, 0);
	const struct kw_term seven = {1, 7};
	char text[512];

	kw_term_refusal(&seven, &sixth, text, sizeof text);
	assert_non_null(strstr(text, "of term 6"));
	assert_non_null(strstr(text, "have term 7"));
	assert_non_null(strstr(text, "host/redis"));
	assert_non_null(strstr(text, "`keywakectl approve`"));
	assert_true(strlen(text) < sizeof text - 1);
	kw_term_refusal(&seven, &nobody, text, sizeof text);
	assert_non_null(strstr(text, "of term 7"));
	assert_non_null(strstr(text, "host/redis"));
	assert_non_null(strstr(text, "authority.by"));
	assert_non_null(strstr(text, "`keywakectl approve`"));
	assert_true(strlen(text) < sizeof text - 1);
	for (int i = 0; i < 3; i++) {
		const enum kw_mandate_state mandates[] = {AWAITED, LOST, ELSEWHERE};
		struct kw_history table = history_of(mandates[i], 1, 6);

		kw_term_unconfirmed(&table, text, sizeof text);
		assert_int_equal(strstr(text, "term 6") != NULL, mandates[i] != AWAITED);
		assert_non_null(strstr(text, "confirmed"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_pair_has_one_standing_and_the_term_never_goes_back),
		cmocka_unit_test(a_deposed_table_is_refused_until_a_person_approves_that_term),
		cmocka_unit_test(
			data_of_a_term_refuse_a_table_without_a_mandate_until_a_person_approves_it),
		cmocka_unit_test(a_higher_term_of_a_listed_proxy_needs_no_link),
		cmocka_unit_test(term_0_is_a_term_like_any_other),
		cmocka_unit_test(an_equal_term_names_the_same_primary_if_sentinels_count_it),
		cmocka_unit_test(a_table_that_is_not_confirmed_is_waited_for),
		cmocka_unit_test(the_sentences_name_both_terms_and_the_remedy),
	};

	return cmocka_run_group_tests_name("agent-term", tests, NULL, NULL);
}
