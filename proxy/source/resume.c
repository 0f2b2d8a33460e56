/*
 * Going on with a table that a process before has filled (table/keep.h).
 *
 * What was published goes on: completeness, ticket, whose data they are. What only that process
 * knew is not taken over, and the reconcile that begins with the first connection finds it again:
 * keys that waited, that were too large or unreadable, and which keys have silent commands.
 */
#include "source/history.h"
#include "source/source_internal.h"

#include <assert.h>

void kw_source_go_on(struct kw_source *source)
{
	const struct kw_table_facts *facts = kw_table_facts(source->table);

	assert(source->link.ups == 0 && source->sweep.ended == 0);
	kw_source_history_resume(&source->history, kw_table_history(source->table));
	kw_ticket_resume(&source->ticket, facts->ticket);
	kw_store_resume(&source->store);
	if (!facts->complete)
		return;
	source->sweep.ended = source->sweep.clean = 1;
	source->state.completeness = KW_COMPLETENESS_COMPLETE;
}
