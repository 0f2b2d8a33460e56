/*
 * Blocks of an answer, compressed by zstd (frame.h): the proxy's end.
 *
 *   table ──copy──▶ source ──zstd──▶ to: the block's word, then one frame of zstd
 *                      └─it does not pay─▶ to: the block's word, then the bytes as they were
 *
 * Each block is compressed by itself. Nothing of an earlier block, answer or agent is in it, so one
 * compressor does for all that one thread serves. The bytes are copied first, because the table may
 * change meanwhile, and zstd must see them as one thing.
 *
 * Only this file, decompress.c and zstd_memory.c know zstd. A build without it (-Dzstd=disabled)
 * has kw_compressor_new alone, which makes nothing. One thread at a time.
 */
#ifndef KW_REMOTE_TCP_COMPRESS_H
#define KW_REMOTE_TCP_COMPRESS_H

#include "remote/frame.h"
#include "remote/server.h"

#include <stddef.h>
#include <stdint.h>

/* Room for a block as it is sent: what does not shrink is sent as it was. */
#define KW_COMPRESSED_MAX (sizeof(uint32_t) + KW_BLOCK_BYTES)

struct kw_compressor;

/* NULL: this build has no zstd, or there is no memory. */
struct kw_compressor *kw_compressor_new(void);
void kw_compressor_free(struct kw_compressor *compressor); /* NULL: nothing */

/* Where the bytes of the next block go: KW_BLOCK_BYTES. */
uint8_t *kw_compressor_source(struct kw_compressor *compressor);

/*
 * The first `length` bytes of the source as a block. to: KW_COMPRESSED_MAX. Returns how many bytes
 * of it are to be sent. level: 1 to KW_COMPRESSION_LEVEL_MAX.
 */
size_t kw_compressor_block(struct kw_compressor *compressor, int level, size_t length, uint8_t *to);

/* Memory that zstd has of it, in bytes: bounded by KW_COMPRESSOR_MEMORY. */
#define KW_COMPRESSOR_MEMORY (UINT32_C(4) << 20)
size_t kw_compressor_memory(const struct kw_compressor *compressor);

#endif
