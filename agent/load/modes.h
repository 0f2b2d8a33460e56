/*
 * The apply modes: which loader and which applier make each of them.
 *
 *   apply.mode   snapshot           changes
 *   commands     RESTORE            RESTORE, UNLINK, FLUSHDB      apply/commands.c
 *   replica      RDB on the link    the replication stream        primary/replica.c
 *   hybrid       RDB on the link    as commands                   hybrid.c
 *   discard      -                  -                             apply/discard.c
 */
#ifndef KW_AGENT_LOAD_MODES_H
#define KW_AGENT_LOAD_MODES_H

#include "apply/apply.h"

extern const struct kw_apply_ops kw_apply_hybrid;

/* By apply.mode; NULL for a word that is none. */
const struct kw_apply_ops *kw_apply_find(const char *mode);

/* Does it act as the server's primary, at least until a snapshot is loaded? */
bool kw_apply_leads(const struct kw_apply_ops *ops);

#endif
