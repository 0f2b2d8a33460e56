/* Fetching from a scripted server that answers as real ones hardly ever do. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/hash.h"
#include "fetch/fetch.h"
#include "fetch/scan.h"
#include "scripted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* What the server says to each command; argv[0] is the command's name. Called on its thread. */
typedef void (*answer_fn)(FILE *to, int argc, char argv[][WORD_BYTES]);

static answer_fn answer;
static int listener;
static char path[64];
static pthread_t thread;

static uv_loop_t loop;
static uv_timer_t tick;
static struct kw_data_connection data;
static struct kw_dirty *dirty;
static struct kw_fetch *fetch;
static bool ready, closed, data_has_failed;
static struct kw_error failure;

/* What was stored last, and how often something was. */
static int stores, removals, batches;
static char stored_key[64], stored[64];
static uint32_t stored_database;
static uint64_t stored_expires_ms, table_expires_ms;

static void *serve(void *arg)
{
	int fd = accept(listener, NULL, NULL);
	FILE *from = fdopen(fd, "r"), *to = fdopen(dup(fd), "w");
	char argv[8][WORD_BYTES];
	int argc;

	while ((argc = read_command(from, argv)) > 0) {
		if (strcmp(argv[0], "CLIENT") == 0)
			fputs("+OK\r\n", to);
		else
			answer(to, argc, argv);
		fflush(to);
	}
	fclose(from);
	fclose(to);
	return NULL;
}

/* Payloads and their answers. */

static void send_payload(FILE *to, const char *value, bool whole)
{
	char payload[64] = {0};
	size_t length = strlen(value);
	uint64_t crc;

	payload[1] = (char)length;
	memcpy(payload + 2, value, length);
	payload[2 + length] = 10; /* the RDB version */
	crc = kw_crc64(0, payload, length + 4);
	if (!whole)
		crc ^= 0x100;
	memcpy(payload + length + 4, &crc, sizeof crc);
	fprintf(to, "$%zu\r\n", length + 12);
	fwrite(payload, 1, length + 12, to);
	fputs("\r\n", to);
}

static void store_one(const struct kw_table_change *change)
{
	stored_database = change->database;
	stored_expires_ms = change->expires_ms;
	snprintf(stored_key, sizeof stored_key, "%.*s", (int)change->key.length,
		(const char *)change->key.data);
	if (change->kind == KW_RECORD_DELETE) {
		removals++;
		return;
	}
	stores++;
	snprintf(stored, sizeof stored, "%.*s", (int)change->value.length - 12,
		(const char *)change->value.data + 2);
}

static void store(void *arg, struct kw_table_change *changes, const uint8_t *flags, size_t count)
{
	assert_in_range(count, 1, KW_FETCH_BATCH);
	batches++;
	for (size_t i = 0; i < count; i++) {
		store_one(&changes[i]);
		changes[i].result = KW_PUT_STORED;
	}
}

static uint64_t expiry(void *arg, uint32_t database, struct kw_slice key)
{
	return table_expires_ms;
}

static bool expires(void *arg, uint32_t database, struct kw_slice key)
{
	return table_expires_ms > 0;
}

static enum kw_fetch_mark mark_of_all;
static int found_changed, found_there;

static enum kw_fetch_mark mark(void *arg, uint32_t database, struct kw_slice key)
{
	return mark_of_all;
}

static enum kw_put_result unreadable(
	void *arg, uint32_t database, struct kw_slice key, enum kw_fetch_found found)
{
	found_changed += found == KW_FETCH_CHANGED;
	found_there += found == KW_FETCH_THERE;
	return KW_PUT_STORED;
}

/* The loop. */

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
	data_has_failed = true;
	failure = *why;
	kw_redis_close(data.redis);
}

static void on_tick(uv_timer_t *timer)
{
}

static void run_until(const bool *done)
{
	uint64_t until_us = kw_clock_us() + 30000000;

	while (!*done) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&loop, UV_RUN_ONCE);
	}
}

/* Fetch until nothing is dirty any more, or the data connection failed. */
static void run_fetches(void)
{
	uint64_t until_us = kw_clock_us() + 30000000;

	while (kw_dirty_total(dirty) > 0 && !data_has_failed) {
		assert_true(kw_clock_us() < until_us);
		kw_fetch_pump(fetch, kw_clock_us());
		uv_run(&loop, UV_RUN_ONCE);
	}
	kw_fetch_settle(fetch);
}

static void begin(answer_fn fn)
{
	struct kw_redis_options options = {0};
	struct kw_redis_handlers handlers = {on_ready, on_closed, NULL, NULL};
	struct kw_fetch_handlers fetching = {.store = store,
		.expiry = expiry,
		.expires = expires,
		.unreadable = unreadable,
		.mark = mark};
	struct sockaddr_un name = {.sun_family = AF_UNIX};

	answer = fn;
	ready = closed = data_has_failed = false;
	stores = removals = batches = found_changed = found_there = 0;
	mark_of_all = KW_FETCH_READABLE;
	table_expires_ms = 0;
	snprintf(path, sizeof path, "/tmp/kw-fetch-%d", getpid());
	unlink(path);
	strcpy(name.sun_path, path);
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof name), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	uv_loop_init(&loop);
	uv_timer_init(&loop, &tick);
	uv_timer_start(&tick, on_tick, 1, 1);
	snprintf(options.address, sizeof options.address, "unix://%s", path);
	data = (struct kw_data_connection){.failed = on_failed};
	snprintf(data.user, sizeof data.user, "somebody");
	assert_int_equal(kw_redis_open(&loop, &options, &handlers, &data.redis, NULL), 0);
	kw_data_open(&data, data.redis);
	run_until(&ready);
	dirty = kw_dirty_new(1);
	fetch = kw_fetch_new(&data, dirty, 16, &fetching);
	kw_fetch_limit(fetch, 0, 0, kw_clock_us());
}

static void end(void)
{
	kw_redis_close(data.redis);
	run_until(&closed);
	data.state = KW_DATA_BROKEN;
	kw_data_closed(&data);
	kw_redis_free(data.redis);
	pthread_join(thread, NULL);
	kw_fetch_free(fetch);
	kw_dirty_free(dirty);
	uv_close((uv_handle_t *)&tick, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&loop), 0);
	close(listener);
	unlink(path);
}

static void add(uint32_t database, const char *key)
{
	kw_dirty_add(dirty, database, kw_slice_text(key), KW_DIRTY_TTL);
}

/* The promises. */

static int asked;

static void answer_corrupt_first(FILE *to, int argc, char argv[][WORD_BYTES])
{
	if (strcmp(argv[0], "DUMP") == 0)
		send_payload(to, "value", ++asked > 2);
	else
		fputs(":-1\r\n", to);
}

static void a_payload_that_does_not_verify_is_fetched_again(void **state)
{
	asked = 0;
	begin(answer_corrupt_first);
	add(0, "key");
	run_fetches();
	assert_int_equal(stores, 1);
	assert_string_equal(stored, "value");
	assert_int_equal(kw_fetch_stats(fetch)->rejected, 2);
	assert_int_equal(kw_fetch_rdb_version(fetch), 10);
	end();
}

static void answer_created_between(FILE *to, int argc, char argv[][WORD_BYTES])
{
	if (strcmp(argv[0], "DUMP") == 0)
		send_payload(to, "value", true);
	else
		fputs(asked++ ? ":5000\r\n" : ":-2\r\n", to);
}

static void a_key_created_between_the_questions_is_fetched_again(void **state)
{
	asked = 0;
	begin(answer_created_between);
	add(0, "key");
	run_fetches();
	assert_int_equal(stores, 1);
	assert_int_equal(stored_expires_ms, 5000);
	end();
}

static void an_expiry_is_asked_for_where_there_may_be_one(void **state)
{
	asked = 10;
	begin(answer_created_between);
	kw_dirty_add(dirty, 0, kw_slice_text("lasting"), 0);
	run_fetches();
	assert_int_equal(stored_expires_ms, 0);
	assert_int_equal(asked, 10);
	table_expires_ms = 77;
	kw_dirty_add(dirty, 0, kw_slice_text("expiring"), 0);
	run_fetches();
	assert_int_equal(stored_expires_ms, 5000);
	table_expires_ms = 0;
	add(0, "told");
	run_fetches();
	assert_int_equal(asked, 12);
	end();
}

static void answer_gone_between(FILE *to, int argc, char argv[][WORD_BYTES])
{
	fputs(strcmp(argv[0], "DUMP") == 0 ? "$-1\r\n" : ":5000\r\n", to);
}

static void a_key_gone_between_the_questions_is_gone(void **state)
{
	begin(answer_gone_between);
	add(0, "key");
	run_fetches();
	assert_int_equal(removals, 1);
	assert_int_equal(stores, 0);
	end();
}

/* What a nil answer is worth, by why the key was asked for. */
static void a_key_that_is_not_there_is_deleted_only_if_that_is_explained(void **state)
{
	static const struct {
		unsigned flags;
		bool stale, deleted;
	} cases[] = {
		{KW_DIRTY_EVENT, false, true},
		{0, false, true}, /* a command that raises no event was counted */
		{KW_DIRTY_SCAN, false, false},
		{KW_DIRTY_SCAN | KW_DIRTY_EVENT, false, true},
		{KW_DIRTY_SCAN | KW_DIRTY_COUNTED, false, true},
		{KW_DIRTY_EVENT, true, false},
		{0, true, false},
		{KW_DIRTY_SCAN | KW_DIRTY_COUNTED, true, false},
	};

	begin(answer_gone_between);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		int before = removals;

		kw_dirty_add(dirty, 0, kw_slice_text("key"), cases[i].flags);
		if (cases[i].stale)
			kw_dirty_stale(dirty, NULL);
		run_fetches();
		assert_int_equal(removals - before, cases[i].deleted);
		assert_int_equal(kw_dirty_total(dirty), 0);
	}
	kw_dirty_add(dirty, 0, kw_slice_text("key"), KW_DIRTY_EVENT);
	kw_dirty_stale(dirty, NULL);
	kw_dirty_add(dirty, 0, kw_slice_text("key"), KW_DIRTY_EVENT); /* named again */
	run_fetches();
	assert_int_equal(removals, 5);
	end();
}

static void answer_loading_first(FILE *to, int argc, char argv[][WORD_BYTES])
{
	if (asked++ < 3)
		fputs("-LOADING wait\r\n", to);
	else
		answer_created_between(to, argc, argv);
}

static void a_server_that_is_busy_is_asked_again(void **state)
{
	asked = 0;
	begin(answer_loading_first);
	add(0, "key");
	run_fetches();
	assert_false(data_has_failed);
	assert_int_equal(stores, 1);
	end();
}

static void answer_select_refused(FILE *to, int argc, char argv[][WORD_BYTES])
{
	if (strcmp(argv[0], "SELECT") == 0)
		fputs("-NOPERM no\r\n", to);
	else
		answer_corrupt_first(to, argc, argv);
}

static void nothing_is_stored_from_a_database_that_could_not_be_selected(void **state)
{
	asked = 10;
	begin(answer_select_refused);
	add(0, "right");
	add(3, "wrong");
	run_fetches();
	assert_true(data_has_failed);
	assert_non_null(strstr(failure.text, "+select"));
	assert_non_null(strstr(failure.text, "somebody"));
	assert_int_equal(stores, 1);
	assert_string_equal(stored_key, "right");
	end();
	assert_int_equal(stores, 1);
}

static void answer_by_database(FILE *to, int argc, char argv[][WORD_BYTES])
{
	static char selected[8];

	if (strcmp(argv[0], "SELECT") == 0) {
		snprintf(selected, sizeof selected, "%.7s", argv[1]);
		fputs("+OK\r\n", to);
	} else if (strcmp(argv[0], "DUMP") == 0) {
		send_payload(to, selected, true);
	} else {
		fputs(":-1\r\n", to);
	}
}

static void each_key_is_read_from_its_database(void **state)
{
	begin(answer_by_database);
	for (uint32_t i = 1; i < 200; i++) {
		add(i % 7 + 1, "key");
		if (i % 20)
			continue;
		add(15, "last");
		run_fetches();
		assert_int_equal(stored_database, 15);
		assert_string_equal(stored, "15");
	}
	end();
}

static int64_t server_ms, expires_at_ms;

static void answer_as_old_servers_do(FILE *to, int argc, char argv[][WORD_BYTES])
{
	server_ms += 3;
	if (strcmp(argv[0], "DUMP") == 0)
		send_payload(to, "value", true);
	else if (strcmp(argv[0], "TIME") == 0)
		fprintf(to, "*2\r\n$10\r\n%010lld\r\n$6\r\n%06lld\r\n",
			(long long)(server_ms / 1000), (long long)(server_ms % 1000 * 1000));
	else if (strcmp(argv[0], "PTTL") == 0)
		fprintf(to, ":%lld\r\n", (long long)(expires_at_ms - server_ms));
	else
		fputs("-ERR unknown command\r\n", to);
}

static void expiries_of_old_servers_are_near_and_do_not_waver(void **state)
{
	begin(answer_as_old_servers_do);
	server_ms = 1700000000123;
	expires_at_ms = server_ms + 5000000;
	kw_fetch_set_pexpiretime(fetch, false);
	add(0, "key");
	run_fetches();
	assert_true(llabs((int64_t)stored_expires_ms - expires_at_ms) <= KW_FETCH_JITTER_MS);
	table_expires_ms = stored_expires_ms + 2;
	add(0, "key");
	run_fetches();
	assert_int_equal(stored_expires_ms, table_expires_ms);
	expires_at_ms += 100; /* a real change */
	add(0, "key");
	run_fetches();
	assert_int_not_equal(stored_expires_ms, table_expires_ms);
	assert_int_equal(stores, 3);
	end();
}

static void answer_one(FILE *to, int argc, char argv[][WORD_BYTES])
{
	fputs(":1\r\n", to);
}

static void answer_in_turn(FILE *to, int argc, char argv[][WORD_BYTES])
{
	if (strcmp(argv[0], "DUMP") == 0)
		send_payload(to, argv[1], true);
	else
		fputs(":-1\r\n", to);
}

/* They are copied: what they were read into holds other answers by then. */
static void small_answers_are_stored_together_and_in_order(void **state)
{
	char key[16] = "";

	begin(answer_in_turn);
	for (int i = 0; i < 8; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		add(0, key);
	}
	kw_fetch_pump(fetch, kw_clock_us());
	while (kw_fetch_stats(fetch)->fetches < 8)
		uv_run(&loop, UV_RUN_ONCE);
	assert_int_equal(stores, 0);
	assert_int_equal(kw_dirty_count(dirty, KW_DIRTY_FLYING), 8);
	kw_fetch_settle(fetch);
	assert_int_equal(stores, 8);
	assert_int_equal(batches, 1);
	assert_string_equal(stored_key, "key:7");
	assert_string_equal(stored, "key:7");
	assert_int_equal(kw_dirty_total(dirty), 0);
	kw_fetch_settle(fetch);
	assert_int_equal(batches, 1);
	end();
}

/* Whoever else wants the key, too: it may be readable since the event. */
static void an_event_of_an_unreadable_key_is_told_beside_a_scan(void **state)
{
	struct kw_slice key = kw_slice_text("key");

	begin(answer_one);
	mark_of_all = KW_FETCH_UNREADABLE;
	kw_dirty_add(dirty, 0, key, KW_DIRTY_EVENT);
	kw_dirty_add(dirty, 0, key, KW_DIRTY_SCAN);
	run_fetches();
	assert_int_equal(found_changed, 1);
	kw_dirty_add(dirty, 0, key, KW_DIRTY_SCAN);
	assert_false(kw_dirty_absorbs(dirty, &(struct kw_dirty_key){key, 0, KW_DIRTY_EVENT}));
	kw_dirty_add(dirty, 0, key, KW_DIRTY_EVENT);
	run_fetches();
	assert_int_equal(found_changed, 2);
	assert_int_equal(found_there, 0);
	kw_dirty_add(dirty, 0, key, KW_DIRTY_SCAN | KW_DIRTY_TTL);
	run_fetches();
	assert_int_equal(found_changed, 2);
	assert_int_equal(found_there, 1);
	assert_int_equal(stores + removals, 0);
	end();
}

/* A value that the feed told after the question is newer than any answer to it. */
static void a_key_that_was_overtaken_is_not_called_unreadable(void **state)
{
	struct kw_slice key = kw_slice_text("key");

	begin(answer_one);
	mark_of_all = KW_FETCH_UNREADABLE;
	found_changed = found_there = 0;
	kw_dirty_add(dirty, 0, key, KW_DIRTY_EVENT);
	kw_fetch_pump(fetch, kw_clock_us());
	assert_int_equal(kw_dirty_count(dirty, KW_DIRTY_FLYING), 1);
	kw_dirty_overtake(dirty, 0, key);
	run_fetches();
	assert_int_equal(found_changed + found_there, 0);
	assert_int_equal(kw_dirty_total(dirty), 0);
	end();
}

static void another_server_may_write_another_version(void **state)
{
	begin(answer_in_turn);
	add(0, "key");
	run_fetches();
	assert_int_not_equal(kw_fetch_rdb_version(fetch), 0);
	kw_fetch_forget_version(fetch);
	assert_int_equal(kw_fetch_rdb_version(fetch), 0);
	end();
}

static void answer_nothing_of_the_kind(FILE *to, int argc, char argv[][WORD_BYTES])
{
	fputs("*0\r\n", to);
}

static void answers_of_the_wrong_form_end_the_connection(void **state)
{
	begin(answer_nothing_of_the_kind);
	add(0, "key");
	run_fetches();
	assert_true(data_has_failed);
	assert_int_equal(failure.code, KW_E_PROTOCOL);
	end();
	assert_int_equal(stores, 0);
}

/* Scanning: two steps of two keys each. */

static atomic_int steps; /* that the server was asked for */
static struct kw_scan *scan;
static int keys_told, steps_at_first_key;

static void answer_steps(FILE *to, int argc, char argv[][WORD_BYTES])
{
	steps++;
	fprintf(to, "*2\r\n$1\r\n%d\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
		strcmp(argv[1], "0") == 0 ? 7 : 0);
}

static void next_step(void *arg)
{
	kw_scan_pump(scan, KW_SCAN_COUNT);
	kw_redis_flush(data.redis);
}

static void key_told(void *arg, uint32_t database, struct kw_slice key)
{
	uint64_t until_us = kw_clock_us() + 10000000;

	if (keys_told++ > 0)
		return;
	while (steps < 2 && kw_clock_us() < until_us)
		sched_yield();
	steps_at_first_key = steps;
}

static void the_server_has_the_next_step_before_the_keys_of_this_one_are_told(void **state)
{
	const struct kw_scan_handlers handlers = {.key = key_told, .answered = next_step};
	uint64_t until_us = kw_clock_us() + 30000000;
	uint32_t database = 0;

	steps = keys_told = steps_at_first_key = 0;
	begin(answer_steps);
	scan = kw_scan_new(&data, &handlers);
	kw_scan_begin(scan, &database, 1);
	next_step(NULL);
	while (!kw_scan_done(scan) || keys_told < 4) {
		assert_true(kw_clock_us() < until_us);
		uv_run(&loop, UV_RUN_ONCE);
	}
	assert_int_equal(steps_at_first_key, 2);
	assert_int_equal(steps, 2);
	end();
	kw_scan_free(scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_payload_that_does_not_verify_is_fetched_again),
		cmocka_unit_test(a_key_created_between_the_questions_is_fetched_again),
		cmocka_unit_test(an_expiry_is_asked_for_where_there_may_be_one),
		cmocka_unit_test(a_key_gone_between_the_questions_is_gone),
		cmocka_unit_test(a_key_that_is_not_there_is_deleted_only_if_that_is_explained),
		cmocka_unit_test(a_server_that_is_busy_is_asked_again),
		cmocka_unit_test(small_answers_are_stored_together_and_in_order),
		cmocka_unit_test(nothing_is_stored_from_a_database_that_could_not_be_selected),
		cmocka_unit_test(each_key_is_read_from_its_database),
		cmocka_unit_test(expiries_of_old_servers_are_near_and_do_not_waver),
		cmocka_unit_test(an_event_of_an_unreadable_key_is_told_beside_a_scan),
		cmocka_unit_test(a_key_that_was_overtaken_is_not_called_unreadable),
		cmocka_unit_test(another_server_may_write_another_version),
		cmocka_unit_test(answers_of_the_wrong_form_end_the_connection),
		cmocka_unit_test(the_server_has_the_next_step_before_the_keys_of_this_one_are_told),
	};

	signal(SIGPIPE, SIG_IGN); /* the server answers one who is gone */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
