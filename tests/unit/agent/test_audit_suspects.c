/* The set of suspects: its queues, what touches a suspect, and its bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "audit/suspects.h"

static struct kw_audit_suspect *add(struct kw_suspects *set, uint32_t database, const char *key)
{
	return kw_suspects_add(set, database, kw_slice_text(key), 7);
}

static void hand_on(
	struct kw_suspects *set, enum kw_record_kind kind, uint32_t database, const char *key)
{
	const struct kw_record_view record = {
		.kind = kind, .database = database, .key = kw_slice_text(key)};

	kw_suspects_touch(set, &record);
}

static void suspects_go_through_the_stages_in_order(void **state)
{
	struct kw_suspects set = {0};
	struct kw_audit_suspect *a = add(&set, 0, "a"), *b = add(&set, 0, "b");

	assert_ptr_equal(kw_suspects_take(&set, KW_SUSPECT_LOOK), a);
	kw_suspects_put(&set, a, KW_SUSPECT_WAIT);
	assert_ptr_equal(kw_suspects_take(&set, KW_SUSPECT_LOOK), b);
	assert_null(kw_suspects_take(&set, KW_SUSPECT_LOOK));
	kw_suspects_put(&set, b, KW_SUSPECT_WAIT);
	assert_ptr_equal(kw_suspects_take(&set, KW_SUSPECT_WAIT), a);
	kw_suspects_drop(&set, a);
	assert_ptr_equal(kw_suspects_take(&set, KW_SUSPECT_WAIT), b);
	assert_int_equal(set.count, 1);
	kw_suspects_drop(&set, b);
	assert_int_equal(set.count, 0);
	assert_int_equal(set.bytes, 0);
	kw_suspects_close(&set);
}

static void a_key_is_one_suspect_in_each_database(void **state)
{
	struct kw_suspects set = {0};

	assert_non_null(add(&set, 0, "a"));
	assert_null(add(&set, 0, "a"));
	assert_non_null(add(&set, 1, "a"));
	assert_non_null(add(&set, 0, ""));
	assert_int_equal(set.count, 3);
	kw_suspects_close(&set);
}

static void a_record_of_the_key_touches_it_and_no_other(void **state)
{
	struct kw_suspects set = {0};
	struct kw_audit_suspect *a = add(&set, 0, "a"), *b = add(&set, 0, "b"),
				*other = add(&set, 1, "a");

	hand_on(&set, KW_RECORD_PUT, 0, "c");
	assert_false(a->touched || b->touched || other->touched);
	hand_on(&set, KW_RECORD_PUT, 0, "a");
	hand_on(&set, KW_RECORD_DELETE, 0, "b");
	assert_true(a->touched && b->touched && !other->touched);
	kw_suspects_close(&set);
	hand_on(&set, KW_RECORD_PUT, 0, "a"); /* into an empty set */
}

/* In whatever stage it is, and also while it is in no queue: it is being looked at. */
static void a_suspect_that_is_looked_at_is_touched_too(void **state)
{
	struct kw_suspects set = {0};
	struct kw_audit_suspect *a = add(&set, 0, "a");

	assert_ptr_equal(kw_suspects_take(&set, KW_SUSPECT_LOOK), a);
	hand_on(&set, KW_RECORD_PUT, 0, "a");
	assert_true(a->touched);
	kw_suspects_close(&set);
}

static void a_flush_touches_all_of_its_database(void **state)
{
	struct kw_suspects set = {0};
	struct kw_audit_suspect *a = add(&set, 0, "a"), *b = add(&set, 1, "b");

	hand_on(&set, KW_RECORD_FLUSH, 1, "");
	assert_true(!a->touched && b->touched);
	kw_suspects_close(&set);
}

static void the_set_is_bounded_in_keys_and_in_bytes(void **state)
{
	struct kw_suspects set = {0};
	char key[32], *large = calloc(1, KW_SUSPECTS_BYTES_MAX + 1);

	assert_non_null(large);
	for (int i = 0; i < KW_SUSPECTS_MAX; i++) {
		assert_false(kw_suspects_full(&set));
		snprintf(key, sizeof key, "key %d", i);
		assert_non_null(add(&set, 0, key));
	}
	assert_true(kw_suspects_full(&set));
	kw_suspects_close(&set);
	assert_false(kw_suspects_full(&set));
	assert_non_null(kw_suspects_add(&set, 0, kw_slice(large, KW_SUSPECTS_BYTES_MAX), 0));
	assert_true(kw_suspects_full(&set));
	kw_suspects_close(&set);
	free(large);
}

/* When all is given up, what is known to differ is not forgotten, wherever it is. */
static void those_that_failed_are_kept(void **state)
{
	struct kw_suspects set = {0};
	struct kw_audit_suspect *a = add(&set, 0, "a"), *b = add(&set, 0, "b"),
				*c = add(&set, 0, "c");

	assert_ptr_equal(kw_suspects_take(&set, KW_SUSPECT_LOOK), a); /* in no queue */
	a->failed = c->failed = true;
	assert_ptr_equal(kw_suspects_find(&set, 0, kw_slice_text("b")), b);
	kw_suspects_keep_failed(&set);
	assert_int_equal(set.count, 2);
	assert_int_equal(set.staying, 2);
	assert_null(kw_suspects_find(&set, 0, kw_slice_text("b")));
	assert_null(kw_suspects_take(&set, KW_SUSPECT_LOOK));
	assert_non_null(kw_suspects_take(&set, KW_SUSPECT_STAY));
	assert_int_equal(set.staying, 1);
	kw_suspects_close(&set);
	assert_null(kw_suspects_find(&set, 0, kw_slice_text("a")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(suspects_go_through_the_stages_in_order),
		cmocka_unit_test(a_key_is_one_suspect_in_each_database),
		cmocka_unit_test(a_record_of_the_key_touches_it_and_no_other),
		cmocka_unit_test(a_suspect_that_is_looked_at_is_touched_too),
		cmocka_unit_test(a_flush_touches_all_of_its_database),
		cmocka_unit_test(the_set_is_bounded_in_keys_and_in_bytes),
		cmocka_unit_test(those_that_failed_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
