/* Calls that are answered when a barrier has passed. */
#include "rpc_fixture.h"

#include <unistd.h>

#define LONG_MS KW_RPC_WAIT_MS_MOST

static void ask(struct kw_rpc_client *client, int token, int wait_ms)
{
	json_t *params = json_pack("{s:i,s:i}", "token", token, "wait_ms", wait_ms);

	assert_int_equal(kw_rpc_client_begin(client, "await", params, -1, &error), 0);
}

/* Has it passed, as the answer says? */
static bool answer(struct kw_rpc_client *client)
{
	json_t *result;
	bool passed;

	assert_int_equal(kw_rpc_client_await(client, PATIENCE_MS, &result, &error), 0);
	passed = json_is_true(json_object_get(result, "passed"));
	json_decref(result);
	return passed;
}

static bool is_silent(struct kw_rpc_client *client)
{
	json_t *result;

	return kw_rpc_client_await(client, 0, &result, &error) == KW_E_TIMEOUT;
}

/* Returns how many waited when it was asked. */
static json_int_t pass(struct kw_rpc_client *client, int token)
{
	json_int_t count;
	json_t *result;

	assert_int_equal(call_text(client, "pass", json_pack("{s:i}", "token", token), &result), 0);
	count = json_integer_value(result);
	json_decref(result);
	return count;
}

static void wait_waiting(struct kw_rpc_client *client, json_int_t wanted)
{
	for (int i = 0; i < PATIENCE_MS && pass(client, 0) != wanted; i++)
		usleep(1000);
	assert_int_equal(pass(client, 0), wanted);
}

static void a_call_is_answered_when_its_token_passes(void **state)
{
	struct kw_rpc_client *early = open_client(*state), *late = open_client(*state);
	struct kw_rpc_client *other = open_client(*state);

	ask(early, 1, LONG_MS);
	ask(late, 2, LONG_MS);
	wait_waiting(other, 2);
	pass(other, 1);
	assert_true(answer(early));
	assert_true(is_silent(late));
	pass(other, 2);
	assert_true(answer(late));
	ask(late, 2, LONG_MS);
	assert_true(answer(late)); /* one that had passed before */
	kw_rpc_client_close(early);
	kw_rpc_client_close(late);
	kw_rpc_client_close(other);
}

static void without_a_wait_it_is_answered_at_once(void **state)
{
	struct kw_rpc_client *client = open_client(*state);

	ask(client, 1, 0);
	assert_false(answer(client));
	kw_rpc_client_close(client);
}

static void after_its_time_it_is_answered_as_it_is(void **state)
{
	struct kw_rpc_client *client = open_client(*state);

	ask(client, 1, 20);
	assert_false(answer(client));
	ask(client, 1, 1 << 30); /* no longer than any may wait */
	assert_false(answer(client));
	kw_rpc_client_close(client);
}

static void a_client_that_left_waits_no_more(void **state)
{
	struct kw_rpc_client *client = open_client(*state), *other = open_client(*state);

	for (int i = 0; i < 5; i++)
		ask(client, 1, LONG_MS);
	wait_waiting(other, 5);
	kw_rpc_client_close(client);
	wait_waiting(other, 0);
	kw_rpc_client_close(other);
}

static void those_without_a_place_are_answered_at_once(void **state)
{
	struct kw_rpc_client *client = open_client(*state), *other = open_client(*state);

	for (int i = 0; i < KW_RPC_WAITS; i++)
		ask(client, 1, LONG_MS);
	wait_waiting(other, KW_RPC_WAITS);
	ask(other, 1, LONG_MS);
	assert_false(answer(other));
	kw_rpc_client_close(client);
	kw_rpc_client_close(other);
}

/* Its answers come before it lets go of its socket. */
static void wait_closed(const struct fixture *fixture)
{
	for (int i = 0; i < PATIENCE_MS && access(fixture->path, F_OK) == 0; i++)
		usleep(1000);
}

static void at_the_end_all_are_answered(void **state)
{
	struct kw_rpc_client *client = open_client(*state), *other = open_client(*state);

	ask(client, 1, LONG_MS);
	wait_waiting(other, 1);
	assert_int_equal(call_text(other, "stop", NULL, NULL), 0);
	assert_false(answer(client));
	wait_closed(*state);
	kw_rpc_client_close(client);
	kw_rpc_client_close(other);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_call_is_answered_when_its_token_passes),
		TEST(without_a_wait_it_is_answered_at_once),
		TEST(after_its_time_it_is_answered_as_it_is),
		TEST(a_client_that_left_waits_no_more),
		TEST(those_without_a_place_are_answered_at_once),
		TEST(at_the_end_all_are_answered),
	};

	return cmocka_run_group_tests_name("rpc waits", tests, NULL, NULL);
}
