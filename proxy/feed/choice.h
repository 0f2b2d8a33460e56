/*
 * Which feed is the next: the rules of source.feed=auto. Pure.
 *
 *   ┌────────┐ refused, or not attached five times in a row   ┌───────────────┐
 *   │ STREAM │───────────────────────────────────────────────▶│ NOTIFICATIONS │
 *   └────────┘◀── another server answered, or a pause is over └───────────────┘
 *
 * The pause begins with five minutes, and is doubled up to a day. A stream that was followed for
 * five minutes makes it short again. When it is over, the next connection tries the stream. After a
 * trouble that may have ended (no refusal) the present connection is given up for that.
 *
 * Times are of the monotonic clock.
 */
#ifndef KW_PROXY_FEED_CHOICE_H
#define KW_PROXY_FEED_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

/* So many attempts in a row that did not attach the stream. */
#define KW_CHOICE_FAILURES 5

#define KW_CHOICE_PAUSE_US UINT64_C(300000000)
#define KW_CHOICE_PAUSE_MOST_US UINT64_C(86400000000)

enum kw_choice_feed { KW_CHOICE_STREAM, KW_CHOICE_NOTIFICATIONS };

/* What ended the last attempt with the stream. */
enum kw_choice_trouble {
	KW_CHOICE_NONE,
	KW_CHOICE_PASSES,
	KW_CHOICE_REFUSED,
};

struct kw_choice {
	enum kw_choice_feed next;
	enum kw_choice_trouble trouble;
	uint32_t failures;    /* of the stream, in a row */
	uint64_t pause_us;    /* the next one */
	uint64_t retry_us;    /* NOTIFICATIONS: the end of this one */
	uint64_t followed_us; /* STREAM: ready since then; 0: not since its start */
};

void kw_choice_init(struct kw_choice *choice);

/* The stream failed. True: notifications are next. */
bool kw_choice_failed(struct kw_choice *choice, bool refused, uint64_t now_us);

/* The stream is ready. */
void kw_choice_followed(struct kw_choice *choice, uint64_t now_us);

/* The feed is stopped. another: the server is not the one at which the stream failed. */
void kw_choice_stopped(struct kw_choice *choice, bool another, uint64_t now_us);

/* Give this connection of notifications up, and try the stream again? */
bool kw_choice_is_due(const struct kw_choice *choice, uint64_t now_us);

#endif
