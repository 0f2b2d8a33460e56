/*
 * An agent whose key reads a part of the table: what it may see, and the bytes of the reply that is
 * under way. They are copies (table/redact.h), in a stage of fixed size that is filled when all of
 * it was sent. Its first READ brings its scope (frame.h). Serving thread only, but for
 * kw_scoped_new.
 */
#ifndef KW_REMOTE_TCP_SCOPED_H
#define KW_REMOTE_TCP_SCOPED_H

#include "auth/scope.h"
#include "base/slice.h"
#include "remote/frame.h"
#include "table/redact.h"

#include <stdbool.h>
#include <stdint.h>

#define KW_SCOPED_STAGE (UINT32_C(64) << 10)

struct kw_scoped;

/* The scope is copied; redact is shared by all that one thread serves. */
struct kw_scoped *kw_scoped_new(const struct kw_scope *scope, struct kw_redact *redact);
void kw_scoped_free(struct kw_scoped *scoped); /* NULL: nothing */

/* Is it the READ of its scope? From then on it counts as told. */
bool kw_scoped_takes(struct kw_scoped *scoped, const struct kw_frame *frame);
bool kw_scoped_told(const struct kw_scoped *scoped);

/*
 * Bytes to send next, 1 to `length` of them, of a READ that has come to `offset`. They stay the
 * same until all of them were sent.
 */
struct kw_slice kw_scoped_piece(struct kw_scoped *scoped, uint64_t offset, uint64_t length);
void kw_scoped_sent(struct kw_scoped *scoped, uint64_t length);

#endif
