/*
 * Arbitrary bytes as what a primary answers to a reader that attaches to its replication stream: it
 * ends in the same state whether they come at once or in pieces, and keeps no more than its bound.
 *
 * The first byte chooses the pieces, and what is asked for.
 */
#include "fuzz.h"

#include "base/hash.h"
#include "stream/attach.h"
#include "stream/preamble.h"

#include <stdlib.h>
#include <string.h>

#define ID "0123456789abcdef0123456789abcdef01234567"
#define MARK "EOFEOmark123456789abcdef0123456789abcdef"
#define GREETED "+PONG\r\n+OK\r\n+OK\r\n"
#define PAYLOAD_MOST 64

static const struct kw_fuzz_bytes seeds[] = {
	KW_FUZZ_BYTES("\x06" GREETED "+CONTINUE\r\n*1\r\n$4\r\nPING\r\n"),
	KW_FUZZ_BYTES("\x04" GREETED "+CONTINUE " ID "\r\n"),
	KW_FUZZ_BYTES("\x05" GREETED "+FULLRESYNC " ID " 7\r\n\n$EOF:" MARK "\r\nEOFEO" MARK "*1"),
	KW_FUZZ_BYTES("\x07" GREETED "\n+FULLRESYNC " ID " 7\r\n$5\r\nREDIS*1\r\n"),
	KW_FUZZ_BYTES("\x07" GREETED "+FULLRESYNC " ID " 7\r\n$19\r\nREDIS0012\xfa\x02"
		      "db\xc1\x01\0\xff*1"),
	KW_FUZZ_BYTES("\x03-NOAUTH Authentication required.\r\n"),
	KW_FUZZ_BYTES("\x08+PONG\r\n+OK\r\n-ERR no\r\n-NOMASTERLINK x\r\n"),
};

struct end {
	enum kw_repl_attach_state state;
	uint64_t hash, offset, used;
	int code;
	uint64_t number; /* of its field `db` */
	bool fields;
};

static struct end feed(const uint8_t *data, size_t size, size_t piece,
	const struct kw_repl_attach_options *options)
{
	struct kw_repl_attach attach;
	struct kw_error error = {0};
	struct end end = {0};
	size_t used = 0, take = 0;

	kw_repl_attach_init(&attach, options);
	for (size_t at = 0; at < size && !end.code && used == take; at += take) {
		uint8_t *exact;

		take = piece > size - at ? size - at : piece;
		exact = malloc(take);
		must(exact != NULL);
		memcpy(exact, data + at, take);
		end.code = kw_repl_attach_feed(&attach, exact, take, &used, &error);
		free(exact);
		must(used <= take && (end.code == 0 || error.text[0] != '\0'));
		end.used += end.code ? 0 : used;
		if (kw_repl_attach_state(&attach) == KW_ATTACH_FOLLOWING)
			break;
	}
	end.state = kw_repl_attach_state(&attach);
	must((end.state == KW_ATTACH_FAILED) == (end.code != 0));
	must(kw_buffer_length(&attach.payload) <= PAYLOAD_MOST + KW_REPL_MARK_BYTES);
	must(end.state != KW_ATTACH_FOLLOWING || strlen(attach.id) == KW_REPL_ID_LENGTH);
	end.offset = attach.offset;
	if (end.code)
		end.used = 0;
	end.hash = kw_hash_key(
		0, 1, kw_buffer_bytes(&attach.output), kw_buffer_length(&attach.output));
	if (end.state == KW_ATTACH_FOLLOWING && kw_buffer_length(&attach.payload) > 0) {
		end.fields = kw_repl_preamble_number(kw_slice(kw_buffer_bytes(&attach.payload),
							     kw_buffer_length(&attach.payload)),
			"db", &end.number);
		end.hash = kw_hash_key(end.hash, 2, kw_buffer_bytes(&attach.payload),
			kw_buffer_length(&attach.payload));
	}
	kw_repl_attach_close(&attach);
	return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kw_repl_attach_options options = {.offset = 100, .payload_most = PAYLOAD_MOST};
	struct end whole, pieces;

	if (size < 1)
		return 0;
	if (data[0] % 2 == 0)
		memcpy(options.id, ID, sizeof ID);
	options.functions = data[0] & 2;
	whole = feed(data + 1, size - 1, size, &options);
	pieces = feed(data + 1, size - 1, data[0] / 4 + 1, &options);
	must(whole.state == pieces.state && whole.code == pieces.code && whole.hash == pieces.hash);
	must(whole.offset == pieces.offset && whole.used == pieces.used);
	must(whole.fields == pieces.fields && whole.number == pieces.number);
	return 0;
}

KW_FUZZ_SEEDS(seeds)
