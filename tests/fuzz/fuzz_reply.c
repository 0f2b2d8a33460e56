/*
 * Arbitrary bytes as what a server answers: replies come out the same whether the bytes come at
 * once or in pieces, and every text lies in memory that may be read.
 *
 * The first two bytes choose the pieces, a bound, and after how many replies the sink wants no
 * more.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "redis/reply.h"
#include "redis/resp_parse.h"
#include "redis/server.h"

#include <stdlib.h>
#include <string.h>

#define REPLIES_MAX 4096

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x01\x00+OK\r\n-ERR no\r\n:-17\r\n$5\r\nhello\r\n$-1\r\n*0\r\n"),
	KW_FUZZ_BYTES("\x07\x00*4\r\n$8\r\npmessage\r\n$7\r\n__keye*\r\n$20\r\n__keyevent@0__:set"
		      "\r\n$1\r\nk\r\n"),
	KW_FUZZ_BYTES("\x03\x00*2\r\n*1\r\n*1\r\n:1\r\n*-1\r\n"),
	KW_FUZZ_BYTES("\x00\x02*3\r\n+a\r\n+b\r\n+c\r\n+d\r\n+e\r\n"),
	KW_FUZZ_BYTES("\x05\x00*9\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n:6\r\n:7\r\n:8\r\n$2\r\nxy\r\n"),
	KW_FUZZ_BYTES("\x02\x00:9223372036854775807\r\n:99999999999999999999\r\n"),
	KW_FUZZ_BYTES("\x04\x00$3\r\nabcd\r\n"),
	KW_FUZZ_BYTES("\x04\x00%1\r\n+k\r\n#t\r\n,1.5\r\n_\r\n"),
	KW_FUZZ_BYTES("\x01\x00HTTP/1.1 400 Bad Request\r\n\r\n"),
};

struct heard {
	uint64_t hash;
	unsigned replies, most;
	int narrow; /* replies are bounded */
};

static void add(struct heard *heard, const void *bytes, size_t length)
{
	heard->hash = kw_hash_key(heard->hash, 0, length ? bytes : "", length);
}

static void add_reply(struct heard *heard, const struct kw_reply *reply, int depth)
{
	must(depth <= KW_REPLY_DEPTH_MAX + 1);
	must(reply->type <= KW_REPLY_ARRAY);
	add(heard, &reply->type, sizeof reply->type);
	if (reply->type == KW_REPLY_INTEGER)
		add(heard, &reply->integer, sizeof reply->integer);
	if (reply->type == KW_REPLY_STATUS || reply->type == KW_REPLY_ERROR ||
		reply->type == KW_REPLY_STRING)
		add(heard, reply->text.data, reply->text.length);
	if (reply->type == KW_REPLY_ERROR)
		must(kw_server_error(reply->text) != KW_SERVER_E_NONE);
	add(heard, &reply->count, sizeof reply->count);
	for (size_t i = 0; i < reply->count; i++)
		add_reply(heard, &reply->elements[i], depth + 1);
}

static const struct kw_reply_bound narrow = {"a reply", 40, KW_RESP_ELEMENTS};

static bool sink(void *arg, const struct kw_reply *reply)
{
	struct heard *heard = arg;

	must(!heard->narrow ||
		(reply->text.length <= narrow.bytes && reply->count <= narrow.elements));
	add_reply(heard, reply, 0);
	return ++heard->replies < heard->most;
}

/* pieces 0: all at once. */
static int feed(const uint8_t *data, size_t size, size_t piece, struct heard *heard)
{
	struct kw_reply_reader *reader = kw_reply_reader_new(sink, heard);
	struct kw_error error = {0};
	int code = 0;

	if (heard->narrow)
		kw_reply_reader_bound(reader, &narrow);
	while (size > 0) {
		size_t take = piece == 0 || piece > size ? size : piece;
		/* A copy of just these bytes: what is read beyond them is found. */
		uint8_t *exact = malloc(take);

		must(exact != NULL);
		memcpy(exact, data, take);
		code = kw_reply_reader_feed(reader, exact, take, &error);
		free(exact);
		must(code == 0 || error.text[0] != 0);
		data += take;
		size -= take;
	}
	if (code)
		must(kw_reply_reader_feed(reader, "+OK\r\n", 5, &error) == code);
	kw_reply_reader_free(reader);
	return code;
}

static void parse_in_place(const uint8_t *data, size_t size)
{
	struct kw_reply reply, elements[KW_RESP_ELEMENTS];
	size_t used, needed;

	while (kw_resp_parse(data, size, &reply, elements, &used, &needed) == KW_RESP_DONE) {
		must(used > 0 && used <= size);
		data += used;
		size -= used;
	}
}

/* An array can claim any number of elements: no more memory than the input could pay for. */
static int claims_much(const uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		size_t digits = 0;

		while (data[i] == '*' && i + 1 + digits < size && data[i + 1 + digits] >= '0' &&
			data[i + 1 + digits] <= '9')
			digits++;
		if (digits > 5)
			return 1;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct heard whole = {0}, pieces = {0};
	size_t piece;
	int code;

	if (size < 2 || claims_much(data + 2, size - 2))
		return 0;
	piece = data[0] < 128 ? data[0] % 16U + 1 : (data[0] - 127U) * 40;
	whole.narrow = pieces.narrow = data[0] % 8 == 7;
	whole.most = pieces.most = data[1] ? data[1] : REPLIES_MAX;
	data += 2;
	size -= 2;
	parse_in_place(data, size);
	code = feed(data, size, 0, &whole);
	must(feed(data, size, piece, &pieces) == code);
	must(whole.replies == pieces.replies && whole.hash == pieces.hash);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
