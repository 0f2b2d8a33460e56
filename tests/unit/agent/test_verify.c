/* Verify: what differs is named, what only lags is not accused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "world.h"

static void note_names(struct world *world, int which, const struct kw_verify_list *list)
{
	assert_true(list->named ==
		    (list->count < KW_VERIFY_NAMES_MAX ? (int)list->count : KW_VERIFY_NAMES_MAX));
	for (int i = 0; i < 2; i++)
		if (i < list->named)
			snprintf(world->names[which][i], 64, "%u:%.*s", list->names[i].database,
				(int)list->names[i].key.length,
				(const char *)list->names[i].key.data);
}

static void on_verified(
	void *arg, const struct kw_verify_result *result, const struct kw_error *error)
{
	struct world *world = arg;

	world->done = true;
	world->verify = NULL;
	world->result = *result;
	note_names(world, 0, &result->different);
	note_names(world, 1, &result->missing);
	note_names(world, 2, &result->extra);
	world->error = error ? *error : (struct kw_error){0};
}

static void begin(struct world *world)
{
	struct kw_error error;

	world->done = false;
	memset(world->names, 0, sizeof world->names);
	if (kw_verify_start(&world->options, on_verified, world, &world->verify, &error))
		fail_msg("%s", error.text);
}

static void verify(struct world *world)
{
	begin(world);
	run_until(world, &world->done);
	if (world->error.code)
		fail_msg("%s", world->error.text);
}

static void assert_counts(const struct world *world, uint64_t checked, uint64_t different,
	uint64_t missing, uint64_t extra)
{
	const struct kw_verify_result *result = &world->result;

	assert_int_equal(result->checked, checked);
	assert_int_equal(result->different.count, different);
	assert_int_equal(result->missing.count, missing);
	assert_int_equal(result->extra.count, extra);
	assert_int_equal(result->unsettled, 0);
	assert_int_equal(result->equal, checked - different - missing);
}

static void an_equal_replica_is_called_equal_whatever_its_encodings(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 3000);
	verify(&world);
	assert_counts(&world, 3000 + FILLED, 0, 0, 0);
	assert_int_equal(world.result.scanned, 3000 + FILLED);
	assert_int_equal(world.result.rechecked, 0);
	world_close(&world);
}

static void what_differs_is_named_and_nothing_else(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 100);
	peer_words(&replica, NULL, "SET", "key-7", "other", NULL);
	peer_words(&replica, NULL, "DEL", "key-8", NULL);
	peer_words(&replica, NULL, "SET", "nobody knows me", "x", NULL);
	peer_words(&replica, NULL, "PEXPIREAT", "ttl", "1893456000124", NULL);
	verify(&world);
	assert_counts(&world, 100 + FILLED, 2, 1, 1);
	assert_string_equal(world.names[1][0], "0:key-8");
	assert_string_equal(world.names[2][0], "0:nobody knows me");
	assert_true(
		(!strcmp(world.names[0][0], "0:key-7") && !strcmp(world.names[0][1], "0:ttl")) ||
		(!strcmp(world.names[0][1], "0:key-7") && !strcmp(world.names[0][0], "0:ttl")));

	peer_words(&replica, NULL, "SELECT", "3", NULL);
	peer_words(&replica, NULL, "HINCRBY", "hash", "f", "1", NULL);
	peer_words(&replica, NULL, "SELECT", "0", NULL);
	peer_words(&replica, NULL, "PERSIST", "ttl", NULL);
	peer_words(&replica, NULL, "SET", "key-7", "key-7", NULL);
	verify(&world);
	assert_counts(&world, 100 + FILLED, 2, 1, 1);
	assert_true(!strcmp(world.names[0][0], "3:hash") || !strcmp(world.names[0][1], "3:hash"));
	world_close(&world);
}

/* 150 ms after the first look all is mended: before the second. */
static void mend(struct world *world, int turn)
{
	if (turn != 30)
		return;
	peer_words(&replica, NULL, "SET", "key-7", "key-7", NULL);
	peer_words(&replica, NULL, "SET", "key-8", "key-8", NULL);
	peer_words(&replica, NULL, "DEL", "extra", NULL);
}

static void what_catches_up_before_the_second_look_is_not_accused(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 100);
	peer_words(&replica, NULL, "SET", "key-7", "other", NULL);
	peer_words(&replica, NULL, "DEL", "key-8", NULL);
	peer_words(&replica, NULL, "SET", "extra", "x", NULL);
	world.on_tick = mend;
	verify(&world);
	assert_counts(&world, 100 + FILLED, 0, 0, 0);
	assert_true(world.result.rechecked >= 3);
	world_close(&world);
}

static void change_key_7(uv_idle_t *idle)
{
	struct world *world = idle->data;
	char value[32];

	snprintf(value, sizeof value, "not a payload %d", world->turn++);
	kw_table_put(world->table, 0, kw_slice_text("key-7"), kw_slice_text(value), 0);
}

static void a_key_that_never_holds_still_is_unsettled_not_accused(void **state)
{
	struct world world;
	uv_idle_t idle;

	world_open(&world, true);
	fill(&world, 10);
	peer_words(&replica, NULL, "SET", "key-7", "other", NULL);
	/* At every turn of the loop: so between the two lookups of every look. */
	uv_idle_init(&world.loop, &idle);
	idle.data = &world;
	uv_idle_start(&idle, change_key_7);
	verify(&world);
	uv_close((uv_handle_t *)&idle, NULL);
	assert_int_equal(world.result.unsettled, 1);
	assert_int_equal(world.result.checked, 10 + FILLED);
	assert_int_equal(world.result.equal, 10 + FILLED - 1);
	assert_int_equal(world.result.different.count, 0);
	world_close(&world);
}

static void an_expired_key_is_not_missed(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 10);
	kw_table_put(world.table, 0, kw_slice_text("gone"), kw_slice_text("some payload"),
		kw_wall_us() / 1000 - 1);
	kw_table_publish(world.table, kw_wall_us());
	verify(&world);
	assert_counts(&world, 10 + FILLED + 1, 0, 0, 0);
	world_close(&world);
}

static void filters_and_the_cursor_key_are_left_alone(void **state)
{
	struct world world;
	struct kw_error error;

	world_open(&world, true);
	fill(&world, 100);
	strcpy(world.options.cursor_key, "key-cursor");
	peer_words(&replica, NULL, "SET", "key-cursor", "ours", NULL);
	peer_words(&replica, NULL, "SET", "foreign", "x", NULL);
	peer_words(&replica, NULL, "DEL", "set", NULL);
	assert_int_equal(kw_filter_add_prefix(&world.filter, "key-", &error), 0);
	verify(&world);
	assert_counts(&world, 100, 0, 0, 0);
	assert_int_equal(world.result.scanned, 100);
	kw_filter_close(&world.filter);
	assert_int_equal(kw_filter_add_database(&world.filter, 3, &error), 0);
	verify(&world);
	assert_counts(&world, 6, 0, 0, 0);
	world_close(&world);
}

static void a_sample_compares_about_so_many_keys(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 4000);
	peer_words(&replica, NULL, "SET", "extra", "x", NULL);
	world.options.sample = 400;
	verify(&world);
	assert_true(world.result.sampled);
	assert_in_range(world.result.checked, 300, 500);
	assert_int_equal(world.result.equal, world.result.checked);
	assert_int_equal(world.result.scanned, 0);
	world.options.sample = 1000000;
	verify(&world);
	assert_int_equal(world.result.checked, 4000 + FILLED);
	world_close(&world);
}

static void an_empty_replica_of_a_large_table_is_counted_to_the_last_key(void **state)
{
	const uint64_t keys = KW_VERIFY_SUSPECTS_MAX + 2000;
	struct world world;
	char key[32];

	world_open(&world, true);
	for (uint64_t i = 0; i < keys; i++) {
		snprintf(key, sizeof key, "key-%llu", (unsigned long long)i);
		kw_table_put(world.table, 0, kw_slice_text(key), kw_slice_text("payload"), 0);
	}
	kw_table_publish(world.table, kw_wall_us());
	verify(&world);
	assert_counts(&world, keys, 0, keys, 0);
	world_close(&world);
}

static void an_incomplete_table_is_not_compared(void **state)
{
	struct world world;

	world_open(&world, false);
	begin(&world);
	run_until(&world, &world.done);
	assert_int_equal(world.error.code, KW_E_STATE);
	assert_non_null(strstr(world.error.text, "not complete"));
	world_close(&world);
}

static void drop_link(struct world *world, int turn)
{
	if (turn == 5 && world->remote)
		kw_remote_close(world->remote);
}

static void a_lost_proxy_ends_it_with_a_sentence(void **state)
{
	struct world world;

	world_open(&world, true);
	fill(&world, 100);
	peer_words(&replica, NULL, "SET", "extra", "x", NULL); /* keeps it busy for a while */
	world.on_tick = drop_link;
	begin(&world);
	run_until(&world, &world.done);
	assert_int_equal(world.error.code, KW_E_IO);
	world_close(&world);
}

static void a_cancelled_verify_ends_and_leaves_nothing(void **state)
{
	struct world world;

	for (int turns = 0; turns < 40; turns++) {
		world_open(&world, true);
		if (turns == 0 || turns > 37)
			fill(&world, 500);
		peer_words(&replica, NULL, "SET", "extra", "x", NULL);
		begin(&world);
		for (int i = 0; i < turns && !world.done; i++)
			uv_run(&world.loop, UV_RUN_ONCE);
		if (!world.done) {
			kw_verify_cancel(world.verify, "enough");
			assert_false(world.done);
			run_until(&world, &world.done);
			assert_int_equal(world.error.code, KW_E_STATE);
			assert_string_equal(world.error.text, "verify: enough");
		}
		world_close(&world);
	}
}

static void a_server_that_cannot_be_reached_is_said(void **state)
{
	struct world world;
	struct kw_error error;

	world_open(&world, true);
	strcpy(world.options.redis.address, "unix:///nowhere/at/all");
	begin(&world);
	run_until(&world, &world.done);
	assert_int_not_equal(world.error.code, KW_OK);
	assert_non_null(strstr(world.error.text, "verify: the local server"));
	strcpy(world.options.redis.address, "nonsense");
	assert_int_equal(
		kw_verify_start(&world.options, on_verified, &world, &world.verify, &error),
		KW_E_CONFIG);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_equal_replica_is_called_equal_whatever_its_encodings),
		cmocka_unit_test(what_differs_is_named_and_nothing_else),
		cmocka_unit_test(what_catches_up_before_the_second_look_is_not_accused),
		cmocka_unit_test(a_key_that_never_holds_still_is_unsettled_not_accused),
		cmocka_unit_test(an_expired_key_is_not_missed),
		cmocka_unit_test(filters_and_the_cursor_key_are_left_alone),
		cmocka_unit_test(a_sample_compares_about_so_many_keys),
		cmocka_unit_test(an_empty_replica_of_a_large_table_is_counted_to_the_last_key),
		cmocka_unit_test(an_incomplete_table_is_not_compared),
		cmocka_unit_test(a_lost_proxy_ends_it_with_a_sentence),
		cmocka_unit_test(a_cancelled_verify_ends_and_leaves_nothing),
		cmocka_unit_test(a_server_that_cannot_be_reached_is_said),
	};

	return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
