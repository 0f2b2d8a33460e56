/*
 * Which keys a request reads or writes, for the judge of a client's own writes (forward/own.h).
 *
 * The catalog says which words are keys. That is not enough for commands that can write others:
 * scripts, options that name keys (SORT STORE), another database (COPY, MOVE), a whole database.
 * Such a command, and one that the catalog does not know, writes all keys.
 *
 * Pure; any thread.
 */
#ifndef KW_AGENT_GATEWAY_SERVE_OWN_KEYS_H
#define KW_AGENT_GATEWAY_SERVE_OWN_KEYS_H

#include "base/slice.h"
#include "gateway/forward/own.h"

#include <stddef.h>
#include <stdint.h>

/* A request that changes keys. */
void kw_own_keys_written(
	const struct kw_slice *words, size_t count, uint32_t database, struct kw_own_keys *keys);

/* A request that the table answers; its number of words fits. */
void kw_own_keys_read(
	const struct kw_slice *words, size_t count, uint32_t database, struct kw_own_keys *keys);

#endif
