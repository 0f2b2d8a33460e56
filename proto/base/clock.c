#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t kw_clock_us(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

uint64_t kw_wall_us(void)
{
	return read_clock(CLOCK_REALTIME);
}

uint64_t kw_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
