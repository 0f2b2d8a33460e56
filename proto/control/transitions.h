/*
 * The last changes of a daemon's state, with reason and time: what happened while nobody watched.
 * A ring of KW_TRANSITIONS; the oldest is forgotten. It is told over HTTP and on the
 * control socket, and kept over restarts (transitions_file.h).
 *
 * A state can have a reason that counts ("silent for 3 s"). Such a reason takes the place of the
 * one before it, so that a long trouble does not push everything else out. Pure; any thread.
 */
#ifndef KW_CONTROL_TRANSITIONS_H
#define KW_CONTROL_TRANSITIONS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_TRANSITIONS 64
#define KW_TRANSITION_WORD 40
#define KW_TRANSITION_REASON 640 /* the end of a longer reason is left out */

struct kw_transition {
	uint64_t at_us; /* wall clock, of the first reason that differs in more than numbers */
	char state[KW_TRANSITION_WORD];
	char code[KW_TRANSITION_WORD]; /* of the reason */
	char *reason;                  /* the last one */
};

/* Zeroed: nothing has happened. */
struct kw_transitions {
	struct kw_transition items[KW_TRANSITIONS];
	uint64_t count; /* ever */
};

/*
 * Nothing is added if all three are as they were, or only numbers in the reason differ. True: one
 * was added.
 */
bool kw_transitions_add(struct kw_transitions *ring, uint64_t now_us, const char *state,
	const char *code, const char *reason);

/* When it came into this state, whatever the reasons since; 0: the last one told is another. */
uint64_t kw_transitions_since_us(const struct kw_transitions *ring, const char *state);

/*
 * The newest first, `most` of them: [{"at_us": …, "state": …, "reason_code": …, "reason": …}, …]
 */
json_t *kw_transitions_json(const struct kw_transitions *ring, size_t most);

/*
 * What kw_transitions_json told another ring, into this one, which is empty. False: the list is not
 * one of that kind, and nothing was taken.
 */
bool kw_transitions_take(struct kw_transitions *ring, const json_t *list);

void kw_transitions_close(struct kw_transitions *ring);

#endif
