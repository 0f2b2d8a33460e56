#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "remote/carrier.h"

#include <string.h>

static void the_three_forms_are_understood_and_written_again(void **state)
{
	static const char *const texts[] = {"shm:///run/keywake/p.sock", "tcp://10.0.0.2:7471",
		"tcp://[::1]:7471", "rdma://replica-3.example:1", "tcp://localhost:0",
		"rdma://[fe80::1%eth0]:65535"};
	struct kw_address address;
	struct kw_error error;
	char text[KW_ADDRESS_TEXT];

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		if (kw_address_parse(texts[i], &address, &error) != 0)
			fail_msg("%s", error.text);
		kw_address_text(&address, text, sizeof text);
		assert_string_equal(text, texts[i]);
	}
	kw_address_parse("tcp://[::1]:7471", &address, &error);
	assert_string_equal(address.host, "::1");
	assert_int_equal(address.port, 7471);
	assert_int_equal(address.carrier, KW_CARRIER_TCP);
	assert_string_equal(kw_carrier_name(KW_CARRIER_RDMA), "rdma");
}

static void anything_else_is_a_sentence_that_names_the_address(void **state)
{
	static const char *const texts[] = {"", "x", "tcp", "tcp://", "tcp://host",
		"tcp://host:", "tcp://:7471", "tcp://host:65536", "tcp://host:-1", "tcp://host:7x",
		"tcp://::1:7471", "tcp://[::1]", "tcp://[]:1", "tcp://[x]:1", "tcp://a b:1",
		"shm://relative", "shm://", "unix:///run/x", "http://host:80", "tcp://host:7471/",
		"TCP://host:1", "tcp://u@h:1"};
	struct kw_address address;
	struct kw_error error;
	char longest[600];

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		error.text[0] = 0;
		if (kw_address_parse(texts[i], &address, &error) != KW_E_CONFIG)
			fail_msg("\"%s\" was taken", texts[i]);
		assert_non_null(strstr(error.text, texts[i]));
	}
	memset(longest, 'a', sizeof longest);
	memcpy(longest, "shm:///", 7);
	longest[599] = 0;
	assert_int_equal(kw_address_parse(longest, &address, &error), KW_E_CONFIG);
	memcpy(longest, "tcp://a", 7);
	memcpy(longest + 597, ":1", 3);
	assert_int_equal(kw_address_parse(longest, &address, &error), KW_E_CONFIG);
}

static void local_is_what_only_this_host_reaches(void **state)
{
	static const struct {
		const char *text;
		bool local;
	} cases[] = {{"shm:///x", true}, {"tcp://127.0.0.1:1", true}, {"tcp://127.9.9.9:1", true},
		{"tcp://[::1]:1", true}, {"tcp://localhost:1", true}, {"rdma://localhost:1", true},
		{"tcp://[::ffff:127.0.0.1]:1", true}, {"tcp://[::ffff:10.0.0.1]:1", false},
		{"tcp://0.0.0.0:1", false}, {"tcp://[::]:1", false}, {"tcp://10.0.0.1:1", false},
		{"tcp://128.0.0.1:1", false}, {"tcp://example.org:1", false},
		{"tcp://localhost.example.org:1", false}};
	struct kw_address address;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(kw_address_parse(cases[i].text, &address, NULL), 0);
		if (kw_address_is_local(&address) != cases[i].local)
			fail_msg("%s", cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_three_forms_are_understood_and_written_again),
		cmocka_unit_test(anything_else_is_a_sentence_that_names_the_address),
		cmocka_unit_test(local_is_what_only_this_host_reaches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
