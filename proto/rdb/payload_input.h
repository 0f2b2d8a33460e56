/*
 * The bytes of an RDB-encoded value, taken from front to back: lengths, strings, numbers.
 *
 * Used by the payload_*.c files only. Every function returns 0 or KW_E_CORRUPT / KW_E_NOMEM with
 * the sentence in input->error; after an error the input is not used further.
 */
#ifndef KW_RDB_PAYLOAD_INPUT_H
#define KW_RDB_PAYLOAD_INPUT_H

#include "base/error.h"
#include "base/slice.h"

#include <stdint.h>

#define KW_DIGITS_MAX 24 /* of a 64-bit integer in decimal */

struct kw_payload_input {
	const uint8_t *at, *end;
	uint8_t *scratch; /* the last string that was unpacked */
	size_t scratch_bytes;
	char digits[KW_DIGITS_MAX]; /* the last string that was an integer */
	struct kw_error *error;
};

void kw_payload_input_init(
	struct kw_payload_input *input, struct kw_slice value, struct kw_error *error);
void kw_payload_input_close(struct kw_payload_input *input);

static inline size_t kw_payload_left(const struct kw_payload_input *input)
{
	return (size_t)(input->end - input->at);
}

/* The next `count` bytes, where they lie. */
int kw_payload_take(struct kw_payload_input *input, uint64_t count, const uint8_t **bytes);

/* A length in the RDB's variable form (1, 2, 5 or 9 bytes). */
int kw_payload_length(struct kw_payload_input *input, uint64_t *length);

/*
 * The number of elements that follow, each of which takes at least `least` bytes. A number for
 * which the input has no room is refused here rather than later.
 */
int kw_payload_count(struct kw_payload_input *input, size_t least, uint64_t *count);

/* 8 bytes little-endian: a time in milliseconds, or a double's bits. */
int kw_payload_u64(struct kw_payload_input *input, uint64_t *value);

/* A string: plain, integer (as decimal text) or LZF. Valid until the next string is taken. */
int kw_payload_string(struct kw_payload_input *input, struct kw_slice *string);

/* Step over a string without unpacking it. */
int kw_payload_skip(struct kw_payload_input *input);

/* value in decimal; the slice points into digits. */
struct kw_slice kw_digits(int64_t value, char digits[KW_DIGITS_MAX]);

/* Little-endian bytes to a number; `bytes` of them, at most 8. */
uint64_t kw_little_endian(const uint8_t *at, unsigned bytes);

/* The low `bits` of value as a two's complement number. */
int64_t kw_sign_extend(uint64_t value, unsigned bits);

#endif
