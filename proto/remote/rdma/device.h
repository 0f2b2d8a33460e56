/*
 * The proxy's device: a protection domain of its own, in which the memory file is registered, one
 * region an extent, for remote READ and nothing else. Later extents are registered before any
 * reader sees them. If the table expected them, they are registered before it needs them (ahead.h).
 * Their address and rkey travel in the directory.
 *
 *   of ──register (any thread, slow)──▶ ──place──▶ agents may READ ──leave──▶
 *
 * When a key is withdrawn, the server has all of it registered anew (rotation.h).
 *
 * One device a proxy, because an extent has one rkey: its listeners share it. Main thread but for
 * register.
 */
#ifndef KW_REMOTE_RDMA_DEVICE_H
#define KW_REMOTE_RDMA_DEVICE_H

#include "base/error.h"
#include "remote/carrier.h"
#include "remote/memory.h"
#include "remote/rdma/ahead.h"
#include "remote/rdma/rotation.h"

#include <infiniband/verbs.h>
#include <stdbool.h>

/* Extents that can be expected at a time: one of the index, one of the log. */
#define KW_RDMA_AHEAD 2

struct kw_rdma_device {
	uv_loop_t *loop;
	struct kw_memory *memory;
	struct kw_server *server;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	int depth; /* READs in flight it allows a queue pair */
	int users; /* listeners */
	bool placed;
	int before; /* extents that were there when it was opened: register's */
	struct ibv_mr *regions[KW_EXTENTS_MAX];     /* by number of the extent */
	struct kw_rdma_ahead *ahead[KW_RDMA_AHEAD]; /* NULL: none */
	struct kw_rdma_rotation *rotation;          /* NULL: none was asked for yet */
};

/*
 * The server's device: the one it keeps, or one opened on verbs. A new one has nothing registered
 * yet, and no memory is given back from now on. NULL: *error; KW_E_CONFIG: another device is in
 * use.
 */
struct kw_rdma_device *kw_rdma_device_of(
	struct kw_server *server, struct ibv_context *verbs, struct kw_error *error);

/* Register what was there when it was opened, once. Any thread. On failure: leave it. */
int kw_rdma_device_register(struct kw_rdma_device *device, struct kw_error *error);

/* Registered: the memory's extents say where. Tells the server's owner (kw_server_placed). */
void kw_rdma_device_place(struct kw_rdma_device *device, struct kw_server *server);

/* Both, unless they are done. */
int kw_rdma_device_ready(
	struct kw_rdma_device *device, struct kw_server *server, struct kw_error *error);

/*
 * One user less (NULL: it never was one). After the last one the server keeps no device, and
 * extents have no addresses. All queue pairs on it are gone by then.
 */
void kw_rdma_device_leave(struct kw_rdma_device *device, struct kw_server *server);

/* kw_server_prepare's part. */
int kw_rdma_prepare(
	struct kw_server *server, const struct kw_address *address, struct kw_error *error);

#endif
