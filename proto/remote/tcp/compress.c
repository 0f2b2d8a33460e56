#include "remote/tcp/compress.h"

#include "base/buffer.h"
#include "base/secret.h"
#include "remote/tcp/zstd_memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* A frame must be smaller by an eighth, or the agent would work for nothing. */
#define SAVED 8

struct kw_compressor {
	struct kw_zstd_memory memory;
	ZSTD_CCtx *context;
	uint8_t *source;
};

struct kw_compressor *kw_compressor_new(void)
{
	struct kw_compressor *compressor = kw_zalloc(sizeof *compressor);

	compressor->memory.most = KW_COMPRESSOR_MEMORY;
	compressor->context = ZSTD_createCCtx_advanced(kw_zstd_memory(&compressor->memory));
	compressor->source = kw_secret_try(KW_BLOCK_BYTES);
	if (compressor->context && compressor->source)
		return compressor;
	kw_compressor_free(compressor);
	return NULL;
}

void kw_compressor_free(struct kw_compressor *compressor)
{
	if (!compressor)
		return;
	ZSTD_freeCCtx(compressor->context);
	assert(compressor->memory.used == 0);
	kw_secret_free(compressor->source, KW_BLOCK_BYTES);
	free(compressor);
}

uint8_t *kw_compressor_source(struct kw_compressor *compressor)
{
	return compressor->source;
}

size_t kw_compressor_memory(const struct kw_compressor *compressor)
{
	return compressor->memory.used;
}

/* Bytes of the frame; 0: it does not pay, or zstd has no memory for it. */
static size_t compress(struct kw_compressor *compressor, int level, size_t length, uint8_t *to)
{
	const size_t most = length - length / SAVED;
	size_t put;

	if (ZSTD_isError(
		    ZSTD_CCtx_setParameter(compressor->context, ZSTD_c_compressionLevel, level)))
		return 0;
	put = ZSTD_compress2(compressor->context, to, most, compressor->source, length);
	return ZSTD_isError(put) ? 0 : put;
}

size_t kw_compressor_block(struct kw_compressor *compressor, int level, size_t length, uint8_t *to)
{
	size_t put;
	uint32_t word;

	assert(level >= 1 && level <= KW_COMPRESSION_LEVEL_MAX);
	assert(length > 0 && length <= KW_BLOCK_BYTES);
	put = compress(compressor, level, length, to + sizeof word);
	assert(put < length);
	word = put > 0 ? (uint32_t)put | KW_BLOCK_ZSTD : (uint32_t)length;
	if (put == 0)
		memcpy(to + sizeof word, compressor->source, length);
	memcpy(to, &word, sizeof word);
	return sizeof word + (put > 0 ? put : length);
}
