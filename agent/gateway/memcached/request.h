/*
 * Requests of memcached clients: lines of the text and meta protocols, and the data blocks of the
 * commands that store. What came of a client's bytes is one of a few acts:
 *
 *   get a b      KEYS    look the keys up and answer each of them (answer.h)
 *   version      SAY     `says` is the whole reply
 *   set, incr …  REFUSE  as SAY: the gateway only reads, and the reply says so
 *   stats        STATS   write the figures (stats.h); `stats settings`: SETTINGS
 *   quit         CLOSE   as SAY, and then close the connection
 *
 * The words are memcached's own, from its proto_text.c (1.6.18), where it refuses the same thing.
 * It differs from memcached in these, and each is on purpose:
 *
 *   - a key with control characters is refused: memcached forbids them and does not look. Such a
 *     key is read by `mg` with its flag b.
 *   - a data block is passed over whenever its length can be read. memcached takes the block of a
 *     set with a bad key for commands.
 *   - flags of mg that would change the key (N, R, T) are refused with a sentence. So are those
 *     that ask when it was read last (h, l).
 *   - a line above KW_MEMCACHED_LINE_MAX is answered before the connection is closed.
 *
 * A write with `noreply` gets no reply, as from memcached. Such a client does not read one, and
 * would take it for the reply to its next request. Meta commands always get a reply.
 *
 * get and gets can have any number of keys. A line longer than KW_MEMCACHED_LINE_MAX comes in
 * parts, each with one key at least. A bad key in a later part ends the connection, because values
 * were sent by then.
 *
 * The first byte tells the binary protocol. Its first request is answered with its own
 * "Unknown command", and the connection is closed: a client that gets no answer waits for ever.
 *
 * The bytes lie in the client's input buffer, and keys and opaque point into it. A key that came as
 * base64 is decoded there.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_MEMCACHED_REQUEST_H
#define KW_AGENT_GATEWAY_MEMCACHED_REQUEST_H

#include "base/slice.h"
#include "gateway/memcached/answer.h"

#include <stddef.h>
#include <stdint.h>

/* Whose protocol this is; clients look for what it can do. */
#define KW_MEMCACHED_VERSION "1.6.18-keywake-" KW_VERSION

#define KW_MEMCACHED_LINE_MAX ((size_t)8 << 10)
#define KW_MEMCACHED_BINARY_HEADER 24
#define KW_MEMCACHED_BINARY_TEXT "Unknown command"
#define KW_MEMCACHED_BINARY_REPLY (KW_MEMCACHED_BINARY_HEADER + sizeof KW_MEMCACHED_BINARY_TEXT - 1)

enum kw_memcached_act {
	KW_MEMCACHED_PARTIAL, /* more bytes are needed; consume request->bytes nevertheless */
	KW_MEMCACHED_KEYS,
	KW_MEMCACHED_SAY,
	KW_MEMCACHED_REFUSE,
	KW_MEMCACHED_STATS,
	KW_MEMCACHED_SETTINGS,
	KW_MEMCACHED_CLOSE,
};

enum kw_memcached_expects {
	KW_MEMCACHED_AT_BEGINNING, /* the first byte: which protocol is it? */
	KW_MEMCACHED_AT_LINE,
	KW_MEMCACHED_AT_KEYS, /* inside a line of get or gets whose first part was handed out */
	KW_MEMCACHED_AT_DATA, /* inside a data block */
	KW_MEMCACHED_AT_END,  /* after CLOSE: the rest is passed over */
};

/* What the keys of one request are of their line. */
enum kw_memcached_part {
	KW_MEMCACHED_WHOLE,
	KW_MEMCACHED_FRONT, /* of a line longer than KW_MEMCACHED_LINE_MAX: others follow */
	KW_MEMCACHED_MIDDLE,
	KW_MEMCACHED_LAST,
};

/* One client's. Zeroed before the first use. */
struct kw_memcached_request {
	/* What came of the last call. */
	size_t bytes;                /* of the input, to be consumed when keys and says were used */
	struct kw_memcached_how how; /* KEYS: how each is answered; `ends` is for the last alone */
	enum kw_memcached_part part; /* KEYS */
	struct kw_slice opaque;      /* KEYS of mg with O */
	struct kw_slice *keys; /* KEYS: each can be looked up as it is; valid to the next call */
	size_t count;
	struct kw_slice says; /* SAY, REFUSE, CLOSE: the reply; it can be empty */

	/* Between two calls. */
	enum kw_memcached_expects expects;
	size_t capacity;       /* of keys */
	size_t looked;         /* bytes of the line in which there is no line end */
	uint64_t data_left;    /* AT_DATA: bytes of the block, with its line end */
	struct kw_slice after; /* AT_DATA: what is said when it has come; noreply: nothing */
	uint8_t binary[KW_MEMCACHED_BINARY_REPLY];
};

void kw_memcached_request_close(struct kw_memcached_request *request);

/*
 * Go on with the request at the front of the input. After every call, PARTIAL too, the caller
 * consumes request->bytes. Unless it was PARTIAL it calls again. The key of a KEYS that is base64
 * was written over: the same bytes are not parsed again.
 */
enum kw_memcached_act kw_memcached_parse(
	struct kw_memcached_request *request, uint8_t *input, size_t length);

#endif
