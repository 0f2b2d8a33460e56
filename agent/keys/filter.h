/*
 * Which keys an agent follows: by database, by key prefix and by pattern. Keys outside the filter
 * are never written, pruned or counted. Pure; immutable once filled in; one thread.
 *
 *   followed = its database is
 *              and (it has one of the prefixes, or matches one of the patterns; neither: any key)
 *              and it matches no exclusion
 *
 * A filter speaks of the table. What its keys are called in the local server is in `names`
 * (naming.h).
 */
#ifndef KW_AGENT_KEYS_FILTER_H
#define KW_AGENT_KEYS_FILTER_H

#include "auth/scope.h"
#include "base/error.h"
#include "base/slice.h"
#include "naming.h"
#include "table/layout.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_FILTER_PREFIXES_MAX 256
#define KW_FILTER_PATTERNS_MAX 64 /* and so many exclusions */
#define KW_FILTER_DATABASE_WORDS ((KW_DATABASE_MAX + 1) / 64)

struct kw_filter_list {
	struct kw_slice *texts; /* each ends with a zero, which does not count */
	size_t count;
};

/* Zeroed memory follows every key of every database. */
struct kw_filter {
	uint64_t *databases; /* a bit each; NULL: all */
	struct kw_filter_list prefixes;
	struct kw_filter_list patterns; /* glob.h */
	struct kw_filter_list excluded; /* the same */
	struct kw_naming names;
};

/*
 * KW_E_CONFIG: no such database number, not a pattern, or too many. Texts are copied. Databases are
 * named before some are excluded; KW_E_CONFIG: none is left.
 */
int kw_filter_add_database(struct kw_filter *filter, int64_t database, struct kw_error *error);
int kw_filter_exclude_database(struct kw_filter *filter, int64_t database, struct kw_error *error);
int kw_filter_add_prefix(struct kw_filter *filter, const char *prefix, struct kw_error *error);
int kw_filter_add_pattern(struct kw_filter *filter, const char *pattern, struct kw_error *error);
int kw_filter_exclude(struct kw_filter *filter, const char *pattern, struct kw_error *error);
/* kw_naming_add_*, for a filter. */
int kw_filter_map_database(struct kw_filter *filter, const char *rule, struct kw_error *error);
int kw_filter_rewrite_prefix(struct kw_filter *filter, const char *rule, struct kw_error *error);
/*
 * After all of these, filter_names.c. KW_E_CONFIG: two keys that are followed could get one name in
 * the local server, or a rule is about none that is followed.
 */
int kw_filter_check_names(const struct kw_filter *filter, struct kw_error *error);
void kw_filter_close(struct kw_filter *filter);

static inline bool kw_filter_has_database(const struct kw_filter *filter, uint32_t database)
{
	if (!filter->databases)
		return true;
	return database <= KW_DATABASE_MAX &&
	       (filter->databases[database / 64] >> (database % 64) & 1);
}

/* Can a database here hold keys that are followed, and others? Then no count tells of them. */
static inline bool kw_filter_picks_keys(const struct kw_filter *filter)
{
	return filter->prefixes.count > 0 || filter->patterns.count > 0 ||
	       filter->excluded.count > 0 || filter->names.prefix_count > 0;
}

/* Is every key followed, under its own name? */
static inline bool kw_filter_is_everything(const struct kw_filter *filter)
{
	return !filter->databases && !kw_filter_picks_keys(filter) &&
	       kw_naming_is_identity(&filter->names);
}

/* The key alone, whatever its database. */
bool kw_filter_has_key(const struct kw_filter *filter, struct kw_slice key);

/*
 * The same by what the local server calls them, filter_names.c. True: one that is followed has this
 * name here; its own is returned, which can lie in `room`. False: it is not ours to touch.
 */
bool kw_filter_finds_database(const struct kw_filter *filter, uint32_t local, uint32_t *database);
bool kw_filter_finds_key(const struct kw_filter *filter, struct kw_slice local,
	struct kw_buffer *room, struct kw_slice *key);

/*
 * The same for two filters that are written with the same databases, prefixes, patterns,
 * exclusions and names, in any order; 0 for the one that follows everything. It is stored with
 * data, so it must never change.
 */
uint64_t kw_filter_hash(const struct kw_filter *filter);

/*
 * What the key of the agent may read must hold all that it follows: a key that the proxy hides
 * would look deleted. KW_E_REFUSED: it does not, and the sentence says what to set. Exclusions do
 * not count: whether they leave out all that is hidden cannot be told.
 */
int kw_filter_check_scope(
	const struct kw_filter *filter, const struct kw_scope *scope, struct kw_error *error);

/*
 * "every key" or "databases 0, 3; prefixes user:, cart:; patterns *:eu; without tmp:*; database 0
 * as 5; user:* as u:*", for status. Always terminated.
 */
void kw_filter_describe(const struct kw_filter *filter, char *text, size_t size);

#endif
