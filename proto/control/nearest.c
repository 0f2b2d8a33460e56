#include "control/nearest.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

#define WORD_MAX 96 /* longer words get no suggestion */

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Edits (insert, delete, replace, swap of neighbours) that turn a into b. */
static size_t edit_distance(const char *a, const char *b)
{
	size_t rows[3][WORD_MAX + 1];
	size_t *before = rows[0], *above = rows[1], *row = rows[2];
	size_t a_length = strlen(a), b_length = strlen(b);

	if (a_length > WORD_MAX || b_length > WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= b_length; j++)
		above[j] = j;
	for (size_t i = 1; i <= a_length; i++) {
		size_t *spare = before;

		row[0] = i;
		for (size_t j = 1; j <= b_length; j++) {
			size_t cost = a[i - 1] != b[j - 1];

			row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + cost);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], before[j - 2] + 1);
		}
		before = above;
		above = row;
		row = spare;
	}
	return above[b_length];
}

static void offer(struct kw_nearest *nearest, const char *candidate, size_t distance)
{
	if (distance < nearest->distance) {
		nearest->best = candidate;
		nearest->distance = distance;
	}
}

void kw_nearest_init(struct kw_nearest *nearest, const char *word)
{
	assert(word);
	*nearest = (struct kw_nearest){.word = word, .distance = SIZE_MAX};
}

void kw_nearest_try(struct kw_nearest *nearest, const char *candidate)
{
	offer(nearest, candidate, edit_distance(nearest->word, candidate));
}

void kw_nearest_try_path(struct kw_nearest *nearest, const char *candidate)
{
	const char *word_tail = strrchr(nearest->word, '.');
	const char *tail = strrchr(candidate, '.');
	size_t distance;

	kw_nearest_try(nearest, candidate);
	if (!tail)
		return;
	distance = edit_distance(word_tail ? word_tail + 1 : nearest->word, tail + 1);
	/* One more, so that a whole match of the same quality wins. */
	if (distance != SIZE_MAX)
		offer(nearest, candidate, distance + 1);
}

const char *kw_nearest_word(const struct kw_nearest *nearest)
{
	size_t limit = strlen(nearest->word) / 3;

	assert(nearest->best || nearest->distance == SIZE_MAX);
	if (limit < 2)
		limit = 2;
	/* A word of two letters is within two edits of anything. */
	if (nearest->distance >= strlen(nearest->word) + 1)
		return NULL;
	return nearest->distance <= limit ? nearest->best : NULL;
}
