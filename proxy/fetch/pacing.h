/*
 * Pacing: INFO is asked for what our fetching costs the primary, and the pace (pace.h) gets the
 * figures.
 *
 * The answers might lack figures (a server that counts differently, a proxy between). Then the pace
 * stays as it was: without a limit if nothing was ever measured.
 *
 * The caller owns the struct and calls kw_pacing_tick every KW_PACE_LOOK_US. Loop thread only.
 */
#ifndef KW_PROXY_FETCH_PACING_H
#define KW_PROXY_FETCH_PACING_H

#include "fetch/data.h"
#include "fetch/pace.h"
#include "fetch/waiting.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_pacing_state {
	KW_PACING_IDLE,
	KW_PACING_ASKED,   /* INFO cpu and INFO commandstats are on their way */
	KW_PACING_HAS_CPU, /* … and the first has been answered */
};

struct kw_pacing {
	struct kw_pace pace;
	struct kw_data_connection *data;
	const char *address; /* of the primary */
	enum kw_pacing_state state;
	uint64_t asked_us;
	uint64_t busy_times;          /* of the connection, then */
	uint64_t process;             /* of the primary, in its own pid namespace; 0: unknown */
	struct kw_waiting waiting;    /* for a core; since the proxy began */
	struct kw_pace_counts counts; /* of the look under way */
};

/* data and address outlive it. share: see kw_pace_init. */
void kw_pacing_init(struct kw_pacing *pacing, struct kw_data_connection *data, const char *address,
	double share, uint64_t now_us);

/* Ask, if it is time for a look and the last one is over. The data connection must be open. */
void kw_pacing_tick(struct kw_pacing *pacing, uint64_t process, uint64_t now_us);

#endif
