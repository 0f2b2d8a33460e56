/* What the files of the sync share, and nobody else uses. */
#ifndef KW_AGENT_SYNC_INTERNAL_H
#define KW_AGENT_SYNC_INTERNAL_H

#include "sync.h"

/*
 * phases.c: the only way from one phase to another. The caller first does what the phase needs (its
 * invariant is checked here), and then fills in the phase's part of `in`.
 */
void kw_sync_enter(struct kw_sync *sync, enum kw_sync_phase phase, const char *reason);

/* sink.c: about so many keys come with a snapshot; bounded, because the superblock says it. */
uint64_t kw_sync_keys_expected(const struct kw_sync *sync);

#endif
