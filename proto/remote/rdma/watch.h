/*
 * The asynchronous events of a device (port down, device gone) for all connections over it. The
 * device's descriptor belongs to the process, so it is polled once for all watches.
 *
 *   ┌─────────┐ last watch stops ┌──────┐ the device is removed
 *   │ WATCHED │────────────────▶│ IDLE │──────────────────────▶ let go of, freed
 *   └─────────┘◀────────────────└──────┘◀ kw_rdma_watch_end
 *        │        a watch starts
 *        └─ last watch stops, and the device was removed ──────▶ let go of, freed
 *
 * librdmacm keeps a device open for the life of the process, also between two connections. A driver
 * that takes no context away from a process (soft-RoCE) cannot be removed in that time. Nothing
 * tells the process of the attempt, because it has no id on the device. So this module keeps one id
 * of its own there, the guard: its DEVICE_REMOVAL event comes at any time. It also keeps the
 * context's memory valid.
 *
 * A watch is stopped after all that its owner had on the device is destroyed, and before the
 * owner's id there. Loop thread only, and one loop thread a process.
 */
#ifndef KW_REMOTE_RDMA_WATCH_H
#define KW_REMOTE_RDMA_WATCH_H

#include "base/error.h"

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <uv.h>

struct kw_rdma_watched;

/* Memory of the owner's; zeroed before the first start. */
struct kw_rdma_watch {
	/* It may stop this watch, but no other. A queue pair in the event is for comparing only. */
	void (*told)(void *owner, const struct ibv_async_event *event);
	void *owner;
	struct kw_rdma_watched *of;
	struct kw_rdma_watch *next;
};

/*
 * Watch the device `verbs`. id: an id of the owner's on that device; the guard takes its local
 * address too (any port). An id without an address (a listener on all addresses) makes no guard.
 * Then the device is let go of only if it is removed while it is watched.
 */
int kw_rdma_watch_start(struct kw_rdma_watch *watch, uv_loop_t *loop, struct ibv_context *verbs,
	struct rdma_cm_id *id, struct kw_error *error);
void kw_rdma_watch_stop(struct kw_rdma_watch *watch); /* harmless when not started */

/*
 * No connection will be made on this loop any more: free what is idle. Nothing of the loop's is
 * watched then.
 */
void kw_rdma_watch_end(uv_loop_t *loop);

#endif
