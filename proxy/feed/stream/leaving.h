/*
 * Is the server about to end, and does it wait for this reader?
 *
 *   ┌───────┐ REPLCONF GETACK ┌────────┐ INFO server: shutdown_in_milliseconds
 *   │ QUIET │────────────────▶│ ASKING │────────────────────────────────────▶ told
 *   └───────┘◀────────────────└────────┘
 *       │      no                    ▲
 *       │ GETACK, asked just now     │ a tenth of a second after the last question
 *       ▼                            │
 *   ┌───────┐────────────────────────┘
 *   │ AGAIN │◀── GETACK while ASKING, after the answer
 *   └───────┘
 *
 * Since Redis 7.0 a shutdown pauses writes and waits until all replicas have acknowledged, for
 * shutdown-timeout (10 s by default; prepareForShutdown in server.c). This reader never does. When
 * it closes, the server goes on at once. GETACK comes when a shutdown begins, and also for each
 * WAIT of a client, so it is only a hint.
 *
 * The owner provides the struct, zeroed but for its first members. Loop thread only.
 */
#ifndef KW_PROXY_FEED_STREAM_LEAVING_H
#define KW_PROXY_FEED_STREAM_LEAVING_H

#include "fetch/data.h"

#include <stdint.h>

/* WAIT can come ten thousand times a second. */
#define KW_LEAVING_EVERY_US UINT64_C(100000)

enum kw_leaving_state {
	KW_LEAVING_QUIET,
	KW_LEAVING_ASKING,
	KW_LEAVING_ASKING_AGAIN, /* a GETACK came after the question */
	KW_LEAVING_AGAIN,        /* … and it was answered, or it was asked just now */
};

struct kw_leaving {
	struct kw_data_connection *data;
	void (*leaves)(void *arg); /* it does; told once for each question */
	void *arg;

	enum kw_leaving_state state;
	uint64_t asked_us;
};

/* GETACK came. */
void kw_leaving_suspect(struct kw_leaving *leaving, uint64_t now_us);

/* The data connection is gone: nothing is asked any more. */
void kw_leaving_stop(struct kw_leaving *leaving);

void kw_leaving_turn(struct kw_leaving *leaving, uint64_t now_us);
/* UINT64_MAX: never. */
uint64_t kw_leaving_ready_us(const struct kw_leaving *leaving);

#endif
