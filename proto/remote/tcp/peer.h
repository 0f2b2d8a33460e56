/*
 * One agent as the serving thread sees it: its wire, its requests in a ring, and how far the
 * reply to the first of them is sent. Serving thread only, but for kw_tcp_peer_new.
 */
#ifndef KW_REMOTE_TCP_PEER_H
#define KW_REMOTE_TCP_PEER_H

#include "remote/tcp/packed.h"
#include "remote/tcp/scoped.h"
#include "remote/tcp/serve.h"

struct kw_tcp_request {
	uint64_t id, offset, length; /* checked */
	bool packed;                 /* it is answered in blocks */
};

struct kw_tcp_peer {
	struct kw_tcp_conn shown; /* first: handed out as this */
	struct kw_wire wire;
	uint32_t events; /* what epoll watches for */
	struct kw_tcp_peer *next, *previous;
	uint8_t input[KW_SERVE_INPUT];
	size_t input_length;
	uint64_t sent;         /* bytes of the reply to the first request, header included */
	uint32_t first, count; /* of the ring */
	uint32_t depth;
	struct kw_scoped *scoped; /* NULL: it may read the whole table */
	struct kw_packed *packed; /* NULL: no answer is compressed */
	struct kw_tcp_request ring[];
};

/* What all peers of the serving thread share, and what outlives them. */
struct kw_tcp_tools {
	struct kw_redact *redact;         /* NULL: no client has a scope */
	struct kw_compressor *compressor; /* NULL: no answer is compressed */
};

struct kw_tcp_peer *kw_tcp_peer_new(
	struct kw_wire wire, const struct kw_tcp_client *client, const struct kw_tcp_tools *tools);

/* It is over, or nothing was served yet. */
void kw_tcp_peer_free(struct kw_tcp_peer *peer);

static inline bool kw_tcp_peer_over(const struct kw_tcp_peer *peer)
{
	return !kw_wire_is_open(&peer->wire);
}

/*
 * Take the requests that are there (readable), send the replies that fit: one system call each, so
 * that every peer has its turn. The connection can be over afterwards.
 */
void kw_tcp_peer_turn(struct kw_tcp_peer *peer, const struct kw_memory *memory, bool readable);

/* What epoll must watch for: room for replies only while some wait. */
uint32_t kw_tcp_peer_events(const struct kw_tcp_peer *peer);

/* Close the socket, after a farewell with this status if one fits; KW_FRAME_OK: without. */
void kw_tcp_peer_end(struct kw_tcp_peer *peer, enum kw_frame_status status);

/* The connection broke: errnum 0 says that the agent closed it. */
void kw_tcp_peer_lost(struct kw_tcp_peer *peer, int errnum);

#endif
