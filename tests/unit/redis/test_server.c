/* What INFO says, and what errors mean. */
#include "fixture.h"
#include "redis/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char redis_info[] =
	"# Server\r\nredis_version:7.0.15\r\nredis_mode:standalone\r\nprocess_id:4711\r\n"
	"run_id:0123456789012345678901234567890123456789\r\n\r\n"
	"# Persistence\r\nloading:0\r\nasync_loading:0\r\n\r\n"
	"# Replication\r\nrole:master\r\n"
	"master_replid:abcdefabcdefabcdefabcdefabcdefabcdefabcd\r\n"
	"master_replid2:0000000000000000000000000000000000000000\r\nsecond_repl_offset:-1\r\n\r\n"
	"# Commandstats\r\ncmdstat_get:calls=12,usec=5,usec_per_call=0.42\r\n"
	"cmdstat_function|load:calls=3,usec=1\r\ncmdstat_swapdb:calls=x\r\n\r\n"
	"# "
	"Keyspace\r\ndb0:keys=5,expires=2,avg_ttl=0\r\ndb10:keys=7,expires=1,avg_ttl=99,subexpiry="
	"0\r\n"
	"dbx:keys=1,expires=1\r\n";

static const char valkey_info[] = "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1."
				  "2\r\nserver_mode:cluster\r\n"
				  "role:slave\r\nloading:1\r\n";

static struct kw_server_identity parse(const char *text)
{
	struct kw_server_identity identity;

	assert_int_equal(kw_server_identity_parse(kw_slice_text(text), &identity, NULL), 0);
	return identity;
}

static void the_identity_of_a_redis_is_read(void **state)
{
	struct kw_server_identity identity = parse(redis_info);

	assert_false(identity.valkey);
	assert_int_equal(identity.major, 7);
	assert_int_equal(identity.minor, 0);
	assert_int_equal(identity.patch, 15);
	assert_string_equal(identity.mode, "standalone");
	assert_string_equal(identity.run_id, "0123456789012345678901234567890123456789");
	assert_int_equal(identity.process, 4711);
	assert_string_equal(identity.replid, "abcdefabcdefabcdefabcdefabcdefabcdefabcd");
	assert_string_equal(identity.replid2, "0000000000000000000000000000000000000000");
	assert_int_equal(identity.second_offset, 0);
	assert_string_equal(identity.role, "master");
	assert_false(identity.loading);
	assert_int_equal(identity.databases, 16);
	assert_int_equal(identity.expires_total, 3);
	assert_int_equal(kw_server_identity_check(&identity, NULL), 0);
}

static void a_server_whose_writes_wait_for_replicas_is_known(void **state)
{
	assert_false(parse(redis_info).counts_replicas);
	assert_true(parse("redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:0\r\n"
			  "min_slaves_good_slaves:0\r\n")
			    .counts_replicas);
}

static void a_failover_under_way_is_known(void **state)
{
	assert_false(parse(redis_info).failing_over);
	assert_false(parse("redis_version:7.0.15\r\nmaster_failover_state:no-failover\r\n")
			     .failing_over);
	assert_true(parse("redis_version:7.0.15\r\nmaster_failover_state:waiting-for-sync\r\n")
			    .failing_over);
}

static void a_valkey_is_not_taken_for_the_redis_it_stems_from(void **state)
{
	struct kw_server_identity identity = parse(valkey_info);

	assert_true(identity.valkey);
	assert_int_equal(identity.major, 9);
	assert_int_equal(identity.minor, 1);
	assert_string_equal(identity.mode, "cluster");
	assert_string_equal(identity.role, "slave");
	assert_true(identity.loading);
	assert_int_equal(kw_server_rdb_version(&identity), 80);
}

static void info_of_something_else_is_refused(void **state)
{
	static const char *const wrong[] = {"", "hello", "redis_version:\r\n",
		"redis_version:7\r\n", "redis_version:x.y\r\n",
		"redis_version:7.2.0\r\ndragonfly_version:df-v1.0\r\n",
		"redis_version:99999999999999999999.1\r\n"};

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct kw_server_identity identity;
		struct kw_error error;

		assert_int_not_equal(
			kw_server_identity_parse(kw_slice_text(wrong[i]), &identity, &error), 0);
		assert_true(strlen(error.text) > 20);
	}
}

static void check_identity(const char *info, enum kw_code code, const char *remedy)
{
	struct kw_server_identity identity = parse(info);
	struct kw_error error = {0};

	assert_int_equal(kw_server_identity_check(&identity, &error), code);
	if (code != KW_OK)
		assert_non_null(strstr(error.text, remedy));
}

static void old_servers_and_sentinels_are_refused_with_the_remedy(void **state)
{
	check_identity("redis_version:6.0.20\r\n", KW_E_REFUSED, "Redis 6.2");
	check_identity("redis_version:2.8.0\r\n", KW_E_REFUSED, "Redis 6.2");
	check_identity("redis_version:6.2.0\r\n", KW_OK, "");
	check_identity("redis_version:8.0.2-rc1\r\n", KW_OK, "");
	check_identity("redis_version:7.2.4\r\nvalkey_version:7.2.5\r\n", KW_OK, "");
	check_identity("redis_version:7.0.0\r\nredis_mode:sentinel\r\n", KW_E_REFUSED,
		"GET-MASTER-ADDR-BY-NAME");
	check_identity("redis_version:7.0.0\r\nredis_mode:cluster\r\n", KW_E_REFUSED,
		"cluster-enabled no");
}

static void rdb_versions_follow_the_version(void **state)
{
	static const struct {
		bool valkey;
		int major, minor;
		uint16_t rdb;
	} known[] = {{false, 6, 2, 9}, {false, 7, 0, 10}, {false, 7, 2, 11}, {false, 7, 4, 12},
		{false, 8, 0, 12}, {false, 8, 4, 12}, {false, 8, 6, 13}, {false, 8, 8, 14},
		{false, 9, 0, 14}, {true, 7, 2, 11}, {true, 8, 1, 11}, {true, 9, 0, 80},
		{true, 9, 1, 80}};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		struct kw_server_identity identity = {.valkey = known[i].valkey,
			.major = known[i].major,
			.minor = known[i].minor};

		assert_int_equal(kw_server_rdb_version(&identity), known[i].rdb);
	}
}

static void fields_are_found_by_their_whole_name(void **state)
{
	struct kw_slice info = kw_slice_text(redis_info), text;
	uint64_t number = 77;

	assert_true(kw_info_text(info, "role", &text));
	assert_true(kw_slice_equal(text, kw_slice_text("master")));
	assert_false(kw_info_text(info, "rol", &text));
	assert_false(kw_info_text(info, "ole", &text));
	assert_true(kw_info_number(info, "loading", &number));
	assert_int_equal(number, 0);
	number = 77;
	assert_false(kw_info_number(info, "role", &number));
	assert_false(kw_info_number(info, "redis_version", &number));
	assert_false(kw_info_number(kw_slice_text("n:18446744073709551616"), "n", &number));
	assert_int_equal(number, 77);
	assert_true(kw_info_number(kw_slice_text("n:18446744073709551615"), "n", &number));
	assert_true(number == UINT64_MAX);
	assert_false(kw_info_text(kw_slice(NULL, 0), "n", &text));
}

static void calls_are_counted_for_containers_too(void **state)
{
	struct kw_slice info = kw_slice_text(redis_info);

	assert_int_equal(kw_info_calls(info, "get"), 12);
	assert_int_equal(kw_info_calls(info, "function|load"), 3);
	assert_int_equal(kw_info_calls(info, "function"), 0);
	assert_int_equal(kw_info_calls(info, "swapdb"), 0);
	assert_int_equal(kw_info_calls(info, "never"), 0);
}

static void note_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	kw_buffer_printf(arg, "%u:%llu/%llu ", database, (unsigned long long)keys,
		(unsigned long long)expires);
}

static void the_keyspace_is_walked_database_by_database(void **state)
{
	struct kw_buffer notes = {0};

	assert_int_equal(kw_info_keyspace(kw_slice_text(redis_info), note_database, &notes), 2);
	assert_int_equal(kw_buffer_length(&notes), 13);
	assert_memory_equal(kw_buffer_bytes(&notes), "0:5/2 10:7/1 ", 13);
	kw_buffer_close(&notes);
}

static void errors_are_told_apart_by_their_first_word(void **state)
{
	static const struct {
		const char *text;
		enum kw_server_error kind;
	} known[] = {
		{"LOADING Redis is loading the dataset in memory", KW_SERVER_E_LOADING},
		{"BUSY Redis is busy running a script.", KW_SERVER_E_BUSY},
		{"MASTERDOWN Link with MASTER is down", KW_SERVER_E_MASTERDOWN},
		{"BUSYKEY Target key name already exists.", KW_SERVER_E_OTHER},
		{"OOM command not allowed when used memory > 'maxmemory'.", KW_SERVER_E_OOM},
		{"READONLY You can't write against a read only replica.", KW_SERVER_E_READONLY},
		{"MISCONF Redis is configured to save RDB snapshots", KW_SERVER_E_MISCONF},
		{"NOREPLICAS Not enough good replicas to write.", KW_SERVER_E_MISCONF},
		{"NOPERM this user has no permissions", KW_SERVER_E_PERMISSION},
		{"ERR DUMP payload version or checksum are wrong", KW_SERVER_E_PAYLOAD},
		{"ERR Bad data format", KW_SERVER_E_PAYLOAD},
		{"WRONGTYPE Operation against a key", KW_SERVER_E_OTHER},
		{"ERR OOM is not the first word", KW_SERVER_E_OTHER},
		{"", KW_SERVER_E_OTHER},
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		assert_int_equal(kw_server_error(kw_slice_text(known[i].text)), known[i].kind);
}

static void take_info(void *arg, const struct kw_reply *reply)
{
	struct kw_buffer *info = arg;

	assert_non_null(reply);
	kw_buffer_append(info, reply->text.data, reply->text.length);
}

static void the_info_of_a_real_server_is_understood(void **state)
{
	struct kw_server_identity identity;
	struct kw_redis_options options;
	struct kw_buffer text = {0};
	struct test_server server;
	struct test_client c;
	struct kw_slice info;

	test_server_start(&server, NULL);
	options = test_options(server.address);
	test_client_open(&c, &options);
	kw_redis_words(c.redis, NULL, NULL, "SET", "k", "v", "EX", "100", NULL);
	kw_redis_words(c.redis, take_info, &text, "INFO", "everything", NULL);
	kw_redis_words(c.redis, test_client_note, &c, "RESTORE", "r", "0", "garbage", NULL);
	test_client_run(&c, &c.replies, 1);
	info = kw_slice(kw_buffer_bytes(&text), kw_buffer_length(&text));
	assert_int_equal(kw_server_identity_parse(info, &identity, NULL), 0);
	assert_int_equal(kw_server_identity_check(&identity, NULL), 0);
	assert_int_equal(strlen(identity.run_id), 40);
	assert_int_equal(strlen(identity.replid), 40);
	assert_string_equal(identity.role, "master");
	assert_string_equal(identity.mode, "standalone");
	assert_int_equal(identity.expires_total, 1);
	assert_int_equal(kw_info_calls(info, "set"), 1);
	assert_int_equal(kw_info_calls(info, "client|setname"), 1);
	assert_int_equal(
		kw_server_error(kw_slice_text(test_client_heard(&c) + 1)), KW_SERVER_E_PAYLOAD);
	test_client_stop(&c);
	test_server_stop(&server);
	kw_buffer_close(&text);
}

static void seconds_of_info_become_microseconds(void **state)
{
	struct kw_slice info = kw_slice_text("a:12.345678\r\nb:7\r\nc:0.5\r\nd:1.2345678\r\n"
					     "e:x\r\nf:1.2x\r\ng:18446744073709551615\r\n");
	uint64_t us;

	assert_true(kw_info_seconds(info, "a", &us));
	assert_int_equal(us, 12345678);
	assert_true(kw_info_seconds(info, "b", &us));
	assert_int_equal(us, 7000000);
	assert_true(kw_info_seconds(info, "c", &us));
	assert_int_equal(us, 500000);
	assert_true(kw_info_seconds(info, "d", &us));
	assert_int_equal(us, 1234567);
	assert_false(kw_info_seconds(info, "e", &us));
	assert_false(kw_info_seconds(info, "f", &us));
	assert_false(kw_info_seconds(info, "g", &us));
	assert_false(kw_info_seconds(info, "none", &us));
}

static void list_command(void *arg, struct kw_slice command, uint64_t calls, uint64_t usec)
{
	char *text = arg;

	sprintf(text + strlen(text), "%.*s %llu %llu,", (int)command.length,
		(const char *)command.data, (unsigned long long)calls, (unsigned long long)usec);
}

static void commands_of_info_are_listed(void **state)
{
	char text[256] = "";

	kw_info_commands(
		kw_slice_text(
			"# Commandstats\r\n"
			"cmdstat_get:calls=12,usec=5,usec_per_call=0.42\r\n"
			"cmdstat_function|load:calls=3,usec=1\r\n"
			"cmdstat_broken\r\ncmdstat_x:calls=1\r\ncmdstat_y:calls=a,usec=2\r\n"),
		list_command, text);
	assert_string_equal(text, "get 12 5,function|load 3 1,");
}

static void modules_that_bear_no_load_beside_the_data_are_named(void **state)
{
	char name[8] = "";

	assert_false(kw_info_module_in_the_way(
		kw_slice_text("# Modules\r\n"
			      "module:name=vectorset,ver=1,options=[handle-io-errors|"
			      "handle-repl-async-load]\r\n"),
		name, sizeof name));
	assert_true(kw_info_module_in_the_way(
		kw_slice_text("# Modules\r\n"
			      "module:name=good,options=[handle-io-errors|handle-repl-async-load]"
			      "\r\nmodule:name=rather long,ver=1,options=[handle-io-errors]\r\n"),
		name, sizeof name));
	assert_string_equal(name, "rather ");
	assert_true(kw_info_module_in_the_way(kw_slice_text("module:name="), name, sizeof name));
	assert_string_equal(name, "");
	assert_false(kw_info_module_in_the_way(kw_slice_text(""), name, sizeof name));
}

static void a_module_is_found_by_its_whole_name(void **state)
{
	struct kw_slice info = kw_slice_text("redis_version:8.0.6\r\n# Modules\r\n"
					     "module:name=vectorset,ver=1\r\nmodule:name=x\r\n");

	assert_true(kw_info_has_module(info, "vectorset"));
	assert_false(kw_info_has_module(info, "vector"));
	assert_false(kw_info_has_module(info, "x"));
	assert_false(kw_info_has_module(kw_slice_text(""), "vectorset"));
}

/* What Valkey 9.1.2 says. Its server does load beside the old data. */
#define LUA "module:name=lua,ver=1,api=1,filters=0,usedby=[],using=[],options="

static void the_script_engine_of_valkey_is_not_in_the_way(void **state)
{
	static const struct {
		const char *info, *named;
	} cases[] = {
		{"valkey_version:9.1.2\r\n" LUA
		 "[handle-repl-async-load|handle-atomic-slot-migration]\r\n",
			NULL},
		{"valkey_version:9.1.2\r\n" LUA "[]\r\n", "lua"},
		{"redis_version:8.0.6\r\n" LUA "[handle-repl-async-load]\r\n", "lua"},
		{"valkey_version:9.1.2\r\nmodule:name=lua2,options=[handle-repl-async-load]\r\n",
			"lua2"},
		{"valkey_version:9.1.2\r\n" LUA "[handle-repl-async-load]\r\n"
		 "module:name=other,options=[]\r\n",
			"other"},
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char name[8] = "";

		assert_int_equal(
			kw_info_module_in_the_way(kw_slice_text(cases[i].info), name, sizeof name),
			cases[i].named != NULL);
		assert_string_equal(name, cases[i].named ? cases[i].named : "");
	}
}

static void a_replica_tells_whether_it_follows_its_primary(void **state)
{
	static const struct {
		const char *replication;
		enum kw_server_upstream upstream;
	} cases[] = {
		{"role:master\r\n", KW_UPSTREAM_NONE},
		{"role:master\r\nmaster_link_status:down\r\n", KW_UPSTREAM_NONE},
		{"role:slave\r\nmaster_link_status:up\r\nmaster_sync_in_progress:0\r\n",
			KW_UPSTREAM_UP},
		{"role:slave\r\nmaster_link_status:down\r\nmaster_sync_in_progress:0\r\n",
			KW_UPSTREAM_DOWN},
		{"role:slave\r\nmaster_link_status:down\r\nmaster_sync_in_progress:1\r\n",
			KW_UPSTREAM_SYNCING},
		{"role:slave\r\n", KW_UPSTREAM_UP},
		{"role:slave\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:15\r\n",
			KW_UPSTREAM_UP},
		{"role:slave\r\nmaster_link_status:up\r\nmaster_last_io_seconds_ago:16\r\n",
			KW_UPSTREAM_SILENT},
		{"role:slave\r\nmaster_link_status:down\r\nmaster_last_io_seconds_ago:-1\r\n",
			KW_UPSTREAM_DOWN},
	};
	char info[256];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		snprintf(info, sizeof info, "redis_version:7.0.15\r\n%s", cases[i].replication);
		assert_int_equal(parse(info).upstream, cases[i].upstream);
	}
}

static void failed_calls_did_nothing(void **state)
{
	struct kw_slice info =
		kw_slice_text("cmdstat_flushall:calls=5,usec=1,usec_per_call=1.00,rejected_calls=7,"
			      "failed_calls=2\r\ncmdstat_flushdb:calls=3,usec=1\r\n");

	assert_int_equal(kw_info_done(info, "flushall"), 3);
	assert_int_equal(kw_info_done(info, "flushdb"), 3);
	assert_int_equal(kw_info_done(info, "swapdb"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seconds_of_info_become_microseconds),
		cmocka_unit_test(commands_of_info_are_listed),
		cmocka_unit_test(the_identity_of_a_redis_is_read),
		cmocka_unit_test(a_server_whose_writes_wait_for_replicas_is_known),
		cmocka_unit_test(a_failover_under_way_is_known),
		cmocka_unit_test(a_valkey_is_not_taken_for_the_redis_it_stems_from),
		cmocka_unit_test(info_of_something_else_is_refused),
		cmocka_unit_test(old_servers_and_sentinels_are_refused_with_the_remedy),
		cmocka_unit_test(rdb_versions_follow_the_version),
		cmocka_unit_test(a_replica_tells_whether_it_follows_its_primary),
		cmocka_unit_test(failed_calls_did_nothing),
		cmocka_unit_test(fields_are_found_by_their_whole_name),
		cmocka_unit_test(calls_are_counted_for_containers_too),
		cmocka_unit_test(the_keyspace_is_walked_database_by_database),
		cmocka_unit_test(errors_are_told_apart_by_their_first_word),
		cmocka_unit_test(the_info_of_a_real_server_is_understood),
		cmocka_unit_test(modules_that_bear_no_load_beside_the_data_are_named),
		cmocka_unit_test(a_module_is_found_by_its_whole_name),
		cmocka_unit_test(the_script_engine_of_valkey_is_not_in_the_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
