/*
 * Time. Pure code is handed the time; only loop-facing code asks for it here. Any thread.
 */
#ifndef KW_BASE_CLOCK_H
#define KW_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Microseconds of a clock that never steps (CLOCK_MONOTONIC): intervals and deadlines. */
uint64_t kw_clock_us(void);

/* Microseconds since 1970 (CLOCK_REALTIME): two hosts can compare it, within their skew. */
uint64_t kw_wall_us(void);

/*
 * A day ("2027-01-31": its first second) or a moment ("2027-01-31T18:00:00Z") of UTC, as seconds
 * since 1970. False: it is neither, or no such day, or not after 1970. Pure.
 */
#define KW_MOMENT_TEXT sizeof "2027-01-31T18:00:00Z"
bool kw_moment_parse(const char *text, int64_t *at_s);

/* CPU time of the calling thread, in nanoseconds. Takes a system call. */
uint64_t kw_cpu_ns(void);

#endif
