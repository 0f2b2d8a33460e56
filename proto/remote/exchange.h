/*
 * Carrying a handshake over a wire, either end; with WELCOME a file descriptor can travel
 * (SCM_RIGHTS). Reads exactly the bytes of the handshake: what follows them
 * on the socket belongs to the carrier. Knows no loop: its owner polls.
 */
#ifndef KW_REMOTE_EXCHANGE_H
#define KW_REMOTE_EXCHANGE_H

#include "base/error.h"
#include "remote/handshake.h"
#include "remote/wire.h"

struct kw_exchange {
	struct kw_handshake handshake; /* begun by the owner */
	int give_fd;                   /* proxy: goes with WELCOME; -1: none. The owner's */
	int taken_fd; /* agent: what came; -1: nothing. The owner's to close once it is there */
	bool takes_fd;
};

enum kw_exchange_result {
	KW_EXCHANGE_READ,   /* come back when the socket is readable */
	KW_EXCHANGE_WRITE,  /* … writable */
	KW_EXCHANGE_DECIDE, /* proxy: PROVED; welcome or refuse, then come back at once */
	KW_EXCHANGE_DONE,
	KW_EXCHANGE_FAILED, /* *error says why; a REFUSE was sent if there was one to send */
};

enum kw_exchange_result kw_exchange_step(
	struct kw_exchange *exchange, struct kw_wire *wire, struct kw_error *error);

#endif
