/*
 * SWAPDB, as the replication stream tells it: the keys of two databases change places in the table.
 *
 * No server is asked, and all of it is one publication. That needs a table that is exact about both
 * (values.h): no key of theirs waits for a fetch, none was fetched ahead of the stream, and no
 * sweep mends. Its work is bounded, because a loop turn does it, and so is the work of a second.
 * The table must have room for all that is written. Otherwise the caller doubts both.
 *
 * Loop thread only.
 */
#ifndef KW_PROXY_SOURCE_SWAP_H
#define KW_PROXY_SOURCE_SWAP_H

#include "keys/scope.h"
#include "source/store.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_SWAP_KEYS 65536                 /* of both databases */
#define KW_SWAP_BYTES ((size_t)64 << 20)   /* of their names and values */
#define KW_SWAP_PLACES (UINT64_C(1) << 19) /* of the index of all databases, walked over twice */

/*
 * Both are followed, and differ. begin: of the command in the stream. False: nothing was done.
 */
bool kw_swap(struct kw_store *store, const struct kw_scope *scope, const uint32_t databases[2],
	uint64_t begin);

#endif
