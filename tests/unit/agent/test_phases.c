/* The moves of the sync: those that sync.h draws, and no others. */
#include "sync/sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
	enum kw_sync_phase from;
	enum kw_sync_phase to[4];
	int count;
} drawn[] = {
	{KW_SYNC_WAIT, {KW_SYNC_COUNT, KW_SYNC_SAMPLE, KW_SYNC_CLAIM, KW_SYNC_TAIL}, 4},
	{KW_SYNC_COUNT, {KW_SYNC_WAIT}, 1},
	{KW_SYNC_SAMPLE, {KW_SYNC_WAIT}, 1},
	{KW_SYNC_CLAIM, {KW_SYNC_WAIT, KW_SYNC_SNAPSHOT}, 2},
	{KW_SYNC_SNAPSHOT, {KW_SYNC_WAIT, KW_SYNC_SETTLE, KW_SYNC_TAIL}, 3},
	{KW_SYNC_SETTLE, {KW_SYNC_WAIT, KW_SYNC_PRUNE, KW_SYNC_TAIL}, 3},
	{KW_SYNC_PRUNE, {KW_SYNC_WAIT, KW_SYNC_SETTLE, KW_SYNC_HELD, KW_SYNC_TAIL}, 4},
	{KW_SYNC_HELD, {KW_SYNC_WAIT, KW_SYNC_SETTLE}, 2},
	{KW_SYNC_TAIL, {KW_SYNC_WAIT}, 1},
};

static void the_moves_are_those_of_the_picture(void **state)
{
	assert_int_equal(kw_sync_machine.count, sizeof drawn / sizeof *drawn);
	for (int i = 0; i < kw_sync_machine.count; i++) {
		uint32_t allowed = 0;

		assert_int_equal(drawn[i].from, i);
		for (int k = 0; k < drawn[i].count; k++)
			allowed |= KW_SM_TO(drawn[i].to[k]);
		assert_int_equal(kw_sync_machine.states[i].allowed, allowed);
	}
}

/* Nothing is written before the claim, and nothing is deleted before all is acknowledged. */
static void each_way_to_a_snapshot_goes_by_a_claim(void **state)
{
	for (int i = 0; i < kw_sync_machine.count; i++) {
		uint32_t allowed = kw_sync_machine.states[i].allowed;

		assert_int_equal((allowed & KW_SM_TO(KW_SYNC_SNAPSHOT)) != 0, i == KW_SYNC_CLAIM);
		assert_int_equal((allowed & KW_SM_TO(KW_SYNC_PRUNE)) != 0, i == KW_SYNC_SETTLE);
		assert_true(i == KW_SYNC_WAIT || (allowed & KW_SM_TO(KW_SYNC_WAIT)) != 0);
		assert_int_equal(
			(kw_sync_machine.states[i].marks & KW_SM_INITIAL) != 0, i == KW_SYNC_WAIT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_moves_are_those_of_the_picture),
		cmocka_unit_test(each_way_to_a_snapshot_goes_by_a_claim),
	};

	return cmocka_run_group_tests_name("agent-phases", tests, NULL, NULL);
}
