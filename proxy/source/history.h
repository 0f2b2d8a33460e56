/*
 * What the proxy publishes about whose data the table holds: its own identity, and the replication
 * history that the primary tells. Pure; one thread.
 */
#ifndef KW_PROXY_SOURCE_HISTORY_H
#define KW_PROXY_SOURCE_HISTORY_H

#include "redis/server.h"
#include "table/table.h"

/*
 * A proxy of this name that has not asked its primary yet. A name can be longer than what is
 * published of it, and hold any bytes: the identity is made of all of it.
 */
void kw_source_history_init(struct kw_history *history, const char *name);

/* The data are those that this proxy told of before; who confirms the primary is asked anew. */
void kw_source_history_resume(struct kw_history *history, const struct kw_history *before);

/* The primary has told who it is. An id that is none counts as not told. */
void kw_source_history_told(struct kw_history *history, const struct kw_server_identity *identity);

/* What it is. databases: how many it has; KW_DATABASES_MOST or more: it does not say. */
void kw_source_history_server(
	struct kw_history *history, const struct kw_server_identity *identity, uint32_t databases);

/* What was known at the look before. All zero: there was none. */
struct kw_source_look {
	uint64_t count;   /* which look it was */
	uint64_t version; /* of the table then */
	char replid[KW_HISTORY_ID + 1];
};

/*
 * The server was looked at. The question was put after the answer to the one before, and what the
 * table held then was read before that: so it was in the data before the offset that is told now.
 * Only of a primary, and only if its history is the same. True: `history` says something new.
 */
bool kw_source_history_looked(struct kw_history *history, struct kw_source_look *before,
	const struct kw_server_identity *identity, uint64_t version);

#endif
