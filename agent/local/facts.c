#include "facts.h"

#include <assert.h>
#include <stdio.h>

struct counting {
	struct kw_local_facts *facts;
	const struct kw_filter *filter;
};

static void add_keys(void *arg, uint32_t database, uint64_t keys, uint64_t expires)
{
	const struct counting *counting = arg;
	struct kw_local_facts *facts = counting->facts;
	uint32_t last = KW_KEY_COUNTS_DATABASES - 1, table;

	if (!kw_filter_finds_database(counting->filter, database, &table))
		return;
	facts->keys += keys;
	facts->expires += expires;
	facts->database_keys[database < last ? database : last] += keys;
}

static void count_keys(
	struct kw_local_facts *facts, struct kw_slice info, const struct kw_filter *filter)
{
	struct counting counting = {facts, filter};

	facts->keys = facts->expires = 0;
	memset(facts->database_keys, 0, sizeof facts->database_keys);
	kw_info_keyspace(info, add_keys, &counting);
}

static uint64_t number(struct kw_slice info, const char *field)
{
	uint64_t value = 0;

	kw_info_number(info, field, &value);
	return value;
}

/* "" if INFO does not have the field; a longer text is cut. */
static void copy_text(struct kw_slice info, const char *field, char *text, size_t room)
{
	struct kw_slice value = {0};

	assert(room > 0);
	kw_info_text(info, field, &value);
	snprintf(text, room, "%.*s", (int)(value.length < room ? value.length : room),
		value.length ? (const char *)value.data : "");
}

static bool is_text(struct kw_slice info, const char *field, const char *expected)
{
	struct kw_slice value;

	return kw_info_text(info, field, &value) && kw_slice_equal(value, kw_slice_text(expected));
}

static void count_calls(struct kw_local_facts *facts, struct kw_slice info)
{
	const struct kw_reset_signs signs = {
		.infos = kw_info_calls(info, "info"),
		.commands = number(info, "total_commands_processed"),
		.resetstats = kw_info_calls(info, "config|resetstat"),
	};

	facts->flushes = kw_info_calls(info, "flushall") + kw_info_calls(info, "flushdb") +
			 kw_info_calls(info, "swapdb");
	facts->functions = kw_info_calls(info, "function|flush") +
			   kw_info_calls(info, "function|delete") +
			   kw_info_calls(info, "function|restore");
	kw_writers_count(&facts->writers, info);
	facts->resets += kw_resets_look(&facts->signs, &signs);
}

void kw_facts_read(
	struct kw_local_facts *facts, struct kw_slice info, const struct kw_filter *filter)
{
	count_keys(facts, info, filter);
	count_calls(facts, info);
	facts->maxmemory = number(info, "maxmemory");
	copy_text(info, "maxmemory_policy", facts->policy, sizeof facts->policy);
	facts->evicted = number(info, "evicted_keys");
	facts->expired = number(info, "expired_keys");
	facts->clock_us = number(info, "server_time_usec");
	copy_text(info, "master_host", facts->master_host, sizeof facts->master_host);
	facts->master_port = number(info, "master_port");
	facts->master_link_up = is_text(info, "master_link_status", "up");
	facts->refused = number(info, "unexpected_error_replies");
	copy_text(info, "master_replid2", facts->replid2, sizeof facts->replid2);
	facts->aof = number(info, "aof_enabled") > 0;
	facts->vector_sets = kw_info_has_module(info, "vectorset");
	if (!kw_info_module_in_the_way(info, facts->module, sizeof facts->module))
		facts->module[0] = '\0';
}

void kw_facts_leave_out_cursor_key(struct kw_local_facts *facts)
{
	/* INFO can be older than the cursor: then the key is not counted yet. */
	if (facts->cursor_kind != KW_CURSOR_OURS || facts->database_keys[0] == 0)
		return;
	facts->keys--;
	facts->database_keys[0]--;
}

bool kw_local_may_evict(const struct kw_local_facts *facts)
{
	return facts->maxmemory > 0 && strcmp(facts->policy, "noeviction") != 0;
}
