/*
 * Blocks of an answer (frame.h), put together again: the agent's end.
 *
 *   wire ──▶ word ──▶ plain bytes ─────────────────▶ the READ's buffer
 *                └──▶ scratch: one frame ──zstd──▶   the READ's buffer
 *
 * How many bytes an answer has, and so each of its blocks, is known before the first byte comes:
 * the agent asked for them. A block whose frame says or yields another number is refused before, or
 * while, it is taken apart. Nothing is written outside of the READ's buffer, and no memory is taken
 * by what the peer says: a frame is taken apart in one step, from the scratch straight into the
 * buffer, so zstd needs no window of its own, whatever size the frame declares.
 *
 * Pure. One thread at a time.
 */
#ifndef KW_REMOTE_TCP_DECOMPRESS_H
#define KW_REMOTE_TCP_DECOMPRESS_H

#include "base/error.h"
#include "remote/frame.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct kw_decompressor;

/* NULL: this build has no zstd, or there is no memory. */
struct kw_decompressor *kw_decompressor_new(void);
void kw_decompressor_free(struct kw_decompressor *decompressor); /* NULL: nothing */

/* An answer in blocks begins: `length` bytes, 1 or more, for `to`. */
void kw_decompressor_begin(struct kw_decompressor *decompressor, uint8_t *to, uint64_t length);

/* Where the next bytes of the wire go, and how many at most; only until it is done. Not 0. */
uint8_t *kw_decompressor_room(struct kw_decompressor *decompressor, size_t *room);

/*
 * So many bytes came there. KW_E_PROTOCOL: they are no block of this answer; nothing after them can
 * be trusted.
 */
int kw_decompressor_came(
	struct kw_decompressor *decompressor, size_t length, struct kw_error *error);

/* Bytes of the answer that are still to come; 0: it is done. */
uint64_t kw_decompressor_left(const struct kw_decompressor *decompressor);

/* Memory that zstd has of it, in bytes: bounded by KW_DECOMPRESSOR_MEMORY. */
#define KW_DECOMPRESSOR_MEMORY (UINT32_C(512) << 10)
size_t kw_decompressor_memory(const struct kw_decompressor *decompressor);

#endif
