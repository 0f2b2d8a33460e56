/*
 * The proxy's device: one protection domain of its own, and the memory file registered in it, one
 * region an extent, for remote READ and nothing else. Extents that come later are registered
 * before anybody sees them; their address and rkey travel in the directory.
 *
 * One device a proxy, because an extent has one rkey. Main thread.
 */
#ifndef KW_REMOTE_RDMA_DEVICE_H
#define KW_REMOTE_RDMA_DEVICE_H

#include "base/error.h"
#include "remote/memory.h"

#include <infiniband/verbs.h>

struct kw_rdma_device {
	struct kw_memory *memory;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	int depth; /* READs in flight it allows a queue pair */
	struct ibv_mr *regions[KW_EXTENTS_MAX];
	int region_count;
};

/* NULL: *error. memory outlives it. */
struct kw_rdma_device *kw_rdma_device_new(
	struct kw_memory *memory, struct ibv_context *verbs, struct kw_error *error);
void kw_rdma_device_free(struct kw_rdma_device *device);

#endif
