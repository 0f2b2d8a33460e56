#include "keys/glob.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool matches(const char *pattern, const char *text)
{
	return kw_glob_matches(kw_slice_text(pattern), kw_slice_text(text));
}

/* The cases of the server's documents, and the corners of its source (util.c). */
static void a_pattern_means_what_it_means_to_the_server(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} cases[] = {
		{"h?llo", "hello", true},
		{"h?llo", "hllo", false},
		{"h*llo", "hllo", true},
		{"h*llo", "heeeello", true},
		{"h*llo", "heeeellow", false},
		{"h[ae]llo", "hallo", true},
		{"h[ae]llo", "hillo", false},
		{"h[^e]llo", "hallo", true},
		{"h[^e]llo", "hello", false},
		{"h[a-b]llo", "hbllo", true},
		{"h[a-b]llo", "hcllo", false},
		{"h[b-a]llo", "hallo", true},
		{"h[^a-b]llo", "hcllo", true},
		{"h\\*llo", "h*llo", true},
		{"h\\*llo", "hello", false},
		{"h\\ello", "hello", true},
		{"[\\]]", "]", true},
		{"[\\^a]", "^", true},
		{"[a^]", "^", true},
		{"[]", "]", false},
		{"[^]", "x", true},
		{"[a-]", "]", true}, /* a range up to the bracket, and the list never ends */
		{"[ab", "b", true},
		{"a\\", "a\\", true},
		{"]", "]", true},
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"**", "abc", true},
		{"?", "", false},
		{"a*b*c", "axxbxxc", true},
		{"a*b*c", "axxcxxb", false},
		{"*:eu:*", "user:us:eu:7", true},
		{"*ab", "aab", true},
		{"*aab", "aaab", true},
		{"?*?", "a", false},
		{"?*?", "ab", true},
		{"A", "a", false},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(matches(cases[i].pattern, cases[i].text), cases[i].matches);
}

static void bytes_need_not_be_text(void **state)
{
	assert_true(kw_glob_matches(kw_slice("a\0*", 3), kw_slice("a\0\xff", 3)));
	assert_true(kw_glob_matches(kw_slice("[\x80-\xff]", 5), kw_slice("\xc3", 1)));
	assert_false(kw_glob_matches(kw_slice("[\x80-\xff]", 5), kw_slice("\x7f", 1)));
	assert_true(matches("??", "é"));
	assert_false(matches("?", "é"));
	assert_true(kw_glob_matches(kw_slice("*", 1), kw_slice(NULL, 0)));
}

/* ---- the server's own way: every place for every star ---- */

static bool list_has(const char **pattern, char byte)
{
	bool negated = **pattern == '^', found = false;

	*pattern += negated;
	for (;; ++*pattern) {
		if (**pattern == '\\' && (*pattern)[1]) {
			found |= *++*pattern == byte;
		} else if (!**pattern) {
			--*pattern;
			break;
		} else if (**pattern == ']') {
			break;
		} else if ((*pattern)[1] == '-' && (*pattern)[2]) {
			char low = **pattern, high = (*pattern)[2];

			found |= (low <= byte && byte <= high) || (high <= byte && byte <= low);
			*pattern += 2;
		} else {
			found |= **pattern == byte;
		}
	}
	return found != negated;
}

static bool slowly(const char *pattern, const char *text)
{
	bool same;

	if (!*pattern)
		return !*text;
	if (*pattern == '*')
		return slowly(pattern + 1, text) || (*text && slowly(pattern, text + 1));
	if (!*text)
		return false;
	if (*pattern == '[') {
		pattern++;
		same = list_has(&pattern, *text);
	} else {
		bool any = *pattern == '?';

		pattern += *pattern == '\\' && pattern[1];
		same = any || *pattern == *text;
	}
	return same && slowly(pattern + 1, text + 1);
}

static void fill(char *text, size_t most, const char *letters)
{
	size_t length = (size_t)random() % most;

	for (size_t i = 0; i < length; i++)
		text[i] = letters[(size_t)random() % strlen(letters)];
	text[length] = '\0';
}

static void trying_the_last_star_alone_finds_the_same(void **state)
{
	char pattern[10], text[12];
	unsigned found = 0;

	srandom(1);
	for (int i = 0; i < 400000; i++) {
		fill(pattern, sizeof pattern, "aab**?[]^-\\");
		fill(text, sizeof text, "aaab-]^");
		found += slowly(pattern, text);
		if (matches(pattern, text) != slowly(pattern, text))
			fail_msg("%s against %s", pattern, text);
	}
	assert_true(found > 20000);
}

/* Star by star this would take longer than the world is old. */
static void hostile_patterns_end(void **state)
{
	enum { LENGTH = 1 << 20 };
	char pattern[KW_GLOB_MAX + 1] = "", *text = malloc(LENGTH + 1);

	memset(text, 'a', LENGTH);
	text[LENGTH] = '\0';
	while (strlen(pattern) + 3 < sizeof pattern)
		strcat(pattern, "*a");
	strcat(pattern, "b");
	assert_false(matches(pattern, text));
	memset(pattern, 'a', KW_GLOB_MAX);
	pattern[0] = '*';
	pattern[KW_GLOB_MAX - 1] = 'b';
	assert_false(matches(pattern, text));
	text[LENGTH - 1] = 'b';
	assert_true(matches(pattern, text));
	free(text);
}

static void what_nobody_would_write_is_refused(void **state)
{
	static const char *const good[] = {
		"a", "*", "user:*", "[a-z]", "[^a]", "[\\]]", "\\[", "a]", "\\\\"};
	static const struct {
		const char *pattern, *why;
	} bad[] = {{"", "empty"}, {"a[", "no ]"}, {"[a-]", "no ]"}, {"[\\]", "no ]"},
		{"[^", "no ]"}, {"[]][", "no ]"}, {"a\\", "backslash"}};
	char pattern[KW_GLOB_MAX + 2];
	struct kw_error error;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_int_equal(kw_glob_check(good[i], &error), KW_OK);
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(kw_glob_check(bad[i].pattern, &error), KW_E_CONFIG);
		assert_non_null(strstr(error.text, bad[i].why));
	}
	memset(pattern, 'a', sizeof pattern - 1);
	pattern[sizeof pattern - 1] = '\0';
	assert_int_equal(kw_glob_check(pattern, &error), KW_E_CONFIG);
	pattern[KW_GLOB_MAX] = '\0';
	assert_int_equal(kw_glob_check(pattern, &error), KW_OK);
}

static void the_beginning_is_what_every_match_begins_with(void **state)
{
	static const struct {
		const char *pattern, *beginning;
	} cases[] = {{"user:*", "user:"}, {"*", ""}, {"a?c", "a"}, {"a[b]c", "a"}, {"abc", "abc"},
		{"a\\*b*", "a*b"}, {"", ""}, {"a\\", "a\\"}};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct kw_buffer bytes = {0};

		kw_glob_beginning(kw_slice_text(cases[i].pattern), &bytes);
		assert_true(
			kw_slice_equal(kw_slice(kw_buffer_bytes(&bytes), kw_buffer_length(&bytes)),
				kw_slice_text(cases[i].beginning)));
		kw_buffer_close(&bytes);
	}
}

static void a_pattern_of_stars_is_everything(void **state)
{
	assert_true(kw_glob_is_everything(kw_slice_text("*")));
	assert_true(kw_glob_is_everything(kw_slice_text("***")));
	assert_false(kw_glob_is_everything(kw_slice_text("")));
	assert_false(kw_glob_is_everything(kw_slice_text("*?")));
	assert_false(kw_glob_is_everything(kw_slice_text("\\*")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_pattern_means_what_it_means_to_the_server),
		cmocka_unit_test(bytes_need_not_be_text),
		cmocka_unit_test(trying_the_last_star_alone_finds_the_same),
		cmocka_unit_test(hostile_patterns_end),
		cmocka_unit_test(what_nobody_would_write_is_refused),
		cmocka_unit_test(the_beginning_is_what_every_match_begins_with),
		cmocka_unit_test(a_pattern_of_stars_is_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
