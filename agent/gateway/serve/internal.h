/* Inside the server: its clients and pools. */
#ifndef KW_AGENT_GATEWAY_SERVE_INTERNAL_H
#define KW_AGENT_GATEWAY_SERVE_INTERNAL_H

#include "client.h"
#include "frontend.h"
#include "handshake.h"
#include "socket.h"

#include "gateway/forward/barrier.h"
#include "gateway/forward/horizon.h"

#include <stddef.h>

/* What a client has while it is not idle. */
struct kw_work {
	struct kw_work *next; /* in the pool */
	struct kw_buffer input, output;
	size_t begun;           /* bytes of the input whose requests were begun */
	struct kw_slice *words; /* of the requests that were begun */
	uint32_t words_count, words_capacity;
};

/* Is there more to begin in the input? */
enum kw_client_more {
	KW_MORE_NONE,    /* no: the rest of a request must come */
	KW_MORE_WAITING, /* yes, once there is room */
	KW_MORE_ENDED,   /* nothing more is taken of this client */
};

struct kw_client {
	struct kw_frontend *server;
	const struct kw_protocol *protocol;
	struct kw_client *next, *before;   /* of all clients */
	struct kw_client *next_touched;    /* of those that the end of the turn looks at */
	struct kw_client *elder, *younger; /* among strangers */
	bool strange;                      /* it could log in, and has not */
	bool touched;
	uv_poll_t poll;
	struct kw_socket socket;
	int events;
	struct kw_sm sm; /* enum kw_client_state */
	enum kw_client_more more;
	enum kw_closed_for leaves_for; /* LEAVING, CLOSED */
	struct kw_work *work;          /* NULL: idle */
	struct kw_part *first, *last;  /* under way, in order */
	uint32_t parts;
	struct kw_part *replying; /* kw_client_reply has handed out its buffer */
	size_t largest;           /* reply of late: how many can be begun at once */
	size_t kept;              /* bytes of replies that ended before their turn */
	size_t held;              /* input, output and kept: its share of stats.held */
	uint64_t stalled_us;      /* WRITING, LEAVING: when the socket last took something */
	uint64_t active_ms;       /* by the loop: when bytes last came or went */
	uint64_t gone_ms;         /* by the loop: when its end was closed; 0: it is open */
	bool handle_closed;
	max_align_t own[];
};

struct kw_strangers {
	struct kw_client *oldest, *newest;
};

struct kw_listener {
	struct kw_listener *next;
	struct kw_frontend *server;
	const struct kw_protocol *protocol;
	uv_poll_t poll;
	int fd;
	bool tls;       /* its clients speak it */
	char path[108]; /* of a unix socket: removed at the end */
};

struct kw_frontend {
	struct kw_frontend_options options;
	struct kw_frontend_stats stats;
	uint64_t started_us;
	struct kw_listener *listeners;
	struct kw_client *clients;
	struct kw_client *touched;
	struct kw_handshakes handshakes;
	struct kw_strangers strangers;
	uint32_t begun; /* parts under way, of all clients */
	struct kw_part *spare_parts;
	struct kw_work *spare_works;
	uint32_t spare_parts_count, spare_works_count;
	uv_check_t check;     /* after the poll: what was asked is posted */
	uv_prepare_t prepare; /* before it: what was answered is written */
	uv_idle_t awake; /* active while clients are touched: the loop does not sleep before it */
	uv_timer_t tick;
	struct kw_horizon horizon;   /* onward.c */
	struct kw_barriers barriers; /* that clients wait for */
	struct kw_buffer request;    /* one that is being forwarded */
	struct kw_session_host sessions;
	char server_version[16];  /* that sessions are told; "": not known */
	struct kw_buffer scratch; /* a session's reply, until it is known to be one */
	bool starved;             /* no descriptor was left: listeners rest until the next tick */
	uint64_t starved_said_ms, shed_said_ms; /* when the log was told; 0: not yet */
	bool closing;
	int open; /* handles, and clients */
	void (*done)(void *arg);
	void *done_arg;
};

/* ---- frontend.c ---- */

struct kw_part *kw_frontend_take_part(struct kw_frontend *server);
void kw_frontend_give_part(struct kw_frontend *server, struct kw_part *part);
struct kw_work *kw_frontend_take_work(struct kw_frontend *server);
void kw_frontend_give_work(struct kw_frontend *server, struct kw_work *work);

/* Look at the client at the end of this turn. */
void kw_frontend_touch(struct kw_frontend *server, struct kw_client *client);

/* May the log be told of this again? *said_ms is when it was told last. */
bool kw_frontend_may_say(const struct kw_frontend *server, uint64_t *said_ms);
void kw_frontend_part_closed(struct kw_frontend *server);

/* ---- sessions.c ---- */

void kw_frontend_sessions_init(struct kw_frontend *server);
void kw_frontend_sessions_close(struct kw_frontend *server);

/* ---- listen.c ---- */

void kw_frontend_watch_listeners(struct kw_frontend *server);
void kw_frontend_close_listeners(struct kw_frontend *server);

/* ---- strangers.c ---- */

/* Memory is short: does this one go, rather than the other? */
bool kw_client_goes_before(const struct kw_client *client, const struct kw_client *other);

/* ---- onward.c ---- */

/* A turn of the loop: a look may have come, or a deadline. */
void kw_onward_turn(struct kw_frontend *server);
/* All barriers end. */
void kw_onward_close(struct kw_frontend *server);

/* ---- client.c ---- */

/*
 * A connection that can speak now: a client, or one too many. That takes the place of the oldest
 * stranger; if there is none, it is told so and closed. The socket is taken over.
 */
void kw_client_let_in(struct kw_frontend *server, const struct kw_protocol *protocol,
	const struct kw_socket *socket);

/* The end of a turn: write, begin what waits, read on. */
void kw_client_turn(struct kw_client *client);

/* Close it if it has taken too little for too long, or is idle, or nobody waits for its parts. */
void kw_client_tick(struct kw_client *client, uint64_t now_us);

/* At once; its parts end later. Harmless when closed. */
void kw_client_close(struct kw_client *client, enum kw_closed_for why);

#endif
