/*
 * From bytes to replies. The usual ones (resp_parse.h) are parsed in place, without a copy. If the
 * bytes end within a reply, its beginning is kept until the rest comes.
 *
 * hiredis parses all others, and any larger than 64 KiB, with our own objects. A scalar at the top
 * level is handed over while the parser stands on it; its text points into the parser's buffer. The
 * elements of an array are copied to an arena, because the parser moves its buffer while the array
 * is incomplete. The arena is reset after every reply.
 *
 * Pure: no I/O, no loop. One thread.
 */
#ifndef KW_REDIS_REPLY_H
#define KW_REDIS_REPLY_H

#include "redis/redis.h"

/*
 * The largest reply. hiredis 0.14 counts bytes in an int when it looks for a line's end, so beyond
 * 2 GiB it would wait for ever. An error with a sentence is better.
 */
#define KW_REPLY_MAX_BYTES ((size_t)2 * 1024 * 1024 * 1024 - (size_t)1024 * 1024)

/* The longest status, error, number or length; no server sends one nearly as long. */
#define KW_REPLY_LINE_MAX_BYTES ((size_t)64 * 1024)

/* Arrays in arrays. COMMAND DOCS has 7. */
#define KW_REPLY_DEPTH_MAX 8

struct kw_reply_reader;

/* What a reply may have at most, and what it is called in a sentence. */
struct kw_reply_bound {
	const char *what; /* "the reply to DUMP" */
	size_t bytes;     /* of a text; of an array with all that is in it, as it was sent */
	size_t elements;  /* of all its arrays together; not fewer than KW_RESP_ELEMENTS */
};

/*
 * One reply, valid during the call. False: stop here and drop the bytes after it. A stopped reader
 * takes no more bytes. The function must not free the reader.
 */
typedef bool (*kw_reply_sink)(void *arg, const struct kw_reply *reply);

struct kw_reply_reader *kw_reply_reader_new(kw_reply_sink sink, void *arg);
void kw_reply_reader_free(struct kw_reply_reader *reader);

/*
 * Bound the present reply and those after it. *bound must outlive the reader; the sink may call
 * this. An array is refused when it says how many elements it has, before it takes memory for them;
 * a text when it says how long it is, or when that many bytes have come. Without a bound only those
 * above hold, and 1 GiB for an array.
 */
void kw_reply_reader_bound(struct kw_reply_reader *reader, const struct kw_reply_bound *bound);

/*
 * Take bytes, hand over the replies that they complete. KW_E_PROTOCOL: not RESP2, or beyond a bound
 * above; every later call fails the same way.
 */
int kw_reply_reader_feed(
	struct kw_reply_reader *reader, const void *data, size_t length, struct kw_error *error);

/* Wipe what replies left behind in memory; what is not complete stays. */
void kw_reply_reader_wipe(struct kw_reply_reader *reader);

/* Bytes held for replies that are not complete, as far as they were not consumed. */
size_t kw_reply_reader_held_bytes(const struct kw_reply_reader *reader);

#endif
