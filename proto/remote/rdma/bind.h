/*
 * An address of this host, bound: which device that is, and whether the device is still there.
 *
 * librdmacm opens a device once for the whole process and keeps it open. While it is open soft-RoCE
 * cannot be removed: its driver takes no context away from a process (the kernel's
 * ib_uverbs_remove_one waits). Then `rdma link delete` hangs, and the device can never come back.
 * kw_rdma_let_go prevents that. Loop thread only.
 */
#ifndef KW_REMOTE_RDMA_BIND_H
#define KW_REMOTE_RDMA_BIND_H

#include "base/error.h"
#include "remote/remote.h"

#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>

/*
 * The first address of a name. It can block: only at start. KW_E_IO: the name does not resolve now.
 */
int kw_rdma_resolve(
	const struct kw_address *address, struct sockaddr_storage *to, struct kw_error *error);

struct kw_rdma_bound {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct ibv_context *verbs; /* open as long as this is bound */
	struct ibv_context **held; /* a wildcard address belongs to no device: keeps verbs open */
};

/*
 * bound is zeroed. KW_E_GONE: the device or the address is not there yet. KW_E_CONFIG: there are
 * several devices and none was named, or the address leads to another one.
 */
int kw_rdma_bind(struct kw_rdma_bound *bound, struct sockaddr *address,
	const struct kw_rdma_options *options, struct kw_error *error);
void kw_rdma_unbind(struct kw_rdma_bound *bound); /* harmless on a zeroed one */

/* Could it be bound? kw_server_look's part. */
int kw_rdma_look(const struct kw_address *address, const struct kw_rdma_options *given,
	struct kw_error *error);

/* Was it taken away from this host? */
bool kw_rdma_removed(const struct ibv_context *verbs);

/*
 * For a device that was removed, once this process has nothing but ids on it: the kernel need not
 * wait for us any more. Any use of the context fails from now on.
 */
void kw_rdma_let_go(struct ibv_context *verbs);

#endif
