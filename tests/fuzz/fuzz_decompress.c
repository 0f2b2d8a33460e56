/*
 * An answer in blocks from a proxy that says anything: nothing is written outside of the READ's
 * buffer, memory stays bounded, a refusal has a sentence, and any cut gives the same. What a proxy
 * would make of the input comes back as it was.
 *
 * The input: the READ's length (3 bytes), the length of the pieces (1), then the wire.
 */
#include "fuzz.h"

#include "remote/tcp/compress.h"
#include "remote/tcp/decompress.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 8
#define HEAD 4
#define READ_MOST (3 * KW_BLOCK_BYTES)

/* 0: done; 1: it waits for more; else the code. */
static int take(uint8_t *to, size_t length, const uint8_t *wire, size_t size, size_t step)
{
	struct kw_decompressor *decompressor = kw_decompressor_new();
	struct kw_error error = {0};
	int code = 0;

	must(decompressor != NULL);
	memset(to, 0xee, length + 2 * GUARD);
	kw_decompressor_begin(decompressor, to + GUARD, length);
	while (size > 0 && code == 0 && kw_decompressor_left(decompressor) > 0) {
		size_t room, part;
		uint8_t *at = kw_decompressor_room(decompressor, &room);

		must(room > 0 && room <= KW_BLOCK_BYTES);
		part = room < size ? room : size;
		part = part < step ? part : step;
		memcpy(at, wire, part);
		wire += part;
		size -= part;
		code = kw_decompressor_came(decompressor, part, &error);
		must(kw_decompressor_memory(decompressor) <= KW_DECOMPRESSOR_MEMORY);
	}
	must((code != 0) == (error.text[0] != 0));
	if (code == 0 && kw_decompressor_left(decompressor) > 0)
		code = 1;
	kw_decompressor_free(decompressor);
	for (int i = 0; i < GUARD; i++)
		must(to[i] == 0xee && to[GUARD + length + (size_t)i] == 0xee);
	return code;
}

static void there_and_back(uint8_t *to, const uint8_t *bytes, size_t length)
{
	static struct kw_compressor *compressor;
	uint8_t wire[KW_COMPRESSED_MAX];
	size_t put;

	if (length == 0 || length > KW_BLOCK_BYTES)
		return;
	if (!compressor)
		compressor = kw_compressor_new();
	must(compressor != NULL);
	memcpy(kw_compressor_source(compressor), bytes, length);
	put = kw_compressor_block(compressor, 1, length, wire);
	must(put <= length + sizeof(uint32_t));
	must(take(to, length, wire, put, KW_BLOCK_BYTES) == 0);
	must(memcmp(to + GUARD, bytes, length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t one[READ_MOST + 2 * GUARD], other[READ_MOST + 2 * GUARD];
	size_t length;
	int code;

	if (size < HEAD)
		return 0;
	length = ((size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16) % READ_MOST + 1;
	code = take(one, length, data + HEAD, size - HEAD, KW_BLOCK_BYTES);
	must(take(other, length, data + HEAD, size - HEAD, (size_t)data[3] + 1) == code);
	if (code == 0)
		must(memcmp(one, other, length + 2 * GUARD) == 0);
	there_and_back(one, data + HEAD, size - HEAD);
	return 0;
}

/* Plain, compressed with noise behind it, and words that cannot be. */
size_t kw_fuzz_seed(unsigned n, uint8_t *to, size_t most)
{
	static const size_t lengths[] = {5, 1024, 4096, 100000, 20, 4096};
	struct kw_compressor *compressor;
	size_t length, put;
	uint8_t *source;

	if (n >= sizeof lengths / sizeof *lengths)
		return 0;
	length = lengths[n];
	if (HEAD + sizeof(uint32_t) + length > most)
		return 0;
	compressor = kw_compressor_new();
	must(compressor != NULL);
	source = kw_compressor_source(compressor);
	for (size_t i = 0; i < length; i++)
		source[i] = n == 4 ? (uint8_t)(i * 157) : (uint8_t)(i % 29);
	to[0] = (uint8_t)(length - 1);
	to[1] = (uint8_t)((length - 1) >> 8);
	to[2] = (uint8_t)((length - 1) >> 16);
	to[3] = (uint8_t)(n * 50);
	put = kw_compressor_block(compressor, 1, length, to + HEAD);
	kw_compressor_free(compressor);
	return HEAD + (n == 5 ? put / 2 : put);
}
