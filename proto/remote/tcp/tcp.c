/*
 * tcp and tcp+tls, the agent's end: READ requests out, replies in, in order.
 *
 * A reply is a header and exactly the bytes that were asked for, or the connection is over
 * (frame.h). So headers and payloads of several READs are received by one call, the payloads
 * straight into the buffers of their READs.
 *
 * If compression was agreed on, only the header of a reply tells whether it comes in blocks. Then
 * one call receives no further than the header of the next READ that is long enough for that:
 *
 *   ┌─────────┐ header: in blocks ┌────────┐
 *   │ SCATTER │──────────────────▶│ BLOCKS │ decompress.h says where the next bytes go
 *   └─────────┘◀──────────────────└────────┘
 *                 the last block
 */
#include "base/buffer.h"
#include "remote/carrier.h"
#include "remote/stream_end.h"
#include "remote/tcp/decompress.h"
#include "remote/tcp/dial.h"
#include "remote/tcp/resume.h"
#include "remote/tcp/wire_tls.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SCATTER 8                      /* READs received by one call */
#define TURN_BYTES (UINT64_C(8) << 20) /* received before others on the loop get their turn */
#define HEADER sizeof(struct kw_frame_reply)

enum tcp_receiving {
	SCATTER_REPLIES,
	TAKE_BLOCKS, /* of the reply to the head of flight */
};

struct tcp {
	struct kw_tcp_dial dial; /* first: its poll callback finds it through remote->own */
	struct kw_stream_end end;
	struct kw_buffer out; /* frames not yet sent: at most depth READs and one report */
	struct kw_frame_reply headers[SCATTER];
	uint64_t got; /* bytes of the reply to the head of flight, header included; not of blocks */
	enum tcp_receiving receiving;
	struct kw_decompressor *decompressor; /* NULL: compression was not agreed on */
	uint64_t yielded;                     /* bytes of blocks that this turn put together */
};

static_assert(offsetof(struct tcp, dial) == 0, "dial.c goes by it");

static void on_connected(
	struct kw_remote *remote, int fd, uv_poll_t *poll, const struct kw_channel *channel)
{
	struct tcp *tcp = remote->own;

	struct kw_wire wire = kw_wire_plain(fd);
	struct kw_error error;

	if (remote->address.carrier != KW_CARRIER_TLS ||
		kw_wire_tls(&wire, fd, remote->tls, remote->address.host, kw_tls_resume(remote),
			&error) == 0) {
		kw_stream_end_connected(&tcp->end, remote, wire, poll, channel);
		return;
	}
	kw_remote_shut(remote, (uv_handle_t *)poll, true);
	close(fd);
	kw_remote_fail(remote, &error);
}

static void on_dropped(struct kw_remote *remote)
{
	struct tcp *tcp = remote->own;

	kw_stream_end_drop(&tcp->end, remote);
}

/* This address of the name leads to no proxy. */
static void failed(struct kw_remote *remote, const struct kw_error *why)
{
	struct tcp *tcp = remote->own;

	kw_tcp_dial_failed(&tcp->dial, why);
}

static int opened(struct kw_stream_end *end, struct kw_channel *channel, struct kw_error *error)
{
	return end->wire.tls ? kw_wire_tls_bind(&end->wire, channel, error) : 0;
}

/* ---- sending ---- */

static void flush(struct kw_remote *remote)
{
	struct tcp *tcp = remote->own;

	for (;;) {
		size_t length = kw_buffer_length(&tcp->out);
		ssize_t sent;

		if (length == 0 && remote->reporting == KW_REPORT_DUE) {
			struct kw_frame_report frame;

			kw_frame_encode_report(&frame, &remote->report);
			kw_buffer_append(&tcp->out, &frame, sizeof frame);
			kw_remote_report_taken(remote);
			continue;
		}
		if (length == 0)
			break;
		sent = kw_wire_send_bytes(&tcp->end.wire, kw_buffer_bytes(&tcp->out), length);
		if (sent < 0 && errno != EAGAIN && errno != EINTR) {
			/* A farewell can come before the end: reading finds both. */
			kw_buffer_clear(&tcp->out);
			remote->reporting = KW_REPORT_SENT;
			break;
		}
		if (sent < 0) {
			kw_stream_end_watch(&tcp->end, UV_READABLE | UV_WRITABLE);
			return;
		}
		kw_buffer_consume(&tcp->out, (size_t)sent);
	}
	kw_stream_end_watch(&tcp->end, UV_READABLE);
}

static void post_tcp(struct kw_remote *remote, struct kw_remote_read *first)
{
	struct tcp *tcp = remote->own;

	for (const struct kw_remote_read *read = first; read; read = read->next) {
		struct kw_frame_read frame;

		kw_frame_encode_read(&frame, read->id, read->offset, read->length);
		kw_buffer_append(&tcp->out, &frame, sizeof frame);
	}
	flush(remote);
}

/* ---- receiving ---- */

static void add_part(struct iovec *parts, int *count, void *base, uint64_t length)
{
	if (length > 0)
		parts[(*count)++] = (struct iovec){base, length};
}

/* May the reply to this READ come in blocks? */
static bool may_be_packed(const struct tcp *tcp, const struct kw_remote_read *read)
{
	return tcp->decompressor && read->length >= KW_BLOCKS_LEAST;
}

static int gather_block(struct tcp *tcp, struct iovec *part)
{
	size_t room;
	uint8_t *to = kw_decompressor_room(tcp->decompressor, &room);

	*part = (struct iovec){to, room};
	return 1;
}

/* Where the next bytes of the stream belong: headers and buffers in turn. */
static int gather(struct tcp *tcp, const struct kw_remote *remote, struct iovec *parts)
{
	const struct kw_remote_read *read = remote->flight.head;
	uint64_t skip = tcp->got;
	int count = 0;

	if (tcp->receiving == TAKE_BLOCKS)
		return gather_block(tcp, parts);
	/* With nothing asked for, only a farewell can come. */
	if (!read)
		add_part(parts, &count, (uint8_t *)&tcp->headers[0] + skip, HEADER - skip);
	for (int i = 0; i < SCATTER && read; i++, read = read->next, skip = 0) {
		uint64_t paid = skip > HEADER ? skip - HEADER : 0;

		if (skip < HEADER)
			add_part(parts, &count, (uint8_t *)&tcp->headers[i] + skip, HEADER - skip);
		if (skip < HEADER && may_be_packed(tcp, read))
			break;
		add_part(parts, &count, read->buffer + paid, read->length - paid);
	}
	return count;
}

/* A header is whole: is it the reply that is due? */
static bool header_fits(struct kw_remote *remote, const struct kw_frame_reply *header)
{
	struct tcp *tcp = remote->own;
	const struct kw_remote_read *read = remote->flight.head;
	struct kw_frame_due due = {0};
	struct kw_error error;

	if (read)
		due = (struct kw_frame_due){read->id, read->length, tcp->decompressor != NULL};
	if (kw_frame_check_reply(header, &due, &error) == 0) {
		if (read && header->encoding == KW_FRAME_BLOCKS) {
			kw_decompressor_begin(tcp->decompressor, read->buffer, read->length);
			tcp->receiving = TAKE_BLOCKS;
		}
		if (read)
			return true;
		kw_error_set(&error, KW_E_PROTOCOL, "the proxy answered a READ nobody sent");
	}
	kw_remote_fail(remote, &error);
	return false;
}

/* `length` bytes of a block came. As account. */
static bool account_block(struct kw_remote *remote, size_t length)
{
	struct tcp *tcp = remote->own;
	const uint64_t before = kw_decompressor_left(tcp->decompressor);
	struct kw_error error;

	if (kw_decompressor_came(tcp->decompressor, length, &error) != 0) {
		kw_remote_fail(remote, &error);
		return false;
	}
	tcp->yielded += before - kw_decompressor_left(tcp->decompressor);
	if (kw_decompressor_left(tcp->decompressor) > 0)
		return true;
	tcp->receiving = SCATTER_REPLIES;
	tcp->got = 0;
	kw_remote_complete(remote);
	return kw_remote_is(remote, KW_REMOTE_READY);
}

/*
 * `length` bytes were scattered: tell back the READs that are whole. Callbacks may add READs after
 * those in flight, which does not touch the ones received here. false: the connection is over.
 */
static bool account(struct kw_remote *remote, uint64_t length)
{
	struct tcp *tcp = remote->own;
	int index = 0; /* of the header of the head of flight; each turn but the last moves it on */

	if (tcp->receiving == TAKE_BLOCKS)
		return account_block(remote, (size_t)length);
	while (length > 0) {
		const struct kw_remote_read *read = remote->flight.head;
		uint64_t whole = HEADER + (read ? read->length : 0);
		uint64_t take = whole - tcp->got;
		bool had_header = tcp->got >= HEADER;

		if (take > length)
			take = length;
		tcp->got += take;
		length -= take;
		assert(tcp->got <= whole);
		if (!had_header && tcp->got >= HEADER && !header_fits(remote, &tcp->headers[index]))
			return false;
		if (tcp->got < whole)
			break;
		tcp->got = 0;
		index++;
		kw_remote_complete(remote);
		if (!kw_remote_is(remote, KW_REMOTE_READY))
			return false;
	}
	/* A header cut in two goes on at the front. */
	if (index > 0 && index < SCATTER)
		tcp->headers[0] = tcp->headers[index];
	return true;
}

static uint64_t parts_length(const struct iovec *parts, int count)
{
	uint64_t length = 0;

	for (int i = 0; i < count; i++)
		length += parts[i].iov_len;
	return length;
}

static void receive(struct kw_remote *remote)
{
	struct tcp *tcp = remote->own;
	uint64_t total = 0;

	remote->corked = true;
	tcp->yielded = 0;
	while (total + tcp->yielded < TURN_BYTES) {
		struct iovec parts[2 * SCATTER];
		struct msghdr message = {.msg_iov = parts};
		ssize_t got;

		message.msg_iovlen = (size_t)gather(tcp, remote, parts);
		got = kw_wire_receive(&tcp->end.wire, &message);
		if (got < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (got <= 0) {
			kw_stream_end_lost(&tcp->end, remote, got < 0 ? errno : 0);
			return;
		}
		total += (uint64_t)got;
		remote->received += (uint64_t)got;
		kw_remote_progressed(remote);
		if (!account(remote, (uint64_t)got))
			return;
		/* It had less than there was room for: the socket is empty now. */
		if ((uint64_t)got < parts_length(parts, (int)message.msg_iovlen) &&
			!kw_wire_pending(&tcp->end.wire))
			break;
		if (!remote->flight.head && !kw_wire_pending(&tcp->end.wire))
			break;
	}
	remote->corked = false;
	if (kw_wire_pending(&tcp->end.wire))
		kw_remote_turn_soon(remote);
	kw_remote_pump(remote);
}

static void turn_tcp(struct kw_remote *remote)
{
	struct tcp *tcp = remote->own;

	if (kw_remote_is(remote, KW_REMOTE_CONNECTING))
		kw_tcp_dial_turn(&tcp->dial);
	else if (kw_remote_is(remote, KW_REMOTE_READY) && kw_wire_pending(&tcp->end.wire))
		receive(remote);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
	struct kw_remote *remote = poll->data;
	struct tcp *tcp = remote->own;

	kw_stream_end_polled(&tcp->end, remote, status, events);
}

/* ---- beginning and end ---- */

static int welcomed(struct kw_remote *remote, struct kw_error *error)
{
	struct tcp *tcp = remote->own;

	if (tcp->end.exchange.handshake.facts.compression == KW_COMPRESSION_ZSTD) {
		tcp->decompressor = kw_decompressor_new();
		if (!tcp->decompressor)
			return kw_error_set(error, KW_E_IO,
				"there is no memory to take compressed answers apart "
				"(remote.compression)");
	}
	kw_tcp_dial_done(&tcp->dial);
	return 0;
}

static const struct kw_stream_end_ops end_ops = {
	.opened = opened,
	.failed = failed,
	.welcomed = welcomed,
	.readable = receive,
	.writable = flush,
};

static int open_tcp(struct kw_remote *remote, struct kw_error *error)
{
	static const struct kw_tcp_dial_handlers handlers = {on_connected, on_dropped};
	struct tcp *tcp;

	if (remote->address.port == 0)
		return kw_error_set(
			error, KW_E_CONFIG, "%s: port 0 cannot be connected to", remote->info.peer);
	if (remote->address.carrier == KW_CARRIER_TLS && !remote->tls)
		return kw_error_set(error, KW_E_CONFIG,
			"%s: no certificates are loaded for it: set tls.ca", remote->info.peer);
	tcp = kw_zalloc(sizeof *tcp);
	kw_tcp_dial_init(&tcp->dial, remote, &handlers);
	kw_stream_end_init(&tcp->end, &end_ops, on_poll, false);
	remote->own = tcp;
	return 0;
}

static void close_tcp(struct kw_remote *remote)
{
	struct tcp *tcp = remote->own;

	kw_tcp_dial_close(&tcp->dial);
	if (tcp->end.wire.tls)
		kw_tls_remember(remote, kw_wire_tls_channel(&tcp->end.wire));
	kw_stream_end_close(&tcp->end, remote);
}

static void free_tcp(struct kw_remote *remote)
{
	struct tcp *tcp = remote->own;

	kw_buffer_close(&tcp->out);
	kw_decompressor_free(tcp->decompressor);
	free(tcp);
}

const struct kw_carrier_ops kw_carrier_tls = {
	.carrier = KW_CARRIER_TLS,
	.open = open_tcp,
	.post = post_tcp,
	.turn = turn_tcp,
	.report = flush,
	.close = close_tcp,
	.free = free_tcp,
	.end = kw_tls_forget,
};

const struct kw_carrier_ops kw_carrier_tcp = {
	.carrier = KW_CARRIER_TCP,
	.open = open_tcp,
	.post = post_tcp,
	.turn = turn_tcp,
	.report = flush,
	.close = close_tcp,
	.free = free_tcp,
};
