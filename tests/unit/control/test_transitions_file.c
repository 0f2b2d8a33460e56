/* The last changes of state, kept over restarts: what is written, when, and what a bad file does.
 */
#include "control/transitions_file.h"

#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct life {
	uv_loop_t loop;
	struct kw_transitions ring;
	struct kw_transitions_file file;
};

static char folder[64], path[96];

static int make_folder(void **state)
{
	strcpy(folder, "/tmp/kw-history-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/history", folder);
	return 0;
}

static int drop_folder(void **state)
{
	char command[128];

	snprintf(command, sizeof command, "rm -rf %s", folder);
	return system(command);
}

static void begin(struct life *life, const char *where)
{
	memset(life, 0, sizeof *life);
	uv_loop_init(&life->loop);
	kw_transitions_file_open(&life->file, &life->loop, where, &life->ring);
}

static void end(struct life *life)
{
	kw_transitions_file_close(&life->file);
	uv_run(&life->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&life->loop), 0);
	kw_transitions_close(&life->ring);
}

static void add(struct life *life, uint64_t at_us, const char *state)
{
	if (kw_transitions_add(&life->ring, at_us, state, "code", ""))
		kw_transitions_file_changed(&life->file);
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");

	fputs(text, file);
	fclose(file);
}

static void what_happened_before_a_restart_is_known_after_it(void **state)
{
	struct life life;

	begin(&life, path);
	add(&life, 1, "connecting");
	add(&life, 2, "warm");
	end(&life);
	begin(&life, path);
	assert_int_equal(life.ring.count, 2);
	assert_string_equal(life.ring.items[1].state, "warm");
	assert_int_equal(life.ring.items[1].at_us, 2);
	add(&life, 3, "failed");
	end(&life);
	begin(&life, path);
	assert_int_equal(life.ring.count, 3);
	end(&life);
}

/* A daemon that is killed closes nothing. */
static void a_change_is_written_soon_and_not_each_time(void **state)
{
	struct life life;
	struct stat first, second;
	uv_timer_t keep;

	begin(&life, path);
	uv_timer_init(&life.loop, &keep);
	uv_timer_start(&keep, (uv_timer_cb)uv_stop, 60000, 0);
	for (uint64_t i = 1; i < 100; i++)
		add(&life, i, i % 2 ? "warm" : "lagging");
	assert_int_equal(stat(path, &first), -1);
	while (stat(path, &first))
		uv_run(&life.loop, UV_RUN_ONCE);
	assert_int_equal(first.st_mode & 0777, 0600);
	/* Nothing new: the file stays. */
	kw_transitions_add(&life.ring, 200, "warm", "code", "");
	uv_run(&life.loop, UV_RUN_NOWAIT);
	assert_int_equal(stat(path, &second), 0);
	assert_int_equal(first.st_ino, second.st_ino);
	uv_close((uv_handle_t *)&keep, NULL);
	end(&life);
}

static void a_bad_file_is_no_reason_not_to_start(void **state)
{
	static const char *const texts[] = {"", "{", "[]x", "[{\"at_us\":1}]", "\x01\xff", "null"};
	struct life life;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		write_file(texts[i]);
		begin(&life, path);
		assert_int_equal(life.ring.count, 0);
		add(&life, 1, "connecting");
		end(&life);
		begin(&life, path);
		assert_int_equal(life.ring.count, 1);
		end(&life);
		unlink(path);
	}
}

static void a_large_file_is_not_read(void **state)
{
	char *large = malloc(4 << 20);
	struct life life;

	memset(large, ' ', (4 << 20) - 1);
	large[(4 << 20) - 1] = '\0';
	write_file(large);
	begin(&life, path);
	assert_int_equal(life.ring.count, 0);
	end(&life);
	free(large);
}

static void a_place_that_cannot_be_written_costs_a_warning_only(void **state)
{
	struct life life;

	snprintf(path, sizeof path, "%s/gone/history", folder);
	begin(&life, path);
	add(&life, 1, "connecting");
	end(&life);
	begin(&life, folder); /* a folder is no file */
	add(&life, 1, "connecting");
	end(&life);
}

static void without_a_path_nothing_is_kept(void **state)
{
	struct life life;

	begin(&life, "");
	add(&life, 1, "connecting");
	assert_false(uv_is_active((uv_handle_t *)&life.file.timer));
	end(&life);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, drop_folder)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_happened_before_a_restart_is_known_after_it),
		TEST(a_change_is_written_soon_and_not_each_time),
		TEST(a_bad_file_is_no_reason_not_to_start),
		TEST(a_large_file_is_not_read),
		TEST(a_place_that_cannot_be_written_costs_a_warning_only),
		TEST(without_a_path_nothing_is_kept),
	};

	return cmocka_run_group_tests_name("transitions-file", tests, NULL, NULL);
}
