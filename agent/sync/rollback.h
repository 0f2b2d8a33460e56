/*
 * Writes that a failover lost, counted.
 *
 * A key counts if the value that the new primary has differs from the one that was applied last,
 * and that one was applied from the table of the deposed term after the history of the new primary
 * branched. Where it branched, the new primary says: up to second_offset its history is that of the
 * deposed one. And a proxy tells about each second up to which version its table was in the data
 * before which offset (table/history.h). So versions after the newest look before the branch are of
 * after the branch, to one look or two. What the agent had not applied yet lies before the branch,
 * or was never here.
 *
 *   ┌──────┐ a snapshot of a higher term begins      ┌──────────┐ it is level
 *   │ IDLE │────────────────────────────────────────▶│ SNAPSHOT │────────────▶ IDLE
 *   └──────┘                                         └──────────┘
 *      │     the table goes on, in a higher term     ┌──────────┐ complete and live
 *      └────────────────────────────────────────────▶│ CHANGES  │────────────▶ IDLE
 *                                                    └──────────┘
 *
 * SNAPSHOT: the table is another proxy's, or it is read anew; in every mode of loading. What the
 * new primary wrote in its own term does not count: nothing of it is visible as lost. A key that it
 * has not counts. CHANGES: the proxy followed the primary; the changes that it finds by comparing
 * count, and so does what the new primary wrote until the proxy was live. The two look alike.
 *
 * Not counted: what came by a snapshot, or to an agent before this one; keys beyond those of
 * recent.h, which the log then says; and all, if no id links the two histories, or the proxies do
 * not tell of looks.
 */
#ifndef KW_AGENT_SYNC_ROLLBACK_H
#define KW_AGENT_SYNC_ROLLBACK_H

#include "authority/term.h"
#include "index/recent.h"
#include "table/history.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_ROLLBACK_LOOKS 256 /* some four minutes: as long as a primary can be cut off */

enum kw_rollback_counts { KW_ROLLBACK_IDLE, KW_ROLLBACK_SNAPSHOT, KW_ROLLBACK_CHANGES };

struct kw_rollback_look {
	uint64_t version, offset;
};

struct kw_rollback {
	struct kw_term term; /* of the table whose changes were applied last */
	struct kw_recent recent;
	struct {
		uint64_t epoch;                 /* of the table that told them … */
		char replid[KW_HISTORY_ID + 1]; /* … and the history */
		uint64_t count;                 /* ever; the last ones are in the ring */
		struct kw_rollback_look ring[KW_ROLLBACK_LOOKS];
	} looks;

	enum kw_rollback_counts counts;
	struct kw_term counted;     /* the higher term, since it began */
	struct kw_recent_span span; /* versions of the deposed term that count */
	uint64_t border;            /* later records are the new primary's own */
	bool partial;               /* there can be more than are counted */
	uint64_t keys;              /* counted so far */
};

/* Note what this history tells of a look. The same look again is nothing new. */
void kw_rollback_look(struct kw_rollback *rollback, uint64_t epoch, const struct kw_history *table);

/*
 * A higher term begins, with this table. False, and IDLE: nothing is counted. `why`: the sentence,
 * "" if nothing was lost because the history is the same.
 */
bool kw_rollback_begin(struct kw_rollback *rollback, enum kw_rollback_counts counts,
	const struct kw_term *term, const struct kw_history *table, const char **why);

/* Does this record of the new term count? Not IDLE. */
bool kw_rollback_judge(struct kw_rollback *rollback, const struct kw_record_view *record);

/* All was judged. Returns how many keys more count: those that the new primary has not. */
uint64_t kw_rollback_end(struct kw_rollback *rollback, uint64_t now_ms);

#endif
