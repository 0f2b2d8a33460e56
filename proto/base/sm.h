/*
 * State machines with their rules written down: the states that begin and end it, a table of the
 * allowed moves, an invariant checked at every move, and a trace line.
 *
 *     static const struct kw_sm_state states[] = {
 *         [CLOSED] = {"closed", KW_SM_TO(OPEN), KW_SM_INITIAL},
 *         [OPEN]   = {"open", KW_SM_TO(CLOSED) | KW_SM_TO(BROKEN)},
 *         [BROKEN] = {"broken", 0, KW_SM_FAILURE},
 *     };
 *     static const struct kw_sm_conf machine = {"door", states, BROKEN + 1, door_holds};
 *
 * These are bugs of ours: a move that the table does not allow, a start in a state that is not
 * initial, an invariant that does not hold. The process aborts, with a sentence in the log.
 *
 * The states are small integers (an enum), at most 32. conf is static and outlives the machine; the
 * owner outlives it too. One thread.
 */
#ifndef KW_BASE_SM_H
#define KW_BASE_SM_H

#include <stdbool.h>
#include <stdint.h>

enum kw_sm_marks {
	KW_SM_INITIAL = 1, /* the machine may begin here */
	KW_SM_FINAL = 2,   /* the end: no move leads out of it */
	KW_SM_FAILURE = 4, /* the machine came here because something failed */
};

struct kw_sm_state {
	const char *name;
	uint32_t allowed; /* bits of the states that can follow: KW_SM_TO(A) | KW_SM_TO(B) */
	unsigned marks;   /* of enum kw_sm_marks */
};

#define KW_SM_TO(state) (UINT32_C(1) << (state))

struct kw_sm_conf {
	const char *where; /* the name in log lines */
	const struct kw_sm_state *states;
	int count;
	/*
	 * What must hold of the owner in this state. Called after the start and after each move,
	 * when `state` is the new one: the owner prepares what a state needs before it moves there.
	 * NULL: nothing is checked.
	 */
	bool (*invariant)(const void *owner, int state);
};

struct kw_sm {
	const struct kw_sm_conf *conf;
	const void *owner; /* given to the invariant */
	int state;
	uint64_t moves;
};

/* Begin in `state`, which the table marks as initial. */
void kw_sm_init(struct kw_sm *sm, const struct kw_sm_conf *conf, const void *owner, int state);

/*
 * Move; reason is a sentence for the log ("" for none). Moving to the present state changes
 * nothing, but the invariant is checked.
 */
void kw_sm_move(struct kw_sm *sm, int state, const char *reason);

/* Check the invariant now, without a move. */
void kw_sm_check(const struct kw_sm *sm);

/* Is the present state marked as a failure, or as the end? */
bool kw_sm_failed(const struct kw_sm *sm);
bool kw_sm_ended(const struct kw_sm *sm);

const char *kw_sm_name(const struct kw_sm *sm);

#endif
