/*
 * rdma, the agent's end: from a host and a port to a connected queue pair.
 *
 *   name ──▶ address ──▶ route ──▶ build (thread pool) ──▶ connect ──▶ RTS, established
 *              ▲                                             │
 *              └──────────── failed: the next address ◀──────┘
 *
 * A name's addresses are tried one after the other, each but the last for its share of the time
 * there is to connect; the reason told is that of a proxy that refused, or else the last one's.
 * Deadline and end are the owner's (kw_remote). Loop thread only.
 */
#ifndef KW_REMOTE_RDMA_DIAL_H
#define KW_REMOTE_RDMA_DIAL_H

#include "remote/carrier.h"
#include "remote/rdma/end.h"
#include "remote/rdma/watch.h"
#include "remote/resolve.h"

struct kw_rdma_dial {
	struct kw_remote *remote;
	struct kw_rdma_end *end; /* the owner's: built here */
	void (*connected)(struct kw_remote *remote);
	void (*lost)(struct kw_remote *remote, const struct kw_error *why); /* once connected */
	struct kw_rdma_options options;
	struct kw_resolve *resolve;           /* under way in the thread pool */
	struct addrinfo *addresses, *address; /* all, and the one that is tried */
	uint64_t share_us, give_up_us;        /* for one address; until then */
	struct kw_error last;                 /* why the addresses before did not do */
	bool again; /* this one does not do: the next turn tries the next */
	struct rdma_event_channel *channel;
	uv_poll_t *poll;
	struct rdma_cm_id *id;
	struct kw_rdma_watch watch;
	uv_work_t work;
	bool working, closing, established, disconnected;
	struct kw_error built; /* by the thread pool: its code is KW_OK when all went well */
	uint32_t slots, depth;
	bool software; /* the device */
};

/* dial is zeroed but for options; connected and lost are set by the owner. */
void kw_rdma_dial_init(
	struct kw_rdma_dial *dial, struct kw_remote *remote, struct kw_rdma_end *end);
void kw_rdma_dial_start(struct kw_rdma_dial *dial, struct kw_remote *remote);

/* A turn of the remote's, until connected was called. */
void kw_rdma_dial_turn(struct kw_rdma_dial *dial);

/* Let go of everything, the end too; what the thread pool still has holds the remote until then. */
void kw_rdma_dial_close(struct kw_rdma_dial *dial);

/* Zeros become what is meant by them; KW_E_CONFIG for what cannot be. */
int kw_rdma_options_set(
	struct kw_rdma_options *own, const struct kw_rdma_options *given, struct kw_error *error);

/* Is it the device and port that was asked for? And the timeout for what follows. */
int kw_rdma_options_apply(
	const struct kw_rdma_options *options, struct rdma_cm_id *id, struct kw_error *error);

#endif
