/*
 * What is known of one Redis or Valkey server that the configuration names, and what is wrong with
 * it for its use. Pure: facts in, findings out. Any thread.
 */
#ifndef KW_DOCTOR_SERVER_H
#define KW_DOCTOR_SERVER_H

#include "doctor/finding.h"
#include "doctor/host.h"
#include "redis/server.h"

#include <stdbool.h>
#include <stdint.h>

/* What the daemon does with the server. */
enum kw_doctor_use {
	KW_DOCTOR_FOLLOWED,  /* a proxy reads it, and hears its events */
	KW_DOCTOR_STREAMED,  /* a proxy reads it, and its replication stream */
	KW_DOCTOR_WRITTEN,   /* an agent writes to it */
	KW_DOCTOR_LED,       /* an agent acts as its primary */
	KW_DOCTOR_FORWARDED, /* a gateway sends on what its clients ask */
	KW_DOCTOR_SENTINEL,  /* a proxy asks it who is the primary */
};

enum kw_doctor_config {
	KW_DOCTOR_CONFIG_UNASKED, /* source.flags=trust, or this use needs none */
	KW_DOCTOR_CONFIG_REFUSED, /* the user may not */
	KW_DOCTOR_CONFIG_GONE,    /* the server has no such command: it is renamed, or managed */
	KW_DOCTOR_CONFIG_TOLD,
};

enum kw_doctor_may {
	KW_DOCTOR_MAY_UNKNOWN, /* the user may not ask (ACL DRYRUN), or the server is too old */
	KW_DOCTOR_MAY,
	KW_DOCTOR_MAY_NOT,
};

enum kw_doctor_sentinel {
	KW_DOCTOR_SENTINEL_UNASKED,
	KW_DOCTOR_SENTINEL_KNOWS,   /* it monitors the name */
	KW_DOCTOR_SENTINEL_FOREIGN, /* it does not */
	KW_DOCTOR_SENTINEL_NONE,    /* it is no Sentinel */
};

#define KW_DOCTOR_FLAGS 64

struct kw_doctor_server_facts {
	const char *what;    /* "primary" */
	const char *address; /* as the configuration has it */
	const char *user;    /* "default" when none is configured */
	enum kw_doctor_use use;
	bool near; /* it is on this host, as far as the address tells */
	struct kw_server_identity identity;
	uint64_t used_memory, maxmemory;
	char policy[32];     /* maxmemory-policy; "": not told */
	bool wants_replicas; /* min-replicas-to-write is above 0 … */
	uint64_t good;       /* … and so many are there */
	enum kw_doctor_sentinel sentinel;
	const char *master; /* sentinel.name */
	bool clock_told;
	int64_t skew_us;   /* its clock less ours */
	uint64_t round_us; /* the fastest answer to a question */

	enum kw_doctor_config config;
	bool flags_matter, sets_flags; /* source.flags is set or check; it is set */
	bool flags_good;
	char flags[KW_DOCTOR_FLAGS], flags_wanted[KW_DOCTOR_FLAGS];
	enum kw_doctor_may may_set; /* CONFIG SET notify-keyspace-events */
	char buffers[256];          /* client-output-buffer-limit; "": not told */
	uint64_t backlog_bytes;     /* repl-backlog-size; 0: not told */

	struct kw_host_facts host;
};

/* All but permissions and reachability. */
void kw_judge_server(const struct kw_doctor_server_facts *facts, struct kw_findings *findings);

#endif
