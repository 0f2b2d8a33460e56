/*
 * Arbitrary bytes as what a Redis client sends to the gateway: requests come out the same whether
 * the bytes come at once or in pieces, and every word lies within the bytes of its request.
 *
 * The first byte chooses the pieces.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "gateway/resp/request.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x01*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n*1\r\n$4\r\nPING\r\n"),
	KW_FUZZ_BYTES("\x03*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$4\r\nname\r\n"),
	KW_FUZZ_BYTES("\x02PING\r\nGET  key\t1\n\r\nQUIT\r\n"),
	KW_FUZZ_BYTES("\x05*0\r\n*-1\r\n*2\r\n$4\r\nECHO\r\n$4\r\n\r\n\r\n\r\n"),
	KW_FUZZ_BYTES("\x00*1048577\r\n$1\r\na\r\n"),
	KW_FUZZ_BYTES("\x00*1\r\n$536870913\r\n"),
	KW_FUZZ_BYTES("\x04*3\r\n$4\r\nMGET\r\n$0\r\n\r\n$-1\r\n"),
	KW_FUZZ_BYTES("\x06GET \"quoted key\"\r\n"),
};

struct heard {
	uint64_t hash;
	size_t requests, consumed;
	enum kw_request_state state; /* at the end of the input */
};

static void take(struct heard *heard, const struct kw_request *request, struct kw_slice input)
{
	const uint8_t *from = input.data;

	must(request->bytes > 0 && request->bytes <= input.length);
	must(request->count <= KW_REQUEST_WORDS_MAX);
	for (size_t i = 0; i < request->count; i++) {
		struct kw_slice word = request->words[i];
		const uint8_t *at = word.data;

		must(at >= from && at + word.length <= from + request->bytes);
		must(word.length <= KW_REQUEST_BULK_MAX);
		heard->hash = kw_hash_key(heard->hash, (uint32_t)i, at, word.length);
	}
	heard->hash = kw_hash_key(heard->hash, 0, &request->count, sizeof request->count);
	heard->requests++;
	heard->consumed += request->bytes;
}

/* All requests that end within the first `seen` bytes. False: the connection ends. */
static bool parse(struct heard *heard, struct kw_request *request, const uint8_t *data, size_t seen)
{
	struct kw_error error = {0};

	for (;;) {
		size_t left = seen - heard->consumed;
		/* A copy of just these bytes: what is read beyond them is found. */
		uint8_t *exact = malloc(left + 1);
		struct kw_slice input = kw_slice(exact, left);

		must(exact != NULL);
		memcpy(exact, data + heard->consumed, left);
		heard->state = kw_request_parse(request, input, &error);
		if (heard->state == KW_REQUEST_WHOLE) {
			take(heard, request, input);
			kw_request_next(request);
		}
		free(exact);
		must(heard->state != KW_REQUEST_BROKEN || error.text[0] != 0);
		if (heard->state != KW_REQUEST_WHOLE)
			return heard->state == KW_REQUEST_PARTIAL;
	}
}

static struct heard feed(const uint8_t *data, size_t size, size_t piece)
{
	struct kw_request request = {0};
	struct heard heard = {0};

	for (size_t seen = 0; seen < size;) {
		seen = seen + piece < size ? seen + piece : size;
		if (!parse(&heard, &request, data, seen))
			break;
	}
	kw_request_close(&request);
	return heard;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heard whole, pieces;

	if (size < 2 || size > 8192)
		return 0;
	whole = feed(data + 1, size - 1, size);
	pieces = feed(data + 1, size - 1, 1 + data[0] % 64U);
	must(whole.requests == pieces.requests && whole.hash == pieces.hash);
	must(whole.consumed == pieces.consumed && whole.state == pieces.state);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
