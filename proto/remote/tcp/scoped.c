#include "remote/tcp/scoped.h"

#include "base/buffer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static_assert(KW_REDACT_KEY_FRONT >= KW_SCOPE_PREFIX_MAX, "a prefix is judged whole");

struct kw_scoped {
	struct kw_scope scope;
	struct kw_buffer text;
	bool told;
	struct kw_redact *redact;
	struct kw_redact_reader reader;
	size_t filled, sent; /* of the stage */
	uint8_t stage[KW_SCOPED_STAGE];
};

static bool allows(void *arg, uint32_t database, struct kw_slice front)
{
	return kw_scope_allows(arg, database, front);
}

static bool allows_flush(void *arg, uint32_t database)
{
	return kw_scope_allows_database(arg, database);
}

struct kw_scoped *kw_scoped_new(const struct kw_scope *scope, struct kw_redact *redact)
{
	struct kw_scoped *scoped = kw_zalloc(sizeof *scoped);
	struct kw_error error;
	int code;

	kw_scope_write(scope, &scoped->text);
	assert(kw_buffer_length(&scoped->text) <= KW_SCOPE_TEXT_MAX);
	code = kw_scope_read(&scoped->scope,
		kw_slice(kw_buffer_bytes(&scoped->text), kw_buffer_length(&scoped->text)), &error);
	assert(code == KW_OK && kw_scope_narrow(&scoped->scope));
	scoped->redact = redact;
	scoped->reader = (struct kw_redact_reader){
		.allows = allows,
		.allows_flush = allows_flush,
		.arg = &scoped->scope,
	};
	return scoped;
}

void kw_scoped_free(struct kw_scoped *scoped)
{
	if (!scoped)
		return;
	kw_scope_close(&scoped->scope);
	kw_buffer_close(&scoped->text);
	free(scoped);
}

bool kw_scoped_takes(struct kw_scoped *scoped, const struct kw_frame *frame)
{
	if (frame->offset != KW_FRAME_SCOPE_OFFSET || frame->length > KW_SCOPE_TEXT_MAX)
		return false;
	scoped->told = true;
	return true;
}

bool kw_scoped_told(const struct kw_scoped *scoped)
{
	return scoped->told;
}

static void fill_text(struct kw_scoped *scoped, uint64_t at)
{
	size_t length = kw_buffer_length(&scoped->text);

	memset(scoped->stage, 0, scoped->filled);
	if (at >= length)
		return;
	length -= (size_t)at;
	memcpy(scoped->stage, kw_buffer_bytes(&scoped->text) + at,
		length < scoped->filled ? length : scoped->filled);
}

struct kw_slice kw_scoped_piece(struct kw_scoped *scoped, uint64_t offset, uint64_t length)
{
	if (scoped->sent == scoped->filled) {
		scoped->sent = 0;
		scoped->filled = length < KW_SCOPED_STAGE ? (size_t)length : KW_SCOPED_STAGE;
		if (offset >= KW_FRAME_SCOPE_OFFSET)
			fill_text(scoped, offset - KW_FRAME_SCOPE_OFFSET);
		else
			(void)kw_redact_copy(scoped->redact, &scoped->reader, offset,
				scoped->filled, scoped->stage);
	}
	return kw_slice(scoped->stage + scoped->sent, scoped->filled - scoped->sent);
}

void kw_scoped_sent(struct kw_scoped *scoped, uint64_t length)
{
	assert(length <= scoped->filled - scoped->sent);
	scoped->sent += (size_t)length;
}
