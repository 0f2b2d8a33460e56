/* Looking one key up in the table, over a connection that may be lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "inspect/get.h"
#include "world.h"

struct asked {
	bool done;
	struct kw_get_result result;
	struct kw_error error;
	char type[16], text[64];
};

static void on_got(void *arg, const struct kw_get_result *result, const struct kw_error *error)
{
	struct asked *asked = arg;

	asked->done = true;
	asked->error = error ? *error : (struct kw_error){0};
	if (error)
		return;
	asked->result = *result;
	if (result->found)
		snprintf(asked->type, sizeof asked->type, "%s", result->type);
	if (result->text.data)
		snprintf(asked->text, sizeof asked->text, "%.*s", (int)result->text.length,
			(const char *)result->text.data);
}

static void ask(struct world *world, struct kw_get *get, uint32_t database, const char *key,
	struct asked *asked)
{
	*asked = (struct asked){0};
	assert_int_equal(kw_get_ask(get, database, kw_slice_text(key), on_got, asked, NULL), KW_OK);
	assert_false(asked->done);
	run_until(world, &asked->done);
}

static void set_flag(void *arg)
{
	*(bool *)arg = true;
}

static void get_tells_what_the_table_holds(void **state)
{
	struct world world;
	struct kw_get *get;
	struct asked asked;
	bool closed = false;

	world_open(&world, true);
	fill(&world, 10);
	get = kw_get_new(&world.loop, remote_of, &world);
	ask(&world, get, 0, "ttl", &asked);
	assert_true(asked.result.found);
	assert_string_equal(asked.type, "string");
	assert_string_equal(asked.text, "v");
	assert_int_equal(asked.result.expires_ms, 1893456000123);
	assert_int_equal(strlen(asked.result.digest), 32);
	assert_int_equal(asked.result.rdb_version, 10);
	assert_true(asked.result.version > 0);
	ask(&world, get, 3, "hash", &asked);
	assert_true(asked.result.found);
	assert_string_equal(asked.type, "hash");
	assert_null(asked.result.text.data);
	ask(&world, get, 1, "hash", &asked);
	assert_int_equal(asked.error.code, KW_OK);
	assert_false(asked.result.found);
	kw_get_close(get, set_flag, &closed);
	run_until(&world, &closed);
	world_close(&world);
}

static void get_survives_a_lost_connection(void **state)
{
	struct world world;
	struct kw_get *get;
	struct asked asked;
	bool closed = false;

	world_open(&world, true);
	fill(&world, 10);
	get = kw_get_new(&world.loop, remote_of, &world);
	ask(&world, get, 0, "key-1", &asked);
	assert_true(asked.result.found);
	kw_remote_close(world.remote);
	while (world.remote)
		uv_run(&world.loop, UV_RUN_ONCE);
	kw_get_lost(get);
	ask(&world, get, 0, "key-1", &asked);
	assert_int_equal(asked.error.code, KW_E_IO);
	connect_remote(&world);
	ask(&world, get, 0, "key-1", &asked);
	assert_int_equal(asked.error.code, KW_OK);
	assert_true(asked.result.found);
	kw_get_close(get, set_flag, &closed);
	run_until(&world, &closed);
	world_close(&world);
}

static void get_refuses_too_many_and_tells_all_at_the_end(void **state)
{
	struct asked asked[KW_GET_WAITING_MAX + 1] = {0};
	struct world world;
	struct kw_error error;
	struct kw_get *get;
	bool closed = false;

	world_open(&world, true);
	get = kw_get_new(&world.loop, remote_of, &world);
	for (int i = 0; i < KW_GET_WAITING_MAX; i++)
		assert_int_equal(
			kw_get_ask(get, 0, kw_slice_text("k"), on_got, &asked[i], NULL), KW_OK);
	assert_int_equal(
		kw_get_ask(get, 0, kw_slice_text("k"), on_got, &asked[KW_GET_WAITING_MAX], &error),
		KW_E_FULL);
	kw_get_close(get, set_flag, &closed);
	run_until(&world, &closed);
	for (int i = 0; i < KW_GET_WAITING_MAX; i++)
		assert_true(asked[i].done && asked[i].error.code == KW_E_STATE);
	world_close(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get_tells_what_the_table_holds),
		cmocka_unit_test(get_survives_a_lost_connection),
		cmocka_unit_test(get_refuses_too_many_and_tells_all_at_the_end),
	};

	return cmocka_run_group_tests(tests, start_servers, stop_servers);
}
