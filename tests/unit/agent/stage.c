#include "stage.h"

#include "agent.h"
#include "load/pair.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define WINDOW_BYTES (1 << 20)

static void on_state(void *arg, const char *state, const char *reason)
{
	struct stage *stage = arg;

	if (strcmp(state, "warm") == 0)
		stage->warm++;
}

static void on_closed(void *arg)
{
	((struct stage *)arg)->closed++;
}

void stage_open(struct stage *stage, const char *mode)
{
	*stage = (struct stage){
		.options = {
			.mode = kw_mode_find(mode),
			.listen = "tcp://127.0.0.1:0",
			.window_bytes = WINDOW_BYTES,
			.warm_lag_ms = 1000,
			.follow = {.idle_us = 1000, .remote = {.agent_name = "test"}},
			.local = {.cursor_name = "keywake_cursor"},
		}};
	test_server_start(&stage->server, NULL);
	uv_loop_init(&stage->loop);
	test_proxy_start(&stage->proxy, &stage->loop, STAGE_EPOCH, true);
}

void stage_close(struct stage *stage)
{
	if (stage->agent)
		stage_stop_agent(stage);
	test_proxy_stop(&stage->proxy);
	uv_run(&stage->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&stage->loop), 0);
	test_server_stop(&stage->server);
}

void stage_start_agent(struct stage *stage)
{
	const struct kw_agent_handlers handlers = {on_state, on_closed, stage};
	struct kw_agent_options options = stage->options;
	struct kw_error error;

	if (options.proxies.count == 0)
		assert_int_equal(
			kw_proxies_add(&options.proxies, stage->proxy.address, &error), KW_OK);
	snprintf(options.local.redis.address, sizeof options.local.redis.address, "%s",
		stage->server.address);
	stage->options.filter = (struct kw_filter){0}; /* it is taken over */
	stage->warm = 0;
	assert_int_equal(
		kw_agent_new(&stage->loop, &options, &handlers, &stage->agent, &error), KW_OK);
}

static bool is_closed(void *arg)
{
	return ((struct stage *)arg)->closed > 0;
}

void stage_stop_agent(struct stage *stage)
{
	stage->closed = 0;
	kw_agent_close(stage->agent);
	stage_wait(stage, is_closed, "the agent is closed");
	stage->agent = NULL;
}

void stage_another_proxy(struct stage *stage, uint64_t epoch, bool complete)
{
	test_proxy_stop(&stage->proxy);
	test_proxy_start(&stage->proxy, &stage->loop, epoch, complete);
}

void stage_fill(struct stage *stage, int first, int last)
{
	char key[32];

	for (int i = first; i < last; i++) {
		snprintf(key, sizeof key, "key:%d", i);
		test_proxy_put(&stage->proxy, (uint32_t)i % 2, key, "value");
	}
}

const char *stage_cli(struct stage *stage, const char *words)
{
	return test_cli(&stage->server, "%s", words);
}

/* ---- until … ---- */

void stage_wait(struct stage *stage, bool (*holds)(void *stage), const char *what)
{
	test_run(&stage->loop, holds, stage, what);
}

struct wanted {
	const struct stage *stage;
	enum kw_agent_state state;
};

static bool is_in_state(void *arg)
{
	const struct wanted *wanted = arg;

	return wanted->stage->agent->sm.state == (int)wanted->state;
}

void stage_wait_state(struct stage *stage, enum kw_agent_state state)
{
	struct wanted wanted = {stage, state};

	test_run(&stage->loop, is_in_state, &wanted, kw_agent_machine.states[state].name);
}

static bool is_applied(void *arg)
{
	const struct stage *stage = arg;
	const struct kw_agent *agent = stage->agent;
	struct kw_table_stats stats;

	kw_table_stats(stage->proxy.table, &stats);
	return kw_pair_is_level(agent->pair) && agent->sync.progress.applied == stats.version;
}

static bool is_warm(void *arg)
{
	return ((struct stage *)arg)->agent->sm.state == KW_AGENT_WARM && is_applied(arg);
}

void stage_wait_applied(struct stage *stage)
{
	test_proxy_publish(&stage->proxy);
	stage_wait(stage, is_applied, "all is applied");
}

void stage_wait_warm(struct stage *stage)
{
	test_proxy_publish(&stage->proxy);
	stage_wait(stage, is_warm, "the agent is warm and all is applied");
}

void stage_open_warm(struct stage *stage, int keys)
{
	stage_open(stage, "commands");
	stage_fill(stage, 0, keys);
	stage_start_agent(stage);
	stage_wait_warm(stage);
}
