/*
 * The keys that are being looked up: at most one lookup of a key at a time.
 *
 *   question ──▶ find ──┬─▶ none: it begins a lookup (add), and is the leader of its key
 *                       └─▶ a leader: it joins, and waits for the end of that lookup
 *
 * Two lookups of one key can end in another order than they began, because a remembered place takes
 * fewer READs than the index. The older value would then be told after the newer one. With one
 * lookup at a time, each begins after the one before has been told, and finds that value or a newer
 * one. So of one key versions never go back.
 *
 * Intrusive: the memory is that of the questions. Pure; one thread.
 */
#ifndef KW_AGENT_GATEWAY_TABLE_FLIGHTS_H
#define KW_AGENT_GATEWAY_TABLE_FLIGHTS_H

#include <stdint.h>

#define KW_FLIGHTS_BUCKETS 1024 /* as many as there can be lookups: KW_LOOKUPS_DEPTH_MAX */

struct kw_question;

/* Zeroed: there are none. */
struct kw_flights {
	struct kw_question *buckets[KW_FLIGHTS_BUCKETS];
	uint32_t joined; /* questions that wait for another one's lookup */
};

/* The leader of the question's key; NULL: there is none. */
struct kw_question *kw_flights_find(
	const struct kw_flights *flights, const struct kw_question *question);

void kw_flights_add(struct kw_flights *flights, struct kw_question *leader);
void kw_flights_join(
	struct kw_flights *flights, struct kw_question *leader, struct kw_question *question);

/* The lookup has ended. Returns those that have joined, in their order, by `next`. */
struct kw_question *kw_flights_land(struct kw_flights *flights, struct kw_question *leader);

#endif
