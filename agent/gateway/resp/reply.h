/*
 * Replies to Redis clients, in RESP 2 or RESP 3, appended to a buffer.
 *
 *               RESP 2               RESP 3
 *   nil         $-1                  _
 *   nil array   *-1                  _
 *   map         *2n                  %n
 *   set         *n                   ~n
 *   double      $ the text           , the text
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_RESP_REPLY_H
#define KW_AGENT_GATEWAY_RESP_REPLY_H

#include "base/buffer.h"
#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

enum kw_resp_version { KW_RESP_2 = 2, KW_RESP_3 = 3 };

/* How a server writes a number that is no integer. */
enum kw_score_style {
	KW_SCORE_17,       /* 17 significant digits: Redis up to 7.0 */
	KW_SCORE_SHORTEST, /* the fewest digits that say the same number: from 7.2 on, and Valkey */
};

struct kw_reply_to {
	struct kw_buffer *out;
	enum kw_resp_version version;
	enum kw_score_style style;
};

/* Without line ends. An error begins with its class: "ERR …", "WRONGTYPE …". */
void kw_reply_simple(const struct kw_reply_to *to, const char *text);
void kw_reply_error(const struct kw_reply_to *to, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void kw_reply_integer(const struct kw_reply_to *to, int64_t number);
void kw_reply_bulk(const struct kw_reply_to *to, struct kw_slice bytes);
void kw_reply_nil(const struct kw_reply_to *to);
void kw_reply_nil_array(const struct kw_reply_to *to);

/* `count` replies follow; of a map twice as many: name, value, … */
void kw_reply_array(const struct kw_reply_to *to, size_t count);
void kw_reply_set(const struct kw_reply_to *to, size_t count);
void kw_reply_map(const struct kw_reply_to *to, size_t count);

/* A score as text. Returns its length. */
#define KW_SCORE_TEXT 64
size_t kw_score_text(double score, enum kw_score_style style, char text[KW_SCORE_TEXT]);
void kw_reply_double(const struct kw_reply_to *to, double number);

#endif
