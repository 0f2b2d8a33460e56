/*
 * Where the table's memory is at this moment, for READs over rdma. A proxy that withdraws a key
 * registers its memory anew (remote/rdma/rotation.h), and the earlier rkeys are refused soon after.
 * The reader learns the new ones with the directory of each pass. But it reads none while it is
 * idle, held, or in a long snapshot: then this module does.
 *
 * One READ at most is out, and a second lies between two. Loop thread only.
 */
#ifndef KW_AGENT_FOLLOW_REGIONS_H
#define KW_AGENT_FOLLOW_REGIONS_H

#include "remote/remote.h"
#include "table/view.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_regions {
	const struct kw_superblock *newest; /* that the owner knows */
	struct kw_superblock superblock;    /* that names the directory which is asked for */
	struct kw_view view;
	struct kw_remote *remote; /* the READ that is out goes over it; NULL: none is */
	struct kw_remote_read read;
	uint64_t asked_us; /* when the last one was; 0: none was over this connection */
};

/* newest: stays, and changes with what the owner learns. */
void kw_regions_init(struct kw_regions *regions, const struct kw_superblock *newest);

/* No READ is out. */
void kw_regions_close(struct kw_regions *regions);

/* The connection is another one. No READ is out. */
void kw_regions_forget(struct kw_regions *regions);

/* This superblock was verified, and the reader does not look for what it names. */
void kw_regions_look(struct kw_regions *regions, struct kw_remote *remote,
	const struct kw_superblock *superblock, uint64_t now_us);

#endif
