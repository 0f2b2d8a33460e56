#include "source/order.h"

#include "base/hash.h"

#include <assert.h>
#include <string.h>

void kw_order_init(struct kw_order *order, uint64_t seed)
{
	*order = (struct kw_order){.seed = seed};
}

static void clear(struct kw_order_set *set)
{
	if (set->count > 0)
		memset(set, 0, sizeof *set);
}

void kw_order_reset(struct kw_order *order)
{
	order->state = KW_ORDER_OFF;
	clear(&order->since);
	clear(&order->before);
}

static uint32_t bit_of(const struct kw_order *order, uint32_t database, struct kw_slice key)
{
	uint64_t hash = kw_hash_key(order->seed, database, key.data, key.length);

	return (uint32_t)(hash & (KW_ORDER_BITS - 1));
}

static bool has(const struct kw_order_set *set, uint32_t bit)
{
	return set->count > 0 && (set->bits[bit / 64] >> (bit % 64) & 1);
}

void kw_order_fetched(struct kw_order *order, uint32_t database, struct kw_slice key)
{
	uint32_t bit;

	if (order->state == KW_ORDER_OFF || order->state == KW_ORDER_WANTED)
		return; /* every key is guarded until an order that is still to be asked */
	bit = bit_of(order, database, key);
	order->since.bits[bit / 64] |= UINT64_C(1) << (bit % 64);
	if (order->since.count < UINT32_MAX)
		order->since.count++;
}

bool kw_order_guards(struct kw_order *order, uint32_t database, struct kw_slice key)
{
	uint32_t bit;

	if (order->state == KW_ORDER_OFF)
		order->state = KW_ORDER_WANTED;
	if (order->state == KW_ORDER_WANTED || order->state == KW_ORDER_FIRST)
		return true;
	if (order->since.count == 0 && order->before.count == 0)
		return false;
	bit = bit_of(order, database, key);
	return has(&order->since, bit) || has(&order->before, bit);
}

bool kw_order_is_due(const struct kw_order *order)
{
	return order->state == KW_ORDER_WANTED ||
	       (order->state == KW_ORDER_EVEN && order->since.count > 0);
}

void kw_order_asked(struct kw_order *order)
{
	assert(kw_order_is_due(order));
	if (order->state == KW_ORDER_WANTED) {
		order->state = KW_ORDER_FIRST;
		return;
	}
	assert(order->before.count == 0);
	order->before = order->since;
	clear(&order->since);
	order->state = KW_ORDER_ASKED;
}

void kw_order_passed(struct kw_order *order)
{
	assert(order->state == KW_ORDER_FIRST || order->state == KW_ORDER_ASKED);
	clear(&order->before);
	order->state = KW_ORDER_EVEN;
}
