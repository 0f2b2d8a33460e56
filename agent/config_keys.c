#include "config_keys.h"

#include "control/http/address.h"
#include "keys/glob.h"
#include "keys/naming.h"
#include "primary/downlink.h"
#include "redis/address.h"
#include "target/keys.h"

#include <stddef.h>

static int listen_check(const char *text, struct kw_error *error)
{
	struct sockaddr_storage address;
	char host[64];

	return kw_downlink_address(text, &address, host, error);
}

const struct kw_config_key kw_agent_config_keys[] = {
	KW_TARGET_WHICH("This agent's"),
	KW_CONFIG_REDIS("The local server to write to", "the local server", kw_redis_address_check),
	{"apply.mode", KW_CONFIG_TEXT, "\"commands\"", false, 0, 0,
		"commands|replica|hybrid|discard",
		"How changes are applied: commands (into any writable server); replica (the local "
		"server becomes a replica of this agent: fastest, its data are replaced); hybrid "
		"(bootstraps as replica, then goes on with commands); discard (count and forget, "
		"for measuring)."},
	{"apply.consent", KW_CONFIG_BOOL, "false", false, 0, 0, NULL,
		"Keys of a server without a cursor of ours may be replaced and deleted, once; "
		"modes replica and hybrid always need it."},
	{"apply.foreign", KW_CONFIG_TEXT, "\"refuse\"", true, 0, 0, "refuse|follow",
		"A table with another data set than the local one, from another proxy: refuse it "
		"until `keywakectl approve`, or follow it."},
	{"apply.max_prune", KW_CONFIG_NUMBER, "0.2", true, 0, 1, NULL,
		"Share of the local keys that may be deleted only because a snapshot does not have "
		"them, and never fewer than 1000 keys; beyond it, deletions wait in state held for "
		"keywakectl approve. 1: no limit, for pure caches."},
	{"apply.replica.listen", KW_CONFIG_TEXT, "\"tcp://127.0.0.1:0\"", false, 0, 0, NULL,
		"Modes replica and hybrid: where the local server is sent by REPLICAOF, an address "
		"of this host; port 0: any that is free. systemd:NAME: a socket of this name that "
		"systemd opened and holds while the agent is dead.",
		listen_check},
	{"apply.replica.masterauth_file", KW_CONFIG_TEXT, "\"\"", false, 0, 0, NULL,
		"File with the masterauth that the local server has while no agent leads it (not "
		"readable by others), put back when the agent lets the server go; empty: it has "
		"none."},
	{"apply.replica.tls", KW_CONFIG_TEXT, "\"follow\"", false, 0, 0, "follow|switch|off",
		"A local server with tls-replication yes: follow, the link speaks TLS with "
		"tls.cert "
		"and tls.key, which a CA of the server's tls-ca-cert-file signed; switch, "
		"tls-replication is set to no and put back when the server is let go (only to a "
		"loopback address); off, it is refused."},
	{"apply.on_shutdown", KW_CONFIG_TEXT, "\"stay\"", true, 0, 0, "stay|promote",
		"Mode replica, when the agent ends: the server stays a replica and waits for the "
		"next agent, or is promoted (REPLICAOF NO ONE)."},
	{"apply.window_bytes", KW_CONFIG_BYTES, "4194304", true, 65536, 4294967296.0, NULL,
		"Commands sent and not yet acknowledged, at most; one larger is allowed alone."},
	{"apply.bytes_per_second", KW_CONFIG_BYTES, "0", true, 65536, 0, NULL,
		"Write at most so many bytes a second into the local server, of the snapshot and "
		"of changes; modes commands and discard. 0: no limit."},
	{"apply.cursor_name", KW_CONFIG_TEXT, "\"keywake_cursor\"", false, 0, 0, NULL,
		"Name of the function library, or key, in which the position is kept locally."},
	{"apply.cursor_store", KW_CONFIG_TEXT, "\"auto\"", false, 0, 0, "auto|function|key",
		"Where the position is kept: a function library (Redis 7.0 and later) or a key in "
		"database 0; auto: a library where the server knows them."},
	{"apply.audit_keys_per_second", KW_CONFIG_INTEGER, "100", true, 0, 10000000, NULL,
		"Compare so many local keys a second with the table, without end, and mend what "
		"differs; a value above 10 KB counts as several. 0: never compare."},
	{"apply.index", KW_CONFIG_BOOL, "true", false, 0, 0, NULL,
		"Remember a digest of each value that was applied, in 19 to 24 bytes a key: a "
		"snapshot of another table then brings only what differs. Not in mode discard; "
		"with the audit on and without a filter."},
	{"apply.functions", KW_CONFIG_BOOL, "true", false, 0, 0, NULL,
		"Give the local server the primary's function libraries, if the proxy carries them "
		"(source.functions): others are deleted, cursors of agents stay. From Redis 7.0 "
		"on."},
	{"poll.idle_us", KW_CONFIG_INTEGER, "1500", true, 0, 1000000, NULL,
		"Longest pause between looks at an idle table, in microseconds; shorter ones while "
		"changes come. Over shm the agent sleeps instead, and the proxy wakes it, unless "
		"this is 90000 or more. Up to eight times that, and 10 ms, while the table itself "
		"is more "
		"than 0.3 s behind its primary."},
	{"poll.busy", KW_CONFIG_BOOL, "false", true, 0, 0, NULL,
		"Never pause between looks: lowest lag, one core busy. Completions of rdma too are "
		"looked for without sleeping, from the next connection on."},
	{"poll.ahead", KW_CONFIG_TEXT, "\"free\"", false, 0, 0, "free|off",
		"Next bytes of the log: free, looked at alone, so that a small change takes one "
		"READ, and the superblock now and then; off, once the superblock says that there "
		"are any."},
	{"filter.prefixes", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Follow only keys that begin with one of these, or match one of filter.patterns; "
		"both empty: all."},
	{"filter.patterns", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Follow keys that match one of these patterns, written as for the server's KEYS; "
		"at most 64.",
		kw_glob_check},
	{"filter.exclude", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Never follow keys that match one of these patterns, whatever else names them; at "
		"most 64.",
		kw_glob_check},
	{"filter.databases", KW_CONFIG_INTEGERS, "[]", false, 0, 65535, NULL,
		"Follow only these databases; empty: all."},
	{"filter.exclude_databases", KW_CONFIG_INTEGERS, "[]", false, 0, 65535, NULL,
		"Never follow these databases."},
	{"filter.map_databases", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Keep a database of the table in another local one, \"0=3\"; mode commands; at "
		"most 64.",
		kw_naming_check_database},
	{"filter.rewrite_prefixes", KW_CONFIG_TEXTS, "[]", false, 0, 0, NULL,
		"Call keys with a prefix otherwise in the local server, \"old:=new:\"; mode "
		"commands; at most 64.",
		kw_naming_check_prefix},
	KW_TARGET_LINK("16", " of 128 KiB"),
	{"warm.lag_ms", KW_CONFIG_INTEGER, "1000", true, 1, 3600000, NULL,
		"Warm means equal at some moment this short ago, by a proxy no further behind its "
		"primary. With a mandate (authority.by of the proxy) warm ends this long, and one "
		"second, after the loss of the mandate; below 100 it ends after 1.1 s."},
	KW_CONFIG_HTTP,
	KW_CONFIG_DAEMON("\"/run/keywake/agent.sock\""),
	{0},
};
