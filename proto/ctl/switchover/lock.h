/*
 * One switch-over at a time: two that take turns with the terms would undo each other's steps.
 *
 * The lock is flock(2) on the directory with the agent's control socket. It needs no file, and it
 * ends with the program, however that ends.
 */
#ifndef KW_CTL_SWITCHOVER_LOCK_H
#define KW_CTL_SWITCHOVER_LOCK_H

#include "ctl/switchover/run.h"

/*
 * Take it, or wait for it until run->options.timeout_s have passed. It is held until the program
 * ends. KW_E_REFUSED: another program has it. KW_E_STATE: interrupted. KW_E_IO: the directory cannot
 * be opened.
 */
int kw_switchover_lock(struct kw_switchover *run, struct kw_error *error);

#endif
