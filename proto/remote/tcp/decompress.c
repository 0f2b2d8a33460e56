#include "remote/tcp/decompress.h"

#include "base/buffer.h"
#include "base/secret.h"
#include "remote/tcp/zstd_memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORD sizeof(uint32_t)

/* What the next bytes of the wire are. */
enum expected { A_WORD, PLAIN_BYTES, A_FRAME };

struct kw_decompressor {
	struct kw_zstd_memory memory;
	ZSTD_DCtx *context;
	uint8_t *scratch; /* KW_BLOCK_BYTES: a frame, until it is whole */
	uint8_t *to;      /* of the present block */
	uint64_t left;    /* of the answer, the present block included */
	enum expected expected;
	size_t bytes, got; /* of what is expected */
	uint8_t word[WORD];
};

struct kw_decompressor *kw_decompressor_new(void)
{
	struct kw_decompressor *decompressor = kw_zalloc(sizeof *decompressor);

	decompressor->memory.most = KW_DECOMPRESSOR_MEMORY;
	decompressor->context = ZSTD_createDCtx_advanced(kw_zstd_memory(&decompressor->memory));
	decompressor->scratch = kw_secret_try(KW_BLOCK_BYTES);
	if (decompressor->context && decompressor->scratch)
		return decompressor;
	kw_decompressor_free(decompressor);
	return NULL;
}

void kw_decompressor_free(struct kw_decompressor *decompressor)
{
	if (!decompressor)
		return;
	ZSTD_freeDCtx(decompressor->context);
	assert(decompressor->memory.used == 0);
	kw_secret_free(decompressor->scratch, KW_BLOCK_BYTES);
	free(decompressor);
}

uint64_t kw_decompressor_left(const struct kw_decompressor *decompressor)
{
	return decompressor->left;
}

size_t kw_decompressor_memory(const struct kw_decompressor *decompressor)
{
	return decompressor->memory.used;
}

static void expect(struct kw_decompressor *decompressor, enum expected what, size_t bytes)
{
	assert(bytes > 0 || decompressor->left == 0);
	decompressor->expected = what;
	decompressor->bytes = bytes;
	decompressor->got = 0;
}

void kw_decompressor_begin(struct kw_decompressor *decompressor, uint8_t *to, uint64_t length)
{
	assert(length > 0);
	decompressor->to = to;
	decompressor->left = length;
	expect(decompressor, A_WORD, WORD);
}

/* Bytes of the answer that the present block must have. */
static size_t block_length(const struct kw_decompressor *decompressor)
{
	return decompressor->left < KW_BLOCK_BYTES ? (size_t)decompressor->left : KW_BLOCK_BYTES;
}

uint8_t *kw_decompressor_room(struct kw_decompressor *decompressor, size_t *room)
{
	assert(decompressor->left > 0 && decompressor->got < decompressor->bytes);
	*room = decompressor->bytes - decompressor->got;
	switch (decompressor->expected) {
	case A_WORD:
		return decompressor->word + decompressor->got;
	case PLAIN_BYTES:
		return decompressor->to + decompressor->got;
	case A_FRAME:
		break;
	}
	return decompressor->scratch + decompressor->got;
}

static int broken(struct kw_error *error, const char *what)
{
	return kw_error_set(error, KW_E_PROTOCOL,
		"the proxy sent a compressed answer that is none (%s): it was changed on its way, "
		"or the proxy has a fault; remote.compression=none goes on without",
		what);
}

static int take_word(struct kw_decompressor *decompressor, struct kw_error *error)
{
	const size_t length = block_length(decompressor);
	uint32_t word, bytes;

	memcpy(&word, decompressor->word, sizeof word);
	bytes = word & ~KW_BLOCK_ZSTD;
	if (word & KW_BLOCK_ZSTD) {
		if (bytes == 0 || bytes >= length)
			return broken(error, "a block that is not smaller than its bytes");
		expect(decompressor, A_FRAME, bytes);
		return 0;
	}
	if (bytes != length)
		return broken(error, "a plain block of another length than was asked for");
	expect(decompressor, PLAIN_BYTES, bytes);
	return 0;
}

static void block_done(struct kw_decompressor *decompressor)
{
	const size_t length = block_length(decompressor);

	decompressor->to += length;
	decompressor->left -= length;
	expect(decompressor, A_WORD, decompressor->left > 0 ? WORD : 0);
}

/*
 * One frame, of the present format (no skippable one, none of before version 0.8), that says the
 * length which is due. What it says it must then yield.
 */
static int take_frame(struct kw_decompressor *decompressor, struct kw_error *error)
{
	const uint8_t *frame = decompressor->scratch;
	const size_t length = block_length(decompressor), bytes = decompressor->bytes;
	uint32_t magic = 0;
	size_t put;

	if (bytes >= sizeof magic)
		memcpy(&magic, frame, sizeof magic);
	if (magic != ZSTD_MAGICNUMBER)
		return broken(error, "no frame of zstd");
	if (ZSTD_getFrameContentSize(frame, bytes) != length)
		return broken(error, "a frame that says another length than was asked for");
	if (ZSTD_findFrameCompressedSize(frame, bytes) != bytes)
		return broken(error, "a frame that is cut, or followed by more");
	put = ZSTD_decompressDCtx(decompressor->context, decompressor->to, length, frame, bytes);
	if (ZSTD_isError(put))
		return broken(error, ZSTD_getErrorName(put));
	if (put != length)
		return broken(error, "a frame that yields another length than it says");
	block_done(decompressor);
	return 0;
}

int kw_decompressor_came(
	struct kw_decompressor *decompressor, size_t length, struct kw_error *error)
{
	assert(length > 0 && length <= decompressor->bytes - decompressor->got);
	decompressor->got += length;
	if (decompressor->got < decompressor->bytes)
		return 0;
	switch (decompressor->expected) {
	case A_WORD:
		return take_word(decompressor, error);
	case A_FRAME:
		return take_frame(decompressor, error);
	case PLAIN_BYTES:
		break;
	}
	block_done(decompressor);
	return 0;
}
