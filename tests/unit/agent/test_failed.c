/*
 * What only a person can mend is tried again all the time. Meanwhile the agent stays `failed`: each
 * attempt would otherwise look like another state, and alerts that wait would never fire.
 */
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define ATTEMPTS 4

static bool has_tried_the_server(void *arg)
{
	const struct stage *stage = arg;

	return stage->agent->local.reconnects >= stage->seen + ATTEMPTS;
}

static bool has_asked_the_server(void *arg)
{
	const struct stage *stage = arg;

	return stage->agent->local.looks.told >= stage->seen + 3;
}

static bool has_tried_the_proxy(void *arg)
{
	const struct stage *stage = arg;

	return stage->agent->follow.reconnects >= stage->seen + ATTEMPTS;
}

/* FAILED, and no other state until `tried` holds. */
static void stays_failed(struct stage *stage, bool (*tried)(void *arg), uint64_t seen)
{
	uint64_t moves = stage->agent->sm.moves;

	stage->seen = seen;
	stage_wait(stage, tried, "some attempts");
	assert_int_equal(stage->agent->sm.state, KW_AGENT_FAILED);
	assert_int_equal(stage->agent->sm.moves, moves);
}

static void a_password_that_is_refused_is_one_failure(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_cli(&stage, "config set requirepass secret");
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	stays_failed(&stage, has_tried_the_server, stage.agent->local.reconnects);
	stage_cli(&stage, "-a secret --no-auth-warning config set requirepass ''");
	stage_wait_warm(&stage);
	stage_close(&stage);
}

static void a_cursor_of_somebody_else_is_one_failure(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage.options.local.store = KW_STORE_KEY;
	stage_cli(&stage, "set keywake_cursor mine");
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	stays_failed(&stage, has_asked_the_server, stage.agent->local.looks.told);
	stage_cli(&stage, "del keywake_cursor");
	stage_wait_warm(&stage);
	stage_close(&stage);
}

static void a_server_that_is_gone_is_connected_to_and_has_not_failed(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_cli(&stage, "config set requirepass secret");
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	test_server_stop(&stage.server);
	stage_wait_state(&stage, KW_AGENT_CONNECTING);
	test_server_start(&stage.server, NULL);
	stage_close(&stage);
}

static void a_table_that_is_not_understood_is_one_failure(void **state)
{
	struct kw_superblock *superblock;
	struct stage stage;

	stage_open(&stage, "commands");
	stage.proxy.silent = true;
	superblock = (struct kw_superblock *)stage.proxy.memory.base;
	superblock->layout_version = 999;
	kw_superblock_seal(superblock);
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	stays_failed(&stage, has_tried_the_proxy, stage.agent->follow.reconnects);
	stage.proxy.silent = false;
	stage_wait_warm(&stage);
	stage_close(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_password_that_is_refused_is_one_failure),
		cmocka_unit_test(a_cursor_of_somebody_else_is_one_failure),
		cmocka_unit_test(a_server_that_is_gone_is_connected_to_and_has_not_failed),
		cmocka_unit_test(a_table_that_is_not_understood_is_one_failure),
	};

	return cmocka_run_group_tests_name("agent-failed", tests, NULL, NULL);
}
