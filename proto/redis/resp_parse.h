/*
 * The most frequent replies, parsed in place without a copy: a status, an error, a number, nil, a
 * bulk string, an array of a few of these (a pub/sub message). Everything else is left to hiredis.
 *
 * Pure. Any thread.
 */
#ifndef KW_REDIS_RESP_PARSE_H
#define KW_REDIS_RESP_PARSE_H

#include "redis/redis.h"

#define KW_RESP_ELEMENTS 8

enum kw_resp_parsed {
	KW_RESP_DONE,    /* *used bytes were a reply */
	KW_RESP_PARTIAL, /* the bytes may become one; more are needed */
	KW_RESP_OTHER,   /* a reply that is not parsed here, or not RESP at all */
};

/*
 * The reply at the front of the bytes. Its text and elements point into data and elements. *needed,
 * when PART: the reply is at least that long.
 */
enum kw_resp_parsed kw_resp_parse(const uint8_t *data, size_t length, struct kw_reply *reply,
	struct kw_reply elements[KW_RESP_ELEMENTS], size_t *used, size_t *needed);

#endif
