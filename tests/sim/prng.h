/*
 * The simulator's only source of chance: a seed repeats a schedule exactly, on any host.
 * splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators").
 */
#ifndef KW_SIM_PRNG_H
#define KW_SIM_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct prng {
	uint64_t state;
};

static inline uint64_t prng_next(struct prng *prng)
{
	uint64_t z = prng->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* 0 … bound - 1; bound 0 gives 0. The bias of the modulo does not matter here. */
static inline uint64_t prng_below(struct prng *prng, uint64_t bound)
{
	return bound ? prng_next(prng) % bound : 0;
}

/* low … high, both included. */
static inline uint64_t prng_range(struct prng *prng, uint64_t low, uint64_t high)
{
	return low + prng_below(prng, high - low + 1);
}

static inline bool prng_chance(struct prng *prng, unsigned per_mille)
{
	return prng_below(prng, 1000) < per_mille;
}

#endif
