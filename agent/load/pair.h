/*
 * An apply mode at work: its loader and its applier (mode.h).
 *
 *   ┌─────┐ hybrid: the snapshot is loaded ┌───────────┐ REPLICAOF NO ONE ┌─────┐
 *   │ LED │───────────────────────────────▶│ RELEASING │─────────────────▶│ OWN │
 *   └─────┘◀───────────────────────────────└───────────┘                  └─────┘
 *      ▲     a new snapshot is prepared                                      │
 *      └─── hybrid: the server has no cursor of ours (new, or emptied) ──────┘
 *
 *   ┌─────┐ replica: a snapshot can be merged ┌─────┐
 *   │ LED │──────────────────────────────────▶│ FED │
 *   └─────┘◀──────────────────────────────────└─────┘
 *            it cannot, or these are other data
 *
 *   commands and discard stay OWN.
 *
 * LED: a snapshot replaces all data at once, and nothing is settled or pruned. In mode hybrid the
 * changes wait in the applier meanwhile, so the order for each key is kept. OWN: a snapshot is
 * merged with what is there, record by record, because others might write there. FED: it is merged
 * as well, over the replication link, which goes on: claim, records, deletions and changes are one
 * stream of commands.
 *
 * The owner says what it reads; the pair knows the destination. Loop thread only.
 */
#ifndef KW_AGENT_LOAD_PAIR_H
#define KW_AGENT_LOAD_PAIR_H

#include "keys/rename.h"
#include "limit.h"
#include "load.h"
#include "mode.h"

#include <stdbool.h>

struct kw_pair_handlers {
	void (*progress)(void *arg); /* done, room or an obstacle changed */
	/* What was handed on is lost, or doubtful: only a snapshot mends it. Not from records. */
	void (*lost)(void *arg, const char *why);
	void *arg;
};

struct kw_pair_options {
	uv_loop_t *loop;
	struct kw_local *local; /* outlives the pair, as do the next two */
	const struct kw_filter *filter;
	struct kw_quarantine *quarantine;
	uint64_t window_bytes;
	uint64_t bytes_per_second;  /* at most, into the server; 0: no limit; no mode that leads */
	const char *listen;         /* where a mode that leads listens; checked */
	struct kw_slice masterauth; /* … and what it puts back; must stay in place */
	enum kw_link_tls tls;       /* … whether it speaks TLS, and by which certificates */
	const struct kw_tls_current *certificates;
	enum kw_shutdown shutdown;
	struct kw_pair_handlers handlers;
};

enum kw_pair_stage { KW_PAIR_LED, KW_PAIR_RELEASING, KW_PAIR_OWN, KW_PAIR_FED };
enum kw_pair_reading { KW_PAIR_READS_CHANGES, KW_PAIR_READS_SNAPSHOT };

struct kw_pair {
	const struct kw_mode *mode;
	struct kw_pair_handlers handlers;
	struct kw_local *local;
	struct kw_sm stage; /* enum kw_pair_stage */
	enum kw_pair_reading reading;
	struct kw_limit limit;   /* of all records, of the snapshot and of changes */
	struct kw_rename rename; /* the same */

	struct kw_loader *merging;   /* the loader while OWN or FED; NULL: it never is */
	struct kw_loader *replacing; /* the loader while LED; NULL: it never is */
	struct kw_applier *applier;
	struct kw_link_applier *link; /* of the replica, if the mode leads; else NULL */
	struct kw_replica replica;    /* if the mode leads */

	/* RELEASING */
	uint64_t retry_us;         /* not before */
	struct kw_failure failure; /* of the last try; none before the second */

	/* what was reported last */
	struct kw_apply_progress progress;
	struct kw_trouble trouble;
	struct kw_link_report report;
};

struct kw_pair *kw_pair_new(const struct kw_mode *mode, const struct kw_pair_options *options);
/* Close what it has on the loop: closed follows from there, then free. False: there is nothing. */
bool kw_pair_close(struct kw_pair *pair, void (*closed)(void *arg), void *arg);
void kw_pair_free(struct kw_pair *pair);

/* ---- the local server ---- */

/* As kw_local_handlers.assessed, gone, looked and selected. */
void kw_pair_attach(struct kw_pair *pair, bool continuous);
void kw_pair_detach(struct kw_pair *pair);
void kw_pair_looked(struct kw_pair *pair);
void kw_pair_selected(struct kw_pair *pair);
void kw_pair_tick(struct kw_pair *pair, uint64_t now_us);

/* ---- snapshots and changes ---- */

/*
 * No snapshot is under way, and one is to be taken. merges: the owner knows what the server holds,
 * and wants to merge it. Mode replica: LED or FED, as the link allows. Other modes: nothing.
 */
void kw_pair_choose(struct kw_pair *pair, bool merges);
/* As in load.h: done is called once, perhaps from within, unless detached or abandoned. */
void kw_pair_prepare(
	struct kw_pair *pair, const struct kw_load_plan *plan, kw_local_done_fn done, void *arg);
void kw_pair_begin(struct kw_pair *pair);
void kw_pair_end(struct kw_pair *pair);
/* The reader gave up its position: what waits is older than the snapshot that follows. */
void kw_pair_abandon(struct kw_pair *pair);
/* No snapshot: changes come next, after what is applied. */
void kw_pair_resume(struct kw_pair *pair);
/* May a cursor found in the server be resumed from? */
bool kw_pair_resumable(const struct kw_pair *pair);
/*
 * Of the snapshot between begin and end, of the table's changes otherwise; at most
 * KW_RECORD_BATCH_MAX, by the table's names. Loader and applier get them by the local ones.
 */
void kw_pair_records(struct kw_pair *pair, const struct kw_record_view *records, size_t count);
/* Bytes of records that the server has room for, and the limit left. */
uint64_t kw_pair_room(struct kw_pair *pair);
void kw_pair_save(struct kw_pair *pair, const struct kw_cursor_progress *progress,
	kw_local_done_fn done, void *arg);

/*
 * Change the server's function libraries: as its client, or as its primary after all that was
 * handed on. done as in kw_link_change_libraries; KW_E_STATE: not now, try again. READY, one at a
 * time.
 */
void kw_pair_change_libraries(struct kw_pair *pair, const struct kw_libraries_change *change,
	kw_local_done_fn done, void *arg);

/* ---- what an operator asks for ---- */

/* Take a snapshot, whatever was an obstacle before. */
void kw_pair_resync(struct kw_pair *pair);
void kw_pair_set_window(struct kw_pair *pair, uint64_t bytes);
void kw_pair_set_limit(struct kw_pair *pair, uint64_t bytes_per_second);
void kw_pair_set_shutdown(struct kw_pair *pair, enum kw_shutdown shutdown);
/*
 * The end: nothing more is handed on, and the server is left as configured. Called until it returns
 * false, or until the time is over.
 */
bool kw_pair_leave(struct kw_pair *pair);

/* ---- reports; they hold until the next call ---- */

const char *kw_pair_mode(const struct kw_pair *pair);
bool kw_pair_needs_local(const struct kw_pair *pair);
/* Does a snapshot replace all that is there? */
bool kw_pair_replaces(const struct kw_pair *pair);
/* Is it a replica of this agent, or about to be? Then it takes no writes of a client. */
bool kw_pair_is_led(const struct kw_pair *pair);
/* Does what was handed on reach the server, also if the reader gives its position up now? */
bool kw_pair_is_whole(const struct kw_pair *pair);
/* A snapshot is not loaded yet: `done` can take long. */
bool kw_pair_is_loading(const struct kw_pair *pair);
/* The server is our replica with a whole data set in it: it can be promoted. */
bool kw_pair_leads(const struct kw_pair *pair);
/*
 * Is there a link to the local server, or one on its way, or was the server led before? What an
 * agent knows of a server that it led is more than a later look can tell (primary/ownership.h).
 */
bool kw_pair_is_bound(const struct kw_pair *pair);
const struct kw_apply_progress *kw_pair_progress(struct kw_pair *pair);
const struct kw_apply_refusal *kw_pair_refusal(const struct kw_pair *pair);
const struct kw_trouble *kw_pair_trouble(struct kw_pair *pair);
const struct kw_link_report *kw_pair_link(struct kw_pair *pair);

/* All that was handed on is done. */
static inline bool kw_pair_is_level(struct kw_pair *pair)
{
	const struct kw_apply_progress *progress = kw_pair_progress(pair);

	return progress->done == progress->taken;
}

#endif
