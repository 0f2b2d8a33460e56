/* Have the server's counts begun anew between two looks? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "local/resets.h"

static const struct {
	const char *what;
	struct kw_reset_signs before, now;
	bool reset;
} cases[] = {
	{"our INFO alone", {5, 90, 0}, {6, 91, 0}, false},
	{"others ask, too", {5, 90, 0}, {60, 910, 0}, false},
	{"a reset long ago", {5, 90, 1}, {6, 91, 1}, false},
	{"the first look after a server's start", {0, 3, 0}, {1, 9, 0}, false},
	{"a server that does not tell how many commands there were", {5, 0, 0}, {6, 0, 0}, false},

	{"the first reset", {5, 90, 0}, {0, 1, 1}, true},
	{"another one", {5, 90, 1}, {0, 1, 1}, true},
	{"the first, and others have caught up", {5, 90, 0}, {6, 200, 1}, true},
	{"as many INFO as before", {5, 90, 1}, {5, 200, 1}, true},
	{"no INFO before and after", {0, 90, 1}, {0, 200, 1}, true},
	{"others ask for INFO again and again", {5, 90, 1}, {6, 12, 1}, true},
	{"as many commands as before", {5, 90, 1}, {6, 90, 1}, true},
	{"Redis 6.2", {5, 90, 0}, {0, 1, 0}, true},
	{"numbers as large as they are", {UINT64_MAX, UINT64_MAX, 0}, {0, 0, 0}, true},
	{"not more than that", {UINT64_MAX, UINT64_MAX, 0}, {UINT64_MAX, UINT64_MAX, 0}, true},
};

static void counts_that_do_not_grow_as_they_must_began_anew(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_resets resets = {0};

		assert_false(kw_resets_look(&resets, &cases[i].before));
		if (kw_resets_look(&resets, &cases[i].now) != cases[i].reset)
			fail_msg("%s", cases[i].what);
	}
}

static void each_look_is_held_against_the_last_one(void **state)
{
	struct kw_resets resets = {0};
	struct kw_reset_signs signs = {10, 100, 0};

	kw_resets_look(&resets, &signs);
	signs = (struct kw_reset_signs){0, 1, 1};
	assert_true(kw_resets_look(&resets, &signs));
	for (int i = 0; i < 5; i++) {
		signs.infos++;
		signs.commands++;
		assert_false(kw_resets_look(&resets, &signs));
	}
	signs = (struct kw_reset_signs){0, 1, 1};
	assert_true(kw_resets_look(&resets, &signs));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_that_do_not_grow_as_they_must_began_anew),
		cmocka_unit_test(each_look_is_held_against_the_last_one),
	};

	return cmocka_run_group_tests_name("agent-resets", tests, NULL, NULL);
}
