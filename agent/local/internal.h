/*
 * The inside of the local server, shared by its parts:
 *
 *   connection.c     the connection: opened, lost, closed; its states
 *   local.c          who answers there, and what has become of the data
 *   lease.c          does another agent write there?
 *   commands.c       which of the server's commands write?
 *   permissions.c    what does the agent's user lack?
 *   cursor_store.c   the cursor's way into the server and back
 *
 * No other file includes this. Loop thread only.
 */
#ifndef KW_AGENT_LOCAL_INTERNAL_H
#define KW_AGENT_LOCAL_INTERNAL_H

#include "local.h"

/* connection.c: move to a state. reason: a sentence for the log, or "". */
void kw_local_move(struct kw_local *local, enum kw_local_state state, const char *reason);

/* The next tick that asks, or connects, comes after this pause. */
void kw_local_ask_later(struct kw_local *local);

/*
 * The server is not fit: a person must mend it, or it ends by itself (WAITING). The sentence names
 * the remedy. If it was READY, the connection is closed: answers can be owed, and a new connection
 * owes none.
 */
void kw_local_refuse(struct kw_local *local, enum kw_unfit unfit, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void kw_local_wait(struct kw_local *local, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/*
 * The server answered a question with an error. True: the error ends by itself (BUSY, LOADING,
 * MASTERDOWN); the question is asked again, and a server that was READY stays so.
 */
bool kw_local_defer(struct kw_local *local, const char *command, const struct kw_reply *reply);

/* READY: close this connection, and open another one. */
void kw_local_leave(struct kw_local *local, const char *reason);

/* local.c: a connection is there. INFO is asked, and the answer leads on. */
void kw_local_begin(struct kw_local *local);
/* The connection is lost: no answer comes any more. */
void kw_local_end(struct kw_local *local);

/*
 * lease.c: claim the server for this agent. It ends in kw_local_leased, or the server is refused
 * because another agent writes to it.
 */
void kw_local_lease(struct kw_local *local);
void kw_local_leased(struct kw_local *local);
/* Each connection begins with a name that says that this agent waits. */
void kw_local_name_connections(struct kw_local *local);
/* The cursor was read: has an agent taken the lease that this one cannot see? True: refused. */
bool kw_local_lease_gone(struct kw_local *local);
/* READY: so the cursor says now. If the lease is another's, this agent stops to write at once. */
void kw_local_lease_found(struct kw_local *local, const struct kw_lease_owner *found);
/* A connection begins, with that name. */
void kw_local_begin_lease(struct kw_local *local);
/* The server is refused: other agents may have it. */
void kw_local_drop_lease(struct kw_local *local);

/*
 * commands.c: ask about commands that the table of writers.h does not have. False: there is none.
 * When the server is not READY, the answer goes on to kw_local_lease.
 */
bool kw_local_ask_writers(struct kw_local *local);

/* permissions.c: a connection begins, nothing is known. */
void kw_local_begin_permissions(struct kw_local *local);

/* cursor_store.c: read the cursor; it ends in kw_local_cursor_read. */
void kw_local_read_cursor(struct kw_local *local);
void kw_local_cursor_read(struct kw_local *local);
/* READY: read it again, for its lease alone. It ends in kw_local_lease_found, or in nothing. */
void kw_local_read_back(struct kw_local *local);

#endif
