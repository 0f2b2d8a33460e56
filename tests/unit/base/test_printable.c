#include "base/printable.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEXT(literal)                                                                              \
	{                                                                                          \
		literal, sizeof(literal) - 1                                                       \
	}

static const struct {
	const char *what;
	struct kw_slice raw;
	const char *shown;
} cases[] = {
	{"nothing", TEXT(""), ""},
	{"plain text", TEXT("GET user:42"), "GET user:42"},
	{"letters of other scripts", TEXT("ключ 鍵 مفتاح é 🔑"), "ключ 鍵 مفتاح é 🔑"},
	{"a backslash", TEXT("\\x1b"), "\\x1b"},
	{"a zero byte", TEXT("a\0b"), "a\\x00b"},
	{"a new line", TEXT("a\nb"), "a\\x0ab"},
	{"a carriage return and a tab", TEXT("a\r\tb"), "a\\x0d\\x09b"},
	{"an escape sequence", TEXT("\x1b[2J"), "\\x1b[2J"},
	{"DEL", TEXT("\x7f"), "\\x7f"},
	{"the first and the last of C1", TEXT("\xc2\x80\xc2\x9f"), "\\xc2\\x80\\xc2\\x9f"},
	{"CSI of C1",
		TEXT("\xc2\x9b"
		     "31m"),
		"\\xc2\\x9b31m"},
	{"the character after C1", TEXT("\xc2\xa0"), "\xc2\xa0"},
	{"a soft hyphen", TEXT("\xc2\xad"), "\\xc2\\xad"},
	{"the Arabic mark", TEXT("\xd8\x9c"), "\\xd8\\x9c"},
	{"zero width",
		TEXT("a\xe2\x80\x8b"
		     "b"),
		"a\\xe2\\x80\\x8bb"},
	{"marks of direction", TEXT("\xe2\x80\x8e\xe2\x80\x8f"), "\\xe2\\x80\\x8e\\xe2\\x80\\x8f"},
	{"a dash between hidden ranges", TEXT("\xe2\x80\x90\xe2\x80\xa7"),
		"\xe2\x80\x90\xe2\x80\xa7"},
	{"separators", TEXT("\xe2\x80\xa8\xe2\x80\xa9"), "\\xe2\\x80\\xa8\\xe2\\x80\\xa9"},
	{"embedding and override", TEXT("\xe2\x80\xaa\xe2\x80\xae"),
		"\\xe2\\x80\\xaa\\xe2\\x80\\xae"},
	{"the character after them", TEXT("\xe2\x80\xaf"), "\xe2\x80\xaf"},
	{"isolates", TEXT("\xe2\x81\xa6\xe2\x81\xa9"), "\\xe2\\x81\\xa6\\xe2\\x81\\xa9"},
	{"a byte order mark", TEXT("\xef\xbb\xbf"), "\\xef\\xbb\\xbf"},
	{"a tag", TEXT("\xf3\xa0\x81\x81"), "\\xf3\\xa0\\x81\\x81"},
	{"a byte that begins nothing", TEXT("\x80\xff\xfe"), "\\x80\\xff\\xfe"},
	{"an overlong slash", TEXT("\xc0\xaf"), "\\xc0\\xaf"},
	{"an overlong zero", TEXT("\xe0\x80\x80"), "\\xe0\\x80\\x80"},
	{"an overlong four", TEXT("\xf0\x80\x80\x80"), "\\xf0\\x80\\x80\\x80"},
	{"a surrogate", TEXT("\xed\xa0\x80"), "\\xed\\xa0\\x80"},
	{"the character before surrogates", TEXT("\xed\x9f\xbf"), "\xed\x9f\xbf"},
	{"above the last code point", TEXT("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"},
	{"the last code point", TEXT("\xf4\x8f\xbf\xbf"), "\xf4\x8f\xbf\xbf"},
	{"five bytes", TEXT("\xf8\x88\x80\x80\x80"), "\\xf8\\x88\\x80\\x80\\x80"},
	{"a character cut off at the end", TEXT("a\xe2\x82"), "a\\xe2\\x82"},
	{"a character cut off by another",
		TEXT("\xe2\x82"
		     "a"),
		"\\xe2\\x82a"},
	{"an escape after a cut", TEXT("\xe2\x1b["), "\\xe2\\x1b["},
};

static void what_could_mislead_is_shown_as_bytes(void **state)
{
	char shown[256];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		size_t taken = kw_printable(shown, sizeof shown, cases[i].raw, KW_NEWLINE_ESCAPED);

		if (strcmp(shown, cases[i].shown) != 0 || taken != cases[i].raw.length)
			fail_msg("%s: \"%s\", not \"%s\"", cases[i].what, shown, cases[i].shown);
	}
}

static void newlines_are_kept_only_if_asked_for(void **state)
{
	char shown[32];

	kw_printable(shown, sizeof shown, kw_slice_text("a\nb\r\n"), KW_NEWLINE_KEPT);
	assert_string_equal(shown, "a\nb\\x0d\n");
}

/* Whatever the size is: whole characters and whole escapes, and nothing beyond the size. */
static void what_does_not_fit_is_cut_between_characters(void **state)
{
	static const char raw[] = "é€🔑\x1b\xe2\x80\xae";
	static const char whole[] = "é€🔑\\x1b\\xe2\\x80\\xae";
	static const size_t ends[] = {0, 2, 5, 9, 13, 25};

	for (size_t size = 1; size < sizeof whole + 4; size++) {
		char shown[64];
		size_t best = 0, taken;

		memset(shown, '#', sizeof shown);
		taken = kw_printable(shown, size, kw_slice_text(raw), KW_NEWLINE_ESCAPED);
		for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
			if (ends[i] < size)
				best = ends[i];
		assert_int_equal(strlen(shown), best);
		assert_memory_equal(shown, whole, best);
		assert_int_equal(shown[size], '#');
		assert_int_equal(taken == sizeof raw - 1, best == sizeof whole - 1);
	}
}

static void a_long_text_is_shown_piece_by_piece(void **state)
{
	static const char raw[] = "a\xe2\x80\xae\xff€\x1b[0m and so on";
	char all[128] = "", one[128], piece[17];

	for (size_t at = 0; at < sizeof raw - 1;) {
		size_t taken = kw_printable(piece, sizeof piece,
			kw_slice(raw + at, sizeof raw - 1 - at), KW_NEWLINE_ESCAPED);

		assert_true(taken > 0);
		strcat(all, piece);
		at += taken;
	}
	kw_printable(one, sizeof one, kw_slice_text(raw), KW_NEWLINE_ESCAPED);
	assert_string_equal(all, one);
}

static void a_text_cut_anywhere_loses_its_half_character(void **state)
{
	static const char text[] = "aé€🔑";
	static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};

	for (size_t length = 0; length < sizeof text; length++)
		assert_int_equal(kw_printable_whole(text, length), whole[length]);
	assert_int_equal(kw_printable_whole("\x80\x80\x80\x80", 4), 4);
	assert_int_equal(kw_printable_whole("\xff", 1), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_could_mislead_is_shown_as_bytes),
		cmocka_unit_test(newlines_are_kept_only_if_asked_for),
		cmocka_unit_test(what_does_not_fit_is_cut_between_characters),
		cmocka_unit_test(a_long_text_is_shown_piece_by_piece),
		cmocka_unit_test(a_text_cut_anywhere_loses_its_half_character),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
