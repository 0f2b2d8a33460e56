/* What the files of the sync share, and nobody else uses. */
#ifndef KW_AGENT_SYNC_INTERNAL_H
#define KW_AGENT_SYNC_INTERNAL_H

#include "sync.h"

/*
 * phases.c: the only way from one phase to another. The caller first does what the phase needs (its
 * invariant is checked here), and then fills in the phase's part of `in`.
 */
void kw_sync_enter(struct kw_sync *sync, enum kw_sync_phase phase, const char *reason);

/* settle.c, in TAIL: begin a reconcile if one is due for what the local data lack. */
void kw_sync_settle_debt(struct kw_sync *sync, uint64_t now_us);
/* Has the sync been level since the last snapshot began? Sets `settled`. */
void kw_sync_learn_level(struct kw_sync *sync, uint64_t now_us);

/* sink.c: about so many keys come with a snapshot; bounded, because the superblock says it. */
uint64_t kw_sync_keys_expected(const struct kw_sync *sync);

#endif
