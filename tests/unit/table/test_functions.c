/* Function libraries beside the log: what a reader finds, and what becomes of one that is late. */
#include "fixture.h"

#include "table/keep.h"
#include "table/view.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static const struct kw_table_options carrying = {.functions = true};
static const struct kw_history history = {
	.standing = KW_HISTORY_UNTOLD, .proxy = 77, .proxy_name = "a-proxy"};

static void open_carrying(struct fixture *fixture)
{
	fixture_open(fixture, &carrying);
	kw_table_set_history(fixture->table, &history);
	fixture_publish(fixture);
}

/* What a reader learns: the history that the superblock names, which must hold. */
static struct kw_history_functions read_history(const struct fixture *fixture)
{
	const struct kw_history_record *record =
		(const void *)(fixture->memory.base + KW_HISTORY_OFFSET);
	struct kw_history found;

	assert_int_equal(kw_history_parse(record, fixture_superblock(fixture)->history_checksum,
				 &found, NULL),
		KW_OK);
	return found.functions;
}

static bool finds(const struct fixture *fixture, const struct kw_history_functions *functions)
{
	return kw_history_functions_hold(functions, fixture->memory.base + functions->offset);
}

static void set(struct fixture *fixture, const char *text)
{
	kw_table_set_functions(fixture->table, kw_slice_text(text), KW_FUNCTIONS_FOUND);
	fixture_publish(fixture);
}

static void a_reader_finds_the_set_that_was_published_last(void **state)
{
	static const char *const sets[] = {"first", "the second", "3", "fourth"};
	struct fixture fixture;
	struct kw_history_functions found;

	open_carrying(&fixture);
	assert_int_equal(read_history(&fixture).version, 0);
	assert_int_equal(kw_table_functions(fixture.table).length, 0);
	for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
		set(&fixture, sets[i]);
		found = read_history(&fixture);
		assert_int_equal(found.version, i + 1);
		assert_int_equal(found.bytes, strlen(sets[i]));
		assert_memory_equal(fixture.memory.base + found.offset, sets[i], found.bytes);
		assert_true(finds(&fixture, &found));
	}
	fixture_close(&fixture);
}

static void equal_bytes_are_not_published_again(void **state)
{
	struct fixture fixture;

	open_carrying(&fixture);
	set(&fixture, "first");
	kw_table_set_functions(fixture.table, kw_slice_text("first"), KW_FUNCTIONS_FOUND);
	assert_false(kw_table_unpublished(fixture.table));
	assert_int_equal(read_history(&fixture).version, 1);
	/* What it means can change: a server that was found empty was emptied by a command. */
	kw_table_set_functions(fixture.table, kw_slice_text("first"), KW_FUNCTIONS_TOLD);
	fixture_publish(&fixture);
	assert_int_equal(read_history(&fixture).version, 2);
	assert_int_equal(read_history(&fixture).origin, KW_FUNCTIONS_TOLD);
	fixture_close(&fixture);
}

/* Nobody judges records by functions: a change of them costs no segment. */
static void records_go_on_in_their_segment(void **state)
{
	struct fixture fixture;
	uint64_t head;

	open_carrying(&fixture);
	fixture_change(&fixture, 1, 1);
	head = fixture_superblock(&fixture)->head_segment;
	set(&fixture, "first");
	fixture_change(&fixture, 1, 2);
	assert_int_equal(fixture_superblock(&fixture)->head_segment, head);
	fixture_close(&fixture);
}

/* A reader has the history of before, and the next set is published while it reads. */
static void a_reader_that_is_one_set_late_still_finds_its_own(void **state)
{
	struct kw_history_functions late;
	struct fixture fixture;

	open_carrying(&fixture);
	for (int round = 0; round < 5; round++) {
		set(&fixture, round % 2 ? "odd" : "even");
		late = read_history(&fixture);
		set(&fixture, "another one");
		assert_true(finds(&fixture, &late));
	}
	fixture_close(&fixture);
}

static void what_two_sets_overwrote_is_found_torn(void **state)
{
	struct kw_history_functions late;
	struct fixture fixture;

	open_carrying(&fixture);
	set(&fixture, "first");
	late = read_history(&fixture);
	set(&fixture, "the second");
	kw_table_set_functions(
		fixture.table, kw_slice_text("third"), KW_FUNCTIONS_FOUND); /* not published yet */
	assert_false(finds(&fixture, &late));
	fixture_publish(&fixture);
	late = read_history(&fixture);
	assert_true(finds(&fixture, &late));
	fixture_close(&fixture);
}

/* Several sets between two publications: none of them may touch what readers know of. */
static void sets_that_nobody_saw_leave_the_published_one_alone(void **state)
{
	struct kw_history_functions known;
	struct fixture fixture;

	open_carrying(&fixture);
	set(&fixture, "known");
	known = read_history(&fixture);
	for (int i = 0; i < 5; i++) {
		kw_table_set_functions(
			fixture.table, kw_slice_text(i % 2 ? "odd" : "even"), KW_FUNCTIONS_FOUND);
		assert_true(finds(&fixture, &known));
	}
	kw_table_forget_functions(fixture.table);
	kw_table_set_functions(fixture.table, kw_slice_text("last"), KW_FUNCTIONS_FOUND);
	assert_true(finds(&fixture, &known));
	fixture_publish(&fixture);
	known = read_history(&fixture);
	assert_memory_equal(fixture.memory.base + known.offset, "last", known.bytes);
	fixture_close(&fixture);
}

static void a_set_that_is_forgotten_is_told_of_no_more(void **state)
{
	struct fixture fixture;

	open_carrying(&fixture);
	kw_table_forget_functions(fixture.table);
	assert_false(kw_table_unpublished(fixture.table));
	set(&fixture, "first");
	kw_table_forget_functions(fixture.table);
	fixture_publish(&fixture);
	assert_int_equal(read_history(&fixture).version, 0);
	set(&fixture, "first");
	assert_int_equal(read_history(&fixture).version, 2);
	fixture_close(&fixture);
}

/* The source sets its own history again and again, and knows nothing of functions. */
static void a_history_that_is_set_again_keeps_the_set(void **state)
{
	struct kw_history next = history;
	struct fixture fixture;

	open_carrying(&fixture);
	set(&fixture, "first");
	next.server.major = 8;
	kw_table_set_history(fixture.table, &next);
	fixture_publish(&fixture);
	assert_int_equal(read_history(&fixture).version, 1);
	fixture_close(&fixture);
}

static void the_largest_set_has_room_twice(void **state)
{
	static char bytes[KW_FUNCTIONS_BYTES];
	struct kw_history_functions found;
	struct fixture fixture;

	open_carrying(&fixture);
	fixture_change(&fixture, 1, 1);
	for (int round = 0; round < 3; round++) {
		memset(bytes, 'a' + round, sizeof bytes);
		kw_table_set_functions(
			fixture.table, kw_slice(bytes, sizeof bytes), KW_FUNCTIONS_FOUND);
		fixture_publish(&fixture);
		found = read_history(&fixture);
		assert_true(finds(&fixture, &found));
	}
	assert_true(fixture_has(&fixture, 1, 1, 100));
	assert_true(fixture_superblock(&fixture)->directory_offset +
			    fixture_superblock(&fixture)->directory_bytes <=
		    found.offset);
	fixture_close(&fixture);
}

/* Without the option the memory is laid out as it was before there was any. */
static void a_table_without_functions_has_no_area_for_them(void **state)
{
	const struct kw_index_root *root;
	struct fixture fixture;
	uint64_t plain;

	fixture_open(&fixture, &(struct kw_table_options){0});
	root = (const void *)(fixture.memory.base + KW_INDEX_ROOT_OFFSET);
	plain = root->offset;
	fixture_close(&fixture);
	open_carrying(&fixture);
	root = (const void *)(fixture.memory.base + KW_INDEX_ROOT_OFFSET);
	assert_int_equal(root->offset, plain + 2 * KW_FUNCTIONS_BYTES);
	fixture_close(&fixture);
}

/* ---- a kept table ---- */

static const struct kw_keep_terms TERMS = {7, 11};

/* The next process takes the memory over, with these options. */
static bool adopt(struct fixture *fixture, bool functions, struct kw_error *error)
{
	struct kw_table_options options = fixture->options;

	kw_table_free(fixture->table);
	options.functions = functions;
	fixture->table = kw_table_adopt(&options, &fixture->memory, &TERMS, error);
	return fixture->table != NULL;
}

static void a_kept_table_goes_on_with_its_set(void **state)
{
	struct kw_history_functions before;
	struct fixture fixture;
	struct kw_error error;

	open_carrying(&fixture);
	set(&fixture, "first");
	set(&fixture, "kept");
	before = read_history(&fixture);
	kw_table_seal(fixture.table, &TERMS, FIXTURE_WALL_US);
	if (!adopt(&fixture, true, &error))
		fail_msg("%s", error.text);
	assert_int_equal(kw_table_functions(fixture.table).length, 4);
	fixture_publish(&fixture);
	set(&fixture, "next");
	assert_true(finds(&fixture, &before)); /* a reader of before is one set late */
	assert_int_equal(read_history(&fixture).version, 3);
	fixture_close(&fixture);
}

static void a_kept_table_of_another_layout_is_refused(void **state)
{
	struct fixture fixture;
	struct kw_error error;

	open_carrying(&fixture);
	set(&fixture, "first");
	kw_table_seal(fixture.table, &TERMS, FIXTURE_WALL_US);
	assert_false(adopt(&fixture, false, &error));
	assert_int_equal(error.code, KW_E_CONFIG);
	fixture_close(&fixture);
}

static void a_kept_set_that_is_not_whole_is_refused(void **state)
{
	struct fixture fixture;
	struct kw_error error;

	open_carrying(&fixture);
	set(&fixture, "first");
	kw_table_seal(fixture.table, &TERMS, FIXTURE_WALL_US);
	fixture.memory.base[read_history(&fixture).offset]++;
	assert_false(adopt(&fixture, true, &error));
	assert_int_equal(error.code, KW_E_CORRUPT);
	fixture_close(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_reader_finds_the_set_that_was_published_last),
		cmocka_unit_test(equal_bytes_are_not_published_again),
		cmocka_unit_test(records_go_on_in_their_segment),
		cmocka_unit_test(a_reader_that_is_one_set_late_still_finds_its_own),
		cmocka_unit_test(what_two_sets_overwrote_is_found_torn),
		cmocka_unit_test(sets_that_nobody_saw_leave_the_published_one_alone),
		cmocka_unit_test(a_set_that_is_forgotten_is_told_of_no_more),
		cmocka_unit_test(a_history_that_is_set_again_keeps_the_set),
		cmocka_unit_test(the_largest_set_has_room_twice),
		cmocka_unit_test(a_table_without_functions_has_no_area_for_them),
		cmocka_unit_test(a_kept_table_goes_on_with_its_set),
		cmocka_unit_test(a_kept_table_of_another_layout_is_refused),
		cmocka_unit_test(a_kept_set_that_is_not_whole_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
