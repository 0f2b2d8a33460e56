#include "remote/rdma/software.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/carrier.h"

#include <assert.h>
#include <stdlib.h>

/* What rdma_rxe and siw of the kernel give as their vendor. */
#define VENDOR_SOFT_ROCE 0xffffff
#define VENDOR_SOFT_IWARP 0x626d74

/* Rounds of one stay in the pool: a name lookup might be waiting for its thread. */
#define ROUNDS_MAX 64

/* A thread begins within a fraction of a millisecond, unless all are busy, or a name server is
 * slow. */
#define LATE_US 50000

enum software_state { IDLE, WORKING, STOPPING, STOPPED };

struct software {
	struct kw_rdma_poster poster; /* first: the end knows no more of this */
	struct kw_sm sm;
	struct kw_rdma_end *end;
	struct kw_remote *remote;
	uv_work_t work;
	uint64_t late_us; /* WORKING: when a thread should have begun */
	struct {
		void (*idle)(void *owner);
		void *owner;
	} stopping;
	struct kw_error error; /* the thread's, for the loop after it ended */

	uv_mutex_t lock; /* of the ring */
	struct kw_rdma_read ring[KW_RDMA_SLOTS_MAX];
	uint32_t first, count;
};

static_assert(offsetof(struct software, poster) == 0, "the end goes by it");

static bool software_holds(const void *owner, int state)
{
	const struct software *software = owner;

	return state != STOPPED || software->count == 0;
}

static const struct kw_sm_state states[] = {
	[IDLE] = {"idle", KW_SM_TO(WORKING) | KW_SM_TO(STOPPED), KW_SM_INITIAL},
	[WORKING] = {"working", KW_SM_TO(IDLE) | KW_SM_TO(STOPPING)},
	[STOPPING] = {"stopping", KW_SM_TO(STOPPED)},
	[STOPPED] = {"stopped", 0, KW_SM_FINAL},
};

static const struct kw_sm_conf machine = {
	.where = "rdma poster",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = software_holds,
};

static bool is(const struct software *software, enum software_state state)
{
	return software->sm.state == (int)state;
}

/* ---- the thread ---- */

/* All that waits, in order. */
static int take(struct software *software, struct kw_rdma_read *reads)
{
	int count;

	uv_mutex_lock(&software->lock);
	for (count = 0; software->count > 0; count++) {
		reads[count] = software->ring[software->first];
		software->first = (software->first + 1) % KW_RDMA_SLOTS_MAX;
		software->count--;
	}
	uv_mutex_unlock(&software->lock);
	return count;
}

static void on_work(uv_work_t *work)
{
	struct software *software = work->data;
	struct kw_rdma_read reads[KW_RDMA_SLOTS_MAX];
	int count;

	for (int i = 0; i < ROUNDS_MAX && (count = take(software, reads)) > 0; i++)
		if (kw_rdma_end_post(software->end, reads, count, &software->error) != 0)
			return;
}

/* ---- the loop ---- */

static void on_worked(uv_work_t *work, int status);

static void queue_work(struct software *software)
{
	software->error.code = KW_OK;
	software->late_us = kw_clock_us() + LATE_US;
	kw_remote_turn_at(software->remote, software->late_us);
	if (uv_queue_work(software->remote->loop, &software->work, on_work, on_worked) != 0)
		abort(); /* only for a NULL callback */
}

static void on_worked(uv_work_t *work, int status)
{
	struct software *software = work->data;

	if (is(software, STOPPING)) {
		kw_sm_move(&software->sm, STOPPED, "");
		software->stopping.idle(software->stopping.owner); /* frees this */
		return;
	}
	assert(is(software, WORKING));
	if (status == UV_ECANCELED) /* it was late: see turn */
		on_work(work);
	if (software->error.code == KW_OK && software->count > 0) {
		queue_work(software); /* they came after its last round */
		return;
	}
	kw_sm_move(&software->sm, IDLE, "");
	if (software->error.code != KW_OK) /* may free this */
		software->end->ops->broken(software->end->owner, &software->error);
}

static void append(struct software *software, const struct kw_rdma_read *reads, int count)
{
	uv_mutex_lock(&software->lock);
	for (int i = 0; i < count; i++) {
		assert(software->count < KW_RDMA_SLOTS_MAX);
		software->ring[(software->first + software->count) % KW_RDMA_SLOTS_MAX] = reads[i];
		software->count++;
	}
	uv_mutex_unlock(&software->lock);
}

static int read_software(struct kw_rdma_poster *poster, const struct kw_rdma_read *reads, int count,
	struct kw_error *error)
{
	struct software *software = (struct software *)poster;
	uint64_t bytes = 0;

	assert(is(software, IDLE) || is(software, WORKING));
	for (int i = 0; i < count; i++)
		bytes += reads[i].length;
	if (is(software, IDLE) && bytes < KW_RDMA_SMALL_POST_BYTES &&
		reads[count - 1].number < software->end->reads_done + KW_RDMA_SMALL_POST_READS)
		return kw_rdma_end_post(software->end, reads, count, error);
	append(software, reads, count);
	if (is(software, IDLE)) {
		kw_sm_move(&software->sm, WORKING, "");
		queue_work(software);
	}
	return 0;
}

/*
 * Take back the READs that the pool is late with. If a thread has begun, cancelling has no effect.
 */
static void turn_software(struct kw_rdma_poster *poster)
{
	struct software *software = (struct software *)poster;

	if (is(software, WORKING) && kw_clock_us() >= software->late_us)
		(void)uv_cancel((uv_req_t *)&software->work);
}

static bool stop_software(struct kw_rdma_poster *poster, void (*idle)(void *owner), void *owner)
{
	struct software *software = (struct software *)poster;

	uv_mutex_lock(&software->lock);
	software->count = 0;
	uv_mutex_unlock(&software->lock);
	software->stopping.idle = idle;
	software->stopping.owner = owner;
	if (!is(software, WORKING)) {
		kw_sm_move(&software->sm, STOPPED, "");
		return false;
	}
	kw_sm_move(&software->sm, STOPPING, "a thread has it");
	(void)uv_cancel((uv_req_t *)&software->work);
	return true;
}

static void free_software(struct kw_rdma_poster *poster)
{
	struct software *software = (struct software *)poster;

	assert(is(software, IDLE) || is(software, STOPPED));
	uv_mutex_destroy(&software->lock);
	free(software);
}

static bool is_software(struct ibv_context *verbs)
{
	struct ibv_device_attr device;

	return ibv_query_device(verbs, &device) == 0 &&
	       (device.vendor_id == VENDOR_SOFT_ROCE || device.vendor_id == VENDOR_SOFT_IWARP);
}

struct kw_rdma_poster *kw_rdma_software_poster(struct kw_rdma_end *end, struct kw_remote *remote)
{
	struct software *software;

	assert(end->qp);
	if (!is_software(end->id->verbs))
		return NULL;
	software = kw_zalloc(sizeof *software);
	software->poster = (struct kw_rdma_poster){
		.read = read_software,
		.turn = turn_software,
		.stop = stop_software,
		.free = free_software,
	};
	software->end = end;
	software->remote = remote;
	software->work.data = software;
	if (uv_mutex_init(&software->lock) != 0)
		abort(); /* only without memory */
	kw_sm_init(&software->sm, &machine, software, IDLE);
	return &software->poster;
}
