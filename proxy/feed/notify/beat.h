/*
 * The proof that events still come: a key of the proxy's own (source.canary_key) is written each
 * ten seconds, and the server must tell that before it answers a PING sent after the write.
 *
 *   ┌─────────┐ due    ┌─────────┐ OK   ┌────────┐
 *   │ RESTING │───────▶│ WRITING │─────▶│ ASKING │ PING
 *   └─────────┘ write  └─────────┘      └────────┘
 *        ▲                  │ refused        │ pong: was the event there before?
 *        └──────────────────┴────────────────┘
 *
 * Two in a row without an event: the server may have lost its notification flags. Where CONFIG is
 * taken away, nothing else tells that while no other client writes. The key is not replicated.
 *
 * Pure: the owner sends. Loop thread only.
 */
#ifndef KW_PROXY_FEED_NOTIFY_BEAT_H
#define KW_PROXY_FEED_NOTIFY_BEAT_H

#include <stdbool.h>
#include <stdint.h>

#define KW_BEAT_EVERY_US UINT64_C(10000000)
#define KW_BEAT_PROVES_US (KW_BEAT_EVERY_US * 3) /* an event proves the flags for so long */
#define KW_BEAT_MISSED 2 /* in a row: a doubt, and another one each further minute */
#define KW_BEAT_MISSED_AGAIN 6

enum kw_beat_state { KW_BEAT_RESTING, KW_BEAT_WRITING, KW_BEAT_ASKING };

/* Zeroed: nothing was written yet. */
struct kw_beat {
	enum kw_beat_state state;
	bool heard; /* since the write that is under way */
	uint32_t missed;
	uint64_t begun_us;  /* the last write; 0: none on this connection */
	uint64_t proven_us; /* the last one that was heard; 0: none */
};

/* The owner must write the key now. */
bool kw_beat_is_due(struct kw_beat *beat, uint64_t now_us);
/* The server answered. True: the owner must send the PING. */
bool kw_beat_written(struct kw_beat *beat, bool ok);
/* An event named the key. */
void kw_beat_heard(struct kw_beat *beat);
/* The PING was answered; ok: with a pong. True: there is a doubt about the flags. */
bool kw_beat_answered(struct kw_beat *beat, bool ok);
/* The connection is gone. */
void kw_beat_stop(struct kw_beat *beat);

static inline bool kw_beat_proves(const struct kw_beat *beat, uint64_t now_us)
{
	return beat->proven_us > 0 && now_us - beat->proven_us < KW_BEAT_PROVES_US;
}

#endif
