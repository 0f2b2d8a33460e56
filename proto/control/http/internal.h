/* What the files of the HTTP server share; not for others. */
#ifndef KW_CONTROL_HTTP_INTERNAL_H
#define KW_CONTROL_HTTP_INTERNAL_H

#include "base/buffer.h"
#include "control/http/address.h"
#include "control/http/guard.h"
#include "control/http/http.h"
#include "control/socket_file.h"

#include <stddef.h>

/* ---- pages.c: pure but for the source ---- */

struct http_request {
	const char *path;
	const char *max_lag_ms; /* of the query; NULL: none */
	bool stranger;          /* who asks has not proved the secret */
	bool names;             /* names of keys may be told */
};

struct http_answer {
	unsigned status;
	const char *type;   /* Content-Type */
	const char *policy; /* Content-Security-Policy; NULL: nothing at all is allowed */
	struct kw_buffer body;
};

/* Does everyone who can connect get an answer there? */
bool http_page_is_open(const char *path);

/* answer: zeroed; the caller closes its body. */
void http_page_answer(const struct kw_http_source *source, const struct http_request *request,
	struct http_answer *answer);

/*
 * One event for the page: all that it shows, on one line of JSON. names: those of keys may be told.
 */
void http_page_event(const struct kw_http_source *source, bool names, struct kw_buffer *event);

/* A refusal of this verdict, which is not one that may ask. */
void http_page_refuse(enum kw_http_verdict verdict, struct http_answer *answer);

/* One more listens than may: 503. */
void http_page_refuse_stream(struct http_answer *answer);

/* ---- made of page/ by the build ---- */

extern const char http_page_html[];
extern const size_t http_page_length;
extern const char http_page_policy[]; /* Content-Security-Policy: its own script and style alone */

/* ---- socket.c ---- */

/* The descriptor; below 0: minus an enum kw_code. *identity is that of a unix socket's file. */
int http_socket_listen(const struct kw_http_address *address, const char *text,
	struct stat *identity, struct kw_error *error);

/* ---- connections.c: those that are open, the oldest first ---- */

struct http_connection {
	struct http_connection *next, *before;
	int fd;
	uint64_t since_us;
	enum {
		HTTP_ASKS,
		HTTP_LISTENS, /* to a stream: it has no limit of time, and never gives way */
		HTTP_ENDED,   /* shut down: libmicrohttpd closes it when it sees that */
	} state;
};

struct http_connections {
	struct http_connection *oldest, *newest;
	int count; /* of those that ask */
};

#define HTTP_NEVER UINT64_MAX

/* One more. Too many: the oldest is shut down. */
struct http_connection *http_connections_add(
	struct http_connections *connections, int fd, uint64_t now_us);
void http_connections_remove(
	struct http_connections *connections, struct http_connection *connection);

/* From now on it listens to a stream. */
void http_connections_listen(
	struct http_connections *connections, struct http_connection *connection);

/* Shut down those that have had their time. How long until the next has; HTTP_NEVER: none. */
uint64_t http_connections_sweep(struct http_connections *connections, uint64_t now_us);

/* ---- streams.c: those who listen to /events ---- */

struct MHD_Connection;
struct MHD_Response;

struct http_streams {
	struct http_stream *first;
	int count;
	uint64_t sent_us, next_us; /* the last event was made, the next one is due */
};

#define HTTP_EVENT_STREAM "text/event-stream"

/*
 * The endless answer to a connection, with its first event. The caller queues and destroys it.
 * NULL: KW_HTTP_STREAMS_MAX listen, or there is no memory.
 */
struct MHD_Response *http_streams_add(struct http_streams *streams, struct MHD_Connection *mhd,
	int fd, const struct kw_buffer *event);

/* An event is due. Those who have taken the last one get this one; the slow are let go. */
bool http_streams_are_due(const struct http_streams *streams, uint64_t now_us);
void http_streams_send(
	struct http_streams *streams, const struct kw_buffer *event, uint64_t now_us);

/* The next event is due as soon as it may be. */
void http_streams_hurry(struct http_streams *streams);

/* How long until the next event; HTTP_NEVER: nobody listens. */
uint64_t http_streams_wait(const struct http_streams *streams, uint64_t now_us);

/* No more events: libmicrohttpd ends them in its next turn. */
void http_streams_end(struct http_streams *streams);

#endif
