/*
 * What is known of this host, and what is wrong with it for a daemon. Pure; any thread.
 */
#ifndef KW_DOCTOR_HOST_H
#define KW_DOCTOR_HOST_H

#include "doctor/finding.h"
#include "tls/context.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_HOST_UNKNOWN UINT64_MAX

struct kw_host_facts {
	bool huge_always; /* transparent huge pages for every process */
	bool overcommit_told;
	int overcommit;           /* vm.overcommit_memory */
	uint64_t memory_bytes;    /* of this host, or the limit of our control group */
	uint64_t locked_bytes;    /* RLIMIT_MEMLOCK; KW_HOST_UNKNOWN: no limit */
	uint64_t free_huge_bytes; /* huge pages of 2 MiB that no process has */
};

/* What a proxy's table needs of its host. */
struct kw_host_table {
	uint64_t max_bytes;
	bool over_rdma;  /* it is registered, and locked */
	bool huge_pages; /* table.huge_pages */
	bool running;    /* its proxy runs, and has its memory */
};

void kw_judge_table(const struct kw_host_table *table, const struct kw_host_facts *host,
	struct kw_findings *findings);

/* The settings of the kernel that a server on this host minds. what: "primary". */
void kw_judge_kernel(
	const char *what, const struct kw_host_facts *host, struct kw_findings *findings);

/* A key of auth.keys_file that expires. left_s: until then; below 0: since then. */
void kw_judge_key(const char *id, int64_t left_s, struct kw_findings *findings);

/* The files of a group of keys, like "redis.tls". now_s: by our clock. */
void kw_judge_expiry(const char *group, const struct kw_tls_expiry *expiry, int64_t now_s,
	struct kw_findings *findings);

/* The clock of another host, less ours. */
void kw_judge_clock(const char *what, int64_t skew_us, struct kw_findings *findings);

#endif
