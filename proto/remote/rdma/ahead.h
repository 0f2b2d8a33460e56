/*
 * Registering memory before it is wanted: pinning an extent takes as long as clearing all of its
 * pages (a gigabyte: half a second), and the loop that needs it would stand still. So what the
 * table expects to need is registered by libuv's pool. What is wanted while the pool
 * is at it is waited for; what it has not begun, or nobody expected, is registered by who wants it.
 *
 *   expect ──pool: register──▶ there ──take──▶ the caller's
 *      └───────────────────────────────────drop──▶ deregistered, as soon as it can be
 *
 * Loop thread only. What cannot be registered ahead is no error: who takes it tries again.
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

/* Is it of this memory? Or of some of it, and some that is not? */
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
