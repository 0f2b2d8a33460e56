/*
 * The brake: deletions by inference wait for approval when they are too many.
 *
 * A key can be deleted because the table's log says so: a tombstone, or a flush. That always
 * passes. A snapshot says nothing of the keys that it does not have. To delete these is an
 * inference, and it is wrong if the primary came back empty, or with old data. So a share of the
 * local keys may go that way (apply.max_prune), and KW_BRAKE_FLOOR keys in any case. Beyond that
 * nothing is deleted, and the brake holds:
 *
 *   ┌──────┐ too many would be deleted ┌───────┐
 *   │ FREE │──────────────────────────▶│ HOLDS │ approved: the finding may be carried out
 *   └──────┘◀──────────────────────────└───────┘
 *             fewer are found, approved, or the finding is of no use any more
 *
 * An approval is good for one table (its epoch), and for about as many deletions as were found. It
 * outlives the agent, in the cursor.
 * Pure but for the seed of the pauses; one thread.
 */
#ifndef KW_AGENT_SYNC_BRAKE_H
#define KW_AGENT_SYNC_BRAKE_H

#include "base/backoff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So many keys may be deleted whatever the share is. */
#define KW_BRAKE_FLOOR 1000
/* Between two looks whether the keys have come back. */
#define KW_BRAKE_LOOK_LEAST_MS 2000
#define KW_BRAKE_LOOK_MOST_MS 60000

/* So long a table that was weighed and allowed is not weighed again: a load can begin repeatedly.
 */
#define KW_BRAKE_PASS_US 60000000

enum kw_brake_state {
	KW_BRAKE_FREE,
	KW_BRAKE_HOLDS,
};

/* What a snapshot would delete. */
struct kw_brake_finding {
	uint64_t epoch;     /* of the table */
	uint64_t deletions; /* local keys that it does not have */
	uint64_t keys;      /* local keys in scope */
	bool estimated;     /* from a sample */
	uint64_t least;     /* by the numbers of keys alone at least so many; 0: not known */
};

struct kw_brake {
	double share; /* apply.max_prune; 1: the brake is off */
	enum kw_brake_state state;
	struct kw_brake_finding finding; /* HOLDS */
	struct {
		uint64_t epoch; /* 0: there is none */
		uint64_t most;  /* deletions */
	} approval;
	struct {
		uint64_t epoch; /* this table was weighed, and was allowed; 0: none */
		uint64_t until_us;
	} pass;
	struct kw_backoff looks;
	uint64_t look_us; /* HOLDS: look again then */
	uint64_t holds;   /* how often it began to hold */
};

void kw_brake_init(struct kw_brake *brake, double share);

/* So many of these keys may be deleted by inference. */
uint64_t kw_brake_bound(double share, uint64_t keys);

/* A server with so many keys: can too many of them be deleted? If not, they need not be counted. */
bool kw_brake_must_count(const struct kw_brake *brake, uint64_t epoch, uint64_t keys);

/* May these be deleted: by the share, or because they are approved? */
bool kw_brake_allows(const struct kw_brake *brake, const struct kw_brake_finding *finding);

/* Too many were found. True: it did not hold before, which the log should say. */
bool kw_brake_hold(struct kw_brake *brake, const struct kw_brake_finding *finding, uint64_t now_us);

/* Keys that a prune must delete at least, by the numbers of keys of the server and of the table. */
uint64_t kw_brake_least(uint64_t local, uint64_t table);

/*
 * HOLDS: is another walk worth its cost? local: keys that the server has now; table: keys that the
 * table has. At least the difference would be deleted. So a walk is of use if that is allowed, or
 * if it is far less than when the finding was counted. The operator then reads, and approves, what
 * would be deleted now.
 */
bool kw_brake_must_look(const struct kw_brake *brake, uint64_t local, uint64_t table);

/* This table was weighed, and may replace what is there. Was it, a short while ago? */
void kw_brake_let_pass(struct kw_brake *brake, uint64_t epoch, uint64_t now_us);
bool kw_brake_has_passed(const struct kw_brake *brake, uint64_t epoch, uint64_t now_us);

/* It holds no more: fewer were found, or the finding is of no use. The approval stays. */
void kw_brake_release(struct kw_brake *brake);

/* The operator approves the finding. Only while it HOLDS. */
void kw_brake_approve(struct kw_brake *brake);
/* All deletions of this table's snapshot are approved: the operator consented to replace data. */
void kw_brake_consent(struct kw_brake *brake, uint64_t epoch);
/* So many deletions of this table's snapshot are approved; 0: none. The cursor says it, and … */
uint64_t kw_brake_approved(const struct kw_brake *brake, uint64_t epoch);
/* … the next agent reads it there. */
void kw_brake_recall(struct kw_brake *brake, uint64_t epoch, uint64_t most);
/* Approval and pass were used, or the data are others. */
void kw_brake_forget(struct kw_brake *brake);

/* The finding in words, with the remedy. Only while it HOLDS. */
void kw_brake_words(const struct kw_brake *brake, char *text, size_t room);

static inline bool kw_brake_holds(const struct kw_brake *brake)
{
	return brake->state == KW_BRAKE_HOLDS;
}

#endif
