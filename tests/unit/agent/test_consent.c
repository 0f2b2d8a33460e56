/* A whole agent: which servers it writes to, and what it leaves alone there. */
#include "stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void keys_of_somebody_else_are_not_touched_without_consent(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_fill(&stage, 0, 10);
	stage_cli(&stage, "mset theirs 1 other 2");
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "2 keys"));
	assert_non_null(strstr(stage.agent->reason, "apply.consent=true"));
	assert_string_equal(stage_cli(&stage, "dbsize"), "2");
	/* The other remedy is noticed by itself. */
	stage_cli(&stage, "flushall");
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "dbsize"), "5");
	stage_close(&stage);
}

static void with_consent_foreign_keys_are_replaced(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage_fill(&stage, 0, 10);
	stage_cli(&stage, "set theirs 1");
	stage.options.consent = true;
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "exists theirs"), "0");
	assert_string_equal(stage_cli(&stage, "dbsize"), "5");
	stage_close(&stage);
}

static void keys_beyond_the_prefixes_need_no_consent_and_stay(void **state)
{
	struct stage stage;
	struct kw_error error;

	stage_open(&stage, "commands");
	stage_fill(&stage, 0, 10);
	test_proxy_put(&stage.proxy, 0, "other:1", "not followed");
	stage_cli(&stage, "set theirs 1");
	kw_filter_add_prefix(&stage.options.filter, "key:", &error);
	stage_start_agent(&stage);
	stage_wait_warm(&stage);
	assert_string_equal(stage_cli(&stage, "exists theirs other:1"), "1");
	assert_string_equal(stage_cli(&stage, "dbsize"), "6");
	assert_true(stage.agent->sync.filtered > 0);
	stage_stop_agent(&stage);
	stage_cli(&stage, "function flush");
	kw_filter_add_prefix(&stage.options.filter, "key:", &error);
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "holds 10 keys"));
	stage_close(&stage);
}

static int scans(struct stage *stage)
{
	const char *scan = strstr(stage_cli(stage, "info commandstats"), "cmdstat_scan:calls=");

	return scan ? atoi(scan + strlen("cmdstat_scan:calls=")) : 0;
}

static bool is_waiting_for_the_scan(void *arg)
{
	return strstr(((struct stage *)arg)->agent->reason, "first scan") != NULL;
}

static void keys_are_not_counted_all_the_time_while_the_first_scan_lasts(void **state)
{
	struct kw_error error;
	struct stage stage;
	int before;

	stage_open(&stage, "commands");
	stage_another_proxy(&stage, STAGE_EPOCH, false);
	stage_fill(&stage, 0, 10);
	test_proxy_publish(&stage.proxy);
	stage_cli(&stage, "set theirs 1");
	kw_filter_add_prefix(&stage.options.filter, "key:", &error);
	stage_start_agent(&stage);
	stage_wait(&stage, is_waiting_for_the_scan, "the agent waits for the first scan");
	before = scans(&stage);
	test_run_ms(&stage.loop, 500);
	assert_true(scans(&stage) <= before + 1);
	stage_close(&stage);
}

static void a_payload_version_beyond_the_local_server_is_named_and_nothing_written(void **state)
{
	struct stage stage;

	stage_open(&stage, "commands");
	stage.proxy.facts.rdb_version = 12;
	stage_fill(&stage, 0, 10);
	test_proxy_publish(&stage.proxy);
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "version 12"));
	assert_non_null(strstr(stage.agent->reason, "version 10"));
	assert_string_equal(stage_cli(&stage, "dbsize"), "0");
	assert_string_equal(stage_cli(&stage, "function list"), "");
	stage_close(&stage);
}

static void the_primary_itself_is_refused_as_local_server(void **state)
{
	struct kw_server_identity identity = {0};
	struct stage stage;

	stage_open(&stage, "commands");
	snprintf(identity.run_id, sizeof identity.run_id, "%.40s",
		strstr(stage_cli(&stage, "info server"), "run_id:") + 7);
	stage.proxy.facts.source_id = kw_server_id(&identity);
	stage_fill(&stage, 0, 10);
	test_proxy_publish(&stage.proxy);
	stage_start_agent(&stage);
	stage_wait_state(&stage, KW_AGENT_FAILED);
	assert_non_null(strstr(stage.agent->reason, "is the primary"));
	assert_string_equal(stage_cli(&stage, "dbsize"), "0");
	stage.proxy.facts.source_id++; /* another server, as after a failover */
	stage_wait_warm(&stage);
	assert_string_equal(
		stage_cli(&stage, "dbsize"), "5"); /* the other half is in another database */
	stage_close(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_of_somebody_else_are_not_touched_without_consent),
		cmocka_unit_test(with_consent_foreign_keys_are_replaced),
		cmocka_unit_test(keys_beyond_the_prefixes_need_no_consent_and_stay),
		cmocka_unit_test(keys_are_not_counted_all_the_time_while_the_first_scan_lasts),
		cmocka_unit_test(
			a_payload_version_beyond_the_local_server_is_named_and_nothing_written),
		cmocka_unit_test(the_primary_itself_is_refused_as_local_server),
	};

	return cmocka_run_group_tests_name("agent-consent", tests, NULL, NULL);
}
