/* RESP encoding of commands: "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n". */
#include "base/buffer.h"
#include "redis/redis.h"

#include <assert.h>

/* A type byte, the longest number, CR LF. */
#define HEADER_BYTES (1 + 20 + 2)

static uint8_t *put_header(uint8_t *at, char type, size_t number)
{
	char digits[20];
	size_t count = 0;

	*at++ = (uint8_t)type;
	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	while (count > 0)
		*at++ = (uint8_t)digits[--count];
	*at++ = '\r';
	*at++ = '\n';
	return at;
}

void kw_resp_command(struct kw_buffer *buffer, int argc, const struct kw_slice *argv)
{
	size_t most = HEADER_BYTES;
	uint8_t *begin, *at;

	assert(argc > 0);
	for (int i = 0; i < argc; i++)
		most += HEADER_BYTES + argv[i].length + 2;
	begin = at = kw_buffer_reserve(buffer, most);
	at = put_header(at, '*', (size_t)argc);
	for (int i = 0; i < argc; i++) {
		at = put_header(at, '$', argv[i].length);
		if (argv[i].length > 0)
			memcpy(at, argv[i].data, argv[i].length);
		at += argv[i].length;
		*at++ = '\r';
		*at++ = '\n';
	}
	assert((size_t)(at - begin) <= most);
	kw_buffer_filled(buffer, (size_t)(at - begin));
}
