#include "pause.h"

#define BEHIND_PART 256

static uint32_t lesser(uint64_t a, uint64_t b)
{
	return (uint32_t)(a < b ? a : b);
}

static uint32_t least_us(uint32_t idle_us, uint64_t behind_us)
{
	uint32_t most_us =
		lesser(KW_PAUSE_BEHIND_MOST_US, (uint64_t)KW_PAUSE_BEHIND_TIMES * idle_us);

	if (behind_us <= KW_PAUSE_BEHIND_US)
		return 0;
	return lesser((behind_us - KW_PAUSE_BEHIND_US) / BEHIND_PART, most_us);
}

uint32_t kw_pause_next_us(uint32_t last_us, bool moved, uint32_t idle_us, uint64_t behind_us)
{
	uint32_t least = least_us(idle_us, behind_us);
	uint32_t next =
		moved ? 0 : lesser(last_us ? 2 * (uint64_t)last_us : KW_PAUSE_FIRST_US, idle_us);

	return next > least ? next : least;
}
