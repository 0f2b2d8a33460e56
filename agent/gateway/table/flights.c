#include "flights.h"

#include "gets.h"

#include <assert.h>
#include <string.h>

/* Odd, and without a pattern (2^64 / the golden ratio). */
#define SPREAD UINT64_C(0x9e3779b97f4a7c15)

/* Of long keys the first and the last bytes are enough: a bucket holds few, and keys are compared.
 */
static uint64_t mix(struct kw_slice key)
{
	uint64_t first = 0, last = 0;

	if (key.length >= sizeof first) {
		memcpy(&first, key.data, sizeof first);
		memcpy(&last, (const char *)key.data + key.length - sizeof last, sizeof last);
	} else if (key.length > 0) {
		memcpy(&first, key.data, key.length);
	}
	return (first * SPREAD) ^ last ^ key.length;
}

static uint32_t bucket_of(const struct kw_question *question)
{
	uint64_t hash = (mix(question->key) ^ question->database) * SPREAD;

	return (uint32_t)(hash >> 32) % KW_FLIGHTS_BUCKETS;
}

struct kw_question *kw_flights_find(
	const struct kw_flights *flights, const struct kw_question *question)
{
	struct kw_question *leader = flights->buckets[bucket_of(question)];

	while (leader && (leader->database != question->database ||
				 !kw_slice_equal(leader->key, question->key)))
		leader = leader->chain;
	return leader;
}

void kw_flights_add(struct kw_flights *flights, struct kw_question *leader)
{
	struct kw_question **bucket = &flights->buckets[bucket_of(leader)];

	leader->chain = *bucket;
	leader->joined = leader->joined_last = NULL;
	*bucket = leader;
}

void kw_flights_join(
	struct kw_flights *flights, struct kw_question *leader, struct kw_question *question)
{
	question->next = NULL;
	if (leader->joined)
		leader->joined_last->next = question;
	else
		leader->joined = question;
	leader->joined_last = question;
	flights->joined++;
}

struct kw_question *kw_flights_land(struct kw_flights *flights, struct kw_question *leader)
{
	struct kw_question **link = &flights->buckets[bucket_of(leader)], *joined = leader->joined;

	while (*link != leader) {
		assert(*link);
		link = &(*link)->chain;
	}
	*link = leader->chain;
	leader->joined = NULL;
	for (struct kw_question *at = joined; at; at = at->next)
		flights->joined--;
	return joined;
}
