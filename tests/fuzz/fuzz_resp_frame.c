/*
 * Arbitrary bytes as replies that are handed on: they are cut at the same places whether they come
 * at once or in pieces, no byte is lost or added, and what is beyond the bound is not kept.
 *
 * The first two bytes choose the pieces and the bound.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "redis/raw.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x01\xff+OK\r\n-ERR no\r\n:-17\r\n$5\r\nhello\r\n$-1\r\n*-1\r\n*0\r\n"),
	KW_FUZZ_BYTES(
		"\x03\xff%2\r\n+a\r\n:1\r\n$1\r\nb\r\n~2\r\n#t\r\n_\r\n,1.5\r\n(12345678901\r\n"),
	KW_FUZZ_BYTES(
		"\x02\xff|1\r\n+ttl\r\n:3\r\n=7\r\ntxt:abc\r\n!3\r\nERR\r\n%0\r\n|0\r\n+x\r\n"),
	KW_FUZZ_BYTES("\x07\xff>2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n$1\r\nv\r\n"),
	KW_FUZZ_BYTES("\x05\x03*2\r\n*1\r\n*1\r\n:1\r\n*-1\r\n$10\r\n0123456789\r\n+OK\r\n"),
	KW_FUZZ_BYTES("\x04\xff$3\r\nabcd\r\n"),
	KW_FUZZ_BYTES("\x04\xff$?\r\n;4\r\nabcd\r\n;0\r\n"),
	KW_FUZZ_BYTES("\x01\xffHTTP/1.1 400 Bad Request\r\n\r\n"),
	KW_FUZZ_BYTES("\x01\xff*999999999999999999\r\n%999999999999999999\r\n+a\r\n"),
};

struct heard {
	uint64_t hash, bytes;
	unsigned replies;
	size_t most;
};

static bool sink(void *arg, const struct kw_reply *reply)
{
	struct heard *heard = arg;

	must(reply->type == KW_REPLY_RAW || reply->type == KW_REPLY_TOO_LONG);
	heard->replies++;
	if (reply->type == KW_REPLY_TOO_LONG) {
		must((uint64_t)reply->integer > heard->most);
		heard->bytes += (uint64_t)reply->integer;
		return true;
	}
	must(reply->text.length <= heard->most && reply->text.length >= 3);
	heard->hash = kw_hash_key(heard->hash, 0, reply->text.data, reply->text.length);
	heard->bytes += reply->text.length;
	return true;
}

static int feed(const uint8_t *data, size_t size, size_t piece, struct heard *heard)
{
	struct kw_raw_reader *reader = kw_raw_reader_new(heard->most, sink, heard);
	struct kw_error error = {0};
	int code = 0;

	for (size_t at = 0; at < size; at += piece) {
		size_t take = piece > size - at ? size - at : piece;
		/* A copy of just these bytes: what is read beyond them is found. */
		uint8_t *exact = malloc(take);

		must(exact != NULL);
		memcpy(exact, data + at, take);
		code = kw_raw_reader_feed(reader, exact, take, &error);
		free(exact);
		must(code == 0 || error.text[0] != 0);
	}
	if (code)
		must(kw_raw_reader_feed(reader, "+OK\r\n", 5, &error) == code);
	kw_raw_reader_free(reader);
	must(heard->bytes <= size);
	return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heard whole = {0}, pieces = {0};
	size_t piece;
	int code;

	if (size < 3)
		return 0;
	piece = data[0] < 128 ? data[0] % 16U + 1 : (data[0] - 127U) * 40;
	whole.most = pieces.most = data[1] == 0xff ? 1 << 20 : data[1];
	data += 2;
	size -= 2;
	code = feed(data, size, size, &whole);
	must(feed(data, size, piece, &pieces) == code);
	must(whole.replies == pieces.replies && whole.hash == pieces.hash &&
		whole.bytes == pieces.bytes);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
