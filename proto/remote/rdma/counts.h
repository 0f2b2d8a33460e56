/*
 * What went wrong on RDMA connections of this process, either end, by kind: for metrics. Every end
 * of a connection that has a sentence of its own has a counter of its own. All stay 0 if rdma was
 * not built in. Any thread.
 */
#ifndef KW_REMOTE_RDMA_COUNTS_H
#define KW_REMOTE_RDMA_COUNTS_H

#include "base/buffer.h"

#include <stdint.h>

/* clang-format off */
#define KW_RDMA_COUNTS_LIST(X)                                                                     \
	X(REJECTED, "rejected", "connection requests rejected")                                    \
	X(NOBODY, "nobody_listening", "connection requests to a port nobody listens on")           \
	X(STALE, "stale_connection", "connection requests that met an earlier connection's rest")  \
	X(UNREACHABLE, "unreachable", "connection requests without an answer")                     \
	X(ADDRESS, "address_unresolved", "addresses that lead over no RDMA device")                \
	X(ADDRESS_CHANGED, "address_changed", "connections whose address moved to another device") \
	X(DEVICE_REMOVED, "device_removed", "connections whose device failed or was removed")      \
	X(PORT_DOWN, "port_down", "connections whose port went down")                              \
	X(DISCONNECTED, "disconnected", "connections that the other side closed")                  \
	X(BAD_COMPLETION, "bad_completion", "connections ended by a completion with an error")     \
	X(STRANGE, "strange_completion", "connections ended by a completion that nothing asked for") \
	X(RETRIES, "retries_exceeded", "connections whose other side did not answer any more")     \
	X(ACCESS, "access_refused", "connections ended by a READ that was not allowed")            \
	X(CONNECT_ERROR, "connect_error", "connections that could not be made")
/* clang-format on */

enum kw_rdma_count {
#define X(id, name, doc) KW_RDMA_##id,
	KW_RDMA_COUNTS_LIST(X)
#undef X
		KW_RDMA_COUNTS,
};

const char *kw_rdma_count_name(enum kw_rdma_count count);
uint64_t kw_rdma_counted(enum kw_rdma_count count);

/* All of them as Prometheus text: PREFIX_rdma_faults_total{kind="NAME"}. */
void kw_rdma_metrics(struct kw_buffer *text, const char *prefix);

/* The carrier's own: it happened once more. */
void kw_rdma_count(enum kw_rdma_count count);

#endif
