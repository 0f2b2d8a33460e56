/* From where reading goes on when the link came back. */
#include "sync/resume.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const struct {
	enum kw_sync_phase phase;
	bool positioned;
	enum kw_resume resume;
} cases[] = {
	/* These phases begin to read by themselves. */
	{KW_SYNC_WAIT, false, KW_RESUME_NOTHING},
	{KW_SYNC_WAIT, true, KW_RESUME_NOTHING},
	{KW_SYNC_COUNT, false, KW_RESUME_NOTHING},
	{KW_SYNC_SAMPLE, false, KW_RESUME_NOTHING},
	{KW_SYNC_CLAIM, false, KW_RESUME_NOTHING},
	/* A snapshot that was cut off cannot be continued. */
	{KW_SYNC_SNAPSHOT, false, KW_RESUME_OVER},
	{KW_SYNC_SETTLE, false, KW_RESUME_OVER},
	{KW_SYNC_TAIL, false, KW_RESUME_OVER},
	/* The set of keys is complete: nothing more need be read before they are pruned. */
	{KW_SYNC_SETTLE, true, KW_RESUME_NOTHING},
	{KW_SYNC_PRUNE, true, KW_RESUME_NOTHING},
	{KW_SYNC_TAIL, true, KW_RESUME_ON},
	/* Changes go on while the prune waits. */
	{KW_SYNC_HELD, true, KW_RESUME_ON},
};

static void a_snapshot_that_was_cut_off_is_read_from_its_beginning(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(
			kw_resume_judge(cases[i].phase, cases[i].positioned), cases[i].resume);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_that_was_cut_off_is_read_from_its_beginning),
	};

	return cmocka_run_group_tests_name("agent-resume", tests, NULL, NULL);
}
