/*
 * Letting the server go when it takes REPLICAOF NO ONE and not the settings behind it: as when a
 * script begins between them. A right that is missing stands for it, because that can be timed.
 */
#include "primary/takeover.h"
#include "stage.h"

#include <stdio.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DENY "acl setuser default '-config|set'"
#define GRANT "acl setuser default '+config|set'"

struct world {
	struct test_server server;
	uv_loop_t loop;
	struct test_local test;
	struct kw_downlink downlink; /* never opened: the server is sent to nobody */
	struct kw_takeover takeover;
	int done;
	char error[KW_ERROR_TEXT];
};

static void on_done(void *arg, const struct kw_failure *failure)
{
	struct world *world = arg;

	world->done++;
	snprintf(world->error, sizeof world->error, "%s", failure ? failure->text : "");
}

static bool is_done(void *arg)
{
	return ((struct world *)arg)->done > 0;
}

static void release(struct world *world)
{
	world->done = 0;
	kw_takeover_release(&world->takeover, on_done, world);
	test_run(&world->loop, is_done, world, "the release is done");
}

/* A server that follows nobody who is there, by our settings. */
static void setup(struct world *world)
{
	memset(world, 0, sizeof *world);
	test_server_start(&world->server, NULL);
	uv_loop_init(&world->loop);
	test_local_open(&world->test, &world->loop, world->server.address, KW_STORE_AUTO);
	kw_local_lead(&world->test.local);
	kw_takeover_init(
		&world->takeover, &(struct kw_takeover_options){.local = &world->test.local,
					  .downlink = &world->downlink});
	test_local_wait_ready(&world->test);
	kw_takeover_start(&world->takeover, "127.0.0.1", 1, KW_TAKEOVER_SNAPSHOT, on_done, world);
	test_run(&world->loop, is_done, world, "the takeover is done");
	assert_string_equal(world->error, "");
	assert_non_null(strstr(test_cli(&world->server, "role"), "slave"));
}

static void teardown(struct world *world)
{
	test_local_stop(&world->test);
	kw_takeover_close(&world->takeover);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	test_server_stop(&world->server);
}

static void assert_settings_of_before(const struct test_server *server)
{
	assert_string_equal(test_cli(server, "config get masterauth"), "masterauth");
	assert_string_equal(
		test_cli(server, "config get repl-diskless-load"), "repl-diskless-load\ndisabled");
}

static void take(struct world *world)
{
	world->done = 0;
	kw_takeover_start(&world->takeover, "127.0.0.1", 1, KW_TAKEOVER_CONTINUE, on_done, world);
	test_run(&world->loop, is_done, world, "the takeover is done");
}

/* Its last digits, which are random. */
static const char *password_of(const struct world *world, char password[KW_LOGIN_TEXT])
{
	snprintf(password, KW_LOGIN_TEXT, "%s", test_cli(&world->server, "config get masterauth"));
	assert_memory_equal(password, "masterauth\n", 11);
	memmove(password, password + 11, strlen(password + 11) + 1);
	return password;
}

static void each_takeover_sets_a_password_that_remembers_the_same(void **state)
{
	char before[KW_LOGIN_TEXT], now[KW_LOGIN_TEXT];
	struct kw_link_mark mark;
	struct world world;

	setup(&world);
	password_of(&world, before);
	for (int i = 0; i < 3; i++) {
		take(&world);
		assert_string_equal(world.error, "");
		assert_string_not_equal(password_of(&world, now), before);
		/* What the server says is what lets it in. */
		assert_string_equal(now, world.downlink.login.password);
		assert_true(kw_link_mark_read(now, &mark));
		assert_string_equal(mark.diskless, "disabled");
		memcpy(before, now, sizeof now);
	}
	release(&world);
	assert_settings_of_before(&world.server);
	teardown(&world);
}

static void nobody_logs_in_by_the_password_of_before(void **state)
{
	char before[KW_LOGIN_TEXT];
	struct world world;

	setup(&world);
	password_of(&world, before);
	assert_int_equal(world.downlink.speech, KW_DOWNLINK_PLAIN);
	kw_takeover_start(&world.takeover, "127.0.0.1", 1, KW_TAKEOVER_CONTINUE, on_done, &world);
	/* Shut from this moment on, until the server was told another one. */
	assert_int_equal(world.downlink.speech, KW_DOWNLINK_UNDECIDED);
	assert_string_equal(world.downlink.login.password, "");
	world.done = 0;
	test_run(&world.loop, is_done, &world, "the takeover is done");
	assert_int_equal(world.downlink.speech, KW_DOWNLINK_PLAIN);
	assert_string_not_equal(world.downlink.login.password, before);
	teardown(&world);
}

/* Its user may not set one: nobody is let in, and what the server has stays known as an agent's. */
static void without_a_new_password_the_link_stays_shut(void **state)
{
	char before[KW_LOGIN_TEXT], now[KW_LOGIN_TEXT];
	struct world world;

	setup(&world);
	password_of(&world, before);
	test_cli(&world.server, DENY);
	take(&world);
	assert_non_null(strstr(world.error, "NOPERM"));
	assert_int_equal(world.downlink.speech, KW_DOWNLINK_UNDECIDED);
	assert_string_equal(world.downlink.login.password, "");
	assert_string_equal(password_of(&world, now), before);
	assert_int_equal(world.takeover.auth, KW_AUTH_OURS);
	test_cli(&world.server, GRANT);
	release(&world);
	assert_string_equal(world.error, "");
	assert_settings_of_before(&world.server);
	teardown(&world);
}

static void settings_that_were_refused_are_put_back_by_the_next_try(void **state)
{
	struct world world;

	setup(&world);
	test_cli(&world.server, DENY);
	release(&world);
	assert_non_null(strstr(world.error, "NOPERM"));
	assert_non_null(strstr(test_cli(&world.server, "role"), "master"));
	release(&world);
	assert_non_null(strstr(world.error, "NOPERM"));
	test_cli(&world.server, GRANT);
	release(&world);
	assert_string_equal(world.error, "");
	assert_settings_of_before(&world.server);
	assert_false(world.takeover.swapdb_set);
	assert_int_equal(world.takeover.auth, KW_AUTH_THEIRS);
	teardown(&world);
}

static bool is_waiting(void *arg)
{
	const struct stage *stage = arg;

	const char *link = kw_pair_link(stage->agent->pair)->state;

	return link && strcmp(link, "waiting") == 0;
}

static bool is_master(void *arg)
{
	return strstr(stage_cli(arg, "role"), "master") != NULL;
}

/* Mode hybrid: the snapshot is loaded, REPLICAOF NO ONE is taken, the settings are not. */
static void open_half_let_go(struct stage *stage)
{
	stage_open(stage, "hybrid");
	stage->options.consent = true;
	stage_fill(stage, 0, 100);
	test_proxy_publish(&stage->proxy);
	stage_start_agent(stage);
	stage_wait(stage, is_waiting, "the server is told to follow");
	stage_cli(stage, DENY);
	stage_wait(stage, is_master, "the server is let go");
	test_run_ms(&stage->loop, 2500); /* two looks */
	assert_int_equal(stage->warm, 0);
	assert_non_null(strstr(stage->agent->reason, "let go"));
	assert_non_null(strstr(stage->agent->reason, "+config|set"));
}

static void assert_not_held(const struct stage *stage)
{
	const struct kw_agent *agent = stage->agent;

	assert_null(strstr(kw_pair_trouble(agent->pair)->why, "by somebody"));
	assert_null(strstr(agent->reason, "by somebody"));
}

static void close_when_handed_over(struct stage *stage)
{
	stage_cli(stage, GRANT);
	stage_wait_warm(stage);
	assert_settings_of_before(&stage->server);
	assert_string_equal(kw_pair_link(stage->agent->pair)->state, "handed over");
	assert_string_equal(stage_cli(stage, "dbsize"), "50");
	stage_close(stage);
}

/* It is a master then, and nobody else has promoted it. */
static void a_server_half_let_go_is_not_taken_for_somebody_elses(void **state)
{
	struct stage stage;

	open_half_let_go(&stage);
	close_when_handed_over(&stage);
}

/* Nor behind a connection that broke and came again, whenever in the pause between two tries. */
static void nor_is_it_when_the_connection_breaks(void **state)
{
	struct stage stage;

	open_half_let_go(&stage);
	for (int i = 0; i < 5; i++) {
		stage_cli(&stage, "client kill type normal");
		test_run_ms(&stage.loop, 700);
		assert_not_held(&stage);
	}
	test_run_ms(&stage.loop, 1500);
	assert_not_held(&stage);
	assert_non_null(strstr(stage_cli(&stage, "role"), "master"));
	close_when_handed_over(&stage);
}

/* Nor when a new snapshot is wanted amid it, for which the server cannot be had yet. */
static void nor_is_it_when_a_snapshot_begins_anew(void **state)
{
	struct stage stage;

	open_half_let_go(&stage);
	for (int i = 0; i < 5; i++) {
		kw_sync_restart(&stage.agent->sync, "a test wants a snapshot");
		/* Not in step with the tries to let it go. */
		stage.agent->sync.in.wait.retry_us = 0;
		test_run_ms(&stage.loop, 700);
		assert_not_held(&stage);
	}
	assert_null(strstr(kw_pair_trouble(stage.agent->pair)->why, "let go")); /* it is given up */
	assert_non_null(strstr(kw_pair_trouble(stage.agent->pair)->why, "+config|set"));
	close_when_handed_over(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_takeover_sets_a_password_that_remembers_the_same),
		cmocka_unit_test(nobody_logs_in_by_the_password_of_before),
		cmocka_unit_test(without_a_new_password_the_link_stays_shut),
		cmocka_unit_test(settings_that_were_refused_are_put_back_by_the_next_try),
		cmocka_unit_test(a_server_half_let_go_is_not_taken_for_somebody_elses),
		cmocka_unit_test(nor_is_it_when_the_connection_breaks),
		cmocka_unit_test(nor_is_it_when_a_snapshot_begins_anew),
	};

	return cmocka_run_group_tests_name("agent-takeover", tests, NULL, NULL);
}
