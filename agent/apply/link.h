/*
 * The applier of a primary: changes go as a stream of commands to a replica (feed.h), which
 * acknowledges replication offsets.
 *
 *   change ──▶ screen.h ──▶ feed ──▶ replica ──▶ REPLCONF ACK ──▶ done ──▶ INFO ──▶ confirmed
 *                │
 *                └──▶ quarantine, and a placeholder in the feed: order is kept
 *
 *   ┌────────┐ open: the replica is sent the feed ┌──────┐
 *   │ CLOSED │───────────────────────────────────▶│ OPEN │
 *   └────────┘◀───────────────────────────────────└──────┘
 *        close: the link is lost, or given up
 *
 * A replica does not report errors of commands on its link, and its acknowledgement covers what it
 * refused. It counts the refusals (unexpected_error_replies). So acknowledged changes are known to
 * be in once an INFO that was asked for after the acknowledgement shows no new refusal. The owner
 * reads that count; the cursor waits for it as well.
 *
 * The owner acts as the primary (primary/replica.h). It opens and closes, tells of acknowledgements
 * and of INFO, and sends what the feed holds. Loop thread only.
 */
#ifndef KW_AGENT_APPLY_LINK_H
#define KW_AGENT_APPLY_LINK_H

#include "apply.h"
#include "base/sm.h"
#include "feed.h"
#include "local/libraries.h"

/*
 * A change of function libraries on its way. The server can refuse it: its code may need what this
 * server does not have. Such a refusal must not put the data in doubt. So the change stands alone
 * between two fences of the feed, and every refusal that INFO tells meanwhile is of it.
 *
 *   ┌──────┐ begun ┌─────────┐ all before it is ┌───────┐ acknowledged, and
 *   │ NONE │──────▶│ WAITING │ acknowledged, and│ ALONE │ INFO was read
 *   └──────┘       └─────────┘ INFO was read ──▶└───────┘──────────────▶ NONE
 */
enum kw_link_trial_state { KW_LINK_TRIAL_NONE, KW_LINK_TRIAL_WAITING, KW_LINK_TRIAL_ALONE };

struct kw_link_trial {
	enum kw_link_trial_state state;
	uint64_t first, end; /* of its commands in the feed, with the GETACK after them */
	uint64_t ask;        /* the INFO that is waited for; 0: not asked yet */
	uint64_t refused;    /* ALONE: commands of it */
	kw_local_done_fn done;
	void *arg;
};

enum kw_link_stream { KW_LINK_CLOSED, KW_LINK_OPEN };

struct kw_link_owner {
	void (*added)(void *arg); /* the feed holds more */
	void *arg;
};

/* The changes that wait for an INFO, and those that it will confirm. */
struct kw_link_question {
	uint64_t ask;  /* the number of the INFO (kw_local_looked); 0: none is out */
	uint64_t done; /* changes that were done when it was asked */
};

/* The cursor on its way to the server. */
struct kw_link_saving {
	kw_local_done_fn done; /* NULL: there is none */
	void *arg;
	uint64_t ask;      /* not sent yet: it waits for this INFO; 0: it is in the feed at: */
	uint64_t sequence; /* … this number */
	struct kw_local_cursor cursor;
};

struct kw_link_applier {
	struct kw_applier base;
	struct kw_local *local;
	struct kw_quarantine *quarantine;
	struct kw_link_owner owner;
	struct kw_sm sm; /* enum kw_link_stream */
	struct kw_feed feed;
	uint64_t limit_bytes;
	uint32_t databases; /* of the server; 0: not known, and then there is no room */
	struct kw_link_question question;
	uint64_t question_us; /* the next not before */
	struct kw_link_saving saving;
	struct kw_link_trial trial;
};

struct kw_link_applier *kw_applier_link(const struct kw_apply_options *options);

/* kw_screen_record for the local server. */
bool kw_link_screen(const struct kw_link_applier *link, const struct kw_record_view *record,
	char *why, size_t room);

/* Until there is an owner nothing is sent. */
void kw_link_own(struct kw_link_applier *link, const struct kw_link_owner *owner);

static inline bool kw_link_is_open(const struct kw_link_applier *link)
{
	return link->sm.state == KW_LINK_OPEN;
}

void kw_link_open(struct kw_link_applier *link);
void kw_link_close(struct kw_link_applier *link);

/* Forget all changes handed on: they count as done, and a snapshot brings them. Closes. */
void kw_link_forget(struct kw_link_applier *link);

/* Records that went into a snapshot instead, and are done; `applied` of them are in. */
void kw_link_count(struct kw_link_applier *link, uint64_t taken, uint64_t applied);

/* The replica has applied all before `offset`. False: it was never sent that much. OPEN. */
bool kw_link_acknowledge(struct kw_link_applier *link, uint64_t offset);

/*
 * A replica comes back having applied all before `offset`: what follows is sent again. False: no
 * command of the feed ends there, and nothing was changed. CLOSED.
 */
bool kw_link_continue(struct kw_link_applier *link, uint64_t offset);

/* Ask INFO if changes are done and not confirmed; at most once in 100 ms. */
void kw_link_confirm(struct kw_link_applier *link);

/*
 * Change the function libraries of the replica. done: failure NULL when it was acknowledged and no
 * refusal of it was counted. KW_E_STATE, perhaps from within: not now, or the link was given up.
 * One at a time.
 */
void kw_link_change_libraries(struct kw_link_applier *link,
	const struct kw_libraries_change *change, kw_local_done_fn done, void *arg);

/* INFO told of new refusals. True: they are of a change of libraries, and of nothing else. */
bool kw_link_bears(struct kw_link_applier *link, uint64_t refused);

/* INFO was answered, and showed no new refusal; refused: the server's count, for the cursor. */
void kw_link_looked(struct kw_link_applier *link, uint64_t refused);

#endif
