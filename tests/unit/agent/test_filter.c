#include "filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void without_a_filter_everything_is_followed(void **state)
{
	const struct kw_filter filter = {0};
	char text[64];

	assert_true(kw_filter_has_database(&filter, 0));
	assert_true(kw_filter_has_database(&filter, 65535));
	assert_true(kw_filter_has_key(&filter, kw_slice(NULL, 0)));
	kw_filter_describe(&filter, text, sizeof text);
	assert_string_equal(text, "every key");
}

static void only_the_databases_named_are_followed(void **state)
{
	struct kw_filter filter = {0};
	struct kw_error error;
	char text[64];

	assert_int_equal(kw_filter_add_database(&filter, 9, &error), KW_OK);
	assert_int_equal(kw_filter_add_database(&filter, 65535, &error), KW_OK);
	assert_true(kw_filter_has_database(&filter, 9));
	assert_true(kw_filter_has_database(&filter, 65535));
	assert_false(kw_filter_has_database(&filter, 0));
	assert_false(kw_filter_has_database(&filter, 73));
	assert_false(kw_filter_has_database(&filter, 70000));
	kw_filter_describe(&filter, text, sizeof text);
	assert_string_equal(text, "databases 9, 65535");
	assert_int_equal(kw_filter_add_database(&filter, 65536, &error), KW_E_CONFIG);
	assert_int_equal(kw_filter_add_database(&filter, -1, &error), KW_E_CONFIG);
	kw_filter_close(&filter);
}

static void a_key_must_begin_with_one_of_the_prefixes(void **state)
{
	struct kw_filter filter = {0};
	struct kw_error error;
	char text[64], small[12];

	assert_int_equal(kw_filter_add_prefix(&filter, "user:", &error), KW_OK);
	assert_int_equal(kw_filter_add_prefix(&filter, "cart:", &error), KW_OK);
	assert_true(kw_filter_has_key(&filter, kw_slice_text("user:1")));
	assert_true(kw_filter_has_key(&filter, kw_slice_text("cart:")));
	assert_false(kw_filter_has_key(&filter, kw_slice_text("user")));
	assert_false(kw_filter_has_key(&filter, kw_slice_text("xuser:1")));
	assert_false(kw_filter_has_key(&filter, kw_slice(NULL, 0)));
	kw_filter_describe(&filter, text, sizeof text);
	assert_string_equal(text, "prefixes user:, cart:");
	kw_filter_describe(&filter, small, sizeof small);
	assert_string_equal(small, "prefixes us");
	assert_int_equal(kw_filter_add_prefix(&filter, "", &error), KW_E_CONFIG);
	kw_filter_close(&filter);
}

static void the_number_of_prefixes_is_bounded(void **state)
{
	struct kw_filter filter = {0};
	struct kw_error error;

	for (int i = 0; i < KW_FILTER_PREFIXES_MAX; i++)
		assert_int_equal(kw_filter_add_prefix(&filter, "x", &error), KW_OK);
	assert_int_equal(kw_filter_add_prefix(&filter, "x", &error), KW_E_CONFIG);
	kw_filter_close(&filter);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_filter_everything_is_followed),
		cmocka_unit_test(only_the_databases_named_are_followed),
		cmocka_unit_test(a_key_must_begin_with_one_of_the_prefixes),
		cmocka_unit_test(the_number_of_prefixes_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
