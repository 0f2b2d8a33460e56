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

#include "gets.h"

#include <stdint.h>
#include <string.h>

#define KW_FLIGHTS_BUCKETS 1024 /* as many as there can be lookups: KW_LOOKUPS_DEPTH_MAX */

/* Zeroed: there are none. */
struct kw_flights {
	struct kw_question *buckets[KW_FLIGHTS_BUCKETS];
	uint32_t joined; /* questions that wait for another one's lookup */
};

/*
 * Of long keys the first and the last bytes are enough: keys are compared, and few are looked up at
 * once. It costs less than a hash of the whole key would.
 */
static inline uint64_t kw_flights_hash(const struct kw_question *question)
{
	const uint64_t spread = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / the golden ratio */
	const struct kw_slice key = question->key;
	uint64_t first = 0, last = 0;

	if (key.length >= sizeof first) {
		memcpy(&first, key.data, sizeof first);
		memcpy(&last, (const char *)key.data + key.length - sizeof last, sizeof last);
	} else {
		for (size_t i = 0; i < key.length; i++)
			first = first << 8 | ((const uint8_t *)key.data)[i];
	}
	first = ((first ^ key.length) * spread ^ last ^ question->database) * spread;
	return first ^ first >> 32; /* the upper bits have seen all of it */
}

/*
 * The leader of the question's key; NULL: there is none. The hash of the key is left in the
 * question for kw_flights_add.
 */
static inline struct kw_question *kw_flights_find(
	const struct kw_flights *flights, struct kw_question *question)
{
	struct kw_question *leader;

	question->hash = kw_flights_hash(question);
	leader = flights->buckets[question->hash % KW_FLIGHTS_BUCKETS];
	while (leader &&
		(leader->hash != question->hash || leader->database != question->database ||
			!kw_slice_equal(leader->key, question->key)))
		leader = leader->chain;
	return leader;
}

/* The question was not found. */
static inline void kw_flights_add(struct kw_flights *flights, struct kw_question *leader)
{
	struct kw_question **bucket = &flights->buckets[leader->hash % KW_FLIGHTS_BUCKETS];

	leader->chain = *bucket;
	leader->joined = NULL;
	*bucket = leader;
}

void kw_flights_join(
	struct kw_flights *flights, struct kw_question *leader, struct kw_question *question);

/* The lookup has ended. Returns those that have joined, in their order, by `next`. */
static inline struct kw_question *kw_flights_land(
	struct kw_flights *flights, struct kw_question *leader)
{
	struct kw_question **link = &flights->buckets[leader->hash % KW_FLIGHTS_BUCKETS];

	while (*link != leader)
		link = &(*link)->chain;
	*link = leader->chain;
	for (struct kw_question *at = leader->joined; at; at = at->next)
		flights->joined--;
	return leader->joined;
}

#endif
