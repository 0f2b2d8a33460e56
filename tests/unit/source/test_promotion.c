/* Which promotions go on with the data that were followed, case by case. */
#include "feed/watch/promotion.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define RUN "run1"
#define OLD "aaaa"
#define NEW "bbbb"

static const struct {
	const char *what;
	struct kw_server_identity old, now;
	enum kw_promotion_data data;
	bool goes_on;
} cases[] = {
	{"it was promoted", {.run_id = RUN, .replid = OLD, .role = "slave"},
		{.run_id = RUN, .replid = NEW, .replid2 = OLD, .role = "master"},
		KW_PROMOTION_DATA_WHOLE, true},
	{"its second id is another one", {.run_id = RUN, .replid = OLD, .role = "slave"},
		{.run_id = RUN, .replid = NEW, .replid2 = "cccc", .role = "master"},
		KW_PROMOTION_DATA_WHOLE, false},
	{"it has no second id", {.run_id = RUN, .replid = OLD, .role = "slave"},
		{.run_id = RUN, .replid = NEW, .replid2 = "0000", .role = "master"},
		KW_PROMOTION_DATA_WHOLE, false},
	{"neither look told an id", {.run_id = RUN, .role = "slave"},
		{.run_id = RUN, .role = "master"}, KW_PROMOTION_DATA_WHOLE, false},
	{"it was started anew", {.run_id = RUN, .replid = OLD, .role = "slave"},
		{.run_id = "run2", .replid = NEW, .replid2 = OLD, .role = "master"},
		KW_PROMOTION_DATA_WHOLE, false},
	{"its run is not told", {.replid = OLD, .role = "slave"},
		{.replid = NEW, .replid2 = OLD, .role = "master"}, KW_PROMOTION_DATA_WHOLE, false},
	{"it was being synchronised", {.run_id = RUN, .replid = OLD, .role = "slave"},
		{.run_id = RUN, .replid = NEW, .replid2 = OLD, .role = "master"},
		KW_PROMOTION_DATA_LOADING, false},
	{"it was a primary before", {.run_id = RUN, .replid = OLD, .role = "master"},
		{.run_id = RUN, .replid = NEW, .replid2 = OLD, .role = "master"},
		KW_PROMOTION_DATA_WHOLE, false},
	{"it was demoted", {.run_id = RUN, .replid = OLD, .role = "master"},
		{.run_id = RUN, .replid = NEW, .replid2 = OLD, .role = "slave"},
		KW_PROMOTION_DATA_WHOLE, false},
	{"it follows another primary", {.run_id = RUN, .replid = OLD, .role = "slave"},
		{.run_id = RUN, .replid = NEW, .replid2 = OLD, .role = "slave"},
		KW_PROMOTION_DATA_WHOLE, false},
};

static void promotions_case_by_case(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		if (kw_promotion_goes_on(&cases[i].old, &cases[i].now, cases[i].data) !=
			cases[i].goes_on)
			fail_msg("%s", cases[i].what);
}

/* A synchronisation that broke off leaves a part of the data, until the link is up again. */
static void a_synchronisation_is_remembered_until_the_link_is_up(void **state)
{
	static const struct {
		enum kw_promotion_data before;
		enum kw_server_upstream upstream;
		enum kw_promotion_data after;
	} looks[] = {
		{KW_PROMOTION_DATA_WHOLE, KW_UPSTREAM_UP, KW_PROMOTION_DATA_WHOLE},
		{KW_PROMOTION_DATA_WHOLE, KW_UPSTREAM_DOWN, KW_PROMOTION_DATA_WHOLE},
		{KW_PROMOTION_DATA_WHOLE, KW_UPSTREAM_SYNCING, KW_PROMOTION_DATA_LOADING},
		{KW_PROMOTION_DATA_LOADING, KW_UPSTREAM_DOWN, KW_PROMOTION_DATA_LOADING},
		{KW_PROMOTION_DATA_LOADING, KW_UPSTREAM_UP, KW_PROMOTION_DATA_WHOLE},
		{KW_PROMOTION_DATA_LOADING, KW_UPSTREAM_NONE, KW_PROMOTION_DATA_WHOLE},
	};

	for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
		assert_int_equal(
			kw_promotion_seen(looks[i].before, looks[i].upstream), looks[i].after);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(promotions_case_by_case),
		cmocka_unit_test(a_synchronisation_is_remembered_until_the_link_is_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
