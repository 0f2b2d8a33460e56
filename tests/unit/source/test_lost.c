/* Which keys are held against a connection that breaks, by a scripted server that hangs up. */
#include "base/buffer.h"
#include "base/clock.h"
#include "fetch/fetch.h"
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PATIENCE_US 30000000
#define WINDOW 256

/*
 * The server: at a key that begins with "killer" it hangs up, those with "small" have a short
 * value, and every other key is gone.
 */
static int listener;
static char path[64];
static pthread_t thread;
static atomic_int dumps, killed;
static atomic_bool hang_up_now;

static uv_loop_t loop;
static uv_check_t check;
static uv_timer_t tick;
static struct kw_data_connection data;
static struct kw_dirty *dirty;
static struct kw_fetch *fetch;
static bool ready, closed;
static bool give_up_first; /* the data connection is given up before the loss is told, as by the
			      other's end */
static bool pump_on_lost;  /* fetching goes on in the turn in which the connection ended */
static int removals, unreadables;
static uint64_t most_flying; /* keys that were in flight at the same time */
static char unreadable_key[WORD_BYTES];

static void put_value(FILE *to)
{
	uint8_t payload[13] = {0, 1, 'x', 11, 0}; /* a string, of RDB version 11 */
	uint64_t crc = kw_crc64(0, payload, sizeof payload - sizeof crc);

	memcpy(payload + sizeof payload - sizeof crc, &crc, sizeof crc);
	fprintf(to, "$%zu\r\n", sizeof payload);
	fwrite(payload, sizeof payload, 1, to);
	fputs("\r\n", to);
}

/* False: the server hangs up. */
static bool answer(FILE *to, char argv[][WORD_BYTES])
{
	if (strcmp(argv[0], "CLIENT") == 0) {
		fputs("+OK\r\n", to);
	} else if (strcmp(argv[0], "DUMP") != 0) {
		bool small = strncmp(argv[1], "small", 5) == 0;

		fputs(strcmp(argv[0], "EXISTS") == 0 ? ":1\r\n"
			: small                      ? ":-1\r\n"
						     : ":-2\r\n",
			to);
	} else if (strncmp(argv[1], "small", 5) == 0) {
		put_value(to);
	} else {
		dumps++;
		if (strncmp(argv[1], "killer", 6) == 0) {
			killed++;
			return false;
		}
		fputs("$-1\r\n", to);
	}
	fflush(to);
	return true;
}

static void *serve(void *arg)
{
	int fd;

	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		FILE *from = fdopen(fd, "r"), *to = fdopen(dup(fd), "w");
		char argv[8][WORD_BYTES];

		do {
			if (read_command(from, argv) == 0)
				break;
		} while (answer(to, argv) && !hang_up_now);
		hang_up_now = false;
		fclose(from);
		fclose(to);
	}
	return NULL;
}

static void store(void *arg, struct kw_table_change *changes, const uint8_t *flags, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		changes[i].result = KW_PUT_STORED;
		removals += changes[i].kind == KW_RECORD_DELETE;
	}
}

static enum kw_put_result unreadable(
	void *arg, uint32_t database, struct kw_slice key, enum kw_fetch_found found)
{
	unreadables++;
	snprintf(unreadable_key, sizeof unreadable_key, "%.*s", (int)key.length,
		(const char *)key.data);
	return KW_PUT_STORED;
}

static void on_ready(void *arg)
{
	ready = true;
}

static void on_closed(void *arg, const struct kw_error *why)
{
	closed = true;
}

static void on_failed(void *arg, const struct kw_error *why)
{
}

static void on_tick(uv_timer_t *timer)
{
}

/* The end of a loop turn: behind all input, before what was closed is told. */
static void on_check(uv_check_t *handle)
{
	if (!data.redis || closed || !kw_redis_lost(data.redis))
		return;
	if (pump_on_lost)
		kw_fetch_pump(fetch, kw_clock_us());
	if (give_up_first)
		data.state = KW_DATA_BROKEN;
}

static void dial(void)
{
	struct kw_redis_options options = {0};
	struct kw_redis_handlers handlers = {on_ready, on_closed, NULL, NULL};
	uint64_t until_us = kw_clock_us() + PATIENCE_US;

	ready = closed = false;
	snprintf(options.address, sizeof options.address, "unix://%s", path);
	assert_int_equal(kw_redis_open(&loop, &options, &handlers, &data.redis, NULL), 0);
	kw_data_open(&data, data.redis);
	while (!ready) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&loop, UV_RUN_ONCE);
	}
}

static void hang_up(void)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;

	kw_redis_close(data.redis);
	while (!closed) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&loop, UV_RUN_ONCE);
	}
	data.state = KW_DATA_BROKEN;
	kw_data_closed(&data);
	kw_redis_free(data.redis);
	data.redis = NULL;
}

static void begin(void)
{
	struct kw_fetch_handlers fetching = {.store = store, .unreadable = unreadable};
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	give_up_first = pump_on_lost = false;
	dumps = killed = 0;
	hang_up_now = false;
	removals = unreadables = 0;
	snprintf(path, sizeof path, "/tmp/kw-lost-%d", getpid());
	unlink(path);
	strcpy(name.sun_path, path);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	uv_loop_init(&loop);
	uv_timer_init(&loop, &tick);
	uv_timer_start(&tick, on_tick, 1, 1);
	uv_check_init(&loop, &check);
	uv_check_start(&check, on_check);
	data = (struct kw_data_connection){.failed = on_failed};
	dirty = kw_dirty_new(1);
	fetch = kw_fetch_new(&data, dirty, WINDOW, &fetching);
	most_flying = 0;
	kw_fetch_limit(fetch, 0, 0, kw_clock_us());
	dial();
}

static void end(void)
{
	hang_up();
	shutdown(listener, SHUT_RDWR); /* wakes accept */
	pthread_join(thread, NULL);
	kw_fetch_free(fetch);
	kw_dirty_free(dirty);
	uv_close((uv_handle_t *)&tick, NULL);
	uv_close((uv_handle_t *)&check, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(listener);
	unlink(path);
}

static void add(const char *key)
{
	kw_dirty_add(dirty, 0, kw_slice_text(key), KW_DIRTY_TTL);
}

static void add_many(const char *prefix, int count)
{
	for (int i = 0; i < count; i++) {
		char key[32];

		snprintf(key, sizeof key, "%s:%d", prefix, i);
		add(key);
	}
}

/* A whole window is in flight when the server hangs up. */
static void lose_a_window(void)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;

	hang_up_now = true;
	kw_fetch_pump(fetch, kw_clock_us());
	assert_int_equal(kw_dirty_count(dirty, KW_DIRTY_FLYING), WINDOW);
	while (!closed) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&loop, UV_RUN_ONCE);
	}
	hang_up();
	dial();
}

static void note_flying(void)
{
	uint64_t flying = kw_dirty_count(dirty, KW_DIRTY_FLYING);

	if (flying > most_flying)
		most_flying = flying;
}

/* Fetch until nothing is dirty, dialling again whenever the connection is gone. */
static void run_fetches(void)
{
	uint64_t until_us = kw_clock_us() + PATIENCE_US;

	while (kw_dirty_total(dirty) > 0) {
		assert_true(kw_clock_us() < until_us);
		if (closed) {
			hang_up();
			dial();
		}
		kw_fetch_pump(fetch, kw_clock_us());
		note_flying();
		uv_run(&loop, UV_RUN_ONCE);
	}
}

/* Until it has seen values, the fetcher asks for a few only: they could be large. */
static void know_the_size(void)
{
	add_many("small", 128);
	run_fetches();
	most_flying = 0;
}

/* The promises. */

static void find_the_killer(void)
{
	add_many("key", 8);
	add("killer");
	run_fetches();
	assert_int_equal(removals, 8);
	assert_int_equal(unreadables, 1);
	assert_string_equal(unreadable_key, "killer");
	assert_int_equal(killed, 1 + KW_FETCH_STRIKES);
}

static void the_key_at_which_it_breaks_is_found(void **state)
{
	begin();
	find_the_killer();
	end();
}

static void it_is_found_also_if_the_other_connection_ends_first(void **state)
{
	begin();
	give_up_first = true;
	find_the_killer();
	end();
}

/* The server hangs up while nothing is asked for, three times and more, and a key is lost there. */
static void a_key_that_was_not_asked_for_is_not_held_against(void **state)
{
	begin();
	pump_on_lost = true;
	for (int i = 0; i < 2 * KW_FETCH_STRIKES; i++) {
		uint64_t until_us = kw_clock_us() + PATIENCE_US;

		hang_up_now = true;
		kw_redis_words(data.redis, NULL, NULL, "PING", NULL);
		while (!kw_redis_lost(data.redis)) {
			assert_true(kw_clock_us() < until_us);
			/* Dirty when the end is found, in the same turn of the loop. */
			if (i == 0)
				kw_dirty_add(dirty, 0, kw_slice_text("harmless"), KW_DIRTY_LOST);
			uv_run(&loop, UV_RUN_ONCE);
		}
		while (!closed)
			uv_run(&loop, UV_RUN_ONCE);
		hang_up();
		dial();
	}
	assert_int_equal(unreadables, 0);
	pump_on_lost = false;
	run_fetches();
	assert_int_equal(removals, 1);
	assert_int_equal(unreadables, 0);
	end();
}

/* One round trip for each key of a window would take a minute on a long line. */
static void keys_that_were_lost_with_many_others_are_asked_for_in_groups(void **state)
{
	begin();
	know_the_size();
	add_many("key", WINDOW);
	lose_a_window();
	run_fetches();
	assert_int_equal(most_flying, KW_FETCH_GROUP);
	assert_int_equal(removals, WINDOW);
	assert_int_equal(unreadables, 0);
	end();
}

/* Among a group that breaks the connection each is asked for alone; the others stay in groups. */
static void the_key_is_found_in_a_window_at_no_break_more(void **state)
{
	begin();
	know_the_size();
	add_many("key", WINDOW / 2);
	add("killer");
	add_many("more", WINDOW / 2);
	run_fetches();
	assert_int_equal(removals, WINDOW);
	assert_int_equal(unreadables, 1);
	assert_string_equal(unreadable_key, "killer");
	assert_int_equal(killed, 1 + KW_FETCH_STRIKES);
	end();
}

/* They are asked for in turn, so it never breaks twice in a row at one of them. */
static void several_keys_at_which_it_breaks_are_all_found(void **state)
{
	begin();
	know_the_size();
	add_many("key", WINDOW / 2);
	add_many("killer", 3);
	run_fetches();
	assert_int_equal(removals, WINDOW / 2);
	assert_int_equal(unreadables, 3);
	/* In the window, in the group of the three, and then each alone. */
	assert_int_equal(killed, 2 + 3 * (KW_FETCH_STRIKES - 1));
	end();
}

/* A key that was not lost does not wait for the groups, and does not make one larger. */
static void other_keys_fill_the_groups_up(void **state)
{
	begin();
	know_the_size();
	add_many("key", WINDOW);
	lose_a_window();
	add_many("fresh", WINDOW / 2);
	add("killer");
	add_many("later", WINDOW / 2);
	run_fetches();
	assert_int_equal(removals, 2 * WINDOW);
	assert_int_equal(unreadables, 1);
	end();
}

/* A connection that was given up from here says nothing about what was asked for on it. */
static void what_is_given_up_is_held_against_no_key(void **state)
{
	begin();
	for (int i = 0; i < 2 * KW_FETCH_STRIKES; i++) {
		add("key");
		kw_fetch_pump(fetch, kw_clock_us());
		data.state = KW_DATA_BROKEN;
		hang_up();
		dial();
	}
	assert_int_equal(unreadables, 0);
	run_fetches();
	assert_int_equal(removals, 1);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_key_at_which_it_breaks_is_found),
		cmocka_unit_test(it_is_found_also_if_the_other_connection_ends_first),
		cmocka_unit_test(a_key_that_was_not_asked_for_is_not_held_against),
		cmocka_unit_test(keys_that_were_lost_with_many_others_are_asked_for_in_groups),
		cmocka_unit_test(the_key_is_found_in_a_window_at_no_break_more),
		cmocka_unit_test(several_keys_at_which_it_breaks_are_all_found),
		cmocka_unit_test(other_keys_fill_the_groups_up),
		cmocka_unit_test(what_is_given_up_is_held_against_no_key),
	};

	signal(SIGPIPE, SIG_IGN); /* the server answers one who is gone */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
