/* What CONFIG GET tells of a local server, and the password that remembers it. */
#include "primary/link_settings.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char *read_words(
	const char *const *words, size_t count, struct kw_link_settings *settings)
{
	struct kw_reply elements[16] = {0};
	const struct kw_reply reply = {
		.type = KW_REPLY_ARRAY, .elements = elements, .count = count};

	for (size_t i = 0; i < count; i++) {
		elements[i].type = KW_REPLY_STRING;
		elements[i].text = kw_slice_text(words[i]);
	}
	return kw_link_settings_read(&reply, settings);
}

static void settings_are_read_in_any_order(void **state)
{
	static const char *const words[] = {"tls-replication", "yes", "replicaof", "::1 7000",
		"masterauth", "a secret", "of no matter", "x", "repl-diskless-load", "swapdb",
		"databases", "16"};
	struct kw_link_settings settings;

	assert_null(read_words(words, 12, &settings));
	assert_string_equal(settings.password, "a secret");
	assert_string_equal(settings.user, "");
	assert_string_equal(settings.primary, "::1 7000");
	assert_string_equal(settings.diskless, "swapdb");
	assert_string_equal(settings.tls, "yes");
	assert_string_equal(settings.databases, "16");
	/* A name without a value, at the end. */
	assert_null(read_words(words, 5, &settings));
	assert_string_equal(settings.password, "");
}

static void a_value_that_is_too_long_is_named(void **state)
{
	char text[KW_LOGIN_TEXT + 1];
	const char *words[] = {"masterauth", text, "databases", "16"};
	struct kw_link_settings settings;

	memset(text, 'x', KW_LOGIN_TEXT);
	text[KW_LOGIN_TEXT] = '\0';
	assert_string_equal(read_words(words, 4, &settings), "masterauth");
	assert_string_equal(settings.password, "");
	text[KW_LOGIN_TEXT - 1] = '\0';
	assert_null(read_words(words, 4, &settings));
	assert_string_equal(settings.password, text);
}

static void wiped_settings_hold_nothing(void **state)
{
	static const char *const words[] = {"masterauth", "a secret"};
	static const struct kw_link_settings nothing;
	struct kw_link_settings settings;

	read_words(words, 2, &settings);
	kw_link_settings_wipe(&settings);
	assert_memory_equal(&settings, &nothing, sizeof settings);
}

static void a_password_remembers_what_to_put_back(void **state)
{
	static const struct kw_link_mark marks[] = {
		{"disabled", false}, {"on-empty-db", true}, {"swapdb", false}};

	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
		char password[KW_LOGIN_TEXT], another[KW_LOGIN_TEXT];
		struct kw_link_mark mark;

		assert_true(kw_link_mark_write(&marks[i], password));
		assert_true(kw_link_mark_write(&marks[i], another));
		assert_string_not_equal(password, another);
		assert_true(kw_link_mark_read(password, &mark));
		assert_string_equal(mark.diskless, marks[i].diskless);
		assert_int_equal(mark.tls, marks[i].tls);
	}
}

static void a_password_of_others_is_no_mark(void **state)
{
	static const char *const others[] = {"", "keywake", "keywake/", "keywake//00", "keywake/x",
		"keywake/UPPER/00", "a secret", "Keywake/disabled/00",
		"keywake/a-word-that-is-far-too-long-for-it/00"};
	struct kw_link_mark mark;

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (kw_link_mark_read(others[i], &mark))
			fail_msg("%s", others[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(settings_are_read_in_any_order),
		cmocka_unit_test(a_value_that_is_too_long_is_named),
		cmocka_unit_test(wiped_settings_hold_nothing),
		cmocka_unit_test(a_password_remembers_what_to_put_back),
		cmocka_unit_test(a_password_of_others_is_no_mark),
	};

	return cmocka_run_group_tests_name("agent-link-settings", tests, NULL, NULL);
}
