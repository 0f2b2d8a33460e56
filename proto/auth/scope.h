/*
 * Which keys of the data an agent may see: databases and beginnings of keys. Nothing given means
 * no limit. Pure; any thread, one at a time.
 */
#ifndef KW_AUTH_SCOPE_H
#define KW_AUTH_SCOPE_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_SCOPE_DATABASES_MAX 64
#define KW_SCOPE_PREFIXES_MAX 64
#define KW_SCOPE_PREFIX_MAX 512 /* bytes, after decoding */

/* Zeroed memory is a scope without limits. */
struct kw_scope {
	uint16_t databases[KW_SCOPE_DATABASES_MAX]; /* rising */
	size_t database_count;                      /* 0: all */
	struct kw_slice *prefixes;                  /* rising, bytes owned */
	size_t prefix_count;                        /* 0: all */
};

void kw_scope_close(struct kw_scope *scope);

/* "0,2": KW_E_CONFIG unless these are different numbers up to 65535. Once a scope. */
int kw_scope_set_databases(struct kw_scope *scope, struct kw_slice text, struct kw_error *error);

/* One prefix more, percent-encoded ("cart%20:"). KW_E_CONFIG: empty, too long, or there already. */
int kw_scope_add_prefix(struct kw_scope *scope, struct kw_slice text, struct kw_error *error);

/* Does it leave anything out? */
static inline bool kw_scope_narrow(const struct kw_scope *scope)
{
	return scope->database_count > 0 || scope->prefix_count > 0;
}

bool kw_scope_allows(const struct kw_scope *scope, uint32_t database, struct kw_slice key);

/* Is the database in it, whatever its keys? */
bool kw_scope_allows_database(const struct kw_scope *scope, uint32_t database);

/* Do all keys with this prefix belong to it, as far as the prefix goes? "": all keys. */
bool kw_scope_allows_prefix(const struct kw_scope *scope, struct kw_slice prefix);

/* The words of a line of keys, in one form for equal scopes: "databases=0,2 prefix=cart%20:". */
void kw_scope_write(const struct kw_scope *scope, struct kw_buffer *text);

/* No text of kw_scope_write is longer. */
#define KW_SCOPE_TEXT_MAX ((uint32_t)1 << 17)

/*
 * Read what kw_scope_write has written into *scope, which is zero. KW_E_CONFIG: it is no such text;
 * the scope must be closed in either case.
 */
int kw_scope_read(struct kw_scope *scope, struct kw_slice text, struct kw_error *error);

#endif
