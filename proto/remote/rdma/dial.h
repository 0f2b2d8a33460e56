/*
 * rdma, the agent's end: from a host and a port to a connected queue pair.
 *
 *   ┌──────┐  ┌──────┐ addresses ┌───────┐ device, ┌───────┐ queue  ┌─────────┐ answered ┌────┐
 *   │ IDLE │─▶│ NAME │──────────▶│ ROUTE │────────▶│ BUILD │───────▶│ CONNECT │─────────▶│ UP │
 *   └──────┘  └──────┘           └───────┘ route   └───────┘ pair   └─────────┘          └────┘
 *                                 ▲   │               │                  │                 │ the
 * proxy next address│   │ failed        │ failed           │ failed          ▼ leaves ┌──────┐ pool
 * ends ┌──────┐             │             ┌──────┐ │ NEXT │◀──────────│ DROP │             │ │ LOST
 * │ └──────┘           └──────┘             │             └──────┘ ▲ │
 *                                 └──────────────────────────────────────┘
 *
 *   kw_rdma_dial_close: ──▶ CLOSED; or, while a thread of the pool still uses the end (BUILD, DROP,
 *   or its poster in UP and LOST), ──▶ CLOSING ──the thread has ended──▶ CLOSED
 *
 * A thread of the pool builds the queue pair, because that is slow. The addresses of a name are
 * tried one after the other. Each but the last gets its share of the time to connect. If none leads
 * to a proxy, the error is that of a proxy that refused, or else that of the last address. The
 * owner (kw_remote) keeps the deadline of the whole. Loop thread only.
 */
#ifndef KW_REMOTE_RDMA_DIAL_H
#define KW_REMOTE_RDMA_DIAL_H

#include "remote/carrier.h"
#include "remote/rdma/end.h"
#include "remote/rdma/watch.h"
#include "remote/resolve.h"

enum kw_rdma_dial_state {
	KW_RDMA_DIAL_IDLE,
	KW_RDMA_DIAL_NAME,    /* resolve is at work */
	KW_RDMA_DIAL_ROUTE,   /* the connection manager looks for the device and the route */
	KW_RDMA_DIAL_BUILD,   /* the thread pool builds the queue pair */
	KW_RDMA_DIAL_DROP,    /* the same, but this address will not be used */
	KW_RDMA_DIAL_NEXT,    /* the next turn tries the next address */
	KW_RDMA_DIAL_CONNECT, /* the request is on its way */
	KW_RDMA_DIAL_UP,
	KW_RDMA_DIAL_LOST, /* the proxy has disconnected */
	KW_RDMA_DIAL_CLOSING,
	KW_RDMA_DIAL_CLOSED,
};

struct kw_rdma_dial {
	struct kw_sm sm; /* of enum kw_rdma_dial_state */
	struct kw_remote *remote;
	struct kw_rdma_end *end; /* the owner's: built here */
	void (*connected)(struct kw_remote *remote);
	void (*lost)(struct kw_remote *remote, const struct kw_error *why); /* once connected */
	struct kw_rdma_options options;
	struct kw_resolve *resolve;           /* under way in the thread pool */
	struct addrinfo *addresses, *address; /* all, and the one that is tried */
	uint64_t share_us, give_up_us;        /* for one address; until then */
	struct kw_error last;                 /* why the earlier addresses failed */
	struct rdma_event_channel *channel;
	uv_poll_t *poll;
	struct rdma_cm_id *id;
	struct kw_rdma_watch watch;
	uv_work_t work;
	struct kw_error built; /* by the thread pool: its code is KW_OK when all went well */
	uint32_t slots, depth;
	enum kw_rdma_dial_state closed_in; /* CLOSING: the state before */
};

/* dial is zeroed but for options, connected and lost, which the owner sets. */
void kw_rdma_dial_init(
	struct kw_rdma_dial *dial, struct kw_remote *remote, struct kw_rdma_end *end);

/* A turn of the remote. The first one begins. */
void kw_rdma_dial_turn(struct kw_rdma_dial *dial);

/*
 * Release everything, the end too. While a thread still uses the end, this waits for it and holds
 * the remote (kw_remote_hold).
 */
void kw_rdma_dial_close(struct kw_rdma_dial *dial);

/* Zeros become the defaults. KW_E_CONFIG: a value is out of range. */
int kw_rdma_options_set(
	struct kw_rdma_options *own, const struct kw_rdma_options *given, struct kw_error *error);

/* Check that it is the configured device and port, and set the timeout. */
int kw_rdma_options_apply(
	const struct kw_rdma_options *options, struct rdma_cm_id *id, struct kw_error *error);

#endif
