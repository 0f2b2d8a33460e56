/*
 * A link that leads to another run of a server than the one that the majority names, at the same
 * address. Behind a service address, a connection that stands goes on to the server of before,
 * while a new one reaches the present primary. So the link is dialled anew after a while, and then
 * more and more rarely. Perhaps the sentinels name a run that has ended. They learn of the present
 * one in their next INFO, after up to 10 s.
 *
 *   ┌──────┐ ELSEWHERE                 ┌─────────┐ 2 to 4 s, later up to a minute
 *   │ CALM │──────────────────────────▶│ WAITING │────────────────────────────▶ dial; CALM
 *   └──────┘◀──────────────────────────└─────────┘
 *              UNKNOWN, or REACHED, after which the next wait is short again
 *
 * Pure but for the seed of the waits; one thread.
 */
#ifndef KW_PROXY_SOURCE_REDIAL_H
#define KW_PROXY_SOURCE_REDIAL_H

#include "base/backoff.h"

#include <stdbool.h>

#define KW_REDIAL_FIRST_MS 4000
#define KW_REDIAL_MOST_MS 60000

/* What is known of the link. */
enum kw_redial_finding {
	KW_REDIAL_UNKNOWN,   /* it is not up, or no run is named at its address */
	KW_REDIAL_REACHED,   /* it leads to the run that is named */
	KW_REDIAL_ELSEWHERE, /* another run is named at its address */
};

struct kw_redial {
	struct kw_backoff waits;
	uint64_t at_us; /* WAITING: dial then; 0: CALM */
};

void kw_redial_init(struct kw_redial *redial);

/* True: dial anew now. */
bool kw_redial_judge(struct kw_redial *redial, enum kw_redial_finding finding, uint64_t now_us);

#endif
