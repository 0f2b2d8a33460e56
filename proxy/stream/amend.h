/*
 * The string that a key has after INCRBY, APPEND or SETRANGE, from the string that it had before.
 * The caller must know that string exactly, as of the offset before the command. Pure. Any thread.
 */
#ifndef KW_PROXY_STREAM_AMEND_H
#define KW_PROXY_STREAM_AMEND_H

#include "base/buffer.h"
#include "base/error.h"
#include "stream/meaning.h"

/*
 * effect: of kind ADD, APPEND or WRITE. before NULL: the key did not exist. after is cleared, and
 * gets the new string. exists: is there a key now? (SETRANGE of nothing makes none.)
 *
 * KW_E_STATE: a server would have refused this, so what is known is not right; the key must be
 * fetched. KW_E_FULL: the string would have more than `most` bytes.
 */
int kw_repl_amend(const struct kw_repl_effect *effect, const struct kw_slice *before, size_t most,
	struct kw_buffer *after, bool *exists, struct kw_error *error);

#endif
