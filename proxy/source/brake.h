/*
 * The brake: how many keys may a sweep delete only because the primary does not have them? Pure.
 *
 * A primary that came back empty lacks all of them, and no event says so. Beyond a share of the
 * keys, and beyond KW_BRAKE_FLOOR, the sweep is held until the keys come back, or until an operator
 * approves that they go.
 *
 *   before the sweep:  |■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■■|
 *   the scan saw:      |■■■■■■■■■■■■■■■■■|                      share = missing / whole
 *   not seen:                            |eee|mmmmmmmmmmmmmm|
 *                                    explained   missing        whole = before - explained
 *
 * explained: the key's expiry has passed, or a flush of its database was counted. Such a key is not
 * part of the whole either: it says nothing about how much of the data is still there.
 *
 * While the sweep is held, the keys are counted again once the table has changed or a missing key
 * has expired, with pauses in proportion to what a count takes. Now and then, at growing pauses,
 * the primary is scanned again.
 *
 * The caller owns the struct. Times are of the monotonic clock. One thread.
 */
#ifndef KW_PROXY_SOURCE_BRAKE_H
#define KW_PROXY_SOURCE_BRAKE_H

#include <stdbool.h>
#include <stdint.h>

#define KW_BRAKE_FLOOR 1000 /* so many keys may always go */

#define KW_BRAKE_RECOUNT_US UINT64_C(1000000) /* between two counts, at least … */
#define KW_BRAKE_RECOUNT_TIMES 20             /* … and so many times what a count takes */
#define KW_BRAKE_RESCAN_FIRST_US UINT64_C(10000000)
#define KW_BRAKE_RESCAN_MOST_US UINT64_C(3600000000)

struct kw_brake_count {
	uint64_t before;    /* keys of the table when the sweep began, in all databases */
	uint64_t missing;   /* of them, not seen, and nothing explains why */
	uint64_t explained; /* not seen, and an expiry or a counted flush explains why */
	uint64_t expiry_ms; /* the first of the missing expires so long after the count began; 0:
			       none */
};

enum kw_brake_verdict {
	KW_BRAKE_PASS,
	KW_BRAKE_HOLD,
};

/* What a held sweep must do. */
enum kw_brake_due {
	KW_BRAKE_NOTHING,
	KW_BRAKE_RECOUNT,
	KW_BRAKE_RESCAN,
};

struct kw_brake {
	double share;                  /* source.max_missing; 1: never hold */
	struct kw_brake_count count;   /* the one under way, or the last */
	struct kw_brake_count finding; /* what is held; nothing missing: the brake is off */
	uint64_t approved;             /* so many missing keys of this finding may go */
	uint64_t begun_us;             /* the count */
	uint64_t version;              /* the table's, when the count began */
	uint64_t recount_us, rescan_us, rescan_pause_us;
	uint64_t held_us; /* when the brake went on */
	bool falling;     /* fewer were unseen than at the count before: keys are coming back */
};

/* A missing key expires at this time of the primary; the count began at begun_ms. */
void kw_brake_note_expiry(struct kw_brake_count *count, uint64_t expires_ms, uint64_t begun_ms);

/* Is so much missing that it must wait? share 1 and above: never. */
bool kw_brake_is_beyond(const struct kw_brake_count *count, double share);

/* The keys that should be there. */
uint64_t kw_brake_whole(const struct kw_brake_count *count);

/* A count begins: of a table that had `before` keys when the sweep began. */
void kw_brake_begin(struct kw_brake *brake, uint64_t before, uint64_t version, uint64_t now_us);

/* It ended; the numbers are in brake->count. KW_BRAKE_HOLD: they are the finding now. */
enum kw_brake_verdict kw_brake_judge(struct kw_brake *brake, uint64_t now_us);

/* The sweep goes on, or was given up: nothing is held, and no approval is left over. */
void kw_brake_release(struct kw_brake *brake);

/* The finding may be deleted, also if a scan for it is under way. False: nothing is held. */
bool kw_brake_approve(struct kw_brake *brake);

void kw_brake_set_share(struct kw_brake *brake, double share);

/* Of a held sweep. version: the table's. KW_BRAKE_RESCAN sets the next, longer pause. */
enum kw_brake_due kw_brake_due(struct kw_brake *brake, uint64_t version, uint64_t now_us);
uint64_t kw_brake_ready_us(const struct kw_brake *brake, uint64_t version);

static inline bool kw_brake_is_on(const struct kw_brake *brake)
{
	return brake->finding.missing > 0;
}

#endif
