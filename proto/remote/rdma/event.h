/*
 * Events of the connection manager, events of the device and completions: each is made into an
 * error and counted. Also the private data that travels with a connection request.
 *
 * The receiver of private data always sees the padded maximum, so magic, version and length stand
 * inside. Pure but for rdma_get_cm_event. Loop thread only, unless the function says otherwise.
 */
#ifndef KW_REMOTE_RDMA_EVENT_H
#define KW_REMOTE_RDMA_EVENT_H

#include "base/error.h"
#include "remote/rdma/counts.h"

#include <assert.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_RDMA_MAGIC UINT32_C(0x3144574b) /* "KWD1" */
#define KW_RDMA_VERSION 1
#define KW_RDMA_PRIVATE_MAX 256

/* Why a connection request is rejected before any handshake. Numbers are part of the protocol. */
enum kw_rdma_reject {
	KW_RDMA_REJECT_NONE = 0,
	KW_RDMA_REJECT_FOREIGN = 1,  /* no private data of ours */
	KW_RDMA_REJECT_VERSION = 2,  /* of the carrier, not of the layout */
	KW_RDMA_REJECT_BUSY = 3,     /* as many handshakes as there may be */
	KW_RDMA_REJECT_SHUTDOWN = 4, /* the proxy stops */
	KW_RDMA_REJECT_DEVICE =
		5, /* it came over another device than the table is registered with */
	KW_RDMA_REJECT_RESOURCES = 6 /* the queue pair could not be made */
};

/* REQ, REP and REJ alike. Little-endian. */
struct kw_rdma_private {
	uint32_t magic;
	uint16_t version;
	uint16_t length; /* of all of it */
	uint16_t reject; /* enum kw_rdma_reject */
	uint16_t reserved;
	uint32_t reserved2;
};

static_assert(sizeof(struct kw_rdma_private) == 16, "below 56, the least of the three limits");

void kw_rdma_private_init(struct kw_rdma_private *data, enum kw_rdma_reject reject);

/* The sentence if this host has no RDMA device. */
#define KW_RDMA_NO_DEVICE                                                                          \
	"this host has no RDMA device (`rdma link` shows them; soft-RoCE: modprobe rdma_rxe; in "  \
	"a service: the drop-in rdma.conf): use shm:// or tcp:// instead"

/*
 * An event channel whose descriptor does not block. NULL: *error; KW_E_GONE: the device can still
 * come.
 */
struct rdma_event_channel *kw_rdma_channel_new(struct kw_error *error);

/* A copy of an event of the connection manager, which is acknowledged already. */
struct kw_rdma_cm_event {
	enum rdma_cm_event_type type;
	int status;
	struct rdma_cm_id *id;
	uint8_t initiator_depth, responder_resources; /* as this side may use them */
	uint8_t data[KW_RDMA_PRIVATE_MAX];
	size_t data_length;
};

/* Take the next event; false: there is none now. */
bool kw_rdma_cm_event_take(struct rdma_event_channel *channel, struct kw_rdma_cm_event *cm_event);

/* KW_RDMA_REJECT_NONE: it is ours; else what a proxy answers. */
enum kw_rdma_reject kw_rdma_private_check(const uint8_t *data, size_t length);

/* The error for an event that ends or prevents a connection. Returns its code. */
int kw_rdma_cm_error(struct kw_error *error, const struct kw_rdma_cm_event *cm_event);

/* The same for a completion with an error; what: "READ", "SEND", "receive". */
int kw_rdma_completion_error(struct kw_error *error, enum ibv_wc_status status, const char *what);

/* The same for an asynchronous event of the device; 0: it ends nothing. */
int kw_rdma_async_error(struct kw_error *error, enum ibv_event_type event, const char *device);

/*
 * May `needed` more bytes be locked, with `used` locked already and `allowed` in all (UINT64_MAX:
 * no limit)? KW_E_CONFIG with both numbers and the remedy.
 */
int kw_rdma_memlock_check(uint64_t needed, uint64_t used, uint64_t allowed, struct kw_error *error);

/* What this process may lock: UINT64_MAX without a limit, or with CAP_IPC_LOCK. */
uint64_t kw_rdma_memlock_allowed(void);

/* ibv_reg_mr after the check; counts what is registered. NULL: *error. Any thread. */
struct ibv_mr *kw_rdma_register(
	struct ibv_pd *pd, void *base, size_t length, int access, struct kw_error *error);
void kw_rdma_unregister(struct ibv_mr *mr); /* NULL is allowed */

#endif
