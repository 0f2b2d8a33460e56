/*
 * The fence of a switch-over: writes wait at the old primary. It is closed, renewed before it ends,
 * and opened when the switch-over is undone.
 *
 * The old proxy asks its primary for a pause, which ends by itself. So the fence is gone if nobody
 * renews it in time, if the primary starts anew, or if another client ends the pause. What was
 * acknowledged then and came too late for the agent would be lost. With each answer the primary
 * says how many changes it has counted. From the first closing on that number must stand still: so
 * the fence was unbroken, whatever the proxy is told by events. If a save ended meanwhile, the
 * count began anew, and the proxy's count of events must do. If its flags are unproven, that cannot
 * do either.
 *
 * With --fence-command it is the operator's, and is only closed and opened.
 *
 * One thread.
 */
#ifndef KW_CTL_SWITCHOVER_FENCE_H
#define KW_CTL_SWITCHOVER_FENCE_H

#include "ctl/switchover/run.h"

#define KW_SWITCHOVER_FENCE_S 30 /* a tool that died leaves the primary paused for no longer */

/*
 * Close it for so long, or move its end away. Never shorter than KW_SWITCHOVER_FENCE_S. KW_E_STATE:
 * it ended before it was renewed, another run of the primary took it, or something was changed
 * there since it was closed first.
 */
int kw_switchover_fence_close(struct kw_switchover *run, double seconds, struct kw_error *error);

/* Renew it if that is due. */
int kw_switchover_fence_keep(struct kw_switchover *run, struct kw_error *error);

/* From now on the end comes by itself. */
void kw_switchover_fence_leave(struct kw_switchover *run);

/* Open it, if it may be closed. KW_E_REFUSED and others: it ends by itself, or by hand. */
int kw_switchover_fence_open(struct kw_switchover *run, struct kw_error *error);

/* KW_E_STATE: its time was over. */
int kw_switchover_fence_check(const struct kw_switchover *run, struct kw_error *error);

#endif
