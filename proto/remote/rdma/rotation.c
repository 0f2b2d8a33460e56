#include "remote/rdma/rotation.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/rdma/device.h"
#include "remote/rdma/event.h"

#include <assert.h>
#include <stdlib.h>

enum rotation_state { IDLE, REGISTERING, GRACE, RELEASING, CLOSED };

#define TO KW_SM_TO
static const struct kw_sm_state states[] = {
	[IDLE] = {"idle", TO(REGISTERING) | TO(CLOSED), KW_SM_INITIAL},
	[REGISTERING] = {"registering", TO(GRACE) | TO(CLOSED)},
	[GRACE] = {"grace", TO(RELEASING) | TO(CLOSED)},
	[RELEASING] = {"releasing", TO(IDLE) | TO(REGISTERING) | TO(CLOSED)},
	[CLOSED] = {"closed", 0, KW_SM_FINAL},
};

struct kw_rdma_rotation {
	struct kw_sm sm;
	struct kw_rdma_device *device;
	struct kw_server *server;
	uv_timer_t timer;
	uv_work_t work;
	uv_sem_t worked; /* posted by the pool, once for each work */
	int handles;     /* the timer, and the work that the loop has not heard the end of */
	bool asked;      /* once more after this one */
	int count;       /* extents of this rotation: those that its rkeys were told of */
	/* REGISTERING: the new ones. GRACE, RELEASING: the earlier ones. By number of the extent.
	 */
	struct ibv_mr *regions[KW_EXTENTS_MAX];
	struct kw_rotation told;
};

static bool rotation_holds(const void *owner, int state)
{
	const struct kw_rdma_rotation *rotation = owner;

	switch ((enum rotation_state)state) {
	case IDLE:
	case CLOSED:
		for (int i = 0; i < KW_EXTENTS_MAX; i++)
			if (rotation->regions[i])
				return false;
		return state == CLOSED || !rotation->asked;
	case REGISTERING:
	case GRACE:
	case RELEASING:
		return rotation->device->placed;
	}
	return false;
}

static const struct kw_sm_conf machine = {
	.where = "rdma rotation",
	.states = states,
	.count = sizeof states / sizeof *states,
	.invariant = rotation_holds,
};

static bool is(const struct kw_rdma_rotation *rotation, enum rotation_state state)
{
	return rotation->sm.state == (int)state;
}

static void let_go(struct kw_rdma_rotation *rotation, struct ibv_mr **regions)
{
	for (int i = 0; i < rotation->count; i++) {
		kw_rdma_unregister(regions[i]);
		regions[i] = NULL;
	}
}

/* ---- in the pool: the first `count` regions are the thread's, the device's too ---- */

/* KW_OK, or why this extent and those after it have no new region. */
static int register_all(struct kw_rdma_rotation *rotation, struct kw_error *error)
{
	const struct kw_memory *memory = rotation->device->memory;

	for (int i = 0; i < rotation->count; i++) {
		/* Offset and length of an extent never change, so no lock is needed. */
		const struct kw_extent *extent = &memory->extents[i];

		rotation->regions[i] =
			kw_rdma_register(rotation->device->pd, memory->base + extent->offset,
				extent->length, IBV_ACCESS_REMOTE_READ, error);
		if (!rotation->regions[i])
			return (int)error->code;
		rotation->told.bytes += extent->length;
	}
	return KW_OK;
}

static void on_register(uv_work_t *work)
{
	struct kw_rdma_rotation *rotation = work->data;
	struct kw_rotation *told = &rotation->told;
	uint64_t begun_us = kw_clock_us();

	*told = (struct kw_rotation){0};
	if (register_all(rotation, &told->why) != KW_OK) {
		/* An rkey that a stranger knows is worse than agents that connect again. */
		let_go(rotation, rotation->regions);
		let_go(rotation, rotation->device->regions);
		told->bytes = 0;
		told->outcome = register_all(rotation, &told->why) == KW_OK ? KW_ROTATION_BROKE
									    : KW_ROTATION_FAILED;
	}
	told->took_us = kw_clock_us() - begun_us;
	uv_sem_post(&rotation->worked);
}

static void on_release(uv_work_t *work)
{
	struct kw_rdma_rotation *rotation = work->data;

	let_go(rotation, rotation->regions);
	uv_sem_post(&rotation->worked);
}

/* ---- steps ---- */

static void give_up_handle(struct kw_rdma_rotation *rotation)
{
	assert(rotation->handles > 0);
	if (--rotation->handles > 0)
		return;
	assert(is(rotation, CLOSED));
	uv_sem_destroy(&rotation->worked);
	free(rotation);
}

static void queue(struct kw_rdma_rotation *rotation, uv_work_cb work, uv_after_work_cb after)
{
	rotation->handles++;
	rotation->work.data = rotation;
	if (uv_queue_work(kw_server_loop(rotation->server), &rotation->work, work, after) != 0)
		abort(); /* only for a NULL callback */
}

static void on_registered(uv_work_t *work, int status);

static void begin(struct kw_rdma_rotation *rotation)
{
	rotation->asked = false;
	rotation->count = atomic_load(&rotation->device->memory->extent_count);
	kw_sm_move(&rotation->sm, REGISTERING, "a key was withdrawn");
	queue(rotation, on_register, on_registered);
}

static void on_released(uv_work_t *work, int status)
{
	struct kw_rdma_rotation *rotation = work->data;

	(void)status; /* cancelled: closed before it began */
	if (!is(rotation, CLOSED)) {
		uv_sem_wait(&rotation->worked);
		if (rotation->told.outcome == KW_ROTATION_SMOOTH)
			kw_server_rotated(rotation->server, &rotation->told);
		if (rotation->asked)
			begin(rotation);
		else
			kw_sm_move(&rotation->sm, IDLE, "");
	}
	give_up_handle(rotation);
}

static void on_grace(uv_timer_t *timer)
{
	struct kw_rdma_rotation *rotation = timer->data;

	kw_sm_move(&rotation->sm, RELEASING, "");
	queue(rotation, on_release, on_released);
}

/* The device takes the new regions over, and what it had is ours. */
static void place(struct kw_rdma_rotation *rotation)
{
	struct kw_rdma_device *device = rotation->device;

	for (int i = 0; i < rotation->count; i++) {
		struct ibv_mr *fresh = rotation->regions[i];

		rotation->regions[i] = device->regions[i];
		device->regions[i] = fresh;
		kw_memory_place(device->memory, i, fresh ? (uintptr_t)fresh->addr : 0,
			fresh ? fresh->rkey : 0);
	}
	rotation->asked |= rotation->told.outcome == KW_ROTATION_FAILED;
	kw_server_placed(rotation->server);
}

static uint32_t grace_ms(const struct kw_rdma_rotation *rotation)
{
	uint32_t ms = kw_server_rdma(rotation->server)->rotate_ms;

	return ms ? ms : KW_RDMA_ROTATE_MS;
}

static void on_registered(uv_work_t *work, int status)
{
	struct kw_rdma_rotation *rotation = work->data;

	(void)status; /* cancelled: closed before it began */
	if (!is(rotation, CLOSED)) {
		uv_sem_wait(&rotation->worked);
		kw_sm_move(&rotation->sm, GRACE, "");
		place(rotation);
		if (rotation->told.outcome != KW_ROTATION_SMOOTH)
			kw_server_rotated(rotation->server, &rotation->told);
		uv_timer_start(&rotation->timer, on_grace, grace_ms(rotation), 0);
	}
	give_up_handle(rotation);
}

/* ---- for the device ---- */

struct kw_rdma_rotation *kw_rdma_rotation_new(
	struct kw_rdma_device *device, struct kw_server *server)
{
	struct kw_rdma_rotation *rotation = kw_zalloc(sizeof *rotation);

	rotation->device = device;
	rotation->server = server;
	uv_timer_init(kw_server_loop(server), &rotation->timer);
	rotation->timer.data = rotation;
	rotation->handles = 1;
	if (uv_sem_init(&rotation->worked, 0) != 0)
		abort(); /* only without memory */
	kw_sm_init(&rotation->sm, &machine, rotation, IDLE);
	return rotation;
}

/* Is there memory whose rkey was told, and that the rotation under way leaves as it is? */
static bool leaves_out(const struct kw_rdma_rotation *rotation)
{
	return !is(rotation, REGISTERING) ||
	       atomic_load(&rotation->device->memory->extent_count) > rotation->count;
}

void kw_rdma_rotation_ask(struct kw_rdma_rotation *rotation)
{
	assert(rotation->device->placed);
	if (is(rotation, IDLE))
		begin(rotation);
	else if (leaves_out(rotation))
		rotation->asked = true;
}

static void on_timer_closed(uv_handle_t *handle)
{
	give_up_handle(handle->data);
}

void kw_rdma_rotation_close(struct kw_rdma_rotation *rotation)
{
	if (!rotation)
		return;
	if ((is(rotation, REGISTERING) || is(rotation, RELEASING)) &&
		uv_cancel((uv_req_t *)&rotation->work) != 0)
		uv_sem_wait(&rotation->worked);
	let_go(rotation, rotation->regions);
	kw_sm_move(&rotation->sm, CLOSED, "the device is left");
	uv_close((uv_handle_t *)&rotation->timer, on_timer_closed);
}
