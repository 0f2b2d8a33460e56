/*
 * Canaries: a few known keys of each database, to tell whether the database was flushed. Pure.
 *
 * A tracking null says "some database was flushed", but not which. Take a key that was in the table
 * before the null, is there after it, and raised no event since. It proves that its database was
 * not flushed: a flush would have taken it, and a write that brought it back would have raised an
 * event. So a FLUSHDB of one database costs the others one EXISTS a canary instead of a scan.
 *
 * One thread.
 */
#ifndef KW_PROXY_FEED_NOTIFY_CANARY_H
#define KW_PROXY_FEED_NOTIFY_CANARY_H

#include "base/slice.h"

#include <stdint.h>

#define KW_CANARIES 4       /* a database */
#define KW_CANARY_BYTES 128 /* longer keys are not taken */

enum kw_canary_state {
	KW_CANARY_NONE, /* the place is free */
	KW_CANARY_UNTOUCHED,
	KW_CANARY_TOUCHED, /* an event named it since the last kw_canary_watch, or it is new since
			    */
};

struct kw_canary {
	uint32_t length;
	enum kw_canary_state state;
	uint8_t name[KW_CANARY_BYTES];
};

struct kw_canaries;

struct kw_canaries *kw_canaries_new(void);
void kw_canaries_free(struct kw_canaries *canaries);

/* The table has this key: take it as a canary if one is wanted. */
void kw_canary_offer(struct kw_canaries *canaries, uint32_t database, struct kw_slice key);

/* The key is gone; a database is. */
void kw_canary_gone(struct kw_canaries *canaries, uint32_t database, struct kw_slice key);
void kw_canary_forget_database(struct kw_canaries *canaries, uint32_t database);

/* From now on events are noted: none is touched yet. */
void kw_canary_watch(struct kw_canaries *canaries);

/* An event named the key. */
void kw_canary_touch(struct kw_canaries *canaries, uint32_t database, struct kw_slice key);

/* The KW_CANARIES places of a database; NULL when it never had one. */
struct kw_canary *kw_canary_of(struct kw_canaries *canaries, uint32_t database);

#endif
