#include "remote/rdma/software.h"

#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>

void kw_rdma_post_init(struct kw_rdma_post *post)
{
	if (uv_mutex_init(&post->lock) != 0)
		abort(); /* only without memory */
	post->work.data = post;
}

void kw_rdma_post_free(struct kw_rdma_post *post)
{
	assert(!post->working);
	uv_mutex_destroy(&post->lock);
}

/* Rounds of one stay in the pool: a name to be resolved may be waiting for its thread. */
#define ROUNDS_MAX 64

/* A thread begins within a fraction of a millisecond, unless all are busy (or a name server slow).
 */
#define LATE_US 50000

/* ---- the thread ---- */

/* All that waits, in order. */
static int take(struct kw_rdma_post *post, struct kw_rdma_read *reads)
{
	int count;

	uv_mutex_lock(&post->lock);
	for (count = 0; post->count > 0; count++) {
		reads[count] = post->ring[post->first];
		post->first = (post->first + 1) % KW_RDMA_SLOTS_MAX;
		post->count--;
	}
	uv_mutex_unlock(&post->lock);
	return count;
}

static void on_work(uv_work_t *work)
{
	struct kw_rdma_post *post = work->data;
	struct kw_rdma_read reads[KW_RDMA_SLOTS_MAX];
	int count;

	for (int i = 0; i < ROUNDS_MAX && (count = take(post, reads)) > 0; i++)
		if (kw_rdma_end_read(post->end, reads, count, &post->error) != 0)
			return;
}

/* ---- the loop ---- */

static void on_worked(uv_work_t *work, int status);

static void hand_over(struct kw_rdma_post *post)
{
	post->working = true;
	post->error.code = KW_OK;
	post->late_us = kw_clock_us() + LATE_US;
	post->turn_at(post->owner, post->late_us);
	if (uv_queue_work(post->loop, &post->work, on_work, on_worked) != 0)
		abort(); /* only for a NULL callback */
}

static void on_worked(uv_work_t *work, int status)
{
	struct kw_rdma_post *post = work->data;

	if (status == UV_ECANCELED && !post->stopped) /* it was late: see kw_rdma_post_turn */
		on_work(work);
	post->working = false;
	if (post->stopped)
		post->ended(post->owner);
	else if (post->error.code != KW_OK)
		post->failed(post->owner, &post->error);
	else if (post->count > 0) /* they came behind its last round */
		hand_over(post);
}

static void append(struct kw_rdma_post *post, const struct kw_rdma_read *reads, int count)
{
	uv_mutex_lock(&post->lock);
	for (int i = 0; i < count; i++) {
		assert(post->count < KW_RDMA_SLOTS_MAX);
		post->ring[(post->first + post->count) % KW_RDMA_SLOTS_MAX] = reads[i];
		post->count++;
	}
	uv_mutex_unlock(&post->lock);
}

int kw_rdma_post(struct kw_rdma_post *post, const struct kw_rdma_read *reads, int count,
	struct kw_error *error)
{
	uint64_t bytes = 0;

	for (int i = 0; i < count; i++)
		bytes += reads[i].length;
	if (!post->working && (!post->threaded || bytes < KW_RDMA_POST_BYTES))
		return kw_rdma_end_read(post->end, reads, count, error);
	append(post, reads, count);
	if (!post->working)
		hand_over(post);
	return 0;
}

void kw_rdma_post_turn(struct kw_rdma_post *post)
{
	/* In vain where a thread has it: then it is not late, or no longer. */
	if (post->working && kw_clock_us() >= post->late_us)
		(void)uv_cancel((uv_req_t *)&post->work);
}

bool kw_rdma_post_stop(struct kw_rdma_post *post)
{
	post->stopped = true;
	uv_mutex_lock(&post->lock);
	post->count = 0;
	uv_mutex_unlock(&post->lock);
	if (post->working)
		(void)uv_cancel((uv_req_t *)&post->work);
	return post->working;
}
