#include "sync/progress.h"

#include <stdlib.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct kw_pass pass_at(uint64_t position, uint64_t version, uint64_t begun_us)
{
	return (struct kw_pass){
		.position = position,
		.version = version,
		.consistent = version,
		.begun_us = begun_us,
		.fresh_us = version * 10,
		.published_us = begun_us,
		.equal_us = begun_us,
	};
}

/* To be freed; one pass was handed on, and nothing of it acknowledged. */
static struct kw_progress *handed(const struct kw_pass *pass)
{
	struct kw_progress *progress = calloc(1, sizeof *progress);

	kw_progress_handed(progress, pass);
	return progress;
}

static void nothing_is_applied_before_the_server_acknowledged_all_of_a_pass(void **state)
{
	struct kw_pass pass = pass_at(10, 100, 5);
	struct kw_progress *progress = handed(&pass);

	assert_false(kw_progress_acknowledged(progress, 9, 9, 50));
	assert_int_equal(progress->applied, 0);
	assert_int_equal(progress->fresh_us, 0);
	assert_int_equal(progress->equal_us, 0);
	assert_int_equal(kw_progress_waiting_since(progress), 5);
	assert_true(kw_progress_acknowledged(progress, 10, 10, 50));
	assert_int_equal(progress->applied, 100);
	assert_int_equal(progress->fresh_us, 1000);
	assert_int_equal(progress->equal_us, 5);
	assert_int_equal(progress->lag.max_us, 45);
	assert_int_equal(kw_progress_waiting_since(progress), 0);
	free(progress);
}

static void acknowledged_is_not_level_before_it_is_confirmed(void **state)
{
	struct kw_pass pass = pass_at(10, 100, 5);
	struct kw_progress *progress = handed(&pass);

	assert_true(kw_progress_acknowledged(progress, 10, 9, 50));
	assert_int_equal(progress->applied, 100);
	assert_int_equal(progress->equal_us, 0);
	assert_int_equal(progress->fresh_us, 0);
	kw_progress_acknowledged(progress, 10, 10, 60);
	assert_int_equal(progress->equal_us, 5);
	assert_int_equal(progress->fresh_us, 1000);
	/* Idle passes need no more of it. */
	pass = pass_at(10, 100, 70);
	kw_progress_handed(progress, &pass);
	kw_progress_acknowledged(progress, 10, 10, 80);
	assert_int_equal(progress->equal_us, 70);
	free(progress);
}

/* Its clock is a person's to step; passes come in their order all the same. */
static void freshness_follows_the_proxys_clock_when_it_steps_back(void **state)
{
	struct kw_pass pass = pass_at(10, 100, 5);
	struct kw_progress *progress = handed(&pass);

	kw_progress_acknowledged(progress, 10, 10, 50);
	assert_int_equal(progress->fresh_us, 1000);
	pass = pass_at(11, 101, 60);
	pass.fresh_us = 400;
	kw_progress_handed(progress, &pass);
	kw_progress_acknowledged(progress, 11, 11, 70);
	assert_int_equal(progress->fresh_us, 400);
	free(progress);
}

static void tickets_count_when_their_pass_is_confirmed(void **state)
{
	struct kw_pass pass = pass_at(10, 100, 5);
	struct kw_progress *progress;

	pass.epoch = 7;
	pass.ticket = 12;
	progress = handed(&pass);
	kw_progress_acknowledged(progress, 10, 9, 50);
	assert_int_equal(progress->ticket, 0);
	kw_progress_acknowledged(progress, 10, 10, 50);
	assert_int_equal(progress->ticket, 12);
	assert_int_equal(progress->epoch, 7);
	kw_progress_unlevel(progress);
	assert_int_equal(progress->ticket, 0);
	free(progress);
}

static void doubts_and_other_data_take_back_what_is_not_confirmed(void **state)
{
	struct kw_pass pass = pass_at(10, 100, 5);
	struct kw_progress *progress = handed(&pass);

	kw_progress_acknowledged(progress, 10, 9, 50);
	kw_progress_doubt(progress, 6);
	kw_progress_acknowledged(progress, 10, 10, 60);
	assert_int_equal(progress->equal_us, 0);
	pass = pass_at(20, 200, 7);
	kw_progress_handed(progress, &pass);
	kw_progress_acknowledged(progress, 20, 10, 60);
	kw_progress_unlevel(progress);
	kw_progress_acknowledged(progress, 20, 20, 60);
	assert_int_equal(progress->equal_us, 0);
	free(progress);
}

/* What is acknowledged is always further than what the last question was about. */
static void writes_without_end_are_confirmed_all_the_same(void **state)
{
	struct kw_progress *progress = calloc(1, sizeof *progress);

	for (uint64_t i = 1; i <= 1000; i++) {
		struct kw_pass pass = pass_at(i, i, i);

		kw_progress_handed(progress, &pass);
		/* Asked at every tenth, answered five later. */
		kw_progress_acknowledged(progress, i, i < 15 ? 0 : (i - 5) / 10 * 10, i);
		if (i > 30)
			assert_in_range(progress->equal_us, i - 30, i - 5);
	}
	assert_int_equal(progress->applied, 1000);
	free(progress);
}

static void a_pass_that_lost_a_segment_is_no_moment_of_equality(void **state)
{
	struct kw_progress *progress = calloc(1, sizeof *progress);
	struct kw_pass pass = pass_at(10, 100, 5);

	pass.consistent = 60;
	pass.equal_us = 0;
	kw_progress_handed(progress, &pass);
	assert_true(kw_progress_acknowledged(progress, 10, 10, 50));
	assert_int_equal(progress->applied, 60);
	assert_int_equal(progress->equal_us, 0);
	assert_int_equal(progress->fresh_us, 0);
	free(progress);
}

/* While an acknowledgement is awaited, idle passes must neither fill the FIFO nor hide the wait. */
static void passes_without_changes_are_merged_and_the_wait_keeps_its_age(void **state)
{
	struct kw_progress *progress = calloc(1, sizeof *progress);

	for (uint64_t i = 0; i < 1000; i++) {
		struct kw_pass pass = pass_at(10, 100, 5 + i);

		pass.published_us = i == 0 ? pass.begun_us : 0;
		kw_progress_handed(progress, &pass);
	}
	assert_int_equal(progress->count, 1);
	assert_int_equal(kw_progress_waiting_since(progress), 5);
	kw_progress_acknowledged(progress, 10, 10, 2000);
	assert_int_equal(progress->equal_us, 1004);
	assert_int_equal(progress->lag.count, 1);
	assert_int_equal(progress->lag.max_us, 1995);
	free(progress);
}

static void more_passes_than_fit_only_move_later(void **state)
{
	struct kw_progress *progress = calloc(1, sizeof *progress);

	for (uint64_t i = 1; i <= KW_PASSES_MAX * 3; i++) {
		struct kw_pass pass = pass_at(i, i, i);

		kw_progress_handed(progress, &pass);
	}
	assert_int_equal(progress->count, KW_PASSES_MAX);
	kw_progress_acknowledged(progress, KW_PASSES_MAX * 3 - 1, KW_PASSES_MAX * 3 - 1, 0);
	assert_int_equal(progress->applied, KW_PASSES_MAX - 1);
	kw_progress_acknowledged(progress, KW_PASSES_MAX * 3, KW_PASSES_MAX * 3, 0);
	assert_int_equal(progress->applied, KW_PASSES_MAX * 3);
	free(progress);
}

static void a_reset_forgets_what_was_handed_on(void **state)
{
	struct kw_pass pass = pass_at(10, 100, 5);
	struct kw_progress *progress = handed(&pass);

	kw_progress_reset(progress);
	assert_false(kw_progress_acknowledged(progress, 10, 10, 50));
	assert_int_equal(progress->applied, 0);
	free(progress);
}

/* Look, read and apply are the parts of each lag that is counted, and of no other. */
static void the_stages_of_a_lag_add_up_to_it(void **state)
{
	struct kw_progress *progress = calloc(1, sizeof *progress);
	const struct kw_stages *stages = &progress->stages;
	struct kw_pass pass = pass_at(10, 100, 5), untimed = pass_at(20, 200, 6);

	untimed.published_us = 0;
	pass.published_us = 1000;
	pass.look_us = 30;
	pass.read_us = 20;
	pass.handed_us = 1050;
	kw_progress_handed(progress, &pass);
	kw_progress_handed(progress, &untimed);
	kw_progress_acknowledged(progress, 20, 20, 1060);
	assert_int_equal(progress->lag.count, 1);
	assert_int_equal(stages->of[KW_PROGRESS_LOOK].all.sum_us, 30);
	assert_int_equal(stages->of[KW_PROGRESS_READ].all.sum_us, 20);
	assert_int_equal(stages->of[KW_PROGRESS_APPLY].all.sum_us, 10);
	assert_int_equal(stages->of[KW_PROGRESS_APPLY].all.count, 1);
	assert_int_equal(progress->lag.sum_us, 60);
	free(progress);
}

/* A later pass that is merged into it must not make the wait for the local server look short. */
static void a_merged_pass_keeps_the_stages_of_the_earlier_one(void **state)
{
	struct kw_progress *progress = calloc(1, sizeof *progress);
	struct kw_pass pass = pass_at(10, 100, 5);

	for (uint64_t i = 0; i < 3; i++) {
		pass.published_us = 1000 + i * 100;
		pass.handed_us = 1010 + i * 100;
		kw_progress_handed(progress, &pass);
	}
	kw_progress_acknowledged(progress, 10, 10, 2010);
	assert_int_equal(progress->stages.of[KW_PROGRESS_APPLY].all.count, 1);
	assert_int_equal(progress->stages.of[KW_PROGRESS_APPLY].all.max_us, 1000);
	free(progress);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_applied_before_the_server_acknowledged_all_of_a_pass),
		cmocka_unit_test(acknowledged_is_not_level_before_it_is_confirmed),
		cmocka_unit_test(freshness_follows_the_proxys_clock_when_it_steps_back),
		cmocka_unit_test(tickets_count_when_their_pass_is_confirmed),
		cmocka_unit_test(doubts_and_other_data_take_back_what_is_not_confirmed),
		cmocka_unit_test(writes_without_end_are_confirmed_all_the_same),
		cmocka_unit_test(a_pass_that_lost_a_segment_is_no_moment_of_equality),
		cmocka_unit_test(passes_without_changes_are_merged_and_the_wait_keeps_its_age),
		cmocka_unit_test(more_passes_than_fit_only_move_later),
		cmocka_unit_test(a_reset_forgets_what_was_handed_on),
		cmocka_unit_test(the_stages_of_a_lag_add_up_to_it),
		cmocka_unit_test(a_merged_pass_keeps_the_stages_of_the_earlier_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
