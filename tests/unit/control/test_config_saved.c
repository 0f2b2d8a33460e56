/* What an operator saves counts for the next starts, and a crash or a refusal loses nothing. */
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
	{"control.saved_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL, "Saved."},
	{"proxy", KW_CONFIG_TEXTS, NULL, false, 0, 0, NULL, "Proxies."},
	{"log.level", KW_CONFIG_TEXT, "\"info\"", true, 0, 0, "warn|info|debug", "Level."},
	{0},
};

struct place {
	char folder[32], file[64], saved[64];
	struct kw_error error;
};

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof *place);

	strcpy(place->folder, "/tmp/kw-saved-XXXXXX");
	assert_non_null(mkdtemp(place->folder));
	snprintf(place->file, sizeof place->file, "%s/file", place->folder);
	snprintf(place->saved, sizeof place->saved, "%s/saved", place->folder);
	*state = place;
	return 0;
}

static int teardown(void **state)
{
	struct place *place = *state;

	unlink(place->file);
	unlink(place->saved);
	assert_int_equal(rmdir(place->folder), 0); /* nothing is left beside them */
	free(place);
	return 0;
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* As a daemon starts: the file, the command line, what was saved. */
static struct kw_config *start(struct place *place, const char *assignment)
{
	struct kw_config *config = kw_config_new(keys);
	char where[96];

	snprintf(where, sizeof where, "control.saved_file=%s", place->saved);
	write_text(place->file, "{\"proxy\": \"shm:///file\", \"log.level\": \"warn\"}");
	assert_int_equal(kw_config_load(config, place->file, &place->error), KW_OK);
	assert_int_equal(kw_config_set(config, where, &place->error), KW_OK);
	if (assignment)
		assert_int_equal(kw_config_set(config, assignment, &place->error), KW_OK);
	if (kw_config_load_saved(config, &place->error) ||
		kw_config_complete(config, &place->error)) {
		kw_config_free(config);
		return NULL;
	}
	return config;
}

static void a_saved_value_counts_over_the_file_at_the_next_start(void **state)
{
	struct place *place = *state;
	struct kw_config *config = start(place, NULL);
	struct kw_buffer shown = {0};
	struct stat info;

	assert_string_equal(kw_config_text_at(config, "proxy", 0), "shm:///file");
	assert_int_equal(kw_config_save(config, "proxy", "[\"shm:///a\",\"shm:///b\"]", NULL), 0);
	assert_int_equal(kw_config_count(config, "proxy"), 2);
	assert_int_equal(kw_config_save(config, "log.level", "debug", NULL), KW_OK);
	assert_int_equal(kw_config_reload(config, NULL, NULL, &shown, &place->error), KW_OK);
	assert_int_equal(kw_buffer_length(&shown), 0); /* nothing needs a restart */
	kw_config_free(config);
	config = start(place, NULL);
	assert_string_equal(kw_config_text_at(config, "proxy", 1), "shm:///b");
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
	assert_int_equal(kw_config_saved_json(config, &shown, &place->error), KW_OK);
	kw_buffer_append(&shown, "", 1);
	assert_string_equal((const char *)kw_buffer_bytes(&shown),
		"{\"log.level\": \"debug\", \"proxy\": [\"shm:///a\", \"shm:///b\"]}");
	assert_int_equal(stat(place->saved, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	kw_buffer_close(&shown);
	kw_config_free(config);
}

static void the_command_line_counts_over_what_was_saved(void **state)
{
	struct place *place = *state;
	struct kw_config *config = start(place, "log.level=info");

	assert_int_equal(kw_config_save(config, "log.level", "debug", &place->error), KW_E_STATE);
	assert_non_null(strstr(place->error.text, "log.level is set on the command line"));
	assert_int_equal(access(place->saved, F_OK), -1);
	kw_config_free(config);
	write_text(place->saved, "{\"log.level\": \"debug\"}");
	config = start(place, "log.level=info");
	assert_string_equal(kw_config_text(config, "log.level"), "info");
	kw_config_free(config);
}

static void what_cannot_be_saved_changes_nothing(void **state)
{
	struct place *place = *state;
	struct kw_config *config = start(place, NULL);
	struct kw_config *without = kw_config_new(keys);

	assert_int_equal(kw_config_save(config, "log.level", "loud", &place->error), KW_E_CONFIG);
	assert_int_equal(kw_config_save(config, "prxy", "x", &place->error), KW_E_CONFIG);
	assert_int_equal(kw_config_save(config, "proxy", "[]", &place->error), KW_E_CONFIG);
	assert_int_equal(
		kw_config_save(config, "control.saved_file", "/x", &place->error), KW_E_STATE);
	assert_int_equal(access(place->saved, F_OK), -1);
	assert_int_equal(kw_config_save(without, "log.level", "debug", &place->error), KW_E_STATE);
	assert_non_null(strstr(place->error.text, "set control.saved_file"));
	/* A folder in the place of the file: it can be neither read nor replaced. */
	assert_int_equal(mkdir(place->saved, 0700), 0);
	assert_int_not_equal(kw_config_save(config, "log.level", "debug", &place->error), KW_OK);
	assert_non_null(strstr(place->error.text, place->saved));
	assert_string_equal(kw_config_text(config, "log.level"), "warn");
	assert_int_equal(rmdir(place->saved), 0);
	kw_config_free(without);
	kw_config_free(config);
}

struct told {
	int times;
	int answer;
};

static int on_changed(void *arg, const char *path, struct kw_error *error)
{
	struct told *told = arg;

	told->times++;
	return told->answer ? kw_error_set(error, (enum kw_code)told->answer, "refused") : KW_OK;
}

static char *text_of(const char *path)
{
	static char text[256];
	FILE *file = fopen(path, "r");

	assert_non_null(file);
	text[fread(text, 1, sizeof text - 1, file)] = '\0';
	fclose(file);
	return text;
}

/* A comment is lost nowhere: not in the file that a person writes, nor in the one that we do. */
static void saving_loses_no_comment(void **state)
{
	static const char kept[] = "// mine\n{\"log.level\": \"debug\",}";
	struct place *place = *state;
	struct kw_config *config = start(place, NULL);
	struct kw_buffer shown = {0};

	write_text(place->file, "{\"proxy\": \"shm:///file\" /* why */,}");
	assert_int_equal(kw_config_reload(config, NULL, NULL, NULL, &place->error), KW_OK);
	assert_int_equal(kw_config_save(config, "log.level", "debug", NULL), KW_OK);
	assert_string_equal(text_of(place->file), "{\"proxy\": \"shm:///file\" /* why */,}");
	write_text(place->saved, kept);
	assert_int_equal(kw_config_reload(config, NULL, NULL, NULL, &place->error), KW_OK);
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
	assert_int_equal(kw_config_save(config, "log.level", "warn", &place->error), KW_E_STATE);
	assert_non_null(strstr(place->error.text, "has comments"));
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
	assert_string_equal(text_of(place->saved), kept);
	assert_int_equal(kw_config_saved_json(config, &shown, &place->error), KW_OK);
	kw_buffer_close(&shown);
	kw_config_free(config);
}

/* It is the daemon's own file: nothing leads from it to others. */
static void what_is_saved_includes_nothing(void **state)
{
	struct place *place = *state;

	write_text(place->saved, "{\"include\": \"/nowhere\"}");
	assert_null(start(place, NULL));
	assert_non_null(strstr(place->error.text, place->saved));
	assert_non_null(strstr(place->error.text, "at the top of a configuration file"));
}

/* A term of a primary that was told for a moment cannot be taken back. */
static void what_cannot_be_saved_never_takes_effect(void **state)
{
	struct place *place = *state;
	struct kw_config *config = start(place, NULL);
	struct kw_config *without = kw_config_new(keys);
	struct told told = {0};

	assert_int_equal(kw_config_set(without, "proxy=shm:///a", NULL), KW_OK);
	assert_int_equal(kw_config_change_and_save(
				 without, "log.level", "debug", on_changed, &told, &place->error),
		KW_E_STATE);
	assert_non_null(strstr(place->error.text, "set control.saved_file"));
	assert_int_equal(mkdir(place->saved, 0700), 0);
	assert_int_not_equal(kw_config_change_and_save(config, "log.level", "debug", on_changed,
				     &told, &place->error),
		KW_OK);
	assert_int_equal(rmdir(place->saved), 0);
	assert_int_equal(told.times, 0);
	assert_string_equal(kw_config_text(config, "log.level"), "warn");
	kw_config_free(without);
	kw_config_free(config);
}

static void what_is_refused_is_not_saved(void **state)
{
	struct place *place = *state;
	struct kw_config *config = start(place, NULL);
	struct told told = {0, KW_E_NOMEM};

	assert_int_equal(kw_config_change_and_save(
				 config, "log.level", "debug", on_changed, &told, &place->error),
		KW_E_NOMEM);
	assert_string_equal(kw_config_text(config, "log.level"), "warn");
	kw_config_free(config);
	config = start(place, NULL);
	assert_string_equal(kw_config_text(config, "log.level"), "warn");
	told.answer = KW_OK;
	assert_int_equal(kw_config_change_and_save(
				 config, "log.level", "debug", on_changed, &told, &place->error),
		KW_OK);
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
	kw_config_free(config);
	config = start(place, NULL);
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
	kw_config_free(config);
}

/* A start without what was saved would follow what it was saved against. */
static void saved_values_that_cannot_be_reached_are_an_error(void **state)
{
	struct place *place = *state;

	assert_int_equal(symlink(place->saved, place->saved), 0); /* to itself */
	assert_null(start(place, NULL));
	assert_non_null(strstr(place->error.text, place->saved));
}

static void a_broken_file_of_saved_values_is_named(void **state)
{
	struct place *place = *state;
	const char *const broken[] = {
		"{", "[1]", "{\"log.level\": 3}", "{\"lgo.level\": \"debug\"}"};

	for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
		write_text(place->saved, broken[i]);
		assert_null(start(place, NULL));
		assert_non_null(strstr(place->error.text, place->saved));
		assert_non_null(strstr(place->error.text, "delete the file"));
	}
}

/* Whoever can write it sets any key. The daemon wrote it with mode 0600. */
static void what_others_may_change_is_refused(void **state)
{
	const mode_t open_to[] = {0620, 0602, 0666};
	struct place *place = *state;
	struct kw_config *config;

	write_text(place->saved, "{\"log.level\": \"debug\"}");
	for (size_t i = 0; i < sizeof open_to / sizeof *open_to; i++) {
		assert_int_equal(chmod(place->saved, open_to[i]), 0);
		assert_null(start(place, NULL));
		assert_non_null(strstr(place->error.text, "chmod go-w"));
	}
	assert_int_equal(chmod(place->saved, 0644), 0); /* others may read it */
	config = start(place, NULL);
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
	kw_config_free(config);
}

/* Root alone can give a file away. It also checks the files of daemons that have other users. */
static void a_file_of_another_user_is_refused(void **state)
{
	struct place *place = *state;
	struct kw_config *config;

	if (geteuid() != 0)
		skip();
	write_text(place->saved, "{}");
	assert_int_equal(chown(place->saved, 12345, 0), 0);
	assert_null(start(place, NULL));
	assert_non_null(strstr(place->error.text, "belongs to user 12345, who could change it"));
	/* Its folder is that user's, too: such a file counts for root, and for no third user. */
	assert_int_equal(chown(place->folder, 12345, 0), 0);
	assert_int_equal(chmod(place->folder, 0777), 0);
	config = start(place, NULL);
	assert_non_null(config);
	kw_config_free(config);
	assert_int_equal(seteuid(12346), 0);
	unlink(place->file);
	config = start(place, NULL);
	assert_int_equal(seteuid(0), 0);
	assert_null(config);
	assert_int_equal(chown(place->file, 0, 0), 0);
}

static void what_became_of_another_is_refused_at_a_reload(void **state)
{
	struct place *place = *state;
	struct kw_buffer shown = {0};
	struct kw_config *config = start(place, NULL);

	assert_int_equal(kw_config_save(config, "log.level", "debug", NULL), KW_OK);
	write_text(place->saved, "{\"log.level\": \"info\"}");
	assert_int_equal(chmod(place->saved, 0660), 0);
	assert_int_not_equal(kw_config_reload(config, NULL, NULL, &shown, &place->error), KW_OK);
	assert_non_null(strstr(place->error.text, "can be changed by its group"));
	assert_string_equal(kw_config_text(config, "log.level"), "debug");
	kw_buffer_close(&shown);
	kw_config_free(config);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_saved_value_counts_over_the_file_at_the_next_start),
		TEST(the_command_line_counts_over_what_was_saved),
		TEST(what_cannot_be_saved_changes_nothing),
		TEST(what_cannot_be_saved_never_takes_effect),
		TEST(what_is_refused_is_not_saved),
		TEST(saving_loses_no_comment),
		TEST(what_is_saved_includes_nothing),
		TEST(saved_values_that_cannot_be_reached_are_an_error),
		TEST(a_broken_file_of_saved_values_is_named),
		TEST(what_others_may_change_is_refused),
		TEST(a_file_of_another_user_is_refused),
		TEST(what_became_of_another_is_refused_at_a_reload),
	};

	return cmocka_run_group_tests_name("config-saved", tests, NULL, NULL);
}
