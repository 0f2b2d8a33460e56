/*
 * Up to which moment are the changes of the table applied here? A lookup finds the writer's
 * present, perhaps not published yet (table/lookup.h). A difference to the local server counts only
 * if everything that the writer had written by then is applied. Otherwise the tail brings it.
 *
 *   ┌──────┐ equal since a moment  ┌───────────┐ another superblock ┌───────┐ equal since then
 *   │ MARK │──after the mark──────▶│ PUBLISHED │───────────────────▶│ EQUAL │─────────────────▶
 *   └──────┘                       └───────────┘                    └───────┘ covered: the mark
 *
 * A moment of equality after the mark says that a superblock was read that is no older than the
 * mark. What was written before the mark and not yet published is in the next one at the latest.
 * When the data are equal to that one, all of it is applied. A mark takes one or two heartbeats of
 * the proxy. Pure; one thread.
 */
#ifndef KW_AGENT_AUDIT_COVER_H
#define KW_AGENT_AUDIT_COVER_H

#include <stdbool.h>
#include <stdint.h>

enum kw_cover_step { KW_COVER_MARK, KW_COVER_PUBLISHED, KW_COVER_EQUAL };

/* Zeroed memory covers nothing; the first mark is set by the first step. */
struct kw_cover {
	enum kw_cover_step step;
	uint64_t mark_us;
	uint64_t publication; /* PUBLISHED: a later one is waited for */
	uint64_t second_us;   /* EQUAL: our clock when it was known */
	uint64_t covered_us;  /* all that was written before is applied; 0: nothing */
};

/*
 * Look at the present: equal_us of sync/progress.h, and the publication of the newest superblock
 * known. Call it as often as these change.
 */
void kw_cover_look(
	struct kw_cover *cover, uint64_t equal_us, uint64_t publication, uint64_t now_us);

/* Is all applied that was written to the table before this moment of our clock? */
static inline bool kw_cover_has(const struct kw_cover *cover, uint64_t moment_us)
{
	return cover->covered_us > moment_us;
}

#endif
