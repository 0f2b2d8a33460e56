/*
 * Registering the table anew after a key was withdrawn: the rkeys that its holder was told must
 * open nothing any more, on no queue pair. Connections stay, and so do epoch and cursors.
 *
 *           ask   ┌─────────────┐ placed, published ┌───────┐ rotate_ms ┌───────────┐
 *   ┌──────┐ ────▶│ REGISTERING │──────────────────▶│ GRACE │──────────▶│ RELEASING │
 *   │ IDLE │      └─────────────┘                   └───────┘           └───────────┘
 *   └──────┘ ◀──────────│──────────────────────────────────────────────────│ the earlier regions
 *                       ▲                                                  │ are deregistered
 *                       └── asked since the new rkeys were published ──────┘
 *
 *   kw_rdma_rotation_close: each ──▶ CLOSED, after the thread of the pool
 *
 * All regions are registered a second time, and the directory names the new ones, before the
 * earlier ones go. So an agent that reads the superblock within rotate_ms notices nothing. One that
 * does not gets one READ refused. It connects again, and resumes.
 *
 * If the device or the limit of locked memory does not allow a second registration, the earlier
 * regions go first. Every agent then connects again. If it fails even so, nobody reads what has no
 * region, and all is tried again each rotate_ms.
 *
 * There is at most one rotation at a time. One that is asked for while regions are being registered
 * is the same one, since no agent was told these rkeys yet; unless the table has grown since it
 * began. Loop thread only.
 */
#ifndef KW_REMOTE_RDMA_ROTATION_H
#define KW_REMOTE_RDMA_ROTATION_H

#include "remote/carrier.h"

#include <infiniband/verbs.h>

struct kw_rdma_device;
struct kw_rdma_rotation;

/* The device and its server stay until kw_rdma_rotation_close. */
struct kw_rdma_rotation *kw_rdma_rotation_new(
	struct kw_rdma_device *device, struct kw_server *server);

/* The device is placed, and stays so. */
void kw_rdma_rotation_ask(struct kw_rdma_rotation *rotation);

/*
 * Waits for the thread, and deregisters what the device does not hold. It frees itself later, from
 * the loop. NULL is fine.
 */
void kw_rdma_rotation_close(struct kw_rdma_rotation *rotation);

#endif
