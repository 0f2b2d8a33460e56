/*
 * The source's own copy of its options, with the defaults filled in. The caller owns the struct.
 */
#ifndef KW_PROXY_SOURCE_OPTIONS_H
#define KW_PROXY_SOURCE_OPTIONS_H

#include "base/error.h"
#include "keys/scope.h"
#include "source/source.h"

/*
 * Which keys to follow goes to *scope; databases, cursor_name and canary_key of *own are NULL.
 * KW_E_CONFIG: a database has no valid number; the caller closes nothing then.
 */
int kw_source_options_copy(const struct kw_source_options *options, struct kw_source_options *own,
	struct kw_scope *scope, struct kw_error *error);

/* The password is wiped. */
void kw_source_options_close(struct kw_source_options *own, struct kw_scope *scope);

#endif
