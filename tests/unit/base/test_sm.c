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
	[OFF] = {"off", KW_SM_TO(ON), KW_SM_INITIAL},
	[ON] = {"on", KW_SM_TO(OFF) | KW_SM_TO(BROKEN)},
	[BROKEN] = {"broken", KW_SM_TO(ON), KW_SM_FINAL | KW_SM_FAILURE},
};

struct lamp {
	struct kw_sm sm;
	int volts;
};

/* A lamp that is on has current. */
static bool has_current(const void *owner, int state)
{
	const struct lamp *lamp = owner;

	return state != ON || lamp->volts > 0;
}

static const struct kw_sm_conf conf = {"lamp", states, STATES, has_current};

static void allowed_moves_are_made_and_counted(void **state)
{
	struct lamp lamp = {.volts = 230};

	kw_sm_init(&lamp.sm, &conf, &lamp, OFF);
	assert_string_equal(kw_sm_name(&lamp.sm), "off");
	kw_sm_move(&lamp.sm, ON, "switch");
	kw_sm_move(&lamp.sm, OFF, "");
	kw_sm_move(&lamp.sm, ON, "switch");
	assert_false(kw_sm_failed(&lamp.sm) || kw_sm_ended(&lamp.sm));
	kw_sm_move(&lamp.sm, BROKEN, "fell");
	assert_int_equal(lamp.sm.state, BROKEN);
	assert_int_equal(lamp.sm.moves, 4);
	assert_string_equal(kw_sm_name(&lamp.sm), "broken");
	assert_true(kw_sm_failed(&lamp.sm) && kw_sm_ended(&lamp.sm));
}

static void moving_to_the_present_state_does_nothing(void **state)
{
	struct lamp lamp = {.volts = 230};

	kw_sm_init(&lamp.sm, &conf, &lamp, OFF);
	kw_sm_move(&lamp.sm, OFF, "again");
	assert_int_equal(lamp.sm.moves, 0);
}

/* The signal that ends a child which does this to a lamp, 0 when it lives through it. */
static int signal_of(void (*act)(struct lamp *lamp, int from, int to), int from, int to)
{
	const struct rlimit no_core = {0, 0};
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct lamp lamp = {.volts = 230};
		int null = open("/dev/null", O_WRONLY);

		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGABRT, SIG_DFL);
		dup2(null, STDERR_FILENO);
		act(&lamp, from, to);
		_exit(0);
	}
	waitpid(child, &status, 0);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void move(struct lamp *lamp, int from, int to)
{
	lamp->sm = (struct kw_sm){.conf = &conf, .owner = lamp, .state = from};
	kw_sm_move(&lamp->sm, to, "test");
}

static void begin(struct lamp *lamp, int from, int to)
{
	kw_sm_init(&lamp->sm, &conf, lamp, from);
}

static void fail_on(struct lamp *lamp, int from, int to)
{
	kw_sm_init(&lamp->sm, &conf, lamp, from);
	lamp->volts = 0;
	kw_sm_move(&lamp->sm, to, "a power cut");
}

static void lose_current(struct lamp *lamp, int from, int to)
{
	move(lamp, from, to);
	lamp->volts = 0;
	kw_sm_check(&lamp->sm);
}

static void a_machine_begins_in_an_initial_state_only(void **state)
{
	assert_int_equal(signal_of(begin, OFF, 0), 0);
	assert_int_equal(signal_of(begin, ON, 0), SIGABRT);
	assert_int_equal(signal_of(begin, BROKEN, 0), SIGABRT);
}

static void an_invariant_that_does_not_hold_aborts(void **state)
{
	assert_int_equal(signal_of(fail_on, OFF, OFF), 0);
	assert_int_equal(signal_of(fail_on, OFF, ON), SIGABRT);
	assert_int_equal(signal_of(lose_current, ON, OFF), 0);
	assert_int_equal(signal_of(lose_current, OFF, ON), SIGABRT);
}

/* BROKEN names a move, but is marked as final: that counts. */
static void every_move_that_the_table_does_not_allow_aborts(void **state)
{
	for (int from = 0; from < STATES; from++)
		for (int to = 0; to < STATES; to++) {
			int expected = from == to || (from != BROKEN &&
							     states[from].allowed & KW_SM_TO(to))
					       ? 0
					       : SIGABRT;

			assert_int_equal(signal_of(move, from, to), expected);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(allowed_moves_are_made_and_counted),
		cmocka_unit_test(moving_to_the_present_state_does_nothing),
		cmocka_unit_test(a_machine_begins_in_an_initial_state_only),
		cmocka_unit_test(an_invariant_that_does_not_hold_aborts),
		cmocka_unit_test(every_move_that_the_table_does_not_allow_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
