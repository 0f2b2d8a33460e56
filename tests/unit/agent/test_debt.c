/* What the local data lack, when a reconcile brings it, and how far a table is behind. */
#include "sync/debt.h"
#include "sync/level.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECOND_US UINT64_C(1000000)
#define LONG_US (3600 * SECOND_US)

static struct kw_debt watched(uint64_t evicted)
{
	struct kw_debt debt;

	kw_debt_init(&debt);
	kw_debt_assess(&debt, &(struct kw_debt_counts){.evicted = evicted});
	return debt;
}

/* True: it begins to evict. */
static bool count(struct kw_debt *debt, uint64_t evicted, uint64_t resets, uint64_t now_us)
{
	const struct kw_debt_counts counts = {.evicted = evicted, .resets = resets};

	return kw_debt_count(debt, &counts, now_us).evicting;
}

static const struct {
	const char *what;
	uint64_t counts[3]; /* of evicted keys, one look after the other */
	uint64_t resets[3];
	uint64_t evicted;
} evictions[] = {
	{"none", {7, 7, 7}, {0, 0, 0}, 0},
	{"some", {7, 9, 10}, {0, 0, 0}, 3},
	{"CONFIG RESETSTAT, and none since", {7, 7, 0}, {0, 0, 1}, 0},
	{"CONFIG RESETSTAT, and as many since", {7, 7, 7}, {0, 0, 1}, 7},
	{"a counter that fell, though no reset was seen", {9, 12, 2}, {0, 0, 0}, 5},
	{"more than there are numbers for", {0, UINT64_MAX, 1}, {0, 0, 1}, UINT64_MAX},
};

static void evicted_keys_are_counted_across_resets(void **state)
{
	for (size_t i = 0; i < sizeof evictions / sizeof *evictions; i++) {
		struct kw_debt debt = watched(evictions[i].counts[0]);

		for (int look = 1; look < 3; look++)
			count(&debt, evictions[i].counts[look], evictions[i].resets[look],
				(uint64_t)look * SECOND_US);
		if (debt.evicted.count != evictions[i].evicted)
			fail_msg("%s: %d", evictions[i].what, (int)debt.evicted.count);
	}
}

static void a_reconcile_waits_until_the_server_stops_to_evict(void **state)
{
	struct kw_debt debt = watched(0);
	uint64_t now = SECOND_US;

	assert_int_equal(kw_debt_due(&debt, 0, true, now), KW_DEBT_NONE);
	assert_true(count(&debt, 1, 0, now));
	for (int i = 0; i < 20; i++) {
		now += SECOND_US;
		assert_false(count(&debt, 2 + (uint64_t)i, 0, now));
		assert_int_equal(kw_debt_due(&debt, 0, true, now), KW_DEBT_NONE);
	}
	assert_int_equal(
		kw_debt_due(&debt, 0, true, now + debt.evicted.pause_us - 1), KW_DEBT_NONE);
	assert_int_equal(kw_debt_due(&debt, 0, true, now + debt.evicted.pause_us), KW_DEBT_EVICTED);
	kw_debt_forgive(&debt);
	assert_int_equal(kw_debt_due(&debt, 0, true, now + LONG_US), KW_DEBT_NONE);
	assert_int_equal(debt.evicted.ever, 21);
}

static void pauses_grow_while_a_server_evicts_after_each_snapshot(void **state)
{
	struct kw_debt debt = watched(0);
	uint64_t now = SECOND_US, first_us = 0;

	for (uint64_t i = 1; i <= 6; i++) {
		assert_true(count(&debt, i, 0, now));
		if (i == 1)
			first_us = debt.evicted.pause_us;
		now += debt.evicted.pause_us;
		kw_debt_forgive(&debt);
	}
	assert_true(debt.evicted.pause_us > 8 * first_us);
	/* A server that has evicted nothing for long is not held to what it did before. */
	count(&debt, 7, 0, now + LONG_US);
	assert_true(debt.evicted.pause_us <= 2 * first_us);
}

static const struct {
	const char *what;
	uint64_t counts[3]; /* of calls by which others write, one look after the other */
	uint64_t own[3];    /* of them sent by this agent since the look before */
	uint64_t resets[3];
	uint64_t foreign;
} writes[] = {
	{"none", {7, 7, 7}, {0, 0, 0}, {0, 0, 0}, 0},
	{"some", {7, 9, 10}, {0, 0, 0}, {0, 0, 0}, 3},
	{"cursors alone", {7, 9, 10}, {0, 2, 1}, {0, 0, 0}, 0},
	{"a cursor that was lost on its way", {7, 9, 9}, {0, 3, 0}, {0, 0, 0}, 0},
	{"others, and cursors", {7, 12, 13}, {0, 2, 0}, {0, 0, 0}, 4},
	{"CONFIG RESETSTAT, and a cursor since", {7, 7, 1}, {0, 0, 1}, {0, 0, 1}, 0},
	{"CONFIG RESETSTAT, and others since", {7, 7, 5}, {0, 0, 1}, {0, 0, 1}, 4},
};

static void writes_of_others_are_counted_without_the_agents_own(void **state)
{
	for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
		struct kw_debt debt;

		kw_debt_init(&debt);
		for (size_t look = 0; look < 3; look++) {
			const struct kw_debt_counts counts = {
				.foreign = writes[i].counts[look],
				.own = writes[i].own[look],
				.resets = writes[i].resets[look],
			};

			if (look == 0)
				kw_debt_assess(&debt, &counts);
			else
				kw_debt_count(&debt, &counts, look * SECOND_US);
		}
		if (debt.foreign.count != writes[i].foreign)
			fail_msg("%s: %d", writes[i].what, (int)debt.foreign.count);
	}
}

static void a_reconcile_waits_until_others_stop_to_write(void **state)
{
	const struct kw_debt_counts one = {.foreign = 1}, two = {.foreign = 2};
	struct kw_debt debt = watched(0);
	uint64_t now = SECOND_US;

	assert_true(kw_debt_count(&debt, &one, now).writing);
	assert_false(kw_debt_count(&debt, &two, now + SECOND_US).writing);
	now += SECOND_US;
	assert_int_equal(
		kw_debt_due(&debt, 0, true, now + debt.foreign.pause_us - 1), KW_DEBT_NONE);
	assert_int_equal(kw_debt_due(&debt, 0, true, now + debt.foreign.pause_us), KW_DEBT_FOREIGN);
	kw_debt_forgive(&debt);
	assert_int_equal(kw_debt_due(&debt, 0, true, now + LONG_US), KW_DEBT_NONE);
	assert_int_equal(debt.foreign.ever, 2);
}

static void no_reconcile_follows_what_an_audit_mends(void **state)
{
	const struct kw_debt_counts one = {.foreign = 1}, two = {.foreign = 2};
	struct kw_debt debt = watched(0);

	kw_debt_count(&debt, &one, SECOND_US);
	kw_debt_audits(&debt, true);
	assert_int_equal(kw_debt_due(&debt, 0, true, LONG_US), KW_DEBT_NONE);
	assert_int_equal(debt.foreign.count, 1); /* until it has done so */
	kw_debt_audited(&debt);
	assert_int_equal(debt.foreign.count, 0);
	/* The audit is switched off before it has come round. */
	kw_debt_count(&debt, &two, LONG_US);
	kw_debt_audits(&debt, true);
	kw_debt_audits(&debt, false);
	assert_int_equal(kw_debt_due(&debt, 0, true, 2 * LONG_US), KW_DEBT_FOREIGN);
}

/* A cursor that is written meanwhile says so, and a snapshot does not answer an audit's doubt. */
static void what_an_audit_doubts_is_wrong_until_it_says_otherwise(void **state)
{
	struct kw_debt debt;

	kw_debt_init(&debt);
	assert_int_equal(kw_debt_wrong(&debt), 0);
	kw_debt_doubt(&debt, 3);
	kw_debt_forgive(&debt);
	assert_int_equal(kw_debt_wrong(&debt), 3);
	debt.evicted.count = 4;
	debt.foreign.count = 5;
	assert_int_equal(kw_debt_wrong(&debt), 12);
	debt.foreign.count = UINT64_MAX;
	assert_int_equal(kw_debt_wrong(&debt), UINT64_MAX);
	debt.foreign.count = 0;
	kw_debt_doubt(&debt, 0);
	assert_int_equal(kw_debt_wrong(&debt), 4);
}

static void owed_values_wait_for_what_was_handed_on_after_them(void **state)
{
	struct kw_debt debt = watched(0);
	uint64_t now = SECOND_US;

	assert_int_equal(kw_debt_due(&debt, 3, false, now), KW_DEBT_NONE);
	assert_int_equal(kw_debt_due(&debt, 3, false, now + LONG_US), KW_DEBT_NONE);
	assert_int_equal(kw_debt_due(&debt, 3, true, now), KW_DEBT_NONE);
	assert_true(debt.owed_us > now);
	assert_int_equal(kw_debt_due(&debt, 3, true, debt.owed_us - 1), KW_DEBT_NONE);
	assert_int_equal(kw_debt_due(&debt, 3, false, debt.owed_us), KW_DEBT_NONE);
	assert_int_equal(kw_debt_due(&debt, 3, true, debt.owed_us), KW_DEBT_MEMORY);
	assert_int_equal(kw_debt_due(&debt, 0, true, debt.owed_us), KW_DEBT_NONE);
}

/* An INFO that was answered BUSY told nothing. */
static void only_an_answer_to_the_question_says_that_all_was_kept(void **state)
{
	struct kw_debt debt = watched(0);

	assert_false(kw_debt_kept(&debt, 9));
	kw_debt_ask(&debt, 5);
	assert_false(kw_debt_kept(&debt, 4));
	assert_true(kw_debt_kept(&debt, 5));
	assert_true(kw_debt_kept(&debt, 6));
	kw_debt_forgive(&debt);
	assert_false(kw_debt_kept(&debt, 9));
}

#define AT(second) ((second)*SECOND_US)
/* A table that was fresh then, as told now. */
#define TABLE(state, fresh, now)                                                                   \
	{                                                                                          \
		.complete = true, .source_state = KW_SOURCE_##state, .fresh_us = (fresh),          \
		.heartbeat_us = (now)                                                              \
	}
#define UNKNOWN KW_LEVEL_LAG_UNKNOWN

static const struct {
	struct kw_superblock superblock;
	uint64_t silent_us;
	uint64_t lag_us;
	enum kw_level_table table; /* with a warm lag of one second */
} tables[] = {
	{{.complete = false, .source_state = KW_SOURCE_LIVE, .heartbeat_us = AT(9)}, 0, UNKNOWN,
		KW_TABLE_INCOMPLETE},
	{TABLE(LIVE, 0, AT(9)), 0, UNKNOWN, KW_TABLE_UNFRESH},
	{TABLE(LIVE, 8900000, AT(9)), 0, 0, KW_TABLE_FRESH},
	{TABLE(LIVE, AT(8), AT(9)), 0, 800000, KW_TABLE_FRESH},
	{TABLE(LIVE, AT(7), AT(9)), 0, 1800000, KW_TABLE_BEHIND},
	{TABLE(LIVE, AT(9), AT(7)), 0, 0, KW_TABLE_FRESH},
	/* Whatever the source does, time goes on. */
	{TABLE(DOWN, AT(7), AT(9)), 0, 1800000, KW_TABLE_BEHIND},
	{TABLE(STALLED, AT(7), AT(9)), 0, 1800000, KW_TABLE_BEHIND},
	{TABLE(HELD, AT(7), AT(9)), 0, 1800000, KW_TABLE_BEHIND},
	{TABLE(UNCONFIRMED, AT(7), AT(9)), 0, 1800000, KW_TABLE_BEHIND},
	{TABLE(FULL, AT(7), AT(9)), 0, 1800000, KW_TABLE_BEHIND},
	{TABLE(RECONCILING, AT(7), AT(9)), 0, 1800000, KW_TABLE_BEHIND},
	{TABLE(RECONCILING, 0, AT(9)), 0, UNKNOWN, KW_TABLE_UNFRESH},
	/* And also while the proxy tells nothing. */
	{TABLE(LIVE, 8900000, AT(9)), 250000, 0, KW_TABLE_FRESH},
	{TABLE(LIVE, 8900000, AT(9)), 2300000, 2000000, KW_TABLE_FRESH},
	{TABLE(DOWN, AT(7), AT(9)), 2300000, 3800000, KW_TABLE_BEHIND},
	{TABLE(LIVE, 0, AT(9)), 2300000, UNKNOWN, KW_TABLE_UNFRESH},
};

static void a_table_is_behind_by_more_than_its_barrier(void **state)
{
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		assert_int_equal(kw_level_source_lag_us(&tables[i].superblock, tables[i].silent_us),
			tables[i].lag_us);
		assert_int_equal(kw_level_table(&tables[i].superblock, SECOND_US), tables[i].table);
	}
}

/* Paused for an hour, and after ten minutes of that the primary died. */
static void a_wait_and_a_silence_are_not_added_up(void **state)
{
	const uint64_t minute = 60 * SECOND_US;
	struct kw_superblock table = TABLE(DOWN, 11 * minute, 61 * minute);
	struct kw_superblock hostile = TABLE(LIVE, 1, UINT64_MAX);

	assert_int_equal(kw_level_lag_us(&table, 0, 60 * minute, minute), 60 * minute - 200000);
	assert_int_equal(kw_level_lag_us(&table, 0, 60 * minute, 0), 110 * minute - 200000);
	/* What was applied is of another table. */
	assert_int_equal(kw_level_lag_us(&table, 0, minute, 12 * minute), 51 * minute - 200000);
	assert_int_equal(kw_level_lag_us(&table, 0, 0, 11 * minute), 50 * minute - 200000);
	table.fresh_us = 0;
	assert_int_equal(kw_level_lag_us(&table, 0, minute, minute), UNKNOWN);
	assert_int_equal(kw_level_lag_us(&hostile, UINT64_MAX, UINT64_MAX, 0), UNKNOWN - 1);
}

static void changes_that_come_late_tell_a_slow_proxy_from_a_silent_primary(void **state)
{
	struct kw_superblock table = TABLE(LIVE, AT(7), AT(9));

	assert_false(kw_level_moves(&table)); /* nothing was ever published */
	table.published_us = 7100000;         /* what was under way when the primary fell silent */
	assert_false(kw_level_moves(&table));
	table.published_us = 8900000;
	assert_true(kw_level_moves(&table));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(evicted_keys_are_counted_across_resets),
		cmocka_unit_test(a_reconcile_waits_until_the_server_stops_to_evict),
		cmocka_unit_test(pauses_grow_while_a_server_evicts_after_each_snapshot),
		cmocka_unit_test(writes_of_others_are_counted_without_the_agents_own),
		cmocka_unit_test(a_reconcile_waits_until_others_stop_to_write),
		cmocka_unit_test(no_reconcile_follows_what_an_audit_mends),
		cmocka_unit_test(what_an_audit_doubts_is_wrong_until_it_says_otherwise),
		cmocka_unit_test(owed_values_wait_for_what_was_handed_on_after_them),
		cmocka_unit_test(only_an_answer_to_the_question_says_that_all_was_kept),
		cmocka_unit_test(a_table_is_behind_by_more_than_its_barrier),
		cmocka_unit_test(a_wait_and_a_silence_are_not_added_up),
		cmocka_unit_test(changes_that_come_late_tell_a_slow_proxy_from_a_silent_primary),
	};

	return cmocka_run_group_tests_name("agent-debt", tests, NULL, NULL);
}
