/* What listens at a port, by the bytes that it answers. */
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void a_port_is_known_by_its_answers(void **state)
{
	/* What real servers were seen to answer; "": nothing. */
	static const struct {
		const char *redis, *http, *bus, *tls;
		enum kw_port_kind kind;
	} cases[] = {
		{"+PONG\r\n", "", "", "", KW_PORT_REDIS},
		{"+PONG\r\n*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n", "", "", "", KW_PORT_REDIS},
		{"+PONG\r\n-NOPERM this user\r\n", "", "", "", KW_PORT_REDIS},
		{"-NOAUTH Authentication required.\r\n", "", "", "", KW_PORT_REDIS},
		{"+PONG\r\n*2\r\n$8\r\nsentinel\r\n*0\r\n", "", "", "", KW_PORT_SENTINEL},
		{"KWH1\x05", "", "", "", KW_PORT_KEYWAKE},
		{"HTTP/1.1 400 Bad Request\r\n", "", "", "", KW_PORT_HTTP},
		{"", "HTTP/1.1 421 Misdirected Request\r\n", "", "", KW_PORT_HTTP},
		{"SSH-2.0-OpenSSH_9.2\r\n", "", "", "", KW_PORT_SSH},
		{"ERROR\r\n", "", "", "", KW_PORT_MEMCACHED},
		{"\x15\x03\x01\x02\x02F", "", "", "", KW_PORT_TLS},
		{"", "\x15\x03\x01\x02\x02F", "", "", KW_PORT_TLS},
		{"", "", "", "\x16\x03\x03\x01", KW_PORT_TLS},
		{"", "", "", "HTTP/1.0 400", KW_PORT_HTTP},
		{"", "", "RCmb\x00\x00", "", KW_PORT_BUS},
		{"", "", "", "", KW_PORT_UNKNOWN},
		{"\x16\x13", "", "", "", KW_PORT_UNKNOWN},
		{"hello", "", "", "", KW_PORT_UNKNOWN},
		{"KWH", "", "", "", KW_PORT_UNKNOWN},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct kw_port_answers answers = {
			{kw_slice_text(cases[i].redis), kw_slice_text(cases[i].http),
				kw_slice_text(cases[i].bus), kw_slice_text(cases[i].tls)}};

		assert_int_equal(kw_port_judge(&answers), cases[i].kind);
		assert_true(*kw_port_name(cases[i].kind));
	}
}

static void bytes_that_came_unasked_tell_it_too(void **state)
{
	assert_int_equal(kw_port_judge_bytes(kw_slice_text("SSH-2.0-x\r\n")), KW_PORT_SSH);
	assert_int_equal(kw_port_judge_bytes(kw_slice_text("KWH1")), KW_PORT_KEYWAKE);
	assert_int_equal(kw_port_judge_bytes(kw_slice(NULL, 0)), KW_PORT_UNKNOWN);
}

/* A Redis server takes a line that begins with Host: for an attack, and says so in its log. */
static void the_questions_are_what_they_say(void **state)
{
	const struct kw_slice tls = kw_port_question(KW_PORT_ASK_TLS);
	const uint8_t *hello = tls.data;
	const struct kw_slice http = kw_port_question(KW_PORT_ASK_HTTP);

	assert_int_equal(tls.length, 50);
	assert_int_equal(hello[0], 0x16);
	assert_int_equal(hello[4], tls.length - 5);
	assert_int_equal(kw_port_question(KW_PORT_ASK_BUS).length, 2256);
	assert_null(memmem(http.data, http.length, "Host", 4));
	assert_non_null(memmem(kw_port_question(KW_PORT_ASK_REDIS).data,
		kw_port_question(KW_PORT_ASK_REDIS).length, "ROLE", 4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_is_known_by_its_answers),
		cmocka_unit_test(bytes_that_came_unasked_tell_it_too),
		cmocka_unit_test(the_questions_are_what_they_say),
	};

	return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
