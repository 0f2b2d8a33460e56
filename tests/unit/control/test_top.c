/* top: rows of answers, their order, and the keys of a terminal. */
#include "ctl/top/keys.h"
#include "ctl/top/order.h"
#include "ctl/top/row.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct top_row row;
static struct top_meter meter;

static int fresh(void **state)
{
	row = (struct top_row){.socket = "/run/p.sock"};
	meter = (struct top_meter){0};
	return 0;
}

static const struct top_figure *figure(enum top_column column)
{
	return &row.figures[column - TOP_FIRST_FIGURE];
}

static void assert_known(enum top_column column, double value)
{
	assert_int_equal(figure(column)->is, TOP_KNOWN);
	if (figure(column)->value < value - 0.001 || figure(column)->value > value + 0.001)
		fail_msg("%s is %f, not %f", top_column_word(column), figure(column)->value, value);
}

static void look(const char *kind, json_t *status, uint64_t clock_us)
{
	const struct top_moment now = {clock_us, 5000000};

	assert_non_null(status);
	top_row_daemon(&row, kind, "label", status, &now, &meter);
	json_decref(status);
}

/* ---- rows ---- */

static void a_proxy_has_what_it_wrote_and_how_old_that_is(void **state)
{
	for (int i = 0; i < 2; i++)
		look("proxy",
			json_pack("{s:s,s:I,s:I,s:I,s:{s:I}}", "state", "live", "fresh_us",
				(json_int_t)4997000, "keys", (json_int_t)7, "version",
				(json_int_t)(100 + 50 * i), "table", "written_bytes",
				(json_int_t)(1000 + 8000 * i)),
			1000000 + (uint64_t)i * 2000000);
	assert_string_equal(row.name, "label");
	assert_int_equal(row.mood, CTL_MOOD_GOOD);
	assert_int_equal(figure(TOP_LAG)->is, TOP_NONE);
	assert_known(TOP_FRESH, 3);
	assert_known(TOP_RECORDS, 25);
	assert_known(TOP_BYTES, 4000);
	assert_known(TOP_KEYS, 7);
}

static void an_agent_counts_by_the_clock_of_its_proxy(void **state)
{
	look("agent",
		json_pack("{s:s,s:s,s:f,s:I,s:I,s:{s:I}}", "name", "r1", "state", "warm", "lag_ms",
			0.5, "fresh_us", (json_int_t)5999000, "clock_skew_us", (json_int_t)1000000,
			"local", "keys", (json_int_t)9),
		1);
	assert_string_equal(row.name, "r1");
	assert_known(TOP_LAG, 0.5);
	assert_known(TOP_FRESH, 1);
	assert_known(TOP_KEYS, 9);
}

static void a_gateway_counts_what_clients_ask(void **state)
{
	for (int i = 0; i < 2; i++)
		look("gateway",
			json_pack("{s:s,s:f,s:I,s:I}", "state", "serving", "age_ms", 12.0, "gets",
				(json_int_t)(1000 * i), "bytes_out", (json_int_t)(1 << 20)),
			1 + (uint64_t)i * 500000);
	assert_known(TOP_FRESH, 12);
	assert_known(TOP_RECORDS, 2000);
	assert_known(TOP_BYTES, 0);
	assert_int_equal(figure(TOP_KEYS)->is, TOP_NONE);
}

static void one_look_makes_no_rate_and_a_counter_that_went_back_neither(void **state)
{
	static const int applied[] = {100, 40, 90};

	for (int i = 0; i < 3; i++) {
		look("agent",
			json_pack("{s:s,s:i,s:i}", "state", "warm", "keys_applied", applied[i],
				"bytes_read", applied[i]),
			1000000 * (uint64_t)(i + 1));
		assert_int_equal(figure(TOP_RECORDS)->is, i == 2 ? TOP_KNOWN : TOP_UNKNOWN);
	}
	assert_known(TOP_BYTES, 50);
}

static void what_is_no_number_is_unknown_and_never_a_crash(void **state)
{
	static const char *const kinds[] = {"proxy", "agent", "gateway", "", "other"};
	static const char *const answers[] = {"{}", "[]", "null", "3", "\"x\"",
		"{\"state\":4,\"name\":[],\"lag_ms\":\"x\",\"table\":7,\"local\":null,\"keys\":{},"
		"\"fresh_us\":-5,\"version\":1e308,\"age_ms\":-1}"};

	for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
		for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
			json_t *cells;

			look(kinds[kind], json_loads(answers[i], JSON_DECODE_ANY, NULL), i + 1);
			cells = top_row_cells(&row);
			assert_true(json_is_object(cells));
			json_decref(cells);
		}
}

static void an_agent_below_its_proxy_is_known_by_its_role(void **state)
{
	const struct top_moment now = {1, 1};
	struct top_row proxy = {.name = "main"};
	json_t *session = json_pack("{s:i,s:s,s:s,s:s,s:f,s:i,s:n}", "id", 3, "name", "r1", "role",
		"gateway", "state", "warm", "lag_ms", 2.0, "applied", 10, "bytes");
	json_t *json;

	top_row_agent(&row, &proxy, session, &now, &meter);
	assert_true(row.below);
	assert_string_equal(row.kind, "gateway");
	assert_known(TOP_LAG, 2);
	assert_int_equal(figure(TOP_FRESH)->is, TOP_NONE);
	json = top_row_json(&row);
	assert_string_equal(json_string_value(json_object_get(json, "of")), "main");
	assert_string_equal(json_string_value(json_object_get(json, "name")), "r1");
	assert_true(json_is_null(json_object_get(json, "bytes_per_second")));
	assert_null(json_object_get(json, "fresh_ms"));
	json_decref(json);
	json = top_row_cells(&row);
	assert_string_equal(json_string_value(json_object_get(json, "name")), "  r1");
	json_decref(json);
	json_decref(session);
}

static enum ctl_mood mood_below(const char *role, const char *state)
{
	const struct top_moment now = {1, 1};
	struct top_row proxy = {.name = "main"};
	json_t *session = json_pack("{s:s,s:s}", "role", role, "state", state);

	top_row_agent(&row, &proxy, session, &now, &meter);
	json_decref(session);
	return row.mood;
}

/* It can tell its proxy that it is connecting, so the one that is away is its server. */
static void an_agent_that_reports_has_lost_its_server_if_it_is_connecting(void **state)
{
	assert_int_equal(mood_below("agent", "connecting"), CTL_MOOD_BAD);
	assert_int_equal(mood_below("agent", "bootstrapping"), CTL_MOOD_PASSING);
	assert_int_equal(mood_below("gateway", "connecting"), CTL_MOOD_PASSING);
}

static enum ctl_mood mood_of(const char *state, const char *grade)
{
	look("proxy", json_pack("{s:s,s:s?}", "state", state, "grade", grade), 1);
	return row.mood;
}

static void a_daemon_tells_its_own_grade(void **state)
{
	assert_int_equal(mood_of("unconfirmed", "good"), CTL_MOOD_GOOD); /* a standby */
	assert_int_equal(mood_of("connecting", "bad"), CTL_MOOD_BAD);
	assert_int_equal(mood_of("warm", "passing"), CTL_MOOD_PASSING);
	/* One of before tells none, and another word is none. */
	assert_int_equal(mood_of("unconfirmed", NULL), CTL_MOOD_BAD);
	assert_int_equal(mood_of("live", "splendid"), CTL_MOOD_GOOD);
}

static const char *note_of(const char *state, const char *reason, const char *code)
{
	static char text[KW_ERROR_TEXT];
	json_t *cells;

	look("agent",
		json_pack("{s:s,s:s,s:s}", "state", state, "reason", reason, "reason_code", code),
		1);
	cells = top_row_cells(&row);
	snprintf(text, sizeof text, "%s",
		json_string_value(json_object_get(cells, TOP_ROW_NOTE))
			? json_string_value(json_object_get(cells, TOP_ROW_NOTE))
			: "none");
	json_decref(cells);
	return text;
}

static void a_daemon_that_is_not_well_says_why_below_its_row(void **state)
{
	assert_string_equal(
		note_of("failed", "keys of others", "no_consent"), "keys of others [no_consent]");
	assert_string_equal(note_of("lagging", "paused", ""), "paused");
	assert_string_equal(note_of("warm", "all is well", "none"), "none");
	assert_string_equal(note_of("bootstrapping", "", "none"), "none");
	assert_string_equal(note_of("failed", "evil \x1b[2J", ""), "evil \\x1b[2J");
	top_row_away(&row, "agent", "r1", "/run/a.sock: nobody answers there");
	assert_string_equal(row.state, "away");
	assert_int_equal(row.mood, CTL_MOOD_BAD);
	assert_int_equal(figure(TOP_LAG)->is, TOP_NONE);
}

/* ---- order ---- */

#define ROWS_MAX 8

struct fleet {
	struct top_row rows[ROWS_MAX];
	struct top_row *list[ROWS_MAX];
	size_t count;
};

static void add(struct fleet *fleet, size_t group, bool below, const char *name, const char *state,
	double lag)
{
	struct top_row *added = &fleet->rows[fleet->count];

	assert_true(fleet->count < ROWS_MAX);
	*added = (struct top_row){.group = group, .below = below, .mood = ctl_state_mood(state)};
	strcpy(added->name, name);
	strcpy(added->state, state);
	if (lag >= 0)
		added->figures[TOP_LAG - TOP_FIRST_FIGURE] = (struct top_figure){TOP_KNOWN, lag};
	fleet->list[fleet->count++] = added;
}

/* "p:live p/a:warm p/b:failed" sorted so. */
static void assert_order(
	struct fleet *fleet, enum top_column column, bool reversed, const char *wanted)
{
	const struct top_order order = {column, reversed};
	char names[ROWS_MAX * 4] = "";

	top_order_sort(fleet->list, fleet->count, &order);
	for (size_t i = 0; i < fleet->count; i++)
		strcat(names, fleet->list[i]->name);
	assert_string_equal(names, wanted);
	/* Sorted again by the next test, from the order of the daemons. */
	for (size_t i = 0; i < fleet->count; i++)
		fleet->list[i] = &fleet->rows[i];
}

static void the_worst_comes_first_and_a_group_stays_together(void **state)
{
	struct fleet fleet = {.count = 0};

	add(&fleet, 0, false, "p", "live", -1);
	add(&fleet, 0, true, "1", "warm", 5);
	add(&fleet, 0, true, "2", "failed", 1);
	add(&fleet, 1, false, "a", "warm", 9);
	add(&fleet, 2, false, "b", "lagging", 2);
	assert_order(&fleet, TOP_STATE, false, "p21ba");
	assert_order(&fleet, TOP_STATE, true, "p12ab");
	assert_order(&fleet, TOP_NAME, false, "p12ab");
	assert_order(&fleet, TOP_LAG, false, "ap12b");
}

static void what_is_not_known_comes_last_in_both_orders(void **state)
{
	struct fleet fleet = {.count = 0};

	add(&fleet, 0, false, "a", "warm", -1);
	add(&fleet, 1, false, "b", "warm", 1);
	add(&fleet, 2, false, "c", "warm", 3);
	add(&fleet, 3, false, "d", "warm", -1);
	assert_order(&fleet, TOP_LAG, false, "cbad");
	assert_order(&fleet, TOP_LAG, true, "bcad");
	assert_order(&fleet, TOP_CODE, false, "abcd");
}

static void each_column_has_a_word_that_names_it(void **state)
{
	for (int i = 0; i < TOP_COLUMNS; i++)
		assert_int_equal(top_column_parse(top_column_word((enum top_column)i)), i);
	assert_int_equal(top_column_parse("loud"), -1);
	assert_int_equal(top_column_parse(""), -1);
}

/* ---- keys ---- */

static void assert_keys(const char *bytes, size_t count, const enum top_key *wanted)
{
	struct top_keys keys = {0};

	for (; *bytes; bytes++) {
		enum top_key key = top_keys_take(&keys, (unsigned char)*bytes);

		if (key == TOP_KEY_NONE)
			continue;
		assert_true(count > 0);
		assert_int_equal(key, *wanted);
		wanted++;
		count--;
	}
	assert_int_equal(count, 0);
}

#define KEYS(bytes, ...)                                                                           \
	assert_keys(bytes, sizeof((enum top_key[]){__VA_ARGS__}) / sizeof(enum top_key),           \
		(enum top_key[]){__VA_ARGS__})

static void letters_and_sequences_are_keys(void **state)
{
	KEYS("sSr q", TOP_KEY_SORT_NEXT, TOP_KEY_SORT_BACK, TOP_KEY_REVERSE, TOP_KEY_PAUSE,
		TOP_KEY_QUIT);
	KEYS("\x1b[A\x1bOB\x1b[C", TOP_KEY_UP, TOP_KEY_DOWN, TOP_KEY_SORT_NEXT);
	KEYS("\x1b[5~\x1b[6~\x1b[H\x1b[4~", TOP_KEY_PAGE_UP, TOP_KEY_PAGE_DOWN, TOP_KEY_FIRST,
		TOP_KEY_LAST);
	KEYS("\x1b[1;5A\x1b[15~q", TOP_KEY_UP, TOP_KEY_QUIT); /* with Ctrl; F5 */
	KEYS("\x1bq", TOP_KEY_QUIT);                          /* the escape key before it */
	KEYS("\x1b[\x1b[Bq", TOP_KEY_DOWN, TOP_KEY_QUIT);     /* one that was not whole */
	KEYS("xyz\x80\xffq", TOP_KEY_QUIT);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_proxy_has_what_it_wrote_and_how_old_that_is),
		TEST(an_agent_counts_by_the_clock_of_its_proxy),
		TEST(a_gateway_counts_what_clients_ask),
		TEST(one_look_makes_no_rate_and_a_counter_that_went_back_neither),
		TEST(what_is_no_number_is_unknown_and_never_a_crash),
		TEST(an_agent_below_its_proxy_is_known_by_its_role),
		TEST(an_agent_that_reports_has_lost_its_server_if_it_is_connecting),
		TEST(a_daemon_tells_its_own_grade),
		TEST(a_daemon_that_is_not_well_says_why_below_its_row),
		TEST(the_worst_comes_first_and_a_group_stays_together),
		TEST(what_is_not_known_comes_last_in_both_orders),
		TEST(each_column_has_a_word_that_names_it),
		TEST(letters_and_sequences_are_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
