/* What the table may claim, case by case. */
#include "source/completeness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define NEVER KW_COMPLETENESS_NONE
#define SWEPT KW_COMPLETENESS_SWEPT
#define SOUND KW_COMPLETENESS_SOUND
#define WHOLE KW_COMPLETENESS_COMPLETE

static const struct {
	const char *what;
	struct kw_facts facts;
	enum kw_completeness before;
	struct kw_claim claim;
} cases[] = {
	{"nothing was tried", {KW_REACH_UNTRIED}, NEVER,
		{KW_SOURCE_CONNECTING, KW_CLAIM_NOT_CONNECTED, NEVER}},
	{"the first attempt failed", {KW_REACH_DOWN}, NEVER,
		{KW_SOURCE_DOWN, KW_CLAIM_NOT_CONNECTED, NEVER}},
	{"the server refuses us", {KW_REACH_REFUSED}, NEVER,
		{KW_SOURCE_DOWN, KW_CLAIM_REFUSED, NEVER}},
	{"a kept table, and nothing was tried",
		{KW_REACH_UNTRIED, KW_MENDING_NONE, 1, 1, .kept = true}, WHOLE,
		{KW_SOURCE_CONNECTING, KW_CLAIM_NOT_CONNECTED, WHOLE}},
	{"a kept table is compared", {KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1, .kept = true}, WHOLE,
		{KW_SOURCE_RECONCILING, KW_CLAIM_MENDING, WHOLE}},
	{"the first scan is under way", {KW_REACH_UP, KW_MENDING_UNDER_WAY}, NEVER,
		{KW_SOURCE_SCANNING, KW_CLAIM_MENDING, NEVER}},
	{"the first scan fills the table", {KW_REACH_UP, KW_MENDING_UNDER_WAY, .waiting = 1}, NEVER,
		{KW_SOURCE_FULL, KW_CLAIM_NO_ROOM, NEVER}},
	{"the first scan ended without doubt", {KW_REACH_UP, KW_MENDING_NONE, 1, 1}, NEVER,
		{KW_SOURCE_LIVE, KW_CLAIM_NOTHING_WRONG, WHOLE}},
	{"the first scan ended, databases are in doubt", {KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 0},
		NEVER, {KW_SOURCE_RECONCILING, KW_CLAIM_MENDING, SWEPT}},
	{"doubt again after the second", {KW_REACH_UP, KW_MENDING_UNDER_WAY, 2, 0}, SWEPT,
		{KW_SOURCE_RECONCILING, KW_CLAIM_MENDING, SWEPT}},
	{"the second left no doubt", {KW_REACH_UP, KW_MENDING_NONE, 2, 1}, SWEPT,
		{KW_SOURCE_LIVE, KW_CLAIM_NOTHING_WRONG, WHOLE}},
	{"doubt that never ends", {KW_REACH_UP, KW_MENDING_UNDER_WAY, 3, 0}, SWEPT,
		{KW_SOURCE_RECONCILING, KW_CLAIM_MENDING, WHOLE}},
	{"the scan ended, keys wait for room", {KW_REACH_UP, KW_MENDING_NONE, 1, 1, .waiting = 5},
		NEVER, {KW_SOURCE_FULL, KW_CLAIM_NO_ROOM, SOUND}},
	{"doubt never ends and keys wait for room",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, 3, 0, .waiting = 5}, SWEPT,
		{KW_SOURCE_FULL, KW_CLAIM_NO_ROOM, SOUND}},
	{"room came", {KW_REACH_UP, KW_MENDING_NONE, 1, 1}, SOUND,
		{KW_SOURCE_LIVE, KW_CLAIM_NOTHING_WRONG, WHOLE}},
	{"room came while the connection is down", {KW_REACH_DOWN, KW_MENDING_NONE, 1, 1}, SOUND,
		{KW_SOURCE_DOWN, KW_CLAIM_NOT_CONNECTED, WHOLE}},
	{"complete, and the table is full now", {KW_REACH_UP, KW_MENDING_NONE, 1, 1, .waiting = 1},
		WHOLE, {KW_SOURCE_FULL, KW_CLAIM_NO_ROOM, WHOLE}},
	{"complete, and a reconcile", {KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1}, WHOLE,
		{KW_SOURCE_RECONCILING, KW_CLAIM_MENDING, WHOLE}},
	{"complete, and the connection was lost", {KW_REACH_DOWN, KW_MENDING_NONE, 1, 1}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_NOT_CONNECTED, WHOLE}},
	{"keys too large", {KW_REACH_UP, KW_MENDING_NONE, 1, 1, .too_large = 2}, WHOLE,
		{KW_SOURCE_FULL, KW_CLAIM_TOO_LARGE, WHOLE}},
	{"keys unreadable and too large",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .too_large = 2, .unreadable = 1}, WHOLE,
		{KW_SOURCE_FULL, KW_CLAIM_UNREADABLE, WHOLE}},
	{"keys too large are no reason while a sweep mends",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1, .too_large = 2}, WHOLE,
		{KW_SOURCE_RECONCILING, KW_CLAIM_MENDING, WHOLE}},
	{"keys too large do not keep a table from being complete",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .too_large = 2}, NEVER,
		{KW_SOURCE_FULL, KW_CLAIM_TOO_LARGE, WHOLE}},
	{"no room comes before keys unreadable",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .waiting = 1, .unreadable = 1}, WHOLE,
		{KW_SOURCE_FULL, KW_CLAIM_NO_ROOM, WHOLE}},
	{"a reconcile found too many keys missing",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1, .missing = 9000, .whole = 10000}, WHOLE,
		{KW_SOURCE_HELD, KW_CLAIM_HELD, WHOLE}},
	{"the first scan, begun anew, found too many keys missing",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, .missing = 9000, .whole = 10000}, NEVER,
		{KW_SOURCE_HELD, KW_CLAIM_HELD, NEVER}},
	{"held comes before what needs no person",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1, .missing = 9, .whole = 9, .waiting = 1},
		WHOLE, {KW_SOURCE_HELD, KW_CLAIM_HELD, WHOLE}},
	{"held, and the connection was lost",
		{KW_REACH_DOWN, KW_MENDING_NONE, 1, 1, .missing = 9, .whole = 9}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_NOT_CONNECTED, WHOLE}},
	{"the first scan ended, of a replica without its primary",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .chain = KW_CHAIN_CUT}, NEVER,
		{KW_SOURCE_DOWN, KW_CLAIM_CHAIN_CUT, NEVER}},
	{"its primary is back", {KW_REACH_UP, KW_MENDING_NONE, 1, 1}, NEVER,
		{KW_SOURCE_LIVE, KW_CLAIM_NOTHING_WRONG, WHOLE}},
	{"complete, and the replica lost its primary",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .chain = KW_CHAIN_CUT}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_CHAIN_CUT, WHOLE}},
	{"complete, and the replica's primary is silent",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .chain = KW_CHAIN_SILENT}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_CHAIN_CUT, WHOLE}},
	{"held, and the replica lost its primary",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1, .missing = 9, .whole = 9,
			.chain = KW_CHAIN_CUT},
		WHOLE, {KW_SOURCE_DOWN, KW_CLAIM_CHAIN_CUT, WHOLE}},
	{"the primary is busy with a script",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .script = KW_SCRIPT_BUSY}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_BUSY, WHOLE}},
	{"busy with a script during the first scan",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, .script = KW_SCRIPT_BUSY}, NEVER,
		{KW_SOURCE_DOWN, KW_CLAIM_BUSY, NEVER}},
	{"busy with a script before the first look",
		{KW_REACH_UNTRIED, KW_MENDING_NONE, .script = KW_SCRIPT_BUSY}, NEVER,
		{KW_SOURCE_CONNECTING, KW_CLAIM_BUSY, NEVER}},
	{"complete, and the primary does not answer",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .silent_s = 3}, WHOLE,
		{KW_SOURCE_STALLED, KW_CLAIM_SILENT, WHOLE}},
	{"silent in the first scan", {KW_REACH_UP, KW_MENDING_UNDER_WAY, .silent_s = 3}, NEVER,
		{KW_SOURCE_STALLED, KW_CLAIM_SILENT, NEVER}},
	{"silent comes before what was seen earlier",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1, .missing = 9, .whole = 9, .silent_s = 3,
			.chain = KW_CHAIN_CUT, .mandate = KW_MANDATE_LOST},
		WHOLE, {KW_SOURCE_STALLED, KW_CLAIM_SILENT, WHOLE}},
	{"a script that is known comes before silent",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .script = KW_SCRIPT_BUSY, .silent_s = 9},
		WHOLE, {KW_SOURCE_DOWN, KW_CLAIM_BUSY, WHOLE}},
	{"the connection of a silent primary was given up",
		{KW_REACH_DOWN, KW_MENDING_NONE, 1, 1, .silent_s = 30}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_NOT_CONNECTED, WHOLE}},
	{"a database has a number too high", {KW_REACH_UP, KW_MENDING_NONE, 1, 1, .beyond = 66000},
		WHOLE, {KW_SOURCE_FULL, KW_CLAIM_BEYOND, WHOLE}},
	{"keys too large come before a number too high",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .beyond = 66000, .too_large = 1}, WHOLE,
		{KW_SOURCE_FULL, KW_CLAIM_TOO_LARGE, WHOLE}},
	{"a primary that nobody has confirmed yet",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, .mandate = KW_MANDATE_AWAITED,
			.fence = KW_FENCE_CLOSED},
		NEVER, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_UNCONFIRMED, NEVER}},
	{"a primary that is confirmed",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_CONFIRMED}, WHOLE,
		{KW_SOURCE_LIVE, KW_CLAIM_NOTHING_WRONG, WHOLE}},
	{"its mandate was lost",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_LOST,
			.fence = KW_FENCE_CLOSED},
		WHOLE, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_UNCONFIRMED, WHOLE}},
	{"another server is the primary",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_ELSEWHERE,
			.fence = KW_FENCE_CLOSED},
		WHOLE, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_UNCONFIRMED, WHOLE}},
	{"a standby is read, and its table is complete",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_ELSEWHERE,
			.stands_by = true},
		NEVER, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_STANDBY, WHOLE}},
	{"a standby that is being scanned",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, .mandate = KW_MANDATE_ELSEWHERE,
			.stands_by = true},
		NEVER, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_STANDBY, NEVER}},
	{"a standby of an operator's",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_AWAITED,
			.stands_by = true},
		NEVER, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_STANDBY, WHOLE}},
	{"a standby without room would not be ready",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .waiting = 1, .mandate = KW_MANDATE_ELSEWHERE,
			.stands_by = true},
		WHOLE, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_UNCONFIRMED, WHOLE}},
	{"a replica whose sentinels are not heard",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_LOST}, WHOLE,
		{KW_SOURCE_UNCONFIRMED, KW_CLAIM_UNCONFIRMED, WHOLE}},
	{"a standby without its primary",
		{KW_REACH_UP, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_ELSEWHERE,
			.chain = KW_CHAIN_CUT},
		WHOLE, {KW_SOURCE_DOWN, KW_CLAIM_CHAIN_CUT, WHOLE}},
	{"unconfirmed comes before held and before no room",
		{KW_REACH_UP, KW_MENDING_UNDER_WAY, 1, 1, .missing = 9, .whole = 9, .waiting = 1,
			.mandate = KW_MANDATE_LOST, .fence = KW_FENCE_CLOSED},
		WHOLE, {KW_SOURCE_UNCONFIRMED, KW_CLAIM_UNCONFIRMED, WHOLE}},
	{"down comes before unconfirmed",
		{KW_REACH_DOWN, KW_MENDING_NONE, 1, 1, .mandate = KW_MANDATE_LOST}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_NOT_CONNECTED, WHOLE}},
	{"down comes before everything",
		{KW_REACH_DOWN, KW_MENDING_NONE, 1, 1, .waiting = 1, .unreadable = 1}, WHOLE,
		{KW_SOURCE_DOWN, KW_CLAIM_NOT_CONNECTED, WHOLE}},
};

static void the_table_claims_what_the_facts_allow(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_claim claim = kw_claim_judge(&cases[i].facts, cases[i].before);

		if (claim.state != cases[i].claim.state || claim.cause != cases[i].claim.cause ||
			claim.completeness != cases[i].claim.completeness)
			fail_msg("%s: state %d, cause %d, completeness %d", cases[i].what,
				(int)claim.state, (int)claim.cause, (int)claim.completeness);
	}
}

/* Whatever the other facts are, what was claimed once is never taken back. */
static void completeness_never_goes_back(void **state)
{
	for (int before = NEVER; before <= WHOLE; before++)
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
			assert_true(
				(int)kw_claim_judge(&cases[i].facts, (enum kw_completeness)before)
					.completeness >= before);
}

/* Programs and documents know causes by their codes. */
static void each_cause_has_a_code_of_its_own_and_a_remedy_if_it_is_one(void **state)
{
	for (int a = 0; a <= KW_CLAIM_BEYOND; a++) {
		const struct kw_reason_row *row = kw_claim_row((enum kw_claim_cause)a);

		assert_int_equal(
			strspn(row->code, "abcdefghijklmnopqrstuvwxyz_"), strlen(row->code));
		assert_true(strlen(row->meaning) > 0 && *kw_grade_name(row->grade));
		assert_int_equal(row->grade == KW_GRADE_GOOD, row->remedy[0] == '\0');
		for (int b = 0; b < a; b++)
			assert_string_not_equal(
				row->code, kw_claim_row((enum kw_claim_cause)b)->code);
	}
	assert_string_equal(kw_claim_row(KW_CLAIM_NOTHING_WRONG)->code, "none");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_cause_has_a_code_of_its_own_and_a_remedy_if_it_is_one),
		cmocka_unit_test(the_table_claims_what_the_facts_allow),
		cmocka_unit_test(completeness_never_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
