/* A build without zstd: nothing is made, so nothing else is ever called. */
#include "remote/tcp/compress.h"
#include "remote/tcp/decompress.h"

#include <assert.h>

struct kw_compressor *kw_compressor_new(void)
{
	return NULL;
}

void kw_compressor_free(struct kw_compressor *compressor)
{
	assert(!compressor);
}

uint8_t *kw_compressor_source(struct kw_compressor *compressor)
{
	assert(compressor);
	return NULL;
}

size_t kw_compressor_block(struct kw_compressor *compressor, int level, size_t length, uint8_t *to)
{
	assert(compressor);
	return 0;
}

struct kw_decompressor *kw_decompressor_new(void)
{
	return NULL;
}

void kw_decompressor_free(struct kw_decompressor *decompressor)
{
	assert(!decompressor);
}

void kw_decompressor_begin(struct kw_decompressor *decompressor, uint8_t *to, uint64_t length)
{
	assert(decompressor);
}

uint8_t *kw_decompressor_room(struct kw_decompressor *decompressor, size_t *room)
{
	assert(decompressor);
	*room = 0;
	return NULL;
}

int kw_decompressor_came(
	struct kw_decompressor *decompressor, size_t length, struct kw_error *error)
{
	assert(decompressor);
	return kw_error_set(error, KW_E_STATE, "this build has no zstd");
}

uint64_t kw_decompressor_left(const struct kw_decompressor *decompressor)
{
	assert(decompressor);
	return 0;
}
