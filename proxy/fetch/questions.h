/*
 * Questions that were asked and are not answered yet, in order, so that they can be asked again. A
 * queue of copies in one buffer; at rest it allocates nothing. Pure.
 *
 * The caller owns the struct; zeroed memory is the empty queue. The askers bound its length: a
 * window of fetches, one look, one step of each scan.
 */
#ifndef KW_PROXY_FETCH_QUESTIONS_H
#define KW_PROXY_FETCH_QUESTIONS_H

#include "base/buffer.h"
#include "base/slice.h"
#include "redis/redis.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KW_QUESTION_WORDS 8 /* at most */

struct kw_questions {
	struct kw_buffer bytes;
	uint32_t count;
};

struct kw_question {
	kw_reply_fn fn;
	void *arg;
	int64_t database; /* that was selected when it was asked */
	int argc;
	struct kw_slice argv[KW_QUESTION_WORDS]; /* within the queue: valid until it changes */
};

/* The words are copied. */
void kw_questions_add(struct kw_questions *questions, const struct kw_question *question);

/* Walk them, the first one first: *at is 0 to begin with. False: there are no more. */
bool kw_questions_next(
	const struct kw_questions *questions, size_t *at, struct kw_question *question);

/* Remove the first one. There is one. */
void kw_questions_remove(struct kw_questions *questions);

void kw_questions_close(struct kw_questions *questions);

#endif
