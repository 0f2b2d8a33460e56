/*
 * INFO: the fields that clients read of a server, and a section of our own.
 *
 * Client libraries take `loading` and `master_link_status` for whether the server is ready
 * (ioredis, redis-sentinel), so that both say whether the table is served.
 */
#include "calls.h"

#include "gateway/answers/words.h"

#include <inttypes.h>
#include <unistd.h>

static void put_server(
	const struct kw_call *call, const struct kw_session_facts *facts, struct kw_buffer *out)
{
	char version[KW_SESSION_VERSION_MAX];

	kw_buffer_printf(out,
		"redis_version:%s\r\nredis_mode:standalone\r\narch_bits:64\r\nprocess_id:%ld\r\n"
		"tcp_port:%u\r\nserver_time_usec:%" PRIu64 "\r\nuptime_in_seconds:%" PRIu64
		"\r\nuptime_in_days:%" PRIu64 "\r\n",
		kw_session_server_version(call->host, version), (long)getpid(), facts->port,
		facts->now_us, facts->uptime_s, facts->uptime_s / 86400);
	if (call->host->valkey_version)
		kw_buffer_printf(out, "server_name:valkey\r\nvalkey_version:%s\r\n",
			call->host->valkey_version);
}

static void put_clients(
	const struct kw_call *call, const struct kw_session_facts *facts, struct kw_buffer *out)
{
	kw_buffer_printf(out,
		"connected_clients:%" PRIu64 "\r\nmaxclients:%" PRIu64 "\r\nblocked_clients:0\r\n",
		facts->clients, facts->max_clients);
}

static void put_persistence(
	const struct kw_call *call, const struct kw_session_facts *facts, struct kw_buffer *out)
{
	kw_buffer_printf(out, "loading:%d\r\n", facts->table == KW_SESSION_TABLE_LOADING);
}

static void put_replication(
	const struct kw_call *call, const struct kw_session_facts *facts, struct kw_buffer *out)
{
	bool up = facts->table == KW_SESSION_TABLE_SERVED;

	kw_buffer_printf(out,
		"role:slave\r\nmaster_link_status:%s\r\nmaster_sync_in_progress:%d\r\n"
		"slave_read_only:%d\r\nconnected_slaves:0\r\n",
		up ? "up" : "down", facts->table == KW_SESSION_TABLE_LOADING,
		call->host->forwards == NULL);
}

/* Keys are counted for all databases together (keywake_keys), so that no database is listed. */
static void put_keyspace(
	const struct kw_call *call, const struct kw_session_facts *facts, struct kw_buffer *out)
{
}

static void put_keywake(
	const struct kw_call *call, const struct kw_session_facts *facts, struct kw_buffer *out)
{
	uint64_t age_us = facts->now_us > facts->fresh_us ? facts->now_us - facts->fresh_us : 0;

	kw_buffer_printf(out,
		"keywake_version:" KW_VERSION
		"\r\nkeywake_name:%s\r\nkeywake_state:%s\r\nkeywake_keys:%" PRIu64
		"\r\nkeywake_epoch:%016" PRIx64 "\r\nkeywake_table_version:%" PRIu64
		"\r\nkeywake_fresh_us:%" PRIu64 "\r\n",
		facts->name, facts->state, facts->keys, facts->epoch, facts->version,
		facts->fresh_us);
	if (facts->fresh_us)
		kw_buffer_printf(out, "keywake_staleness_us:%" PRIu64 "\r\n", age_us);
}

static const struct section {
	const char *name, *title;
	void (*put)(const struct kw_call *call, const struct kw_session_facts *facts,
		struct kw_buffer *out);
} sections[] = {
	{"server", "Server", put_server},
	{"clients", "Clients", put_clients},
	{"persistence", "Persistence", put_persistence},
	{"replication", "Replication", put_replication},
	{"keyspace", "Keyspace", put_keyspace},
	{"keywake", "Keywake", put_keywake},
};

static bool is_wanted(const struct kw_call *call, const struct section *section)
{
	if (call->count == 1)
		return true;
	for (size_t i = 1; i < call->count; i++)
		if (kw_word_is(call->words[i], section->name) ||
			kw_word_is(call->words[i], "default") ||
			kw_word_is(call->words[i], "all") ||
			kw_word_is(call->words[i], "everything"))
			return true;
	return false;
}

void kw_call_info(struct kw_call *call)
{
	struct kw_session_facts facts = kw_session_look(call->session, call->host);
	struct kw_buffer text = {0};

	for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
		if (!is_wanted(call, &sections[i]))
			continue;
		kw_buffer_printf(&text, "%s# %s\r\n", kw_buffer_length(&text) ? "\r\n" : "",
			sections[i].title);
		sections[i].put(call, &facts, &text);
	}
	kw_reply_verbatim(call->to, kw_slice(kw_buffer_bytes(&text), kw_buffer_length(&text)));
	kw_buffer_close(&text);
}
