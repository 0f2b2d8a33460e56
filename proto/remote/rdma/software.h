/*
 * rdma, the agent's end: posting READs, from the loop or from another thread.
 *
 * A NIC takes a chain of READs and works on its own. A software device (soft-RoCE, soft-iWARP) does
 * all of its work, the answering side's on the same host too, on the core of whoever posts: there
 * verifying what came and fetching what comes next would take turns, though there are more cores.
 * So where the device is software, large READs are posted by a thread of libuv's pool. Small ones
 * are not, for the way to that thread and back is longer than theirs, unless one is under way: what
 * was asked for first is posted first.
 *
 *   kw_rdma_post ──▶ ring ──▶ thread: until the ring is empty ──▶ the loop hears of its end
 *        └─────── small, or a NIC: at once ──────▶ device
 *
 * A pool without a thread to spare holds nothing up: what none has begun with after 50 ms the loop
 * posts itself.
 *
 * Loop thread only, but for what the ring hands over; its lock is held for no call.
 */
#ifndef KW_REMOTE_RDMA_SOFTWARE_H
#define KW_REMOTE_RDMA_SOFTWARE_H

#include "remote/rdma/end.h"

/* What is posted by one call and is less than this is small. */
#define KW_RDMA_POST_BYTES 32768

struct kw_rdma_post {
	struct kw_rdma_end *end; /* the owner's */
	uv_loop_t *loop;
	void (*failed)(void *owner, const struct kw_error *error); /* a posting by the thread */
	void (*ended)(void *owner); /* the thread is through, after kw_rdma_post_stop said so */
	void (*turn_at)(void *owner, uint64_t at_us); /* call kw_rdma_post_turn then, or later */
	void *owner;
	bool threaded; /* the device is software */
	bool stopped;
	bool working; /* the thread has it, or will */
	uv_work_t work;
	uint64_t late_us; /* working: when a thread should have begun */
	uv_mutex_t lock;  /* of the ring */
	struct kw_rdma_read ring[KW_RDMA_SLOTS_MAX];
	uint32_t first, count;
	struct kw_error error; /* the thread's, for the loop when it is through */
};

/* post is zeroed but for end, loop, failed, ended, turn_at and owner. */
void kw_rdma_post_init(struct kw_rdma_post *post);
void kw_rdma_post_free(struct kw_rdma_post *post); /* not while the thread has it */

/*
 * READs in order, as kw_rdma_end_read; at most KW_RDMA_SLOTS_MAX may be out (posted here and not
 * told by the end's ops). An error of the thread's comes by `failed`, from the loop.
 */
int kw_rdma_post(struct kw_rdma_post *post, const struct kw_rdma_read *reads, int count,
	struct kw_error *error);

/* What the pool is late with is taken back from it, to be posted from the loop. Any time. */
void kw_rdma_post_turn(struct kw_rdma_post *post);

/*
 * No more: what waits is dropped. True: the thread has the end still, which must stay until `ended`
 * is called, from the loop, once.
 */
bool kw_rdma_post_stop(struct kw_rdma_post *post);

#endif
