#include "base/clock.h"

#include <string.h>
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

/* It must come out again, or one of its numbers was out of range. */
bool kw_moment_parse(const char *text, int64_t *at_s)
{
	const bool day = strlen(text) == sizeof "2027-01-31" - 1;
	struct tm fields = {0};
	const char *end = strptime(text, day ? "%Y-%m-%d" : "%Y-%m-%dT%H:%M:%SZ", &fields);
	char again[KW_MOMENT_TEXT];

	if (!end || *end)
		return false;
	*at_s = timegm(&fields);
	return *at_s > 0 && strftime(again, sizeof again, "%Y-%m-%dT%H:%M:%SZ", &fields) > 0 &&
	       memcmp(again, text, strlen(text)) == 0;
}
