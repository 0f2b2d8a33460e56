/*
 * The memory of one context of zstd. It holds pieces of what passed through it. So it is left out
 * of core files and wiped when it is freed, as the buffers of READs are, and bounded: beyond the
 * bound zstd is told that there is none.
 *
 * zstd takes allocators by ZSTD_customMem only, which its header lists as for static linking. The
 * library of Debian 12 and 13 exports it, with the same form.
 */
#ifndef KW_REMOTE_TCP_ZSTD_MEMORY_H
#define KW_REMOTE_TCP_ZSTD_MEMORY_H

#include <stddef.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

struct kw_zstd_memory {
	size_t used, most;
};

/* memory outlives the context. */
ZSTD_customMem kw_zstd_memory(struct kw_zstd_memory *memory);

#endif
