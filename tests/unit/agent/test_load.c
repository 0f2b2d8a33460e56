/* When a snapshot that replaces all local data is given up. */
#include "sync/load.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define BEGIN_US 1000

struct look {
	uint64_t after_us, bytes, room;
	bool stuck;
};

static const struct {
	const char *what;
	struct look looks[3];
} cases[] = {
	{"nothing comes", {{0, 5, 9, false}, {KW_LOAD_IDLE_US, 5, 9, false},
				  {KW_LOAD_IDLE_US + 1, 5, 9, true}}},
	{"something came", {{KW_LOAD_IDLE_US, 6, 9, false}, {2 * KW_LOAD_IDLE_US, 6, 9, false},
				   {2 * KW_LOAD_IDLE_US + 1, 6, 9, true}}},
	{"it comes slowly", {{KW_LOAD_IDLE_US + 1, 6, 9, false}, {2 * KW_LOAD_IDLE_US, 7, 9, false},
				    {3 * KW_LOAD_IDLE_US, 8, 9, false}}},
	{"the server takes its time",
		{{KW_LOAD_IDLE_US, 5, 0, false}, {5 * KW_LOAD_IDLE_US, 5, 0, false},
			{6 * KW_LOAD_IDLE_US, 5, 9, false}}},
};

static void a_server_that_waits_for_what_does_not_come_is_let_go(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_load_watch watch;

		kw_load_begin(&watch, 5, 0, BEGIN_US);
		for (int k = 0; k < 3; k++) {
			const struct look *look = &cases[i].looks[k];

			if (kw_load_is_stuck(&watch, look->bytes, look->room,
				    BEGIN_US + look->after_us) != look->stuck)
				fail_msg("%s, look %d", cases[i].what, k);
		}
	}
}

/* Segments that vanished before it began do not count. */
static void an_incomplete_snapshot_is_given_up_for_data_of_before(void **state)
{
	struct kw_load_watch watch;

	kw_load_begin(&watch, 5, 3, BEGIN_US);
	assert_false(kw_load_is_incomplete(&watch, 3));
	assert_true(kw_load_is_incomplete(&watch, 4));
	assert_true(kw_load_gives_up(0, 1));
	assert_false(kw_load_gives_up(0, 0));
	assert_true(kw_load_gives_up(KW_LOAD_GIVEN_UP_MAX - 1, 1));
	assert_false(kw_load_gives_up(KW_LOAD_GIVEN_UP_MAX, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_that_waits_for_what_does_not_come_is_let_go),
		cmocka_unit_test(an_incomplete_snapshot_is_given_up_for_data_of_before),
	};

	return cmocka_run_group_tests_name("agent-load", tests, NULL, NULL);
}
