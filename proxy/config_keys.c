#include "config_keys.h"

#include "auth/endpoint.h"
#include "control/config/common.h"
#include "control/http/address.h"
#include "control/http/http.h"
#include "mandate/sentinel_view.h"
#include "redis/address.h"
#include "remote/memory.h"
#include "remote/rdma/keys.h"
#include "remote/remote.h"
#include "remote/server.h"
#include "remote/users.h"
#include "table/table.h"

#include <limits.h>
#include <stddef.h>
#include <string.h>

static int name_check(const char *text, struct kw_error *error)
{
	return *text ? kw_proxy_name_check(text, error) : KW_OK;
}

static int keep_file_check(const char *text, struct kw_error *error)
{
	if (!*text || (*text == '/' && text[strlen(text) - 1] != '/' && strlen(text) < PATH_MAX))
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"\"%s\" is no path of a file that begins with /, like /dev/shm/keywake-proxy",
		text);
}

static int endpoint_check(const char *text, struct kw_error *error)
{
	struct kw_endpoint endpoint;

	if (kw_endpoint_parse(text, &endpoint))
		return KW_OK;
	return kw_error_set(error, KW_E_CONFIG,
		"\"%s\" is no IP address with a port, like 10.0.0.9:7000 or [fd00::9]:7000", text);
}

/* No host: the primary that Sentinel names. */
static bool is_anywhere(const char *text)
{
	return strcmp(text, "redis://") == 0 || strcmp(text, "rediss://") == 0;
}

static int primary_check(const char *text, struct kw_error *error)
{
	return is_anywhere(text) ? KW_OK : kw_redis_address_check(text, error);
}

const struct kw_config_key kw_proxy_config_keys[] = {
	KW_CONFIG_REDIS("The primary (redis:// or rediss:// alone: the one that Sentinel names)",
		"the primary", primary_check),
	{"authority.by", KW_CONFIG_TEXT, "\"none\"", false, 0, 0, "none|sentinel|operator",
		"Who confirms the server as the primary: none (nobody is asked), sentinel (a "
		"majority of the sentinels), operator (authority.term). Agents are not warm, and "
		"follow nothing, while it is not confirmed."},
	{"authority.term", KW_CONFIG_INTEGER, "0", true, 0, -1, NULL,
		"With authority.by=operator: the term of this server as the primary, higher than "
		"that of the one before; 0: it is not the primary."},
	{"sentinel.name", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"The name under which the sentinels monitor the primary."},
	{"sentinel.addresses", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Where the sentinels are, as redis://host:port (or tcp://), or rediss://host:port "
		"for TLS: all of them, so that none is "
		"missed that cannot be reached at the start.",
		kw_redis_address_check},
	{"sentinel.username", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"ACL user on the sentinels; empty: the default user."},
	{"sentinel.password_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the sentinels' password (not readable by others); empty: none."},
	KW_CONFIG_TLS("sentinel.tls", "its address in sentinel.addresses"),
	{"sentinel.interval_ms", KW_CONFIG_INTEGER, "300", false, 100, 400, NULL,
		"How often each sentinel is asked. An answer counts for 900 ms from its question, "
		"so two questions fit in."},
	{"name", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"This proxy's identity for agents, printable ASCII, kept over restarts; empty: the "
		"host's name and redis.address. Set it if hosts share a name.",
		name_check},
	{"listen", KW_CONFIG_TEXTS, "[\"shm:///run/keywake/proxy.shm\"]", false, 0, 0, NULL,
		"Where agents connect: shm:///path, tcp://host:port, tcp+tls://host:port, "
		"rdma://host:port; any "
		"number.",
		kw_address_check},
	KW_CONFIG_SECRET("File with one secret for all agents, read again by a reload; empty: "
			 "agents come over shm only, unless there is auth.keys_file."),
	{"auth.keys_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with a key for each agent and what it allows, read again by a reload. Both "
		"files count; empty: none."},
	{"tls.ca", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the CA certificates that may sign those of agents, for tcp+tls, read "
		"again by a reload. Then each agent must show one. Empty: none is asked for, and "
		"agents need a secret."},
	{"tls.cert", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the certificate that is shown to agents, then those between it and its "
		"CA, read again by a reload. An address of tcp+tls needs one."},
	{"tls.key", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the key of tls.cert (not readable by others), read again by a reload."},
	{"tls.crl", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with lists of revoked certificates, read again by a reload: sessions of "
		"those in it end at once. Empty: nothing is revoked."},
	{"tls.identity", KW_CONFIG_TEXT, "\"auto\"", false, 0, 0, "auto|san|cn",
		"Which field of a certificate names the agent: san, the URI keywake:ID, else the "
		"first DNS name; cn, the common name; auto, san if there is one, else cn."},
	{"auth.allow_insecure", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Listen on tcp and rdma without a secret: every user and host that reaches the "
		"port reads all data."},
	{"auth.addresses", KW_CONFIG_TEXTS, "[]", true, 0, 0, NULL,
		"Addresses beyond its own under which agents reach this proxy, as IP:port: of a "
		"tunnel, a forwarded port or address translation. An agent with a secret that "
		"dialled another address is refused, because a relay might stand between.",
		endpoint_check},
	KW_CONFIG_PEERS("agents", "[\"keywake-agent\", \"keywake-gateway\"]", kw_user_check),
	{"remote.sessions", KW_CONFIG_INTEGER, "256", true, 1, 4096, NULL,
		"Connections that agents may have at once."},
	{"remote.sessions_per_name", KW_CONFIG_INTEGER, "8", true, 1, 4096, NULL,
		"Connections that agents of one name may have at once; inspect and export open "
		"one of their own."},
	{"remote.sessions_per_peer", KW_CONFIG_INTEGER, "64", true, 1, 4096, NULL,
		"Connections that one host may have at once (IPv6: one network of 64 bits); over "
		"shm, one user."},
	{"remote.compressed_sessions", KW_CONFIG_INTEGER, "16", true, 0, 4096, NULL,
		"Connections over tcp and tcp+tls for which answers may be compressed at once, if "
		"their agents ask for it (remote.compression); 0: none, which spares the host's "
		"CPU. The others are served plain."},
	{"remote.compression_level", KW_CONFIG_INTEGER, "1", false, 1, KW_COMPRESSION_LEVEL_MAX,
		NULL, "Level of zstd: 1 is fastest, 3 compresses a little better."},
	{"remote.depth", KW_CONFIG_INTEGER, "64", false, 1, 1024, NULL,
		"READs in flight that one agent may have at most."},
	KW_CONFIG_RDMA{"rdma.probe_ms", KW_CONFIG_INTEGER, KW_RDMA_TEXT(KW_RDMA_PROBE_MS), false,
		100, 600000, NULL, "An agent over rdma that is silent for so long is looked for."},
	{"table.max_bytes", KW_CONFIG_BYTES, "0", true, 4194304, KW_RESERVE_MAX, NULL,
		"Most memory the table may take; 0: half of this machine's."},
	{"table.segment_bytes", KW_CONFIG_BYTES, "0", false, 4096, 1073741824, NULL,
		"Size of a log segment, a power of two; 0: by table.max_bytes."},
	{"table.huge_pages", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Make the table of huge pages of 2 MiB. Set vm.nr_hugepages (sysctl) to 1.25 x "
		"table.max_bytes / 2 MiB first."},
	{"table.seal", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Seal the table, so that no other process of this user can write it. Memory of a "
		"peak is then kept until the next start. Huge pages are always sealed."},
	{"table.keep", KW_CONFIG_BOOL, "true", false, 0, 0, NULL,
		"Keep the table over a clean restart, so that agents go on: by systemd, or in "
		"table.keep_file. Not with table.huge_pages, and with table.seal only in a file."},
	{"table.keep_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"Without systemd: a file on a tmpfs, like /dev/shm, that holds the table between "
		"two runs; empty: none.",
		keep_file_check},
	{"table.utilisation", KW_CONFIG_NUMBER, "0.9", false, 0.3, 0.95, NULL,
		"Share of the log that is live before it grows rather than is cleaned."},
	{"table.tombstone_seconds", KW_CONFIG_INTEGER, "300", false, 1, 86400, NULL,
		"Deletes are kept at least this long, so that an agent may be away and resume. "
		"Older ones are kept for agents that are connected and need them, in an eighth of "
		"the table at most."},
	{"source.databases", KW_CONFIG_INTEGERS, "[]", false, 0, 65535, NULL,
		"Databases to follow; empty: all."},
	{"source.keys_per_second", KW_CONFIG_INTEGER, "0", true, 0, -1, NULL,
		"Most keys fetched from the primary in a second; 0: no limit."},
	{"source.bytes_per_second", KW_CONFIG_BYTES, "0", true, 0, -1, NULL,
		"Most payload fetched from the primary in a second; 0: no limit."},
	{"source.primary_share", KW_CONFIG_NUMBER, "0.03", true, 0.01, 1, NULL,
		"Part of the primary's time that fetching may take while others want it; 1: any."},
	{"source.max_missing", KW_CONFIG_NUMBER, "0.2", true, 0, 1, NULL,
		"Share of the keys that may be deleted only because the primary lacks them (1000 "
		"always may); beyond, they wait for approval; 1: any."},
	{"source.audit_keys_per_second", KW_CONFIG_INTEGER, "100", true, 0, 1000000, NULL,
		"Pace of the sweep that finds what no event told of, a value counting as one key "
		"for each "
		"10 KiB; 0: off."},
	{"source.watch_interval_ms", KW_CONFIG_INTEGER, "1000", false, 50, 60000, NULL,
		"How often silent commands, notification flags and identity are looked at."},
	{"source.feed", KW_CONFIG_TEXT, "\"notifications\"", false, 0, 0,
		"notifications|stream|auto",
		"How changes are learned: notifications (keyspace events), stream (the replication "
		"stream, as a replica that holds nothing; the server is refused if it does not "
		"allow that), auto (stream if the server and its user allow it, else "
		"notifications)."},
	{"source.flags", KW_CONFIG_TEXT, "\"set\"", false, 0, 0, "set|check|trust",
		"The primary's notify-keyspace-events: set (what is missing is set by CONFIG SET), "
		"check (CONFIG GET only; without the flags A and E the primary is not followed), "
		"trust (no CONFIG at all: A and E must be in the primary's configuration)."},
	{"source.canary_key", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"With source.flags=trust: a key of the proxy's own, written each ten seconds in "
		"database 0 as each type, whose events prove the flags; it is not replicated. "
		"Empty: they are not proven."},
	{"source.functions", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Carry the primary's function libraries to the agents, which apply them "
		"(apply.functions); up to 1 MiB of code, from Redis 7.0 on."},
	{"source.fresh_interval_ms", KW_CONFIG_INTEGER, "100", false, 5, 100, NULL,
		"How often the table's freshness is proved by a barrier."},
	{"source.cursor_name", KW_CONFIG_TEXT, "\"keywake_cursor\"", false, 0, 0, NULL,
		"Name of agents' cursors: a key of this name is never replicated onward."},
	KW_CONFIG_HTTP,
	KW_CONFIG_DAEMON("\"/run/keywake/proxy.sock\""),
	{0},
};

/* kw_server_listen would refuse it, too; this tells it before anything is started. */
static int check_listen(const struct kw_config *config, struct kw_error *error)
{
	bool guarded = *kw_config_text(config, "auth.secret_file") ||
		       *kw_config_text(config, "auth.keys_file") ||
		       kw_config_bool(config, "auth.allow_insecure");
	bool certified = *kw_config_text(config, "tls.ca");
	size_t count = kw_config_count(config, "listen");
	struct kw_address address;

	if (count == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"listen is empty: no agent could connect; give it an address, like "
			"shm:///run/keywake/proxy.shm");
	for (size_t i = 0; i < count; i++) {
		const char *text = kw_config_text_at(config, "listen", i);

		if (kw_address_parse(text, &address, error) ||
			kw_address_check_guard(&address,
				guarded || (certified && address.carrier == KW_CARRIER_TLS), true,
				error))
			return kw_error_wrap(error, "listen");
		if (address.carrier == KW_CARRIER_TLS && !*kw_config_text(config, "tls.cert"))
			return kw_error_set(error, KW_E_CONFIG,
				"listen: %s needs a certificate: set tls.cert and tls.key, and "
				"tls.ca for those of agents",
				text);
	}
	return KW_OK;
}

static bool is_by(const struct kw_config *config, const char *by)
{
	return strcmp(kw_config_text(config, "authority.by"), by) == 0;
}

/* As for redis.tls: what is set must have an effect. */
static int check_sentinel_tls(const struct kw_config *config, struct kw_error *error)
{
	static const char *const keys[] = {"sentinel.tls.ca", "sentinel.tls.cert",
		"sentinel.tls.key", "sentinel.tls.server_name"};
	bool cert = *kw_config_text(config, "sentinel.tls.cert");
	bool tls = false;

	for (size_t i = 0; i < kw_config_count(config, "sentinel.addresses"); i++)
		tls |= strncmp(kw_config_text_at(config, "sentinel.addresses", i), "rediss://",
			       strlen("rediss://")) == 0;
	for (size_t i = 0; i < sizeof keys / sizeof *keys && !tls; i++)
		if (*kw_config_text(config, keys[i]))
			return kw_error_set(error, KW_E_CONFIG,
				"%s is set, and no address in sentinel.addresses is rediss://: "
				"nothing would be encrypted; write rediss://host:port there, or "
				"leave sentinel.tls out",
				keys[i]);
	if (cert != (*kw_config_text(config, "sentinel.tls.key") != '\0'))
		return kw_error_set(error, KW_E_CONFIG,
			"sentinel.tls.cert and sentinel.tls.key: only one is given; set both, or "
			"none");
	return KW_OK;
}

static int check_sentinels(const struct kw_config *config, struct kw_error *error)
{
	if (!*kw_config_text(config, "sentinel.name"))
		return kw_error_set(error, KW_E_CONFIG,
			"sentinel.name is empty: give the name under which the sentinels monitor "
			"the primary (the second word of `sentinel monitor`)");
	if (strlen(kw_config_text(config, "sentinel.name")) > KW_SENTINEL_NAME_MAX)
		return kw_error_set(error, KW_E_CONFIG, "sentinel.name: more than %d bytes",
			KW_SENTINEL_NAME_MAX);
	if (kw_config_count(config, "sentinel.addresses") == 0)
		return kw_error_set(error, KW_E_CONFIG,
			"sentinel.addresses is empty: give the addresses of the sentinels, like "
			"tcp://10.0.0.7:26379");
	if (kw_config_count(config, "sentinel.addresses") > KW_SENTINELS_MAX)
		return kw_error_set(error, KW_E_CONFIG,
			"sentinel.addresses: more than %d addresses", KW_SENTINELS_MAX);
	return KW_OK;
}

/* A key that has no effect would give a false sense of safety. */
static int check_authority(const struct kw_config *config, struct kw_error *error)
{
	bool sentinel = is_by(config, "sentinel");

	if (!sentinel && is_anywhere(kw_config_text(config, "redis.address")))
		return kw_error_set(error, KW_E_CONFIG,
			"redis.address: redis:// or rediss:// without a host follows the primary "
			"that Sentinel "
			"names: set authority.by=sentinel");
	if (!sentinel && (*kw_config_text(config, "sentinel.name") ||
				 kw_config_count(config, "sentinel.addresses") > 0))
		return kw_error_set(error, KW_E_CONFIG,
			"sentinel.name and sentinel.addresses have no effect without "
			"authority.by=sentinel: set it, or leave them out");
	if (!is_by(config, "operator") && kw_config_integer(config, "authority.term") > 0)
		return kw_error_set(error, KW_E_CONFIG,
			"authority.term has no effect without authority.by=operator: set it, or "
			"leave authority.term out");
	if (check_sentinel_tls(config, error))
		return (int)error->code;
	return sentinel ? check_sentinels(config, error) : KW_OK;
}

#define SEGMENTS_LEAST 6 /* as the table says when it is made */

int kw_proxy_config_rule(const struct kw_config *config, struct kw_error *error)
{
	int64_t segment = kw_config_integer(config, "table.segment_bytes");
	int64_t most = kw_config_integer(config, "table.max_bytes");

	if (segment & (segment - 1))
		return kw_error_set(error, KW_E_CONFIG,
			"table.segment_bytes: %lld is not a power of two, like 16MiB",
			(long long)segment);
	if (most > 0 && segment > most / SEGMENTS_LEAST)
		return kw_error_set(error, KW_E_CONFIG,
			"table.max_bytes: %lld is too small for %d segments of %lld bytes "
			"(table.segment_bytes)",
			(long long)most, SEGMENTS_LEAST, (long long)segment);
	if (kw_config_count(config, "auth.addresses") > KW_ENDPOINTS_MAX)
		return kw_error_set(error, KW_E_CONFIG, "auth.addresses: more than %d addresses",
			KW_ENDPOINTS_MAX);
	if (check_authority(config, error) || kw_http_rule(config, error))
		return (int)error->code;
	if (kw_tls_config_rule_redis(config, error))
		return KW_E_CONFIG;
	return check_listen(config, error);
}
