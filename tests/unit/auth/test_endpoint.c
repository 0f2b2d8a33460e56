#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "auth/endpoint.h"
#include "auth/identity.h"

#include <string.h>

static struct kw_endpoint parsed(const char *text)
{
	struct kw_endpoint endpoint;

	if (!kw_endpoint_parse(text, &endpoint))
		fail_msg("\"%s\" was not taken", text);
	return endpoint;
}

static void what_is_printed_is_what_was_given(void **state)
{
	static const char *const texts[] = {
		"10.0.0.9:7000", "127.0.0.1:1", "[::1]:65535", "[fd00::1:2]:7471"};
	char text[KW_ENDPOINT_TEXT];

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct kw_endpoint endpoint = parsed(texts[i]);

		kw_endpoint_text(&endpoint, text, sizeof text);
		assert_string_equal(text, texts[i]);
	}
}

static void an_address_has_one_form(void **state)
{
	struct kw_endpoint four = parsed("10.0.0.9:7000"),
			   mapped = parsed("[::ffff:10.0.0.9]:7000"),
			   other = parsed("10.0.0.9:7001"), six = parsed("[::a00:9]:7000");

	assert_true(kw_endpoint_equal(&four, &mapped));
	assert_false(kw_endpoint_equal(&four, &other));
	assert_false(kw_endpoint_equal(&four, &six));
}

static void what_is_no_address_and_port_is_refused(void **state)
{
	static const char *const texts[] = {"", ":", ":7000", "10.0.0.9", "10.0.0.9:", "10.0.0.9:0",
		"10.0.0.9:65536", "10.0.0.9:7000x", "10.0.0.9:+700", "10.0.0:7000", "host:7000",
		"::1:7000", "[::1:7000", "[]:7000", "[10.0.0.9]:7000", "[fe80::1%eth0]:7000",
		"[1111:2222:3333:4444:5555:6666:7777:8888:9999:aaaa:bbbb:cccc]:7000",
		"100000000000000000000000000000000000000000000000000000000000:7000"};
	struct kw_endpoint endpoint;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (kw_endpoint_parse(texts[i], &endpoint))
			fail_msg("\"%s\" was taken", texts[i]);
}

static void the_id_of_a_key_is_short_and_plain(void **state)
{
	static const char longest[] = "0123456789abcdefABCDEF._-0123456";

	assert_true(kw_key_id_valid("edge-1", 6));
	assert_true(kw_key_id_valid(longest, KW_KEY_ID_MAX));
	assert_false(kw_key_id_valid(longest, 0));
	assert_false(kw_key_id_valid("0123456789abcdefABCDEF._-01234567", KW_KEY_ID_MAX + 1));
	for (const char *bad = " /:\n\x7f\xc3@[`{"; *bad; bad++)
		assert_false(kw_key_id_valid(bad, 1));
	assert_false(kw_key_id_valid("a\0b", 3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_printed_is_what_was_given),
		cmocka_unit_test(an_address_has_one_form),
		cmocka_unit_test(what_is_no_address_and_port_is_refused),
		cmocka_unit_test(the_id_of_a_key_is_short_and_plain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
