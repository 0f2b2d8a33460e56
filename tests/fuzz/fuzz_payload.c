/*
 * Arbitrary bytes as a DUMP payload: never read outside of them, never crash, and say the same
 * twice. The CRC64 is not asked for, or nothing would get past it.
 */
#include "fuzz.h"

#include "rdb/payload.h"

#include <stdlib.h>
#include <string.h>

/* One value in each form there is to take apart; the footer is added. */
static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x00\x05hello"),
	KW_FUZZ_BYTES("\x00\xc2\x70\x11\x01\x00"),
	KW_FUZZ_BYTES("\x00\xc3\x05\x40\x60\x00"
		      "a\xe0\x56\x00"),
	KW_FUZZ_BYTES("\x01\x03\x01"
		      "a\xc0\x05\xc1\x00\x10"),
	KW_FUZZ_BYTES("\x02\x02\x01"
		      "a\x01"
		      "b"),
	KW_FUZZ_BYTES("\x03\x02\x01m\x03"
		      "1.5\x01n\xfe"),
	KW_FUZZ_BYTES("\x04\x01\x05"
		      "field\x05value"),
	KW_FUZZ_BYTES("\x05\x01\x01m\x00\x00\x00\x00\x00\x00\xf8\x3f"),
	KW_FUZZ_BYTES("\x07\x81\x00\x01\x02\x03\x04\x05\x06\x07\x00"),
	KW_FUZZ_BYTES("\x09\x0a\x01\x02"
		      "ab\x02\x01"
		      "cd?\xff"),
	KW_FUZZ_BYTES("\x0a\x0f\x0f\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf3\x02\xf6\xff"),
	KW_FUZZ_BYTES("\x0b\x0c\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\xff\x7f"),
	KW_FUZZ_BYTES("\x0c\x10\x10\x00\x00\x00\x0d\x00\x00\x00\x02\x00\x00\x01m\x03\xf3\xff"),
	KW_FUZZ_BYTES("\x0e\x01\x0f\x0f\x00\x00\x00\x0c\x00\x00\x00\x02\x00\x00\xf3\x02\xf6\xff"),
	KW_FUZZ_BYTES("\x10\x0d\x0d\x00\x00\x00\x02\x00\x81\x66\x02\xc1\x2c\x02\xff"),
	KW_FUZZ_BYTES("\x11\x0c\x0c\x00\x00\x00\x02\x00\x81\x6d\x02\x05\x01\xff"),
	KW_FUZZ_BYTES(
		"\x12\x02\x01\x05plain\x02\x0c\x0c\x00\x00\x00\x02\x00\x81\x6d\x02\x05\x01\xff"),
	KW_FUZZ_BYTES("\x13\x01\x10"
		      "0123456789abcdef\x0c\x0c\x00\x00\x00\x02\x00\x81\x6d\x02\x05\x01\xff"
		      "\x01\x02\x03\x04\x05\x06\x07\x08\x01\x01g\x01\x02\x03\x01"
		      "0123456789abcdef"
		      "12345678"
		      "\x01\x01\x01"
		      "c12345678\x01"
		      "0123456789abcdef"),
	KW_FUZZ_BYTES("\x14\x0c\x0c\x00\x00\x00\x02\x00\x81\x6d\x02\x05\x01\xff"),
	KW_FUZZ_BYTES("\x16\x01\x02\x01"
		      "f\x01v"),
	KW_FUZZ_BYTES("\x16\x01\x01"
		      "f\x01v12345678"),
	KW_FUZZ_BYTES(
		"\x18\x7b\xb4\xc5\xda\xb8\x01\x00\x00\x02\x01\x01\x61\xc0\x01\x00\x01\x62\x03two"),
	KW_FUZZ_BYTES(
		"\x19\x7b\xb4\xc5\xda\xb8\x01\x00\x00\x20\x20\x00\x00\x00\x06\x00\x81\x61\x02\x01"
		"\x01"
		"\xf4\x7b\xb4\xc5\xda\xb8\x01\x00\x00\x09\x81\x62\x02\x83two\x04\x00\x01\xff"),
};

size_t kw_fuzz_seed(unsigned n, uint8_t *data, size_t most)
{
	const size_t count = sizeof seeds / sizeof *seeds;
	size_t length;

	/* Twice: as Redis 7.4 wrote it, and as Valkey 9, which means another type 22. */
	if (n >= 2 * count)
		return 0;
	length = seeds[n % count].length;
	if (length + KW_PAYLOAD_FOOTER > most)
		return 0;
	memcpy(data, seeds[n % count].bytes, length);
	memset(data + length, 0, KW_PAYLOAD_FOOTER);
	data[length] = n < count ? 12 : 80;
	return length + KW_PAYLOAD_FOOTER;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_hash128 once = {0}, again = {0};
	struct kw_slice payload = kw_slice(data, size);
	struct kw_buffer text = {0};
	struct kw_error error;
	int code;

	kw_payload_check(payload, NULL, &error);
	code = kw_payload_digest(payload, &once, &error);
	if (code != kw_payload_digest(payload, &again, NULL))
		abort();
	if (code == KW_OK && (once.low != again.low || once.high != again.high))
		abort();
	/* What has a digest has a type, and what has a text is a string. */
	if (code == KW_OK && strcmp(kw_payload_type_name(payload), "unknown") == 0)
		abort();
	if (kw_payload_text(payload, 4096, &text, &error) == KW_OK &&
		strcmp(kw_payload_type_name(payload), "string") != 0)
		abort();
	kw_buffer_close(&text);
	return 0;
}
