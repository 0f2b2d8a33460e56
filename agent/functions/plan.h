/*
 * What must be done so that a local server has the function libraries of the table. Pure.
 *
 *   of the table         in the local server    then
 *   a library            lacks, or another      it is loaded
 *   a library            the same               nothing
 *   a library            a cursor of its name   the plan is CLASH: nothing is done
 *   no such library      a library              it is deleted
 *   no library at all    some                   HELD, unless the table says that it is meant
 *
 * The set of the table was read whole and verified, and libraries are few. So what it lacks is
 * deleted here. The one case that looks like a loss is a primary that came back empty: it has no
 * library at all. Cursors of agents are in neither set (rdb/libraries.h).
 */
#ifndef KW_AGENT_FUNCTIONS_PLAN_H
#define KW_AGENT_FUNCTIONS_PLAN_H

#include "base/buffer.h"
#include "local/libraries.h"
#include "rdb/libraries.h"

#include <stdint.h>

enum kw_plan_verdict {
	KW_PLAN_EQUAL,  /* nothing need be done */
	KW_PLAN_CHANGE, /* `change` must be carried out */
	KW_PLAN_HELD,   /* `held` libraries would go */
	KW_PLAN_CLASH,  /* `clash` is the name of a cursor here */
};

/* May all libraries go, if the table has none? */
enum kw_plan_absence {
	KW_PLAN_ABSENCE_DOUBTED, /* the primary can have lost them */
	KW_PLAN_ABSENCE_MEANT,   /* a command took them, or a person has approved it */
};

struct kw_plan {
	enum kw_plan_verdict verdict;
	struct kw_libraries_change change; /* points into `local`, and into the next two */
	struct kw_slice *deleted;
	struct kw_buffer payload;
	size_t held;
	struct kw_slice clash; /* points into `table` */
};

/*
 * Zeroed memory becomes a plan; close it in any case. Both sets stay until then. rdb_version: of
 * the local server, which refuses payloads of later ones.
 */
void kw_plan_make(struct kw_plan *plan, const struct kw_libraries *table,
	const struct kw_libraries *local, enum kw_plan_absence absence, uint16_t rdb_version);
void kw_plan_close(struct kw_plan *plan);

#endif
