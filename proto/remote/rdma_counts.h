/*
 * What went wrong on RDMA connections of this process, either end, by kind: for metrics. Every end
 * of a connection that has a sentence of its own has a counter of its own. Any thread.
 */
#ifndef KW_REMOTE_RDMA_COUNTS_H
#define KW_REMOTE_RDMA_COUNTS_H

#include <stdint.h>

#define KW_RDMA_COUNTS_LIST(X)                                                                     \
	X(REJECTED, "rejected")                                                                    \
	X(NOBODY, "nobody_listening")                                                              \
	X(STALE, "stale_connection")                                                               \
	X(UNREACHABLE, "unreachable")                                                              \
	X(ADDRESS, "address_unresolved")                                                           \
	X(ADDRESS_CHANGED, "address_changed")                                                      \
	X(DEVICE_REMOVED, "device_removed")                                                        \
	X(PORT_DOWN, "port_down")                                                                  \
	X(DISCONNECTED, "disconnected")                                                            \
	X(BAD_COMPLETION, "bad_completion")                                                        \
	X(RETRIES, "retries_exceeded")                                                             \
	X(ACCESS, "access_refused")                                                                \
	X(CONNECT_ERROR, "connect_error")

enum kw_rdma_count {
#define X(id, name) KW_RDMA_##id,
	KW_RDMA_COUNTS_LIST(X)
#undef X
		KW_RDMA_COUNTS,
};

const char *kw_rdma_count_name(enum kw_rdma_count count);
uint64_t kw_rdma_counted(enum kw_rdma_count count);

#endif
