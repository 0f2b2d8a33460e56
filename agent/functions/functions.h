/*
 * The function libraries of the primary, applied to the local server.
 *
 *   ┌──────┐ another set    ┌─────────┐
 *   │      │───────────────▶│ READING │ the table's area, by one READ
 *   │      │◀───────────────└─────────┘
 *   │ IDLE │ due            ┌─────────┐ they differ  ┌──────────┐
 *   │      │───────────────▶│ LOOKING │─────────────▶│ CHANGING │ FUNCTION DELETE, RESTORE
 *   │      │◀───────────────└─────────┘              └──────────┘
 *   └──────┘◀─────────────────────────────────────────────┘ a look follows
 *                            FUNCTION DUMP
 *
 * Nothing that was sent counts as done. What counts is what FUNCTION DUMP of the local server says
 * afterwards, by the digest of the set. So a proxy that begins anew, or another one, whose set is
 * the same has nothing loaded. The server is looked at again after it was assessed, when its count
 * of such commands changed, and each KW_FUNCTIONS_LOOK_US. A difference is mended and counted.
 *
 * The agent is not warm before the newest set that it knows of is in the server. That set counts
 * until the table names another, also while there is no proxy: it is lacking all the same.
 *
 * Only while the sync follows the table's changes (TAIL): the server is claimed then, and the table
 * may be followed. Keys do not wait for any of this. Loop thread only.
 */
#ifndef KW_AGENT_FUNCTIONS_FUNCTIONS_H
#define KW_AGENT_FUNCTIONS_FUNCTIONS_H

#include "base/backoff.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sm.h"
#include "fact.h"
#include "follow/follow.h"
#include "load/pair.h"
#include "local/local.h"
#include "rdb/libraries.h"
#include "sync/sync.h"

#include <stdbool.h>
#include <stdint.h>

/* What others changed without a command that is counted is found after this. */
#define KW_FUNCTIONS_LOOK_US UINT64_C(10000000)
/* Of code, in a local server. The server's own libraries may be more than a table carries. */
#define KW_FUNCTIONS_LOCAL_BYTES ((size_t)64 << 20)

enum kw_functions_state {
	KW_FUNCTIONS_IDLE,
	KW_FUNCTIONS_READING,
	KW_FUNCTIONS_LOOKING,
	KW_FUNCTIONS_CHANGING,
};

/* How the local server stands to the set that is known. */
enum kw_functions_standing {
	KW_FUNCTIONS_PENDING, /* it must be looked at, or changed */
	KW_FUNCTIONS_EQUAL,
	KW_FUNCTIONS_HELD,    /* the table has none, and perhaps the primary lost them */
	KW_FUNCTIONS_REFUSED, /* it cannot be done: why says the remedy; it is tried again */
};

struct kw_functions_options {
	struct kw_sync *sync;   /* outlives this, and all that it works with */
	bool apply;             /* apply.functions */
	void (*due)(void *arg); /* wants kw_functions_step in this turn of the loop */
	void *arg;
};

/* A set of a table: where it was read. */
struct kw_functions_place {
	uint64_t epoch; /* 0: none */
	struct kw_history_functions named;
};

struct kw_functions {
	struct kw_functions_options options;
	struct kw_sm sm; /* enum kw_functions_state */
	enum kw_functions_standing standing;
	struct kw_functions_place named; /* by the table, last; epoch 0: nothing was yet */
	struct kw_functions_place place; /* of the set; epoch 0: none is known */
	struct kw_functions_place asked; /* of the READ that is out, or was last */
	struct kw_functions_place tried; /* a change was carried out, and no look showed it yet */
	struct kw_functions_place approved; /* an empty set that a person has approved */
	struct kw_libraries set;
	struct kw_hash128 digest; /* of set */

	struct kw_remote_read read;
	struct kw_buffer bytes; /* the READ ends here */
	uint32_t torn;          /* READs in a row that did not verify */
	uint64_t torn_at;       /* the publication of the last of these */

	uint64_t looked_us; /* the last look began; 0: it must be looked at */
	uint64_t calls;     /* local facts.functions when it began */
	uint64_t retry_us;  /* not before */
	struct kw_backoff backoff;
	size_t local_count;      /* libraries that the server had */
	size_t held;             /* HELD: so many would go */
	char why[KW_ERROR_TEXT]; /* HELD, REFUSED */

	uint64_t changes;     /* carried out */
	uint64_t differences; /* that others made in the server */
};

void kw_functions_init(struct kw_functions *functions, const struct kw_functions_options *options);
/* The connections are closed, so nothing calls back any more. */
void kw_functions_close(struct kw_functions *functions);

void kw_functions_step(struct kw_functions *functions, uint64_t now_us);

/* The local server was assessed, or is gone: look at it again. */
void kw_functions_doubt(struct kw_functions *functions);

/* The operator lets the libraries go that are held. False: none are. finding: what was approved. */
bool kw_functions_approve(struct kw_functions *functions, char finding[KW_SYNC_WHY]);

/* As of now, by the newest history that is known: of the last connection, if there is none. */
enum kw_functions_fact kw_functions_fact(const struct kw_functions *functions);

/* What an operator is shown. */
struct kw_functions_report {
	const char
		*state; /* "off", "not carried", "hidden", "pending", "equal", "held", "refused" */
	const char *why;
	uint64_t libraries, bytes;       /* of the set that is known */
	uint64_t version, table_version; /* applied; and what the table has */
	uint64_t changes, differences;
};
void kw_functions_report(const struct kw_functions *functions, struct kw_functions_report *report);

#endif
