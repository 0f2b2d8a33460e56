#include "redis/raw.h"

#include "base/buffer.h"

#include <stdlib.h>

/* What an emptied reader keeps of its buffer. */
#define KEEP_BYTES ((size_t)256 * 1024)

enum raw_state {
	RAW_KEEPS,   /* what came of the present reply is in held */
	RAW_PASSES,  /* the present reply is too long: its bytes are dropped */
	RAW_STOPPED, /* the sink wants no more */
	RAW_BROKEN,
};

struct kw_raw_reader {
	size_t most;
	kw_reply_sink sink;
	void *arg;
	enum raw_state state;
	struct kw_resp_frame frame;
	struct kw_buffer held;
	uint64_t passed; /* bytes of a reply that is too long */
	struct kw_error why;
};

struct kw_raw_reader *kw_raw_reader_new(size_t most, kw_reply_sink sink, void *arg)
{
	struct kw_raw_reader *reader = kw_zalloc(sizeof *reader);

	reader->most = most;
	reader->sink = sink;
	reader->arg = arg;
	return reader;
}

void kw_raw_reader_free(struct kw_raw_reader *reader)
{
	if (!reader)
		return;
	kw_buffer_close(&reader->held);
	free(reader);
}

static void hold(struct kw_raw_reader *reader, const uint8_t *data, size_t length)
{
	size_t held = kw_buffer_length(&reader->held);

	if (reader->state == RAW_KEEPS && length <= reader->most - held) {
		kw_buffer_append(&reader->held, data, length);
		return;
	}
	if (reader->state == RAW_KEEPS) {
		reader->state = RAW_PASSES;
		reader->passed = held;
		kw_buffer_close(&reader->held);
	}
	reader->passed += length;
	if (reader->passed > KW_RAW_PASSES * (uint64_t)reader->most) {
		reader->state = RAW_BROKEN;
		kw_error_set(&reader->why, KW_E_PROTOCOL, "a reply does not end within %llu bytes",
			(unsigned long long)(KW_RAW_PASSES * (uint64_t)reader->most));
	}
}

static void tell(struct kw_raw_reader *reader, const struct kw_reply *reply)
{
	if (!reader->sink(reader->arg, reply))
		reader->state = RAW_STOPPED;
}

/* The reply ends with these bytes. */
static void whole(struct kw_raw_reader *reader, const uint8_t *data, size_t length)
{
	struct kw_reply reply = {.type = KW_REPLY_RAW};
	bool in_place = reader->state == RAW_KEEPS && kw_buffer_length(&reader->held) == 0 &&
			length <= reader->most;

	if (!in_place)
		hold(reader, data, length);
	if (reader->state == RAW_BROKEN)
		return;
	if (in_place)
		reply.text = kw_slice(data, length);
	else if (reader->state == RAW_KEEPS)
		reply.text =
			kw_slice(kw_buffer_bytes(&reader->held), kw_buffer_length(&reader->held));
	else
		reply = (struct kw_reply){
			.type = KW_REPLY_TOO_LONG, .integer = (int64_t)reader->passed};
	reader->state = RAW_KEEPS;
	if (reader->frame.first != '>')
		tell(reader, &reply);
	kw_buffer_clear(&reader->held);
	kw_buffer_trim(&reader->held, KEEP_BYTES);
}

int kw_raw_reader_feed(
	struct kw_raw_reader *reader, const void *data, size_t length, struct kw_error *error)
{
	const uint8_t *at = data;

	while (length > 0 && reader->state <= RAW_PASSES) {
		size_t used;

		switch (kw_resp_frame_take(&reader->frame, at, length, &used, &reader->why)) {
		case KW_RESP_FRAME_PARTIAL:
			hold(reader, at, used);
			break;
		case KW_RESP_FRAME_WHOLE:
			whole(reader, at, used);
			break;
		case KW_RESP_FRAME_BROKEN:
			reader->state = RAW_BROKEN;
			break;
		}
		at += used;
		length -= used;
	}
	return reader->state == RAW_BROKEN
		       ? kw_error_set(error, KW_E_PROTOCOL, "%s", reader->why.text)
		       : 0;
}
