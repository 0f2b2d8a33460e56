/*
 * What kind of server this is, from INFO and a few questions; and the classes of its errors.
 */
#ifndef KW_REDIS_SERVER_H
#define KW_REDIS_SERVER_H

#include "base/error.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stdint.h>

/* A server's link to its own primary. */
enum kw_server_upstream {
	KW_UPSTREAM_NONE,    /* it is a primary */
	KW_UPSTREAM_UP,      /* or INFO does not tell */
	KW_UPSTREAM_SILENT,  /* the link is up, and nothing came over it for too long */
	KW_UPSTREAM_SYNCING, /* a full synchronisation is under way: its data are being replaced */
	KW_UPSTREAM_DOWN,    /* lost, or never synchronised */
};

/*
 * A primary without writes sends a PING each repl-ping-replica-period, 10 s by default, and
 * replicas hand it on to their own. So a longer silence says that one of them is cut off, or hangs.
 * The link itself is given up only after repl-timeout, 60 s by default.
 */
#define KW_UPSTREAM_SILENT_S 15

/* Are its data those of its primary, but for what is on the way? */
static inline bool kw_upstream_is_well(enum kw_server_upstream upstream)
{
	return upstream == KW_UPSTREAM_NONE || upstream == KW_UPSTREAM_UP;
}

/* What is wrong with it, for the sentence "the server is a replica, and …". It is not well. */
const char *kw_upstream_trouble(enum kw_server_upstream upstream);

struct kw_server_identity {
	bool valkey;
	int major, minor, patch; /* of Redis, or of Valkey when valkey */
	char mode[16];           /* standalone, cluster, sentinel */
	char run_id[41];
	char replid[41];        /* master_replid */
	char replid2[41];       /* master_replid2: the id of before a promotion; zeros: none */
	uint64_t second_offset; /* second_repl_offset: up to here both name the same data */
	uint64_t offset;        /* master_repl_offset: bytes of changes so far; 0: not told */
	uint64_t backlog_begin; /* repl_backlog_first_byte_offset; 0: there is no backlog */
	uint64_t looks;         /* by those that look again and again: which look it is */
	char role[8];           /* master, slave */
	enum kw_server_upstream upstream;
	bool loading;
	bool shutting_down;     /* it waits for its replicas before it ends (Redis 7.0 and later) */
	bool failing_over;      /* FAILOVER is under way: writes wait for a replica */
	bool counts_replicas;   /* min-replicas-to-write is set: writes wait for replicas */
	bool writable_replica;  /* a replica with replica-read-only no */
	uint16_t rdb_version;   /* of the payloads it writes: by DUMP's trailer, 0 when unknown */
	uint32_t databases;     /* CONFIG GET databases; 16 when CONFIG is not allowed */
	uint64_t expires_total; /* keys with a TTL, INFO keyspace */
	uint64_t process;       /* its id, in the server's own pid namespace; 0: not told */
};

/* Fill identity from the text of INFO (server, replication, persistence, keyspace sections). */
int kw_server_identity_parse(
	struct kw_slice info, struct kw_server_identity *identity, struct kw_error *error);

/*
 * Redis 6.2 and later, Valkey 7.2 and later; no Sentinel and no node of a cluster. KW_E_REFUSED
 * names the remedy.
 */
int kw_server_identity_check(const struct kw_server_identity *identity, struct kw_error *error);

/* The RDB version a server of this kind and version writes and accepts (FACTS: 9, 10, 11, 12, 80).
 */
uint16_t kw_server_rdb_version(const struct kw_server_identity *identity);

/* Does a server of RDB version `local` load payloads of this version? local 0: not known, so yes.
 */
bool kw_server_loads_rdb(uint16_t local, uint16_t version);

/* One life of one server, by its run_id: names the origin of a table. 0: unknown. */
uint64_t kw_server_id(const struct kw_server_identity *identity);

/* One field of INFO as text or number; false when it is not there. field without the colon. */
bool kw_info_text(struct kw_slice info, const char *field, struct kw_slice *value);
bool kw_info_number(struct kw_slice info, const char *field, uint64_t *value);

/* calls=N of cmdstat_<command>; 0 when never called. A container command's as "function|load". */
uint64_t kw_info_calls(struct kw_slice info, const char *command);

/* The same, less the calls that failed. */
uint64_t kw_info_done(struct kw_slice info, const char *command);

/* One field of INFO that is seconds with decimals, in microseconds; false when it is not there. */
bool kw_info_seconds(struct kw_slice info, const char *field, uint64_t *us);

/* Walk INFO commandstats: calls of each command and the microseconds they took. */
typedef void (*kw_info_command_fn)(
	void *arg, struct kw_slice command, uint64_t calls, uint64_t usec);
void kw_info_commands(struct kw_slice info, kw_info_command_fn fn, void *arg);

/*
 * The first module that does not declare support for a load beside the old data (handle-io-errors,
 * handle-repl-async-load). With such a module the server loads through its dump.rdb instead
 * (useDisklessLoad in replication.c). Valkey's own module `lua` has no data types, so it needs to
 * declare only the second. info holds INFO server and modules. False: there is none. name: its
 * first room - 1 bytes.
 */
bool kw_info_module_in_the_way(struct kw_slice info, char *name, size_t room);

/* Is a module of this name loaded? info: INFO modules. */
bool kw_info_has_module(struct kw_slice info, const char *name);

/* Walk INFO keyspace: db, keys, expires. Returns the number of databases listed. */
typedef void (*kw_info_database_fn)(void *arg, uint32_t database, uint64_t keys, uint64_t expires);
int kw_info_keyspace(struct kw_slice info, kw_info_database_fn fn, void *arg);

/* The class of an error reply, by its first word and text. */
enum kw_server_error {
	KW_SERVER_E_NONE,    /* no error reply; kw_server_error never returns it */
	KW_SERVER_E_OTHER,   /* of this command alone: WRONGTYPE, bad payload, syntax */
	KW_SERVER_E_LOADING, /* and TRYAGAIN, CLUSTERDOWN: a later retry succeeds */
	KW_SERVER_E_BUSY,    /* a script runs for too long: nearly all is refused until it ends */
	KW_SERVER_E_MASTERDOWN, /* a replica that has lost its primary and serves no stale data */
	KW_SERVER_E_OOM,        /* over maxmemory */
	KW_SERVER_E_READONLY,   /* it is a replica of another server */
	KW_SERVER_E_MISCONF,    /* cannot persist and refuses writes; NOREPLICAS */
	KW_SERVER_E_PERMISSION, /* NOPERM, NOAUTH, WRONGPASS: the sentence goes to the operator */
	KW_SERVER_E_PAYLOAD,    /* RESTORE: "DUMP payload version or checksum are wrong", "Bad data
				   format" */
};
enum kw_server_error kw_server_error(struct kw_slice text);

/* Does the server say that it has no such command? It may be renamed away (rename-command). */
bool kw_server_lacks_command(struct kw_slice text);

/* Does it end by itself? Then the same command succeeds later. */
static inline bool kw_server_error_passes(enum kw_server_error kind)
{
	return kind == KW_SERVER_E_LOADING || kind == KW_SERVER_E_BUSY ||
	       kind == KW_SERVER_E_MASTERDOWN;
}

#endif
