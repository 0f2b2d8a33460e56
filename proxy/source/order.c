#include "source/order.h"

#include "base/buffer.h"
#include "base/hash.h"

#include <assert.h>
#include <stdlib.h>

#define OPEN UINT64_MAX /* the offset after it was not told yet */

void kw_order_init(struct kw_order *order, uint64_t seed)
{
	*order = (struct kw_order){.seed = seed};
}

void kw_order_close(struct kw_order *order)
{
	free(order->buckets);
}

void kw_order_reset(struct kw_order *order)
{
	free(order->buckets);
	kw_order_init(order, order->seed);
}

static bool is_told(const struct kw_order *order)
{
	return order->state == KW_ORDER_EVEN || order->state == KW_ORDER_ASKED;
}

static bool is_free(const struct kw_order *order, const struct kw_order_place *place)
{
	return place->after <= order->passed;
}

static struct kw_order_place *place_of(
	const struct kw_order *order, struct kw_order_bucket *bucket, uint64_t hash)
{
	for (int i = 0; i < KW_ORDER_PLACES; i++)
		if (bucket->places[i].hash == hash && !is_free(order, &bucket->places[i]))
			return &bucket->places[i];
	return NULL;
}

static struct kw_order_place *free_place(
	const struct kw_order *order, struct kw_order_bucket *bucket)
{
	for (int i = 0; i < KW_ORDER_PLACES; i++)
		if (is_free(order, &bucket->places[i]))
			return &bucket->places[i];
	return NULL;
}

static bool is_open(const struct kw_order_bucket *bucket)
{
	for (int i = 0; i < KW_ORDER_PLACES; i++)
		if (bucket->places[i].after == OPEN)
			return true;
	return bucket->crowded == OPEN;
}

static void open_place(
	struct kw_order *order, struct kw_order_bucket *bucket, uint64_t hash, uint64_t before)
{
	struct kw_order_place *place = place_of(order, bucket, hash);

	if (!place)
		place = free_place(order, bucket);
	if (place)
		*place = (struct kw_order_place){hash, before, OPEN};
	else
		bucket->crowded = OPEN;
}

static uint64_t *until_of(struct kw_order *order, uint32_t database)
{
	return &order->until[database % KW_ORDER_UNTILS];
}

static void note(struct kw_order *order, uint32_t database, struct kw_slice key, uint64_t before)
{
	uint64_t hash = kw_hash_key(order->seed, database, key.data, key.length);
	uint32_t number = (uint32_t)(hash & (KW_ORDER_BUCKETS - 1));
	struct kw_order_bucket *bucket;

	if (!is_told(order))
		return; /* all are unsure until the first offset, which is after this fetch */
	if (!order->buckets)
		order->buckets = kw_zalloc(KW_ORDER_BUCKETS * sizeof *order->buckets);
	bucket = &order->buckets[number];
	if (!is_open(bucket))
		order->open[order->open_count++] = number;
	open_place(order, bucket, hash, before);
	*until_of(order, database) = OPEN;
}

void kw_order_fetched(struct kw_order *order, uint32_t database, struct kw_slice key)
{
	note(order, database, key, order->last);
}

void kw_order_asked_for(struct kw_order *order, uint32_t database, struct kw_slice key)
{
	note(order, database, key, 0);
}

void kw_order_emptied(struct kw_order *order, uint32_t database)
{
	if (!is_told(order))
		return;
	open_place(order, &order->emptied, database, order->last);
	*until_of(order, database) = OPEN;
}

static enum kw_order_age age_in(const struct kw_order *order, struct kw_order_bucket *bucket,
	uint64_t hash, struct kw_order_span span)
{
	const struct kw_order_place *place = place_of(order, bucket, hash);

	if (place && span.begin < place->after)
		return span.end <= place->before ? KW_ORDER_OLD : KW_ORDER_UNSURE;
	return !place && span.begin < bucket->crowded ? KW_ORDER_UNSURE : KW_ORDER_NEW;
}

/* The table is as of the later of both, so what is old to one of them is old. */
static enum kw_order_age older(enum kw_order_age one, enum kw_order_age other)
{
	return one < other ? one : other;
}

/* The stream is here. False: no offset was told yet, or this is before the first one. */
static bool advance(struct kw_order *order, uint64_t begin)
{
	if (order->state == KW_ORDER_OFF)
		order->state = KW_ORDER_WANTED;
	if (!is_told(order) || begin < order->first)
		return false;
	if (begin > order->passed)
		order->passed = begin;
	return true;
}

static bool has_passed_all(const struct kw_order *order, uint64_t begin)
{
	for (int i = 0; i < KW_ORDER_UNTILS; i++)
		if (begin < order->until[i])
			return false;
	return true;
}

bool kw_order_has_passed(
	struct kw_order *order, const struct kw_databases *databases, uint64_t begin)
{
	if (!advance(order, begin))
		return false;
	if (databases->all)
		return has_passed_all(order, begin);
	for (uint32_t db = 0; kw_databases_next(databases, &db); db++)
		if (begin < *until_of(order, db))
			return false;
	return true;
}

enum kw_order_age kw_order_age(
	struct kw_order *order, uint32_t database, struct kw_slice key, struct kw_order_span span)
{
	struct kw_order_bucket *bucket;
	enum kw_order_age emptied;
	uint64_t hash;

	if (!advance(order, span.begin))
		return KW_ORDER_UNSURE;
	if (span.begin >= *until_of(order, database))
		return KW_ORDER_NEW;
	emptied = age_in(order, &order->emptied, database, span);
	if (!order->buckets)
		return emptied;
	hash = kw_hash_key(order->seed, database, key.data, key.length);
	bucket = &order->buckets[hash & (KW_ORDER_BUCKETS - 1)];
	return older(emptied, age_in(order, bucket, hash, span));
}

bool kw_order_is_due(const struct kw_order *order)
{
	bool open = order->open_count > 0 || is_open(&order->emptied);

	return order->state == KW_ORDER_WANTED || (order->state == KW_ORDER_EVEN && open);
}

void kw_order_asked(struct kw_order *order)
{
	assert(kw_order_is_due(order));
	order->state = order->state == KW_ORDER_WANTED ? KW_ORDER_FIRST : KW_ORDER_ASKED;
}

static void end_open(struct kw_order_bucket *bucket, uint64_t offset)
{
	for (int i = 0; i < KW_ORDER_PLACES; i++)
		if (bucket->places[i].after == OPEN)
			bucket->places[i].after = offset;
	if (bucket->crowded == OPEN)
		bucket->crowded = offset;
}

void kw_order_told(struct kw_order *order, uint64_t offset)
{
	assert(order->state == KW_ORDER_FIRST || order->state == KW_ORDER_ASKED);
	if (order->state == KW_ORDER_FIRST)
		order->first = offset;
	for (uint32_t i = 0; i < order->open_count; i++)
		end_open(&order->buckets[order->open[i]], offset);
	end_open(&order->emptied, offset);
	for (int i = 0; i < KW_ORDER_UNTILS; i++)
		if (order->until[i] == OPEN)
			order->until[i] = offset;
	order->open_count = 0;
	order->last = offset;
	order->state = KW_ORDER_EVEN;
}
