/*
 * rdma, the proxy's end of one connection: from its request to its end. The listener hands events
 * of the connection manager to it. Loop thread only.
 */
#ifndef KW_REMOTE_RDMA_PEER_H
#define KW_REMOTE_RDMA_PEER_H

#include "remote/carrier.h"
#include "remote/rdma/device.h"
#include "remote/rdma/end.h"
#include "remote/slots.h"

/*
 *   request ┌──────────┐ accepted ┌──────────┐ welcomed ┌─────────┐
 *   ───────▶│ BUILDING │─────────▶│ GREETING │─────────▶│ SESSION │
 *           └──────────┘          └──────────┘          └─────────┘
 *             │      │ failed    refused │    │ lost      told │   │ lost
 *   lost, the │      │                   ▼    │               ▼   │
 *   proxy     │      │            ┌─────────┐◀│───────────────┘   │
 *   stops     │      │            │ LEAVING │ │ last words are sent, or had their time
 *             ▼      ▼            └─────────┘ ▼                   ▼
 *   ┌─────────┐ the thread ┌─────────────────────────────────────────┐
 *   │ DROPPED │───────────▶│                  GONE                   │
 *   └─────────┘  has ended └─────────────────────────────────────────┘
 *
 * BUILDING ones are bounded in number by the server (kw_server_greet), because a thread has them
 * and they cannot give way. GREETING ones have a slot at the listener, and give way (slots.h). One
 * that was refused keeps its slot while it is LEAVING.
 */
enum kw_rdma_peer_state {
	KW_RDMA_BUILDING,
	KW_RDMA_GREETING,
	KW_RDMA_SESSION,
	KW_RDMA_LEAVING,
	KW_RDMA_DROPPED, /* a thread of the pool still builds its queue pair */
	KW_RDMA_GONE,
};

struct kw_rdma_listen;

struct kw_rdma_peer {
	struct kw_rdma_listen *listen;
	struct kw_rdma_peer *next, *previous;
	struct kw_sm sm;
	struct rdma_cm_id *id;
	struct kw_rdma_end end;
	struct kw_handshake handshake;
	struct kw_session *session; /* from SESSION on; NULL: never became one */
	uint8_t reads;              /* in flight, as its device and ours allow */
	uv_timer_t deadline;
	uv_work_t work;
	int handles;           /* not yet closed */
	struct kw_error built; /* by the thread pool: its code is KW_OK when all went well */
	struct kw_error why;   /* of the end */
	struct kw_origin origin;
	struct kw_slot slot; /* GREETING, and LEAVING unless it was a session */
	struct kw_reported reported;
};

struct kw_rdma_listen {
	struct kw_listener *listener;
	struct kw_rdma_device *device;
	struct kw_rdma_options options;
	struct kw_rdma_peer *peers;
	struct kw_slots slots; /* of those that are no sessions, from GREETING on */
	void (*peer_freed)(struct kw_rdma_listen *listen);
};

/* A connection request that was not rejected. Takes the id over. */
void kw_rdma_peer_new(struct kw_rdma_listen *listen, const struct kw_rdma_cm_event *cm_event);

/* Any other event about it. */
void kw_rdma_peer_event(struct kw_rdma_peer *peer, const struct kw_rdma_cm_event *cm_event);

/* Its connection is lost, or must be. */
void kw_rdma_peer_lost(struct kw_rdma_peer *peer, const struct kw_error *why);

/* The proxy stops while it is greeted. */
void kw_rdma_peer_turn_away(struct kw_rdma_peer *peer);

/* Revoke at once, then say why, then let go. */
void kw_rdma_peer_end(struct kw_session *session, enum kw_frame_status bye);

/* "rdma://…: PEER: why", through kw_server_rejected. */
void kw_rdma_listen_reject(
	struct kw_rdma_listen *listen, const char *peer, const struct kw_error *error);

#endif
