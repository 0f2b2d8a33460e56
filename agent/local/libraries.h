/*
 * The function libraries of the local server: they are changed by these commands. By a client of
 * the server here, by its primary in apply/link.h.
 *
 *   FUNCTION DELETE name          of each library that shall go
 *   FUNCTION RESTORE payload REPLACE   for all others, at once
 *
 * What is deleted goes first: a function can move from one library to another, and no two libraries
 * may have functions of one name. Loop thread only.
 */
#ifndef KW_AGENT_LOCAL_LIBRARIES_H
#define KW_AGENT_LOCAL_LIBRARIES_H

#include "base/slice.h"
#include "cursor_store.h"

#include <stddef.h>

struct kw_local;

struct kw_libraries_change {
	const struct kw_slice *deleted; /* names */
	size_t deleted_count;
	struct kw_slice payload; /* of RESTORE; empty: none is loaded */
};

/* Hand each command of the change to `send`. */
typedef void (*kw_libraries_send_fn)(void *arg, int argc, const struct kw_slice *argv);
void kw_libraries_commands(
	const struct kw_libraries_change *change, kw_libraries_send_fn send, void *arg);

/*
 * As a client, only when READY. done: failure NULL when all of it was carried out, or else the
 * first refusal. The change itself is not needed after the call.
 */
void kw_local_change_libraries(struct kw_local *local, const struct kw_libraries_change *change,
	kw_local_done_fn done, void *arg);

#endif
