/*
 * Which keys of the primary are replicated: those of the databases to follow, except the cursor of
 * an agent and the proxy's own key. Pure. The source owns it and changes it; all others read it.
 */
#ifndef KW_PROXY_KEYS_SCOPE_H
#define KW_PROXY_KEYS_SCOPE_H

#include "base/slice.h"
#include "keys/databases.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_scope {
	struct kw_databases databases;
	struct kw_slice cursor_name; /* agents keep it in database 0; empty: there is none */
	struct kw_slice canary_key;  /* the proxy writes it in database 0 (beat.h); the same */
};

static inline bool kw_scope_names(struct kw_slice name, struct kw_slice key)
{
	return name.length > 0 && kw_slice_equal(key, name);
}

static inline bool kw_scope_has(
	const struct kw_scope *scope, uint32_t database, struct kw_slice key)
{
	if (!kw_databases_has(&scope->databases, database))
		return false;
	return database != 0 || (!kw_scope_names(scope->cursor_name, key) &&
					!kw_scope_names(scope->canary_key, key));
}

#endif
