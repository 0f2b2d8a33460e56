/*
 * rdma over a software device: another thread posts the READs of an end.
 *
 * A NIC takes a chain of READs and works on its own. A software device (soft-RoCE, soft-iWARP) does
 * all of the work on the core of the thread that posts. It does the answering side's work there
 * too, if that is on the same host. Verifying records and fetching the next ones would then take
 * turns, though the host has more cores. So a thread of libuv's pool posts large READs to a
 * software device. Small READs are posted at once, because the way to that thread and back takes
 * longer than they do. While the thread is at work, small READs wait for the large ones before
 * them: READs are posted in order.
 *
 *   kw_rdma_end_read ──▶ ring ──▶ thread: until the ring is empty ──▶ the loop hears of its end
 *          └──── small, and no thread at work: at once ──▶ device
 *
 *   ┌──────┐ a large READ ┌─────────┐ stop ┌──────────┐
 *   │ IDLE │─────────────▶│ WORKING │─────▶│ STOPPING │
 *   └──────┘◀─────────────└─────────┘      └──────────┘
 *      │     ring is empty                      │ the thread has ended: idle()
 *      └─────────────────────────stop──▶ STOPPED ◀┘
 *
 * If every thread of the pool is busy, the wait is bounded: READs that no thread has begun after 50
 * ms are taken back, and the loop posts them.
 *
 * Only end.h's struct kw_rdma_poster is known to the rest of the carrier. Loop thread only, but for
 * what the ring hands over. Its lock is never held during a call of verbs.
 */
#ifndef KW_REMOTE_RDMA_SOFTWARE_H
#define KW_REMOTE_RDMA_SOFTWARE_H

#include "remote/rdma/end.h"

/* The loop posts READs itself that are less than this together, while at most so many are out. */
#define KW_RDMA_SMALL_POST_BYTES 32768
#define KW_RDMA_SMALL_POST_READS 8

struct kw_remote;

/* The poster for this end, which must be built; NULL: its device is no software. Any thread. */
struct kw_rdma_poster *kw_rdma_software_poster(struct kw_rdma_end *end, struct kw_remote *remote);

#endif
