/*
 * How old is the proof that the local data equal the table?
 *
 * The hashes of the keys are cut into ranges. A range is proven by one walk through it, when each
 * key that the walk met is settled: equal, mended, or replaced meanwhile by a newer change. The age
 * counts from the moment at which the walk entered the range, so no comparison in it is older. One
 * more range stands for the local keys that the table might lack, which a SCAN shows.
 *
 *   enter ──▶ open, open, … ──▶ leave ──▶ … close, close ──▶ proven since `enter`
 *
 * A few KB, whatever the number of keys. Pure; one thread.
 */
#ifndef KW_AGENT_AUDIT_PROOF_H
#define KW_AGENT_AUDIT_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#define KW_PROOF_BITS 8
#define KW_PROOF_RANGES (1u << KW_PROOF_BITS)
#define KW_PROOF_LOCAL KW_PROOF_RANGES /* the range of local keys */

struct kw_proof_range {
	uint64_t proven_us;  /* our clock; 0: never */
	uint64_t entered_us; /* by the walk that is in it, or was last; 0: it does not count */
	uint64_t open;       /* keys that are not settled */
	bool left;
};

struct kw_proof {
	struct kw_proof_range ranges[KW_PROOF_RANGES + 1];
};

/* Zeroed memory has proven nothing. Forget all: these are other data, or another table. */
void kw_proof_reset(struct kw_proof *proof);

/* The first range of hashes with keys that are not settled; KW_PROOF_RANGES: none. */
unsigned kw_proof_unsettled(const struct kw_proof *proof);

/* What is under way is given up. What was proven stays so. */
void kw_proof_abandon(struct kw_proof *proof);

static inline unsigned kw_proof_range_of(uint64_t hash)
{
	return (unsigned)(hash >> (64 - KW_PROOF_BITS));
}

/* The first hash of a range. */
static inline uint64_t kw_proof_first(unsigned range)
{
	return (uint64_t)range << (64 - KW_PROOF_BITS);
}

/* A range is walked from its beginning; what fails from now on keeps it from proof. */
void kw_proof_enter(struct kw_proof *proof, unsigned range, uint64_t now_us);

/*
 * The walk is about to hand out the entries of [from, next), which it began to read at began_us:
 * the ranges that begin there are entered. And: it has handed out all of them, each of them opened.
 * next UINT64_MAX: that was the end of the table.
 */
void kw_proof_walks(struct kw_proof *proof, uint64_t from, uint64_t next, uint64_t began_us);
void kw_proof_walked(struct kw_proof *proof, uint64_t from, uint64_t next);

/*
 * A key is looked at; it is settled; it cannot be settled. The last keeps its range from proof
 * until the next walk.
 */
void kw_proof_open(struct kw_proof *proof, unsigned range);
void kw_proof_close(struct kw_proof *proof, unsigned range);
void kw_proof_fail(struct kw_proof *proof, unsigned range);

/* All keys of the range were opened. */
void kw_proof_leave(struct kw_proof *proof, unsigned range);

/* The oldest proof is so old. UINT64_MAX: not everything has been proven yet. */
uint64_t kw_proof_age_us(const struct kw_proof *proof, uint64_t now_us);

#endif
