#include "remote/frame.h"

#include <inttypes.h>
#include <string.h>

void kw_frame_encode_read(
	struct kw_frame_read *frame, uint64_t id, uint64_t offset, uint64_t length)
{
	*frame = (struct kw_frame_read){
		.header = {KW_FRAME_MAGIC, KW_FRAME_READ, sizeof *frame},
		.id = id,
		.offset = offset,
		.length = length,
	};
}

static bool state_valid(const char state[KW_STATE_BYTES])
{
	const char *end = memchr(state, 0, KW_STATE_BYTES);

	if (!end)
		return false;
	for (const char *at = state; at < end; at++)
		if (*at < 0x20 || *at > 0x7e)
			return false;
	return true;
}

void kw_frame_encode_report(
	struct kw_frame_report *frame, const struct kw_remote_progress *progress)
{
	*frame = (struct kw_frame_report){
		.header = {KW_FRAME_MAGIC, KW_FRAME_REPORT, sizeof *frame},
		.passed = progress->passed,
		.applied = progress->applied,
		.lag_us = progress->lag_us,
		.reads = progress->reads,
		.bytes = progress->bytes,
		.ticket = progress->ticket,
	};
	/* Only up to the zero byte: what follows it must not be sent. */
	if (state_valid(progress->state))
		memcpy(frame->state, progress->state, strlen(progress->state));
}

void kw_frame_encode_sleep(struct kw_frame_sleep *frame, uint64_t publication)
{
	*frame = (struct kw_frame_sleep){
		.header = {KW_FRAME_MAGIC, KW_FRAME_SLEEP, sizeof *frame},
		.publication = publication,
	};
}

void kw_frame_encode_reply(
	struct kw_frame_reply *reply, enum kw_frame_status status, uint64_t id, uint64_t length)
{
	*reply = (struct kw_frame_reply){
		.magic = KW_REPLY_MAGIC,
		.status = (uint16_t)status,
		.id = id,
		.length = length,
	};
}

static int take_read(const uint8_t *bytes, struct kw_frame *frame, struct kw_error *error)
{
	struct kw_frame_read read;

	memcpy(&read, bytes, sizeof read);
	if (read.length == 0 || read.length > KW_READ_MAX)
		return kw_error_set(error, KW_E_PROTOCOL,
			"a READ of %" PRIu64 " bytes (1 to %" PRIu64 " are allowed)", read.length,
			(uint64_t)KW_READ_MAX);
	frame->op = KW_FRAME_READ;
	frame->id = read.id;
	frame->offset = read.offset;
	frame->length = read.length;
	return 0;
}

static int take_report(const uint8_t *bytes, struct kw_frame *frame, struct kw_error *error)
{
	struct kw_frame_report report;

	memcpy(&report, bytes, sizeof report);
	if (!state_valid(report.state))
		return kw_error_set(error, KW_E_PROTOCOL, "a report whose state is not a word");
	frame->op = KW_FRAME_REPORT;
	frame->progress = (struct kw_remote_progress){
		.passed = report.passed,
		.applied = report.applied,
		.lag_us = report.lag_us,
		.reads = report.reads,
		.bytes = report.bytes,
		.ticket = report.ticket,
	};
	memcpy(frame->progress.state, report.state, strlen(report.state));
	return 0;
}

static int take_sleep(const uint8_t *bytes, struct kw_frame *frame, struct kw_error *error)
{
	struct kw_frame_sleep sleep;

	(void)error;
	memcpy(&sleep, bytes, sizeof sleep);
	frame->op = KW_FRAME_SLEEP;
	frame->publication = sleep.publication;
	return 0;
}

/* Each kind: its bytes, and what takes them. */
static const struct {
	size_t bytes;
	int (*take)(const uint8_t *bytes, struct kw_frame *frame, struct kw_error *error);
} kinds[] = {
	[KW_FRAME_READ] = {sizeof(struct kw_frame_read), take_read},
	[KW_FRAME_REPORT] = {sizeof(struct kw_frame_report), take_report},
	[KW_FRAME_SLEEP] = {sizeof(struct kw_frame_sleep), take_sleep},
};

int kw_frame_take(const uint8_t *bytes, size_t length, size_t *taken, struct kw_frame *frame,
	struct kw_error *error)
{
	struct kw_frame_header header;

	*taken = 0;
	*frame = (struct kw_frame){0};
	if (length < sizeof header)
		return 0;
	memcpy(&header, bytes, sizeof header);
	if (header.magic != KW_FRAME_MAGIC)
		return kw_error_set(error, KW_E_PROTOCOL,
			"bytes that are no frame (magic %08" PRIx32 ")", header.magic);
	if (header.op >= sizeof kinds / sizeof *kinds || !kinds[header.op].take)
		return kw_error_set(error, KW_E_PROTOCOL, "a frame of unknown kind %u", header.op);
	if (header.bytes != kinds[header.op].bytes)
		return kw_error_set(error, KW_E_PROTOCOL,
			"a frame of kind %u with %u bytes, not %zu", header.op, header.bytes,
			kinds[header.op].bytes);
	if (length < header.bytes)
		return 0;
	*taken = header.bytes;
	return kinds[header.op].take(bytes, frame, error);
}

bool kw_frame_is_wake(const struct kw_frame_reply *reply)
{
	return reply->magic == KW_REPLY_MAGIC && reply->status == KW_FRAME_WAKE &&
	       reply->encoding == KW_FRAME_PLAIN && reply->id == 0 && reply->length == 0;
}

const char *kw_frame_status_text(enum kw_frame_status status)
{
	switch (status) {
	case KW_FRAME_OK:
		return "";
	case KW_FRAME_BOUNDS:
		return "asked for bytes outside of the table's extents";
	case KW_FRAME_DEPTH:
		return "had more READs in flight than negotiated";
	case KW_FRAME_BAD:
		return "sent bytes that are no frame";
	case KW_FRAME_REVOKED:
		return "was disconnected by the operator (agents.disconnect), because its key was "
		       "withdrawn or changed, or as silent while a new connection of its name came";
	case KW_FRAME_SHUTDOWN:
		return "was let go because the proxy is shutting down";
	case KW_FRAME_SCOPE:
		return "did not ask what its key may read (databases= or prefix=) before it read: "
		       "upgrade the agent";
	case KW_FRAME_WAKE:
		return "was woken, and did not sleep";
	case KW_FRAME_STATUSES:
		break;
	}
	return "was let go for a reason this build does not know";
}

int kw_frame_check_reply(
	const struct kw_frame_reply *reply, const struct kw_frame_due *due, struct kw_error *error)
{
	const bool blocks =
		due->blocks && due->length >= KW_BLOCKS_LEAST && reply->status == KW_FRAME_OK;

	if (reply->magic != KW_REPLY_MAGIC)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy sent bytes that are no reply (magic %08" PRIx32 ")",
			reply->magic);
	if (reply->encoding > (blocks ? KW_FRAME_BLOCKS : KW_FRAME_PLAIN))
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy sent a reply in encoding %u, on which nothing was agreed",
			reply->encoding);
	if (reply->status != KW_FRAME_OK)
		return kw_error_set(error,
			reply->status == KW_FRAME_SHUTDOWN ? KW_E_GONE : KW_E_REFUSED,
			"the proxy ended the connection: this agent %s",
			kw_frame_status_text((enum kw_frame_status)reply->status));
	if (reply->id != due->id || reply->length != due->length)
		return kw_error_set(error, KW_E_PROTOCOL,
			"the proxy answered READ %" PRIu64 " with %" PRIu64
			" bytes where READ %" PRIu64 " with %" PRIu64 " was due",
			reply->id, reply->length, due->id, due->length);
	return 0;
}
