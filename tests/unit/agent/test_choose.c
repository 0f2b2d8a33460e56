/* Which of several tables is followed, in one table of cases. */
#include "authority/choose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#pragma GCC diagnostic ignored "-Woverride-init"

/* A table without a mandate, and one that is confirmed for a term. */
#define PLAIN .seen = true, .allowed = true, .same_domain = true, .complete = true, .serves = true
#define CONFIRMED(n) PLAIN, .confirmed = true, .term = n

static const struct {
	const char *name;
	struct kw_choice tables[3];
	size_t current, expected;
} cases[] = {
	{"all are alike: the one that is followed", {{PLAIN}, {PLAIN}, {PLAIN}}, 1, 1},
	{"the one that is followed is gone: the first", {{PLAIN}, {PLAIN}, {PLAIN, .seen = false}},
		2, 0},
	{"none was seen", {{0}, {0}, {0}}, 1, 1},
	{"none may be followed",
		{{PLAIN, .allowed = false}, {PLAIN, .allowed = false}, {PLAIN, .allowed = false}},
		2, 2},
	{"only one may be followed",
		{{PLAIN, .allowed = false}, {PLAIN, .allowed = false}, {PLAIN, .serves = false}}, 0,
		2},
	{"the confirmed one",
		{{PLAIN, .allowed = false}, {CONFIRMED(7)}, {PLAIN, .allowed = false}}, 0, 1},
	{"confirmed before one that asks nobody", {{PLAIN}, {CONFIRMED(0)}, {PLAIN}}, 0, 1},
	{"the higher term", {{CONFIRMED(6)}, {CONFIRMED(7)}, {CONFIRMED(5)}}, 0, 1},
	{"the higher term, although it is not complete yet",
		{{CONFIRMED(6)}, {CONFIRMED(7), .complete = false}, {CONFIRMED(6)}}, 0, 1},
	{"a term of another domain is not higher",
		{{CONFIRMED(6)}, {CONFIRMED(9), .same_domain = false}, {PLAIN}}, 0, 0},
	{"… but it is better than none", {{PLAIN}, {CONFIRMED(9), .same_domain = false}, {PLAIN}},
		0, 1},
	{"the complete one", {{PLAIN, .complete = false}, {PLAIN}, {PLAIN}}, 0, 1},
	{"the one that reaches its server",
		{{PLAIN, .serves = false}, {PLAIN, .serves = false}, {PLAIN}}, 0, 2},
	{"complete before serving", {{PLAIN, .serves = false}, {PLAIN, .complete = false}, {0}}, 0,
		0},
	{"two of the same term: no change", {{CONFIRMED(7)}, {CONFIRMED(7)}, {CONFIRMED(7)}}, 2, 2},
	{"two proxies of the new primary: the first of them",
		{{CONFIRMED(6)}, {CONFIRMED(7)}, {CONFIRMED(7)}}, 0, 1},
};

static void each_case_has_its_choice(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t found = kw_choose(cases[i].tables, 3, cases[i].current);

		if (found != cases[i].expected)
			fail_msg("%s: %zu instead of %zu", cases[i].name, found, cases[i].expected);
		/* Chosen once, it stays. */
		assert_int_equal(kw_choose(cases[i].tables, 3, found), found);
	}
}

static void one_table_is_always_chosen(void **state)
{
	const struct kw_choice none = {0};

	assert_int_equal(kw_choose(&none, 1, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_case_has_its_choice),
		cmocka_unit_test(one_table_is_always_chosen),
	};

	return cmocka_run_group_tests_name("agent-choose", tests, NULL, NULL);
}
