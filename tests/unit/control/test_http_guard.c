/* Who may ask what over HTTP, and at which addresses it may listen. */
#include "control/http/guard.h"
#include "control/http/http.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SECRET "a secret of sixteen and more"
/* base64 of "keywake:" and the secret, as another program made it. */
#define LOGIN "a2V5d2FrZTphIHNlY3JldCBvZiBzaXh0ZWVuIGFuZCBtb3Jl"

struct ask {
	const char *authorization;
	bool open;
	enum kw_http_verdict verdict;
};

static void check_asks(struct kw_slice secret, const struct ask *asks, size_t count)
{
	struct kw_http_guard guard;

	kw_http_guard_init(&guard, KW_HTTP_OPEN, secret);
	for (size_t i = 0; i < count; i++) {
		const struct kw_http_question question = {
			.open = asks[i].open,
			.host = "any.name.example",
			.authorization = asks[i].authorization,
		};

		print_message("%s\n", asks[i].authorization ? asks[i].authorization : "(none)");
		assert_int_equal(kw_http_judge(&guard, &question), asks[i].verdict);
	}
	kw_http_guard_close(&guard);
}

static void a_secret_is_proved_in_two_ways(void **state)
{
	static const struct ask asks[] = {
		{"Bearer " SECRET, false, KW_HTTP_MAY},
		{"bearer " SECRET, true, KW_HTTP_MAY},
		{"Basic " LOGIN, false, KW_HTTP_MAY},
		{"BASIC " LOGIN, true, KW_HTTP_MAY},
	};

	check_asks(kw_slice_text(SECRET), asks, sizeof asks / sizeof *asks);
}

static void who_does_not_prove_it_is_told_a_word_at_most(void **state)
{
	static const struct ask asks[] = {
		{NULL, false, KW_HTTP_UNPROVED},
		{NULL, true, KW_HTTP_MAY_LITTLE},
		{"", false, KW_HTTP_UNPROVED},
		{"Bearer", false, KW_HTTP_UNPROVED},
		{"Bearer ", false, KW_HTTP_UNPROVED},
		{"Basic ", false, KW_HTTP_UNPROVED},
		{"Bearer a secret of sixteen and mor", false, KW_HTTP_UNPROVED},
		{"Bearer " SECRET " ", false, KW_HTTP_UNPROVED},
		{"Bearer A secret of sixteen and more", false, KW_HTTP_UNPROVED},
		{"Bearer  " SECRET, false, KW_HTTP_UNPROVED},
		{"Bearer " LOGIN, false, KW_HTTP_UNPROVED},
		{"Basic " SECRET, false, KW_HTTP_UNPROVED},
		{"Basic " LOGIN "=", false, KW_HTTP_UNPROVED},
		{"Digest " LOGIN, true, KW_HTTP_MAY_LITTLE},
		{SECRET, false, KW_HTTP_UNPROVED},
	};

	check_asks(kw_slice_text(SECRET), asks, sizeof asks / sizeof *asks);
}

static void a_secret_of_any_length_makes_a_login(void **state)
{
	static const struct ask one[] = {{"Basic a2V5d2FrZTph", false, KW_HTTP_MAY}};
	static const struct ask two[] = {{"Basic a2V5d2FrZTphYg==", false, KW_HTTP_MAY}};
	static const struct ask three[] = {{"Basic a2V5d2FrZTphYmM=", false, KW_HTTP_MAY}};

	check_asks(kw_slice_text("a"), one, 1);
	check_asks(kw_slice_text("ab"), two, 1);
	check_asks(kw_slice_text("abc"), three, 1);
}

static enum kw_http_verdict judge_host(enum kw_http_reach reach, const char *host)
{
	const struct kw_http_question question = {.host = host};
	struct kw_http_guard guard;

	kw_http_guard_init(&guard, reach, kw_slice(NULL, 0));
	return kw_http_judge(&guard, &question);
}

static void a_port_without_a_secret_answers_to_no_name_of_others(void **state)
{
	static const char *const mine[] = {"127.0.0.1", "127.0.0.1:9121", "localhost",
		"LocalHost:80", "[::1]", "[::1]:9121", "10.0.0.7:1"};
	static const char *const others[] = {"", "evil.example", "evil.example:9121",
		"127.0.0.1.evil.example", "localhost.evil.example:80", "localhost.", "[::1",
		"[evil.example]:80", "::1", ":80", "[::1].evil.example", "[::1]80",
		"127.0.0.1:80.evil.example", "localhost:x",
		"an-overlong-name-that-no-buffer-of-ours-has-room-for.example:9121"};

	for (size_t i = 0; i < sizeof mine / sizeof *mine; i++)
		assert_int_equal(judge_host(KW_HTTP_LOOPBACK, mine[i]), KW_HTTP_MAY);
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		print_message("%s\n", others[i]);
		assert_int_equal(judge_host(KW_HTTP_LOOPBACK, others[i]), KW_HTTP_MISLED);
	}
	assert_int_equal(judge_host(KW_HTTP_LOOPBACK, NULL), KW_HTTP_MISLED);
}

static void no_browser_gets_to_a_unix_socket(void **state)
{
	assert_int_equal(judge_host(KW_HTTP_UNIX, "any"), KW_HTTP_MAY);
	assert_int_equal(judge_host(KW_HTTP_UNIX, NULL), KW_HTTP_MAY);
}

static void addresses_say_who_can_connect(void **state)
{
	static const struct {
		const char *text;
		enum kw_http_reach reach;
	} good[] = {
		{"unix:///run/keywake/proxy.http", KW_HTTP_UNIX},
		{"tcp://127.0.0.1:9121", KW_HTTP_LOOPBACK},
		{"tcp://127.9.9.9:1", KW_HTTP_LOOPBACK},
		{"tcp://localhost:9121", KW_HTTP_LOOPBACK},
		{"tcp://[::1]:65535", KW_HTTP_LOOPBACK},
		{"tcp://0.0.0.0:9121", KW_HTTP_OPEN},
		{"tcp://[::]:9121", KW_HTTP_OPEN},
		{"tcp://128.0.0.1:9121", KW_HTTP_OPEN},
		{"tcp://[::ffff:127.0.0.1]:80", KW_HTTP_OPEN},
	};
	struct kw_http_address address;
	struct kw_error error;

	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		print_message("%s\n", good[i].text);
		assert_int_equal(kw_http_address_parse(good[i].text, &address, &error), 0);
		assert_int_equal(address.reach, good[i].reach);
	}
}

static void other_addresses_are_refused_with_the_remedy(void **state)
{
	static const char *const bad[] = {"9121", ":9121", "http://127.0.0.1:9121", "tcp://",
		"tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:0", "tcp://127.0.0.1:65536",
		"tcp://127.0.0.1:+80", "tcp://127.0.0.1:80 ", "tcp://:80", "tcp://host.example:80",
		"tcp://::1:80", "tcp://[::1:80", "tcp://[]:80", "tcp://[:80", "tcp://]:80",
		"tcp://127.0.0:80", "unix://", "unix://relative.sock"};
	struct kw_error error;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		print_message("%s\n", bad[i]);
		assert_int_equal(kw_http_address_check(bad[i], &error), KW_E_CONFIG);
		assert_non_null(strstr(error.text, "use unix:///path/of.sock or tcp://host:port"));
	}
	assert_int_equal(kw_http_address_check("", &error), 0);
}

static int rule(const char *listen, const char *secret, struct kw_error *error)
{
	static const struct kw_config_key keys[] = {
		{"http.listen", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "", NULL},
		{"http.secret_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "", NULL},
		{0},
	};
	struct kw_config *config = kw_config_new(keys);
	char text[128];
	int code;

	snprintf(text, sizeof text, "http.listen=%s", listen);
	assert_int_equal(kw_config_set(config, text, error), 0);
	snprintf(text, sizeof text, "http.secret_file=%s", secret);
	assert_int_equal(kw_config_set(config, text, error), 0);
	code = kw_http_rule(config, error);
	kw_config_free(config);
	return code;
}

static void a_port_for_other_hosts_needs_a_secret(void **state)
{
	struct kw_error error;

	assert_int_equal(rule("tcp://0.0.0.0:9121", "", &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "set http.secret_file"));
	assert_int_equal(rule("tcp://0.0.0.0:9121", "/etc/keywake/http", &error), 0);
	assert_int_equal(rule("tcp://127.0.0.1:9121", "", &error), 0);
	assert_int_equal(rule("unix:///run/x", "", &error), 0);
	assert_int_equal(rule("", "", &error), 0);
	assert_int_equal(rule("", "/etc/keywake/http", &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "no effect"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_secret_is_proved_in_two_ways),
		cmocka_unit_test(who_does_not_prove_it_is_told_a_word_at_most),
		cmocka_unit_test(a_secret_of_any_length_makes_a_login),
		cmocka_unit_test(a_port_without_a_secret_answers_to_no_name_of_others),
		cmocka_unit_test(no_browser_gets_to_a_unix_socket),
		cmocka_unit_test(addresses_say_who_can_connect),
		cmocka_unit_test(other_addresses_are_refused_with_the_remedy),
		cmocka_unit_test(a_port_for_other_hosts_needs_a_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
