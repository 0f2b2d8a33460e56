#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "payload_digest.h"

struct kw_hash128 digest_of(struct kw_slice payload)
{
	struct kw_error error = {0};
	struct kw_hash128 digest = {0};

	if (kw_payload_check(payload, NULL, &error) || kw_payload_digest(payload, &digest, &error))
		fail_msg("%s", error.text);
	return digest;
}

void assert_same(struct kw_hash128 a, struct kw_hash128 b)
{
	assert_int_equal(a.low, b.low);
	assert_int_equal(a.high, b.high);
}

void assert_other(struct kw_hash128 a, struct kw_hash128 b)
{
	assert_true(a.low != b.low || a.high != b.high);
}

void zset_begin(
	struct kw_buffer *payload, uint8_t type, const char *member, double score, const char *text)
{
	build_begin(payload, type);
	if (type == 3 || type == 5) {
		build_length(payload, 1);
		build_text(payload, member);
	}
	if (type == 5) {
		build_double(payload, score);
	} else if (type == 3 && isinf(score)) {
		kw_buffer_append(payload, score > 0 ? "\xfe" : "\xff", 1);
	} else if (type == 3) {
		uint8_t length = (uint8_t)strlen(text);

		kw_buffer_append(payload, &length, 1);
		kw_buffer_append(payload, text, length);
	} else {
		struct kw_slice elements[2] = {kw_slice_text(member), kw_slice_text(text)};
		struct kw_buffer inner = {0};

		if (type == 12)
			pack_ziplist(&inner, elements, 2);
		else
			pack_listpack(&inner, elements, 2);
		build_string(payload, build_slice(&inner));
		kw_buffer_close(&inner);
	}
	build_end(payload, 9);
}

void stream_build(
	struct kw_buffer *payload, uint8_t type, uint64_t seen, uint64_t active, bool compressed)
{
	const struct kw_slice elements[] = {kw_slice_text("1"), kw_slice_text("0"),
		kw_slice_text("1"), kw_slice_text("field"), kw_slice_text("0"),
		kw_slice_text("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")};
	struct kw_buffer inner = {0};

	build_begin(payload, type);
	pack_listpack(&inner, elements, 6);
	build_length(payload, 1);
	build_string(payload, kw_slice("0123456789abcdef", 16));
	if (compressed)
		build_lzf(payload, build_slice(&inner));
	else
		build_string(payload, build_slice(&inner));
	for (uint64_t i = 0; i < (type == 15 ? 3 : 8); i++)
		build_length(payload, i);
	build_length(payload, 1); /* group */
	build_text(payload, "group");
	for (uint64_t i = 0; i < (type == 15 ? 2 : 3); i++)
		build_length(payload, i);
	build_length(payload, 1); /* pending */
	kw_buffer_append(payload, "0123456789abcdef", 16);
	build_u64(payload, 1234);
	build_length(payload, 2);
	build_length(payload, 1); /* consumers */
	build_text(payload, "consumer");
	build_u64(payload, seen);
	if (type == 21)
		build_u64(payload, active);
	build_length(payload, 1);
	kw_buffer_append(payload, "0123456789abcdef", 16);
	build_end(payload, 11);
	kw_buffer_close(&inner);
}
