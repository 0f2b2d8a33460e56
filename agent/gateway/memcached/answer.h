/*
 * Answers to memcached clients, from what was found for their keys.
 *
 *   get, gets   VALUE <key> 0 <bytes> [<cas>] … END     a key that is not there has no line
 *   mg          HD or VA <bytes>, and the flags in their order; EN: not there
 *   me          ME <key> exp= cas= size=; EN: not there
 *
 * The cas of a key is its version in the table: it grows with every change of the key, within one
 * epoch of the proxy. Client flags are 0: the server keeps none. The time to live is in seconds,
 * rounded up, so that a key that is there is never said to have none left.
 *
 * A key that could not be looked up, and a value that is no string, make the reply an error:
 * SERVER_ERROR and a sentence. It is never a miss. In a get of many keys, the error is the reply's
 * last line: nothing follows it, and no END.
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_MEMCACHED_ANSWER_H
#define KW_AGENT_GATEWAY_MEMCACHED_ANSWER_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"
#include "rdb/payload_visit.h"

#include <stddef.h>
#include <stdint.h>

#define KW_MEMCACHED_KEY_MAX 250
#define KW_MEMCACHED_RETURNED 6 /* flags of mg that come back in the reply: c f k O s t */

enum kw_memcached_verb {
	KW_MEMCACHED_GET,
	KW_MEMCACHED_GETS,
	KW_MEMCACHED_META_GET,
	KW_MEMCACHED_META_DEBUG,
};

/* How one key is answered. Eight bytes without pointers, to be kept with the question. */
struct kw_memcached_how {
	uint8_t verb;                         /* enum kw_memcached_verb */
	uint8_t ends : 1;                     /* the line's last key: END follows it */
	uint8_t value : 1;                    /* mg with v */
	uint8_t quiet : 1;                    /* mg with q: a miss has no reply */
	uint8_t base64 : 1;                   /* mg, me with b: the key came, and goes, as base64 */
	char returned[KW_MEMCACHED_RETURNED]; /* mg: in their order; after the last: 0 */
};

/* What was found for one key. */
struct kw_memcached_found {
	struct kw_slice key;     /* as it was looked up */
	struct kw_slice opaque;  /* mg with O: its token, without the O */
	struct kw_slice payload; /* DUMP payload; of a missing or expired key: no bytes */
	enum kw_value_kind kind; /* of the payload */
	uint64_t version;
	uint64_t expires_ms; /* 0: never */
	uint64_t now_ms;     /* by the same clock, the proxy's */
};

/*
 * One key's part of the reply. KW_E_ARGUMENT: the value is no string. Otherwise the errors of
 * kw_payload_visit. Nothing was appended then: append the error.
 */
int kw_memcached_answer(const struct kw_memcached_how *how, const struct kw_memcached_found *found,
	struct kw_buffer *out, struct kw_error *error);

/* SERVER_ERROR and the sentence, as one line. */
void kw_memcached_append_error(struct kw_buffer *out, const char *sentence);

#endif
