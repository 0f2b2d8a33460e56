/*
 * Arbitrary bytes as the answer to INFO, and as an address of a server: every look at them stays
 * within them, and what is found keeps the bounds that the headers name.
 */
#include "fuzz.h"

#include "local/facts.h"
#include "redis/address.h"
#include "redis/server.h"

#include <stdlib.h>
#include <string.h>

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES(
		"# Server\r\nredis_version:7.4.1\r\nredis_mode:standalone\r\nprocess_id:17\r\n"
		"run_id:0123456789abcdef0123456789abcdef01234567\r\n# Replication\r\n"
		"role:slave\r\nmaster_host:10.0.0.1\r\nmaster_port:6379\r\n"
		"master_link_status:up\r\n"
		"master_replid:6b65797761000000000000000000000000000000\r\n"
		"master_replid2:0000000000000000000000000000000000000000\r\n"
		"loading:0\r\nevicted_keys:3\r\nmaxmemory:1024\r\n"
		"maxmemory_policy:allkeys-lru\r\naof_enabled:1\r\n"
		"unexpected_error_replies:2\r\n"),
	KW_FUZZ_BYTES("valkey_version:9.0.0-rc1\r\nserver_mode:cluster\r\n# Commandstats\r\n"
		      "cmdstat_flushall:calls=2,usec=40,usec_per_call=20.00\r\n"
		      "cmdstat_function|load:calls=1,usec=9\r\ncmdstat_info:calls=7,usec=70\r\n"),
	KW_FUZZ_BYTES("redis_version:6.2.0\r\n# Keyspace\r\ndb0:keys=10,expires=2,avg_ttl=0\r\n"
		      "db63:keys=1,expires=0\r\ndb64:keys=18446744073709551615,expires=1\r\n"
		      "db4294967295:keys=5,expires=5\r\n"),
	KW_FUZZ_BYTES("# Modules\r\nmodule:name=bf,ver=1,options=[handle-io-errors]\r\n"
		      "used_cpu_sys:12.345678\r\nused_cpu_user:18446744073708.9\r\n"),
	KW_FUZZ_BYTES("dragonfly_version:df-1\r\nredis_version:7.0\r\n"),
	KW_FUZZ_BYTES("tcp://[::1]:6379"),
	KW_FUZZ_BYTES("unix:///run/redis.sock"),
};

static void on_command(void *arg, struct kw_slice command, uint64_t calls, uint64_t usec)
{
	struct kw_slice *info = arg;

	must((const char *)command.data >= (const char *)info->data);
	must(command.length <= info->length);
	(void)calls;
	(void)usec;
}

static void on_database(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	++*(int *)arg;
	(void)database;
	(void)keys;
	(void)expires;
}

static void look_at_facts(struct kw_slice info)
{
	static struct kw_local_facts facts; /* looked at again and again, as one server's */
	const struct kw_filter all = {0};
	struct kw_key_counts counts;

	kw_facts_read(&facts, info, &all);
	must(memchr(facts.policy, 0, sizeof facts.policy) != NULL);
	must(memchr(facts.master_host, 0, sizeof facts.master_host) != NULL);
	must(memchr(facts.replid2, 0, sizeof facts.replid2) != NULL);
	must(memchr(facts.module, 0, sizeof facts.module) != NULL);
	kw_facts_leave_out_cursor_key(&facts);
	(void)kw_local_may_evict(&facts);
	kw_key_counts_set(&counts, facts.database_keys);
	must(kw_key_counts_valid(&counts));
	must(kw_key_counts_shrunk(&counts, &counts) < 0);
}

static void look_at_identity(struct kw_slice info)
{
	struct kw_server_identity identity;
	struct kw_error error = {0};

	if (kw_server_identity_parse(info, &identity, &error) != 0) {
		must(error.text[0] != 0);
		return;
	}
	must(memchr(identity.run_id, 0, sizeof identity.run_id) != NULL);
	must(memchr(identity.replid, 0, sizeof identity.replid) != NULL);
	must(identity.major >= 0 && identity.major <= 9999);
	if (kw_server_identity_check(&identity, &error) == 0)
		must(kw_server_rdb_version(&identity) >= 9);
	(void)kw_server_id(&identity);
}

static void look_at_address(const char *text)
{
	struct kw_redis_address address;
	struct kw_error error = {0};

	if (kw_redis_address_parse(text, &address, &error) != 0) {
		must(error.text[0] != 0);
		return;
	}
	must(memchr(address.host, 0, sizeof address.host) != NULL ||
		address.scheme == KW_REDIS_UNIX);
	(void)kw_redis_address_near(&address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_slice info = kw_slice(data, size), value;
	char name[16], *text = malloc(size + 1);
	uint64_t number;
	int walked = 0;

	must(text != NULL);
	memcpy(text, data, size);
	text[size] = 0;
	look_at_address(text);
	free(text);
	look_at_identity(info);
	look_at_facts(info);
	(void)kw_info_text(info, "role", &value);
	(void)kw_info_number(info, "loading", &number);
	(void)kw_info_calls(info, "function|load");
	(void)kw_info_seconds(info, "used_cpu_user", &number);
	kw_info_commands(info, on_command, &info);
	must(kw_info_keyspace(info, on_database, &walked) == walked);
	if (kw_info_module_in_the_way(info, name, sizeof name))
		must(memchr(name, 0, sizeof name) != NULL);
	must(kw_server_error(info) != KW_SERVER_E_NONE);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
