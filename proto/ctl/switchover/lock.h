/*
 * One switch-over at a time: two that take turns with the terms would undo each other's steps.
 *
 * Both proxies are locked, the old one first (their method `lock`). So it does not matter on which
 * host a switch-over runs, by which tunnel it comes, or in which direction it goes. The lock ends
 * with this program, because its connection does, or KW_SWITCHOVER_LOCK_S after the last renewal.
 * What needs it says the token that came with it: a program that was stopped for too long can do
 * nothing any more.
 *
 * An old proxy that is away is not locked. It is asked for nothing, either.
 *
 * One thread.
 */
#ifndef KW_CTL_SWITCHOVER_LOCK_H
#define KW_CTL_SWITCHOVER_LOCK_H

#include "ctl/switchover/run.h"

#define KW_SWITCHOVER_LOCK_S 60

/*
 * Take both, or wait for them until run->options.timeout_s have passed. KW_E_REFUSED: another
 * program has one of them. KW_E_STATE: interrupted.
 */
int kw_switchover_lock(struct kw_switchover *run, struct kw_error *error);

/* Renew them if that is due. KW_E_STATE: one of them is lost. */
int kw_switchover_lock_keep(struct kw_switchover *run, struct kw_error *error);

/*
 * Both are held now, taken once more if they were lost. KW_E_REFUSED: another program has one.
 * Other codes: a proxy does not answer.
 */
int kw_switchover_lock_again(struct kw_switchover *run, struct kw_error *error);

void kw_switchover_unlock(struct kw_switchover *run);

#endif
