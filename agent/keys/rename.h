/*
 * Records on their way into the local server get the names that they have there (naming.h).
 * What comes before the pair (load/pair.h) speaks of the table, what follows of the local server.
 *
 * A batch is a view of each record and, in one buffer, the names that changed. So it takes as much
 * memory as the keys of the batch, which are in memory already, and a prefix for each. Pure; one
 * thread.
 */
#ifndef KW_AGENT_KEYS_RENAME_H
#define KW_AGENT_KEYS_RENAME_H

#include "naming.h"
#include "table/record.h"

#include <stddef.h>

/* Zeroed memory with `naming` filled in. */
struct kw_rename {
	const struct kw_naming *naming; /* outlives it */
	struct kw_record_view views[KW_RECORD_BATCH_MAX];
	struct kw_buffer names;
};

/*
 * At most KW_RECORD_BATCH_MAX records. The result holds until the next call; the records themselves
 * if every key has its own name.
 */
const struct kw_record_view *kw_rename_records(
	struct kw_rename *rename, const struct kw_record_view *records, size_t count);

void kw_rename_close(struct kw_rename *rename);

#endif
