/*
 * From bytes to replies. The usual ones (resp_parse.h) are parsed where they came to lie, without a
 * copy; of one that the bytes end in the midst of, the beginning is kept until the rest comes.
 *
 * All others, and what is larger than 64 KiB, are hiredis's, with our own objects: a scalar at the
 * top level is handed over while the parser stands on it, its text pointing into the parser's
 * buffer. What lies in an array is copied to an arena, because the parser moves its buffer while
 * the array is incomplete. The arena is reset after every reply.
 *
 * Pure: no I/O, no loop. One thread.
 */
#ifndef KW_REDIS_REPLY_H
#define KW_REDIS_REPLY_H

#include "redis/redis.h"

/*
 * The largest reply. hiredis 0.14 counts bytes in an int where it looks for a line's end, so beyond
 * 2 GiB it would wait for ever; a sentence is better.
 */
#define KW_REPLY_MAX_BYTES ((size_t)2 * 1024 * 1024 * 1024 - (size_t)1024 * 1024)

/* The longest status, error, number or length; nothing a server says comes near. */
#define KW_REPLY_LINE_MAX_BYTES ((size_t)64 * 1024)

/* Arrays in arrays. COMMAND DOCS has 7. */
#define KW_REPLY_DEPTH_MAX 8

struct kw_reply_reader;

/*
 * One reply, valid during the call. False: stop here and drop the bytes after it. A reader
 * that was stopped takes nothing any more. The function must not free the reader.
 */
typedef bool (*kw_reply_sink)(void *arg, const struct kw_reply *reply);

struct kw_reply_reader *kw_reply_reader_new(kw_reply_sink sink, void *arg);
void kw_reply_reader_free(struct kw_reply_reader *reader);

/*
 * Take bytes, hand over the replies that they complete. KW_E_PROTOCOL: not RESP2, or beyond a bound
 * above; every later call fails the same way.
 */
int kw_reply_reader_feed(
	struct kw_reply_reader *reader, const void *data, size_t length, struct kw_error *error);

/* Bytes held for replies that are not complete, as far as they were not consumed. */
size_t kw_reply_reader_held_bytes(const struct kw_reply_reader *reader);

#endif
