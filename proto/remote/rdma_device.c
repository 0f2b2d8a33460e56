#include "remote/rdma_device.h"

#include "base/buffer.h"
#include "remote/rdma_end.h"

#include <errno.h>
#include <stdlib.h>

static int add_extent(void *arg, struct kw_extent *extent, struct kw_error *error)
{
	struct kw_rdma_device *device = arg;
	uint8_t *base = device->memory->base + extent->offset;
	struct ibv_mr *region =
		kw_rdma_register(device->pd, base, extent->length, IBV_ACCESS_REMOTE_READ, error);

	if (!region)
		return kw_error_wrap(error, "RDMA device %s: the table's memory",
			ibv_get_device_name(device->verbs->device));
	device->regions[device->region_count++] = region;
	extent->address = (uintptr_t)base;
	extent->rkey = region->rkey;
	return 0;
}

struct kw_rdma_device *kw_rdma_device_new(
	struct kw_memory *memory, struct ibv_context *verbs, struct kw_error *error)
{
	struct kw_rdma_device *device = kw_zalloc(sizeof *device);
	const struct kw_memory_device hook = {add_extent, device};

	device->memory = memory;
	device->verbs = verbs;
	device->depth = kw_rdma_device_depth(verbs, error);
	if (device->depth < 0)
		goto undo;
	device->pd = ibv_alloc_pd(verbs);
	if (!device->pd) {
		kw_error_errno(error, errno, "RDMA device %s: protection domain",
			ibv_get_device_name(verbs->device));
		goto undo;
	}
	if (kw_memory_attach(memory, &hook, error) == 0)
		return device;
undo:
	kw_rdma_device_free(device);
	return NULL;
}

void kw_rdma_device_free(struct kw_rdma_device *device)
{
	if (!device)
		return;
	kw_memory_detach(device->memory);
	for (int i = 0; i < device->region_count; i++)
		kw_rdma_unregister(device->regions[i]);
	if (device->pd)
		(void)ibv_dealloc_pd(device->pd);
	free(device);
}
