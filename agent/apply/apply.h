/*
 * Applying records to the local server: one interface, one file a mode.
 *
 *   commands   RESTORE, UNLINK, FLUSHDB, pipelined with a bounded window (commands.c)
 *   replica    acts as the server's primary: an RDB, then a stream of commands (primary/replica.c)
 *   hybrid     replica until the first snapshot is loaded, then commands (load/hybrid.c)
 *   discard    counts and forgets: for measuring everything before it (discard.c)
 *
 * A mode that is `whole` replaces all local data at once, when the snapshot is loaded: nothing is
 * counted, settled or pruned, and what was there stays in force until then.
 *
 * `taken` counts the changes given to a mode, `done` those the server has acknowledged (or that
 * were given up into quarantine). A change is done only after all before it are: done == taken
 * means that the server holds all that was handed on: where it may refuse in silence what it
 * acknowledges (a mode that `confirms`), once `confirmed` has come as far. Loop thread only;
 * handlers are called from the loop.
 */
#ifndef KW_AGENT_APPLY_APPLY_H
#define KW_AGENT_APPLY_APPLY_H

#include "keys/filter.h"
#include "keys/quarantine.h"
#include "local/local.h"
#include "table/record.h"

#include <stdbool.h>
#include <stdint.h>

struct kw_apply;

struct kw_apply_handlers {
	void (*progress)(void *arg); /* done, room or the obstacle changed */
	/* What was handed on is lost, or doubtful: only a snapshot mends it. Not from record. */
	void (*lost)(void *arg, const char *why);
	void *arg;
};

struct kw_apply_options {
	struct kw_local *local;           /* outlives the apply */
	const struct kw_filter *filter;   /* outlives the apply */
	struct kw_quarantine *quarantine; /* outlives the apply */
	uint64_t window_bytes;
	uv_loop_t *loop;
	const char *listen; /* where a mode that acts as a primary listens; checked */
	bool promote;       /* it lets the server go when the agent ends */
};

/* What is about to be read. */
struct kw_apply_plan {
	uint64_t epoch;
	uint64_t keys;        /* about so many, nobody's promise; 0: not known */
	uint16_t rdb_version; /* of the payloads */
};

struct kw_apply_ops {
	const char *mode;
	bool needs_local; /* false: there is no local server to connect to */

	struct kw_apply *(*create)(const struct kw_apply_options *options);
	/* Detached, or the local connection is closed. */
	void (*destroy)(struct kw_apply *apply);

	/* The local server is there; continuous as in kw_local_handlers.assessed. */
	void (*attach)(struct kw_apply *apply, bool continuous);
	/*
	 * A snapshot is to be taken: whatever must come before its first record (the claim, or the
	 * server's readiness to load). done is called once, perhaps from within, unless detached;
	 * failure: not now.
	 */
	void (*prepare)(struct kw_apply *apply, const struct kw_apply_plan *plan,
		kw_local_done_fn done, void *arg);
	/* The reader gave up its position: a snapshot begun is not completed. NULL allowed. */
	void (*forget)(struct kw_apply *apply);
	/* The records of a tail come next, behind what is applied. NULL: nothing to be done. */
	void (*resume)(struct kw_apply *apply);
	/* May a cursor found in the server be resumed from? NULL: yes. */
	bool (*resumable)(const struct kw_apply *apply);
	/* A snapshot begins: what was owed comes with it, and whether there is room will show. */
	void (*begin)(struct kw_apply *apply);
	/* All records of the snapshot were handed on; a tail follows. NULL: it is all one. */
	void (*end)(struct kw_apply *apply);
	/* Write the cursor behind what was handed on; as kw_local_write_cursor. */
	void (*save)(struct kw_apply *apply, uint64_t epoch, uint64_t version, uint64_t quarantined,
		kw_local_done_fn done, void *arg);
	/* local's handlers.looked; NULL allowed */
	void (*looked)(struct kw_apply *apply);
	/* The operator asked for a snapshot, whatever spoke against it. NULL allowed. */
	void (*resync)(struct kw_apply *apply);
	/*
	 * The end, nothing more is handed on: whatever the server is to be left as. Called until it
	 * says false (what was to be said to the server is answered), or for as long as there is
	 * time; NULL: nothing to be done.
	 */
	bool (*leave)(struct kw_apply *apply);
	/* Close what it has on the loop; closed follows, then destroy. NULL: nothing there. */
	void (*close)(struct kw_apply *apply, void (*closed)(void *arg), void *arg);
	/* It is gone: what was not acknowledged stays, until attach says what becomes of it. */
	void (*detach)(struct kw_apply *apply);

	/* Records in the filter's scope, in order. Always taken, even beyond the room. */
	void (*records)(struct kw_apply *apply, const struct kw_record_view *records, size_t count);
	/* Bytes of records that may still come. */
	uint64_t (*room)(const struct kw_apply *apply);
	void (*tick)(struct kw_apply *apply, uint64_t now_us);
	/* local's handlers.selected */
	void (*selected)(struct kw_apply *apply);
	void (*set_window)(struct kw_apply *apply, uint64_t bytes);
};

enum kw_apply_trouble {
	KW_TROUBLE_NONE,
	KW_TROUBLE_WAIT, /* it will pass */
	KW_TROUBLE_FAIL, /* only a person can mend it */
};

/* What a mode that acts as a primary shows of its link; state NULL: there is none. */
struct kw_apply_link {
	const char *state;
	char replid[41];
	uint16_t port;
	uint64_t offset, acknowledged;      /* replication offsets: sent, and applied */
	uint64_t full_syncs, continuations; /* since the start */
	uint64_t refusals;                  /* commands that the server refused on the link */
};

struct kw_apply {
	const struct kw_apply_ops *ops;
	struct kw_apply_handlers handlers;
	uint64_t taken, done;
	uint64_t confirmed; /* at most done; only where confirms is set */
	bool confirms;
	uint64_t applied; /* changes the server acknowledged as done, ever */
	uint64_t retries; /* times sending began again at a change that failed */
	uint64_t window_bytes_used;
	/* Puts passed over because the server has no memory: what is behind them may make room. The
	 * local data lack them, so no position may be kept until a reconcile has brought them. */
	uint64_t owed;
	bool blocked; /* nothing gets through: */
	enum kw_server_error blocked_kind;
	char blocked_why[256]; /* the server's words */
	bool whole;
	bool loading;  /* a snapshot is not loaded yet: done may be long in coming */
	bool promote;  /* what leave does; the owner may change it */
	bool for_good; /* and no agent takes the server again before it is told to */
	bool leads;    /* the server is our replica, all of a data set in it: it can be promoted */
	enum kw_apply_trouble trouble;
	char trouble_why[400];
	struct kw_apply_link link;
};

extern const struct kw_apply_ops kw_apply_commands, kw_apply_discard;

#endif
