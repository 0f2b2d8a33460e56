/* Which writes of a deposed primary count as rolled back. The tables are written down here. */
#include "fixture.h"
#include "sync/rollback.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OLD "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define NEW "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define OTHER "cccccccccccccccccccccccccccccccccccccccc"
#define NOW_MS 1000000

static const struct kw_term TERM = {1, 7};

/* Looks: version 10 before offset 100, version 20 before 200, version 30 before 300. */
static void look_on(struct kw_rollback *rollback)
{
	struct kw_history table = {.replid = OLD};

	for (uint64_t i = 1; i <= 3; i++) {
		table.looked.version = i * 10;
		table.looked.offset = i * 100;
		kw_rollback_look(rollback, 5, &table);
		kw_rollback_look(rollback, 5, &table); /* the same one */
	}
	assert_int_equal(rollback->looks.count, 3);
}

static struct kw_history promoted(uint64_t branch, uint64_t term_version)
{
	return (struct kw_history){.replid = NEW,
		.replid2 = OLD,
		.second_offset = branch,
		.term_version = term_version};
}

/* A record; value NULL: a deletion; key NULL: a flush. */
static struct kw_record_view record(const char *key, const char *value, uint64_t version)
{
	static uint8_t bytes[4][256];
	static int next;
	struct kw_record_view view = {.version = version,
		.kind = !key     ? KW_RECORD_FLUSH
			: !value ? KW_RECORD_DELETE
				 : KW_RECORD_PUT};

	if (key)
		view.key = kw_slice_text(key);
	if (value)
		view.value = test_payload(value, bytes[next++ % 4]);
	return view;
}

static void note(struct kw_rollback *rollback, const char *key, const char *value, uint64_t version)
{
	const struct kw_record_view view = record(key, value, version);

	kw_recent_note(&rollback->recent, &view);
}

static bool judge(
	struct kw_rollback *rollback, const char *key, const char *value, uint64_t version)
{
	const struct kw_record_view view = record(key, value, version);

	return kw_rollback_judge(rollback, &view);
}

/* The branch is at offset 250: version 20 is the newest that is known to be of before. */
static void begin(struct kw_rollback *rollback, enum kw_rollback_counts counts)
{
	const struct kw_history table = promoted(250, counts == KW_ROLLBACK_CHANGES ? 40 : 1000);
	const char *why;

	assert_true(kw_rollback_begin(rollback, counts, &TERM, &table, &why));
	assert_int_equal(rollback->span.after, 20);
	assert_false(rollback->partial);
}

static void open_rollback(struct kw_rollback *rollback)
{
	*rollback = (struct kw_rollback){.recent.seed = 7};
	look_on(rollback);
	note(rollback, "before", "1", 15);
	note(rollback, "set", "lost", 25);
	note(rollback, "same", "1", 26);
	note(rollback, "deleted", NULL, 27);
	note(rollback, "created", "1", 28);
	note(rollback, "rewritten", "lost", 29);
}

static void a_snapshot_of_the_new_primary_is_judged_key_by_key(void **state)
{
	struct kw_rollback rollback;

	open_rollback(&rollback);
	begin(&rollback, KW_ROLLBACK_SNAPSHOT);
	/* Applied before the branch: the agent was behind. */
	assert_false(judge(&rollback, "before", "2", 5));
	assert_true(judge(&rollback, "set", "1", 5));
	assert_false(judge(&rollback, "set", "1", 5)); /* once */
	assert_false(judge(&rollback, "same", "1", 5));
	assert_true(judge(&rollback, "deleted", "1", 5));
	assert_false(judge(&rollback, "rewritten", "new", 1001)); /* in the new term */
	assert_false(judge(&rollback, "never applied", "1", 5));
	/* The new primary has no `created`. */
	assert_int_equal(kw_rollback_end(&rollback, NOW_MS), 1);
	assert_int_equal(rollback.keys, 3);
	assert_int_equal(rollback.counts, KW_ROLLBACK_IDLE);
	kw_recent_close(&rollback.recent);
}

static void changes_that_a_proxy_finds_by_comparing_count(void **state)
{
	struct kw_rollback rollback;

	open_rollback(&rollback);
	begin(&rollback, KW_ROLLBACK_CHANGES);
	assert_false(judge(&rollback, "before", "2", 41));
	assert_true(judge(&rollback, "set", "1", 42));
	note(&rollback, "set", "1", 42);
	assert_false(judge(&rollback, "set", "2", 43));
	assert_true(judge(&rollback, "created", NULL, 44));
	assert_false(judge(&rollback, "same", "2", 39)); /* of the deposed term, and late */
	/* What the proxy does not tell of is equal. */
	assert_int_equal(kw_rollback_end(&rollback, NOW_MS), 0);
	assert_int_equal(rollback.keys, 2);
	kw_recent_close(&rollback.recent);
}

static void a_key_that_has_expired_was_not_lost(void **state)
{
	struct kw_rollback rollback;
	struct kw_record_view view;

	open_rollback(&rollback);
	kw_recent_clear(&rollback.recent);
	view = record("volatile", "1", 25);
	view.expires_ms = NOW_MS - 1;
	kw_recent_note(&rollback.recent, &view);
	begin(&rollback, KW_ROLLBACK_SNAPSHOT);
	assert_int_equal(kw_rollback_end(&rollback, NOW_MS), 0);
	kw_recent_close(&rollback.recent);
}

static void a_flush_that_was_lost_counts_for_each_key_that_is_back(void **state)
{
	struct kw_rollback rollback;

	open_rollback(&rollback);
	note(&rollback, NULL, NULL, 30);
	note(&rollback, "after", "1", 31);
	begin(&rollback, KW_ROLLBACK_SNAPSHOT);
	assert_true(judge(&rollback, "never applied", "1", 5));
	assert_true(judge(&rollback, "same", "1", 5));
	assert_false(judge(&rollback, "after", "1", 5));
	/* `created` was flushed by the deposed primary itself. */
	assert_int_equal(kw_rollback_end(&rollback, NOW_MS), 0);
	assert_int_equal(rollback.keys, 2);
	kw_recent_close(&rollback.recent);
}

static void without_a_link_nothing_is_counted_and_the_log_says_why(void **state)
{
	struct kw_rollback rollback;
	struct kw_history table = promoted(250, 1000);
	const char *why;

	open_rollback(&rollback);
	strcpy(table.replid2, OTHER);
	assert_false(kw_rollback_begin(&rollback, KW_ROLLBACK_SNAPSHOT, &TERM, &table, &why));
	assert_non_null(strstr(why, "no id links"));
	/* The operator raised the term of the same primary. */
	strcpy(table.replid, OLD);
	assert_false(kw_rollback_begin(&rollback, KW_ROLLBACK_CHANGES, &TERM, &table, &why));
	assert_string_equal(why, "");
	kw_recent_close(&rollback.recent);
	rollback = (struct kw_rollback){.recent.seed = 7};
	assert_false(kw_rollback_begin(&rollback, KW_ROLLBACK_SNAPSHOT, &TERM, &table, &why));
	assert_non_null(strstr(why, "no look"));
}

static void what_is_forgotten_is_said(void **state)
{
	struct kw_history table = promoted(250, UINT64_MAX);
	struct kw_rollback rollback;
	const char *why;
	char key[32];

	open_rollback(&rollback);
	for (int i = 0; i < 2 * KW_RECENT_KEYS; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		note(&rollback, key, "1", 100 + (uint64_t)i);
	}
	assert_true(kw_rollback_begin(&rollback, KW_ROLLBACK_SNAPSHOT, &TERM, &table, &why));
	assert_true(rollback.partial);
	assert_false(judge(&rollback, "set", "1", 5));
	assert_true(kw_rollback_end(&rollback, NOW_MS) >= KW_RECENT_KEYS);
	kw_recent_close(&rollback.recent);
	/* The branch lies before the oldest look. */
	open_rollback(&rollback);
	table.second_offset = 50;
	assert_true(kw_rollback_begin(&rollback, KW_ROLLBACK_SNAPSHOT, &TERM, &table, &why));
	assert_true(rollback.partial);
	assert_int_equal(rollback.span.after, 10);
	kw_recent_close(&rollback.recent);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_of_the_new_primary_is_judged_key_by_key),
		cmocka_unit_test(changes_that_a_proxy_finds_by_comparing_count),
		cmocka_unit_test(a_key_that_has_expired_was_not_lost),
		cmocka_unit_test(a_flush_that_was_lost_counts_for_each_key_that_is_back),
		cmocka_unit_test(without_a_link_nothing_is_counted_and_the_log_says_why),
		cmocka_unit_test(what_is_forgotten_is_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
