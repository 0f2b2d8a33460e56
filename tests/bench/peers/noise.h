/* Bytes and numbers that look random and are the same in every run. */
#ifndef KW_BENCH_NOISE_H
#define KW_BENCH_NOISE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline uint64_t noise_next(uint64_t *state)
{
	uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

static inline void noise_fill(uint64_t *state, char *data, size_t length)
{
	while (length > 0) {
		uint64_t word = noise_next(state);
		size_t part = length < sizeof word ? length : sizeof word;

		memcpy(data, &word, part);
		data += part;
		length -= part;
	}
}

#endif
