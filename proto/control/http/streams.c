/*
 * A stream is an answer without an end. libmicrohttpd asks for its bytes. While there are none the
 * stream is suspended, so that nothing is polled in vain. Then libmicrohttpd does not see that the
 * client has gone: the next event finds that out.
 *
 *   ┌─────────┐  all is taken   ┌─────────┐
 *   │ SENDING │────────────────▶│ WAITING │  suspended
 *   └─────────┘◀────────────────└─────────┘
 *        │         next event        │
 *        │ slow, or the end of all   │ the end of all
 *        └────────────▶ ENDING ◀─────┘
 */
#include "control/http/internal.h"

#include "base/clock.h"

#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define BLOCK 16384
#define INTERVAL_US (UINT64_C(1000) * KW_HTTP_EVENT_MS)
#define LEAST_US (UINT64_C(1000) * KW_HTTP_EVENT_LEAST_MS)
#define SLOW_US (UINT64_C(1000) * KW_HTTP_SLOW_MS)

struct http_stream {
	struct http_stream *next, *before;
	struct http_streams *streams;
	struct MHD_Connection *mhd;
	int fd;
	struct kw_buffer event; /* what is left of it */
	uint64_t since_us;      /* the event came */
	enum { SENDING, WAITING, ENDING } state;
};

static void put_event(struct http_stream *stream, const struct kw_buffer *event, uint64_t now_us)
{
	kw_buffer_append(&stream->event, kw_buffer_bytes(event), kw_buffer_length(event));
	stream->since_us = now_us;
	stream->state = SENDING;
}

/* MHD_ContentReaderCallback */
static ssize_t read_stream(void *arg, uint64_t position, char *to, size_t room)
{
	struct http_stream *stream = arg;
	size_t length = kw_buffer_length(&stream->event);

	if (stream->state == ENDING)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (length == 0) {
		stream->state = WAITING;
		kw_buffer_close(&stream->event);
		MHD_suspend_connection(stream->mhd);
		return 0;
	}
	length = length < room ? length : room;
	memcpy(to, kw_buffer_bytes(&stream->event), length);
	kw_buffer_consume(&stream->event, length);
	return (ssize_t)length;
}

/* MHD_ContentReaderFreeCallback: the connection has ended. */
static void free_stream(void *arg)
{
	struct http_stream *stream = arg;

	if (stream->before)
		stream->before->next = stream->next;
	else
		stream->streams->first = stream->next;
	if (stream->next)
		stream->next->before = stream->before;
	stream->streams->count--;
	kw_buffer_close(&stream->event);
	free(stream);
}

struct MHD_Response *http_streams_add(struct http_streams *streams, struct MHD_Connection *mhd,
	int fd, const struct kw_buffer *event)
{
	uint64_t now_us = kw_clock_us();
	struct MHD_Response *response;
	struct http_stream *stream;

	if (streams->count >= KW_HTTP_STREAMS_MAX)
		return NULL;
	stream = kw_zalloc(sizeof *stream);
	response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK, read_stream, stream, free_stream);
	if (!response) {
		free(stream);
		return NULL;
	}
	stream->streams = streams;
	stream->mhd = mhd;
	stream->fd = fd;
	stream->next = streams->first;
	if (stream->next)
		stream->next->before = stream;
	streams->first = stream;
	if (streams->count++ == 0) {
		streams->sent_us = now_us;
		streams->next_us = now_us + INTERVAL_US;
	}
	put_event(stream, event, now_us);
	return response;
}

bool http_streams_are_due(const struct http_streams *streams, uint64_t now_us)
{
	return streams->count > 0 && now_us >= streams->next_us;
}

static void end(struct http_stream *stream)
{
	bool waits = stream->state == WAITING;

	stream->state = ENDING;
	if (waits)
		MHD_resume_connection(stream->mhd);
}

static void send_event(struct http_stream *stream, const struct kw_buffer *event, uint64_t now_us)
{
	if (stream->state == WAITING) {
		put_event(stream, event, now_us);
		MHD_resume_connection(stream->mhd);
	} else if (stream->state == SENDING && now_us - stream->since_us >= SLOW_US) {
		end(stream);
		/* What it did not take stands in the way of an end in good order. */
		(void)shutdown(stream->fd, SHUT_RDWR);
	}
}

void http_streams_send(struct http_streams *streams, const struct kw_buffer *event, uint64_t now_us)
{
	streams->sent_us = now_us;
	streams->next_us = now_us + INTERVAL_US;
	for (struct http_stream *s = streams->first; s; s = s->next)
		send_event(s, event, now_us);
}

void http_streams_hurry(struct http_streams *streams)
{
	uint64_t soonest_us = streams->sent_us + LEAST_US;

	if (soonest_us < streams->next_us)
		streams->next_us = soonest_us;
}

uint64_t http_streams_wait(const struct http_streams *streams, uint64_t now_us)
{
	if (streams->count == 0)
		return HTTP_NEVER;
	return streams->next_us > now_us ? streams->next_us - now_us : 0;
}

void http_streams_end(struct http_streams *streams)
{
	for (struct http_stream *s = streams->first; s; s = s->next)
		end(s);
}
