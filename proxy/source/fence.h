/*
 * The fence: what the source does with the mandate (mandate/mandate.h).
 *
 * A primary that is not confirmed may have been deposed. The feed goes on, and changed keys collect
 * in the dirty set, but nothing is read from the server: the table stays at the last confirmed
 * state. When the server is confirmed again in the same run and history, the keys that changed are
 * fetched, and no sweep is needed. The dirty set has one entry a key, so it is bounded by the keys.
 *
 * A replica that is not confirmed is a standby. It is read on, so that its table is ready when it
 * is promoted; only its state says that it is not the primary.
 *
 * With redis.address = redis:// the fence also says which server is followed. If another run is
 * named at the very address that is followed, the link is dialled anew (redial.h).
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_FENCE_H
#define KW_PROXY_SOURCE_FENCE_H

#include "source/completeness.h"

struct kw_source;

/* As of the last judgement. */
enum kw_mandate_state kw_source_mandate(const struct kw_source *source);
enum kw_fence kw_source_fence(const struct kw_source *source);

/* It is not confirmed, and need not be: another server is the primary (mandate/mandate.h). */
bool kw_source_stands_by(const struct kw_source *source);

/* As of now, for what is not undone by a judgement that comes later. */
enum kw_fence kw_source_fence_now(const struct kw_source *source);

/*
 * As of now: may a key of the proxy's own be written to the server? It must be confirmed as the
 * primary, and this proxy must not let the writes of all clients wait (pause.h).
 */
bool kw_source_may_write(const struct kw_source *source);

/* Judge the mandate now. True: the state or the term changed. The caller tells the table. */
bool kw_source_judge(struct kw_source *source);

#endif
