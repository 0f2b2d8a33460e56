/* What shortens the agent's part of the way of a change. */
#include "stages.h"
#include "sync/level.h"
#include "sync/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void look_is_told(const struct kw_agent_stage_facts *facts, const char *words)
{
	char text[KW_REMEDY];

	kw_agent_stages[KW_PROGRESS_LOOK].remedy(facts, text);
	if (!strstr(text, words))
		fail_msg("'%s' does not say '%s'", text, words);
}

static void a_table_that_is_behind_is_looked_at_less_often(void **state)
{
	look_is_told(&(struct kw_agent_stage_facts){.idle_us = 100, .behind_us = 1000000},
		"the table is behind its primary");
}

/* Then nothing says that the table is behind: the pauses are as configured. */
static void a_lag_that_is_not_known_is_no_lag_of_the_table(void **state)
{
	struct kw_agent_stage_facts facts = {.idle_us = 100, .behind_us = KW_LEVEL_LAG_UNKNOWN};

	look_is_told(&facts, "lower poll.idle_us");
	facts.woken = true;
	look_is_told(&facts, "the proxy wakes the agent");
	facts.busy = true;
	look_is_told(&facts, "it lacks CPU");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_table_that_is_behind_is_looked_at_less_often),
		cmocka_unit_test(a_lag_that_is_not_known_is_no_lag_of_the_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
