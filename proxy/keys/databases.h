/*
 * A set of database numbers: those to follow, those to scan, those that were ever seen. Pure.
 *
 * The caller owns the struct; zeroed memory is the empty set. Numbers from KW_DATABASES_MOST on are
 * refused by add (a server needs as many databases configured for them to exist at all).
 */
#ifndef KW_PROXY_KEYS_DATABASES_H
#define KW_PROXY_KEYS_DATABASES_H

#include <stdbool.h>
#include <stdint.h>

#define KW_DATABASES_MOST 65536

struct kw_databases {
	bool all;
	uint64_t *bits;
	uint32_t words;
};

void kw_databases_close(struct kw_databases *set);

/* False when the number is too high. */
bool kw_databases_add(struct kw_databases *set, uint64_t database);
void kw_databases_remove(struct kw_databases *set, uint32_t database);
/* Is one of these in it, then the other is in its place. Both are below KW_DATABASES_MOST. */
void kw_databases_swap(struct kw_databases *set, uint32_t one, uint32_t other);
void kw_databases_add_all(struct kw_databases *set);
void kw_databases_merge(struct kw_databases *set, const struct kw_databases *other);
void kw_databases_clear(struct kw_databases *set);

/* No number in it, and not all. */
bool kw_databases_empty(const struct kw_databases *set);

static inline bool kw_databases_has(const struct kw_databases *set, uint32_t database)
{
	return set->all ||
	       (database / 64 < set->words && (set->bits[database / 64] >> (database % 64) & 1));
}

/*
 * Walk the numbers added one by one: *database is the first to look at; false when there is none
 * from there on. for (db = 0; kw_databases_next(set, &db); db++)
 */
bool kw_databases_next(const struct kw_databases *set, uint32_t *database);

#endif
