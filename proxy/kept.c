/* The table of the process before, taken over at the start and left behind at the end. */
#include "proxy.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "control/config/keys.h"
#include "control/notify.h"
#include "keeper.h"
#include "table/keep.h"

#include <string.h>

/* The check and the copy run at more than ten times this rate on a quiet host. */
#define TIME_LEAST_US UINT64_C(60000000)
#define TIME_BYTES_PER_US 200

/* What of the primary a table can have: with something else it is another table. */
static uint64_t scope_of(const struct kw_config *config)
{
	const char *cursor = kw_config_text(config, "source.cursor_name");
	const char *canary = kw_config_text(config, "source.canary_key");
	uint64_t scope = kw_hash_key(0, 0, cursor, strlen(cursor));

	for (size_t i = 0; i < kw_config_count(config, "source.databases"); i++)
		scope = kw_hash_key(scope,
			(uint32_t)kw_config_integer_at(config, "source.databases", i), "", 0);
	if (*canary)
		scope = kw_hash_key(scope, 0, canary, strlen(canary));
	if (kw_config_bool(config, "source.functions"))
		scope = kw_hash_key(scope, 1, "", 0);
	return scope;
}

/* Who may map the memory over shm: the holders of keys, and listed users. */
static uint64_t readers_of(const struct kw_config *config, const struct kw_keyring *keyring)
{
	uint64_t users = 0;

	for (size_t i = 0; i < kw_config_count(config, "shm.users"); i++) {
		const char *user = kw_config_text_at(config, "shm.users", i);

		users = kw_hash_key(users, 0, user, strlen(user));
	}
	return kw_keyring_hash(keyring, users);
}

/* The first ring counts; with another one some of its keys may be withdrawn. */
void kw_proxy_note_readers(struct kw_proxy *proxy, const struct kw_keyring *keyring)
{
	if (proxy->readers != readers_of(proxy->daemon.config, keyring))
		proxy->readers = 0;
}

static void begin_readers(struct kw_proxy *proxy)
{
	struct kw_error error;
	struct kw_keyring *keyring = kw_keys_load(proxy->daemon.config, &error);

	/* What is wrong with it is told when the server is made. */
	if (keyring)
		proxy->readers = readers_of(proxy->daemon.config, keyring);
	kw_keyring_release(keyring);
}

static struct kw_keep_terms keep_terms(const struct kw_proxy *proxy)
{
	char name[KW_PROXY_FULL_NAME];

	kw_proxy_name(proxy->daemon.config, name);
	return (struct kw_keep_terms){
		kw_proxy_identity(name), scope_of(proxy->daemon.config), proxy->readers};
}

/* By the clock of this host, which can have been set since. */
static uint64_t sealed_s_ago(const struct kw_table *table)
{
	const uint64_t now_us = kw_wall_us(), sealed_us = kw_table_sealed_us(table);

	return now_us > sealed_us ? (now_us - sealed_us) / 1000000 : 0;
}

static int adopt(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_table_memory memory = kw_proxy_table_memory(proxy);
	const struct kw_table_options options = kw_proxy_table_options(proxy);
	const struct kw_keep_terms terms = keep_terms(proxy);
	const uint64_t begin_us = kw_clock_us();
	struct kw_table_stats stats;

	proxy->table = kw_table_adopt(&options, &memory, &terms, error);
	if (!proxy->table) {
		kw_memory_close(&proxy->memory);
		return (int)error->code;
	}
	proxy->epoch = kw_table_epoch(proxy->table);
	kw_proxy_publish(proxy);
	kw_table_stats(proxy->table, &stats);
	kw_log_info("proxy",
		"the table was kept: %llu keys up to version %llu go on in epoch %016llx "
		"(sealed %llu s ago, checked in %llu ms)",
		(unsigned long long)stats.keys, (unsigned long long)stats.version,
		(unsigned long long)proxy->epoch, (unsigned long long)sealed_s_ago(proxy->table),
		(unsigned long long)(kw_clock_us() - begin_us) / 1000);
	return KW_OK;
}

/* A large table takes longer to check, or to copy, than the unit allows for a start or an end. */
static void ask_for_time(const struct kw_config *config)
{
	const uint64_t bytes = (uint64_t)kw_config_integer(config, "table.max_bytes");

	if (kw_keeper_can(config))
		kw_notify_extend(TIME_LEAST_US + bytes / TIME_BYTES_PER_US);
}

/* Whatever is wrong with what was kept, the proxy starts: with an empty table of a new epoch. */
int kw_proxy_take_kept(struct kw_proxy *proxy, struct kw_error *error)
{
	struct kw_error why = {0};
	int code;

	ask_for_time(proxy->daemon.config);
	begin_readers(proxy);
	code = kw_keeper_take(proxy->daemon.config, proxy->readers, &proxy->memory, &why);
	if (code == KW_E_CONFIG) {
		*error = why;
		return code;
	}
	if (code == KW_E_GONE || (code == KW_OK && adopt(proxy, &why) == KW_OK))
		return KW_OK;
	kw_log_warn(
		"proxy", "the table that was kept is not used, and a new one begins: %s", why.text);
	return KW_OK;
}

/* Every part is closed: nothing is written any more. */
void kw_proxy_keep_table(struct kw_proxy *proxy)
{
	const struct kw_keep_terms terms = keep_terms(proxy);
	struct kw_error error;

	/* What no scan has completed is of no use to agents. */
	if (!kw_keeper_can(proxy->daemon.config) || !kw_table_facts(proxy->table)->complete)
		return;
	ask_for_time(proxy->daemon.config);
	kw_table_set_time(proxy->table, kw_clock_us());
	kw_table_seal(proxy->table, &terms, kw_wall_us());
	if (kw_keeper_put(proxy->daemon.config, &proxy->memory, &error))
		kw_log_warn("proxy", "the table is not kept: %s", error.text);
	else
		kw_log_info("proxy", "the table is left for the next start");
}
