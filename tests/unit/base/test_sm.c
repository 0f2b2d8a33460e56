#include "base/log.h"
#include "base/sm.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/*
 *   OFF ──▶ ON ──▶ BROKEN
 *    ▲       │
 *    └───────┘
 */
enum { OFF, ON, BROKEN, STATES };

static const struct kw_sm_state states[STATES] = {
	[OFF] = {"off", KW_SM_TO(ON)},
	[ON] = {"on", KW_SM_TO(OFF) | KW_SM_TO(BROKEN)},
	[BROKEN] = {"broken", 0},
};

static const struct kw_sm_conf conf = {"lamp", states, STATES};

static void allowed_moves_are_made_and_counted(void **state)
{
	struct kw_sm sm;

	kw_sm_init(&sm, &conf, OFF);
	assert_string_equal(kw_sm_name(&sm), "off");
	kw_sm_move(&sm, ON, "switch");
	kw_sm_move(&sm, OFF, "");
	kw_sm_move(&sm, ON, "switch");
	kw_sm_move(&sm, BROKEN, "fell");
	assert_int_equal(sm.state, BROKEN);
	assert_int_equal(sm.moves, 4);
	assert_string_equal(kw_sm_name(&sm), "broken");
}

static void moving_to_the_present_state_does_nothing(void **state)
{
	struct kw_sm sm;

	kw_sm_init(&sm, &conf, BROKEN);
	kw_sm_move(&sm, BROKEN, "again");
	assert_int_equal(sm.moves, 0);
}

/* The signal that ends a child which makes this move, 0 when it lives through it. */
static int signal_of(int from, int to)
{
	const struct rlimit no_core = {0, 0};
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct kw_sm sm;
		int null = open("/dev/null", O_WRONLY);

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(null, STDERR_FILENO);
		kw_sm_init(&sm, &conf, from);
		kw_sm_move(&sm, to, "test");
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void every_move_that_the_table_does_not_allow_aborts(void **state)
{
	for (int from = 0; from < STATES; from++)
		for (int to = 0; to < STATES; to++) {
			int expected =
				from == to || states[from].allowed & KW_SM_TO(to) ? 0 : SIGABRT;

			assert_int_equal(signal_of(from, to), expected);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allowed_moves_are_made_and_counted),
		cmocka_unit_test(moving_to_the_present_state_does_nothing),
		cmocka_unit_test(every_move_that_the_table_does_not_allow_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
