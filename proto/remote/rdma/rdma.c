/*
 * rdma, the agent's end: one-sided READs out of the proxy's registered memory.
 *
 * A READ of the owner's is cut into pieces, each into a slot of memory that was registered once.
 * Pieces end in order, so the head of remote->flight is always the one whose bytes come next. A
 * chain of pieces is posted by one doorbell, and few of them are signalled: a completion stands for
 * all pieces before it. What is asked for while one poll tells completions is one chain, too, so
 * that many small READs cost one doorbell a turn. But while many bytes come, pieces are posted as
 * slots become free: otherwise the device would rest while we copy.
 *
 * Messages: the handshake; then reports, each answered by an empty reply, one at a time. So a
 * stopped proxy has at most one message of ours to take, and READs go on meanwhile. A proxy also
 * sends a farewell, or another empty reply to see whether we are here.
 */
#include "base/buffer.h"
#include "base/clock.h"
#include "remote/carrier.h"
#include "remote/rdma/dial.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIGNAL_EVERY 8 /* pieces; less often, and slots would stay taken too long */

/* While so many bytes came in one poll, READs are posted before its end. */
#define HELD_BYTES 65536

/* A READ up to this size with another after it ends with that one: one completion, one wake-up. */
#define SMALL_BYTES 4096

struct piece {
	uint64_t offset; /* in the memory file */
	uint32_t length;
	uint32_t at; /* in the READ's buffer; READs are no longer than KW_READ_MAX */
};

static_assert(KW_READ_MAX <= UINT32_MAX, "");

struct rdma {
	struct kw_rdma_dial dial; /* first: its callbacks find it through remote->own */
	struct kw_rdma_end end;
	struct kw_handshake handshake;
	uint64_t reported_us;           /* when the report not yet answered was sent; 0: none is */
	struct kw_remote_read *posting; /* of flight: the first that is not wholly posted */
	uint64_t posted_bytes;          /* of it */
	uint64_t posted, done;          /* pieces, since the beginning */
	uint64_t came;                  /* bytes of the head of flight */
	uint64_t copied;                /* bytes that came since READs were last posted */
	struct piece pieces[KW_RDMA_SLOTS_MAX];
};

static_assert(offsetof(struct rdma, dial) == 0, "dial.c goes by it");

/* ---- pieces ---- */

static const struct kw_extent *find_extent(const struct kw_remote *remote, uint64_t offset)
{
	for (int i = 0; i < remote->extent_count; i++) {
		const struct kw_extent *extent = &remote->extents[i];

		if (offset >= extent->offset && offset - extent->offset < extent->length)
			return extent;
	}
	return NULL;
}

/* The last piece of a READ: is its owner told at once, or with the READ after it? */
static bool tells(const struct kw_remote_read *read)
{
	return read->length > SMALL_BYTES || !read->next;
}

/* The next piece of rdma->posting. An extent is one region, so a piece ends where it does. */
static int cut(struct kw_remote *remote, struct kw_rdma_read *out, struct kw_error *error)
{
	struct rdma *rdma = remote->own;
	struct kw_remote_read *read = rdma->posting;
	uint64_t offset = read->offset + rdma->posted_bytes;
	uint64_t length = read->length - rdma->posted_bytes;
	const struct kw_extent *extent = find_extent(remote, offset);

	assert(rdma->posted_bytes < read->length);
	if (!extent || extent->rkey == 0)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy's directory names no registered memory at %" PRIu64, offset);
	if (length > rdma->end.slot_bytes)
		length = rdma->end.slot_bytes;
	if (length > extent->length - (offset - extent->offset))
		length = extent->length - (offset - extent->offset);
	*out = (struct kw_rdma_read){
		.number = rdma->posted,
		.address = extent->address + (offset - extent->offset),
		.rkey = extent->rkey,
		.length = (uint32_t)length,
	};
	rdma->pieces[rdma->posted % rdma->end.slots] =
		(struct piece){offset, (uint32_t)length, (uint32_t)rdma->posted_bytes};
	rdma->posted++;
	rdma->posted_bytes += length;
	if (rdma->posted_bytes == read->length) {
		out->signalled = tells(read);
		rdma->posting = read->next;
		rdma->posted_bytes = 0;
	}
	if (rdma->posted % SIGNAL_EVERY == 0)
		out->signalled = true;
	return 0;
}

static void pump(struct kw_remote *remote)
{
	struct rdma *rdma = remote->own;
	struct kw_rdma_read reads[KW_RDMA_SLOTS_MAX];
	struct kw_error error;
	int count = 0;

	while (rdma->posting && rdma->posted - rdma->done < rdma->end.slots) {
		if (cut(remote, &reads[count], &error) != 0) {
			kw_remote_fail(remote, &error);
			return;
		}
		count++;
	}
	if (count == 0)
		return;
	assert(rdma->posted - rdma->done <= rdma->end.slots);
	/* Without a signalled last one no completion would ever come. */
	reads[count - 1].signalled = true;
	if (kw_rdma_end_read(&rdma->end, reads, count, &error) != 0)
		kw_remote_fail(remote, &error);
	else if (rdma->dial.options.busy)
		kw_remote_turn_soon(remote);
}

static void post_rdma(struct kw_remote *remote, struct kw_remote_read *first)
{
	struct rdma *rdma = remote->own;

	if (!rdma->posting)
		rdma->posting = first;
	pump(remote);
}

/* Post what was asked for, and held back, while completions were told. */
static void on_told(void *owner)
{
	struct kw_remote *remote = owner;
	struct rdma *rdma = remote->own;

	rdma->copied = 0;
	remote->corked = false;
	if (!kw_remote_is(remote, KW_REMOTE_READY))
		return;
	pump(remote);
	kw_remote_pump(remote);
}

/* Pieces up to `last` are here. */
static void on_read(void *owner, uint64_t last)
{
	struct kw_remote *remote = owner;
	struct rdma *rdma = remote->own;

	assert(last < rdma->posted);
	remote->corked = true;
	while (rdma->done <= last && kw_remote_is(remote, KW_REMOTE_READY)) {
		struct kw_remote_read *read = remote->flight.head;
		const struct piece *piece = &rdma->pieces[rdma->done % rdma->end.slots];

		assert(read && piece->offset == read->offset + piece->at);
		memcpy(read->buffer + piece->at, kw_rdma_end_slot(&rdma->end, rdma->done),
			piece->length);
		rdma->done++;
		rdma->came += piece->length;
		rdma->copied += piece->length;
		assert(rdma->came <= read->length);
		kw_remote_progressed(remote);
		if (rdma->came == read->length) {
			rdma->came = 0;
			kw_remote_complete(remote);
		}
	}
	if (rdma->copied >= HELD_BYTES)
		on_told(remote);
}

/* ---- messages ---- */

static void send_message(struct kw_remote *remote, const void *bytes, size_t length)
{
	struct rdma *rdma = remote->own;
	struct kw_error error;

	if (kw_rdma_end_send(&rdma->end, bytes, (uint32_t)length, &error) != 0)
		kw_remote_fail(remote, &error);
}

static void send_output(struct kw_remote *remote)
{
	struct rdma *rdma = remote->own;
	struct kw_slice output = kw_handshake_output(&rdma->handshake);

	if (output.length == 0)
		return;
	send_message(remote, output.data, output.length);
	kw_handshake_sent(&rdma->handshake, output.length);
}

static void greet(struct kw_remote *remote, const uint8_t *bytes, uint32_t length)
{
	struct rdma *rdma = remote->own;
	struct kw_error error;

	if (kw_handshake_input(&rdma->handshake, bytes, length) != 0) {
		error = rdma->handshake.error;
		kw_error_wrap(&error, "handshake");
		kw_remote_fail(remote, &error);
		return;
	}
	send_output(remote);
	if (kw_remote_is(remote, KW_REMOTE_CONNECTING) &&
		kw_handshake_is(&rdma->handshake, KW_HANDSHAKE_DONE))
		kw_remote_welcomed(remote, &rdma->handshake.facts);
}

static void report_rdma(struct kw_remote *remote)
{
	struct rdma *rdma = remote->own;
	struct kw_frame_report frame;

	if (rdma->reported_us)
		return;
	rdma->reported_us = kw_clock_us();
	kw_frame_encode_report(&frame, &remote->report);
	kw_remote_report_taken(remote);
	send_message(remote, &frame, sizeof frame);
}

static void hear_reply(struct kw_remote *remote, const uint8_t *bytes, uint32_t length)
{
	struct rdma *rdma = remote->own;
	struct kw_frame_reply reply;
	struct kw_error error;

	if (length != sizeof reply) {
		kw_error_set(&error, KW_E_PROTOCOL, "the proxy sent a message that is none");
		kw_remote_fail(remote, &error);
		return;
	}
	memcpy(&reply, bytes, sizeof reply);
	if (kw_frame_check_reply(&reply, &(struct kw_frame_due){0}, &error) == 0) {
		/*
		 * The answer to a report; or an empty message, by which the proxy checks that we
		 * are here.
		 */
		rdma->reported_us = 0;
		if (remote->reporting == KW_REPORT_DUE)
			kw_remote_report_soon(remote);
		return;
	}
	kw_remote_fail(remote, &error);
}

static void on_message(void *owner, const uint8_t *bytes, uint32_t length)
{
	struct kw_remote *remote = owner;

	if (kw_remote_is(remote, KW_REMOTE_CONNECTING))
		greet(remote, bytes, length);
	else if (kw_remote_is(remote, KW_REMOTE_READY))
		hear_reply(remote, bytes, length);
}

static void on_sent(void *owner)
{
	(void)owner;
}

/* The next turn polls: see turn_rdma. */
static void on_more(void *owner)
{
	kw_remote_turn_soon(owner);
}

static void on_broken(void *owner, const struct kw_error *why)
{
	kw_remote_fail(owner, why);
}

/* ---- the connection ---- */

static const struct kw_rdma_end_ops end_ops = {
	.message = on_message,
	.sent = on_sent,
	.read = on_read,
	.told = on_told,
	.more = on_more,
	.broken = on_broken,
};

static void on_connected(struct kw_remote *remote)
{
	struct rdma *rdma = remote->own;
	struct kw_channel channel = kw_rdma_end_channel(&rdma->end, true);
	struct kw_error error;

	snprintf(remote->info.device, sizeof remote->info.device, "%s",
		ibv_get_device_name(rdma->dial.id->verbs->device));
	if (kw_remote_greet(remote, &rdma->handshake, &channel, &error) != 0)
		kw_remote_fail(remote, &error);
	else
		send_output(remote);
}

static int open_rdma(struct kw_remote *remote, struct kw_error *error)
{
	struct kw_rdma_options options;
	struct rdma *rdma;
	int code = kw_rdma_options_set(&options, &remote->options.rdma, error);

	if (code != 0)
		return code;
	if (remote->address.port == 0)
		return kw_error_set(
			error, KW_E_CONFIG, "%s: port 0 cannot be connected to", remote->info.peer);
	rdma = kw_zalloc(sizeof *rdma);
	rdma->dial.options = options;
	rdma->dial.connected = on_connected;
	rdma->dial.lost = kw_remote_fail;
	kw_rdma_end_init(&rdma->end, &end_ops, remote);
	kw_rdma_dial_init(&rdma->dial, remote, &rdma->end);
	remote->own = rdma;
	return 0;
}

static void turn_rdma(struct kw_remote *remote)
{
	struct rdma *rdma = remote->own;

	kw_rdma_dial_turn(&rdma->dial);
	if (!kw_remote_is(remote, KW_REMOTE_READY))
		return;
	/* Completions can be left over. Busy polling: look as long as something is out. */
	kw_rdma_end_poll(&rdma->end);
	if (rdma->dial.options.busy && kw_remote_is(remote, KW_REMOTE_READY) &&
		rdma->posted > rdma->done)
		kw_remote_turn_soon(remote);
}

static void close_rdma(struct kw_remote *remote)
{
	struct rdma *rdma = remote->own;

	kw_rdma_dial_close(&rdma->dial);
}

static void free_rdma(struct kw_remote *remote)
{
	free(remote->own);
}

const struct kw_carrier_ops kw_carrier_rdma = {
	.carrier = KW_CARRIER_RDMA,
	.open = open_rdma,
	.post = post_rdma,
	.turn = turn_rdma,
	.report = report_rdma,
	.close = close_rdma,
	.free = free_rdma,
	.end = kw_rdma_watch_end,
};
