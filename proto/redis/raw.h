/*
 * From bytes to replies that stay bytes: each reply of RESP 2 or RESP 3 as the server wrote it, for
 * one who hands it on.
 *
 * A reply that lies whole within the bytes given is handed over in place, without a copy. Otherwise
 * its bytes are kept until its end comes, up to a bound. A longer reply is passed over without
 * being kept, and is told as too long. One of more than KW_RAW_PASSES times the bound has no end
 * that is worth the wait: the connection is given up. RESP 3's push messages answer nothing and are
 * passed over.
 *
 * Pure: no I/O, no loop. One thread.
 */
#ifndef KW_REDIS_RAW_H
#define KW_REDIS_RAW_H

#include "redis/reply.h"
#include "redis/resp_frame.h"

/* A longer reply than so many times `most` breaks the reader. */
#define KW_RAW_PASSES 16

struct kw_raw_reader;

/* The sink is told KW_REPLY_RAW, or KW_REPLY_TOO_LONG for one of more than `most` bytes. */
struct kw_raw_reader *kw_raw_reader_new(size_t most, kw_reply_sink sink, void *arg);
void kw_raw_reader_free(struct kw_raw_reader *reader);

/* KW_E_PROTOCOL: no RESP, or a reply without an end; every later call fails the same way. */
int kw_raw_reader_feed(
	struct kw_raw_reader *reader, const void *data, size_t length, struct kw_error *error);

#endif
