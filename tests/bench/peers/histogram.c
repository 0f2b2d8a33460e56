#include "histogram.h"

#include <inttypes.h>
#include <stdio.h>

void histogram_add(struct histogram *histogram, uint64_t us)
{
	uint64_t ms = us / 1000;

	histogram->count++;
	if (us > histogram->max_us)
		histogram->max_us = us;
	if (us < HISTOGRAM_FINE)
		histogram->fine[us]++;
	else
		histogram->coarse[ms < HISTOGRAM_COARSE ? ms : HISTOGRAM_COARSE - 1]++;
}

uint64_t histogram_quantile(const struct histogram *histogram, double q)
{
	uint64_t wanted = (uint64_t)((double)histogram->count * q), seen = 0;

	if (histogram->count == 0)
		return 0;
	for (uint64_t us = 0; us < HISTOGRAM_FINE; us++) {
		seen += histogram->fine[us];
		if (seen > wanted)
			return us;
	}
	for (uint64_t ms = 0; ms < HISTOGRAM_COARSE; ms++) {
		seen += histogram->coarse[ms];
		if (seen > wanted)
			return ms * 1000;
	}
	return histogram->max_us;
}

void histogram_print(const struct histogram *histogram)
{
	printf("\"samples\":%" PRIu64 ",\"p50_us\":%" PRIu64 ",\"p99_us\":%" PRIu64
	       ",\"max_us\":%" PRIu64,
		histogram->count, histogram_quantile(histogram, 0.5),
		histogram_quantile(histogram, 0.99), histogram->max_us);
}
