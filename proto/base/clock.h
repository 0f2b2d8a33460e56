/*
 * Time. Pure code is handed the time; only loop-facing code asks for it here. Any thread.
 */
#ifndef KW_BASE_CLOCK_H
#define KW_BASE_CLOCK_H

#include <stdint.h>

/* Microseconds of a clock that never steps (CLOCK_MONOTONIC): intervals and deadlines. */
uint64_t kw_clock_us(void);

/* Microseconds since 1970 (CLOCK_REALTIME): two hosts can compare it, within their skew. */
uint64_t kw_wall_us(void);

/* CPU time of the calling thread, in nanoseconds. Takes a system call. */
uint64_t kw_cpu_ns(void);

#endif
