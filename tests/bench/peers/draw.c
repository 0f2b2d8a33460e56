#include "draw.h"

#include "noise.h"
#include "peer.h"

#include <math.h>
#include <stdlib.h>

#define ZIPF_EXPONENT 0.99

/* Sums of 1/rank^s; a draw is a place in them. */
static double *zipf_sums(uint32_t keys)
{
	double *sums = malloc(keys * sizeof *sums), sum = 0;

	if (!sums)
		peer_die("out of memory");
	for (uint32_t i = 0; i < keys; i++)
		sums[i] = sum += pow(i + 1, -ZIPF_EXPONENT);
	return sums;
}

static uint32_t zipf_rank(const double *sums, uint32_t keys, uint64_t number)
{
	double at = (double)(number >> 11) / (double)(UINT64_C(1) << 53) * sums[keys - 1];
	uint32_t low = 0, high = keys - 1;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (sums[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void allocate(struct draw *draw)
{
	*draw = (struct draw){.drawn = malloc(DRAWN * sizeof *draw->drawn)};
	if (!draw->drawn)
		peer_die("out of memory");
}

void draw_open(struct draw *draw, uint32_t keys, bool zipf, uint64_t seed)
{
	double *sums = zipf ? zipf_sums(keys) : NULL;

	allocate(draw);
	for (uint32_t i = 0; i < DRAWN; i++) {
		uint64_t number = noise_next(&seed);

		if (sums) {
			number = zipf_rank(sums, keys, number);
			number = noise_next(&number);
		}
		draw->drawn[i] = (uint32_t)(number % keys);
	}
	free(sums);
}

void draw_ranks(struct draw *draw, uint32_t keys, uint64_t seed)
{
	double *sums = zipf_sums(keys);

	allocate(draw);
	for (uint32_t i = 0; i < DRAWN; i++)
		draw->drawn[i] = zipf_rank(sums, keys, noise_next(&seed));
	free(sums);
}

void draw_close(struct draw *draw)
{
	free(draw->drawn);
}
