/*
 * What keys of the table are called in the local server: other databases, other prefixes.
 *
 *   the table: database 0, old:7 ──kw_naming_local_*──▶ database 3, new:7 :the local server
 *                                ◀──kw_naming_table_*──
 *
 * Two keys that are followed never get one name, and each local name tells its key of the table, or
 * that it is of none. Deletions rest on that: a local key without a name in the table is another
 * owner's. So rules are refused unless
 *
 *   - no database is named twice on one side; no prefix of one side begins with another of it;
 *   - nothing that is followed keeps a name that a rule gives to another key (kw_naming_keeps_*).
 *
 * Why that is enough: two keys of one rule differ after their prefix. Names of two rules differ,
 * because their new prefixes do. A key without a rule has no name that begins with a new prefix.
 *
 * Pure; immutable once filled in; one thread.
 */
#ifndef KW_AGENT_KEYS_NAMING_H
#define KW_AGENT_KEYS_NAMING_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Each rule is tried for each key. */
#define KW_NAMING_DATABASES_MAX 64
#define KW_NAMING_PREFIXES_MAX 64
#define KW_NAMING_PREFIX_BYTES 256
#define KW_NAMING_KEEP_BYTES ((size_t)64 << 10) /* of the room for names, between two of them */

static inline bool kw_naming_begins_with(struct kw_slice text, struct kw_slice prefix)
{
	return text.length >= prefix.length &&
	       (prefix.length == 0 || memcmp(text.data, prefix.data, prefix.length) == 0);
}

struct kw_naming_database {
	uint32_t table, local;
};

struct kw_naming_prefix {
	struct kw_slice table, local; /* each ends with a zero, which does not count */
};

/* Zeroed memory gives every key its own name. */
struct kw_naming {
	struct kw_naming_database *databases;
	struct kw_naming_prefix *prefixes;
	size_t database_count, prefix_count;
};

/*
 * A rule as the configuration has it: "0=3", "old:=new:". One side of a prefix may be empty.
 * KW_E_CONFIG: it is no rule, it changes nothing, it meets another one, or there are too many.
 */
int kw_naming_check_database(const char *rule, struct kw_error *error);
int kw_naming_check_prefix(const char *rule, struct kw_error *error);
int kw_naming_add_database(struct kw_naming *naming, const char *rule, struct kw_error *error);
int kw_naming_add_prefix(struct kw_naming *naming, const char *rule, struct kw_error *error);
void kw_naming_close(struct kw_naming *naming);

static inline bool kw_naming_is_identity(const struct kw_naming *naming)
{
	return naming->database_count == 0 && naming->prefix_count == 0;
}

/*
 * After all rules. This database, and all keys with this prefix, are followed: can those without a
 * rule keep their names? left_out: is no key with this prefix followed after all? KW_E_CONFIG: no.
 */
int kw_naming_keeps_database(
	const struct kw_naming *naming, uint32_t database, struct kw_error *error);
int kw_naming_keeps_prefix(const struct kw_naming *naming, struct kw_slice prefix,
	bool (*left_out)(const void *arg, struct kw_slice prefix), const void *arg,
	struct kw_error *error);

/*
 * Outward. A key without a rule is returned as it is; otherwise its name lies in `room`, alone or
 * after what is there. An appended name has at most KW_NAMING_PREFIX_BYTES more than the key.
 */
uint32_t kw_naming_local_database(const struct kw_naming *naming, uint32_t database);
struct kw_slice kw_naming_local_key(
	const struct kw_naming *naming, struct kw_slice key, struct kw_buffer *room);
struct kw_slice kw_naming_append_local_key(
	const struct kw_naming *naming, struct kw_slice key, struct kw_buffer *room);

/* Empty the room. It gives back what one large key took. */
void kw_naming_clear(struct kw_buffer *room);

/* Inward. False: no database, or no key, of the table has this name here. */
bool kw_naming_table_database(const struct kw_naming *naming, uint32_t local, uint32_t *database);
bool kw_naming_table_key(const struct kw_naming *naming, struct kw_slice local,
	struct kw_buffer *room, struct kw_slice *key);

/* As kw_filter_hash: whatever the order of the rules; 0 without any. It is stored with data. */
uint64_t kw_naming_hash(const struct kw_naming *naming);

#endif
