/*
 * Registering memory before it is needed. Pinning an extent takes as long as clearing all of its
 * pages (a gigabyte: half a second), and the loop would stand still meanwhile. So libuv's pool
 * registers the extents that the table expects to need. If the pool is still at an extent that is
 * needed, the caller waits. If the pool has not begun it, or the table did not expect it, the
 * caller registers it.
 *
 *   expect ──pool: register──▶ there ──take──▶ the caller's
 *      └───────────────────────────────────drop──▶ deregistered, as soon as it can be
 *
 * Loop thread only. An extent that cannot be registered ahead is no error: the caller that takes it
 * tries again.
 */
#ifndef KW_REMOTE_RDMA_AHEAD_H
#define KW_REMOTE_RDMA_AHEAD_H

#include "base/error.h"

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct kw_rdma_ahead; /* one registration under way, or there */

/* pd and memory stay until it was taken or dropped. */
struct kw_rdma_ahead *kw_rdma_ahead_begin(
	uv_loop_t *loop, struct ibv_pd *pd, uint8_t *base, uint64_t length);

/* Is it of exactly this memory? Does it overlap this memory? */
bool kw_rdma_ahead_is(const struct kw_rdma_ahead *ahead, const uint8_t *base, uint64_t length);
bool kw_rdma_ahead_meets(const struct kw_rdma_ahead *ahead, const uint8_t *base, uint64_t length);

/*
 * Waits for the pool if it has begun. The region is the caller's; NULL: it is not registered. Frees
 * ahead.
 */
struct ibv_mr *kw_rdma_ahead_take(struct kw_rdma_ahead *ahead);

/* Waits likewise. NULL is fine. */
void kw_rdma_ahead_drop(struct kw_rdma_ahead *ahead);

#endif
