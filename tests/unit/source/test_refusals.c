/* Servers that cannot be followed: refused with the remedy, and followed once it was applied. */
#include "fixture.h"

#include "redis/server.h"

#include <stdio.h>
#include <string.h>

static struct test test;

#define RULES                                                                                      \
	"resetchannels &__keye* &__redis__:invalidate ~* -@all +info +config|get "                 \
	"+config|set +client|id +client|tracking +client|setname +subscribe +psubscribe +ping "    \
	"+select +scan +dump +pexpiretime +time +exists"

static void follow_as_user(const char *words, const char *less)
{
	test_begin(&test, words, 0);
	test_ask(&test, "SET a 1 EX 1000");
	test_ask(&test, "SET b 1");
	test_ask(&test, "ACL SETUSER keywake on >secret %s %s", RULES, less);
	snprintf(test.options.redis.username, sizeof test.options.redis.username, "keywake");
	test.options.redis.password = kw_slice_text("secret");
	test_follow(&test);
}

static void the_documented_rules_are_enough(void **state)
{
	follow_as_user("", "");
	test_settle(&test);
	test_ask(&test, "SET c 1 PX 500000");
	test_ask(&test, "SELECT 3");
	test_ask(&test, "SET c 1");
	test_ask(&test, "FLUSHDB");
	test_settle(&test);
	test_ask(&test, "SWAPDB 0 1");
	test_run_ms(&test, 300);
	test_settle(&test);
	test_assert_same(&test);
	assert_string_equal(strstr(test_ask(&test, "ACL LOG"), "reason") ? "denied" : "", "");
	test_end(&test);
}

/* That was what the documentation granted once. */
static void a_grant_of_the_long_pattern_is_enough(void **state)
{
	follow_as_user("", "resetchannels &__keyevent@*__:* &__redis__:invalidate");
	test_settle(&test);
	test_ask(&test, "SET c 1");
	test_settle(&test);
	test_ask(&test, "FLUSHDB");
	test_ask(&test, "SET d 1");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_missing_permission_is_named_with_its_rule(void **state)
{
	static const struct {
		const char *less, *named;
	} cases[] = {
		{"-info", "+info"},
		{"-config|get", "+config|get"},
		{"-client|id", "+client|id"},
		{"-client|tracking", "+client|tracking"},
		{"-subscribe", "+subscribe"},
		{"-psubscribe", "+psubscribe"},
		{"resetchannels &__redis__:invalidate", "&__keye*"},
		{"-scan", "+scan"},
		{"-dump", "+dump"},
		{"-pexpiretime", "+pexpiretime"},
		{"-time", "+time"},
		{"resetkeys", "~*"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		follow_as_user("--notify-keyspace-events AE", cases[i].less);
		test_until_state(&test, KW_SOURCE_DOWN);
		if (!strstr(kw_source_reason(test.source), cases[i].named) ||
			!strstr(kw_source_reason(test.source), "keywake"))
			fail_msg("%s: %s", cases[i].less, kw_source_reason(test.source));
		test_ask(&test, "ACL SETUSER keywake %s", RULES);
		test_settle(&test);
		test_assert_same(&test);
		test_end(&test);
	}
}

/* As the server counts them. */
static uint64_t calls_of(const char *command)
{
	const char *info = test_ask(&test, "INFO commandstats");

	return kw_info_calls(kw_slice_text(info), command);
}

/* Without the one that looks at permissions, which the server refuses for its words. */
static uint64_t scans_done(void)
{
	const char *info = test_ask(&test, "INFO commandstats");

	return kw_info_done(kw_slice_text(info), "scan");
}

static void trust(const char *server)
{
	test_begin(&test, server, 0);
	test.options.flags = KW_SOURCE_FLAGS_TRUST;
	test_ask(&test, "SET a 1 EX 1000");
	test_ask(&test, "XGROUP CREATE s g 0 MKSTREAM");
	test_follow(&test);
}

static bool was_reconciled(struct test *of)
{
	return test_stats(of).reconciles > 0;
}

static void flags_that_may_not_be_set_are_asked_for(void **state)
{
	follow_as_user("--notify-keyspace-events KA", "-config|set");
	test_until_state(&test, KW_SOURCE_DOWN);
	assert_non_null(strstr(kw_source_reason(test.source), "notify-keyspace-events AE"));
	assert_non_null(strstr(kw_source_reason(test.source), "+config|set"));
	test_ask(&test, "CONFIG SET notify-keyspace-events AKE");
	test_settle(&test);
	test_assert_same(&test);
	test_ask(&test, "CONFIG SET notify-keyspace-events K");
	test_until_state(&test, KW_SOURCE_DOWN);
	test_ask(&test, "SET unheard 1");
	test_ask(&test, "CONFIG SET notify-keyspace-events AE");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void flags_that_shall_only_be_checked_are_never_set(void **state)
{
	test_begin(&test, "--notify-keyspace-events KA", 0);
	test.options.flags = KW_SOURCE_FLAGS_CHECK;
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_DOWN);
	assert_non_null(strstr(kw_source_reason(test.source), "source.flags=check"));
	test_ask(&test, "CONFIG SET notify-keyspace-events AE");
	test_settle(&test);
	test_ask(&test, "CONFIG SET notify-keyspace-events K");
	test_until_state(&test, KW_SOURCE_DOWN);
	test_ask(&test, "SET unheard 1");
	test_ask(&test, "CONFIG SET notify-keyspace-events AE");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(calls_of("config|set"), 3);
	test_end(&test);
}

/* A primary that has a few databases, or the most that are followed. */
static void without_config_a_server_is_followed(void **state)
{
	static const char *const servers[] = {"--notify-keyspace-events AE",
		"--notify-keyspace-events AE --databases 1",
		"--notify-keyspace-events AE --databases 3",
		"--notify-keyspace-events AE --databases 65536",
		"--notify-keyspace-events AE --databases 70000"};
	static const uint32_t databases[] = {16, 1, 3, 65536, 65536};

	for (size_t i = 0; i < sizeof servers / sizeof *servers; i++) {
		trust(servers[i]);
		test_settle(&test);
		for (uint32_t n = 0; n < databases[i] && n < 5; n++) {
			test_ask(&test, "SELECT %u", n);
			test_ask(&test, "SET c %u PX 500000", n);
		}
		/* Events of databases that there are not. */
		test_ask(&test, "PUBLISH __keyevent@%u__:set c", databases[i]);
		test_ask(&test, "PUBLISH __keyevent@4294967295__:set c");
		test_settle(&test);
		assert_int_equal(test_stats(&test).reconciles, 0);
		test_assert_same(&test);
		assert_int_equal(calls_of("config|get") + calls_of("config|set"), 0);
		test_end(&test);
	}
}

/* One CONFIG SET can have taken the flags away: what it hid is read again. */
static void flags_lost_under_trust_are_a_doubt(void **state)
{
	trust("--notify-keyspace-events AE");
	test_settle(&test);
	test_ask(&test, "MULTI");
	test_ask(&test, "CONFIG SET notify-keyspace-events K");
	test_ask(&test, "SET unheard 1");
	test_ask(&test, "EXEC");
	test_until(&test, was_reconciled, "a reconcile");
	test_settle(&test);
	test_assert_same(&test);
	assert_int_equal(test_stats(&test).reconciles_flags, 1);
	test_end(&test);
}

static void changes_without_events_end_the_trust(void **state)
{
	uint64_t scans;

	trust("");
	test_until_state(&test, KW_SOURCE_LIVE);
	test_ask(&test, "SET unheard 1");
	test_until_state(&test, KW_SOURCE_DOWN);
	assert_non_null(strstr(kw_source_reason(test.source), "notify-keyspace-events AE"));
	scans = scans_done();
	test_run_ms(&test, 2500); /* several tries to connect: none of them scans */
	assert_int_equal(scans_done(), scans);
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_DOWN);
	test_ask(&test, "CONFIG SET notify-keyspace-events AE");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_server_without_writes_is_trusted_on(void **state)
{
	trust("");
	test_until_state(&test, KW_SOURCE_LIVE);
	for (int i = 0; i < 20; i++) {
		test_ask(&test, "SET a 2 NX");
		test_ask(&test, "XREADGROUP GROUP g c STREAMS s >");
		test_ask(&test, "GET a");
		test_run_ms(&test, 250);
	}
	assert_int_equal(kw_source_state(test.source), KW_SOURCE_LIVE);
	test_end(&test);
}

static void a_permission_taken_away_is_noticed(void **state)
{
	follow_as_user("", "");
	test_settle(&test);
	test_ask(&test, "ACL SETUSER keywake -dump");
	test_ask(&test, "SET c 1");
	test_until_state(&test, KW_SOURCE_DOWN);
	test_ask(&test, "ACL SETUSER keywake +dump");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_wrong_password_is_a_state_with_a_reason(void **state)
{
	test_begin(&test, "", 0);
	test_ask(&test, "CONFIG SET requirepass right");
	test.options.redis.password = kw_slice_text("wrong");
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_DOWN);
	assert_non_null(strstr(kw_source_reason(test.source), "password"));
	test_ask(&test, "CONFIG SET requirepass wrong");
	test_settle(&test);
	test_assert_same(&test);
	test_end(&test);
}

static void a_cluster_is_refused(void **state)
{
	char words[96];

	/* Without a port of its own the bus takes 10000, beside other tests too. */
	snprintf(words, sizeof words, "--cluster-enabled yes --bind 127.0.0.1 --cluster-port %d",
		test_free_port());
	test_begin(&test, words, 0);
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_DOWN);
	assert_non_null(strstr(kw_source_reason(test.source), "cluster"));
	test_end(&test);
}

static void an_address_that_is_none_is_a_state_with_a_reason(void **state)
{
	test_begin(&test, "", 0);
	strcpy(test.options.redis.address, "somewhere");
	test_follow(&test);
	test_until_state(&test, KW_SOURCE_DOWN);
	assert_true(strlen(kw_source_reason(test.source)) > 0);
	test_run_ms(&test, 300);
	test_end(&test);
}

static void a_database_number_that_is_none_is_refused(void **state)
{
	static const int64_t databases[] = {0, -3};
	struct kw_source *source;
	struct kw_error error;

	test_begin(&test, "", 0);
	test.options.databases = databases;
	test.options.database_count = 2;
	assert_int_equal(
		kw_source_new(&test.loop, &test.options, test.table, NULL, &source, &error),
		KW_E_CONFIG);
	assert_non_null(strstr(error.text, "-3"));
	test_end(&test);
}

static void a_source_may_be_closed_at_any_moment(void **state)
{
	for (int i = 0; i < 40; i++) {
		test_begin(&test, "", 0);
		test_ask(&test, "DEBUG POPULATE 2000 key 100");
		test_follow(&test);
		for (int turn = 0; turn < i; turn++)
			uv_run(&test.loop, UV_RUN_ONCE);
		test_end(&test);
	}
}

static void names_of_states_are_those_of_the_status(void **state)
{
	assert_string_equal(kw_source_state_name(KW_SOURCE_CONNECTING), "connecting");
	assert_string_equal(kw_source_state_name(KW_SOURCE_SCANNING), "scanning");
	assert_string_equal(kw_source_state_name(KW_SOURCE_LIVE), "live");
	assert_string_equal(kw_source_state_name(KW_SOURCE_RECONCILING), "reconciling");
	assert_string_equal(kw_source_state_name(KW_SOURCE_FULL), "table_full");
	assert_string_equal(kw_source_state_name(KW_SOURCE_DOWN), "source_down");
	assert_string_equal(kw_source_state_name((enum kw_source_state)77), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_documented_rules_are_enough),
		cmocka_unit_test(a_grant_of_the_long_pattern_is_enough),
		cmocka_unit_test(a_missing_permission_is_named_with_its_rule),
		cmocka_unit_test(flags_that_may_not_be_set_are_asked_for),
		cmocka_unit_test(flags_that_shall_only_be_checked_are_never_set),
		cmocka_unit_test(without_config_a_server_is_followed),
		cmocka_unit_test(flags_lost_under_trust_are_a_doubt),
		cmocka_unit_test(changes_without_events_end_the_trust),
		cmocka_unit_test(a_server_without_writes_is_trusted_on),
		cmocka_unit_test(a_permission_taken_away_is_noticed),
		cmocka_unit_test(a_wrong_password_is_a_state_with_a_reason),
		cmocka_unit_test(a_cluster_is_refused),
		cmocka_unit_test(an_address_that_is_none_is_a_state_with_a_reason),
		cmocka_unit_test(a_database_number_that_is_none_is_refused),
		cmocka_unit_test(a_source_may_be_closed_at_any_moment),
		cmocka_unit_test(names_of_states_are_those_of_the_status),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
