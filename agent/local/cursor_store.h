/*
 * The cursor's way into the local server and back: where it is stored, and when it is written.
 * cursor.h has its text.
 *
 * On servers from 7.0 it is a function library, on older ones a key in database 0;
 * apply.cursor_store can choose. Reading it is a part of the connection's beginning (internal.h).
 * Loop thread only.
 */
#ifndef KW_AGENT_LOCAL_CURSOR_STORE_H
#define KW_AGENT_LOCAL_CURSOR_STORE_H

#include "cursor.h"
#include "redis/failure.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_local;

enum kw_cursor_store {
	KW_STORE_AUTO, /* a function library if the server knows them */
	KW_STORE_FUNCTION,
	KW_STORE_KEY,
};

/* Is this key our cursor's own (key store, database 0)? It is never written, pruned or counted. */
bool kw_local_owns_key(const struct kw_local *local, uint32_t database, struct kw_slice key);
bool kw_local_store_is_key(const struct kw_local *local);

/* How far the data have come: what a cursor says of them in addition to the facts. */
struct kw_cursor_progress {
	uint64_t epoch, version, quarantined; /* as in struct kw_local_cursor */
	enum kw_cursor_bond bond;
	uint64_t consented;
};

/* What a cursor would say now; and one was written (not by kw_local_write_cursor). */
void kw_local_cursor_now(const struct kw_local *local, const struct kw_cursor_progress *progress,
	struct kw_local_cursor *cursor);
void kw_local_cursor_written(struct kw_local *local, const struct kw_local_cursor *cursor);

/*
 * Write the cursor. done: failure NULL when acknowledged. Only when READY; the caller keeps one
 * write in flight.
 */
typedef void (*kw_local_done_fn)(void *arg, const struct kw_failure *failure);
void kw_local_write_cursor(struct kw_local *local, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg);

/* Does a replica answer questions about itself while its link is down? */
enum kw_local_stale {
	KW_STALE_SERVED,  /* as far as is known */
	KW_STALE_REFUSED, /* no, it has just answered MASTERDOWN: change that for the next ones */
	KW_STALE_TRIED,   /* the cursor was asked for again because of that, after the change */
};

/*
 * A replica that serves no stale data (replica-serve-stale-data no) answers MASTERDOWN while its
 * link is down, to questions about itself too. It does answer questions that are asked between
 * these two calls: the setting is changed around them, in one write. Nothing is changed unless the
 * server has refused to answer, which kw_local_refused_stale notes.
 */
void kw_local_refused_stale(struct kw_local *local);
void kw_local_serve_stale(struct kw_local *local);
void kw_local_serve_stale_end(struct kw_local *local);

#endif
