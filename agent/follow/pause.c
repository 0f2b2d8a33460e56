#include "pause.h"

#define BEHIND_PART 256
#define AVERAGE_PART 4 /* the weight of the last distance */

static uint64_t lesser(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t greater(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t least_us(uint32_t idle_us, uint64_t behind_us)
{
	uint64_t most_us =
		lesser(KW_PAUSE_BEHIND_MOST_US, (uint64_t)KW_PAUSE_BEHIND_TIMES * idle_us);

	if (behind_us <= KW_PAUSE_BEHIND_US)
		return 0;
	return lesser((behind_us - KW_PAUSE_BEHIND_US) / BEHIND_PART, most_us);
}

/* A longer distance asks for no longer pause. */
static void learn_distance(struct kw_pause *pause, uint64_t distance_us, uint32_t idle_us)
{
	uint64_t most_us = lesser((uint64_t)KW_PAUSE_LOOKS * idle_us, UINT32_MAX);
	uint64_t before_us = pause->distance_us, sample_us = lesser(distance_us, most_us);

	if (before_us == 0)
		before_us = sample_us;
	pause->distance_us =
		(uint32_t)((before_us * (AVERAGE_PART - 1) + sample_us + AVERAGE_PART / 2) /
			   AVERAGE_PART);
}

static void found(struct kw_pause *pause, uint64_t look_us, uint32_t idle_us)
{
	bool first = pause->found_us == 0;

	if (first || look_us - pause->found_us >= KW_PAUSE_BURST_US) {
		if (!first)
			learn_distance(pause, look_us - pause->burst_us, idle_us);
		pause->burst_us = look_us;
	}
	pause->found_us = look_us;
}

/* While nothing is found. */
static uint64_t longest_us(const struct kw_pause *pause, uint64_t look_us, uint32_t idle_us)
{
	uint64_t silence_us = (uint64_t)KW_PAUSE_SILENCE * pause->distance_us;

	if (pause->distance_us == 0 || look_us - pause->found_us > silence_us)
		return idle_us;
	return lesser(greater(pause->distance_us / KW_PAUSE_LOOKS, KW_PAUSE_FIRST_US), idle_us);
}

uint32_t kw_pause_next_us(
	struct kw_pause *pause, bool moved, uint64_t look_us, uint32_t idle_us, uint64_t behind_us)
{
	uint64_t next_us = 0;

	if (moved) {
		found(pause, look_us, idle_us);
	} else {
		next_us = greater(2 * (uint64_t)pause->us, KW_PAUSE_FIRST_US);
		next_us = lesser(next_us, longest_us(pause, look_us, idle_us));
	}
	pause->us = (uint32_t)greater(next_us, least_us(idle_us, behind_us));
	return pause->us;
}
