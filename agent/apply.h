/*
 * Applying records to the local server: one interface, one file a mode.
 *
 *   commands   RESTORE, UNLINK, FLUSHDB, pipelined with a bounded window (apply_commands.c)
 *   discard    counts and forgets: for measuring everything before it (apply_discard.c)
 *
 * `taken` counts the changes given to a mode, `done` those the server has acknowledged (or that
 * were given up into quarantine). A change is done only after all before it are: done == taken
 * means that the server holds all that was handed on. Loop thread only; handlers are called from
 * the loop.
 */
#ifndef KW_AGENT_APPLY_H
#define KW_AGENT_APPLY_H

#include "filter.h"
#include "local.h"
#include "quarantine.h"
#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_apply;

struct kw_apply_handlers {
	void (*progress)(void *arg); /* done, room or the obstacle changed */
	void *arg;
};

struct kw_apply_options {
	struct kw_local *local;           /* outlives the apply */
	const struct kw_filter *filter;   /* outlives the apply */
	struct kw_quarantine *quarantine; /* outlives the apply */
	uint64_t window_bytes;
};

struct kw_apply_ops {
	const char *mode;
	bool needs_local; /* false: there is no local server to connect to */

	struct kw_apply *(*create)(const struct kw_apply_options *options);
	/* Detached, or the local connection is closed. */
	void (*destroy)(struct kw_apply *apply);

	/* The local server is there; continuous as in kw_local_handlers.assessed. */
	void (*attach)(struct kw_apply *apply, bool continuous);
	/* A snapshot begins: what was owed comes with it, and whether there is room will show. */
	void (*begin)(struct kw_apply *apply);
	/* It is gone: what was not acknowledged stays, until attach says what becomes of it. */
	void (*detach)(struct kw_apply *apply);

	/* A record in the filter's scope, in order. Always taken, even beyond the room. */
	void (*record)(struct kw_apply *apply, const struct kw_record_view *record);
	/* Bytes of records that may still come. */
	uint64_t (*room)(const struct kw_apply *apply);
	void (*tick)(struct kw_apply *apply, uint64_t now_us);
	/* local's handlers.selected */
	void (*selected)(struct kw_apply *apply);
	void (*set_window)(struct kw_apply *apply, uint64_t bytes);
};

struct kw_apply {
	const struct kw_apply_ops *ops;
	struct kw_apply_handlers handlers;
	uint64_t taken, done;
	uint64_t applied; /* changes the server acknowledged as done, ever */
	uint64_t retries; /* times sending began again at a change that failed */
	uint64_t window_bytes_used;
	/* Puts passed over because the server has no memory: what is behind them may make room. The
	 * local data lack them, so no position may be kept until a reconcile has brought them. */
	uint64_t owed;
	bool blocked; /* nothing gets through: */
	enum kw_server_error blocked_kind;
	char blocked_why[256]; /* the server's words */
};

extern const struct kw_apply_ops kw_apply_commands, kw_apply_discard;

/* By apply.mode; NULL for a word that is none. */
const struct kw_apply_ops *kw_apply_find(const char *mode);

#endif
