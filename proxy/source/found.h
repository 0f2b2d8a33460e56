/*
 * What an audit found: keys that differ from the table although the feed told no change of them.
 *
 *   an audit's fetch differs ──▶ SUSPECTED ──told within that time──▶ (gone: it was only ahead)
 *                                    └──a later barrier passed, and time──▶ counted, and logged
 *
 * A fetch can be ahead of the feed, so a difference alone says nothing. All that the server did
 * before the fetch has been told when a barrier passes that was asked for after it. Silent commands
 * are looked for each watch interval, so that and some seconds are waited for as well. What the
 * look finds is told at a pace: the owner does not ask for a judgement before all of it is told.
 *
 * In a bucket without a place a suspicion is left out, and counted as such. The memory is made at
 * the first suspicion. Pure. The caller provides the struct. One thread.
 */
#ifndef KW_PROXY_SOURCE_FOUND_H
#define KW_PROXY_SOURCE_FOUND_H

#include "base/slice.h"

#include <stddef.h>
#include <stdint.h>

#define KW_FOUND_BUCKETS 1024 /* a power of two */
#define KW_FOUND_PLACES 4
#define KW_FOUND_WAIT_US UINT64_C(5000000) /* besides the watch interval */
#define KW_FOUND_NAME 60                   /* bytes of a name that are kept for the log */

struct kw_found_place {
	uint64_t hash, noted_us; /* noted_us 0: it is free */
	uint64_t barriers;       /* that had been asked for then */
	uint32_t database;
	uint8_t length;
	char name[KW_FOUND_NAME];
};

struct kw_found {
	uint64_t seed;
	struct kw_found_place *places; /* NULL: nothing was ever suspected */
	uint64_t watch_us;             /* from look to look at silent commands; the owner sets it */
	uint32_t suspected;            /* now */
	uint64_t look_us;              /* the next look at them */
	uint64_t differences, left_out;
};

/* seed: unpredictable. */
void kw_found_init(struct kw_found *found, uint64_t seed);
void kw_found_close(struct kw_found *found);

/* An audit found it changed. barriers: that have been asked for until now. */
void kw_found_suspect(struct kw_found *found, uint32_t database, struct kw_slice key,
	uint64_t barriers, uint64_t now_us);

/* A change of it is told. */
void kw_found_told(struct kw_found *found, uint32_t database, struct kw_slice key);

/* Something else explains them all: a doubt, or a flush. */
void kw_found_forget(struct kw_found *found);

/*
 * So many barriers have passed, and nothing that silent commands did is still to be told. fn is
 * called for each difference (NULL: for none).
 */
typedef void (*kw_found_fn)(void *arg, uint32_t database, struct kw_slice name);
void kw_found_passed(
	struct kw_found *found, uint64_t barriers, uint64_t now_us, kw_found_fn fn, void *arg);

#endif
