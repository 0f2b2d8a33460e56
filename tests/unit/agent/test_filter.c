#include "keys/filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

static uint64_t hash_of(int first, int second, const char *prefix, const char *other)
{
	struct kw_filter filter = {0};
	struct kw_error error;
	uint64_t hash;

	if (first >= 0)
		kw_filter_add_database(&filter, first, &error);
	if (second >= 0)
		kw_filter_add_database(&filter, second, &error);
	if (prefix)
		kw_filter_add_prefix(&filter, prefix, &error);
	if (other)
		kw_filter_add_prefix(&filter, other, &error);
	hash = kw_filter_hash(&filter);
	kw_filter_close(&filter);
	return hash;
}

static void the_hash_tells_filters_apart_whatever_their_order(void **state)
{
	const uint64_t different[] = {hash_of(-1, -1, NULL, NULL), hash_of(0, -1, NULL, NULL),
		hash_of(64, -1, NULL, NULL), hash_of(0, 64, NULL, NULL), hash_of(-1, -1, "a", NULL),
		hash_of(-1, -1, "ab", NULL), hash_of(-1, -1, "a", "b"), hash_of(0, -1, "a", NULL)};

	assert_int_equal(different[0], 0);
	for (size_t i = 0; i < sizeof different / sizeof *different; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(different[i], different[j]);
	assert_int_equal(hash_of(9, 700, "a:", "b:"), hash_of(700, 9, "b:", "a:"));
	/* It lies in servers: what was written by an agent of before is to be known again. */
	assert_int_equal(hash_of(9, 700, "a:", "b:"), UINT64_C(0x1f447b3f2279fe33));
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

/* A key that is followed and hidden would look deleted. */
static void what_is_followed_must_lie_inside_the_scope(void **state)
{
	static const struct {
		int database;
		const char *prefix, *scope;
		bool inside;
	} cases[] = {
		{-1, NULL, "databases=0", false},
		{-1, NULL, "prefix=a", false},
		{0, NULL, "databases=0,2", true},
		{1, NULL, "databases=0,2", false},
		{0, NULL, "databases=0 prefix=a", false},
		{0, "a", "databases=0 prefix=a", true},
		{0, "ab", "databases=0 prefix=a prefix=b", true},
		{0, "c", "databases=0 prefix=a prefix=b", false},
		{0, "a", "databases=0 prefix=ab", false},
		{-1, "a", "databases=0 prefix=a", false},
		{-1, "a%", "prefix=a%25", true},
		{0, "a", "databases=0", true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_filter filter = {0};
		struct kw_scope scope = {0};
		struct kw_error error;

		if (cases[i].database >= 0)
			kw_filter_add_database(&filter, cases[i].database, &error);
		if (cases[i].prefix)
			kw_filter_add_prefix(&filter, cases[i].prefix, &error);
		assert_int_equal(
			kw_scope_read(&scope, kw_slice_text(cases[i].scope), &error), KW_OK);
		assert_int_equal(kw_filter_check_scope(&filter, &scope, &error),
			cases[i].inside ? KW_OK : KW_E_REFUSED);
		if (!cases[i].inside)
			assert_non_null(strstr(error.text, cases[i].scope));
		kw_scope_close(&scope);
		kw_filter_close(&filter);
	}
}

static struct kw_filter made(const char *prefix, const char *pattern, const char *excluded)
{
	struct kw_filter filter = {0};
	struct kw_error error;

	if (prefix)
		assert_int_equal(kw_filter_add_prefix(&filter, prefix, &error), KW_OK);
	if (pattern)
		assert_int_equal(kw_filter_add_pattern(&filter, pattern, &error), KW_OK);
	if (excluded)
		assert_int_equal(kw_filter_exclude(&filter, excluded, &error), KW_OK);
	return filter;
}

static void an_exclusion_wins_over_whatever_names_the_key(void **state)
{
	static const struct {
		const char *prefix, *pattern, *excluded, *key;
		bool followed;
	} cases[] = {
		{NULL, NULL, "tmp:*", "tmp:1", false},
		{NULL, NULL, "tmp:*", "user:1", true},
		{NULL, NULL, "tmp:*", "", true},
		{"user:", NULL, "*:tmp", "user:1", true},
		{"user:", NULL, "*:tmp", "user:tmp", false},
		{"user:", NULL, "*:tmp", "cart:1", false},
		{NULL, "*:eu", NULL, "user:eu", true},
		{NULL, "*:eu", NULL, "user:us", false},
		{NULL, "*:eu", "user:*", "user:eu", false},
		/* Prefixes and patterns are one list of what is followed. */
		{"user:", "*:eu", NULL, "user:us", true},
		{"user:", "*:eu", NULL, "cart:eu", true},
		{"user:", "*:eu", NULL, "cart:us", false},
		{"user:", "*:eu", "*:[0-9]", "user:3", false},
		{"user:", "*:eu", "*:[0-9]", "cart:eu", true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_filter filter =
			made(cases[i].prefix, cases[i].pattern, cases[i].excluded);

		assert_int_equal(
			kw_filter_has_key(&filter, kw_slice_text(cases[i].key)), cases[i].followed);
		assert_true(kw_filter_picks_keys(&filter));
		assert_false(kw_filter_is_everything(&filter));
		kw_filter_close(&filter);
	}
}

static void databases_can_be_left_out(void **state)
{
	struct kw_filter filter = {0};
	struct kw_error error;
	uint64_t hash;
	char text[64];

	assert_int_equal(kw_filter_exclude_database(&filter, 3, &error), KW_OK);
	assert_int_equal(kw_filter_exclude_database(&filter, 65535, &error), KW_OK);
	assert_true(kw_filter_has_database(&filter, 0));
	assert_true(kw_filter_has_database(&filter, 65534));
	assert_false(kw_filter_has_database(&filter, 3));
	assert_false(kw_filter_has_database(&filter, 65535));
	assert_false(kw_filter_has_database(&filter, 70000));
	assert_false(kw_filter_picks_keys(&filter));
	assert_false(kw_filter_is_everything(&filter));
	kw_filter_describe(&filter, text, sizeof text);
	assert_string_equal(text, "databases all but 3, 65535");
	assert_int_equal(kw_filter_exclude_database(&filter, 65536, &error), KW_E_CONFIG);
	kw_filter_close(&filter);

	/* What is followed counts, however it is said. */
	kw_filter_add_database(&filter, 0, &error);
	hash = kw_filter_hash(&filter);
	kw_filter_add_database(&filter, 5, &error);
	assert_int_equal(kw_filter_exclude_database(&filter, 5, &error), KW_OK);
	assert_int_equal(kw_filter_hash(&filter), hash);
	assert_int_equal(kw_filter_exclude_database(&filter, 0, &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "filter.exclude_databases"));
	kw_filter_close(&filter);
}

static void what_is_followed_and_what_is_not_is_said(void **state)
{
	struct kw_filter filter = made("user:", "*:eu", "tmp:*");
	struct kw_error error;
	char text[128];

	kw_filter_add_database(&filter, 0, &error);
	kw_filter_exclude(&filter, "*:tmp", &error);
	kw_filter_describe(&filter, text, sizeof text);
	assert_string_equal(
		text, "databases 0; prefixes user:; patterns *:eu; without tmp:*, *:tmp");
	kw_filter_close(&filter);
	filter = made(NULL, NULL, "tmp:*");
	kw_filter_describe(&filter, text, sizeof text);
	assert_string_equal(text, "without tmp:*");
	kw_filter_close(&filter);
}

static uint64_t hash_and_close(struct kw_filter filter)
{
	uint64_t hash = kw_filter_hash(&filter);

	kw_filter_close(&filter);
	return hash;
}

/* A prefix, a pattern and an exclusion of the same bytes follow other keys. */
static void the_hash_tells_patterns_from_prefixes_and_exclusions(void **state)
{
	const uint64_t different[] = {0, hash_and_close(made("a", NULL, NULL)),
		hash_and_close(made(NULL, "a", NULL)), hash_and_close(made(NULL, NULL, "a")),
		hash_and_close(made(NULL, "a", "b")), hash_and_close(made(NULL, "b", "a")),
		hash_and_close(made("a", "b", NULL)), hash_and_close(made("a", NULL, "b"))};
	struct kw_filter one = made(NULL, "a", "x"), other = made(NULL, "b", "y");
	struct kw_error error;

	for (size_t i = 0; i < sizeof different / sizeof *different; i++)
		for (size_t j = 0; j < i; j++)
			assert_int_not_equal(different[i], different[j]);
	kw_filter_add_pattern(&one, "b", &error);
	kw_filter_add_pattern(&one, "b", &error); /* once more is no more */
	kw_filter_exclude(&one, "y", &error);
	kw_filter_add_pattern(&other, "a", &error);
	kw_filter_exclude(&other, "x", &error);
	assert_int_equal(hash_and_close(one), hash_and_close(other));
	/* These lie in servers. */
	assert_int_equal(hash_and_close(made("a:", "b:*", "c:?")), UINT64_C(0x7038fc5eef55881a));
}

static void patterns_are_bounded_and_must_mean_something(void **state)
{
	static const char *const refused[] = {"", "*", "**", "a[b", "a\\"};
	struct kw_filter filter = {0};
	struct kw_error error;
	char pattern[16];

	for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
		assert_int_equal(kw_filter_add_pattern(&filter, refused[i], &error), KW_E_CONFIG);
		assert_non_null(strstr(error.text, "filter.patterns: "));
		assert_int_equal(kw_filter_exclude(&filter, refused[i], &error), KW_E_CONFIG);
		assert_non_null(strstr(error.text, "filter.exclude: "));
	}
	assert_true(kw_filter_is_everything(&filter));
	for (int i = 0; i < KW_FILTER_PATTERNS_MAX; i++) {
		snprintf(pattern, sizeof pattern, "%d:*", i);
		assert_int_equal(kw_filter_add_pattern(&filter, pattern, &error), KW_OK);
		assert_int_equal(kw_filter_exclude(&filter, pattern, &error), KW_OK);
	}
	assert_int_equal(kw_filter_add_pattern(&filter, "more", &error), KW_E_CONFIG);
	assert_int_equal(kw_filter_exclude(&filter, "more", &error), KW_E_CONFIG);
	kw_filter_close(&filter);
}

/* The keys that a pattern matches are known by their beginning. */
static void a_pattern_must_begin_inside_the_scope(void **state)
{
	static const struct {
		const char *pattern, *excluded, *scope;
		bool inside;
	} cases[] = {
		{"a:*", NULL, "prefix=a", true},
		{"a:*", NULL, "prefix=a:", true},
		{"a:*", NULL, "prefix=a:b", false},
		{"\\a:?", NULL, "prefix=a:", true},
		{"a?b", NULL, "prefix=a", true},
		{"*a", NULL, "prefix=a", false},
		{"[a]b", NULL, "prefix=a", false},
		{"*a", NULL, "", true},
		/* What is left out does not make it narrower. */
		{NULL, "[^a]*", "prefix=a", false},
		{"a*", "ab*", "prefix=a", true},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_filter filter = made(NULL, cases[i].pattern, cases[i].excluded);
		struct kw_scope scope = {0};
		struct kw_error error;

		assert_int_equal(
			kw_scope_read(&scope, kw_slice_text(cases[i].scope), &error), KW_OK);
		assert_int_equal(kw_filter_check_scope(&filter, &scope, &error),
			cases[i].inside ? KW_OK : KW_E_REFUSED);
		kw_scope_close(&scope);
		kw_filter_close(&filter);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_filter_everything_is_followed),
		cmocka_unit_test(only_the_databases_named_are_followed),
		cmocka_unit_test(a_key_must_begin_with_one_of_the_prefixes),
		cmocka_unit_test(the_hash_tells_filters_apart_whatever_their_order),
		cmocka_unit_test(the_number_of_prefixes_is_bounded),
		cmocka_unit_test(what_is_followed_must_lie_inside_the_scope),
		cmocka_unit_test(an_exclusion_wins_over_whatever_names_the_key),
		cmocka_unit_test(databases_can_be_left_out),
		cmocka_unit_test(what_is_followed_and_what_is_not_is_said),
		cmocka_unit_test(the_hash_tells_patterns_from_prefixes_and_exclusions),
		cmocka_unit_test(patterns_are_bounded_and_must_mean_something),
		cmocka_unit_test(a_pattern_must_begin_inside_the_scope),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
