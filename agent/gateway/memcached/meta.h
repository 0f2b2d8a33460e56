/*
 * The flags of mg and me: single characters with a token after some of them.
 *
 * Pure; used by this room only.
 */
#ifndef KW_AGENT_GATEWAY_MEMCACHED_META_H
#define KW_AGENT_GATEWAY_MEMCACHED_META_H

#include "answer.h"

#define KW_MEMCACHED_FLAGS_MAX 17  /* of one mg */
#define KW_MEMCACHED_OPAQUE_MAX 31 /* characters */

/*
 * The words after the key of mg. NULL: how and opaque are set. Otherwise the reply that refuses
 * them, a line in memcached's words or, for what a gateway cannot do, in ours.
 */
const char *kw_memcached_meta_flags(struct kw_memcached_how *how, struct kw_slice *opaque,
	const struct kw_slice *words, size_t count);

#endif
