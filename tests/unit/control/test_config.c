/* Configuration: every refusal names place and remedy, and leaves all as it was. */
#include "control/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct kw_config_key keys[] = {
	{"redis.address", KW_CONFIG_TEXT, NULL, false, 0, 0, NULL, "Where the server is."},
	{"redis.username", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "ACL user."},
	{"table.max_bytes", KW_CONFIG_BYTES, "\"1GiB\"", true, 1048576, 1e15, NULL, "Limit."},
	{"poll.idle_us", KW_CONFIG_INTEGER, "1000", true, 10, 1000000, NULL, "Idle interval."},
	{"poll.busy", KW_CONFIG_BOOL, "false", true, 0, 0, NULL, "Never sleep."},
	{"source.share", KW_CONFIG_NUMBER, "0.25", true, 0.01, 1, NULL, "Share."},
	{"listen", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL, "Listeners."},
	{"filter.databases", KW_CONFIG_INTEGERS, "[]", true, 0, 65535, NULL, "Databases."},
	{"table.least", KW_CONFIG_BYTES, "0", true, 4096, 1e15, NULL, "Size; 0: by itself."},
	{"log.level", KW_CONFIG_TEXT, "\"info\"", true, 0, 0, "error|warn|info|debug", "Level."},
	{0},
};

struct fixture {
	struct kw_config *config;
	char file[64];
	struct kw_error error;
	char told[256]; /* paths `changed` was called with */
	const char *refuse;
	char level_seen[16];
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof *fixture);
	int fd;

	strcpy(fixture->file, "/tmp/kw-config-XXXXXX");
	fd = mkstemp(fixture->file);
	assert_true(fd >= 0);
	close(fd);
	fixture->config = kw_config_new(keys);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	unlink(fixture->file);
	kw_config_free(fixture->config);
	free(fixture);
	return 0;
}

static void write_file(const struct fixture *fixture, const char *text)
{
	FILE *file = fopen(fixture->file, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static char *dump(const struct kw_config *config)
{
	struct kw_buffer out = {0};

	kw_config_json(config, NULL, &out);
	kw_buffer_append(&out, "", 1);
	return (char *)out.data;
}

static int changed(void *arg, const char *path, struct kw_error *error)
{
	struct fixture *fixture = arg;
	size_t used = strlen(fixture->told);

	snprintf(fixture->told + used, sizeof fixture->told - used, "%s ", path);
	snprintf(fixture->level_seen, sizeof fixture->level_seen, "%s",
		kw_config_text(fixture->config, "log.level"));
	if (error && fixture->refuse && strcmp(path, fixture->refuse) == 0)
		return kw_error_set(error, KW_E_FULL, "no room for that");
	return 0;
}

/* The sentence holds every word given, and nothing changed. */
static void refuse_load(
	struct fixture *fixture, const char *text, const char *word, const char *more)
{
	char *before = dump(fixture->config), *after;

	write_file(fixture, text);
	memset(&fixture->error, 0, sizeof fixture->error);
	assert_int_equal(
		kw_config_load(fixture->config, fixture->file, &fixture->error), KW_E_CONFIG);
	if (!strstr(fixture->error.text, word) || !strstr(fixture->error.text, more) ||
		!strstr(fixture->error.text, fixture->file))
		fail_msg("not the sentence expected: %s", fixture->error.text);
	after = dump(fixture->config);
	assert_string_equal(before, after);
	free(before);
	free(after);
}

static void refuse_set(struct fixture *fixture, const char *assignment, const char *word)
{
	char *before = dump(fixture->config), *after;

	assert_int_equal(kw_config_set(fixture->config, assignment, &fixture->error), KW_E_CONFIG);
	if (!strstr(fixture->error.text, word))
		fail_msg("not the sentence expected: %s", fixture->error.text);
	after = dump(fixture->config);
	assert_string_equal(before, after);
	free(before);
	free(after);
}

static void fallbacks_hold_until_set(void **state)
{
	struct fixture *fixture = *state;

	assert_string_equal(kw_config_text(fixture->config, "redis.address"), "");
	assert_int_equal(kw_config_integer(fixture->config, "table.max_bytes"), 1 << 30);
	assert_false(kw_config_bool(fixture->config, "poll.busy"));
	assert_true(kw_config_number(fixture->config, "source.share") == 0.25);
	assert_int_equal(kw_config_count(fixture->config, "listen"), 0);
	assert_int_equal(kw_config_complete(fixture->config, &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "redis.address"));
	assert_non_null(strstr(fixture->error.text, "--set redis.address="));
}

static void file_sets_nested_and_dotted_names(void **state)
{
	struct fixture *fixture = *state;

	write_file(fixture,
		"{\"redis\": {\"address\": \"unix:///r\", \"username\": \"u\"},\n"
		" \"poll.idle_us\": 50, \"listen\": \"shm:///s\",\n"
		" \"filter\": {\"databases\": [0, 9]}, \"table\": {\"max_bytes\": \"4 GiB\"}}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, &fixture->error), 0);
	assert_string_equal(kw_config_text(fixture->config, "redis.address"), "unix:///r");
	assert_int_equal(kw_config_integer(fixture->config, "poll.idle_us"), 50);
	assert_int_equal(kw_config_count(fixture->config, "listen"), 1);
	assert_string_equal(kw_config_text_at(fixture->config, "listen", 0), "shm:///s");
	assert_int_equal(kw_config_integer_at(fixture->config, "filter.databases", 1), 9);
	assert_int_equal(kw_config_integer(fixture->config, "table.max_bytes"), INT64_C(4) << 30);
	assert_int_equal(kw_config_complete(fixture->config, &fixture->error), 0);
}

static void file_mistakes_are_refused_whole(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(kw_config_set(fixture->config, "log.level=warn", NULL), 0);
	refuse_load(fixture, "{\n  \"listen\": [\n}", "line 3", "column 1");
	refuse_load(fixture, "[]", "expected one JSON object", "line 1");
	refuse_load(
		fixture, "{\"log\": {\"level\": \"debug\"}, \"log\": {}}", "duplicate", "line 1");
	refuse_load(fixture, "{\"log.level\": \"debug\", \"log\": {\"level\": \"info\"}}", "twice",
		"log.level");
	refuse_load(fixture, "{\"log\": {\"level\": \"debug\"}, \"redis\": {\"adress\": \"x\"}}",
		"unknown key redis.adress", "did you mean redis.address?");
	refuse_load(fixture, "{\"address\": \"x\"}", "address", "did you mean redis.address?");
	refuse_load(fixture, "{\"redis\": {\"zzzzzzzz\": 1}}", "unknown key redis.zzzzzzzz",
		"--help-config");
	refuse_load(fixture, "{\"redis\": 7}", "redis is a group", "redis.KEY");
	refuse_load(fixture, "{\"log\": {\"level\": \"debug\"}, \"table\": {\"max_bytes\": true}}",
		"table.max_bytes", "given true");
	refuse_load(fixture, "{\"table\": {\"max_bytes\": \"16 parsecs\"}}", "16MiB", "parsecs");
	refuse_load(
		fixture, "{\"poll\": {\"idle_us\": \"soon\"}}", "expected an integer", "\"soon\"");
	refuse_load(fixture, "{\"poll\": {\"idle_us\": 1.5}}", "expected an integer", "1.5");
	refuse_load(fixture, "{\"poll\": {\"idle_us\": 9}}", "too small", "at least 10");
	refuse_load(fixture, "{\"source\": {\"share\": 1.5}}", "too large", "at most 1");
	refuse_load(fixture, "{\"filter\": {\"databases\": [1, -1]}}", "too small", "databases");
	refuse_load(fixture, "{\"filter\": {\"databases\": [1, \"a\"]}}", "list of integers", "a");
	refuse_load(fixture, "{\"log\": {\"level\": \"loud\"}}", "error|warn|info|debug", "loud");
	refuse_load(fixture, "{\"redis\": {\"address\": null}}", "expected a text", "null");
	assert_string_equal(kw_config_text(fixture->config, "log.level"), "warn");
}

/* What a later version knows is refused where it says what is followed, shown or deleted. */
static void keys_of_a_later_version_are_refused_only_where_they_matter(void **state)
{
	static const char *const groups[] = {
		"redis", "auth", "tls", "sentinel", "authority", "source", "apply", "filter"};
	struct fixture *fixture = *state;
	char text[100], words[100];

	for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
		snprintf(text, sizeof text, "{\"%s\": {\"qqqqqqqqqq\": {\"a\": 1}}}", groups[i]);
		snprintf(words, sizeof words, "unknown key %s", groups[i]);
		refuse_load(fixture, text, words, groups[i]);
	}
	refuse_load(fixture, "{\"poll\": {\"idel_us\": 50}}", "unknown key poll.idel_us",
		"did you mean poll.idle_us?");
	assert_int_equal(
		kw_config_set(fixture->config, "poll.qqqqqqqq=1", &fixture->error), KW_E_CONFIG);
	write_file(fixture,
		"{\"poll\": {\"idle_us\": 60, \"qqqqqqqq\": 1}, \"vvvvvvvvvv\": {\"redis\": 2}}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, &fixture->error), 0);
	assert_int_equal(kw_config_integer(fixture->config, "poll.idle_us"), 60);
	assert_string_equal(kw_config_passed_over(fixture->config), "poll.qqqqqqqq, vvvvvvvvvv");
	write_file(fixture, "{\"poll\": {\"idle_us\": 60}}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, &fixture->error), 0);
	assert_string_equal(kw_config_passed_over(fixture->config), "");
}

static void file_that_cannot_be_read_is_named(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(
		kw_config_load(fixture->config, "/nowhere/x.json", &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "/nowhere/x.json"));
	assert_int_equal(kw_config_load(fixture->config, "/tmp", &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "not a regular file"));
}

static void set_takes_json_or_text(void **state)
{
	struct fixture *fixture = *state;
	struct kw_config *config = fixture->config;

	assert_int_equal(kw_config_set(config, "redis.address=unix:///a=b", NULL), 0);
	assert_string_equal(kw_config_text(config, "redis.address"), "unix:///a=b");
	assert_int_equal(kw_config_set(config, "redis.username=7", NULL), 0);
	assert_string_equal(kw_config_text(config, "redis.username"), "7");
	assert_int_equal(kw_config_set(config, "redis.username=\"q\"", NULL), 0);
	assert_string_equal(kw_config_text(config, "redis.username"), "q");
	assert_int_equal(kw_config_set(config, "listen=[\"a\",\"b\"]", NULL), 0);
	assert_int_equal(kw_config_count(config, "listen"), 2);
	assert_int_equal(kw_config_set(config, "listen=tcp://h:1", NULL), 0);
	assert_string_equal(kw_config_text_at(config, "listen", 0), "tcp://h:1");
	assert_int_equal(kw_config_set(config, "filter.databases=5", NULL), 0);
	assert_int_equal(kw_config_integer_at(config, "filter.databases", 0), 5);
	assert_int_equal(kw_config_set(config, "poll.busy=true", NULL), 0);
	assert_true(kw_config_bool(config, "poll.busy"));
	assert_int_equal(kw_config_set(config, "poll.idle_us=\"20\"", NULL), 0);
	assert_int_equal(kw_config_integer(config, "poll.idle_us"), 20);
	refuse_set(fixture, "poll.idle_us", "KEY=VALUE");
	refuse_set(fixture, "=1", "KEY=VALUE");
	refuse_set(fixture, "poll.idle=1", "did you mean poll.idle_us?");
	refuse_set(fixture, "listen=[\"a\"", "not a JSON list");
	refuse_set(fixture, "poll.busy=perhaps", "expected true or false");
	refuse_set(fixture, "redis.username=\xff", "UTF-8");
}

static void byte_units_mean_what_they_say(void **state)
{
	static const struct {
		const char *text;
		int64_t bytes;
	} cases[] = {
		{"table.max_bytes=2097152", 2097152},
		{"table.max_bytes=2048k", 2097152},
		{"table.max_bytes=2M", 2097152},
		{"table.max_bytes=2MiB", 2097152},
		{"table.max_bytes=2 MiB", 2097152},
		{"table.max_bytes=2048KiB", 2097152},
		{"table.max_bytes=2MB", 2000000},
		{"table.max_bytes=2000kB", 2000000},
		{"table.max_bytes=3G", INT64_C(3) << 30},
		{"table.max_bytes=3GB", INT64_C(3000000000)},
		{"table.max_bytes=1.5GiB", INT64_C(3) << 29},
		{"table.max_bytes=1TiB", INT64_C(1) << 40},
		{"table.max_bytes=1T", INT64_C(1) << 40},
	};
	struct fixture *fixture = *state;

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_int_equal(kw_config_set(fixture->config, cases[i].text, &fixture->error), 0);
		assert_int_equal(
			kw_config_integer(fixture->config, "table.max_bytes"), cases[i].bytes);
	}
	refuse_set(fixture, "table.max_bytes=99999999999999999999", "expected a number of bytes");
	refuse_set(fixture, "table.max_bytes=9999999999TiB", "expected a number of bytes");
	refuse_set(fixture, "table.max_bytes=-5", "expected a number of bytes");
	refuse_set(fixture, "table.max_bytes=4GiBs", "expected a number of bytes");
	refuse_set(fixture, "table.max_bytes=.5GiB", "expected a number of bytes");
	refuse_set(fixture, "table.max_bytes=", "expected a number of bytes");
	refuse_set(fixture, "table.max_bytes=1kB", "too small");
}

static void assignments_win_over_the_file(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(kw_config_set(fixture->config, "log.level=warn", NULL), 0);
	write_file(fixture, "{\"log\": {\"level\": \"debug\"}, \"poll\": {\"idle_us\": 77}}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, NULL), 0);
	assert_string_equal(kw_config_text(fixture->config, "log.level"), "warn");
	assert_int_equal(kw_config_integer(fixture->config, "poll.idle_us"), 77);
}

static void reload_tells_changes_and_names_what_needs_a_restart(void **state)
{
	struct fixture *fixture = *state;
	struct kw_buffer notes = {0};

	write_file(fixture, "{\"redis.address\": \"unix:///a\"}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, NULL), 0);
	write_file(fixture,
		"{\"redis.address\": \"unix:///b\", \"listen\": [\"x\"], \"log.level\": "
		"\"debug\", \"poll.idle_us\": 99}");
	assert_int_equal(
		kw_config_reload(fixture->config, changed, fixture, &notes, &fixture->error), 0);
	assert_string_equal(fixture->told, "poll.idle_us log.level ");
	assert_string_equal(fixture->level_seen, "debug");
	kw_buffer_append(&notes, "", 1);
	assert_string_equal((const char *)kw_buffer_bytes(&notes), "redis.address, listen");
	assert_string_equal(kw_config_text(fixture->config, "redis.address"), "unix:///a");
	assert_int_equal(kw_config_integer(fixture->config, "poll.idle_us"), 99);
	kw_buffer_close(&notes);
}

static void refused_reload_changes_nothing(void **state)
{
	struct fixture *fixture = *state;
	char *before, *after;

	write_file(fixture, "{\"redis.address\": \"unix:///a\"}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, NULL), 0);
	before = dump(fixture->config);
	write_file(fixture, "{\"redis.address\": \"unix:///a\", \"log.level\": 1}");
	assert_int_equal(kw_config_reload(fixture->config, changed, fixture, NULL, &fixture->error),
		KW_E_CONFIG);
	write_file(fixture, "{\"log.level\": \"debug\"}");
	assert_int_equal(kw_config_reload(fixture->config, changed, fixture, NULL, &fixture->error),
		KW_E_CONFIG);
	assert_string_equal(fixture->told, "");
	/* The second of two changes is refused by its owner: the first is taken back. */
	write_file(fixture, "{\"redis.address\": \"unix:///a\", \"log.level\": \"debug\", "
			    "\"poll.idle_us\": 99}");
	fixture->refuse = "log.level";
	assert_int_equal(kw_config_reload(fixture->config, changed, fixture, NULL, &fixture->error),
		KW_E_FULL);
	assert_string_equal(fixture->told, "poll.idle_us log.level poll.idle_us ");
	assert_string_equal(fixture->level_seen, "info");
	assert_string_equal(fixture->error.text, "log.level: no room for that");
	after = dump(fixture->config);
	assert_string_equal(before, after);
	free(before);
	free(after);
}

static void change_takes_live_keys_only(void **state)
{
	struct fixture *fixture = *state;
	struct kw_config *config = fixture->config;

	assert_int_equal(kw_config_set(config, "redis.address=a", NULL), 0);
	assert_int_equal(kw_config_change(config, "log.level", "debug", changed, fixture, NULL), 0);
	assert_string_equal(fixture->told, "log.level ");
	/* The same value again is no change. */
	assert_int_equal(
		kw_config_change(config, "log.level", "\"debug\"", changed, fixture, NULL), 0);
	assert_string_equal(fixture->told, "log.level ");
	assert_int_equal(
		kw_config_change(config, "redis.address", "b", changed, fixture, &fixture->error),
		KW_E_STATE);
	assert_non_null(strstr(fixture->error.text, "start again"));
	assert_int_equal(
		kw_config_change(config, "log.levl", "debug", changed, fixture, &fixture->error),
		KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "log.level"));
	fixture->refuse = "log.level";
	assert_int_equal(
		kw_config_change(config, "log.level", "warn", changed, fixture, &fixture->error),
		KW_E_FULL);
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
}

static void json_shows_all_a_group_or_a_key(void **state)
{
	struct fixture *fixture = *state;
	struct kw_buffer out = {0};

	kw_config_json(fixture->config, "poll", &out);
	kw_config_json(fixture->config, "log.level", &out);
	kw_config_json(fixture->config, "redis.address", &out);
	kw_config_json(fixture->config, "nonsense", &out);
	kw_buffer_append(&out, "", 1);
	assert_string_equal((const char *)kw_buffer_bytes(&out),
		"{\"idle_us\":1000,\"busy\":false}\"info\"nullnull");
	kw_buffer_close(&out);
	assert_int_equal(kw_config_check_path(fixture->config, "poll", NULL), 0);
	assert_int_equal(
		kw_config_check_path(fixture->config, "pol", &fixture->error), KW_E_CONFIG);
}

static void manual_names_every_key(void **state)
{
	struct kw_buffer text = {0}, scdoc = {0};

	kw_config_manual(keys, "keywake-test", KW_CONFIG_FORM_TEXT, &text);
	kw_config_manual(keys, "keywake-test", KW_CONFIG_FORM_SCDOC, &scdoc);
	kw_buffer_append(&text, "", 1);
	kw_buffer_append(&scdoc, "", 1);
	for (const struct kw_config_key *key = keys; key->path; key++)
		assert_non_null(strstr((const char *)text.data, key->path));
	assert_non_null(strstr((const char *)text.data, "required"));
	assert_non_null(strstr((const char *)text.data, "from 10 to 1000000"));
	assert_non_null(strstr((const char *)text.data, "error, warn, info, debug"));
	assert_non_null(strstr((const char *)scdoc.data, "*table\\.max\\_bytes*"));
	kw_buffer_close(&text);
	kw_buffer_close(&scdoc);
}

static void the_table_has_a_row_for_each_key(void **state)
{
	static const char *const rows[] = {
		"## keywake-test\n",
		"| `redis.address`<br>`KEYWAKE_REDIS_ADDRESS` | text | required | at a start | "
		"Where",
		"| `poll.idle_us`<br>`KEYWAKE_POLL_IDLE_US` | integer, µs, from 10 to 1000000 | "
		"`1000` "
		"| while running | Idle interval. |\n",
		" | number, share of 1, from 0.01 to 1 | `0.25` | ",
		" | bytes, from 1048576 to 1e+15 | `\"1GiB\"` | ",
		" | text: error, warn, info, debug | `\"info\"` | ",
		" | list of texts | `[]` | ",
	};
	struct kw_buffer text = {0};

	kw_config_manual(keys, "keywake-test", KW_CONFIG_FORM_MARKDOWN, &text);
	kw_buffer_append(&text, "", 1);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (!strstr((const char *)text.data, rows[i]))
			fail_msg("no %s in %s", rows[i], (const char *)text.data);
	kw_buffer_close(&text);
}

static void secrets_are_read_and_refused(void **state)
{
	struct fixture *fixture = *state;
	struct kw_buffer secret = {0};

	assert_int_equal(kw_secret_load("", &secret, &fixture->error), 0);
	assert_int_equal(kw_buffer_length(&secret), 0);
	write_file(fixture, "s3cret\n\n");
	assert_int_equal(chmod(fixture->file, 0640), 0);
	assert_int_equal(kw_secret_load(fixture->file, &secret, &fixture->error), 0);
	assert_int_equal(kw_buffer_length(&secret), 6);
	assert_memory_equal(kw_buffer_bytes(&secret), "s3cret", 6);
	assert_int_equal(chmod(fixture->file, 0644), 0);
	assert_int_equal(kw_secret_load(fixture->file, &secret, &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "chmod o-rwx"));
	assert_int_equal(kw_buffer_length(&secret), 0);
	assert_int_equal(chmod(fixture->file, 0660), 0);
	assert_int_equal(kw_secret_load(fixture->file, &secret, &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "chmod g-w"));
	assert_int_equal(chmod(fixture->file, 0600), 0);
	write_file(fixture, "\n");
	assert_int_equal(kw_secret_load(fixture->file, &secret, &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "empty"));
	assert_int_equal(truncate(fixture->file, 4097), 0);
	assert_int_equal(kw_secret_load(fixture->file, &secret, &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "4096"));
	assert_int_equal(kw_secret_load("/nowhere/s", &secret, &fixture->error), KW_E_CONFIG);
	kw_buffer_close(&secret);
}

/* What is shown can be written: a fallback that lies outside the bounds, too. */
static void what_is_shown_can_be_written(void **state)
{
	struct fixture *fixture = *state;
	struct kw_buffer shown = {0};

	assert_int_equal(kw_config_set(fixture->config, "redis.address=unix:///a", NULL), 0);
	kw_config_json(fixture->config, NULL, &shown);
	kw_buffer_append(&shown, "", 1);
	write_file(fixture, (const char *)kw_buffer_bytes(&shown));
	assert_int_equal(kw_config_load(fixture->config, fixture->file, &fixture->error), 0);
	assert_int_equal(kw_config_integer(fixture->config, "table.least"), 0);
	refuse_set(fixture, "table.least=1", "too small");
	kw_buffer_close(&shown);
}

/* What a doctor was called with. */
static const struct kw_config *examined;
static struct kw_config_mistakes examined_mistakes;

static int examine(const struct kw_config *config, const struct kw_config_mistakes *mistakes)
{
	examined = config;
	examined_mistakes = *mistakes;
	return 7;
}

static int command_line(struct fixture *fixture, ...)
{
	char *argv[8] = {NULL};
	int argc = 0;
	va_list args;

	argv[argc++] = (char *)"keywake-test";
	va_start(args, fixture);
	while (argc < 8 && (argv[argc] = va_arg(args, char *)))
		argc++;
	va_end(args);
	return kw_config_command_line(fixture->config,
		&(struct kw_config_program){
			.name = "keywake-test", .keys = keys, .doctor = examine},
		argc, argv);
}

static void command_line_reads_file_then_assignments(void **state)
{
	struct fixture *fixture = *state;
	char config[80];

	write_file(fixture, "{\"redis.address\": \"unix:///a\", \"log.level\": \"warn\"}");
	snprintf(config, sizeof config, "--config=%s", fixture->file);
	assert_int_equal(command_line(fixture, "--set", "log.level=debug", config, NULL), -1);
	assert_string_equal(kw_config_text(fixture->config, "log.level"), "debug");
	assert_string_equal(kw_config_text(fixture->config, "redis.address"), "unix:///a");
}

static void command_line_ends_where_it_should(void **state)
{
	struct fixture *fixture = *state;

	assert_int_equal(command_line(fixture, "--help", NULL), 0);
	assert_int_equal(command_line(fixture, "--help-config", NULL), 0);
	assert_int_equal(command_line(fixture, "--help-config=scdoc", NULL), 0);
	assert_int_equal(command_line(fixture, "--help-config=markdown", NULL), 0);
	assert_int_equal(command_line(fixture, "--help-config=roff", NULL), 2);
	assert_int_equal(command_line(fixture, "--version", NULL), 0);
	assert_int_equal(command_line(fixture, NULL), 2); /* redis.address is missing */
	assert_int_equal(command_line(fixture, "--check-config", NULL), 2);
	assert_int_equal(command_line(fixture, "--sett", NULL), 2);
	assert_int_equal(command_line(fixture, "--set", NULL), 2);
	assert_int_equal(command_line(fixture, "--check-config=1", NULL), 2);
	assert_int_equal(command_line(fixture, "--config", "/nowhere", NULL), 2);
	assert_int_equal(command_line(fixture, "stray", NULL), 2);
	assert_int_equal(
		command_line(fixture, "--check-config", "--set", "redis.address=x", NULL), 0);
}

static void a_doctor_is_given_what_could_be_read(void **state)
{
	struct fixture *fixture = *state;
	char config[80];

	assert_int_equal(command_line(fixture, "--doctor", NULL), 7);
	assert_ptr_equal(examined, fixture->config);
	assert_int_equal(examined_mistakes.count, 1); /* redis.address is missing */
	assert_int_equal(command_line(fixture, "--doctor", "--set", "redis.address=x", NULL), 7);
	assert_int_equal(examined_mistakes.count, 0);
	snprintf(config, sizeof config, "--config=%s", fixture->file);
	write_file(fixture, "{");
	assert_int_equal(command_line(fixture, "--doctor", config, NULL), 7);
	assert_null(examined);
	assert_int_equal(examined_mistakes.count, 1);
	assert_int_equal(command_line(fixture, "--doctor=1", NULL), 2);
}

static void a_doctor_is_told_every_mistake_of_a_file(void **state)
{
	struct fixture *fixture = *state;
	char config[80];

	write_file(fixture, "{\"redis\": {\"adress\": \"x\"}, \"poll\": {\"idle_us\": 1}, "
			    "\"log\": {\"level\": \"warn\"}, \"listen\": 3}");
	snprintf(config, sizeof config, "--config=%s", fixture->file);
	assert_int_equal(command_line(fixture, "--doctor", config, NULL), 7);
	assert_ptr_equal(examined, fixture->config);
	assert_int_equal(examined_mistakes.count, 4);
	assert_non_null(strstr(examined_mistakes.list[0].text, "redis.address"));
	assert_non_null(strstr(examined_mistakes.list[1].text, "too small"));
	assert_non_null(strstr(examined_mistakes.list[2].text, "listen"));
	assert_non_null(strstr(examined_mistakes.list[3].text, "redis.address is missing"));
	assert_string_equal(kw_config_text(examined, "log.level"), "warn");
	assert_int_equal(kw_config_integer(examined, "poll.idle_us"), 1000);
	assert_int_equal(command_line(fixture, "--check-config", config, NULL), 2);
	/* Who starts is refused at the first. */
	assert_int_equal(command_line(fixture, config, NULL), 2);
}

static int loud_needs_tcp(const struct kw_config *config, struct kw_error *error)
{
	if (strcmp(kw_config_text(config, "log.level"), "debug") != 0 ||
		*kw_config_text(config, "redis.address") == 't')
		return 0;
	return kw_error_set(error, KW_E_CONFIG, "log.level: debug goes with tcp only");
}

static void a_rule_is_asked_once_all_is_read(void **state)
{
	struct fixture *fixture = *state;

	kw_config_set_rule(fixture->config, loud_needs_tcp);
	assert_int_equal(command_line(fixture, "--check-config", "--set", "log.level=debug",
				 "--set", "redis.address=unix:///a", NULL),
		2);
	assert_int_equal(kw_config_complete(fixture->config, &fixture->error), KW_E_CONFIG);
	assert_non_null(strstr(fixture->error.text, "debug goes with tcp only"));
	assert_int_equal(command_line(fixture, "--set", "redis.address=tcp://a:1", NULL), -1);
}

static int long_idling_is_not_busy(const struct kw_config *config, struct kw_error *error)
{
	if (kw_config_bool(config, "poll.busy") && kw_config_integer(config, "poll.idle_us") > 500)
		return kw_error_set(error, KW_E_CONFIG, "poll.busy: not with so long a pause");
	return loud_needs_tcp(config, error);
}

static void change_refuse(struct fixture *fixture, const char *path, const char *value)
{
	char *before = dump(fixture->config), *after;

	fixture->told[0] = '\0';
	assert_int_equal(
		kw_config_change(fixture->config, path, value, changed, fixture, &fixture->error),
		KW_E_CONFIG);
	after = dump(fixture->config);
	assert_string_equal(before, after);
	assert_string_equal(fixture->told, "");
	free(before);
	free(after);
}

static void a_running_daemon_keeps_the_rule(void **state)
{
	struct fixture *fixture = *state;
	struct kw_config *config = fixture->config;

	kw_config_set_rule(config, long_idling_is_not_busy);
	assert_int_equal(kw_config_set(config, "redis.address=unix:///a", NULL), 0);
	change_refuse(fixture, "poll.busy", "true");
	assert_string_equal(fixture->error.text, "poll.busy: not with so long a pause");
	assert_int_equal(
		kw_config_change(config, "poll.idle_us", "500", changed, fixture, NULL), 0);
	assert_int_equal(kw_config_change(config, "poll.busy", "true", changed, fixture, NULL), 0);
	change_refuse(fixture, "poll.idle_us", "501");
}

static void reload_refuse(struct fixture *fixture, const char *text, const char *word)
{
	char *before = dump(fixture->config), *after;

	write_file(fixture, text);
	fixture->told[0] = '\0';
	assert_int_equal(kw_config_reload(fixture->config, changed, fixture, NULL, &fixture->error),
		KW_E_CONFIG);
	if (!strstr(fixture->error.text, word))
		fail_msg("not the sentence expected: %s", fixture->error.text);
	after = dump(fixture->config);
	assert_string_equal(before, after);
	assert_string_equal(fixture->told, "");
	free(before);
	free(after);
}

static void a_reload_keeps_the_rule_now_and_for_the_next_start(void **state)
{
	struct fixture *fixture = *state;

	kw_config_set_rule(fixture->config, long_idling_is_not_busy);
	write_file(fixture, "{\"redis.address\": \"tcp://a:1\", \"log.level\": \"debug\"}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, NULL), 0);
	reload_refuse(fixture, "{\"redis.address\": \"tcp://a:1\", \"poll.busy\": true}",
		"poll.busy: not with");
	/* It could go on, its address being fixed, but not start again. */
	reload_refuse(fixture, "{\"redis.address\": \"unix:///a\", \"log.level\": \"debug\"}",
		"log.level: debug goes with tcp only");
	/* It could start again, but not go on. */
	write_file(fixture, "{\"redis.address\": \"unix:///a\"}");
	assert_int_equal(kw_config_load(fixture->config, fixture->file, NULL), 0);
	reload_refuse(fixture, "{\"redis.address\": \"tcp://a:1\", \"log.level\": \"debug\"}",
		"only a restart takes up: log.level: debug goes");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(fallbacks_hold_until_set),
		TEST(a_rule_is_asked_once_all_is_read),
		TEST(a_running_daemon_keeps_the_rule),
		TEST(a_reload_keeps_the_rule_now_and_for_the_next_start),
		TEST(file_sets_nested_and_dotted_names),
		TEST(file_mistakes_are_refused_whole),
		TEST(keys_of_a_later_version_are_refused_only_where_they_matter),
		TEST(file_that_cannot_be_read_is_named),
		TEST(set_takes_json_or_text),
		TEST(byte_units_mean_what_they_say),
		TEST(assignments_win_over_the_file),
		TEST(reload_tells_changes_and_names_what_needs_a_restart),
		TEST(refused_reload_changes_nothing),
		TEST(change_takes_live_keys_only),
		TEST(json_shows_all_a_group_or_a_key),
		TEST(manual_names_every_key),
		TEST(the_table_has_a_row_for_each_key),
		TEST(secrets_are_read_and_refused),
		TEST(command_line_reads_file_then_assignments),
		TEST(command_line_ends_where_it_should),
		TEST(what_is_shown_can_be_written),
		TEST(a_doctor_is_given_what_could_be_read),
		TEST(a_doctor_is_told_every_mistake_of_a_file),
	};

	return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
