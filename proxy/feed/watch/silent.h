/*
 * Keys that can change without an event: streams (XACK, XREADGROUP with a known consumer, XCLAIM,
 * XAUTOCLAIM), HyperLogLogs (PFCOUNT rewrites its cache, PFDEBUG makes a sparse one dense) and
 * vector sets (VADD, VREM, VSETATTR). Pure.
 *
 * The set knows which keys of the table are of these kinds. When the server's counters say that one
 * of those commands ran, kw_silent_stir makes one round over all keys of the kind due.
 * kw_silent_next hands them out one by one, at the caller's pace. Stirring again during a round
 * begins another full one from where it stands.
 *
 * One thread.
 */
#ifndef KW_PROXY_FEED_WATCH_SILENT_H
#define KW_PROXY_FEED_WATCH_SILENT_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_silent_kind {
	KW_SILENT_NONE,
	KW_SILENT_STREAM,
	KW_SILENT_HLL,
	KW_SILENT_VECTOR,
	KW_SILENT_KINDS,
};

/* By the first bytes of a DUMP payload: its type, a HyperLogLog's magic, a module's id. */
enum kw_silent_kind kw_silent_classify(struct kw_slice payload);

struct kw_silent;

struct kw_silent *kw_silent_new(uint64_t seed);
void kw_silent_free(struct kw_silent *silent);

/* The table's key is of this kind now; KW_SILENT_NONE: of another, or gone. */
void kw_silent_note(
	struct kw_silent *silent, uint32_t database, struct kw_slice key, enum kw_silent_kind kind);

/* A database was flushed. */
void kw_silent_forget_database(struct kw_silent *silent, uint32_t database);

uint64_t kw_silent_count(const struct kw_silent *silent, enum kw_silent_kind kind);

/* Commands of this kind might have run: every key of the kind is due once. */
void kw_silent_stir(struct kw_silent *silent, enum kw_silent_kind kind);

/* How many keys are due? */
uint64_t kw_silent_due(const struct kw_silent *silent);

/*
 * mark remembers the keys that are due at this moment (and forgets the last mark). passed: all of
 * them were handed out, or went.
 */
void kw_silent_mark(struct kw_silent *silent);
bool kw_silent_passed(const struct kw_silent *silent);

/* Is the key known as one of this kind? */
bool kw_silent_knows(const struct kw_silent *silent, uint32_t database, struct kw_slice key,
	enum kw_silent_kind kind);

/* The next key that is due; false when none is. The name is valid until the next call. */
bool kw_silent_next(struct kw_silent *silent, uint32_t *database, struct kw_slice *key);

#endif
