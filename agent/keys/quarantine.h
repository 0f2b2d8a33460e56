/*
 * Keys whose newest value the local server refused for good (a payload it cannot load, a database
 * it does not have). They are wrong locally, so an agent with one of them is never warm. A key
 * leaves when a later version or its deletion was applied, or a whole snapshot is applied anew.
 *
 * Keys have the names of the local server here, which the applier uses and the server's own answers
 * do.
 *
 * KW_QUARANTINE_KEYS are known, in 16 MiB at most, by a hash of 128 bits (two keys of one hash
 * would count as one). The names of KW_QUARANTINE_NAMES among them are kept, the first
 * KW_QUARANTINE_KEY bytes of each. Beyond that, refusals are only counted, and that count ends with
 * the next snapshot. One thread.
 */
#ifndef KW_AGENT_KEYS_QUARANTINE_H
#define KW_AGENT_KEYS_QUARANTINE_H

#include "base/hash.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_QUARANTINE_KEYS ((size_t)1 << 18)
#define KW_QUARANTINE_NAMES 1024
#define KW_QUARANTINE_KEY 128
#define KW_QUARANTINE_REASON 128

struct kw_quarantined {
	struct kw_hash128 hash;
	uint32_t database;
	uint32_t key_length; /* of the whole key */
	char key[KW_QUARANTINE_KEY];
	char reason[KW_QUARANTINE_REASON]; /* the server's answer, as printable ASCII */
};

struct kw_quarantine_slot;

struct kw_quarantine {
	struct kw_quarantined *keys;
	uint32_t listed;                  /* entries of keys */
	struct kw_quarantine_slot *slots; /* every key known; capacity is a power of two, or 0 */
	size_t capacity, count;
	uint64_t unknown; /* refusals beyond KW_QUARANTINE_KEYS */
	uint64_t ever;    /* entered since start */
	/*
	 * For an applier that refuses changes before earlier ones are applied. A key that enters is
	 * noted with the place `entering`. A key with a place beyond `leaving` does not leave: it
	 * was refused after what is applied now. Both are 0 if changes are refused and applied in
	 * one order.
	 */
	uint64_t entering, leaving;
	/* Told of each key that enters, also of one beyond those that are known. NULL: nobody. */
	void (*entered)(void *arg, uint32_t database, struct kw_slice key);
	void *arg;
};

/* Zeroed memory is an empty quarantine. */
void kw_quarantine_close(struct kw_quarantine *quarantine);

void kw_quarantine_enter(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key,
	struct kw_slice reason);

/* Is the key known to be in it? */
bool kw_quarantine_has(
	const struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key);

/* The key was applied: it leaves, if it was there. */
void kw_quarantine_leave(struct kw_quarantine *quarantine, uint32_t database, struct kw_slice key);

/* The database was flushed; and all of it will be applied anew. */
void kw_quarantine_leave_database(struct kw_quarantine *quarantine, uint32_t database);
void kw_quarantine_clear(struct kw_quarantine *quarantine);

static inline uint64_t kw_quarantine_count(const struct kw_quarantine *quarantine)
{
	return quarantine->count + quarantine->unknown;
}

#endif
