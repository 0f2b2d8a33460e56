/*
 * What is known of the way to one proxy, after some READs of its table, and what is wrong with it.
 * Pure; any thread.
 */
#ifndef KW_DOCTOR_LINK_H
#define KW_DOCTOR_LINK_H

#include "doctor/finding.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_link_facts {
	const char *what;    /* "proxy tcp://10.0.0.1:7471" */
	const char *carrier; /* "tcp" */
	bool rdma;
	bool scoped;         /* the key reads a part of the table */
	char device[64];     /* rdma: this side's */
	uint64_t mtu;        /* rdma: of the device's interface; 0: not known */
	uint64_t connect_us; /* until the handshake was over */
	bool superblock_told;
	struct kw_superblock superblock;       /* verified */
	bool beats;                            /* its heartbeat moved while we looked … */
	int64_t skew_us;                       /* … so its clock is known: less ours */
	uint64_t reads, median_us, slowest_us; /* of small READs, one after the other */
	uint64_t bytes, took_us;               /* of large ones, several at once; 0: none were */
};

void kw_judge_link(const struct kw_link_facts *facts, struct kw_findings *findings);

#endif
