/*
 * A limit on what goes into the local server: so many bytes a second, of records on their way.
 *
 * It is kept by taking in less: while the limit is spent there is no room, so the reader stops, as
 * it does for a slow server. Nothing waits in memory, and no order changes. A record counts when it
 * is handed on. One that is larger than what is left puts the limit into debt: then nothing
 * follows until that is paid. So the limit holds over any time that is long against one record.
 *
 * Pure; the caller owns the struct; one thread.
 */
#ifndef KW_AGENT_LOAD_LIMIT_H
#define KW_AGENT_LOAD_LIMIT_H

#include "base/bucket.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_LIMIT_RECORD 64                        /* bytes of a command beside its key and value */
#define KW_LIMIT_GRANT_LEAST ((uint64_t)64 << 10) /* a smaller room would cost a READ a record */
#define KW_LIMIT_HOLDS_US 500000

struct kw_record_view;

struct kw_limit {
	struct kw_bucket bucket;
	uint64_t bytes;   /* handed on, ever */
	uint64_t held_us; /* when room was asked for last, and the limit was spent; 0: never */
};

/* bytes_per_second 0: no limit. A debt is forgiven. */
void kw_limit_set(struct kw_limit *limit, uint64_t bytes_per_second, uint64_t now_us);

/* As much of the room as the limit has left; asked whenever more could be handed on. */
uint64_t kw_limit_room(struct kw_limit *limit, uint64_t room, uint64_t now_us);

void kw_limit_spend(struct kw_limit *limit, const struct kw_record_view *records, size_t count,
	uint64_t now_us);

/* Was more wanted than it lets through, a moment ago? */
static inline bool kw_limit_holds(const struct kw_limit *limit, uint64_t now_us)
{
	return limit->held_us > 0 && now_us < limit->held_us + KW_LIMIT_HOLDS_US;
}

#endif
