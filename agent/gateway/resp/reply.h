/*
 * Replies to Redis clients, in RESP 2 or RESP 3, appended to a buffer.
 *
 *               RESP 2               RESP 3
 *   nil         $-1                  _
 *   nil array   *-1                  _
 *   map         *2n                  %n
 *   set         *n                   ~n
 *   double      $ the text           , the text
 *   verbatim    $ the text           = txt: the text
 *
 * Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_RESP_REPLY_H
#define KW_AGENT_GATEWAY_RESP_REPLY_H

#include "base/buffer.h"
#include "base/slice.h"
#include "gateway/resp/release.h"

#include <stddef.h>
#include <stdint.h>

enum kw_resp_version { KW_RESP_2 = 2, KW_RESP_3 = 3 };

struct kw_reply_to {
	struct kw_buffer *out;
	enum kw_resp_version version;
	struct kw_release release; /* the server's: how some replies look */
};

/* Without line ends. An error begins with its class: "ERR …", "WRONGTYPE …". */
void kw_reply_simple(const struct kw_reply_to *to, const char *text);
void kw_reply_error(const struct kw_reply_to *to, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

void kw_reply_integer(const struct kw_reply_to *to, int64_t number);
void kw_reply_bulk(const struct kw_reply_to *to, struct kw_slice bytes);
/* Text for a person, as INFO replies it: a bulk in RESP 2. */
void kw_reply_verbatim(const struct kw_reply_to *to, struct kw_slice text);

void kw_reply_nil(const struct kw_reply_to *to);
void kw_reply_nil_array(const struct kw_reply_to *to);

/* `count` replies follow; of a map twice as many: name, value, … */
void kw_reply_array(const struct kw_reply_to *to, size_t count);
void kw_reply_set(const struct kw_reply_to *to, size_t count);
void kw_reply_map(const struct kw_reply_to *to, size_t count);

/*
 * Numbers as text. Each returns the text's length.
 *
 *   double  as the server's addReplyDouble: 17 significant digits up to Redis 7.0, the fewest that
 *           say the same number from 7.2 on and in Valkey
 *   packed  as the server keeps a score in a listpack: the same, and integers as such
 *   long    17 significant digits, in every release: what ZSCAN says of a large set
 */
#define KW_NUMBER_TEXT 64
size_t kw_double_text(double number, struct kw_release release, char text[KW_NUMBER_TEXT]);
size_t kw_packed_text(double number, struct kw_release release, char text[KW_NUMBER_TEXT]);
size_t kw_long_text(double number, char text[KW_NUMBER_TEXT]);
/* A number whose text is known, and one whose is not. */
void kw_reply_number(const struct kw_reply_to *to, struct kw_slice text);
void kw_reply_double(const struct kw_reply_to *to, double number);

#endif
