#include "remote/rdma/device.h"

#include "base/buffer.h"
#include "remote/rdma/bind.h"
#include "remote/rdma/dial.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static int add_region(struct kw_rdma_device *device, int number, const struct kw_extent *extent,
	struct kw_error *error)
{
	uint8_t *base = device->memory->base + extent->offset;
	struct ibv_mr *region =
		kw_rdma_register(device->pd, base, extent->length, IBV_ACCESS_REMOTE_READ, error);

	if (!region)
		return kw_error_wrap(error, "RDMA device %s: the table's memory",
			ibv_get_device_name(device->verbs->device));
	assert(number >= 0 && number < KW_EXTENTS_MAX);
	device->regions[number] = region;
	return 0;
}

/* What was registered ahead and overlaps [base, +length) will not be asked for again. */
static void drop_ahead(struct kw_rdma_device *device, const uint8_t *base, uint64_t length)
{
	for (int i = 0; i < KW_RDMA_AHEAD; i++)
		if (device->ahead[i] && kw_rdma_ahead_meets(device->ahead[i], base, length)) {
			kw_rdma_ahead_drop(device->ahead[i]);
			device->ahead[i] = NULL;
		}
}

/* The region that was registered ahead; NULL: none was, or it could not be. */
static struct ibv_mr *expected(struct kw_rdma_device *device, const struct kw_extent *extent)
{
	for (int i = 0; i < KW_RDMA_AHEAD; i++) {
		struct kw_rdma_ahead *ahead = device->ahead[i];

		if (!ahead || !kw_rdma_ahead_is(
				      ahead, device->memory->base + extent->offset, extent->length))
			continue;
		device->ahead[i] = NULL;
		return kw_rdma_ahead_take(ahead);
	}
	return NULL;
}

static void expect_extent(void *arg, uint64_t offset, uint64_t length)
{
	struct kw_rdma_device *device = arg;
	uint8_t *base = device->memory->base + offset;
	int at = -1;

	for (int i = 0; i < KW_RDMA_AHEAD; i++)
		if (!device->ahead[i])
			at = i;
		else if (kw_rdma_ahead_is(device->ahead[i], base, length))
			return;
	if (at >= 0)
		device->ahead[at] = kw_rdma_ahead_begin(device->loop, device->pd, base, length);
}

static int add_extent(void *arg, int number, struct kw_extent *extent, struct kw_error *error)
{
	struct kw_rdma_device *device = arg;
	int code = 0;

	device->regions[number] = expected(device, extent);
	if (!device->regions[number]) {
		drop_ahead(device, device->memory->base + extent->offset, extent->length);
		code = add_region(device, number, extent, error);
	}
	if (code != 0) { /* what is needed now goes before what might be needed */
		drop_ahead(device, device->memory->base, device->memory->reserve_bytes);
		code = add_region(device, number, extent, error);
	}
	if (code != 0)
		return code;
	extent->address = (uintptr_t)device->regions[number]->addr;
	extent->rkey = device->regions[number]->rkey;
	return 0;
}

static struct kw_rdma_device *open_device(
	struct kw_server *server, struct ibv_context *verbs, struct kw_error *error)
{
	struct kw_rdma_device *device = kw_zalloc(sizeof *device);
	const struct kw_memory_device hook = {add_extent, expect_extent, device};

	device->memory = kw_server_memory(server);
	device->server = server;
	device->loop = kw_server_loop(server);
	device->verbs = verbs;
	device->depth = kw_rdma_device_depth(verbs, error);
	if (device->depth < 0)
		goto free;
	device->pd = ibv_alloc_pd(verbs);
	if (!device->pd) {
		kw_error_errno(error, errno, "RDMA device %s: protection domain",
			ibv_get_device_name(verbs->device));
		goto free;
	}
	device->before = kw_memory_attach(device->memory, &hook);
	return device;
free:
	free(device);
	return NULL;
}

static void close_device(void *arg)
{
	struct kw_rdma_device *device = arg;

	kw_rdma_rotation_close(device->rotation);
	for (int i = 0; i < KW_RDMA_AHEAD; i++)
		kw_rdma_ahead_drop(device->ahead[i]);
	for (int i = 0; i < KW_EXTENTS_MAX; i++)
		kw_rdma_unregister(device->regions[i]);
	(void)ibv_dealloc_pd(device->pd);
	/* Last: no device has pinned the pages that are given back from now on. */
	kw_memory_detach(device->memory);
	free(device);
}

/* What is not placed was told to no agent. */
static void rotate_device(void *arg)
{
	struct kw_rdma_device *device = arg;

	if (!device->placed)
		return;
	if (!device->rotation)
		device->rotation = kw_rdma_rotation_new(device, device->server);
	kw_rdma_rotation_ask(device->rotation);
}

static const struct kw_kept_ops kept_ops = {.release = close_device, .rotate = rotate_device};

static void drop_unused(struct kw_server *server)
{
	struct kw_rdma_device *device = kw_server_kept(server);

	if (!device || device->users > 0)
		return;
	kw_server_keep(server, NULL, NULL);
	close_device(device);
}

struct kw_rdma_device *kw_rdma_device_of(
	struct kw_server *server, struct ibv_context *verbs, struct kw_error *error)
{
	struct kw_rdma_device *device = kw_server_kept(server);

	if (device && device->verbs == verbs)
		return device;
	if (device && device->users > 0) {
		kw_error_set(error, KW_E_CONFIG,
			"the table is registered with RDMA device %s already, and one proxy "
			"serves one",
			ibv_get_device_name(device->verbs->device));
		return NULL;
	}
	drop_unused(server);
	device = open_device(server, verbs, error);
	if (device)
		kw_server_keep(server, device, &kept_ops);
	return device;
}

int kw_rdma_device_register(struct kw_rdma_device *device, struct kw_error *error)
{
	/* Offset and length of an extent never change, so no lock is needed. */
	for (int i = 0; i < device->before; i++) {
		int code = add_region(device, i, &device->memory->extents[i], error);

		if (code != 0)
			return code;
	}
	return 0;
}

void kw_rdma_device_place(struct kw_rdma_device *device, struct kw_server *server)
{
	assert(!device->placed);
	for (int i = 0; i < device->before; i++)
		kw_memory_place(device->memory, i, (uintptr_t)device->regions[i]->addr,
			device->regions[i]->rkey);
	device->placed = true;
	kw_server_placed(server);
}

int kw_rdma_device_ready(
	struct kw_rdma_device *device, struct kw_server *server, struct kw_error *error)
{
	int code = device->placed ? 0 : kw_rdma_device_register(device, error);

	if (code == 0 && !device->placed)
		kw_rdma_device_place(device, server);
	return code;
}

void kw_rdma_device_leave(struct kw_rdma_device *device, struct kw_server *server)
{
	assert(!device || device->users > 0);
	if (device)
		device->users--;
	drop_unused(server);
}

int kw_rdma_prepare(
	struct kw_server *server, const struct kw_address *address, struct kw_error *error)
{
	struct kw_rdma_device *device;
	struct kw_rdma_options options;
	struct kw_rdma_bound probe = {0};
	struct sockaddr_storage to;
	int code = kw_rdma_options_set(&options, kw_server_rdma(server), error);

	if (code == 0)
		code = kw_rdma_resolve(address, &to, error);
	if (code == 0)
		code = kw_rdma_bind(&probe, (struct sockaddr *)&to, &options, error);
	if (code == 0) {
		device = kw_rdma_device_of(server, probe.verbs, error);
		code = device ? kw_rdma_device_ready(device, server, error) : (int)error->code;
	}
	kw_rdma_unbind(&probe);
	return code;
}
