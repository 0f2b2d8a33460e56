/*
 * Arbitrary bytes as a DUMP payload: never read outside of them, never crash, and say the same
 * twice. The CRC64 is not asked for, or nothing would get past it.
 */
#include "redis/payload.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
