/*
 * A set of keys that the table lacks although the primary has them. Pure: a few questions and
 * changes that its two owners (store.h, unreadable.h) share. One thread.
 */
#ifndef KW_PROXY_SOURCE_MISSING_H
#define KW_PROXY_SOURCE_MISSING_H

#include "keys/databases.h"
#include "keys/dirty.h"
#include "keys/key_table.h"

#include <stdint.h>

#define KW_SHOWN_BYTES 80 /* of a key's name in the log */

/* For "%.*s" in a log line. */
static inline int kw_shown(struct kw_slice key)
{
	return (int)(key.length < KW_SHOWN_BYTES ? key.length : KW_SHOWN_BYTES);
}

/* NULL: the key is not in the set. */
struct kw_key *kw_missing_find(
	const struct kw_key_table *set, uint32_t database, struct kw_slice key);

/* Add the databases of its keys. */
void kw_missing_databases(struct kw_key_table *set, struct kw_databases *databases);

/* The key must not be in the set. */
struct kw_key *kw_missing_add(struct kw_key_table *set, uint32_t database, struct kw_slice key);

/* Take out the key if it is in the set; take out all keys of a database. */
void kw_missing_remove(struct kw_key_table *set, uint32_t database, struct kw_slice key);
void kw_missing_remove_database(struct kw_key_table *set, uint32_t database);

/*
 * A sweep asks for these keys, too, because neither the scan nor the table tells whether they are
 * gone.
 */
void kw_missing_sweep(
	struct kw_key_table *set, const struct kw_databases *databases, struct kw_dirty *dirty);

#endif
