/*
 * The steps that prove that the new server has all which was acknowledged at the old primary. Both
 * rest behind the fence, and each part of the way is looked at:
 *
 *   old primary ──compare── table of the old proxy ──verify── server of the agent
 *
 * Errors as those of kw_switchover_do. One thread.
 */
#ifndef KW_CTL_SWITCHOVER_PROOF_H
#define KW_CTL_SWITCHOVER_PROOF_H

#include "ctl/switchover/run.h"

/* Wait until all that the table had when this began is in the agent's server. */
int kw_switchover_get_level(struct kw_switchover *run, struct kw_error *error);

/* To LEVEL, COMPARED and PROVEN. */
int kw_switchover_level(struct kw_switchover *run, struct kw_error *error);
int kw_switchover_compare(struct kw_switchover *run, struct kw_error *error);
int kw_switchover_prove(struct kw_switchover *run, struct kw_error *error);

#endif
