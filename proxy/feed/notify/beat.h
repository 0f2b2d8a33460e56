/*
 * The proof that events still come. Each ten seconds a key of the proxy's own (source.canary_key)
 * gets a value of each type in turn, and goes again. The server must tell each of these changes
 * before it answers a PING sent after them. So each class of events is proved by itself.
 *
 *   ┌─────────┐ due ┌─────────┐ all are  ┌──────────┐ some time ┌─────────┐ EXISTS is ┌────────┐
 *   │ RESTING │────▶│ WRITING │─────────▶│ EXPIRING │──────────▶│ READING │──────────▶│ ASKING │
 *   └─────────┘     └─────────┘ answered └──────────┘ later     └─────────┘ answered  └────────┘
 *        ▲               │                    │                      │                    │ pong
 *        └───────────────┴────────────────────┴── stopped ───────────┴────────────────────┘
 *
 * All writes are sent in one go, so the server makes them without another client's command between
 * them. The last one leaves a key that lives for a millisecond. READING: the server deletes it, at
 * the latest when it is asked for it.
 *
 * What the server refuses, or does not do, says nothing about its class. If a class was written
 * twice in a row without its event, the server has not got its flag. The key is not replicated.
 *
 * Pure: the owner sends. Loop thread only.
 */
#ifndef KW_PROXY_FEED_NOTIFY_BEAT_H
#define KW_PROXY_FEED_NOTIFY_BEAT_H

#include "base/slice.h"
#include "base/sm.h"
#include "feed/flags.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_BEAT_EVERY_US UINT64_C(10000000)
#define KW_BEAT_PROVES_US (KW_BEAT_EVERY_US * 3) /* an event proves its class for so long */
#define KW_BEAT_EXPIRED_US UINT64_C(10000)       /* the last key's time is over by then */
#define KW_BEAT_MISSED 2                         /* in a row: the flag is lacking */
#define KW_BEAT_ARGUMENTS 4

enum kw_beat_state {
	KW_BEAT_RESTING,
	KW_BEAT_WRITING,
	KW_BEAT_EXPIRING,
	KW_BEAT_READING,
	KW_BEAT_ASKING,
};

/* A write, in the order in which they are sent: command, key, arguments. */
struct kw_beat_write {
	const char *command;
	const char *arguments[KW_BEAT_ARGUMENTS]; /* ended by NULL, or by the array */
	enum kw_flag_class class;                 /* of its event */
	const char *event;
	const char *acl; /* what the user needs for it */
};

#define KW_BEAT_WRITES 13
const struct kw_beat_write *kw_beat_write(size_t index);

struct kw_beat {
	struct kw_sm sm;
	uint64_t begun_us;                   /* the last one; 0: none on this connection */
	uint64_t written_us;                 /* EXPIRING: since when */
	size_t answered;                     /* writes of this one */
	kw_flag_classes done;                /* the server did a write of these */
	kw_flag_classes denied;              /* … or its user may not, as of the last time */
	kw_flag_classes heard;               /* … and told an event of these */
	uint32_t missed[KW_FLAG_CLASSES];    /* in a row */
	uint64_t proven_us[KW_FLAG_CLASSES]; /* begun_us of the last that was told; 0: none */
};

/* What came of a write. */
enum kw_beat_answer {
	KW_BEAT_DONE,
	KW_BEAT_NOTHING, /* it did nothing, or it was refused for what passes */
	KW_BEAT_DENIED,  /* a permission is missing */
};

void kw_beat_init(struct kw_beat *beat);

/* The owner must send all writes now. */
bool kw_beat_begin(struct kw_beat *beat, uint64_t now_us);

/* The next write is answered. */
void kw_beat_answered(struct kw_beat *beat, enum kw_beat_answer answer, uint64_t now_us);

/* The owner must send EXISTS now. */
bool kw_beat_reads(struct kw_beat *beat, uint64_t now_us);

/* It was answered; gone: the key is not there. The owner must send the PING now. */
void kw_beat_read(struct kw_beat *beat, bool gone);

/* An event named the key. */
void kw_beat_heard(struct kw_beat *beat, struct kw_slice event);

/* The PING was answered; ok: with a pong. Returns the classes whose flag is lacking. */
kw_flag_classes kw_beat_passed(struct kw_beat *beat, bool ok);

/* The one under way is given up, and proves nothing. */
void kw_beat_stop(struct kw_beat *beat);

/* The connection is gone. A class that was lacking on it is lacking after one more. */
void kw_beat_reset(struct kw_beat *beat);

/* The classes whose events came within KW_BEAT_PROVES_US. */
kw_flag_classes kw_beat_proven(const struct kw_beat *beat, uint64_t now_us);

#endif
