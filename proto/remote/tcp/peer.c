#include "remote/tcp/peer.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "remote/racy.h"
#include "remote/tcp/wire_tls.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define HEADER sizeof(struct kw_frame_reply)

static_assert(KW_SERVE_INPUT > KW_FRAME_MAX, "a frame cut in two leaves room for its rest");

struct kw_tcp_peer *kw_tcp_peer_new(
	struct kw_wire wire, const struct kw_tcp_client *client, const struct kw_tcp_tools *tools)
{
	struct kw_tcp_peer *peer = kw_zalloc(sizeof *peer + client->depth * sizeof peer->ring[0]);

	assert(kw_wire_is_open(&wire));
	peer->shown.owner = client->owner;
	peer->wire = wire;
	peer->shown.tls = kw_wire_tls_cipherer(&wire);
	if (wire.tls)
		peer->shown.resumed = kw_tls_channel_resumed(kw_wire_tls_channel(&wire));
	peer->events = EPOLLIN;
	peer->depth = client->depth;
	if (client->scope)
		peer->scoped = kw_scoped_new(client->scope, tools->redact);
	/* Without memory for it the answers are plain: each says so itself. */
	if (client->compression > 0 && tools->compressor)
		peer->packed = kw_packed_new(tools->compressor, client->compression);
	return peer;
}

void kw_tcp_peer_free(struct kw_tcp_peer *peer)
{
	kw_scoped_free(peer->scoped);
	kw_packed_free(peer->packed);
	free(peer);
}

/* ---- the end ---- */

static void send_farewell(struct kw_tcp_peer *peer, enum kw_frame_status status)
{
	struct kw_frame_reply reply;

	/* In the middle of a reply the agent would take it for the reply's bytes. */
	if (peer->sent > 0)
		return;
	kw_frame_encode_reply(&reply, status, 0, 0);
	kw_wire_farewell(&peer->wire, &reply, sizeof reply);
}

void kw_tcp_peer_end(struct kw_tcp_peer *peer, enum kw_frame_status status)
{
	assert(!kw_tcp_peer_over(peer));
	peer->shown.ended_by = status;
	if (status != KW_FRAME_OK)
		send_farewell(peer, status);
	kw_wire_close(&peer->wire); /* which takes it out of epoll */
}

void kw_tcp_peer_lost(struct kw_tcp_peer *peer, int errnum)
{
	if (errnum == 0)
		kw_error_set(&peer->shown.why, KW_E_IO, "the agent closed the connection");
	else
		kw_wire_explain(&peer->wire, errnum, "connection lost", &peer->shown.why);
	kw_tcp_peer_end(peer, KW_FRAME_OK);
}

/* ---- requests ---- */

static void note_report(struct kw_tcp_peer *peer, const struct kw_remote_progress *progress)
{
	struct kw_tcp_conn_shared *shared = &peer->shown.shared;
	uint64_t words[2] = {0};

	static_assert(sizeof progress->state <= sizeof words, "");
	memcpy(words, progress->state, sizeof progress->state);
	if (atomic_load_explicit(&shared->heard_us, memory_order_relaxed) == 0 ||
		words[0] != atomic_load_explicit(&shared->state[0], memory_order_relaxed) ||
		words[1] != atomic_load_explicit(&shared->state[1], memory_order_relaxed))
		atomic_store_explicit(&shared->state_us, kw_wall_us(), memory_order_relaxed);
	atomic_store_explicit(&shared->ticket, progress->ticket, memory_order_relaxed);
	atomic_store_explicit(&shared->passed, progress->passed, memory_order_relaxed);
	atomic_store_explicit(&shared->applied, progress->applied, memory_order_relaxed);
	atomic_store_explicit(&shared->lag_us, progress->lag_us, memory_order_relaxed);
	atomic_store_explicit(&shared->state[0], words[0], memory_order_relaxed);
	atomic_store_explicit(&shared->state[1], words[1], memory_order_relaxed);
	atomic_store_explicit(&shared->heard_us, kw_clock_us(), memory_order_release);
}

static enum kw_frame_status enqueue(struct kw_tcp_peer *peer, const struct kw_frame *frame)
{
	peer->ring[(peer->first + peer->count) % peer->depth] = (struct kw_tcp_request){
		.id = frame->id,
		.offset = frame->offset,
		.length = frame->length,
		.packed = peer->packed && kw_packed_takes(peer->packed, frame->length),
	};
	peer->count++;
	assert(peer->count <= peer->depth);
	return KW_FRAME_OK;
}

static enum kw_frame_status take_request(
	struct kw_tcp_peer *peer, const struct kw_memory *memory, const struct kw_frame *frame)
{
	struct kw_error *why = &peer->shown.why;

	if (frame->op == KW_FRAME_REPORT) {
		note_report(peer, &frame->progress);
		return KW_FRAME_OK;
	}
	if (frame->op != KW_FRAME_READ) {
		kw_error_set(why, KW_E_PROTOCOL, "it sent a wish to sleep, and tcp has none");
		return KW_FRAME_BAD;
	}
	if (peer->count == peer->depth) {
		kw_error_set(why, KW_E_PROTOCOL,
			"it had more than the negotiated %" PRIu32 " READs in flight", peer->depth);
		return KW_FRAME_DEPTH;
	}
	if (peer->scoped && kw_scoped_takes(peer->scoped, frame))
		return enqueue(peer, frame);
	if (peer->scoped && !kw_scoped_told(peer->scoped)) {
		kw_error_set(why, KW_E_PROTOCOL, "it %s", kw_frame_status_text(KW_FRAME_SCOPE));
		return KW_FRAME_SCOPE;
	}
	/* Extents only grow, so what holds now holds when the reply is sent. */
	if (!kw_memory_covers(memory, frame->offset, frame->length)) {
		kw_error_set(why, KW_E_PROTOCOL,
			"it asked for %" PRIu64 " bytes at %" PRIu64 ", outside of the table",
			frame->length, frame->offset);
		return KW_FRAME_BOUNDS;
	}
	return enqueue(peer, frame);
}

static enum kw_frame_status take_frames(struct kw_tcp_peer *peer, const struct kw_memory *memory)
{
	size_t at = 0;

	for (;;) {
		struct kw_frame frame;
		enum kw_frame_status status;
		struct kw_error error;
		size_t taken;

		if (kw_frame_take(peer->input + at, peer->input_length - at, &taken, &frame,
			    &error) != 0) {
			kw_error_set(&peer->shown.why, KW_E_PROTOCOL, "it sent %s", error.text);
			return KW_FRAME_BAD;
		}
		if (taken == 0)
			break;
		at += taken;
		status = take_request(peer, memory, &frame);
		if (status != KW_FRAME_OK)
			return status;
	}
	assert(at <= peer->input_length);
	peer->input_length -= at;
	memmove(peer->input, peer->input + at, peer->input_length);
	return KW_FRAME_OK;
}

static void receive(struct kw_tcp_peer *peer, const struct kw_memory *memory)
{
	/* A frame is much smaller than the buffer, so there is always room. */
	ssize_t got = kw_wire_receive_bytes(&peer->wire, peer->input + peer->input_length,
		sizeof peer->input - peer->input_length);
	enum kw_frame_status status;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		kw_tcp_peer_lost(peer, got < 0 ? errno : 0);
		return;
	}
	peer->input_length += (size_t)got;
	assert(peer->input_length <= sizeof peer->input);
	status = take_frames(peer, memory);
	if (status != KW_FRAME_OK)
		kw_tcp_peer_end(peer, status);
}

/* ---- replies ---- */

/* Plain replies, up to the first in blocks. */
static int gather(const struct kw_tcp_peer *peer, const struct kw_memory *memory,
	struct kw_frame_reply *headers, struct iovec *parts)
{
	uint64_t skip = peer->sent, total = 0;
	int count = 0;

	for (uint32_t i = 0; i < peer->count && i < KW_SERVE_BATCH; i++, skip = 0) {
		const struct kw_tcp_request *request = &peer->ring[(peer->first + i) % peer->depth];
		uint64_t paid = skip > HEADER ? skip - HEADER : 0;
		uint64_t length = request->length - paid;

		assert(paid < request->length);
		if (total >= KW_SERVE_TURN_BYTES || request->packed)
			break;
		if (length > KW_SERVE_TURN_BYTES - total)
			length = KW_SERVE_TURN_BYTES - total;
		kw_frame_encode_reply(&headers[i], KW_FRAME_OK, request->id, request->length);
		if (skip < HEADER)
			parts[count++] =
				(struct iovec){(uint8_t *)&headers[i] + skip, HEADER - skip};
		parts[count++] = (struct iovec){memory->base + request->offset + paid, length};
		total += length;
	}
	return count;
}

/* The same for a peer with a scope: of the first request, what its stage holds. */
static int gather_scoped(
	const struct kw_tcp_peer *peer, struct kw_frame_reply *header, struct iovec *parts)
{
	const struct kw_tcp_request *request = &peer->ring[peer->first];
	uint64_t paid = peer->sent > HEADER ? peer->sent - HEADER : 0;
	struct kw_slice piece;
	int count = 0;

	piece = kw_scoped_piece(peer->scoped, request->offset + paid, request->length - paid);
	kw_frame_encode_reply(header, KW_FRAME_OK, request->id, request->length);
	if (peer->sent < HEADER)
		parts[count++] =
			(struct iovec){(uint8_t *)header + peer->sent, HEADER - peer->sent};
	parts[count++] = (struct iovec){(void *)(uintptr_t)piece.data, piece.length};
	return count;
}

/* Bytes of a READ as this peer may see them; as far as one block goes. */
static void copy(struct kw_tcp_peer *peer, const struct kw_memory *memory, uint64_t offset,
	uint8_t *to, size_t length)
{
	if (!peer->scoped) {
		kw_racy_copy(to, memory->base + offset, length);
		return;
	}
	while (length > 0) {
		struct kw_slice piece = kw_scoped_piece(peer->scoped, offset, length);

		memcpy(to, piece.data, piece.length);
		kw_scoped_sent(peer->scoped, piece.length);
		to += piece.length;
		offset += piece.length;
		length -= piece.length;
	}
}

/* Of a reply in blocks: the header, and the one block that its stage holds. */
static int gather_packed(struct kw_tcp_peer *peer, const struct kw_memory *memory,
	struct kw_frame_reply *header, struct iovec *parts)
{
	const struct kw_tcp_request *request = &peer->ring[peer->first];
	struct kw_packed *packed = peer->packed;
	struct kw_slice piece = kw_packed_piece(packed, request->length);
	int count = 0;

	if (piece.length == 0) {
		copy(peer, memory, request->offset + packed->done,
			kw_compressor_source(packed->compressor), kw_packed_wants(packed));
		kw_packed_fill(packed);
		piece = kw_packed_piece(packed, request->length);
	}
	kw_frame_encode_reply(header, KW_FRAME_OK, request->id, request->length);
	header->encoding = KW_FRAME_BLOCKS;
	if (peer->sent < HEADER)
		parts[count++] =
			(struct iovec){(uint8_t *)header + peer->sent, HEADER - peer->sent};
	parts[count++] = (struct iovec){(void *)(uintptr_t)piece.data, piece.length};
	return count;
}

/* The first request is answered. */
static void answered(struct kw_tcp_peer *peer)
{
	struct kw_tcp_conn_shared *shared = &peer->shown.shared;
	uint64_t length = peer->ring[peer->first].length;

	peer->first = (peer->first + 1) % peer->depth;
	peer->count--;
	atomic_fetch_add_explicit(&shared->reads, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&shared->bytes, length, memory_order_relaxed);
}

/* `sent` stands at HEADER until all blocks are out. */
static void account_packed(struct kw_tcp_peer *peer, uint64_t sent)
{
	uint64_t header = HEADER - peer->sent < sent ? HEADER - peer->sent : sent;

	peer->sent += header;
	if (sent == header || !kw_packed_sent(peer->packed, (size_t)(sent - header)))
		return;
	peer->sent = 0;
	answered(peer);
}

static void account(struct kw_tcp_peer *peer, uint64_t sent)
{
	const uint64_t paid = peer->sent > HEADER ? peer->sent : HEADER;

	peer->sent += sent;
	if (peer->scoped && peer->sent > paid)
		kw_scoped_sent(peer->scoped, peer->sent - paid);
	while (peer->count > 0 && peer->sent >= HEADER + peer->ring[peer->first].length) {
		peer->sent -= HEADER + peer->ring[peer->first].length;
		answered(peer);
	}
	assert(peer->count > 0 || peer->sent == 0);
}

static void send_replies(struct kw_tcp_peer *peer, const struct kw_memory *memory)
{
	struct kw_frame_reply headers[KW_SERVE_BATCH];
	struct iovec parts[2 * KW_SERVE_BATCH];
	struct msghdr message = {.msg_iov = parts};
	bool packed;
	ssize_t sent;

	if (peer->count == 0)
		return;
	packed = peer->ring[peer->first].packed;
	message.msg_iovlen = (size_t)(packed         ? gather_packed(peer, memory, headers, parts)
				      : peer->scoped ? gather_scoped(peer, headers, parts)
						     : gather(peer, memory, headers, parts));
	sent = kw_wire_send(&peer->wire, &message);
	if (sent < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (sent < 0) {
		kw_tcp_peer_lost(peer, errno);
		return;
	}
	atomic_fetch_add_explicit(
		&peer->shown.shared.wire_bytes, (uint64_t)sent, memory_order_relaxed);
	if (packed)
		account_packed(peer, (uint64_t)sent);
	else
		account(peer, (uint64_t)sent);
}

void kw_tcp_peer_turn(struct kw_tcp_peer *peer, const struct kw_memory *memory, bool readable)
{
	assert(!kw_tcp_peer_over(peer));
	if (readable)
		receive(peer, memory);
	if (!kw_tcp_peer_over(peer))
		send_replies(peer, memory);
}

uint32_t kw_tcp_peer_events(const struct kw_tcp_peer *peer)
{
	return EPOLLIN | (peer->count > 0 ? (uint32_t)EPOLLOUT : 0);
}
