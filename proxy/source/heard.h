/*
 * A server that is a replica: up to which moment does it have what its own primary did?
 *
 *   its primary   ──── PING ───────────────── SET ──────────
 *   the replica        │ offset 1014          │ offset 1041
 *   questions     ?────────?────────?────────────?────────?──
 *                          └ heard since the question before this one
 *
 * Only the primary knows what a replica lacks. What the replica knows is when it heard of its
 * primary last: its data are as of then, as far as anybody here can tell. Its offset tells when: if
 * it has grown since the last question, something came after that, and was executed. If it has not,
 * nothing was. INFO tells the seconds, too. They count in the first answer alone: they begin anew
 * with each piece of a large command, of which nothing is executed yet. Bytes that wait at the
 * primary or on the network are not seen.
 *
 *   ┌──────┐ ask ┌───────┐
 *   │ IDLE │────▶│ ASKED │──▶ told
 *   └──────┘◀────└───────┘
 *
 * Times are of the monotonic clock. The owner provides the struct. Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_HEARD_H
#define KW_PROXY_SOURCE_HEARD_H

#include "base/slice.h"
#include "fetch/data.h"

#include <stdint.h>

/* A silence that is worth a line: agents with the default warm.lag_ms are not warm meanwhile. */
#define KW_HEARD_SELDOM_US UINT64_C(2500000)

struct kw_heard {
	struct kw_data_connection *data;
	void (*told)(void *arg); /* it answered */
	void *arg;

	enum { KW_HEARD_IDLE, KW_HEARD_ASKED } state;
	uint64_t asked_us;    /* the last question */
	uint64_t answered_us; /* the question that was answered last; 0: none was */
	uint64_t offset;      /* … and the offset that it told */
	uint64_t us;          /* its primary was heard then, or later; 0: not known */
	enum { KW_HEARD_OFTEN, KW_HEARD_SELDOM } silence; /* the longest since the reset */
};

void kw_heard_init(struct kw_heard *heard, struct kw_data_connection *data, void (*told)(void *arg),
	void *arg);

/* The data connection is gone, or the server is no replica. */
void kw_heard_reset(struct kw_heard *heard);

/* Nothing happens if it is asked already. */
void kw_heard_ask(struct kw_heard *heard, uint64_t now_us);

/* INFO replication, which was asked for at asked_us. Pure. */
void kw_heard_take(struct kw_heard *heard, struct kw_slice info, uint64_t asked_us);

#endif
