/*
 * Appliers: how changes get into the local server. One interface, one file an applier.
 *
 *   commands   RESTORE, UNLINK, FLUSHDB as any client, in a bounded window   commands.c
 *   link       the replication stream of a primary to its replica            link.c
 *   none       counts and forgets, to measure all stages before it           none.c
 *
 * How a snapshot gets in is a loader's matter (load/load.h); a loader and an applier make an apply
 * mode (load/pair.h).
 *
 * A change is `taken` when it was handed on, and `done` when the server has acknowledged it or when
 * it was given up into quarantine. A change is done only after all changes before it: taken == done
 * means that the server holds all that was handed on. On a replication link a server can silently
 * refuse a change and still acknowledge it. There, only a `confirmed` change is known to be in.
 *
 * Databases and keys have the names of the local server here (keys/naming.h).
 *
 * Loop thread only; handlers are called from the loop, or from within an operation.
 */
#ifndef KW_AGENT_APPLY_APPLY_H
#define KW_AGENT_APPLY_APPLY_H

#include "keys/filter.h"
#include "keys/quarantine.h"
#include "local/local.h"
#include "table/record.h"

#include <stddef.h>
#include <stdint.h>

struct kw_apply_handlers {
	void (*progress)(void *arg); /* done, the room or the refusal changed */
	void *arg;
};

struct kw_apply_options {
	struct kw_local *local;           /* outlives the applier, as do the next two */
	const struct kw_filter *filter;   /* what is ours in the server */
	struct kw_quarantine *quarantine; /* remembers changes that are given up */
	uint64_t window_bytes;            /* of changes not done yet */
	struct kw_apply_handlers handlers;
};

struct kw_apply_progress {
	uint64_t taken, done;
	uint64_t confirmed;    /* at most done */
	uint64_t applied;      /* changes that the server acknowledged, ever */
	uint64_t retries;      /* times that sending began again at a change that failed */
	uint64_t owed;         /* puts passed over because the server has no memory: a reconcile
				  has to bring them, and no position may be kept until then */
	uint64_t window_bytes; /* held now */
};

/* The refusal that stops all changes at present. */
struct kw_apply_refusal {
	enum kw_server_error kind; /* KW_SERVER_E_NONE: nothing */
	char words[256];           /* the server's */
};

struct kw_applier;

struct kw_applier_ops {
	/* The server is there; continuous as in kw_local_handlers.assessed. If it is not, what was
	 * handed on is forgotten and counts as done. */
	void (*attach)(struct kw_applier *applier, bool continuous);
	/* The server is gone: what is not acknowledged waits for attach. */
	void (*detach)(struct kw_applier *applier);
	/* A snapshot begins: it brings all that is owed. */
	void (*begin)(struct kw_applier *applier);
	/* Records in the filter's scope, in order. Always taken, even beyond the room. */
	void (*records)(
		struct kw_applier *applier, const struct kw_record_view *records, size_t count);
	/* Bytes of records that it has room for. */
	uint64_t (*room)(const struct kw_applier *applier);
	/* Write the cursor after what was handed on. done as in kw_local_write_cursor; perhaps from
	 * within. */
	void (*save)(struct kw_applier *applier, const struct kw_cursor_progress *progress,
		kw_local_done_fn done, void *arg);
	void (*selected)(struct kw_applier *applier); /* kw_local_handlers.selected */
	void (*tick)(struct kw_applier *applier, uint64_t now_us);
	void (*set_window)(struct kw_applier *applier, uint64_t bytes);
	/* Detached, or the local connection is closed. */
	void (*free)(struct kw_applier *applier);
};

/* Written by the applier alone. */
struct kw_applier {
	const struct kw_applier_ops *ops;
	struct kw_apply_handlers handlers;
	struct kw_apply_progress progress;
	struct kw_apply_refusal refusal;
};

struct kw_applier *kw_applier_commands(const struct kw_apply_options *options);
struct kw_applier *kw_applier_none(const struct kw_apply_options *options);

#endif
