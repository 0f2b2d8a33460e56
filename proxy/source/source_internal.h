/*
 * The inside of the source, for the files of this folder that are parts of it: source.c (its
 * making, its loop turn, what it publishes), told.c (what link and feed tell it), asked.c (what its
 * owner asks of it), resume.c (what it takes over from a process before).
 */
#ifndef KW_PROXY_SOURCE_INTERNAL_H
#define KW_PROXY_SOURCE_INTERNAL_H

#include "feed/feed.h"
#include "fetch/fetch.h"
#include "fetch/pacing.h"
#include "keys/dirty.h"
#include "keys/scope.h"
#include "source/compare.h"
#include "source/doubts.h"
#include "source/fence.h"
#include "source/fresh.h"
#include "source/functions.h"
#include "source/heard.h"
#include "source/history.h"
#include "source/late.h"
#include "source/link.h"
#include "source/pause.h"
#include "source/redial.h"
#include "source/silence.h"
#include "source/source.h"
#include "source/state.h"
#include "source/store.h"
#include "source/sweep.h"
#include "source/ticket.h"
#include "source/trace.h"
#include "source/turn.h"
#include "source/unreadable.h"

enum kw_source_timer {
	KW_SOURCE_WATCHING,
	KW_SOURCE_FRESHENING,
	KW_SOURCE_PACING,
	KW_SOURCE_TIMERS,
};

struct kw_source {
	struct kw_source_options options;
	struct kw_source_handlers handlers;
	struct kw_scope scope;
	struct kw_table *table;

	struct kw_state state;
	struct kw_history history;  /* of the data, as it was told last */
	struct kw_source_look look; /* only with a mandate */
	struct kw_turn turn;
	struct kw_source_link link;
	struct kw_redial redial; /* only with a mandate */
	struct kw_feed *feed;
	struct kw_dirty *dirty;
	struct kw_fetch *fetch;
	struct kw_unreadable unreadable;
	struct kw_store store;
	struct kw_sweep sweep;
	struct kw_fresh fresh;
	struct kw_heard heard; /* of the primary of a server that is a replica */
	struct kw_ticket ticket;
	struct kw_source_functions functions;
	struct kw_pacing pacing;
	struct kw_trace trace;
	uv_timer_t timers[KW_SOURCE_TIMERS];

	enum kw_chain chain; /* the worst since it was whole; as of the last turn */
	bool unmended;       /* while the link is down: a doubt came, or was not mended before */
	struct kw_silence silence;
	struct kw_late late;
	struct kw_source_pauses pauses;
	struct kw_source_comparison comparison;
	struct kw_doubts doubts;
	uint64_t approvals;
	uint64_t answers; /* of the data connection, as of the last turn */
	int parts_open;   /* while it closes; 0: it does not */
	void (*closed)(void *arg);
	void *closed_arg;
};

/* asked.c. The limits of fetching as they hold now: none while a client waits for a comparison. */
void kw_source_apply_limits(struct kw_source *source);
struct kw_late_counts kw_source_late_counts(const struct kw_source *source);

/* source.c */
enum kw_chain kw_source_chain(const struct kw_source *source);
void kw_source_part_closed(void *owner); /* one of those that closing waits for */

/* Into the table: what its superblock and its history say. */
void kw_source_tell_table(struct kw_source *source);

/* resume.c. The table was adopted (table/keep.h). Before the source is started. */
void kw_source_go_on(struct kw_source *source);

/*
 * told.c. Events might have been missed in these databases (NULL: in all).
 */
void kw_source_doubt(
	void *arg, enum kw_doubt cause, const struct kw_databases *databases, const char *why);
void kw_source_ask_barrier(struct kw_source *source);
void kw_source_begin_barrier(void *arg);
struct kw_feed_handlers kw_source_hears_feed(struct kw_source *source);
void kw_source_link_came_up(void *arg, enum kw_feed_server server);
void kw_source_link_went_down(void *arg);
void kw_source_sweep_ended(void *arg);

#endif
