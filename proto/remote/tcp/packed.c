#include "remote/tcp/packed.h"

#include "base/buffer.h"
#include "base/secret.h"

#include <assert.h>
#include <stdlib.h>

struct kw_packed *kw_packed_new(struct kw_compressor *compressor, int level)
{
	struct kw_packed *packed = kw_zalloc(sizeof *packed);

	assert(level >= 1 && level <= KW_COMPRESSION_LEVEL_MAX);
	packed->compressor = compressor;
	packed->level = level;
	packed->stage = kw_secret_try(KW_COMPRESSED_MAX);
	if (packed->stage)
		return packed;
	free(packed);
	return NULL;
}

void kw_packed_free(struct kw_packed *packed)
{
	if (!packed)
		return;
	kw_secret_free(packed->stage, KW_COMPRESSED_MAX);
	free(packed);
}

bool kw_packed_takes(struct kw_packed *packed, uint64_t length)
{
	if (length < KW_BLOCKS_LEAST)
		return false;
	if (packed->pause == 0)
		return true;
	packed->pause--;
	return false;
}

struct kw_slice kw_packed_piece(struct kw_packed *packed, uint64_t length)
{
	assert(packed->done == 0 || packed->length == length);
	packed->length = length;
	return kw_slice(packed->stage + packed->sent, packed->filled - packed->sent);
}

size_t kw_packed_wants(const struct kw_packed *packed)
{
	const uint64_t left = packed->length - packed->done;

	assert(left > 0);
	return left < KW_BLOCK_BYTES ? (size_t)left : KW_BLOCK_BYTES;
}

void kw_packed_fill(struct kw_packed *packed)
{
	const size_t length = kw_packed_wants(packed);

	assert(packed->sent == packed->filled);
	packed->filled =
		kw_compressor_block(packed->compressor, packed->level, length, packed->stage);
	packed->sent = 0;
	packed->done += length;
	packed->wire += packed->filled;
}

/* The answer is out. Did it pay? */
static void learn(struct kw_packed *packed)
{
	if (packed->wire < packed->length) {
		packed->in_vain = packed->pause = 0;
		return;
	}
	packed->pause = UINT32_C(1) << packed->in_vain;
	if (packed->pause < KW_PACKED_PAUSE_MAX)
		packed->in_vain++;
}

bool kw_packed_sent(struct kw_packed *packed, size_t length)
{
	assert(length <= packed->filled - packed->sent);
	packed->sent += length;
	if (packed->sent < packed->filled || packed->done < packed->length)
		return false;
	learn(packed);
	packed->length = packed->done = packed->wire = 0;
	packed->filled = packed->sent = 0;
	return true;
}
