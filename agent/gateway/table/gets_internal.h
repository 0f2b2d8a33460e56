/* Inside the gets: what is known of the table (gets_sight.c), what is told (gets_told.c). */
#ifndef KW_AGENT_GATEWAY_TABLE_GETS_INTERNAL_H
#define KW_AGENT_GATEWAY_TABLE_GETS_INTERNAL_H

#include "clock.h"
#include "flights.h"
#include "gets.h"
#include "near.h"
#include "table/lookup.h"

#include "base/clock.h"
#include "base/lag.h"

#include <assert.h>

struct questions {
	struct kw_question *first, *last;
	uint32_t count;
};

struct kw_gets {
	struct kw_gets_options options;
	struct kw_gets_handlers handlers;
	struct kw_follow follow;
	struct kw_scouts scouts; /* of the other proxies, if there are several */
	struct kw_near near;
	struct kw_reads reads;
	struct kw_lookups *lookups;
	struct kw_proxy_clock clock;
	struct kw_term term;            /* the highest that was seen */
	enum kw_term_standing standing; /* of the last superblock's mandate to it */
	bool had_mandate;               /* a table was seen whose proxy asks for one */
	struct questions waiting, looked, again;
	struct kw_flights flights;    /* those of `looked`, by their keys */
	struct kw_sight_verdict told; /* the last that handlers.state was told */
	struct kw_gets_stats stats;
	struct kw_lag staleness;
	char too_large[160]; /* the sentence */
	uv_timer_t tick;
	uv_idle_t step;          /* active in a turn of the loop in which the follow is due */
	uv_timer_t brisk;        /* active while questions are under way */
	uint64_t turn_us;        /* our clock in this turn of the loop; 0: not asked for yet */
	uint64_t reported_us;    /* to the proxy */
	uint64_t watch_until_us; /* the superblock is looked at until then; 0: if questions wait */
	bool closing;
	int open; /* parts not yet closed */
};

static inline void kw_questions_push(struct questions *list, struct kw_question *question)
{
	question->next = NULL;
	question->before = list->last;
	if (list->last)
		list->last->next = question;
	else
		list->first = question;
	list->last = question;
	list->count++;
}

static inline void kw_questions_take_out(struct questions *list, struct kw_question *question)
{
	if (question->before)
		question->before->next = question->next;
	else
		list->first = question->next;
	if (question->next)
		question->next->before = question->before;
	else
		list->last = question->before;
	assert(list->count > 0);
	list->count--;
}

static inline struct kw_question *kw_questions_pop(struct questions *list)
{
	struct kw_question *question = list->first;

	if (question)
		kw_questions_take_out(list, question);
	return question;
}

/* One turn of the loop is one moment, but for what expires. */
static inline uint64_t kw_gets_turn_us(struct kw_gets *gets)
{
	if (gets->turn_us == 0)
		gets->turn_us = kw_clock_us();
	return gets->turn_us;
}

/* ---- gets_sight.c ---- */

/* As of a moment up to which the table was known to be current; 0: the newest that is known. */
struct kw_sight_verdict kw_gets_judge(
	const struct kw_gets *gets, uint64_t now_us, uint64_t fresh_us);

/* The verdict in words. */
void kw_gets_say(const struct kw_gets *gets, const struct kw_sight_verdict *verdict,
	char words[KW_SIGHT_WORDS]);

/* Tell the owner of another state, or of another reason for it. */
void kw_gets_evaluate(struct kw_gets *gets, uint64_t now_us);

/* A look began at looked_us. Does it count for a question that was asked then? */
static inline bool kw_gets_is_proved(uint64_t looked_us, uint64_t asked_us)
{
	return looked_us + KW_GETS_LOOK_US >= asked_us;
}

/* A look is out for so long that nobody waits for it any more. */
bool kw_gets_look_is_late(struct kw_gets *gets);

/* The verdict allows no answer. May questions be told so, or does a look that is under way decide?
 */
bool kw_gets_may_refuse(struct kw_gets *gets);

/* ---- gets_told.c: a question that is told is on no list any more ---- */

/* The sight does not allow an answer. */
void kw_gets_tell_verdict(
	struct kw_gets *gets, struct kw_question *question, const struct kw_sight_verdict *verdict);
/* There was no certain answer in time. */
void kw_gets_tell_late(struct kw_gets *gets, struct kw_question *question);
/* What a lookup found, or that there is nothing, for the question that began it and for those of
 * `joined` that it counts for. The others wait again. */
void kw_gets_tell_found(struct kw_gets *gets, struct kw_question *question,
	struct kw_question *joined, const struct kw_lookup_result *result, uint64_t age_us);
/* What waits and is near is told without a READ. */
void kw_gets_tell_near(struct kw_gets *gets);

#endif
