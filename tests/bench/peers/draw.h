/*
 * Which key comes next: numbers below `keys`, uniform or by a Zipf law of exponent 0.99 with the
 * ranks scattered, so that hot keys are no neighbours. They are drawn ahead and go round, so both
 * laws cost the same while a load runs.
 */
#ifndef KW_BENCH_DRAW_H
#define KW_BENCH_DRAW_H

#include <stdbool.h>
#include <stdint.h>

#define DRAWN (UINT32_C(1) << 21) /* a power of two */

struct draw {
	uint32_t *drawn;
	uint32_t next;
};

/* keys is at least 1. */
void draw_open(struct draw *draw, uint32_t keys, bool zipf, uint64_t seed);
/* Zipf, and the ranks are not scattered: 0 is the most frequent. */
void draw_ranks(struct draw *draw, uint32_t keys, uint64_t seed);
void draw_close(struct draw *draw);

static inline uint32_t draw_next(struct draw *draw)
{
	return draw->drawn[draw->next++ & (DRAWN - 1)];
}

#endif
