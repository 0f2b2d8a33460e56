/*
 * Where does a reply end? RESP 2 and RESP 3, for those who hand replies on as bytes.
 *
 *   +OK            -ERR …         :17        $5 hello     *2 … …       RESP 2
 *   _  #t  ,1.5  (123…  !9 ERR …  =8 txt:…   %1 k v  ~2 … …  >2 … …    RESP 3
 *   |1 name value before any of them: an attribute, a part of the reply that follows
 *
 * Each byte is given once, in order, in pieces of any length; nothing is kept but where the parser
 * stands. What no server sends is refused: an unknown type, a line above 64 KiB, numbers of more
 * than 18 digits, replies nested deeper than 32, RESP 3's strings of unknown length.
 *
 * Pure; one thread.
 */
#ifndef KW_REDIS_RESP_FRAME_H
#define KW_REDIS_RESP_FRAME_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_RESP_FRAME_DEPTH 32
#define KW_RESP_FRAME_LINE_MAX_BYTES ((size_t)64 * 1024)

enum kw_resp_frame_result {
	KW_RESP_FRAME_PARTIAL, /* all bytes were taken, and the reply goes on */
	KW_RESP_FRAME_WHOLE,   /* the reply ended; the bytes after it are the next one's */
	KW_RESP_FRAME_BROKEN,  /* no reply; the error says why. No byte may be given any more */
};

enum kw_resp_frame_state {
	KW_RESP_FRAME_TYPE,   /* the first byte of a reply, or of an element */
	KW_RESP_FRAME_LINE,   /* text up to the end of the line */
	KW_RESP_FRAME_NUMBER, /* a length or a count, up to the end of the line */
	KW_RESP_FRAME_LINE_END,
	KW_RESP_FRAME_BYTES, /* of a string of known length, its line end included */
};

struct kw_resp_frame_level {
	uint64_t left; /* elements that have not come whole */
	bool attribute;
};

/* Zeroed: before the first byte. */
struct kw_resp_frame {
	enum kw_resp_frame_state state;
	uint8_t first;   /* the type of the reply; of an attribute until the reply itself begins */
	uint8_t type;    /* of the element that is being read */
	bool negative;   /* NUMBER */
	uint32_t digits; /* NUMBER */
	uint64_t number; /* NUMBER, then BYTES: how many are left */
	size_t line_bytes; /* LINE */
	uint32_t depth;
	struct kw_resp_frame_level levels[KW_RESP_FRAME_DEPTH];
};

/* Take bytes; *used of them belong to this reply. After WHOLE the next reply may follow. */
enum kw_resp_frame_result kw_resp_frame_take(struct kw_resp_frame *frame, const uint8_t *data,
	size_t length, size_t *used, struct kw_error *error);

#endif
