/* Files with comments that include others: what is read later counts, and each mistake has a file.
 */
#include "control/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct kw_config_key keys[] = {
	{"redis.address", KW_CONFIG_TEXT, NULL, false, 0, 0, NULL, "Where the server is."},
	{"poll.idle_us", KW_CONFIG_INTEGER, "1000", true, 10, 1000000, NULL, "Idle interval."},
	{"listen", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL, "Listeners."},
	{"log.level", KW_CONFIG_TEXT, "\"info\"", true, 0, 0, "error|warn|info|debug", "Level."},
	{0},
};

struct place {
	char folder[40], file[80]; /* file: the main one */
	struct kw_config *config;
	struct kw_error error;
};

static const char *path_of(const struct place *place, const char *name)
{
	static char paths[4][128];
	static unsigned next;
	char *path = paths[next++ % 4];

	snprintf(path, sizeof paths[0], "%s/%s", place->folder, name);
	return path;
}

static void put(const struct place *place, const char *name, const char *text)
{
	FILE *file = fopen(path_of(place, name), "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof *place);

	strcpy(place->folder, "/tmp/kw-include-[x]-XXXXXX"); /* a folder is no pattern */
	assert_non_null(mkdtemp(place->folder));
	assert_int_equal(mkdir(path_of(place, "d"), 0700), 0);
	snprintf(place->file, sizeof place->file, "%s/main.json", place->folder);
	place->config = kw_config_new(keys);
	*state = place;
	return 0;
}

static int delete_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
	return remove(path);
}

static int teardown(void **state)
{
	struct place *place = *state;

	assert_int_equal(nftw(place->folder, delete_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	kw_config_free(place->config);
	free(place);
	return 0;
}

static void load(struct place *place, const char *text)
{
	put(place, "main.json", text);
	if (kw_config_load(place->config, place->file, &place->error))
		fail_msg("refused: %s", place->error.text);
}

/* The sentence has both words, and nothing changed. */
static void refuse(struct place *place, const char *text, const char *word, const char *more)
{
	put(place, "main.json", text);
	assert_int_equal(kw_config_load(place->config, place->file, &place->error), KW_E_CONFIG);
	if (!strstr(place->error.text, word) || !strstr(place->error.text, more))
		fail_msg("not the sentence expected: %s", place->error.text);
	assert_string_equal(kw_config_text(place->config, "log.level"), "info");
}

static int64_t idle_us(const struct place *place)
{
	return kw_config_integer(place->config, "poll.idle_us");
}

static void a_file_may_have_comments(void **state)
{
	struct place *place = *state;

	load(place,
		"// The proxy of db-1.\n{\n\t\"redis\": {\"address\": \"unix:///r\"}, /* local */\n"
		"\t\"listen\": [\n\t\t\"tcp://a:1\", // \"tcp://b:1\"\n\t],\n}\n");
	assert_string_equal(kw_config_text(place->config, "redis.address"), "unix:///r");
	assert_int_equal(kw_config_count(place->config, "listen"), 1);
	assert_string_equal(kw_config_text_at(place->config, "listen", 0), "tcp://a:1");
}

static void a_mistake_after_comments_has_the_place_that_a_person_sees(void **state)
{
	struct place *place = *state;

	refuse(place, "// one\n/* two\n three */ {\n\"log\": /* \xc3\xa4 */ x}",
		"line 4, column 16", "main.json");
	refuse(place, "{\n  /* \"log\": 1 }\n", "line 2, column 3", "close it by */");
	refuse(place, "// nothing else\n", "not JSON", "line");
	refuse(place, "{\"log\": # no\n}", "line 1", "not JSON");
}

static void included_files_count_in_the_order_in_which_they_are_read(void **state)
{
	struct place *place = *state;

	put(place, "d/50-local.json", "{\"poll.idle_us\": 50} // later");
	put(place, "d/10-site.json", "{\"poll\": {\"idle_us\": 20}, \"log.level\": \"warn\"}");
	put(place, "d/.hidden.json", "{\"poll.idle_us\": 1}");
	put(place, "d/60-local.json.off", "{\"poll.idle_us\": 1}");
	load(place, "{\"include\": \"d/*.json\", \"poll.idle_us\": 10, \"redis.address\": \"a\"}");
	assert_int_equal(idle_us(place), 50);
	assert_string_equal(kw_config_text(place->config, "log.level"), "warn");
	assert_string_equal(kw_config_text(place->config, "redis.address"), "a");
	load(place, "{\"include\": [\"d/50-local.json\", \"d/10-site.json\"]}");
	assert_int_equal(idle_us(place), 20);
	/* One that includes counts under what it includes, and over those before it. */
	put(place, "d/10-site.json", "{\"include\": [\"../last.json\"], \"poll.idle_us\": 20}");
	put(place, "last.json", "{\"poll.idle_us\": 70}");
	load(place, "{\"include\": [\"d/50-local.json\", \"d/10-site.json\"]}");
	assert_int_equal(idle_us(place), 70);
	load(place, "{\"include\": \"d/*.json\"}");
	assert_int_equal(idle_us(place), 50);
}

static void a_pattern_may_match_nothing_and_a_name_may_not(void **state)
{
	struct place *place = *state;

	load(place, "{\"include\": [\"d/*.json\", \"gone/*.json\", \"/dev/null/*\"]}");
	load(place, "{\"include\": []}");
	refuse(place, "{\"include\": [\"gone.json\"]}", "main.json: include: cannot open",
		"gone.json");
	refuse(place, "{\"include\": \"d\"}", "include", "not a regular file");
}

static void an_include_is_a_name_or_a_list_of_names(void **state)
{
	static const char *const wrong[] = {"7", "null", "\"\"", "[\"d/*.json\", 1]", "{\"a\": 1}"};
	struct place *place = *state;
	char text[64];

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		snprintf(text, sizeof text, "{\"include\": %s}", wrong[i]);
		refuse(place, text, "main.json: include: expected the name of a file", "given");
	}
	refuse(place, "{\"redis\": {\"include\": \"x\"}}", "unknown key redis.include",
		"--help-config");
	assert_int_equal(kw_config_set(place->config, "include=x", &place->error), KW_E_CONFIG);
	assert_non_null(strstr(place->error.text, "at the top of a configuration file"));
}

static void each_mistake_names_its_own_file(void **state)
{
	struct place *place = *state;
	const char *main = "{\"include\": [\"d/*.json\"], \"log.level\": \"debug\"}";

	put(place, "d/a.json", "{\n\"log\": {\"level\": \"loud\"}}");
	refuse(place, main, "d/a.json: log.level: expected one of", "loud");
	put(place, "d/a.json", "{\"redis\": {\"adress\": \"x\"}}");
	refuse(place, main, "d/a.json: unknown key redis.adress", "did you mean redis.address?");
	put(place, "d/a.json", "{\n // [\n]");
	refuse(place, main, "d/a.json: line 3", "not JSON");
	put(place, "d/a.json", "{\"vvvvvvvvvv\": 1}");
	load(place, "{\"wwwwwwwwww\": 1, \"include\": \"d/a.json\"}");
	assert_non_null(strstr(kw_config_passed_over(place->config), "wwwwwwwwww, vvvvvvvvvv ("));
	assert_non_null(strstr(kw_config_passed_over(place->config), "/d/a.json)"));
}

static void a_circle_is_refused_by_name(void **state)
{
	struct place *place = *state;

	refuse(place, "{\"include\": \"*.json\"}", "main.json: include:", "would include itself");
	put(place, "d/a.json", "{\"include\": \"b.json\"}");
	put(place, "d/b.json", "{\"include\": \"../d/./a.json\"}");
	refuse(place, "{\"include\": \"d/a.json\"}",
		"b.json: include:", "a.json is being read already");
	assert_int_equal(symlink("a.json", path_of(place, "d/b.json.link")), 0);
	put(place, "d/b.json", "{\"include\": \"b.json.link\"}");
	refuse(place, "{\"include\": \"d/a.json\"}", "b.json: include:", "would include itself");
	/* Twice, and in no circle. */
	put(place, "d/b.json", "{\"poll.idle_us\": 33}");
	load(place, "{\"include\": [\"d/a.json\", \"d/b.json\"]}");
	assert_int_equal(idle_us(place), 33);
}

static void depth_and_number_of_files_are_bounded(void **state)
{
	struct place *place = *state;
	char name[32], text[64];

	for (int i = 2; i <= 9; i++) {
		snprintf(name, sizeof name, "d/%d.json", i);
		snprintf(text, sizeof text, "{\"include\": \"%d.json\"}", i + 1);
		put(place, name, i == 8 ? "{\"poll.idle_us\": 88}" : text);
	}
	load(place, "{\"include\": \"d/2.json\"}");
	assert_int_equal(idle_us(place), 88);
	put(place, "d/8.json", "{\"include\": \"9.json\"}");
	refuse(place, "{\"include\": \"d/2.json\"}", "8.json: include:", "at most 8");
	for (int i = 0; i < 257; i++) {
		snprintf(name, sizeof name, "d/many-%d", i);
		put(place, name, "{}");
	}
	refuse(place, "{\"include\": \"d/many-*\"}", "257 files", "256 are read at most");
	assert_int_equal(unlink(path_of(place, "d/many-0")), 0);
	refuse(place, "{\"include\": \"d/many-*\"}", "one file more than the 256", "join");
	assert_int_equal(unlink(path_of(place, "d/many-1")), 0);
	load(place, "{\"include\": \"d/many-*\"}");
}

static void a_reload_reads_them_again(void **state)
{
	struct place *place = *state;

	put(place, "d/a.json", "{\"poll.idle_us\": 40}");
	load(place, "{\"redis.address\": \"a\", \"include\": \"d/*.json\"}");
	assert_int_equal(idle_us(place), 40);
	put(place, "d/b.json", "{\"poll.idle_us\": 41, \"log.level\": \"warn\"}");
	assert_int_equal(kw_config_reload(place->config, NULL, NULL, NULL, &place->error), KW_OK);
	assert_int_equal(idle_us(place), 41);
	put(place, "d/b.json", "{\"poll.idle_us\": 0}");
	assert_int_equal(
		kw_config_reload(place->config, NULL, NULL, NULL, &place->error), KW_E_CONFIG);
	assert_non_null(strstr(place->error.text, "d/b.json: poll.idle_us"));
	assert_int_equal(idle_us(place), 41);
	assert_int_equal(unlink(path_of(place, "d/b.json")), 0);
	assert_int_equal(kw_config_reload(place->config, NULL, NULL, NULL, &place->error), KW_OK);
	assert_int_equal(idle_us(place), 40);
	assert_string_equal(kw_config_text(place->config, "log.level"), "info");
}

/* source: of the folder, if it begins with a slash */
static void comes_from(struct place *place, const char *key, const char *source)
{
	struct kw_buffer text = {0};
	char expected[160];

	kw_config_sources_json(place->config, key, &text);
	kw_buffer_append(&text, "", 1);
	snprintf(expected, sizeof expected, "\"source\":\"%s%s\"",
		*source == '/' ? place->folder : "", source);
	if (!strstr((const char *)kw_buffer_bytes(&text), expected))
		fail_msg("%s: not from %s: %s", key, source, (const char *)kw_buffer_bytes(&text));
	kw_buffer_close(&text);
}

static void each_value_tells_where_it_comes_from(void **state)
{
	static const char *const environment[] = {"KEYWAKE_LISTEN=tcp://a:1", NULL};
	struct place *place = *state;

	put(place, "d/a.json", "{\"poll.idle_us\": 40, \"log.level\": \"info\"}");
	put(place, "main.json",
		"{\"redis.address\": \"a\", \"poll.idle_us\": 30, \"include\": \"d/*.json\"}");
	comes_from(place, "redis.address", "default");
	assert_int_equal(kw_config_load(place->config, place->file, &place->error), KW_OK);
	assert_int_equal(
		kw_config_load_environment(place->config, environment, &place->error), KW_OK);
	comes_from(place, "redis.address", "/main.json");
	comes_from(place, "redis", "/main.json");
	comes_from(place, "poll.idle_us", "/d/a.json");
	comes_from(place, "log.level", "/d/a.json"); /* though it is that of the fallback */
	comes_from(place, "listen", "the environment");
	assert_int_equal(kw_config_set(place->config, "poll.idle_us=50", &place->error), KW_OK);
	comes_from(place, "poll.idle_us", "--set");
	assert_int_equal(
		kw_config_change(place->config, "log.level", "warn", NULL, NULL, NULL), KW_OK);
	comes_from(place, "log.level", "config set");
	assert_int_equal(kw_config_reload(place->config, NULL, NULL, NULL, &place->error), KW_OK);
	comes_from(place, "log.level", "/d/a.json");
	comes_from(place, "poll.idle_us", "--set");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_file_may_have_comments),
		TEST(a_mistake_after_comments_has_the_place_that_a_person_sees),
		TEST(included_files_count_in_the_order_in_which_they_are_read),
		TEST(a_pattern_may_match_nothing_and_a_name_may_not),
		TEST(an_include_is_a_name_or_a_list_of_names),
		TEST(each_mistake_names_its_own_file),
		TEST(a_circle_is_refused_by_name),
		TEST(depth_and_number_of_files_are_bounded),
		TEST(a_reload_reads_them_again),
		TEST(each_value_tells_where_it_comes_from),
	};

	return cmocka_run_group_tests_name("config-include", tests, NULL, NULL);
}
