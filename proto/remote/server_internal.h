/* Inside the server: server.c (the whole, listeners, handshakes) and server_sessions.c. */
#ifndef KW_REMOTE_SERVER_INTERNAL_H
#define KW_REMOTE_SERVER_INTERNAL_H

#include "remote/carrier.h"

struct kw_server {
	uv_loop_t *loop;
	struct kw_memory *memory;
	struct kw_server_options options; /* secret: our copy */
	struct kw_server_handlers handlers;
	struct kw_server_stats stats;
	uv_async_t async; /* the serving thread has something to say */
	struct kw_tcp_serve *serve;
	void *kept; /* a device */
	void (*release_kept)(void *device);
	struct kw_listener *listeners; /* in the order of kw_server_listen */
	struct kw_session *sessions;
	uint32_t session_count, greetings;
	uint64_t next_id;
	bool paused, closing, finished;
	void (*done)(void *arg);
	void *done_arg;
};

/* server.c: closing goes on. Sessions point at their listeners, so those stay until the last has
 * left. */
void kw_server_maybe_finish(struct kw_server *server);

/* server_sessions.c: end it, telling the peer `bye` if that is possible; why is for people. */
void kw_session_end(struct kw_session *session, enum kw_frame_status bye, const char *why);

#endif
