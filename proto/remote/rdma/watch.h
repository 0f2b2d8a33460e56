/*
 * The asynchronous events of a device (port down, device gone) for all connections over it. The
 * device's descriptor belongs to the process, so it is polled once and told to all who watch.
 *
 * When the last of them stops and the device was removed, its context is let go of (bind.h):
 * so a watch is stopped after all that its owner had on the device is destroyed, and before the id
 * that keeps the context open.
 *
 * Loop thread only, and one loop thread a process.
 */
#ifndef KW_REMOTE_RDMA_WATCH_H
#define KW_REMOTE_RDMA_WATCH_H

#include "base/error.h"

#include <infiniband/verbs.h>
#include <uv.h>

struct kw_rdma_watched;

/* Memory of the owner's; zeroed before the first start. */
struct kw_rdma_watch {
	/* May stop this watch, no other. A queue pair in the event is for comparing only. */
	void (*told)(void *owner, const struct ibv_async_event *event);
	void *owner;
	struct kw_rdma_watched *of;
	struct kw_rdma_watch *next;
};

int kw_rdma_watch_start(struct kw_rdma_watch *watch, uv_loop_t *loop, struct ibv_context *verbs,
	struct kw_error *error);
void kw_rdma_watch_stop(struct kw_rdma_watch *watch); /* harmless when not started */

#endif
