/* The environment is one more source of keys, by one rule, and a mistake in it is not passed over.
 */
#include "control/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kw_config_key keys[] = {
	{"control.saved_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "Saved."},
	{"redis.address", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "Where the server is."},
	{"redis.tls.ca", KW_CONFIG_TEXT, "\"ca\"", false, 0, 0, NULL, "Certificates."},
	{"poll.idle_us", KW_CONFIG_INTEGER, "1000", true, 10, 1000000, NULL, "Idle interval."},
	{"table.max_bytes", KW_CONFIG_BYTES, "1", true, 0, 1e15, NULL, "Limit."},
	{"listen", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL, "Listeners."},
	{"proxy", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL, "Proxies."},
	{"log.level", KW_CONFIG_TEXT, "\"info\"", true, 0, 0, "warn|info|debug", "Level."},
	{0},
};

static struct kw_error error;

static struct kw_config *take(const char *const *environment)
{
	struct kw_config *config = kw_config_new(keys);

	memset(&error, 0, sizeof error);
	if (kw_config_load_environment(config, environment, &error) != KW_OK) {
		fail_msg("refused: %s", error.text);
	}
	return config;
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void a_variable_is_the_key_in_capitals_with_an_underscore_for_each_dot(void **state)
{
	const char *environment[] = {"PATH=/bin", "KEYWAKE_REDIS_ADDRESS=tcp://a:1",
		"KEYWAKE_REDIS_TLS_CA=/ca=1", "KEYWAKE_POLL_IDLE_US=20",
		"KEYWAKE_TABLE_MAX_BYTES=16MiB", "KEYWAKE_LISTEN=tcp://b:2",
		"KEYWAKE_PROXY=[\"tcp://c:3\", \"tcp://d:4\"]", NULL};
	struct kw_config *config = take(environment);

	assert_string_equal(kw_config_text(config, "redis.address"), "tcp://a:1");
	assert_string_equal(kw_config_text(config, "redis.tls.ca"), "/ca=1");
	assert_int_equal(kw_config_integer(config, "poll.idle_us"), 20);
	assert_int_equal(kw_config_integer(config, "table.max_bytes"), 16 << 20);
	assert_int_equal(kw_config_count(config, "listen"), 1);
	assert_string_equal(kw_config_text_at(config, "proxy", 1), "tcp://d:4");
	assert_string_equal(kw_config_passed_over(config), "");
	kw_config_free(config);
}

static void an_empty_variable_is_none_and_an_empty_text_is_written_as_json(void **state)
{
	const char *environment[] = {
		"KEYWAKE_POLL_IDLE_US=", "KEYWAKE_REDIS_TLS_CA=", "KEYWAKE_LOG_LEVEL", NULL};
	const char *quoted[] = {"KEYWAKE_REDIS_TLS_CA=\"\"", NULL};
	struct kw_config *config = take(environment);

	assert_int_equal(kw_config_integer(config, "poll.idle_us"), 1000);
	assert_string_equal(kw_config_text(config, "redis.tls.ca"), "ca");
	kw_config_free(config);
	config = take(quoted);
	assert_string_equal(kw_config_text(config, "redis.tls.ca"), "");
	kw_config_free(config);
}

/* File, environment, saved values, --set: each counts over those before it, at a reload too. */
static void it_counts_over_the_file_and_under_what_was_saved(void **state)
{
	char file[] = "/tmp/kw-environment-XXXXXX", saved[80], set[120];
	const char *environment[] = {saved, "KEYWAKE_REDIS_ADDRESS=environment",
		"KEYWAKE_REDIS_TLS_CA=environment", "KEYWAKE_POLL_IDLE_US=20",
		"KEYWAKE_LOG_LEVEL=debug", NULL};
	struct kw_config *config = kw_config_new(keys);
	int fd = mkstemp(file);

	assert_true(fd >= 0 && close(fd) == 0);
	snprintf(saved, sizeof saved, "KEYWAKE_CONTROL_SAVED_FILE=%s.saved", file);
	snprintf(set, sizeof set, "%s.saved", file);
	write_text(set, "{\"poll.idle_us\": 30, \"log.level\": \"warn\"}");
	write_text(
		file, "{\"redis.address\": \"file\", \"poll.idle_us\": 10, \"listen\": \"file\"}");
	assert_int_equal(kw_config_load(config, file, &error), KW_OK);
	assert_int_equal(kw_config_load_environment(config, environment, &error), KW_OK);
	environment[1] = environment[2] = "KEYWAKE_REDIS_ADDRESS=a copy was taken";
	assert_int_equal(kw_config_set(config, "log.level=info", &error), KW_OK);
	assert_int_equal(kw_config_load_saved(config, &error), KW_OK);
	for (int i = 0; i < 2; i++) {
		assert_string_equal(kw_config_text_at(config, "listen", 0), "file");
		assert_string_equal(kw_config_text(config, "redis.address"), "environment");
		assert_string_equal(kw_config_text(config, "redis.tls.ca"), "environment");
		assert_int_equal(kw_config_integer(config, "poll.idle_us"), 30);
		assert_string_equal(kw_config_text(config, "log.level"), "info");
		assert_int_equal(kw_config_reload(config, NULL, NULL, NULL, &error), KW_OK);
	}
	/* The remedy leads to where the value comes from. */
	assert_int_equal(
		kw_config_change(config, "redis.address", "x", NULL, NULL, &error), KW_E_STATE);
	assert_non_null(strstr(error.text, "set it in the environment and"));
	assert_int_equal(kw_config_change(config, "listen", "x", NULL, NULL, &error), KW_E_STATE);
	assert_non_null(strstr(error.text, file));
	kw_config_free(config);
	unlink(file);
	unlink(set);
}

static void a_wrong_value_names_variable_and_key(void **state)
{
	const char *environment[] = {"KEYWAKE_POLL_IDLE_US=often", NULL};
	struct kw_config *config = kw_config_new(keys);

	assert_int_equal(kw_config_load_environment(config, environment, &error), KW_E_CONFIG);
	assert_non_null(
		strstr(error.text, "KEYWAKE_POLL_IDLE_US in the environment: poll.idle_us"));
	assert_int_equal(kw_config_integer(config, "poll.idle_us"), 1000);
	kw_config_free(config);
}

/* As in a file: a typo and a weighty group are refused, what a later version may know is named. */
static void an_unknown_name_is_judged_as_a_key_of_a_file(void **state)
{
	static const struct {
		const char *variable;
		const char *said; /* NULL: passed over */
		const char *named;
	} cases[] = {
		{"KEYWAKE_REDIS_ADRESS=x", "did you mean KEYWAKE_REDIS_ADDRESS?", ""},
		{"KEYWAKE_LISTENS=x", "did you mean KEYWAKE_LISTEN?", ""},
		{"KEYWAKE_redis_address=x", "no key has this name", ""},
		{"KEYWAKE_REDIS_PASSWORD=hunter2", "no key has this name", ""},
		{"KEYWAKE_APPLY_SOMETHING_ELSE=x", "no key has this name", ""},
		{"KEYWAKE_WEATHER=fine", NULL, "KEYWAKE_WEATHER"},
		{"KEYWAKE_WEATHER", NULL, "KEYWAKE_WEATHER"},
		{"KEYWAKE_=x", NULL, "KEYWAKE_"},
		{"KEYWAKE=x", NULL, ""},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *environment[] = {cases[i].variable, NULL};
		struct kw_config *config = kw_config_new(keys);
		int code = kw_config_load_environment(config, environment, &error);

		assert_int_equal(code, cases[i].said ? KW_E_CONFIG : KW_OK);
		if (code && !strstr(error.text, cases[i].said))
			fail_msg("not the sentence expected: %s", error.text);
		assert_null(code ? strstr(error.text, "hunter2") : NULL);
		if (!code)
			assert_string_equal(kw_config_passed_over(config), cases[i].named);
		kw_config_free(config);
	}
}

/* A service `keywake-redis` in the namespace must not keep the daemons from starting. */
static void names_that_kubernetes_makes_of_services_are_not_ours(void **state)
{
	const char *environment[] = {"KEYWAKE_REDIS_SERVICE_HOST=10.0.0.1",
		"KEYWAKE_REDIS_SERVICE_PORT=6379", "KEYWAKE_REDIS_SERVICE_PORT_MAIN=6379",
		"KEYWAKE_REDIS_PORT=tcp://10.0.0.1:6379",
		"KEYWAKE_REDIS_PORT_6379_TCP=tcp://10.0.0.1:6379",
		"KEYWAKE_REDIS_PORT_6379_TCP_PROTO=tcp", "KEYWAKE_REDIS_PORT_6379_TCP_PORT=6379",
		"KEYWAKE_REDIS_PORT_6379_TCP_ADDR=10.0.0.1", "KEYWAKE_PORT=tcp://10.0.0.2:1",
		"KEYWAKE_SERVICE_HOST=10.0.0.2", "KEYWAKE_SOCKET=/run/keywake/agent.sock", NULL};
	struct kw_config *config = take(environment);

	assert_string_equal(kw_config_passed_over(config), "");
	kw_config_free(config);
}

static void too_many_variables_are_refused(void **state)
{
	enum { MANY = 1025 };
	static char names[MANY][32];
	static const char *environment[MANY + 1];
	struct kw_config *config = kw_config_new(keys);

	for (int i = 0; i < MANY; i++) {
		snprintf(names[i], sizeof names[i], "KEYWAKE_WEATHER_OF_%d=x", i);
		environment[i] = names[i];
	}
	assert_int_equal(kw_config_load_environment(config, environment, &error), KW_E_CONFIG);
	assert_non_null(strstr(error.text, "put the configuration into a file"));
	kw_config_free(config);
}

static void a_name_of_any_length_is_refused_or_passed_over(void **state)
{
	static char longest[1 << 16];
	const char *environment[] = {longest, NULL};
	struct kw_config *config = kw_config_new(keys);

	memset(longest, 'A', sizeof longest - 1);
	memcpy(longest, "KEYWAKE_APPLY_", 14);
	assert_int_equal(kw_config_load_environment(config, environment, &error), KW_E_CONFIG);
	kw_config_free(config);
}

static void the_manual_tells_the_rule(void **state)
{
	struct kw_buffer text = {0};

	kw_config_manual(keys, "keywake-test", KW_CONFIG_FORM_TEXT, &text);
	kw_buffer_append(&text, "", 1);
	assert_non_null(strstr((const char *)kw_buffer_bytes(&text),
		"KEYWAKE_CONTROL_SAVED_FILE is control.saved_file"));
	kw_buffer_close(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_variable_is_the_key_in_capitals_with_an_underscore_for_each_dot),
		cmocka_unit_test(an_empty_variable_is_none_and_an_empty_text_is_written_as_json),
		cmocka_unit_test(it_counts_over_the_file_and_under_what_was_saved),
		cmocka_unit_test(a_wrong_value_names_variable_and_key),
		cmocka_unit_test(an_unknown_name_is_judged_as_a_key_of_a_file),
		cmocka_unit_test(names_that_kubernetes_makes_of_services_are_not_ours),
		cmocka_unit_test(too_many_variables_are_refused),
		cmocka_unit_test(a_name_of_any_length_is_refused_or_passed_over),
		cmocka_unit_test(the_manual_tells_the_rule),
	};

	return cmocka_run_group_tests_name("config environment", tests, NULL, NULL);
}
