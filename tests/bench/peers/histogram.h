/*
 * Latencies, counted: exact below 65.536 ms, to the millisecond up to 65 s, the maximum always
 * exact. Fixed memory, whatever the number of samples.
 */
#ifndef KW_BENCH_HISTOGRAM_H
#define KW_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_FINE 65536   /* of 1 us */
#define HISTOGRAM_COARSE 65536 /* of 1 ms */

struct histogram {
	uint64_t count, max_us;
	uint32_t fine[HISTOGRAM_FINE], coarse[HISTOGRAM_COARSE];
};

void histogram_add(struct histogram *histogram, uint64_t us);

/* The value that a share q (0..1) of the samples does not exceed; 0 without samples. */
uint64_t histogram_quantile(const struct histogram *histogram, double q);

/* "samples":N,"p50_us":N,"p99_us":N,"max_us":N, without braces, to standard output. */
void histogram_print(const struct histogram *histogram);

#endif
