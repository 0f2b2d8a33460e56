/* How old the proof of equality is, from what a walk through the table reports. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "audit/proof.h"

#define HALF (UINT64_C(1) << 63)

static void walk(struct kw_proof *proof, uint64_t from, uint64_t next, uint64_t at_us)
{
	kw_proof_walks(proof, from, next, at_us);
	kw_proof_walked(proof, from, next);
}

static void walk_all(struct kw_proof *proof, uint64_t at_us)
{
	walk(proof, 0, HALF, at_us);
	walk(proof, HALF, UINT64_MAX, at_us);
}

static void scan_all(struct kw_proof *proof, uint64_t at_us)
{
	kw_proof_enter(proof, KW_PROOF_LOCAL, at_us);
	kw_proof_leave(proof, KW_PROOF_LOCAL);
}

static void nothing_is_proven_before_both_walks(void **state)
{
	struct kw_proof proof = {0};

	assert_true(kw_proof_age_us(&proof, 100) == UINT64_MAX);
	walk_all(&proof, 10);
	assert_true(kw_proof_age_us(&proof, 100) == UINT64_MAX);
	scan_all(&proof, 20);
	assert_int_equal(kw_proof_age_us(&proof, 100), 90);
	kw_proof_reset(&proof);
	assert_true(kw_proof_age_us(&proof, 100) == UINT64_MAX);
}

static void the_age_is_that_of_the_oldest_range(void **state)
{
	struct kw_proof proof = {0};

	walk_all(&proof, 10);
	scan_all(&proof, 20);
	walk(&proof, 0, HALF, 30);
	assert_int_equal(kw_proof_age_us(&proof, 100), 90); /* the upper half is of 10 */
	walk(&proof, HALF, UINT64_MAX, 40);
	assert_int_equal(kw_proof_age_us(&proof, 100), 80); /* the local keys are of 20 */
	scan_all(&proof, 50);
	assert_int_equal(kw_proof_age_us(&proof, 100), 70);
}

/* A range that many blocks cover counts from the first of them. */
static void a_range_is_as_old_as_its_first_block(void **state)
{
	struct kw_proof proof = {0};
	uint64_t third = kw_proof_first(3), step = kw_proof_first(1) / 4;

	walk_all(&proof, 1);
	scan_all(&proof, 200);
	walk(&proof, 0, third + step, 100);
	walk(&proof, third + step, third + 2 * step, 120);
	assert_int_equal(proof.ranges[2].proven_us, 100);
	assert_int_equal(proof.ranges[3].proven_us, 1);
	walk(&proof, third + 2 * step, kw_proof_first(4), 140);
	assert_int_equal(proof.ranges[3].proven_us, 100);
	assert_int_equal(proof.ranges[4].proven_us, 1);
}

static void a_range_waits_for_each_of_its_keys(void **state)
{
	struct kw_proof proof = {0};
	unsigned range = kw_proof_range_of(HALF + 5);

	scan_all(&proof, 5);
	kw_proof_open(&proof, range);
	kw_proof_open(&proof, range);
	walk_all(&proof, 10);
	assert_true(kw_proof_age_us(&proof, 100) == UINT64_MAX);
	kw_proof_close(&proof, range);
	assert_true(kw_proof_age_us(&proof, 100) == UINT64_MAX);
	kw_proof_close(&proof, range);
	assert_int_equal(kw_proof_age_us(&proof, 100), 95);
}

static void a_key_that_cannot_be_settled_keeps_the_age_growing_until_the_next_walk(void **state)
{
	struct kw_proof proof = {0};
	unsigned range = kw_proof_range_of(HALF);

	walk_all(&proof, 10);
	scan_all(&proof, 10);
	kw_proof_open(&proof, range);
	walk_all(&proof, 20);
	scan_all(&proof, 20);
	kw_proof_fail(&proof, range);
	assert_int_equal(kw_proof_age_us(&proof, 100), 90);
	walk_all(&proof, 30);
	assert_int_equal(kw_proof_age_us(&proof, 100), 80);
}

/* At a slow pace a key can fail before the block that it stands in is handed out. */
static void a_key_that_fails_while_its_block_is_handed_out_keeps_its_range_from_proof(void **state)
{
	struct kw_proof proof = {0};
	unsigned range = kw_proof_range_of(HALF);

	walk_all(&proof, 10);
	scan_all(&proof, 10);
	kw_proof_walks(&proof, 0, UINT64_MAX, 20);
	kw_proof_open(&proof, range);
	kw_proof_fail(&proof, range);
	kw_proof_walked(&proof, 0, UINT64_MAX);
	scan_all(&proof, 20);
	assert_int_equal(proof.ranges[range].proven_us, 10);
	assert_int_equal(kw_proof_age_us(&proof, 100), 90);
}

/* A round that is given up proves nothing more, and takes nothing back. */
static void a_round_that_is_given_up_leaves_the_proof_as_it_was(void **state)
{
	struct kw_proof proof = {0};

	walk_all(&proof, 10);
	scan_all(&proof, 10);
	kw_proof_open(&proof, 0);
	walk(&proof, 0, HALF, 20);
	kw_proof_abandon(&proof);
	assert_int_equal(kw_proof_age_us(&proof, 100), 90);
	assert_int_equal(proof.ranges[0].proven_us, 10);
	assert_int_equal(proof.ranges[1].proven_us, 20);
	walk_all(&proof, 30);
	scan_all(&proof, 40);
	assert_int_equal(kw_proof_age_us(&proof, 100), 70);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_proven_before_both_walks),
		cmocka_unit_test(the_age_is_that_of_the_oldest_range),
		cmocka_unit_test(a_range_is_as_old_as_its_first_block),
		cmocka_unit_test(a_range_waits_for_each_of_its_keys),
		cmocka_unit_test(
			a_key_that_cannot_be_settled_keeps_the_age_growing_until_the_next_walk),
		cmocka_unit_test(
			a_key_that_fails_while_its_block_is_handed_out_keeps_its_range_from_proof),
		cmocka_unit_test(a_round_that_is_given_up_leaves_the_proof_as_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
