/*
 * What comes from a primary that nobody confirms any more. A client that writes there writes where
 * no agent follows, and a switch-over that goes on must know of it.
 *
 * Events are counted from the moment at which the mandate was lost. They are all that there was
 * only if the connection has stood since then. A proxy that was never confirmed knows nothing: the
 * one that was may have been this one, before it started anew.
 *
 * Pure. The caller owns the struct: all 0 at first.
 */
#ifndef KW_PROXY_SOURCE_LATE_H
#define KW_PROXY_SOURCE_LATE_H

#include <stdbool.h>
#include <stdint.h>

struct kw_late {
	uint64_t events; /* that had come when the mandate was lost last */
	uint64_t ups;    /* how often the link had been up then; 0: it was never lost */
};

/* What the source counts, now. */
struct kw_late_counts {
	uint64_t events, ups;
	bool up; /* the link */
};

/* The mandate is lost. */
static inline void kw_late_begin(struct kw_late *late, const struct kw_late_counts *now)
{
	*late = (struct kw_late){now->events, now->ups};
}

static inline uint64_t kw_late_events(const struct kw_late *late, const struct kw_late_counts *now)
{
	return now->events - late->events;
}

/* How often the events were out of sight since then. 0: all were counted. */
static inline uint64_t kw_late_losses(const struct kw_late *late, const struct kw_late_counts *now)
{
	return now->ups - late->ups + !now->up;
}

#endif
