#include "clock.h"

#include <stddef.h>

static int64_t larger(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t lesser(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static struct kw_clock_bounds both(const struct kw_proxy_clock *clock)
{
	if (!clock->known_before)
		return clock->now;
	return (struct kw_clock_bounds){
		.low = larger(clock->now.low, clock->before.low),
		.high = lesser(clock->now.high, clock->before.high),
	};
}

/* What this one look says of the offset. */
static struct kw_clock_bounds bounds_of(
	const struct kw_proxy_clock *clock, uint64_t heartbeat_us, uint64_t ended_us)
{
	const bool moved = clock->looked_us > 0 && heartbeat_us != clock->heartbeat_us;

	return (struct kw_clock_bounds){
		.low = (int64_t)(heartbeat_us - ended_us),
		.high = moved ? (int64_t)(heartbeat_us - clock->looked_us) : INT64_MAX,
	};
}

static bool contradicts(const struct kw_clock_bounds *known, const struct kw_clock_bounds *look)
{
	if (look->high < INT64_MAX && known->low > look->high + KW_CLOCK_DRIFT_US)
		return true; /* set back */
	return known->high < INT64_MAX && look->low > known->high + KW_CLOCK_DRIFT_US;
}

void kw_proxy_clock_learn(
	struct kw_proxy_clock *clock, uint64_t heartbeat_us, uint64_t begun_us, uint64_t ended_us)
{
	struct kw_clock_bounds look = bounds_of(clock, heartbeat_us, ended_us);
	struct kw_clock_bounds known = both(clock);
	const bool same = clock->known && heartbeat_us == clock->heartbeat_us;

	clock->heartbeat_us = heartbeat_us;
	clock->looked_us = begun_us;
	/* The look that brought it first says more. What is known stays, however long this lasts.
	 */
	if (same)
		return;
	if (!clock->known || contradicts(&known, &look)) {
		clock->now = look;
		clock->known = true;
		clock->known_before = false;
		clock->window_us = ended_us;
		return;
	}
	if (ended_us - clock->window_us > KW_CLOCK_WINDOW_US) {
		clock->before = clock->now;
		clock->known_before = true;
		clock->now = look;
		clock->window_us = ended_us;
		return;
	}
	clock->now.low = larger(clock->now.low, look.low);
	clock->now.high = lesser(clock->now.high, look.high);
}

uint64_t kw_proxy_clock_now_us(const struct kw_proxy_clock *clock, uint64_t now_us)
{
	return clock->known ? now_us + (uint64_t)both(clock).low : 0;
}

uint64_t kw_proxy_clock_error_us(const struct kw_proxy_clock *clock)
{
	struct kw_clock_bounds bounds = both(clock);

	if (!clock->known || bounds.high == INT64_MAX)
		return UINT64_MAX;
	return bounds.high > bounds.low ? (uint64_t)(bounds.high - bounds.low) : 0;
}
