/*
 * Where the time goes in the proxy: single changes are followed from their event to their
 * publication.
 *
 *            begin           asked               answered            published
 *   ┌──────┐ events ┌───────┐ wait    ┌─────────┐ fetch   ┌────────┐ publish
 *   │ IDLE │───────▶│ WAITS │────────▶│ FETCHED │────────▶│ STORED │────────▶ IDLE
 *   └──────┘        └───────┘◀────────└─────────┘         └────────┘
 *                        │    asked again, later
 *                        └──parked: the table is full──▶ IDLE, and nothing is counted
 *
 * In each turn of the loop one more change is followed, of a batch at random, and at most
 * KW_TRACE_CHANGES at a time. So this costs some clock readings a turn, however many changes there
 * are. The state is looked at once a turn: a stage ends with the turn in which it ended.
 *
 * Time in the primary between a write and its event cannot be seen from here. In its place the
 * round trip of each freshness barrier counts: the server answers it only after it has sent the
 * events of all that it did before. So an event is on its way for at most about so long.
 *
 * Pure; one thread. The caller owns the struct.
 */
#ifndef KW_PROXY_SOURCE_TRACE_H
#define KW_PROXY_SOURCE_TRACE_H

#include "base/stages.h"
#include "keys/dirty.h"

#include <stdbool.h>
#include <stdint.h>

enum kw_trace_stage {
	KW_TRACE_PRIMARY, /* a barrier was asked for, and all events before it were told */
	KW_TRACE_EVENTS,  /* the event was read, and its key is in the dirty set */
	KW_TRACE_WAIT,    /* … and was asked for */
	KW_TRACE_FETCH,   /* … and its value is in the table */
	KW_TRACE_PUBLISH, /* … and readers can see it */
	KW_TRACE_STAGES,
};

enum kw_trace_state { KW_TRACE_IDLE, KW_TRACE_WAITS, KW_TRACE_FETCHED, KW_TRACE_STORED };

#define KW_TRACE_CHANGES KW_DIRTY_WATCHES

struct kw_trace_change {
	enum kw_trace_state state;
	uint64_t arrived_us; /* not IDLE: when the event was read; 0: not known */
	uint64_t told_us;    /* … when its key was in the dirty set */
	uint64_t asked_us;   /* FETCHED, STORED */
	uint64_t stored_us;  /* STORED */
};

/* In this turn of the loop. */
enum kw_trace_turn { KW_TRACE_MAY_BEGIN, KW_TRACE_HAS_BEGUN };

struct kw_trace {
	struct kw_stages stages; /* of enum kw_trace_stage */
	struct kw_trace_change changes[KW_TRACE_CHANGES];
	uint32_t followed; /* not IDLE */
	uint32_t stored;   /* STORED */
	enum kw_trace_turn turn;
	uint64_t random;
	uint64_t barrier_us; /* when one was asked for; 0: none is out */
};

void kw_trace_init(struct kw_trace *trace, uint64_t seed, uint64_t now_us);

/* A change that is IDLE, if one more may be followed now; else KW_TRACE_CHANGES. */
uint32_t kw_trace_free(const struct kw_trace *trace);

/* Which key of so many (at least 1). */
size_t kw_trace_choose(struct kw_trace *trace, size_t count);

/*
 * Only of a change that kw_trace_free told. The dirty set watches its key from now on, under its
 * number. arrived_us 0: not known.
 */
void kw_trace_begin(struct kw_trace *trace, uint32_t number, uint64_t arrived_us, uint64_t now_us);

/*
 * A turn has taken its input, or has sent its questions: see what became of the changes.
 * unpublished: the table holds what no reader can see yet. If it does not when the answer to a
 * change is there, the value was in the table before, and the last stage is not counted.
 */
void kw_trace_look(
	struct kw_trace *trace, const struct kw_dirty *dirty, bool unpublished, uint64_t now_us);

/* One more change may be followed. */
void kw_trace_next_turn(struct kw_trace *trace);

/* All that is in the table can be seen by readers. */
void kw_trace_published(struct kw_trace *trace, uint64_t now_us);

/* A barrier: asked for, passed, forgotten. */
void kw_trace_asked(struct kw_trace *trace, uint64_t now_us);
void kw_trace_passed(struct kw_trace *trace, uint64_t now_us);
void kw_trace_forget(struct kw_trace *trace);

#endif
