#include "remote/rdma/ahead.h"

#include "base/buffer.h"
#include "remote/rdma/event.h"

#include <stdlib.h>

struct kw_rdma_ahead {
	uv_work_t work;
	uv_sem_t registered; /* posted once by the pool */
	struct ibv_pd *pd;
	uint8_t *base;
	uint64_t length;
	struct ibv_mr *region;
	bool ended; /* the loop has heard of the work's end */
	bool taken; /* … and no one else holds this any more */
};

static void on_work(uv_work_t *work)
{
	struct kw_rdma_ahead *ahead = work->data;
	struct kw_error error;

	ahead->region = kw_rdma_register(
		ahead->pd, ahead->base, ahead->length, IBV_ACCESS_REMOTE_READ, &error);
	uv_sem_post(&ahead->registered);
}

static void free_ahead(struct kw_rdma_ahead *ahead)
{
	uv_sem_destroy(&ahead->registered);
	free(ahead);
}

static void on_worked(uv_work_t *work, int status)
{
	struct kw_rdma_ahead *ahead = work->data;

	(void)status; /* cancelled: taken before it began */
	ahead->ended = true;
	if (ahead->taken)
		free_ahead(ahead);
}

struct kw_rdma_ahead *kw_rdma_ahead_begin(
	uv_loop_t *loop, struct ibv_pd *pd, uint8_t *base, uint64_t length)
{
	struct kw_rdma_ahead *ahead = kw_zalloc(sizeof *ahead);

	ahead->pd = pd;
	ahead->base = base;
	ahead->length = length;
	ahead->work.data = ahead;
	if (uv_sem_init(&ahead->registered, 0) != 0 ||
		uv_queue_work(loop, &ahead->work, on_work, on_worked) != 0)
		abort(); /* only without memory, or for a NULL callback */
	return ahead;
}

bool kw_rdma_ahead_is(const struct kw_rdma_ahead *ahead, const uint8_t *base, uint64_t length)
{
	return ahead->base == base && ahead->length == length;
}

bool kw_rdma_ahead_meets(const struct kw_rdma_ahead *ahead, const uint8_t *base, uint64_t length)
{
	return base < ahead->base + ahead->length && ahead->base < base + length;
}

struct ibv_mr *kw_rdma_ahead_take(struct kw_rdma_ahead *ahead)
{
	struct ibv_mr *region;

	if (!ahead->ended && uv_cancel((uv_req_t *)&ahead->work) == 0) {
		ahead->taken = true;
		return NULL;
	}
	uv_sem_wait(&ahead->registered);
	region = ahead->region;
	ahead->taken = true;
	if (ahead->ended)
		free_ahead(ahead);
	return region;
}

void kw_rdma_ahead_drop(struct kw_rdma_ahead *ahead)
{
	if (ahead)
		kw_rdma_unregister(kw_rdma_ahead_take(ahead));
}
