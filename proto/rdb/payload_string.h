/*
 * A string as a DUMP payload, as a server would write it (rdbSaveRawString in rdb.c):
 *
 *   00 │ the string │ RDB version, 2 bytes │ CRC64, 8 bytes
 *
 *   an integer of 8, 16 or 32 bits in its shortest decimal form   C0, C1 or C2, and the number
 *   another string                                                its length, and its bytes
 *   longer than 20 bytes, with compression, if LZF saves 4        C3, both lengths, LZF
 *
 * Without compression the bytes equal those of a server with `rdbcompression no`. With it they
 * equal those of all servers that were tried, but LZF can pack a string in several ways. So compare
 * payloads by kw_payload_digest.
 *
 * Any thread.
 */
#ifndef KW_RDB_PAYLOAD_STRING_H
#define KW_RDB_PAYLOAD_STRING_H

#include "base/buffer.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

/* LZF is tried on longer strings. */
#define KW_PAYLOAD_LZF_OVER 20

/* How many bytes a payload of such a string has at most. */
#define KW_PAYLOAD_STRING_MORE 20

/* Append the payload to out, which may hold other bytes. rdb_version: of the server's payloads. */
void kw_payload_of_string(
	struct kw_slice text, uint16_t rdb_version, bool compress, struct kw_buffer *out);

/*
 * Are these two payloads of one string, packed in one and plain in the other? The string has at
 * most `most` bytes; of a longer one the answer is no. Cheap for any other two payloads.
 */
bool kw_payload_is_repacked(struct kw_slice one, struct kw_slice other, size_t most);

#endif
