/*
 * Test helper: DUMP payloads made by hand, in encodings that present servers no longer write too.
 * The elements are text; a text that is an integer is packed as one where the encoding can.
 */
#ifndef KW_TESTS_UNIT_RDB_PAYLOAD_BUILD_H
#define KW_TESTS_UNIT_RDB_PAYLOAD_BUILD_H

#include "base/buffer.h"
#include "base/slice.h"

#include <stdint.h>

/* Begin a payload of this type in an empty buffer; end it with version and CRC64. */
void build_begin(struct kw_buffer *payload, uint8_t type);
void build_end(struct kw_buffer *payload, uint16_t rdb_version);
struct kw_slice build_slice(const struct kw_buffer *payload);

void build_length(struct kw_buffer *out, uint64_t length);
void build_u64(struct kw_buffer *out, uint64_t value);
void build_double(struct kw_buffer *out, double value);
void build_string(struct kw_buffer *out, struct kw_slice string);
void build_text(struct kw_buffer *out, const char *text);
void build_lzf(struct kw_buffer *out, struct kw_slice string); /* must be compressible */
void build_integer(struct kw_buffer *out, int64_t value);      /* 8, 16 or 32 bits, the smallest */

/* Packs, ready for build_string. */
void pack_listpack(struct kw_buffer *out, const struct kw_slice *elements, size_t count);
void pack_ziplist(struct kw_buffer *out, const struct kw_slice *elements, size_t count);
void pack_zipmap(struct kw_buffer *out, const struct kw_slice *elements, size_t count);
void pack_intset(struct kw_buffer *out, const int64_t *integers, size_t count, unsigned width);

#endif
