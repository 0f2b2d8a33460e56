/* The inside of the downlink: its connections (guests.c), and what goes out (downlink.c). */
#ifndef KW_AGENT_PRIMARY_DOWNLINK_INTERNAL_H
#define KW_AGENT_PRIMARY_DOWNLINK_INTERNAL_H

#include "downlink.h"

#include "remote/wire.h"

/* What an emptied output keeps of its memory. */
#define KEEP_BYTES ((size_t)1 << 20)

enum kw_guest_state {
	KW_GUEST_SHAKING, /* TLS: its handshake is not done */
	KW_GUEST_OPEN,
	KW_GUEST_LEAVING,
};

struct kw_guest {
	struct kw_downlink *downlink;
	struct kw_guest *next;
	uv_poll_t poll;
	struct kw_wire wire;
	int events;
	struct kw_replconf replconf;
	uint64_t heard_us; /* a guest: came; the replica: spoke last */
	enum kw_guest_state state;
	bool spoken;               /* anything came of it */
	char why[KW_DOWNLINK_WHY]; /* of a failed write: told from the loop */
};

/* guests.c: the listener is readable. */
void kw_guest_arrives(uv_poll_t *poll, int status, int events);

/* Its handshake goes on; its bytes are read. Both may end it. */
void kw_guest_shake(struct kw_guest *guest);
void kw_guest_read(struct kw_guest *guest);

void kw_guest_watch(struct kw_guest *guest, int events);

/* The connection cannot go on: `lost` is called if it was the replica. */
void kw_guest_fail(struct kw_guest *guest, const char *why);

/* Its last answer leaves if the socket takes it; then it is closed. */
void kw_guest_send_off(struct kw_guest *guest);

/* A handle is closed. */
void kw_downlink_part_closed(struct kw_downlink *downlink);

/* downlink.c: its socket is ready. */
void kw_guest_event(uv_poll_t *poll, int status, int events);

#endif
