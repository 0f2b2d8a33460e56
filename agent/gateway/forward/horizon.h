/*
 * Up to which moment of our own clock is all that the primary did in the table? No clock of another
 * host is compared with ours: the looks at the superblock alone decide.
 *
 *   our looks         B ─────────────── next ─────────────────────── next ───▶
 *   shows publication n                 n+2, written at h            fresh_us ≥ h
 *
 * The look that began at B showed publication n, so n+1 was published after B, and the proxy took
 * the time h of publication n+2 later still. Then fresh_us ≥ h says: all that the primary executed
 * before h, and so before B, is in the table. That is what `covered_us` = B means. It lags by the
 * proxy's freshness interval and two publications (heartbeats, if nothing else is published).
 *
 * The proxy's clock is only compared with itself. If it was set back between two of its times,
 * fresh_us is beyond the superblock's own time, and the look proves nothing.
 *
 * Silent writes are excepted, as for all of fresh_us (layout.h). Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_FORWARD_HORIZON_H
#define KW_AGENT_GATEWAY_FORWARD_HORIZON_H

#include <stdbool.h>
#include <stdint.h>

/* Moments that wait for fresh_us. If there are more, the last two become one. */
#define KW_HORIZON_MARKS 64

struct kw_horizon_mark {
	uint64_t begun_us;    /* our clock */
	uint64_t publication; /* shown by the look that began then */
	uint64_t wanted_us;   /* the proxy's clock: what fresh_us must reach; 0: not known yet */
};

/* Zeroed before the first look. */
struct kw_horizon {
	uint64_t epoch, publication; /* of the last look; epoch 0: there was none */
	uint64_t covered_us;         /* our clock; 0: nothing is known */
	struct kw_horizon_mark next; /* the one that gets its time next; begun_us 0: none */
	struct kw_horizon_mark marks[KW_HORIZON_MARKS];
	unsigned first, count;
};

struct kw_horizon_look {
	uint64_t begun_us; /* our monotonic clock when the READ was posted, or earlier */
	uint64_t epoch, publication, heartbeat_us, fresh_us; /* of the superblock it brought */
};

/*
 * A look ended. Those of another order than they began, and such without new facts, do no harm.
 * Another epoch: nothing is covered until this one proves it.
 */
void kw_horizon_look(struct kw_horizon *horizon, const struct kw_horizon_look *look);

#endif
