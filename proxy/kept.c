/* The table of the process before, taken over at the start and left behind at the end. */
#include "proxy.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "keeper.h"
#include "table/keep.h"

#include <string.h>

/* The keys of the primary that a table can have: with others it is another table. */
static uint64_t scope_of(const struct kw_config *config)
{
	const char *cursor = kw_config_text(config, "source.cursor_name");
	uint64_t scope = kw_hash_key(0, 0, cursor, strlen(cursor));

	for (size_t i = 0; i < kw_config_count(config, "source.databases"); i++)
		scope = kw_hash_key(scope,
			(uint32_t)kw_config_integer_at(config, "source.databases", i), "", 0);
	return scope;
}

static struct kw_keep_terms keep_terms(const struct kw_config *config)
{
	char name[KW_PROXY_FULL_NAME];

	kw_proxy_name(config, name);
	return (struct kw_keep_terms){kw_proxy_identity(name), scope_of(config)};
}

static int adopt(struct kw_proxy *proxy, struct kw_error *error)
{
	const struct kw_table_memory memory = kw_proxy_table_memory(proxy);
	const struct kw_table_options options = kw_proxy_table_options(proxy);
	const struct kw_keep_terms terms = keep_terms(proxy->daemon.config);
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
		"(checked in %llu ms)",
		(unsigned long long)stats.keys, (unsigned long long)stats.version,
		(unsigned long long)proxy->epoch,
		(unsigned long long)(kw_clock_us() - begin_us) / 1000);
	return KW_OK;
}

/* Whatever is wrong with what was kept, the proxy starts: with an empty table of a new epoch. */
int kw_proxy_take_kept(struct kw_proxy *proxy, struct kw_error *error)
{
	struct kw_error why = {0};
	int code = kw_keeper_take(proxy->daemon.config, &proxy->memory, &why);

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
	const struct kw_keep_terms terms = keep_terms(proxy->daemon.config);
	struct kw_error error;

	/* What no scan has completed is of no use to agents. */
	if (!kw_keeper_can(proxy->daemon.config) || !kw_table_facts(proxy->table)->complete)
		return;
	kw_table_set_time(proxy->table, kw_clock_us());
	kw_table_seal(proxy->table, &terms, kw_wall_us());
	if (kw_keeper_put(proxy->daemon.config, &proxy->memory, &error))
		kw_log_warn("proxy", "the table is not kept: %s", error.text);
	else
		kw_log_info("proxy", "the table is left for the next start");
}
