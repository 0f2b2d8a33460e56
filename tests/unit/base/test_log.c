#include "base/log.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define CAPTURED_MAX 8192

static char captured[CAPTURED_MAX];
static int saved_stderr, pipe_read;

/* Standard error into a pipe, so that what a reader of the log sees can be looked at. */
static int capture(void **state)
{
	int ends[2];

	unsetenv("JOURNAL_STREAM");
	kw_log_set_level(KW_LOG_INFO);
	kw_log_set_tap(NULL, NULL);
	if (pipe(ends) < 0)
		return -1;
	saved_stderr = dup(STDERR_FILENO);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	pipe_read = ends[0];
	return 0;
}

static int release(void **state)
{
	if (saved_stderr >= 0)
		dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(pipe_read);
	saved_stderr = -1;
	return 0;
}

static const char *written(void)
{
	ssize_t length;

	dup2(saved_stderr, STDERR_FILENO); /* the last writing end: end of file for the reader */
	length = read(pipe_read, captured, sizeof captured - 1);
	captured[length > 0 ? length : 0] = '\0';
	return captured;
}

static int lines(const char *text)
{
	int count = 0;

	for (; *text; text++)
		count += *text == '\n';
	return count;
}

static void nothing_from_outside_can_forge_a_line(void **state)
{
	const char *text;

	kw_log_info("source", "key %s", "a\nerror forged\r\x1b[31m\x7f\t");
	text = written();
	assert_int_equal(lines(text), 1);
	assert_non_null(strstr(text, "key a\\x0aerror forged\\x0d\\x1b[31m\\x7f\\x09\n"));
	assert_null(strchr(text, '\x1b'));
}

static void a_line_says_time_level_and_part(void **state)
{
	const char *text;

	kw_log_warn("agent", "slow");
	text = written();
	assert_int_equal(text[10], 'T');
	assert_int_equal(text[23], 'Z');
	assert_non_null(strstr(text, " warn  agent: slow\n"));
}

static void the_journal_gets_a_priority_and_no_time(void **state)
{
	setenv("JOURNAL_STREAM", "8:1", 1);
	kw_log_error("agent", "gone");
	unsetenv("JOURNAL_STREAM");
	assert_string_equal(written(), "<3>agent: gone\n");
}

static void a_state_has_its_reason_and_code_in_one_line(void **state)
{
	const char *text;

	kw_log_state(KW_LOG_ERROR, "agent", "failed", "no_consent", "2 keys of others");
	kw_log_state(KW_LOG_INFO, "agent", "warm", "none", "");
	text = written();
	assert_non_null(strstr(text, " error agent: failed: 2 keys of others [no_consent]\n"));
	assert_non_null(strstr(text, " info  agent: warm\n"));
}

static struct kw_log_fields taken;
static char taken_text[64];
static bool takes;

static bool take(enum kw_log_level level, const char *where, const char *text,
	const struct kw_log_fields *fields)
{
	taken = *fields;
	snprintf(taken_text, sizeof taken_text, "%d %s: %s", kw_log_priority(level), where, text);
	return takes;
}

static void a_journal_gets_lines_with_fields_first(void **state)
{
	takes = true;
	kw_log_set_journal(take);
	kw_log_database(KW_LOG_WARN, "apply", 3, "key a\n");
	assert_string_equal(taken_text, "4 apply: key a\\x0a");
	assert_int_equal(taken.database, 3);
	assert_null(taken.state);
	kw_log_state(KW_LOG_ERROR, "agent", "failed", "no_consent", "why");
	assert_string_equal(taken.state, "failed");
	assert_string_equal(taken.code, "no_consent");
	assert_int_equal(taken.database, -1);
	takes = false;
	kw_log_info("agent", "not lost");
	kw_log_set_journal(NULL);
	assert_int_equal(lines(written()), 1);
	assert_non_null(strstr(captured, "not lost"));
}

static void what_is_below_the_level_is_not_written(void **state)
{
	kw_log_debug("agent", "no");
	kw_log_set_level(KW_LOG_DEBUG);
	kw_log_debug("agent", "yes");
	kw_log_set_level(KW_LOG_ERROR);
	kw_log_warn("agent", "no");
	assert_int_equal(lines(written()), 1);
	assert_non_null(strstr(captured, "yes"));
	assert_int_equal(kw_log_level(), KW_LOG_ERROR);
}

static void a_long_line_is_cut_but_ends(void **state)
{
	char large[CAPTURED_MAX];

	memset(large, '\x01', sizeof large - 1);
	large[sizeof large - 1] = '\0';
	kw_log_info("agent", "%s", large);
	assert_int_equal(lines(written()), 1);
	assert_int_equal(captured[strlen(captured) - 1], '\n');
}

static void level_words_go_both_ways(void **state)
{
	for (int level = KW_LOG_ERROR; level <= KW_LOG_TRACE; level++)
		assert_int_equal(
			kw_log_level_parse(kw_log_level_name((enum kw_log_level)level)), level);
	assert_int_equal(kw_log_level_parse("loud"), -1);
	assert_int_equal(kw_log_level_parse(""), -1);
	assert_non_null(kw_log_level_name((enum kw_log_level)77));
}

static int tapped;

static void tap(void *arg, enum kw_log_level level, const char *where, const char *text)
{
	assert_ptr_equal(arg, &tapped);
	assert_string_equal(where, "here");
	tapped++;
}

static void *log_elsewhere(void *arg)
{
	kw_log_info("here", "from another thread");
	return NULL;
}

static void the_tap_hears_its_own_thread_only(void **state)
{
	pthread_t thread;

	tapped = 0;
	kw_log_set_tap(tap, &tapped);
	kw_log_info("here", "one");
	kw_log_debug("here", "below the level");
	assert_int_equal(pthread_create(&thread, NULL, log_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	kw_log_set_tap(NULL, NULL);
	kw_log_info("here", "nobody listens");
	assert_int_equal(tapped, 1);
	assert_int_equal(lines(written()), 3);
}

/* The number of the newest line that is kept. */
static uint64_t newest(void)
{
	struct kw_log_line line;
	uint64_t number = 0;

	while (kw_log_kept(number + 1, &line))
		number = line.number;
	return number;
}

static void lines_are_kept_whoever_wrote_them(void **state)
{
	uint64_t before = newest();
	struct kw_log_line line;
	pthread_t thread;

	kw_log_warn("here", "one\n");
	kw_log_debug("here", "below the level");
	assert_int_equal(pthread_create(&thread, NULL, log_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(newest(), before + 2);
	assert_true(kw_log_kept(before + 1, &line));
	assert_int_equal(line.number, before + 1);
	assert_int_equal(line.level, KW_LOG_WARN);
	assert_string_equal(line.where, "here");
	assert_string_equal(line.text, "one\\x0a");
	assert_true(kw_log_kept(before + 2, &line));
	assert_string_equal(line.text, "from another thread");
	assert_false(kw_log_kept(before + 3, &line));
}

static int watched;

static void count_watched(void *arg)
{
	assert_ptr_equal(arg, &watched);
	watched++;
}

static void a_watch_is_told_of_each_line_until_it_is_taken_away(void **state)
{
	pthread_t thread;

	watched = 0;
	kw_log_set_watch(count_watched, &watched);
	kw_log_info("here", "one");
	kw_log_debug("here", "below the level");
	assert_int_equal(pthread_create(&thread, NULL, log_elsewhere, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(watched, 2);
	kw_log_set_watch(NULL, NULL);
	kw_log_info("here", "nobody is told");
	assert_int_equal(watched, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, capture, release)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_from_outside_can_forge_a_line),
		TEST(a_line_says_time_level_and_part),
		TEST(the_journal_gets_a_priority_and_no_time),
		TEST(a_state_has_its_reason_and_code_in_one_line),
		TEST(a_journal_gets_lines_with_fields_first),
		TEST(what_is_below_the_level_is_not_written),
		TEST(a_long_line_is_cut_but_ends),
		TEST(level_words_go_both_ways),
		TEST(the_tap_hears_its_own_thread_only),
		TEST(lines_are_kept_whoever_wrote_them),
		TEST(a_watch_is_told_of_each_line_until_it_is_taken_away),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
