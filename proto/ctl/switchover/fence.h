/*
 * The fence of a switch-over: writes wait at the old primary. It is closed, renewed before it ends,
 * and opened when the switch-over is undone.
 *
 * The old proxy asks its primary for a pause, which ends by itself. So the fence is gone if nobody
 * renews it in time, if the primary starts anew, or if another client ends the pause. What was
 * acknowledged then and came too late for the agent would be lost. So a step that relies on the
 * fence asks whether it stood.
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
 * it ended before it was renewed.
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

/*
 * Which run of the primary has the fence, and how many events came from it. Remember that, and see
 * whether it is the same still: then nothing was written meanwhile. KW_E_STATE: it is not.
 */
int kw_switchover_fence_note_run(struct kw_switchover *run, struct kw_error *error);
int kw_switchover_fence_note_events(struct kw_switchover *run, struct kw_error *error);
int kw_switchover_fence_unbroken(struct kw_switchover *run, struct kw_error *error);

#endif
